#!/bin/sh
# expect: The script failed; the server's log says why.\n
# status: 500
# log: this is no script of Perl
echo
