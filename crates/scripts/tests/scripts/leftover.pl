#!/usr/bin/perl
# body: 0123456789 and more than the script reads
# expect: 0123 4567\n
read STDIN, my $first, 4;
sysread STDIN, my $more, 0;
read STDIN, my $second, 4;
print "Content-Type: text/plain\n\n$first $second\n";
