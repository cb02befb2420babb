#!/usr/bin/perl
# needs: CGI.pm
# query: a=1&b=%Q
# expect: a=1,b=%Q\n
use CGI qw(:standard -nosticky);
print header(-type => 'text/plain', -charset => ''), join(',', map { "$_=" . param($_) } param()), "\n";
