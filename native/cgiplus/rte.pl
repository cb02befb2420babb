#!/usr/bin/perl
# Runs unchanged CGI scripts of Perl one after the other in one process, and compiles each only once.
#
# The process that starts it speaks CGIplus' struct mode with it: variables on descriptor 3, the request's body on
# descriptor 0, the response and the sentinel $CGIPLUSEOF on descriptor 1.
# A script is compiled into package main, as perl itself does, so that `main::`, `caller` and libraries without a
# package find what they find under CGI. Before another script runs, the symbols of the last one leave main's table.

# Scripts are compiled here, before this file has lexical variables and pragmas that they could see.
package main;
sub Weir::RTE::evaluate { local $^W = $_[1]; eval $_[0] }
sub Weir::RTE::load { eval $_[0] }

package Weir::RTE;
use strict;
use warnings;
no warnings qw(exiting io redefine once prototype uninitialized);
use B ();
use Time::HiRes ();

BEGIN { *CORE::GLOBAL::exit = \&leave }

use constant SCRIPTS_MAX => 256;     # compiled scripts that are kept
use constant PIPE_BYTES  => 4096;    # a body of so many bytes always fits into a pipe
use constant MODULES_S   => 2;       # modules are looked at for changes so often

my ($EOF, $PID) = ($ENV{CGIPLUSEOF}, $$);
defined $EOF or die "weir rte: CGIPLUSEOF is not set; `rte = true` in weir.toml starts this program\n";
my %OWN = map { $_ => $ENV{$_} } grep { /^CGIPLUS/ } keys %ENV;    # for the program that replaces this one
delete @ENV{ keys %OWN };
my %ENVIRONMENT = %ENV;
my @INC_BASE    = @INC;
my %SIG_BASE    = map { $_ => 1 } grep { defined $SIG{$_} && $SIG{$_} ne '' } keys %SIG;
my $UMASK       = umask;
my @COMMON      = grep { !$SIG_BASE{$_} } qw(ALRM INT TERM HUP PIPE CHLD USR1 USR2 QUIT __WARN__ __DIE__);    # what modules set
my ($VARS, $BODY, $OUT, $ERR);                # the streams, away from where scripts reach by name
my (%scripts, %said, $current, $uses);        # compiled scripts by path; sentences told; the script in main's table
my (%seen, %watched, $modules_at, $renew);    # files in %INC; stamps of modules; when they were looked at; whether to start anew
my ($exited, $status, $running);                # of the script that runs
my ($had, $mark, @places) = ('');              # the last request's variables, %ENV with them, and where values stand
my $is_sure;                                   # whether %ENV is as the last request set it
my $pending = '';
my $plain = 0;                                # the last script, if it was plain
my $compiling;                                # the script that is compiled
my @STD;                                      # the three standard handles, see state_of
my $ENGINE = __FILE__ =~ m{^/} ? __FILE__ : readlink('/proc/self/cwd') . '/' . __FILE__;

my (%base, $files);    # names that package main has without a script; the number of files in %INC
my @CGI_PRAGMAS = map { "CGI::$_" } qw(XHTML NOSTICKY NPH DEBUG TABINDEX CLOSE_UPLOAD_FILES HEADERS_ONCE
    USE_PARAM_SEMICOLONS NO_UNDEF_PARAMS PARAM_UTF8 PUTDATA_UPLOAD APPEND_QUERY_STRING POST_MAX DISABLE_UPLOADS);

serve();

sub serve {
    open $VARS, '<&=', 3 or die "weir rte: descriptor 3: $!\n";
    open $BODY, '<&', 0 or die "weir rte: descriptor 0: $!\n";
    open $OUT, '>&', 1 or die "weir rte: descriptor 1: $!\n";
    open $ERR, '>&', 2 or die "weir rte: descriptor 2: $!\n";
    select $ERR; $| = 1; select STDOUT;
    open STDIN, '<', '/dev/null' or die "weir rte: /dev/null: $!\n";
    @STD = map { state_of($_) } \*STDIN, \*STDOUT, \*STDERR;
    base_symbols();
    $modules_at = Time::HiRes::time();
    while (defined(my $data = request())) {
        answer($data);
        start_anew() if $renew;
    }
}

# ---- requests ----

# Returns the variables of the next request, undef at the end.
sub request {
    my $at;
    while (($at = index $pending, "\n") < 0) { fill() or return }
    my ($length) = substr($pending, 0, $at) =~ /^!!(\d+)$/ or die "weir rte: this is no request of struct mode\n";
    while (length($pending) < $at + 1 + $length) { fill() or return }
    my $data = substr $pending, $at + 1, $length;
    $pending = substr $pending, $at + 1 + $length;
    return $data;
}

sub fill {
    while (1) {
        my $count = sysread $VARS, $pending, 65536, length $pending;
        return $count if $count || defined $count;
        $!{EINTR} or return 0;
    }
}

sub answer {
    environment($_[0]);
    my $length = $ENV{CONTENT_LENGTH} || 0;
    my ($path, $trouble) = ($ENV{SCRIPT_FILENAME});
    if ($length =~ /^\d+$/ && $length > 0 && defined($trouble = body($length))) {
        return failed($path, $trouble);
    }
    my $script = script($path);
    return failed($path, $script) if !ref $script;
    $mark //= join "\0", %ENV if !$script->{is_plain};
    run($script);
    if ($$ != $PID) { child($script) }
    if (defined $script->{failure}) {
        print {$ERR} $script->{failure} if $script->{failure} ne '';
        $script->{failure} = undef;
        head_of_failure() if fileno(STDOUT) && tell(STDOUT) == $script->{told_at};
    }
    finish($script, $length);
}

