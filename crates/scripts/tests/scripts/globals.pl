#!/usr/bin/perl -w
# What a script leaves behind must not reach the next run.
# expect: 1 1 1 1 0 - - - 022 ok\n
our ($count, @list, %seen);
$count++;
push @list, 1;
$seen{x}++;
$main::other++;
my $file = 0;
print "Content-Type: text/plain\n\n";
print join(' ', $count, scalar(@list), $seen{x}, $main::other, $file++, $ENV{LEFT} || '-', defined fileno(FH) ? 'open' : '-',
    $SIG{ALRM} || '-', sprintf('%03o', umask)), ' ';
open FH, '<', $0 or die;
my $line = <FH>;
print $line =~ /perl/ && $/ eq "\n" && !$, && !$\ && $| == 0 && -e 'globals.pl' ? "ok\n" : "bad\n";
($/, $,, $\, $|, $;, $") = (undef, 'x', 'y', 1, 'z', 'w');
$SIG{ALRM} = sub { };
alarm 100;
umask 0;
chdir '/';
$ENV{LEFT} = 1;
$0 = 'something else';
@ARGV = (1, 2);
push @INC, '/nowhere';
