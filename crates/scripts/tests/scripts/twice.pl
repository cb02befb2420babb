#!/usr/bin/perl
# Two variables of one name, both used by named subs, cannot become package variables.
# expect: %Q 1 2 1\n
# log: it is compiled for each request
use strict;
use warnings;
my $q = $ENV{QUERY_STRING};
{ my $n = 0; sub up { return ++$n } }
{ my $n = 0; sub upper { return ++$n } }
sub q { return $q }
print "Content-Type: text/plain\n\n", main::q(), ' ', up(), ' ', up(), ' ', upper(), "\n";
