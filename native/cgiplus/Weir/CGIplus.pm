# Persistent scripts of Perl: CGIplus.
package Weir::CGIplus;

=head1 NAME

Weir::CGIplus - one process answers many requests

=head1 SYNOPSIS

    use Weir::CGIplus;
    while (cgiplus_next()) {
        print "Content-Type: text/plain\r\n\r\n";
        print "hello $ENV{QUERY_STRING}\n";
    }

=head1 DESCRIPTION

C<cgiplus_next> ends the response before, waits for a request, and puts its variables into C<%ENV>; it returns false
when the script is to end. C<cgiplus_end> ends the response earlier. Standard input is the body of the request and ends
behind it, so nothing of it can reach the next request. C<cgiplus_callout("LIFETIME: 5")> asks the server and returns
its answer; a request that begins with C<!> has none. Started without CGIplus, a script answers one request of plain CGI.

=cut

use strict;
use warnings;
use Exporter 'import';

our $VERSION = '0.1';
our @EXPORT  = qw(cgiplus_next cgiplus_end cgiplus_callout);

use constant PIPE_BYTES => 4096;    # a body of so many bytes always fits into a pipe

my ($eof, $eot, $esc) = delete @ENV{qw(CGIPLUSEOF CGIPLUSEOT CGIPLUSESC)};
delete $ENV{CGIPLUSIN};
my $is_persistent = defined $eof;
my %environment   = %ENV;
my ($vars, $body, $had, $runs, $over, $has_body, $asked);
my $pending = '';

if ($is_persistent) {
    open $vars, '<&=', 3 or die "Weir::CGIplus: descriptor 3: $!\n";
    open $body, '<&', \*STDIN or die "Weir::CGIplus: descriptor 0: $!\n";
    open STDIN, '<', '/dev/null' or die "Weir::CGIplus: /dev/null: $!\n";
}

sub cgiplus_next {
    cgiplus_end();
    if (!$is_persistent) { return 0 if $over++; return $runs = 1 }
    my $line = line();
    return 0 if !defined $line;
    if ($line =~ /^!!(\d+)$/) { take(structs($1)) }
    elsif ($line eq '!') { take(lines()) }
    else { die "Weir::CGIplus: this is no request: $line\n" }
    my $length = $ENV{CONTENT_LENGTH} || 0;
    $has_body = $length =~ /^[1-9]\d*$/ ? 1 : 0;
    body($length) if $has_body;
    return $runs = 1;
}

sub cgiplus_end {
    return if !$runs;
    $runs = 0;
    my $before = select STDOUT;
    $| = 0;
    print STDOUT $eof if $is_persistent;
    $| = 1;    # writes what is kept, and the sentinel with it
    $| = 0;
    select $before;
    if ($has_body) {
        close STDIN;    # what is read ahead goes with it
        open STDIN, '<', '/dev/null' or die "Weir::CGIplus: /dev/null: $!\n";
        $has_body = 0;
    }
    return;
}

sub cgiplus_callout {
    my ($request) = @_;
    return if !$is_persistent;
    print STDOUT "$esc\n$request\n$eot\n";
    return if $request =~ /^!/;
    my $before = select STDOUT;
    my $flush  = $|;
    $| = 1;
    $| = $flush;
    select $before;
    return line();
}

# A line of the stream of variables, undef at its end.
sub line {
    my $at;
    while (($at = index $pending, "\n") < 0) { fill() or return }
    my $line = substr $pending, 0, $at;
    $pending = substr $pending, $at + 1;
    return $line;
}

sub fill {
    while (1) {
        my $count = sysread $vars, $pending, 65536, length $pending;
        return $count if defined $count;
        return 0 if !$!{EINTR};
    }
}

sub structs {
    my ($length) = @_;
    while (length $pending < $length) { fill() or die "Weir::CGIplus: the variables end early\n" }
    my @items = map { substr $_, 0, -1 } grep { length } unpack '(S/a)*', substr $pending, 0, $length;
    $pending = substr $pending, $length;
    return @items;
}

sub lines {
    my @items;
    while (1) {
        my $line = line();
        die "Weir::CGIplus: the variables end early\n" if !defined $line;
        last if $line eq '';
        push @items, $line;
    }
    # The other form of the variables costs less.
    print STDOUT "$esc\n!CGIPLUS: struct\n$eot\n" if !$asked++;
    return @items;
}

# Each write to %ENV costs a setenv(3): only what differs from the last request is written.
sub take {
    my %now;
    @now{@_} = ();
    for my $item (grep { !exists $now{$_} } keys %{ $had // {} }) {
        my $name = substr $item, 0, index $item, '=';
        if (exists $environment{$name}) { $ENV{$name} = $environment{$name} } else { delete $ENV{$name} }
    }
    for my $item (@_) {
        next if exists $had->{$item};
        my $at = index $item, '=';
        $ENV{ substr $item, 0, $at } = substr $item, $at + 1 if $at > 0;
    }
    $had = \%now;
}

# The body as standard input, which ends behind it.
sub body {
    my ($length) = @_;
    my ($read, $write);
    if ($length <= PIPE_BYTES) {
        pipe $read, $write or die "Weir::CGIplus: a pipe for the body: $!\n";
    } else {
        open $write, '+>', undef or die "Weir::CGIplus: a temporary file for the body: $!\n";
        $read = $write;
    }
    while ($length > 0) {
        my $count = sysread $body, my $part, $length > 65536 ? 65536 : $length;
        if (!defined $count) { next if $!{EINTR}; die "Weir::CGIplus: the body: $!\n" }
        die "Weir::CGIplus: the body ends early\n" if !$count;
        my $put = syswrite $write, $part;
        die "Weir::CGIplus: the body cannot be kept: $!\n" if !defined $put || $put != $count;
        $length -= $count;
    }
    $read == $write ? sysseek $read, 0, 0 : close $write;
    open STDIN, '<&', $read or die "Weir::CGIplus: the body as standard input: $!\n";
}

1;
