#!/usr/bin/perl
# expect: warned: w at\n
use sigtrap qw(handler stop USR1);
sub stop { }
BEGIN { $SIG{__WARN__} = sub { print 'warned: ', $_[0] =~ /(w at)/, "\n" } }
print "Content-Type: text/plain\n\n";
warn 'w';
$SIG{__WARN__} = sub { };
