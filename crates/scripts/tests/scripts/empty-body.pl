#!/usr/bin/perl
# expect: [] 1\n
my $body = join '', <STDIN>;
print "Content-Type: text/plain\n\n[$body] ", eof(STDIN) ? 1 : 0, "\n";
