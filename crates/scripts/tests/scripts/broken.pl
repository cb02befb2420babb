#!/usr/bin/perl
# expect: The script failed; the server's log says why.\n
# status: 500
# log: it does not compile: syntax error at
print "x" x;
