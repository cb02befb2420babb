//! `weir serve` with a log that cannot be written: a disk that is full and has room again, and a reader that has stopped
//! reading. No response waits for it, and every line is written or counted as dropped.

use crate::support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::files::SmallDisk;
use support::weir;
use weir_testkit::{SlowFs, require};

/// A running server and what it says on its standard error.
struct Serving {
    child: Child,
    said: Arc<Mutex<String>>,
    addr: SocketAddr,
}

impl Serving {
    fn start(site: &Path, arguments: &[&str]) -> Self {
        std::fs::write(site.join("a.txt"), "hello").expect("writes");
        let mut child = weir()
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .arg(site)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("weir starts");
        let said = Arc::new(Mutex::new(String::new()));
        let (stderr, into) = (child.stderr.take().expect("piped"), Arc::clone(&said));
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                into.lock().expect("no thread panics with it").push_str(&(line + "\n"));
            }
        });
        let greeting = if arguments.contains(&"-") {
            wait_until("it says where it serves", || said.lock().expect("no panic").contains("serving"));
            said.lock().expect("no panic").clone()
        } else {
            let mut line = String::new();
            BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a greeting");
            line
        };
        let addr = greeting.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        let addr = addr.and_then(|addr| addr.parse().ok()).unwrap_or_else(|| panic!("no address in {greeting}"));
        Self { child, said, addr }
    }

    fn said(&self, what: &str) -> bool {
        self.said.lock().expect("no thread panics with it").contains(what)
    }

    /// Asks for so many files over one connection, each of which has to come.
    fn ask(&self, count: usize) {
        let mut stream = TcpStream::connect(self.addr).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
        let mut reply = vec![0; 64 << 10];
        let mut asked = 0;
        while asked < count {
            let batch = 16.min(count - asked);
            let requests: String = (asked..asked + batch)
                .map(|number| format!("GET /a.txt HTTP/1.1\r\nHost: a\r\nUser-Agent: n{number}\r\n\r\n"))
                .collect();
            stream.write_all(requests.as_bytes()).expect("sends");
            let mut received = Vec::new();
            while received.windows(9).filter(|window| window == b"\r\n\r\nhello").count() < batch {
                let read = stream.read(&mut reply).expect("answers");
                assert!(read > 0, "the server ended the connection");
                received.extend_from_slice(&reply[..read]);
            }
            assert_eq!(received.windows(12).filter(|window| window == b"HTTP/1.1 200").count(), batch);
            asked += batch;
        }
    }

    /// Stops it; how many requests it tells, and how many lines it has dropped.
    fn stop(mut self) -> (u64, u64) {
        // SAFETY: the call takes no pointers, and the process is our child, which we have not waited for.
        unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGTERM) };
        let begin = Instant::now();
        assert!(self.child.wait().expect("it ends").success());
        assert!(begin.elapsed() < Duration::from_secs(20), "the end waited for the log");
        wait_until("it says farewell", || self.said("stopped after"));
        let said = self.said.lock().expect("no panic").clone();
        let last = said.lines().find(|line| line.starts_with("stopped after")).expect("a farewell").to_owned();
        let number = |text: &str| text.trim().split(' ').next().and_then(|number| number.parse().ok());
        let requests = last.strip_prefix("stopped after ").and_then(number).expect("a number");
        let dropped = last.split(';').find(|part| part.contains("log lines dropped")).and_then(number).unwrap_or(0);
        (requests, dropped)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It fails where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Lines that are whole: from the address to the end of the user agent.
fn whole_lines(text: &str) -> u64 {
    text.lines().filter(|line| line.starts_with("127.0.0.0 - ") && line.ends_with('"')).count() as u64
}

