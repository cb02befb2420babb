//! Servers, loads and other commands for the tests: this very program, run again with a role.
#![allow(dead_code)] // Each test program uses a part of it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_compare::{
    Case, CommandLine, CpuAccountingChoice, CpuSet, Experiment, ExperimentError, Interrupt, Outcome, Pair, PartsChoice,
    Pinning, Plan, Repetitions, Target,
};

const ROLE: &str = "WEIR_TEST_ROLE";

/// To be called from a test named `helper`: plays the role that the environment names, if any.
pub(crate) fn play_role(extra: impl Fn(&[&str])) {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.split(' ').collect();
    let number = |index: usize| words[index].parse::<u64>().expect("a number in the role");
    match words[0] {
        // serve PORT BURN_US: answers after computing for so long.
        "serve" => serve(number(1) as u16, u64::MAX, || burn(Duration::from_micros(number(2)))),
        // forks PORT BURN_US: a child computes for so long, and is waited for.
        "forks" => serve(number(1) as u16, u64::MAX, || burn_in_child(Duration::from_micros(number(2)))),
        // leaks PORT: a daemon of its own, out of its process group and session, keeps the listening socket.
        "leaks" => {
            let listener = TcpListener::bind(("127.0.0.1", number(1) as u16)).expect("the port is free");
            leave_daemon();
            serve_at(&listener, u64::MAX, || ());
        }
        // stubborn PORT: does not end when told to, and prints without an end.
        "stubborn" => {
            // SAFETY: sets a disposition that has no handler.
            unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
            std::thread::spawn(|| {
                while io::stdout().write_all(&[b'x'; 4096]).is_ok() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            serve(number(1) as u16, u64::MAX, || ());
        }
        // dies PORT REQUESTS: ends with a message after so many.
        "dies" => {
            serve(number(1) as u16, number(2), || ());
            eprintln!("planted: out of requests");
            std::process::exit(3);
        }
        // load URL SECONDS BURN_US: one connection, computing for so long for each request.
        "load" => load(words[1], words[2].parse().expect("seconds"), Duration::from_micros(number(3))),
        _ => extra(&words),
    }
    std::process::exit(0);
}

/// The command that plays a role.
pub(crate) fn role(role: &str) -> CommandLine {
    let program = std::env::current_exe().expect("the test program's path").display().to_string();
    let variable = format!("{ROLE}={role}");
    let words = ["env", &variable, &program, "--exact", "helper", "--nocapture", "--test-threads=1"];
    CommandLine::from_words(words.map(str::to_owned).to_vec()).expect("a command")
}

pub(crate) fn command(text: &str) -> CommandLine {
    text.parse().expect("a command")
}

/// Measurements one at a time: tests run in several threads.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static MEASURING: Mutex<()> = Mutex::new(());
    MEASURING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As few as tell that it works.
pub(crate) const REPETITIONS: Repetitions =
    Repetitions { blocks: 2, aa_blocks: 1, block_s: 0.2, warm_up_s: 0.0, until: None, budget_s: None, starts: None };

/// A small plan: server on the first CPU, load on the last.
pub(crate) fn plan(pair: Pair, port_a: u16, port_b: u16) -> Plan {
    let target = |port: u16| format!("http://127.0.0.1:{port}/").parse::<Target>().expect("a target");
    let available = CpuSet::available().expect("the kernel knows");
    let cpu = |number: Option<&usize>| number.map(|number| CpuSet::one(*number).expect("a CPU that there is"));
    Plan {
        measured: pair.measured,
        servers: pair.servers,
        subjects: pair.subjects,
        cases: vec![Case {
            name: "test".to_owned(),
            targets: vec![Some(target(port_a)), Some(target(port_b))],
            connections: 1,
            options: Vec::new(),
        }],
        repetitions: REPETITIONS,
        restart: false,
        pinning: Pinning {
            server: cpu(available.numbers().first()),
            load: cpu(available.numbers().last()),
            beside: None,
        },
        start_timeout_s: 20.0,
        load_timeout_s: None,
        smallest_effect: 0.05,
        seed: 7,
        site: None,
        accounting: CpuAccountingChoice::Best,
        parts: PartsChoice::Auto,
    }
}

/// The load of most tests.
pub(crate) fn plain_load() -> CommandLine {
    role("load {url} {seconds} 0")
}

pub(crate) fn run(plan: Plan) -> Result<Outcome, ExperimentError> {
    Experiment::new(plan, Interrupt::default()).run(&mut |_| ())
}

/// Whether nothing listens at this port any more, within some seconds.
pub(crate) fn becomes_silent(port: u16) -> bool {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(10) {
        if TcpStream::connect(("127.0.0.1", port)).is_err() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Uses CPU time by the thread's own CPU clock, so the amount is exact on a busy machine.
fn burn(time: Duration) {
    let used = || {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer is to a variable of ours.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    };
    let began = used();
    while used() - began < time {}
}

fn burn_in_child(time: Duration) {
    // SAFETY: this role has one thread that matters; the child computes and exits.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            burn(time);
            libc::_exit(0);
        }
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
}

/// Forks twice and leaves the session: no process waits for the one that remains, and no group has it.
fn leave_daemon() {
    // SAFETY: the children only make system calls until they exit.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::setsid();
            if libc::fork() == 0 {
                libc::setsid();
                libc::signal(libc::SIGTERM, libc::SIG_IGN);
                libc::sleep(300);
            }
            libc::_exit(0);
        }
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
}

/// Answers requests, connection after connection.
fn serve(port: u16, requests_max: u64, work: impl Fn()) {
    serve_at(&TcpListener::bind(("127.0.0.1", port)).expect("the port is free"), requests_max, work);
}

fn serve_at(listener: &TcpListener, requests_max: u64, work: impl Fn()) {
    let mut answered = 0;
    for connection in listener.incoming() {
        let mut reader = BufReader::new(connection.expect("a connection"));
        loop {
            let mut line = String::new();
            let mut head_ended = false;
            while !head_ended && matches!(reader.read_line(&mut line), Ok(count) if count > 0) {
                head_ended = line.trim().is_empty();
                line.clear();
            }
            if !head_ended {
                break;
            }
            work();
            if reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                break;
            }
            answered += 1;
            if answered >= requests_max {
                return;
            }
        }
    }
}

/// A closed loop over one connection; prints wrk's lines.
fn load(url: &str, seconds: f64, work: Duration) {
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let mut connection = TcpStream::connect(address).expect("the server listens");
    connection.set_nodelay(true).expect("a TCP socket");
    let (began, mut requests) = (Instant::now(), 0_u64);
    let mut answer = [0; 40];
    while began.elapsed().as_secs_f64() < seconds {
        burn(work);
        let done: io::Result<()> = connection
            .write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
            .and_then(|()| connection.read_exact(&mut answer));
        if done.is_err() {
            eprintln!("planted: the server is gone");
            std::process::exit(1);
        }
        requests += 1;
    }
    let spent_s = began.elapsed().as_secs_f64();
    println!("\n  {requests} requests in {spent_s:.2}s, 0.00MB read\nRequests/sec: {:.2}", requests as f64 / spent_s);
}