# Makes %ENV of the variables. Each write to it costs a setenv(3), so only the values are written that differ from the
# last request's, if the names are the same, and unless the last script has changed it.
sub environment {
    my ($data) = @_;
    my $is_as_set = $is_sure || (defined $mark && $mark eq join "\0", %ENV);
    if (!$is_as_set || length $data != length $had || replace($data)) {
        %ENV = %ENVIRONMENT;
        (my $at, @places) = (0);
        for my $item (unpack '(S/a)*', $data) {
            my $name = index $item, '=';
            $ENV{ substr $item, 0, $name } = substr $item, $name + 1, -1 if $name > 0;
            push @places, [ $at + $name + 3, $at + 2 + length $item, substr $item, 0, $name ] if $name > 0;
            $at += 2 + length $item;
        }
        undef $mark;
    }
    ($had, $is_sure) = ($data, 0);
}

# Writes the values that differ from the last request's. Returns whether something else differs.
sub replace {
    my ($data) = @_;
    my ($differs, $number) = ($data ^ $had, 0);
    while ($differs =~ /[^\0]/g) {
        my $byte = pos($differs) - 1;
        $number++ while $number < @places && $places[$number][1] <= $byte;
        return 1 if $number == @places;
        my ($from, $to, $name) = @{ $places[$number] };
        return 1 if $byte < $from;
        $ENV{$name} = substr $data, $from, $to - 1 - $from;
        undef $mark;
        pos($differs) = $to;
    }
    return 0;
}

# A request that runs no script.
sub failed {
    my ($path, $words) = @_;
    print {$ERR} 'weir rte: ', defined $path ? "$path: " : '', $words, "\n";
    head_of_failure();
    finish(undef, 1);
}

sub head_of_failure {
    print STDOUT "Status: 500 Internal Server Error\r\nContent-Type: text/plain\r\n\r\n",
        "The script failed; the server's log says why.\n";
}

# Gives the script its body as standard input that ends behind it. Returns words if that fails.
sub body {
    my ($length) = @_;
    my ($read, $write, $got) = (undef, undef, 0);
    if ($length <= PIPE_BYTES) {
        pipe $read, $write or return "a pipe for the body: $!";
    } else {
        open $write, '+>', undef or return "a temporary file for the body: $!";
        $read = $write;
    }
    my $trouble;
    while ($got < $length) {
        my $count = sysread $BODY, my $part, $length - $got > 65536 ? 65536 : $length - $got;
        if (!defined $count) { next if $!{EINTR}; return "the body: $!" }
        return 'the body ends early' if !$count;
        $got += $count;
        next if defined $trouble;    # the rest is still read, as it must not meet the next request
        my $put = syswrite $write, $part;
        $trouble = "the body cannot be kept: $!" if !defined $put || $put != $count;
    }
    return $trouble if defined $trouble;
    $read != $write ? close $write : sysseek $read, 0, 0;
    close STDIN;
    open STDIN, '<&', $read or return "the body as standard input: $!";
    return;
}

# ---- running ----