#[test]
fn a_full_disk_costs_lines_until_it_has_room_again() {
    if require::program("h2load").is_none() {
        return;
    }
    let Some(disk) = SmallDisk::mount(1) else { return };
    let site = tempfile::tempdir().expect("a directory");
    let log = disk.path().join("access.log");
    let serving = Serving::start(site.path(), &["--access-log", log.to_str().expect("UTF-8")]);
    // A line has some 80 bytes, so the disk is full well before the end; what is lost is told once.
    serving.ask(20_000);
    wait_until("it says that lines are lost", || serving.said("lines of the access log are lost"));
    // HTTP/2 is answered as well meanwhile.
    let url = format!("http://{}/a.txt", serving.addr);
    let output = Command::new("h2load").args(["-n", "2000", "-c", "4", "-m", "10", &url]).output().expect("it starts");
    assert!(String::from_utf8_lossy(&output.stdout).contains("2000 succeeded, 0 failed"), "{output:?}");
    let before = std::fs::read_to_string(&log).expect("reads");
    assert!(before.len() >= 1_000_000, "{} bytes", before.len());
    // Room again: what was written goes, and the same file goes on.
    std::fs::File::options().write(true).open(&log).and_then(|file| file.set_len(0)).expect("truncates");
    wait_until("it writes again", || {
        serving.ask(100);
        serving.said("the access log is written again")
    });
    serving.ask(1000);
    let (requests, dropped) = serving.stop();
    let after = std::fs::read_to_string(&log).expect("reads");
    assert!(after.contains("n999\""), "the last line is there");
    let counted = whole_lines(&before) + whole_lines(&after) + dropped;
    // A line that was torn just before its end looks whole.
    assert!((requests..=requests + 2).contains(&counted), "{counted} lines of {requests} requests, {dropped} dropped");
}

#[test]
fn a_reader_that_has_stopped_costs_lines_and_no_response() {
    let site = tempfile::tempdir().expect("a directory");
    let mut serving = Serving::start(site.path(), &["--loops", "2", "--access-log", "-"]);
    let mut pipe = serving.child.stdout.take().expect("piped");
    // More than the pipe, the queue and the loops hold.
    serving.ask(30_000);
    let (requests, dropped) = serving.stop();
    let mut text = String::new();
    pipe.read_to_string(&mut text).expect("reads");
    assert_eq!(requests, 30_000);
    assert!(dropped > 0);
    let counted = text.matches('\n').count() as u64 + dropped;
    // The server stopped while it wrote a block of 256 KiB at most, and cannot know how much of it got out.
    assert!((requests..requests + 4000).contains(&counted), "{counted} lines of {requests}, {dropped} dropped");
}

#[test]
fn a_disk_that_stalls_holds_up_no_response() {
    if require::fuse().is_none() {
        return;
    }
    let slow = SlowFs::mount(0).expect("the file system is mounted");
    let signal = |number| {
        // SAFETY: the call takes no pointers, and the process lives as long as the file system is mounted.
        unsafe { libc::kill(slow.pid().cast_signed(), number) };
    };
    let site = tempfile::tempdir().expect("a directory");
    let log = slow.dir().join("access.log");
    let serving = Serving::start(site.path(), &["--access-log", log.to_str().expect("UTF-8")]);
    serving.ask(1000);
    wait_until("the first lines are there", || std::fs::metadata(&log).is_ok_and(|log| log.len() > 0));
    let written = || std::fs::metadata(&log).expect("it is there").len();
    let before = written();
    signal(libc::SIGSTOP);
    serving.ask(30_000);
    signal(libc::SIGCONT);
    // Of what waits, some half a megabyte, enough is written that there is room again.
    wait_until("the disk goes on", || written() > before + (256 << 10));
    // It goes on as fast as it can, and where that is slow some lines more find no room.
    wait_until("a last line is written", || {
        serving.ask(1000);
        std::thread::sleep(Duration::from_millis(300));
        std::fs::read_to_string(&log).is_ok_and(|text| text.ends_with("n999\"\n"))
    });
    let (requests, dropped) = serving.stop();
    let text = std::fs::read_to_string(&log).expect("reads");
    assert_eq!(whole_lines(&text) + dropped, requests);
    assert!(dropped > 0 && requests >= 32_000, "{dropped} dropped of {requests}");
}
