#!/usr/bin/perl
# expect: hello %Q\n
use strict;
use warnings;
print "Content-Type: text/plain\n\nhello $ENV{QUERY_STRING}\n";
