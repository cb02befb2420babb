# A server with four workers whose answers take long for a reason that is known: faults.pl LOCK
use strict;
use warnings;
use Fcntl ':flock';
use IO::Socket::INET;

my $lock = shift;
my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 8083, Listen => 64, ReuseAddr => 1) or die $!;
for (1 .. 4) {
    next if fork;
    while (my $client = $listener->accept) {
        my $path = (split ' ', <$client> // '')[1] // '/';
        while (my $line = <$client>) { last if $line =~ /^\r?$/ }
        if ($path eq '/sleep') {
            select undef, undef, undef, 0.1;
        } elsif ($path eq '/lock') {
            open my $file, '+<', $lock or die $!;
            flock $file, LOCK_EX or die $!;
        } elsif ($path eq '/compute') {
            my $sum = 0;
            $sum += $_ * $_ % 7 for 1 .. 100_000;
        }
        print $client "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\ndone\n";
        close $client;
    }
}
wait;
