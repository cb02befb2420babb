#!/usr/bin/perl
# expect: cat says 1 %Q\nbye\n
use strict;
use warnings;
package Animal;
our $made;
sub new { my ($class, %of) = @_; $made++; return bless {%of}, $class }
sub speak { my $self = shift; return "$self->{name} says $made $ENV{QUERY_STRING}\n" }
sub DESTROY { print "bye\n" }
package Cat;
our @ISA = ('Animal');
package main;
our $cat = Cat->new(name => 'cat');
print "Content-Type: text/plain\n\n", $cat->speak;
