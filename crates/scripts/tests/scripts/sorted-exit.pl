#!/usr/bin/perl
# expect: before\n
print "Content-Type: text/plain\n\nbefore\n";
print sort { exit } 2, 1;
print "never\n";
