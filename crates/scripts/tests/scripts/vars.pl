#!/usr/bin/perl
# expect: 1 1 3.5 1 start\n
use strict;
use warnings;
use vars qw($count @list);
use constant RATE => 3.5;
use POSIX qw(floor);
our $begun;
BEGIN { $begun = 'start' }
$count++;
push @list, $count;
print "Content-Type: text/plain\n\n$count ", scalar(@list), ' ', RATE, ' ', floor(1.5), " $begun\n";
$begun = 'changed';
