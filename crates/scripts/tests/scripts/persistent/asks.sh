#!/bin/sh
# What the runtime for the shell can do, by the query.
. "$RUNTIMES/cgiplus.sh"
number=0
while cgiplus_next; do
    number=$((number + 1))
    printf 'Content-Type: text/plain\n\n%s\n' "$number $QUERY_STRING"
    case $QUERY_STRING in
    whole) body=$(cat); printf "%s %.3s\n" "${#body}" "$body" ;;
    part) head -c 3 ;;
    ask) cgiplus_callout NOOP:; echo "${CGIPLUS_ANSWER%% *}" ;;
    long) seq 0 49999 ;;
    esac
    cgiplus_end
done
