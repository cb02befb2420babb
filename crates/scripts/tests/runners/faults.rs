//! Scripts that misbehave: the right answer, a line for the log, and nothing left.

use super::client::{PATIENCE, Stand, begin};
use std::io::Write;
use std::time::{Duration, Instant};
use weir_scripts::{ToServer, Way};

/// A pool whose scripts have a second.
fn stand() -> Stand {
    Stand::new(Way::Cgi, |pool| (pool.timeout, pool.slow) = (Duration::from_secs(1), Duration::from_millis(300)))
}

#[test]
fn a_script_that_hangs_is_named_and_ended_even_if_it_ignores_sigterm() {
    let mut stand = stand();
    for (name, text) in
        [("hang.sh", "#!/bin/sh\nsleep 1000\n"), ("deaf.sh", "#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 1; done\n")]
    {
        let path = stand.script(name, text);
        let begun = Instant::now();
        let response = stand.ask(name, &[], b"");
        response.is_refusal(504);
        assert!(response.log.contains(&format!("{} took longer", path.display())), "{response:?}");
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
        let stuck = loop {
            if let ToServer::Stuck(told) = stand.hear() {
                break told;
            }
        };
        assert_eq!(
            (stuck.script, stuck.request, stuck.timeout_ms),
            (path.display().to_string(), "GET /x".to_owned(), 1000)
        );
    }
    stand.is_alone();
}

#[test]
fn what_forks_away_is_ended_with_the_script() {
    let stand = stand();
    let forks = [
        ("child.sh", "sleep 1000 &"),
        ("session.sh", "setsid sleep 1000 >/dev/null 2>&1 </dev/null &"),
        ("twice.sh", "(setsid sh -c 'trap \"\" TERM HUP; (sleep 1000 &) ; sleep 1000' >/dev/null 2>&1 &)"),
        ("holds.sh", "(setsid sleep 1000 &)"),
    ];
    for (name, fork) in forks {
        let path = stand.script(
            name,
            &format!("#!/bin/sh\nexport MARK='{}'\n{fork}\nprintf 'A: b\\n\\nc'\n", stand.folder.path().display()),
        );
        let response = stand.ask(name, &[], b"");
        assert_eq!((response.text().as_str(), response.end), ("A: b\n\nc", Some(0)), "{name}");
        assert!(response.log.contains(&format!("{} left", path.display())), "{name}: {response:?}");
    }
    let sleeps = || {
        let all = std::fs::read_dir("/proc").expect("processes").flatten();
        let mark = stand.folder.path().display().to_string();
        all.filter(|entry| {
            std::fs::read(entry.path().join("environ")).is_ok_and(|text| String::from_utf8_lossy(&text).contains(&mark))
        })
        .count()
    };
    assert_eq!(sleeps(), 0);
}

#[test]
fn a_script_that_dies_or_says_nothing_is_told() {
    let stand = stand();
    for (name, text, words) in [
        ("crash.sh", "kill -SEGV $$", "was killed by SIGSEGV"),
        ("alarm.sh", "kill -ALRM $$", "was killed by signal 14"),
        ("silent.sh", "exit 7", "ended with status 7 and wrote no response"),
    ] {
        stand.script(name, &format!("#!/bin/sh\n{text}\n"));
        let response = stand.ask(name, &[], b"");
        response.is_refusal(502);
        assert!(response.log.contains(words), "{response:?}");
    }
    // Once bytes have gone, only the end of the connection can say it.
    stand.script("late.sh", "#!/bin/sh\nprintf 'A: b\\n\\nc'; sleep 0.3; kill -KILL $$\n");
    let response = stand.ask("late.sh", &[], b"");
    assert_eq!((response.text().as_str(), response.end), ("A: b\n\nc", None));
    assert!(response.log.contains("late.sh was killed"), "{response:?}");
    stand.is_alone();
}

#[test]
fn a_script_that_reads_no_body_does_not_hold_the_client_up() {
    let stand = stand();
    let path = stand.script("deaf.sh", "#!/bin/sh\nexec <&-; printf 'A: b\\n\\nc'\n");
    let mut conn = stand.connect();
    for _ in 0..3 {
        let response = conn.ask(&path, &[], &[b'x'; 200_000]);
        assert_eq!(response.text(), "A: b\n\nc", "{response:?}");
        // The runner does not wait for the rest of a body that no script reads.
        conn = stand.connect();
    }
}

#[test]
fn errors_are_bounded_and_counted() {
    let stand = Stand::new(Way::Cgi, |_| {});
    stand.script("loud.sh", "#!/bin/sh\nprintf 'A: b\\n\\nc'; yes | head -c 200000 >&2\n");
    let response = stand.ask("loud.sh", &[], b"");
    assert_eq!((response.text().as_str(), response.end), ("A: b\n\nc", Some(0)));
    assert!(
        response.log.len() < 70_000 && response.log.contains("134464 more bytes of STDERR"),
        "{}",
        &response.log[response.log.len() - 200..]
    );
}

#[test]
fn a_server_that_has_gone_ends_the_script() {
    let stand = Stand::new(Way::Cgi, |pool| pool.timeout = Duration::ZERO);
    let path = stand.script("long.sh", "#!/bin/sh\nprintf 'A: b\\n\\n'; sleep 1000\n");
    let mut conn = stand.connect();
    conn.send(&path, &[], b"");
    stand.has_begun();
    drop(conn);
    stand.is_alone();
    // Also one that goes within its own request.
    let mut conn = stand.connect();
    conn.0.write_all(&begin(&path, &[], 10)).expect("is sent");
    drop(conn);
    stand.is_alone();
    assert_eq!(stand.ask("none.sh", &[], b"").end, Some(0));
}

#[test]
fn scripts_end_with_the_supervisor_also_if_it_is_killed() {
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        let stand = Stand::new(Way::Cgi, |_| {});
        let path = stand.script("long.sh", "#!/bin/sh\nsleep 1000\n");
        let mut conn = stand.connect();
        conn.send(&path, &[], b"");
        stand.has_begun();
        let runners = stand.runners();
        assert_eq!(runners.len(), 2);
        // SAFETY: the process is a child that was not waited for.
        unsafe { libc::kill(stand.supervisor() as libc::pid_t, signal) };
        stand.is_alone();
        let until = Instant::now() + PATIENCE;
        while runners.iter().any(|pid| std::path::Path::new(&format!("/proc/{pid}")).exists()) {
            assert!(Instant::now() < until, "{runners:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_runner_that_is_killed_is_started_again_and_leaves_nothing() {
    let mut stand = Stand::new(Way::Cgi, |pool| pool.workers = 1);
    let path = stand.script("long.sh", "#!/bin/sh\nsleep 1000\n");
    let quick = stand.script("quick.sh", "#!/bin/sh\nprintf 'A: b\\n\\nc'\n");
    let runner = loop {
        if let ToServer::Status(pools) = stand.hear() {
            break pools[0].pid;
        }
    };
    let mut conn = stand.connect();
    conn.send(&path, &[], b"");
    stand.has_begun();
    // SAFETY: it is a process of this test's supervisor.
    unsafe { libc::kill(runner as libc::pid_t, libc::SIGKILL) };
    assert_eq!(conn.receive().end, None);
    stand.is_alone();
    let told = loop {
        if let ToServer::Tell(text) = stand.hear() {
            break text;
        }
    };
    assert!(told.contains("has ended (signal: 9 (SIGKILL))"), "{told}");
    assert_eq!(stand.connect().ask(&quick, &[], b"").text(), "A: b\n\nc");
}
