#!/usr/bin/perl
# needs: CGI.pm
# body: a=3&c=some+words
# expect: a=3,c=some words\n
use strict;
use CGI;
$CGI::POST_MAX = 1000;
my $q = CGI->new;
print $q->header(-type => 'text/plain', -charset => ''), fields(), "\n";
sub fields { return join ',', map { "$_=" . scalar $q->param($_) } $q->param }