sub run {
    my ($script) = @_;
    switch_to($script);
    chdir $script->{folder};
    $0 = $script->{path} if $0 ne $script->{path};
    @ARGV = ();
    @INC = @{ $script->{inc} } if $plain != $script;
    @SIG{ keys %{ $script->{signals} } } = values %{ $script->{signals} } if $script->{signals};
    ${ $_->[0] } = $_->[1] for @{ $script->{cgi} };
    data($script) if defined $script->{data};
    binmode STDOUT, ':pop:perlio' if $script->{carps};
    layers($script->{layers}) if $script->{layers};
    $| = $script->{autoflush};
    $script->{told_at} = tell STDOUT;
    my @kept = map { ${$_} } @{ $script->{foreign} };
    $^T = time;
    ($exited, $status, $running, $uses) = (0, 0, $script, ($uses || 0) + 1);
    $script->{used} = $uses;
    {
        local ($/, $\, $,, $;, $") = ("\n", undef, undef, "\034", ' ');
        local $_;
        local $^W = $script->{warn};
        local @_;
        ($@, $!, $?) = ('', 0, 0);
        my $code = $script->{code};
        my $done = eval { WEIR_RUN: { &$code() } 1 };
        $script->{failure} = "$@" if !$done && !$exited;
        if ($script->{ends}) { end_blocks($script) }
    }
    ${ $script->{foreign}[$_] } = $kept[$_] for 0 .. $#kept;
}

sub end_blocks {
    my ($script) = @_;
    $? = defined $script->{failure} ? 255 : $status;
    for my $block (@{ $script->{ends} }) {
        my $done = eval { WEIR_RUN: { &$block() } 1 };
        $script->{failure} = ($script->{failure} // '') . $@ if !$done && !$exited;
    }
}

# `exit` of scripts and modules. `last` leaves evals too, so that no `eval { exit }` goes on.
sub leave {
    my $given = @_ ? $_[0] : 0;
    CORE::exit($given) if !$running;
    ($exited, $status) = (1, $given);
    # It fails within `sort` blocks, overloaded operators and destructors; then it is an exception.
    local $SIG{__DIE__};
    last WEIR_RUN;
}

# The child of a script's fork ends with the script's run.
sub child {
    my ($script) = @_;
    print {$ERR} $script->{failure} if defined $script->{failure};
    close STDOUT;
    CORE::exit(defined $script->{failure} ? 255 : $status);
}

# Puts the process back as it was, ends the response, and reads what the script left of its body.
sub finish {
    my ($script, $length) = @_;
    # What others change is put back before the next script, so it is as it was.
    if ($script && $script->{is_plain} && !$length) { return finish_plain($script) }
    $plain = 0;
    if ($script) {
        eval { clean($script); 1 } or print {$ERR} "weir rte: $script->{path}: $@";
        $running = undef;
    }
    alarm 0;
    umask $UMASK;
    my @names = !$script || $script->{signs} ? keys %SIG : @COMMON;
    my @handlers = @SIG{@names};
    for my $name (grep { (shift @handlers) ne '' } @names) {
        next if $SIG_BASE{$name};
        delete $SIG{$name};
    }
    select STDOUT;
    # In the order of their numbers, as perl takes the lowest that is free.
    if ($length || !is_std(0, \*STDIN)) {
        close STDIN;
        open STDIN, '<', '/dev/null' or die "weir rte: /dev/null: $!\n";
    }
    my $is_own = is_std(1, \*STDOUT);
    if ($is_own) {
        $| = 0;
        print STDOUT $EOF;
    }
    $| = 1;
    $| = 0;
    if (!$is_own) {
        close STDOUT;
        open STDOUT, '>&', $OUT or die "weir rte: standard output: $!\n";
        syswrite $OUT, $EOF;
    }
    if (!is_std(2, \*STDERR)) {
        close STDERR;
        open STDERR, '>&', $ERR or die "weir rte: standard error: $!\n";
    }
    my $left = waitpid -1, 1;
    $left = waitpid -1, 1 while $left > 0;
    told($script, 'its child processes still run; they can write into later responses, so this process ends'), CORE::exit(0)
        if $left == 0;
    look_at_modules();
}

# A plain script has changed nothing but its own variables, see is_plain.
sub finish_plain {
    my ($script) = @_;
    eval { clean($script); 1 } or print {$ERR} "weir rte: $script->{path}: $@";
    ($running, $plain, $is_sure) = (undef, $script, 1);
    $| = 0;
    print STDOUT $EOF;
    $| = 1;
    $| = 0;
    look_at_modules();
}

# Whether a standard handle is still the stream that the process was started with, with no more layers.
sub is_std {
    my ($number, $handle) = @_;
    return !tied *$handle && state_of($handle) eq $STD[$number];
}

# Its descriptor, device, inode and layers.
sub state_of { return join ',', fileno $_[0], (stat $_[0])[ 0, 1 ], PerlIO::get_layers($_[0]) }

sub told {
    my ($script, $words) = @_;
    my $line = 'weir rte: ' . ($script ? "$script->{path}: " : '') . "$words\n";
    print {$ERR} $line if keys %said < 10_000 && !$said{$line}++;
}

# Modules are compiled once; if the file of one changes, perl starts anew.
sub look_at_modules {
    my $now = Time::HiRes::time();
    return if $now - $modules_at < MODULES_S;
    $modules_at = $now;
    for my $file (keys %watched) {
        $renew = 1 if stamp_of($file) ne $watched{$file};
    }
}

sub stamp_of { return join ',', (Time::HiRes::stat($_[0]))[ 0, 1, 7, 9 ] }

# Replaces the program by itself: the same process and the same streams, nothing compiled.
sub start_anew {
    require Fcntl;
    open STDIN, '<&', $BODY;
    fcntl $VARS, Fcntl::F_SETFD(), 0;
    %ENV = (%ENVIRONMENT, %OWN);
    exec $^X, $ENGINE or die "weir rte: $^X: $!\n";
}

# ---- compiled scripts ----

# Returns the compiled script, or words that say why there is none.
sub script {
    my ($path) = @_;
    return 'no SCRIPT_FILENAME came' if !defined $path;
    my $script = $scripts{$path};
    # A file that was long unchanged when it was compiled needs no nanoseconds: a change gets a new second.
    if ($script && $script->{settled}) {
        my $stamp = join ',', (stat $path)[ 0, 1, 7, 9, 10 ];
        return $script->{code} ? $script : compile($script) if $script->{settled} eq $stamp;
    }
    my @stat = (Time::HiRes::stat($path))[ 0, 1, 7, 9, 10 ];
    return "the file cannot be read: $!" if !@stat || !defined $stat[0];
    my $stamp = join ',', @stat;
    if ($script && $script->{stamp} eq $stamp) {
        $script->{settled} = join ',', map { int } @stat if $stat[4] < time - 2;
        return $script->{code} ? $script : compile($script);
    }
    drop($script) if $script;
    delete $scripts{$path};
    evict() if keys %scripts >= SCRIPTS_MAX;
    my ($folder) = $path =~ m{^(.*)/[^/]*\z}s;
    $script = { path => $path, stamp => $stamp, folder => !defined $folder || $folder eq '' ? '/' : $folder };
    my $words = source($script);
    return $words if defined $words;
    # Modules that this script is the first to load can define what it lacks in main; those are compiled with it.
    $words = compile($script);
    return $words if !ref $words;
    $scripts{$path} = $script;
    shared_variables($script);
    return $script;
}

# The script that was used longest ago makes place.
sub evict {
    my ($oldest) = sort { $a->{used} <=> $b->{used} } values %scripts;
    drop($oldest);
    delete $scripts{ $oldest->{path} };
    told(undef, 'more than ' . SCRIPTS_MAX . ' scripts run in one process; the oldest are compiled anew when they come again');
}

# Reads the file and takes its first line and its end apart.
sub source {
    my ($script) = @_;
    my $path = $script->{path};
    open my $file, '<', $path or return "the file cannot be read: $!";
    local $/;
    my $text = <$file>;
    return "the file cannot be read: $!" if !defined $text;
    my ($first) = $text =~ /\A(#![^\n]*)/;
    my $is_perl = defined $first && $first =~ /perl/;
    return 'this is no script of Perl: its name does not end with .pl, and its first line does not name perl; '
        . 'see `run` and `cgi` in weir.toml' if !$is_perl && ($path !~ /\.pl\z/ || defined $first);
    my ($switches) = $is_perl ? $first =~ /perl\S*\s+(.*?)\s*\z/ : ();
    my @dirs;
    for my $switch (split ' ', $switches // '') {
        last if $switch eq '--';
        if ($switch =~ /^-I(.+)/) { push @dirs, $1; next }
        return "the first line asks for `$switch`, but a persistent process has only -w, -W, -X and -I; "
            . 'serve this script with `cgi = true`' if $switch !~ /^-[wWX]+\z/;
        $script->{warn} = $switch =~ /X/ ? 0 : 1;
    }
    $script->{warn} //= 0;
    $script->{dirs} = \@dirs;
    if ($text =~ s/^__(?:END|DATA)__[ \t\r]*(?:\n(.*))?\z//ms) { $script->{data} = $1 // '' }
    analyse($script, $text);
    # A closing brace within documentation would be none.
    my $pod = '';
    $pod = $1 while $text =~ /^=([a-zA-Z]\w*)/mg;
    $script->{source} = $text . ($pod ne '' && $pod ne 'cut' ? "\n\n=cut\n" : "\n");
    return;
}

# What the text says of what has to be put back.
sub analyse {
    my ($script, $text) = @_;
    my %foreign;
    $foreign{$1}++ while $text =~ /\$\{?((?:[A-Za-z_]\w*::)+[A-Za-z_]\w*)/g;
    delete @foreign{ grep { /^(?:main::|Weir::RTE|CORE::)/ } keys %foreign };
    $script->{foreign_names} = [ sort keys %foreign ];
    my %packages = (main => 1);
    $packages{$1} = 1 while $text =~ /^[ \t;{}]*package\s+([A-Za-z_]\w*(?:::\w+)*)/mg;
    $script->{packages} = [ sort keys %packages ];
    my ($last) = $text =~ /.*^[ \t;{}]*package\s+([A-Za-z_][\w:]*)\s*;/ms;
    $script->{data_package} = $last // 'main';
    $script->{is_utf8} = $text =~ /^\s*use\s+utf8\b/m ? 1 : 0;
    $script->{has_ends} = $text =~ /\bEND\s*\{/ ? 1 : 0;
    $script->{ties} = $text =~ /\btie\b/ ? 1 : 0;
    $script->{is_lax} = $text =~ /\bno\s+strict\b/ || $text !~ /^\s*use\s+(?:strict\b|v?5\.0*(?:1[2-9]|[2-9]\d))/m ? 1 : 0;
    $script->{asks_caller} = $text =~ /\bcaller\b/ ? 1 : 0;
    $script->{seeds} = $text =~ /\bsrand\b/ ? 1 : 0;
    $script->{is_plain} = is_plain($text) && !defined $script->{data} ? 1 : 0;
    $script->{signs} = $text =~ /\bSIG\b|\bsigaction\b|\bsigtrap\b/ ? 1 : 0;
    $script->{formats} = $text =~ /^\s*format\b/m ? 1 : 0;
    anew($script, 'it has `state` variables') if $text =~ /\bstate\s*\(?\s*[\$\@%]\w/ && $text =~ /\buse\s+(?:feature|v?5|experimental)/;
    anew($script, 'it has `m?...?`, which matches once') if $text =~ /=~\s*m\?/;
    while ($text =~ /\bBEGIN\s*(\{(?:[^{}]++|(?1))*+\})/g) {
        my $block = $1;
        while ($block =~ /[\$\@%]\{?(\w+)/g) {
            my $name = $1;
            anew($script, "its BEGIN block sets `my` variables ($name)") if $text =~ /\bmy\b[^;{}]*[\$\@%]\Q$name\E\b/;
        }
    }
}

# Whether a script can change nothing but its own variables, as its text has no word by which it could: then what is
# not its own needs no look after it. A word within a string counts too, and all modules but some pragmas.
sub is_plain {
    my ($text) = @_;
    while ($text =~ /\b(?:use|no|require)\b\s*([^\s;(]*)/g) {
        return 0 if $1 !~ /^(?:strict|warnings|utf8|integer|vars|constant|feature|bytes|v?5[\d.]*)\z/;
    }
    return $text !~ /
        \b(?: STD(?:IN|OUT|ERR) | ENV | INC | SIG | ARGV | ARGVOUT | BEGIN | UNITCHECK | CHECK | INIT | END | DESTROY | AUTOLOAD
            | open | sysopen | opendir | close | closedir | dup2? | binmode | tie | untie | select | fileno | seek | sysseek
            | fork | system | exec | qx | readpipe | pipe | syscall | kill | wait | waitpid | alarm | umask | chdir | chroot
            | require | do | eval | socket | socketpair | accept | fcntl | ioctl | reset
            | eof | dbmopen | setpgrp | setpriority | glob | package | goto | dump | bless )\b
        | ` | :: | -> \s* [\w\$] | \* \s* [A-Za-z_{] | [\$\@%] \{? \^ | \$ \{? 0 | <>
    /x;
}

# From now on the script is compiled for each request.
sub anew {
    my ($script, $why) = @_;
    return if $script->{anew};
    $script->{anew} = $why;
    told($script, "it is compiled for each request: $why");
}

# Compiles the script's source. Returns the script, or words.
sub compile {
    my ($script) = @_;
    $mark //= join "\0", %ENV;
    switch_to(undef);
    chdir $script->{folder};
    $0 = $script->{path} if $0 ne $script->{path};
    local $SIG{__DIE__};
    @INC = (@{ $script->{dirs} }, @INC_BASE);
    FindBin::again() if $INC{'FindBin.pm'};
    if ($INC{'CGI.pm'}) { ($CGI::POST_MAX, $CGI::DISABLE_UPLOADS) = (-1, 0) }
    if ($INC{'CGI/Carp.pm'}) { $CGI::Carp::WRAP = 0 }
    my $words = other_modules($script);
    return $words if defined $words;
    my %known = map { $_ => 1 } grep { $_ ne 'main' && has_symbols($_) } @{ $script->{packages} };
    my %files = %INC;
    my $end_av = $script->{has_ends} && end_blocks_of_perl();
    if ($script->{asks_caller}) { no strict 'refs'; *{'main::caller'} = \&outer_caller }
    (my $name = $script->{path}) =~ s/["\n\r]/_/g;
    my $code = do {
        local ($/, $\, $,, $_) = ("\n");
        local $SIG{__WARN__} = \&warn_at_compiling;
        $compiling = $script;
        # A named sub, as subs within an anonymous one have no variables of it at all.
        my $text = "package main; sub Weir::RTE::Script::run {\n#line 1 \"$name\"\n$script->{source}}\n"
            . 'my $code = \&Weir::RTE::Script::run; delete $Weir::RTE::Script::{run}; $code';
        my $compiled = evaluate($text, $script->{warn});
        $script->{signals} = signals();
        $compiled;
    };
    my $error = $@;
    $script->{modules} = [ grep { !exists $files{$_} } keys %INC ];
    if (!ref $code) {
        forget_symbols($script, \%known);
        $words = $exited ? 'it calls exit while it is compiled' : "it does not compile: $error";
        $words =~ s/\s+\z//;
        return $words;
    }
    $script->{code} = $code;
    take_end_blocks($script, $end_av) if $end_av;
    take_symbols($script, \%known);
    after_compiling($script);
    return $script;
}

# The handlers of signals that compiling has set, undef if there are none.
sub signals {
    my %set = map { $_ => $SIG{$_} } grep { defined $SIG{$_} && $SIG{$_} ne '' && !$SIG_BASE{$_} } keys %SIG;
    delete $set{__WARN__} if ref $set{__WARN__} && $set{__WARN__} == \&warn_at_compiling;
    return %set ? \%set : undef;
}

# Perl's words on variables that named subs do not share are left out: they are shared, see shared_variables. A script
# that is compiled for each request says each other one only once until its file changes.
sub warn_at_compiling {
    return if $_[0] =~ /^Variable "\S+" (?:is not available|will not stay shared) at/;
    print {$ERR} $_[0] if !$compiling->{warned}{ $_[0] }++;
}

# What `use` and BEGIN blocks have set for the script is set again before each run.
sub after_compiling {
    my ($script) = @_;
    $script->{inc} = [@INC];
    $script->{autoflush} = $|;
    no strict 'refs';
    $script->{cgi} = $INC{'CGI.pm'} ? [ map { [ \${$_}, ${$_} ] } @CGI_PRAGMAS ] : [];
    $script->{foreign} = [ map { \${$_} } grep { is_foreign($_, $script) } @{ $script->{foreign_names} } ];
    if ($INC{'CGI/Carp.pm'}) {
        *CGI::Carp::ineval = \&is_in_eval;
        my $name = ($script->{path} =~ m{([^/]*)\z})[0];
        push @{ $script->{cgi} }, [ \$CGI::Carp::WRAP, $CGI::Carp::WRAP ], [ \$CGI::Carp::PROGNAME, $name ];
        # It asks tell whether the script has printed anything.
        $script->{carps} = 1 if $script->{source} =~ /\bCGI::Carp\b/ || grep { $_ eq 'CGI/Carp.pm' } @{ $script->{modules} };
        delete $CORE::GLOBAL::{die};    # else later scripts would die by it too
    }
    my @states = map { state_of($_) } \*STDIN, \*STDOUT, \*STDERR;
    my @more = map { $states[$_] =~ /^\Q$STD[$_]\E,(.+)/ ? join '', map { ":$_" } split /,/, $1 : '' } 0 .. 2;
    $script->{layers} = join('', @more) ne '' ? \@more : undef;
    $script->{is_plain} = 0 if grep { $script->{$_} } qw(anew ends layers carps signals asks_caller);
}

# Variables of modules that the script's text names: they are put back after each run.
sub is_foreign {
    my ($name, $script) = @_;
    my ($package, $variable) = $name =~ /^(.*)::(\w+)\z/;
    return 0 if $variable eq 'AUTOLOAD' || grep { $_ eq $package } @{ $script->{packages} };
    no strict 'refs';
    return has_symbols($package) && exists ${"${package}::"}{$variable} && ref \${"${package}::"}{$variable} eq 'GLOB';
}

sub layers {
    my ($layers) = @_;
    my @handles = (\*STDIN, \*STDOUT, \*STDERR);
    for my $number (0 .. 2) {
        next if $layers->[$number] eq '';
        my $has = join '', map { ":$_" } (PerlIO::get_layers($handles[$number]))[ 2 .. 9 ];
        binmode $handles[$number], $layers->[$number] if $has ne $layers->[$number];
    }
}

sub data {
    my ($script) = @_;
    no strict 'refs';
    open *{"$script->{data_package}::DATA"}, '<', \$script->{data};
    binmode *{"$script->{data_package}::DATA"}, ':utf8' if $script->{is_utf8};
}

# `caller` in scripts: the program that runs them is not among the callers, so that `main() unless caller` runs.
sub outer_caller {
    my @frame = CORE::caller(($_[0] // 0) + 1);
    return if !@frame || $frame[0] eq __PACKAGE__;
    return wantarray ? @_ ? @frame : @frame[ 0 .. 2 ] : $frame[0];
}

# CGI::Carp asks whether an exception will be caught; the `eval` around the whole script does not count.
sub is_in_eval {
    my ($evals, $depth) = (0, 0);
    while (my @frame = CORE::caller($depth++)) { $evals++ if $frame[3] eq '(eval)' }
    return $evals > 1;
}

# A module of this script's folders must not be another's of the same name that another script has loaded.
sub other_modules {
    my ($script) = @_;
    my @dirs = @{ $script->{dirs} };
    push @dirs, $1 while $script->{source} =~ /^\s*use\s+lib\s+(?:qw\W\s*|\(?\s*['"])([^'"\s)]+)/mg;
    for my $dir (@dirs) {
        my $absolute = $dir =~ m{^/} ? $dir : "$script->{folder}/$dir";
        while ($script->{source} =~ /^\s*(?:use|require)\s+([A-Za-z_]\w*(?:::\w+)*)/mg) {
            (my $file = "$1.pm") =~ s{::}{/}g;
            my $loaded = $INC{$file};
            next if !defined $loaded || ref $loaded || !-e "$absolute/$file";
            my ($there, $here) = map { join ',', (stat $_)[ 0, 1 ] } $loaded, "$absolute/$file";
            return "it wants the module $absolute/$file, but another script has loaded $loaded; give one of the two "
                . 'an `rte` of its own with another `name`' if $there ne $here && $there ne '';
        }
    }
    return;
}

# ---- symbols ----

sub base_symbols {
    %base = map { $_ => 1 } grep { !/::\z/ } keys %main::;
    $base{$_} = 1 for qw(BEGIN ENV ARGV ARGVOUT INC STDIN STDOUT STDERR stdin stdout stderr _ a b);
    $files = keys %INC;
}

sub stash { no strict 'refs'; return \%{"$_[0]::"} }

sub has_symbols {
    my ($package) = @_;
    my $stash = \%main::;
    for my $part (split /::/, $package) {
        return 0 if !exists $stash->{"${part}::"};
        $stash = \%{ $stash->{"${part}::"} };
    }
    return !!grep { !/::\z/ && $_ ne 'ISA' } keys %$stash;
}

# The names of a package that a script can have made. Symbols of ISA stay in the table, and are emptied: perl (sv.c,
# S_glob_assign_glob) counts the magic of an array wrongly whose symbol is copied.
sub names_of {
    my ($package) = @_;
    my @names = grep { !/::\z/ && $_ ne 'ISA' } keys %{ stash($package) };
    return @names if $package ne 'main';
    return grep { /^[A-Za-z_]\w*\z/ && !$base{$_} } @names;
}

# The symbol as perl has it in its table; a bare reference to a sub, which stands there for short, becomes a symbol.
sub symbol {
    my ($package, $stash, $name) = @_;
    if (ref $stash->{$name} eq 'CODE') { no strict 'refs'; my $whole = *{"${package}::$name"} }
    return \$stash->{$name};
}

# Remembers which symbols belong to the script, and with which values it starts.
sub take_symbols {
    my ($script, $known) = @_;
    $script->{symbols} = {};
    $script->{$_} = [] for qw(clear partly subs start);
    my @isa;
    # main first, as objects in its variables have methods when they go.
    for my $package (sort { ($b eq 'main') <=> ($a eq 'main') } @{ $script->{packages} }) {
        if ($known->{$package}) {
            told($script, "package $package is another file's too; its variables are not put back");
            next;
        }
        my $stash = stash($package);
        if (exists $stash->{ISA} && ref \$stash->{ISA} eq 'GLOB') { push @isa, [ \$stash->{ISA}, [ @{ *{ $stash->{ISA} } } ] ] }
        for my $name (names_of($package)) {
            my $entry = symbol($package, $stash, $name);
            my $is_glob = ref $entry eq 'GLOB';
            $script->{symbols}{$package}{$name} = $is_glob ? $entry : $stash->{$name};
            take_glob($script, $entry) if $is_glob && $name ne 'BEGIN';
        }
    }
    $script->{isa} = \@isa;
    $current = $script;
    count_symbols($script);
}

sub count_symbols {
    my ($script) = @_;
    $script->{counts} = [ map { [ stash($_), scalar keys %{ stash($_) }, $_ ] } keys %{ $script->{symbols} } ];
    push @{ $script->{counts} }, [ \%main::, scalar keys %main::, 'main' ] if !$script->{symbols}{main};
}

sub take_glob {
    my ($script, $glob) = @_;
    my $gv    = B::svref_2object($glob);
    my $flags = $gv->GvFLAGS;
    my %slot  = map { $_->[0] => $_->[1] } grep { !$_->[1]->isa('B::SPECIAL') } [ S => $gv->SV ], [ A => $gv->AV ], [ H => $gv->HV ];
    my %bits  = (S => 0x10, A => 0x20, H => 0x40);
    # An imported variable is another package's, unless `use vars` made it.
    my %is_foreign = map { $_ => 1 } grep { $slot{$_} && $flags & $bits{$_} && $slot{$_}->REFCNT > 1 } keys %slot;
    if (defined &$glob) {
        my $cv = B::svref_2object(\&$glob);
        push @{ $script->{subs} }, $glob if !($flags & 0x80) && !$cv->XSUB;
        return if !%slot && !$script->{is_lax};
        push @{ $script->{partly} }, [ $glob, grep { !$is_foreign{$_} } qw(S A H) ];
    } elsif (%is_foreign) {
        push @{ $script->{partly} }, [ $glob, grep { !$is_foreign{$_} } qw(S A H) ];
    } else {
        push @{ $script->{clear} }, $glob;
    }
    push @{ $script->{start} }, [ $glob, 'S', ${*$glob} ] if $slot{S} && !$is_foreign{S} && defined ${*$glob};
    push @{ $script->{start} }, [ $glob, 'A', [ @{*$glob} ] ] if $slot{A} && !$is_foreign{A} && @{*$glob};
    push @{ $script->{start} }, [ $glob, 'H', { %{*$glob} } ] if $slot{H} && !$is_foreign{H} && %{*$glob};
}

# Has main's table, and those of the script's packages, hold the symbols of this script only.
sub switch_to {
    my ($script) = @_;
    return if defined $current && defined $script && $current == $script;
    return if !defined $current && !defined $script;
    if (defined $current) {
        for my $package (keys %{ $current->{symbols} }) {
            delete @{ stash($package) }{ keys %{ $current->{symbols}{$package} } };
            mro::method_changed_in($package);
        }
    }
    @{ *{ $_->[0] } } = () for defined $current ? @{ $current->{isa} } : ();
    $current = $script;
    return if !defined $script;
    @{ *{ $_->[0] } } = @{ $_->[1] } for @{ $script->{isa} };
    for my $package (keys %{ $script->{symbols} }) {
        my ($stash, $symbols) = (stash($package), $script->{symbols}{$package});
        $stash->{$_} = ref $symbols->{$_} eq 'GLOB' ? *{ $symbols->{$_} } : $symbols->{$_} for keys %$symbols;
        mro::method_changed_in($package);
    }
    if ($INC{'FindBin.pm'}) { local $0 = $script->{path}; chdir $script->{folder}; FindBin::again() }
    count_symbols($script);
}

# Gives the script's variables and handles the state in which they were after compiling.
sub clean {
    my ($script) = @_;
    my $ties = $script->{ties};
    for my $glob (@{ $script->{clear} }) {
        if (*$glob{IO}) { shut($glob) }
        if (defined ${*$glob} || $ties) { my $new; *$glob = \$new }
        my $array = *$glob{ARRAY};
        if ($array && (@$array || $ties)) { my @new; *$glob = \@new }
        my $hash = *$glob{HASH};
        if ($hash && (%$hash || $ties)) { my %new; *$glob = \%new }
        anew($script, 'it gets subs only when it runs, such as ' . *$glob) if defined &$glob;
    }
    for my $entry (@{ $script->{partly} }) {
        my ($glob, @kinds) = @$entry;
        for my $kind (@kinds) {
            if ($kind eq 'S') { my $new; *$glob = \$new if defined ${*$glob} }
            elsif ($kind eq 'A') { my @new; *$glob = \@new if *$glob{ARRAY} && @{*$glob} }
            else { my %new; *$glob = \%new if *$glob{HASH} && %{*$glob} }
        }
        shut($glob) if *$glob{IO};
    }
    for my $entry (@{ $script->{start} }) {
        my ($glob, $kind, $value) = @$entry;
        if ($kind eq 'S') { my $new = $value; *$glob = \$new }
        elsif ($kind eq 'A') { my @new = @$value; *$glob = \@new }
        else { my %new = %$value; *$glob = \%new }
    }
    for my $isa (@{ $script->{isa} }) {
        my $array = \@{ *{ $isa->[0] } };
        @$array = @{ $isa->[1] } if "@$array" ne "@{ $isa->[1] }";
    }
    for my $count (@{ $script->{counts} }) {
        new_symbols($script, $count) if keys %{ $count->[0] } != $count->[1];
    }
    new_files($script) if keys %INC != $files;
    if ($INC{'CGI.pm'}) { CGI::initialize_globals() }
    if ($script->{formats}) { ($~, $=, $-) = ('main::STDOUT', 60, 0) }
    srand if $script->{seeds};
    uncompile($script) if $script->{anew};
}

sub shut {
    my ($glob) = @_;
    if (tied *$glob) { no warnings; untie *$glob }
    no warnings;
    close $glob;
    closedir $glob;
}

# Symbols that came while the script ran go again.
sub new_symbols {
    my ($script, $count) = @_;
    my ($stash, undef, $package) = @$count;
    my $symbols = $script->{symbols}{$package} //= {};
    for my $name (names_of($package)) {
        next if exists $symbols->{$name};
        my $glob = symbol($package, $stash, $name);
        if (ref $glob eq 'GLOB') {
            anew($script, "it gets subs only when it runs, such as ${package}::$name") if defined &$glob;
            shut($glob) if *$glob{IO};
            # Perl remembers inherited methods in such symbols.
            if (!defined ${*$glob} && !*$glob{ARRAY} && !*$glob{HASH} && !*$glob{CODE}) {
                $symbols->{$name} = $glob;
                push @{ $script->{clear} }, $glob;
                next;
            }
        }
        delete $stash->{$name};
    }
    $count->[1] = keys %$stash;
}

# Files that a script has read by `require`: one without a package defines its subs in main, so it is read again.
sub new_files {
    my ($script) = @_;
    for my $name (keys %INC) {
        next if $seen{$name}++;
        my $file = $INC{$name};
        next if !defined $file || ref $file;
        $file = "$script->{folder}/$file" if $script && $file !~ m{^/};
        open my $handle, '<', $file or next;
        local $/;
        my $text = <$handle>;
        if ($text =~ /^[ \t;]*package\s+[A-Za-z_]/m) {
            $watched{$file} //= stamp_of($file);
            next;
        }
        delete $INC{$name};
        delete $seen{$name};
        anew($script, "it requires $name, which has no package") if $script;
    }
    $files = keys %INC;
}

# Lets go of what compiling made of the script.
sub uncompile {
    my ($script) = @_;
    if (defined $current && $current == $script) { switch_to(undef) }
    undef &$_ for @{ $script->{subs} };
    @{ *{ $_->[0] } } = () for @{ $script->{isa} // [] };
    delete @$script{qw(isa code ends symbols clear partly subs start counts foreign cgi)};
}

sub drop { uncompile($_[0]) }

# A script that does not compile leaves nothing.
sub forget_symbols {
    my ($script, $known) = @_;
    for my $package (@{ $script->{packages} }) {
        next if $known->{$package};
        delete @{ stash($package) }{ names_of($package) };
    }
    $current = undef;
    new_files(undef);
}

sub end_blocks_of_perl {
    my $blocks = B::end_av();
    if ($blocks->isa('B::SPECIAL')) { load('END { }'); $blocks = B::end_av() }
    return $blocks->object_2svref;
}

# The script's END blocks run at the end of each run; those of modules at the end of the process.
sub take_end_blocks {
    my ($script, $blocks) = @_;
    my (@own, $at);
    (my $name = $script->{path}) =~ s/["\n\r]/_/g;
    for my $block (B::end_av()->ARRAY) {
        if ($block->FILE ne $name) { $at++; next }
        push @own, $block->object_2svref;
        splice @$blocks, $at // 0, 1;
    }
    $script->{ends} = @own ? \@own : undef;
}

# ---- `my` variables of the file that named subs use ----

# Named subs keep the first instance of such variables. As `our` they are shared in each run, and put back after it;
# which declaration is the one of the file, compiling says. If none can be changed, the script is compiled each time.
sub shared_variables {
    my ($script) = @_;
    for my $name (captured($script)) {
        next if !grep { $_ eq $name } captured($script);
        next if has_our($script, $name);
        return if !$script->{code};
        anew($script, "named subs use its variable `my $name`");
        return;
    }
}

sub pad_names {
    my ($cv) = @_;
    my $list = B::svref_2object($cv)->PADLIST;
    return if $list->isa('B::SPECIAL');
    return grep { ref $_ eq 'B::PADNAME' && defined $_->PV && $_->PV =~ /^[\$\@%]\w/ } $list->ARRAYelt(0)->ARRAY;
}

sub captured {
    my ($script) = @_;
    my %names;
    for my $glob (@{ $script->{subs} }) {
        $names{ $_->PV } = 1 for grep { $_->FLAGS & B::SVf_FAKE() && !($_->FLAGS & B::SVpad_OUR()) } pad_names(\&$glob);
    }
    return sort keys %names;
}

sub own_variables {
    my ($script) = @_;
    return map { $_->PV } grep { !($_->FLAGS & B::SVf_FAKE()) && !($_->FLAGS & B::SVpad_OUR()) } pad_names($script->{code});
}

sub has_our {
    my ($script, $name) = @_;
    my $source = $script->{source};
    my @places;
    while ($source =~ /\bmy\b\s*(\([^()]*?\Q$name\E\b[^()]*\)|\Q$name\E\b)/g) { push @places, [ $-[0], $1 ] }
    for my $place (@places[ 0 .. ($#places < 15 ? $#places : 15) ]) {
        my @names = $place->[1] =~ /([\$\@%]\w+)/g;
        next if grep { !can_be_our($script, $_) } @names;
        my $changed = $source;
        substr $changed, $place->[0], 2, 'our';
        uncompile($script);
        $script->{source} = $changed;
        my $result = compile($script);
        return 1 if ref $result && !grep { $_ eq $name } captured($script), own_variables($script);
        $script->{source} = $source;
        uncompile($script) if ref $result;
        return 0 if !ref compile($script);
    }
    return 0;
}

# A variable can become `our` if the file declares it once and no package has one of this name.
sub can_be_our {
    my ($script, $name) = @_;
    my ($kind, $plain) = $name =~ /^(.)(.*)/;
    return 0 if $base{$plain} || $plain =~ /^\d/ || (grep { $_ eq $name } own_variables($script)) != 1;
    for my $symbols (values %{ $script->{symbols} }) {
        my $glob = $symbols->{$plain} // next;
        return 0 if ref $glob ne 'GLOB';
        my $gv = B::svref_2object($glob);
        my $slot = $kind eq '$' ? $gv->SV : $kind eq '@' ? $gv->AV : $gv->HV;
        return 0 if !$slot->isa('B::SPECIAL') && $slot->REFCNT;
    }
    return 1;
}
