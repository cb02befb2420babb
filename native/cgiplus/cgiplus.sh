# Persistent scripts of the POSIX shell: CGIplus.
#
#     . ./cgiplus.sh
#     while cgiplus_next; do
#         printf 'Content-Type: text/plain\n\n'
#         echo "hello $QUERY_STRING"
#         cgiplus_end
#     done
#
# The variables of the request are variables of the shell, exported to the programs that it runs. Standard input is the
# body of the request and ends behind it, so nothing of it can reach the next request.
# `cgiplus_callout "LIFETIME: 5"` asks the server and sets CGIPLUS_ANSWER.
# Started without CGIplus, a script answers one request of plain CGI.

cgiplus_eof=${CGIPLUSEOF-} cgiplus_eot=${CGIPLUSEOT-} cgiplus_esc=${CGIPLUSESC-}
cgiplus_names='' cgiplus_runs='' cgiplus_over=''
# Programs that the script runs, such as env, must not print the sentinels.
unset CGIPLUSEOF CGIPLUSEOT CGIPLUSESC CGIPLUSIN
if [ -n "$cgiplus_eof" ]; then
    exec 9<&0 0</dev/null
fi

# Waits for a request. Fails when the script is to end.
cgiplus_next() {
    cgiplus_end
    if [ -z "$cgiplus_eof" ]; then
        [ -z "$cgiplus_over" ] || return 1
        cgiplus_over=1 cgiplus_runs=1
        return 0
    fi
    for cgiplus_name in $cgiplus_names; do unset "$cgiplus_name"; done
    cgiplus_names=''
    IFS= read -r cgiplus_line <&3 || return 1
    if [ "$cgiplus_line" != '!' ]; then
        echo 'cgiplus: the shell reads variables as lines only: write record = "lines" into weir.toml' >&2
        exit 1
    fi
    while IFS= read -r cgiplus_line <&3 && [ -n "$cgiplus_line" ]; do
        cgiplus_name=${cgiplus_line%%=*}
        case $cgiplus_name in
        # These would change how the shell and its programs work.
        '' | [!A-Z]* | *[!A-Z0-9_]* | PATH | IFS | ENV | BASH_ENV | CDPATH | OPTIND | PS[0-9] | PWD | HOME | SHELL | LD_* | PERL* | PYTHON*) continue ;;
        esac
        cgiplus_names="$cgiplus_names $cgiplus_name"
        export "$cgiplus_name=${cgiplus_line#*=}"
    done
    case ${CONTENT_LENGTH-} in
    '' | *[!0-9]* | 0) ;;
    *) cgiplus_take_body ;;
    esac
    cgiplus_runs=1
}

# Keeps the body in a file without a name, as nothing else lets every program see its end.
cgiplus_take_body() {
    cgiplus_file=$(mktemp) || exit 1
    head -c "$CONTENT_LENGTH" <&9 >"$cgiplus_file" || exit 1
    exec 0<"$cgiplus_file"
    rm -f "$cgiplus_file"
}

# Ends the response.
cgiplus_end() {
    [ -n "$cgiplus_runs" ] || return 0
    cgiplus_runs=''
    [ -n "$cgiplus_eof" ] || return 0
    exec 0</dev/null
    printf '%s\n' "$cgiplus_eof"
}

# Asks the server; a request that begins with "!" has no answer.
cgiplus_callout() {
    CGIPLUS_ANSWER=''
    [ -n "$cgiplus_eof" ] || return 0
    printf '%s\n%s\n%s\n' "$cgiplus_esc" "$1" "$cgiplus_eot"
    case $1 in
    !*) ;;
    *) IFS= read -r CGIPLUS_ANSWER <&3 ;;
    esac
}
