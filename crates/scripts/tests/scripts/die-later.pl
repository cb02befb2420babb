#!/usr/bin/perl
# expect: some\n
# log: it broke at
print "Content-Type: text/plain\n\nsome\n";
die "it broke";
