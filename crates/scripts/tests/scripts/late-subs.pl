#!/usr/bin/perl
# expect: no yes %Q\n
# log: it gets subs only when it runs
print "Content-Type: text/plain\n\n", defined &made ? 'yes' : 'no';
eval 'sub made { return $ENV{QUERY_STRING} }';
print defined &made ? ' yes ' : ' no ', made(), "\n";
