//! What the access log, the marks of phases and the confinement of `weir serve` cost a request: instructions by
//! callgrind, which do not depend on the machine's load.

use crate::support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use support::{alone, planted::wait_for};
use weir_testkit::client::Connection;
use weir_testkit::counts::{settled, total, within};
use weir_testkit::{free_port, require};

/// Requests of the shorter run, and how many more the longer one has.
const FEW: u64 = 200;
const MORE: u64 = 2_000;

const REQUEST: &[u8] = b"GET /a.txt?page=2 HTTP/1.1\r\nHost: localhost\r\nReferer: http://localhost/index.html\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\r\n";

/// Instructions that a line of each form may add to a request, with all that becomes of it later: 677, 1,114 and 2,528
/// measured with Rust 1.95, and a tenth of room.
const LOG_MOST: [(&str, f64); 3] = [("common", 745.0), ("combined", 1_225.0), ("json", 2_790.0)];
/// Instructions that the history of requests adds to one, where there is an admin address: an entry of some 150 bytes is
/// written and copied, and the clock read twice. 659 measured with Rust 1.95, and a tenth of room.
const NOTE_MOST: f64 = 725.0;
/// Instructions of marks on the way of a request for what is in memory: two for each of read, route, cache, send, done;
/// 10.00 measured.
const MARKS_MOST: f64 = 10.0;

#[test]
fn a_line_of_the_log_is_few_instructions() {
    let _turn = alone();
    if require::program("valgrind").is_none() {
        return;
    }
    settled(|least| {
        let mut each =
            |args: &[&str]| least.each(args.concat(), (FEW, MORE), |requests| total(&counted(args, requests)));
        let plain = each(&[]);
        for (format, most) in LOG_MOST {
            let line = each(&["--access-log", "/dev/null", "--log-format", format]) - plain;
            eprintln!("{format}: {line:.0} instructions for a line, {plain:.0} for a request without");
            within(format, line, 50.0, most)?;
        }
        Ok(())
    });
}

#[test]
fn a_noted_request_is_few_instructions() {
    let _turn = alone();
    if require::program("valgrind").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a directory");
    let admin = format!("unix:{}", folder.path().join("admin").display());
    settled(|least| {
        let mut each =
            |args: &[&str]| least.each(args.concat(), (FEW, MORE), |requests| total(&counted(args, requests)));
        let without = each(&["--admin", &admin, "--history", "0"]);
        let note = each(&["--admin", &admin]) - without;
        eprintln!("{note:.0} instructions for a noted request, {without:.0} for one without");
        within("history", note, 50.0, NOTE_MOST)
    });
}

#[test]
fn a_mark_without_a_probe_is_two_instructions_that_do_nothing() {
    let _turn = alone();
    if require::program("valgrind").and_then(|()| require::program("objdump")).is_none() {
        return;
    }
    let marks = marks();
    assert!(marks.len() >= 6, "{marks:?}");
    let run = |requests| at_marks(&counted(&["--no-listing"], requests), &marks);
    let (few, many) = (run(FEW), run(FEW + MORE));
    let each = (many - few) as f64 / MORE as f64;
    eprintln!("{each:.2} instructions of marks a request, at {} places", marks.len());
    assert!(each > 1.0 && each <= MARKS_MOST + 0.1, "{each}");
}

/// Addresses of the program's marks, all of which have to be the two nops that they are made as.
fn marks() -> BTreeSet<u64> {
    let output = Command::new("readelf").args(["-n", env!("CARGO_BIN_EXE_weir")]).output().expect("of binutils");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut marks = BTreeSet::new();
    let mut is_ours = false;
    for line in text.lines().map(str::trim) {
        if let Some(provider) = line.strip_prefix("Provider: ") {
            is_ours = provider == "weir";
        }
        let place = line.strip_prefix("Location: 0x").and_then(|rest| rest.split(',').next());
        if let Some(place) = place.filter(|_| is_ours) {
            marks.insert(u64::from_str_radix(place, 16).expect("an address"));
        }
    }
    for mark in &marks {
        let range = [format!("--start-address={mark:#x}"), format!("--stop-address={:#x}", mark + 6)];
        let output = Command::new("objdump").arg("-d").args(range).arg(env!("CARGO_BIN_EXE_weir")).output();
        let text = String::from_utf8_lossy(&output.expect("of binutils").stdout).into_owned();
        let code: Vec<&str> = text.lines().filter(|line| line.contains(":\t")).collect();
        assert!(code.len() == 2 && code.iter().all(|line| line.contains("\tnop")), "{text}");
    }
    marks
}

/// What callgrind writes of a server that has answered so many requests of one connection.
fn counted(args: &[&str], requests: u64) -> String {
    let folder = tempfile::tempdir().expect("a directory");
    let counts = folder.path().join("counts");
    let site = folder.path().join("site");
    fs::create_dir(&site).expect("creates");
    fs::write(site.join("a.txt"), "hello").expect("writes");
    let port = free_port();
    let server = Command::new("valgrind")
        .args(["--tool=callgrind", "-q", "--dump-instr=yes", "--compress-pos=no"])
        .arg(format!("--callgrind-out-file={}", counts.display()))
        .arg(env!("CARGO_BIN_EXE_weir"))
        // A confined server could not write callgrind's file.
        .args(["serve", "--no-sandbox", "--loops", "1", "--listen", &format!("127.0.0.1:{port}")])
        .args(args)
        .arg(&site)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut server = Looked(server.expect("valgrind starts"));
    let mut connection = wait_for(|| Connection::open(port).ok());
    for _ in 0..requests {
        assert_eq!(connection.exchange(REQUEST).expect("an answer").status, 200);
    }
    drop(connection);
    // SAFETY: the call takes no pointers.
    assert_eq!(unsafe { libc::kill(server.0.id().cast_signed(), libc::SIGTERM) }, 0);
    assert!(server.0.wait().expect("it ends").success(), "it ended otherwise");
    read(&counts)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("callgrind's file")
}

/// Instructions at marks and behind their first byte. A line of costs is an address, a line and a count; what follows a
/// line of a call is the whole of what was called.
fn at_marks(text: &str, marks: &BTreeSet<u64>) -> u64 {
    let mut sum = 0;
    let mut is_call = false;
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let address = words[0].strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        if let (Some(address), [_, _, count], false) = (address, words.as_slice(), is_call)
            && (marks.contains(&address) || marks.contains(&(address.wrapping_sub(1))))
        {
            sum += count.parse::<u64>().expect("a count");
        }
        is_call = line.starts_with("calls=");
    }
    sum
}

/// A server within the program that counts it.
struct Looked(Child);

impl Drop for Looked {
    fn drop(&mut self) {
        // It fails only where it has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
