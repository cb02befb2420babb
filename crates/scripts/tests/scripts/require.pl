#!/usr/bin/perl
# A library without a package defines its subs in main.
# expect: 1 %Q %Q\n
# log: it is compiled for each request
require './old.lib';
&parse;
print "Content-Type: text/plain\n\n$parsed $in{query} $main::in{query}\n";
