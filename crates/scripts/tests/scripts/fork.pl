#!/usr/bin/perl
# expect: parent\nchild\nagain\n
$| = 1;
print "Content-Type: text/plain\n\nparent\n";
my $child = fork;
if (!$child) { print "child\n"; exit }
waitpid $child, 0;
system 'echo again';
