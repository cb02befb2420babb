//! Scripts, and servers, that do what they must not: no other answer changes, and nothing is left.

use super::client::{PATIENCE, Response, Stand, begin, record};
use std::io::Write;
use std::time::{Duration, Instant};
use weir_scripts::{Pool, ToServer, Way};

/// What scripts of Perl begin with: `ask` reads the variables of the next request, `tell` writes.
const PERL: &str = "#!/usr/bin/perl
open my $in, '<&=', 3;
our ($number, %of) = (0);
my ($end, $escape, $escaped) = @ENV{qw(CGIPLUSEOF CGIPLUSESC CGIPLUSEOT)};
sub tell_it { my $text = join '', @_; while (length $text) { my $n = syswrite STDOUT, $text; exit 1 unless $n; substr($text, 0, $n) = '' } }
sub ask {
    my $line = <$in>;
    exit 0 unless defined $line;
    %of = ();
    while (defined($line = <$in>)) { chomp $line; last if $line eq ''; my ($name, $value) = split /=/, $line, 2; $of{$name} = $value }
    $number++;
}
";

fn kept(change: impl FnOnce(&mut Pool)) -> Stand {
    Stand::new(Way::Cgiplus, |pool| {
        pool.workers = 1;
        change(pool);
    })
}

fn cgi(timeout: Duration) -> Stand {
    Stand::new(Way::Cgi, |pool| (pool.timeout, pool.workers) = (timeout, 1))
}

/// Waits for a line of the log.
fn is_told(stand: &mut Stand, words: &str) {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let ToServer::Tell(text) = stand.hear()
            && text.contains(words)
        {
            return;
        }
    }
    panic!("nothing tells {words:?}");
}

fn counts(response: &Response, number: u32) {
    assert_eq!((response.text(), response.end), (format!("A: b\n\n{number}"), Some(0)), "{response:?}");
}

