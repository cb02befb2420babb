#!/usr/bin/perl
# What the runtime for Perl can do, by the query.
use strict;
use warnings;
use Weir::CGIplus;
my $number = 0;
while (cgiplus_next()) {
    my $query = $ENV{QUERY_STRING};
    print "Content-Type: text/plain\n\n", ++$number, " $query\n";
    if ($query eq 'whole') { my $body = join '', <STDIN>; print length $body, ' ', substr($body, 0, 3), "\n" }
    elsif ($query eq 'part') { read STDIN, my $part, 3; print $part }
    elsif ($query eq 'ask') { print substr(cgiplus_callout('NOOP:'), 0, 3), "\n" }
    elsif ($query eq 'long') { print "$_\n" for 0 .. 49999 }
}
