#!/usr/bin/perl
# A package of the same name as in another script.
# expect: other %Q\n
package Animal;
sub new { return bless {}, shift }
sub speak { return "other $ENV{QUERY_STRING}\n" }
package main;
print "Content-Type: text/plain\n\n", Animal->new->speak;
