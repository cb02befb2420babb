#!/usr/bin/perl
# expect: €€ 2\n
use utf8;
use open qw(:std :encoding(UTF-8));
my $text = '€€';
print "Content-Type: text/plain\n\n$text ", length $text, "\n";
