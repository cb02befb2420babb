#!/usr/bin/perl
# expect: one\n
print "Content-Type: text/plain\n\none\n";
open my $null, '>', '/dev/null';
select $null;
print "two\n";
close STDOUT;
open STDOUT, '>', '/dev/null';
print STDOUT "three\n";
close STDIN;
open STDERR, '>', '/dev/null';
binmode STDOUT, ':crlf';
