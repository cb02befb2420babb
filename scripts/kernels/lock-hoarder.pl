# Holds a lock most of the time: lock-hoarder.pl LOCK
use strict;
use warnings;
use Fcntl ':flock';

$0 = 'lock-hoarder';
open my $file, '+<', shift or die $!;
while (1) {
    flock $file, LOCK_EX or die $!;
    select undef, undef, undef, 0.1;
    flock $file, LOCK_UN or die $!;
    select undef, undef, undef, 0.02;
}
