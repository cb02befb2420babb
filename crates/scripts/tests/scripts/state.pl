#!/usr/bin/perl
# expect: 1 2\n
# log: it has `state` variables
use feature 'state';
sub up { state $n = 0; return ++$n }
print "Content-Type: text/plain\n\n", up(), ' ', up(), "\n";
