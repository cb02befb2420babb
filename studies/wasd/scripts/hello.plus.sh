#!/bin/sh
. ../lib/cgiplus.sh
while cgiplus_next; do
    echo "Content-Type: text/plain"
    echo ""
    echo "Hello!"
    cgiplus_end
done
