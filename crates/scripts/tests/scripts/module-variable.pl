#!/usr/bin/perl
# expect: 2 1\n
use Data::Dumper;
print "Content-Type: text/plain\n\n$Data::Dumper::Indent ";
$Data::Dumper::Indent = 1;
print "$Data::Dumper::Indent\n";
