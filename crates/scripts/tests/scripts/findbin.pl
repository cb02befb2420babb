#!/usr/bin/perl
# expect: 1 findbin.pl\n
use FindBin;
print "Content-Type: text/plain\n\n", -e "$FindBin::Bin/findbin.pl", " $FindBin::Script\n";
