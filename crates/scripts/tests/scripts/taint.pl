#!/usr/bin/perl -wT
# expect: The script failed; the server's log says why.\n
# status: 500
# log: the first line asks for `-wT`
print "Content-Type: text/plain\n\n";