#[test]
fn a_response_is_whole_however_slowly_the_server_takes_it() {
    let stand = cgi(Duration::from_secs(20));
    let path = stand.script(
        "long.sh",
        "#!/bin/sh\nprintf 'A: b\\n\\n'; head -c \"$QUERY_STRING\" /dev/zero\necho > \"done.$QUERY_STRING\"\n",
    );
    std::fs::set_permissions(&stand.pool.root, std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("is set");
    let mut conn = stand.connect();
    // Some of these lengths leave the last bytes in the pipe of a script that has ended.
    for bytes in (300_000..620_000).step_by(16_000) {
        conn.send(&path, &[("QUERY_STRING", &bytes.to_string())], b"");
        let until = Instant::now() + Duration::from_millis(300);
        while !stand.pool.root.join(format!("done.{bytes}")).exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        let response = conn.receive();
        assert_eq!((response.output.len(), response.end), (bytes + 6, Some(0)), "{}", response.log);
    }
}

#[test]
fn a_script_that_closes_its_output_has_answered() {
    let stand = cgi(Duration::from_secs(15));
    stand.script("closes.sh", "#!/bin/sh\nprintf 'A: b\\n\\nc'\nexec >&-\nsleep 1000\n");
    stand.script("mute.sh", "#!/bin/sh\nexec >&- 2>&-\nsleep 1000\n");
    let begun = Instant::now();
    let response = stand.ask("closes.sh", &[], b"");
    assert_eq!((response.text().as_str(), response.end), ("A: b\n\nc", Some(0)));
    assert!(response.log.contains("closes.sh closed its output and ran on"), "{response:?}");
    let mute = stand.ask("mute.sh", &[], b"");
    mute.is_refusal(502);
    assert!(mute.log.contains("wrote no response and ran on"), "{mute:?}");
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
    stand.is_alone();
}

#[test]
fn a_flood_of_errors_by_many_processes_holds_no_timeout_up() {
    let stand = cgi(Duration::from_secs(1));
    let path = stand.script("flood.sh", "#!/bin/sh\nfor i in 1 2 3 4 5 6; do yes $0 >&2 & done\nyes $0 >&2\n");
    let begun = Instant::now();
    let response = stand.ask("flood.sh", &[], b"");
    response.is_refusal(504);
    assert!(
        response.log.contains(&format!("more bytes of STDERR of {}", path.display())),
        "{} bytes",
        response.log.len()
    );
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    stand.is_alone();
}

#[test]
fn a_fork_bomb_ends_with_its_request() {
    let stand = Stand::new(Way::Cgi, |pool| {
        (pool.timeout, pool.workers, pool.processes) = (Duration::from_secs(2), 1, 250);
    });
    stand.script("bomb.sh", "#!/bin/sh\nbomb() { bomb | bomb & }\nbomb 2>/dev/null\nsleep 0.2\nprintf 'A: b\\n\\nc'\n");
    let response = stand.ask("bomb.sh", &[], b"");
    // It may have left no process for `sleep`: then it has written its answer all the same, or none.
    assert!(response.end.is_some(), "{response:?}");
    stand.is_alone();
    stand.script("good.sh", "#!/bin/sh\nprintf 'A: b\\n\\nc'\n");
    assert_eq!(stand.ask("good.sh", &[], b"").text(), "A: b\n\nc");
}

#[test]
fn a_script_that_goes_to_its_runners_group_or_stops_is_ended() {
    let stand = cgi(Duration::from_millis(500));
    stand.script("moves.pl", "#!/usr/bin/perl\nsetpgrp(0, getppid); $SIG{TERM} = 'IGNORE'; sleep 1000 while 1;\n");
    stand.script("stops.sh", "#!/bin/sh\nkill -STOP $$\n");
    for name in ["moves.pl", "stops.sh"] {
        let begun = Instant::now();
        stand.ask(name, &[], b"").is_refusal(504);
        assert!(begun.elapsed() < Duration::from_secs(5), "{name}: {:?}", begun.elapsed());
    }
    stand.is_alone();
}

#[test]
fn a_script_neither_looks_into_its_runner_nor_keeps_it_stopped() {
    let mut stand = cgi(Duration::from_secs(15));
    stand.script(
        "looks.sh",
        "#!/bin/sh\nprintf 'A: b\\n\\n'; for of in environ mem fd/3 maps; do cat /proc/$PPID/$of 2>/dev/null && echo \"$of is open\"; done; ls /proc/$PPID/fd 2>/dev/null; echo end\n",
    );
    let response = stand.ask("looks.sh", &[], b"");
    assert_eq!(response.text(), "A: b\n\nend\n");
    for (name, signal) in [("stop.sh", "STOP"), ("kill.sh", "KILL"), ("term.sh", "TERM")] {
        let path = stand.script(name, &format!("#!/bin/sh\nkill -{signal} $PPID\nsleep 1000\n"));
        let mut conn = stand.connect();
        conn.send(&path, &[], b"");
        assert_eq!(conn.receive().end, None, "{name}");
        is_told(&mut stand, "has ended (");
        stand.is_alone();
    }
    stand.script("good.sh", "#!/bin/sh\nprintf 'A: b\\n\\nc'\n");
    assert_eq!(stand.ask("good.sh", &[], b"").text(), "A: b\n\nc");
}

#[test]
fn what_a_process_writes_between_two_requests_reaches_none() {
    for (name, stale, words) in [
        ("late.pl", "tell_it 'X-Stale: 1'", "wrote between two requests"),
        ("part.pl", "tell_it substr($end, 0, 9)", "wrote between two requests"),
        ("twice.pl", "tell_it $end", "marked the end of a response twice"),
    ] {
        let mut stand = kept(|_| {});
        std::fs::set_permissions(&stand.pool.root, std::os::unix::fs::PermissionsExt::from_mode(0o777))
            .expect("is set");
        let text = format!(
            "{PERL}while (1) {{ ask; tell_it \"A: b\\n\\n$number$end\\n\"; next if $of{{QUERY_STRING}}; select undef, undef, undef, 0.05; {stale}; open my $f, '>', 'written'; }}\n"
        );
        let path = stand.script(name, &text);
        let mut conn = stand.connect();
        counts(&conn.ask(&path, &[("QUERY_STRING", "1")], b""), 1);
        counts(&conn.ask(&path, &[("QUERY_STRING", "")], b""), 2);
        let until = Instant::now() + PATIENCE;
        while !stand.pool.root.join("written").exists() {
            assert!(Instant::now() < until);
            std::thread::sleep(Duration::from_millis(5));
        }
        for number in 1..3 {
            counts(&conn.ask(&path, &[("QUERY_STRING", "1")], b""), number);
        }
        is_told(&mut stand, words);
    }
}

#[test]
fn a_process_that_answers_without_a_look_at_the_request_answers_no_other() {
    let mut stand = kept(|_| {});
    let path = stand.script("deaf.pl", &format!("{PERL}tell_it \"A: b\\n\\n\", ++$number, $end while 1;\n"));
    let mut conn = stand.connect();
    for _ in 0..3 {
        counts(&conn.ask(&path, &[], b""), 1);
    }
    is_told(&mut stand, "answered a request before it had read it to its end");
    // More variables than the pipe holds, none of which is read.
    let long = "x".repeat(300_000);
    counts(&conn.ask(&path, &[("QUERY_STRING", &long)], b""), 1);
    counts(&conn.ask(&path, &[], b""), 1);
    let behind =
        stand.script("behind.pl", &format!("{PERL}while (1) {{ ask; tell_it \"A: b\\n\\n$number$end\\nmore\" }}\n"));
    for _ in 0..2 {
        counts(&conn.ask(&behind, &[], b""), 1);
    }
    is_told(&mut stand, "wrote 4 bytes behind the end of its response");
}

#[test]
fn a_mark_without_a_response_and_one_in_pieces_shift_no_answers() {
    let stand = kept(|_| {});
    let text = format!(
        "{PERL}while (1) {{ ask; my $q = $of{{QUERY_STRING}}; if ($q eq 'none') {{ tell_it $end }} elsif ($q eq 'pieces') {{ for (split //, \"A: b\\n\\n$number$end\\n\") {{ tell_it $_; select undef, undef, undef, 0.002 }} }} else {{ tell_it \"A: b\\n\\n$number$end\\n\" }} }}\n"
    );
    let path = stand.script("marks.pl", &text);
    let mut conn = stand.connect();
    counts(&conn.ask(&path, &[("QUERY_STRING", "a")], b""), 1);
    let none = conn.ask(&path, &[("QUERY_STRING", "none")], b"");
    none.is_refusal(502);
    assert!(none.log.contains("ended a response that it had not begun"), "{none:?}");
    counts(&conn.ask(&path, &[("QUERY_STRING", "a")], b""), 1);
    // Its last newline may come behind the answer.
    counts(&conn.ask(&path, &[("QUERY_STRING", "pieces")], b""), 2);
    counts(&conn.ask(&path, &[("QUERY_STRING", "a")], b""), 3);
}

#[test]
fn callouts_without_end_are_bounded_and_early_ones_are_answered() {
    let stand = kept(|pool| pool.timeout = Duration::from_secs(15));
    let endless = stand.script(
        "endless.pl",
        &format!("{PERL}ask; tell_it $escape, \"\\n\", \"x\\n\" x 2000, $escaped, \"\\n\" while 1;\n"),
    );
    let early = stand.script(
        "early.pl",
        &format!("{PERL}tell_it \"$escape\\nNOOP:\\n!CGIPLUS: record\\n$escaped\\n\"; while (1) {{ ask; tell_it \"A: b\\n\\n$number\"; if ($number == 1) {{ my $answer = <$in>; tell_it $answer eq \"200 OK\\n\" ? '' : $answer }} tell_it \"$end\\n\" }}\n"),
    );
    let mut conn = stand.connect();
    let response = conn.ask(&endless, &[], b"");
    response.is_refusal(502);
    assert!(response.log.contains("or it reads no answers"), "{response:?}");
    for number in 1..4 {
        counts(&conn.ask(&early, &[], b""), number);
    }
}

#[test]
fn a_length_that_lies_moves_no_byte_into_the_next_body() {
    let stand = kept(|pool| pool.timeout = Duration::from_secs(15));
    let text = format!(
        "{PERL}while (1) {{ ask; my ($body, $left) = ('', $of{{CONTENT_LENGTH}} || 0); while ($left > 0) {{ my $n = sysread STDIN, $body, $left, length $body; exit 1 unless $n; $left -= $n }} tell_it \"A: b\\n\\n$number $body$end\" }}\n"
    );
    let path = stand.script("body.pl", &text);
    let text = |number: u32, body: &str| format!("A: b\n\n{number} {body}");
    let mut conn = stand.connect();
    assert_eq!(conn.ask(&path, &[], b"first").text(), text(1, "first"));
    assert_eq!(conn.ask(&path, &[("CONTENT_LENGTH", "3")], b"abcdef").text(), text(2, "abc"));
    assert_eq!(conn.ask(&path, &[], b"xyz").text(), text(3, "xyz"));
    drop(conn);
    // A body that is shorter than it says is no request: its process would take the next body for the rest.
    let short = stand.ask("body.pl", &[("CONTENT_LENGTH", "9")], b"abc");
    assert_eq!((short.text().as_str(), short.end), ("", None));
    assert_eq!(stand.ask("body.pl", &[], b"xyz").text(), text(1, "xyz"));
    stand.script("early.pl", &format!("{PERL}while (1) {{ ask; tell_it \"A: b\\n\\n$number$end\" }}\n"));
    for _ in 0..2 {
        // It answers while the body comes, so it is behind.
        counts(&stand.ask("early.pl", &[], &[b'x'; 200_000]), 1);
    }
}

#[test]
fn variables_of_a_mebibyte_and_odd_names_are_taken_or_refused() {
    let value = "v".repeat(900_000);
    let long = stand_and_ask(Way::Cgi, "printf 'A: b\\n\\n1'", &[("LONG", &value)]);
    long.is_refusal(431);
    assert!(long.log.contains("longer than the system gives programs"), "{:.300}", long.log);
    let odd = stand_and_ask(Way::Cgi, "printf 'A: b\\n\\n1'", &[("BASH_FUNC_x%%", "() { :; }")]);
    odd.is_refusal(400);
    let stand = kept(|_| {});
    let text = format!("{PERL}while (1) {{ ask; tell_it \"A: b\\n\\n\", length $of{{LONG}}, $end }}\n");
    let path = stand.script("long.pl", &text);
    counts(&stand.connect().ask(&path, &[("LONG", &value)], b""), 900_000);
    // More than a mebibyte is no request.
    let mut conn = stand.connect();
    let _ = conn.0.write_all(&begin(&path, &[("LONG", &"v".repeat(1_100_000))], 0));
    assert_eq!(conn.receive().end, None);
    counts(&stand.connect().ask(&path, &[("LONG", "vvv")], b""), 3);
}

fn stand_and_ask(way: Way, text: &str, variables: &[(&str, &str)]) -> Response {
    let stand = Stand::new(way, |_| {});
    stand.script("one.sh", &format!("#!/bin/sh\n{text}\n"));
    stand.ask("one.sh", variables, b"")
}

#[test]
fn a_server_that_breaks_off_or_talks_nonsense_costs_its_own_request_alone() {
    let cgi = cgi(Duration::ZERO);
    let of_cgi = cgi.script("waits.sh", "#!/bin/sh\nprintf 'A: b\\n\\n1'; cat >/dev/null\n");
    let kept = kept(|pool| pool.timeout = Duration::ZERO);
    let of_kept = kept.script(
        "waits.pl",
        &format!("{PERL}while (1) {{ ask; sysread STDIN, my $body, $of{{CONTENT_LENGTH}} || 0 if $of{{CONTENT_LENGTH}}; tell_it \"A: b\\n\\n1$end\" }}\n"),
    );
    for (stand, path) in [(&cgi, &of_cgi), (&kept, &of_kept)] {
        let whole = begin(path, &[], 10);
        let with = |kind: u8, content: &[u8]| {
            let mut bytes = whole.clone();
            record(kind, content, &mut bytes);
            bytes
        };
        let mut cases: Vec<Vec<u8>> =
            [0, 1, 7, 8, 15, 16, 20, whole.len() - 1, whole.len()].map(|at| whole[..at].to_vec()).into();
        cases.extend([
            with(2, b""),
            with(5, b"abc"),
            with(1, &[0, 1, 1, 0, 0, 0, 0, 0]),
            with(77, b"x"),
            with(4, b"x"),
        ]);
        cases.push([&whole[..], &[9; 100]].concat());
        cases.push(vec![b'G'; 100_000]);
        for bytes in cases {
            let conn = stand.connect();
            let _ = (&conn.0).write_all(&bytes);
            drop(conn);
        }
        counts(&stand.connect().ask(path, &[], b"0123456789"), 1);
    }
    cgi.is_alone();
}

#[test]
fn more_connections_than_runners_are_answered_in_turn_and_one_end_harms_no_other_process() {
    let stand = kept(|_| {});
    let text = format!(
        "{PERL}while (1) {{ ask; exit 3 if $of{{QUERY_STRING}} eq 'die'; tell_it \"A: b\\n\\n$number$end\" }}\n"
    );
    let (one, other) = (stand.script("one.pl", &text), stand.script("other.pl", &text));
    for number in 1..4 {
        let mut conns: Vec<_> = (0..3).map(|_| stand.connect()).collect();
        conns.iter_mut().for_each(|conn| conn.send(&one, &[], b""));
        conns.reverse();
        for turn in 1..4 {
            let mut conn = conns.pop().expect("it is there");
            counts(&conn.receive(), (number - 1) * 3 + turn);
        }
        counts(&stand.connect().ask(&other, &[], b""), 2 * number - 1);
        stand.connect().ask(&stand.script("third.pl", &text), &[("QUERY_STRING", "die")], b"").is_refusal(502);
        counts(&stand.connect().ask(&other, &[], b""), 2 * number);
    }
}
