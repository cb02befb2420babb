//! System calls of a runner for a request, counted by strace(1): each is some of the time by which a runner costs more
//! than a program that speaks FastCGI itself.

use super::client::Stand;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use weir_scripts::Way;

/// Requests of a count.
const REQUESTS: u64 = 100;
/// How often it is counted again before a count above the bound is believed: a busy machine only adds to it.
const LOOKS: u32 = 5;

/// A persistent script that answers by one write.
const PERSISTENT: &str = r#"#!/usr/bin/perl
open my $variables, '<&=', 3 or die;
while (defined(my $line = <$variables>)) {
    1 while defined($line = <$variables>) && $line ne "\n";
    syswrite STDOUT, "Content-Type: text/plain\n\nhello$ENV{CGIPLUSEOF}";
}
"#;
const PLAIN: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nhello'\n";
const OF_ENGINE: &str = "print \"Content-Type: text/plain\\n\\nhello\";\n";
/// A response of 64 KiB, which perl writes in pieces.
const LONG: &str = "print \"Content-Type: text/plain\\n\\n\";\nprint 'x' x 65536;\n";

#[test]
fn a_runner_makes_few_system_calls_for_a_request() {
    if weir_testkit::require::program("strace").is_none() {
        return;
    }
    // The wait for the request, its read, a look at the script's file, the write to the script; the wait for the
    // response, a look at what the script has read, the response's read, its write.
    holds(Way::Cgiplus, "hello.pl", PERSISTENT, 8.5);
    // What a script is told takes no more because an engine runs it.
    holds(Way::Rte, "hello.pl", OF_ENGINE, 8.5);
    // Pieces are read together.
    holds(Way::Rte, "long.pl", LONG, 14.0);
    // Besides: a pipe, a process, and what they leave.
    holds(Way::Cgi, "hello.sh", PLAIN, 20.0);
}

fn holds(way: Way, name: &str, text: &str, most: f64) {
    let stand = Stand::new(way, |pool| (pool.workers, pool.renew, pool.is_struct) = (1, 0, way == Way::Rte));
    let script = stand.script(name, text);
    let mut least = f64::INFINITY;
    for _ in 0..LOOKS {
        least = least.min(counted(&stand, &script));
        if least <= most {
            eprintln!("{way:?}, {name}: {least} system calls a request");
            // Fewer than these it cannot be: then nothing was counted.
            assert!(least >= 6.0);
            return;
        }
    }
    panic!("{way:?}, {name}: {least} system calls a request, more than {most}");
}

/// System calls of the runner for a request.
fn counted(stand: &Stand, script: &Path) -> f64 {
    let found = stand.folder.path().join("counted");
    let mut conn = stand.connect();
    let mut ask = || assert!(conn.ask(script, &[], b"").text().contains("\n\n"), "no response");
    ask();
    let [runner] = stand.runners()[..] else { panic!("one runner: {:?}", stand.runners()) };
    let mut strace = Command::new("strace")
        .args(["-c", "-o", &found.to_string_lossy(), "-p", &runner.to_string()])
        .stderr(Stdio::null())
        .spawn()
        .expect("it is there");
    let until = Instant::now() + super::client::PATIENCE;
    while !fs::read_to_string(format!("/proc/{runner}/status")).expect("the runner runs").contains(&tracer(&strace)) {
        assert!(Instant::now() < until, "strace does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    (0..REQUESTS).for_each(|_| ask());
    // SAFETY: the call takes no memory; the process was not waited for, so the number is its own.
    assert_eq!(unsafe { libc::kill(strace.id() as libc::pid_t, libc::SIGINT) }, 0);
    strace.wait().expect("it ends");
    let text = fs::read_to_string(&found).expect("what was counted");
    let row = text.lines().rev().find(|line| line.split_whitespace().last() == Some("total"));
    // Share of the time, seconds, microseconds a call, calls.
    let calls =
        row.and_then(|row| row.split_whitespace().nth(3)?.parse::<u64>().ok()).unwrap_or_else(|| panic!("{text}"));
    calls as f64 / REQUESTS as f64
}

fn tracer(strace: &std::process::Child) -> String {
    format!("TracerPid:\t{}\n", strace.id())
}
