//! Each server has the fault that its name says, and no other.

use std::fs;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use weir_testkit::client::Connection;
use weir_testkit::{Faulty, RunningServer, SlowFs, require};

const MS: Duration = Duration::from_millis(1);

fn start(fault: &str, args: &[&str]) -> RunningServer {
    let faulty = Faulty::new(fault).args(args.iter().copied());
    faulty.start().unwrap_or_else(|error| panic!("{fault}: {error}"))
}

/// The times of requests sent one after the other on one connection, sorted.
fn times(server: &RunningServer, path: &str, count: usize) -> Vec<Duration> {
    let mut connection = Connection::open(server.port).unwrap();
    let mut times: Vec<_> = (0..count)
        .map(|_| {
            let reply = connection.get(path).unwrap();
            assert_eq!((reply.status, reply.body.as_slice()), (200, b"ok\n".as_slice()));
            reply.took
        })
        .collect();
    times.sort_unstable();
    times
}

fn median(times: &[Duration]) -> Duration {
    times[times.len() / 2]
}

/// The processes of a name, of all that run.
fn named(name: &str) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap();
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| comm(*pid) == name)
        .collect()
}

fn comm(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// How long the threads of a process have waited for a CPU.
fn run_delay(pid: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let delay_ns = |task: fs::DirEntry| -> u64 {
        let text = fs::read_to_string(task.path().join("schedstat")).unwrap();
        text.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    Duration::from_nanos(tasks.map(|task| delay_ns(task.unwrap())).sum())
}

/// Another process than ours takes the exit status of an orphan, at a time of its own.
fn wait_for_end(pid: u32) {
    let start = Instant::now();
    loop {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z')) {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(5), "{stat} outlives its server");
        std::thread::sleep(MS);
    }
}

#[test]
fn plain_answers_at_once_and_to_pipelines() {
    let server = start("plain", &["--threads", "3"]);
    assert!(median(&times(&server, "/", 100)) < 5 * MS);
    let mut connection = Connection::open(server.port).unwrap();
    let one = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
    let post = "POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";
    let last = "GET /c HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    connection.exchange([one, post, last].concat().as_bytes()).unwrap();
    connection.read_reply().unwrap();
    connection.read_reply().unwrap();
    assert!(connection.is_at_end().unwrap());
    let bad = Connection::open(server.port).unwrap().exchange(b"nonsense\r\n\r\n").unwrap();
    assert_eq!(bad.status, 400);
}

#[test]
fn hog_lets_requests_wait_for_the_cpu() {
    let server = start("hog", &["--cpu", "0"]);
    let pids = server.pids();
    assert_eq!(pids.len(), 2);
    assert_eq!(comm(pids[1]), "weir-hog");
    for pid in &pids {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        assert!(status.lines().any(|line| line == "Cpus_allowed_list:\t0"), "{status}");
    }
    // What the requests take is the time for which the server could run and did not.
    let mut connection = Connection::open(server.port).unwrap();
    let mut took = Duration::ZERO;
    let before = run_delay(pids[0]);
    for _ in 0..100 {
        took += connection.get("/").unwrap().took;
    }
    let waited = run_delay(pids[0]) - before;
    assert!(waited > took / 2, "{waited:?} of {took:?}");
    drop(server);
    wait_for_end(pids[1]);
}

#[test]
fn mutex_holds_the_lock_most_of_the_time() {
    let server = start("mutex", &[]);
    // Requests at moments that do not follow the holder's rhythm.
    let mut connection = Connection::open(server.port).unwrap();
    let mut waits = Vec::new();
    for step in 0..40 {
        waits.push(connection.get("/").unwrap().took);
        std::thread::sleep((7 + step % 19) * MS);
    }
    let waited = waits.iter().filter(|wait| **wait > MS).count();
    assert!(waited > 20, "{waits:?}");
    assert!(waits.iter().all(|wait| *wait < 200 * MS), "{waits:?}");
}

#[test]
fn sleep_takes_as_long_as_it_sleeps() {
    let server = start("sleep", &["--ms", "5"]);
    let times = times(&server, "/", 20);
    assert!(times[0] >= 5 * MS, "{times:?}");
    assert!(median(&times) < 15 * MS, "{times:?}");
}

#[test]
fn downstream_is_a_process_outside_of_the_tree() {
    let before = named("weir-downstream");
    let server = start("downstream", &[]);
    let times = times(&server, "/", 10);
    assert!(times[0] >= 10 * MS, "{times:?}");
    assert!(median(&times) < 30 * MS, "{times:?}");

    assert_eq!(server.pids().len(), 1);
    let downstream: Vec<_> = named("weir-downstream").into_iter().filter(|pid| !before.contains(pid)).collect();
    assert_eq!(downstream.len(), 1);
    drop(server);
    wait_for_end(downstream[0]);
}

#[test]
fn slow_handler_delays_the_others_in_the_worker() {
    for args in [&["--ms", "100"][..], &["--ms", "100", "--sleep"]] {
        let server = start("slow-handler", args);
        assert!(median(&times(&server, "/", 20)) < 5 * MS);
        let port = server.port;
        let slow = std::thread::spawn(move || Connection::open(port)?.get("/slow"));
        std::thread::sleep(30 * MS);
        let behind = Connection::open(port).unwrap().get("/").unwrap().took;
        assert!(behind > 20 * MS, "{args:?}: {behind:?}");
        assert!(slow.join().unwrap().unwrap().took >= 100 * MS);
    }
}

#[test]
fn accept_queue_serves_one_connection_at_a_time() {
    for args in [&["--ms", "5"][..], &["--ms", "5", "--sleep"]] {
        let server = start("accept-queue", args);
        let clients: Vec<_> = (0..10)
            .map(|_| {
                let port = server.port;
                std::thread::spawn(move || -> io::Result<_> {
                    let start = Instant::now();
                    let mut connection = Connection::open(port)?;
                    connection.get("/")?;
                    assert!(connection.is_at_end()?);
                    Ok(start.elapsed())
                })
            })
            .collect();
        let mut times: Vec<_> = clients.into_iter().map(|client| client.join().unwrap().unwrap()).collect();
        times.sort_unstable();
        // The last one waits for the nine before it, less what the clients started late.
        assert!(times[9] >= 30 * MS, "{times:?}");
    }
}

#[test]
fn stall_stops_the_share_of_time_that_it_should() {
    let server = start("stall", &["--ms", "100", "--every", "250"]);
    let mut connection = Connection::open(server.port).unwrap();
    connection.get("/").unwrap();
    // One request after the other: each stall is met once, at its start, and lasts its length.
    let begin = Instant::now();
    let mut stalls = Vec::new();
    while begin.elapsed() < 1500 * MS {
        let took = connection.get("/").unwrap().took;
        if took > 50 * MS {
            stalls.push(took);
        }
    }
    assert!((5..=7).contains(&stalls.len()), "{stalls:?}");
    stalls.sort_unstable();
    assert!((90 * MS..140 * MS).contains(&median(&stalls)), "{stalls:?}");
}

#[test]
fn misbehaviour_is_as_named() {
    let exchange = |kind: &str, request: &[u8]| {
        let server = start("misbehave", &[kind]);
        let mut connection = Connection::open(server.port).unwrap();
        let result = connection.exchange(request);
        (server, connection, result)
    };
    let get = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    let kind_of = |kind| exchange(kind, get).2.unwrap_err().kind();

    assert_eq!(kind_of("close-in-body"), ErrorKind::UnexpectedEof);
    assert!(matches!(kind_of("reset"), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe));
    assert!(matches!(kind_of("garbage"), ErrorKind::InvalidData | ErrorKind::UnexpectedEof));

    let (_server, mut connection, reply) = exchange("truncated-chunked", get);
    assert!(reply.unwrap().headers.contains(&"Transfer-Encoding: chunked".to_owned()));
    assert!(!connection.is_at_end().unwrap());

    let (_server, mut connection, reply) = exchange("short-length", get);
    assert_eq!(reply.unwrap().body, b"he");
    assert!(connection.get("/").is_err());

    let post = [b"POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n".as_slice(), &[0; 10]].concat();
    let (_server, mut connection, reply) = exchange("early", &post);
    assert_eq!(reply.unwrap().status, 413);
    assert!(connection.is_at_end().unwrap());

    let (_server, mut connection, reply) = exchange("informational", get);
    assert_eq!(reply.unwrap().status, 100);
    assert_eq!(connection.read_reply().unwrap().status, 103);
    assert_eq!(connection.read_reply().unwrap().status, 200);
}

#[test]
fn what_never_comes_does_not_come() {
    for kind in ["never", "long-length"] {
        let server = start("misbehave", &[kind]);
        let port = server.port;
        let asked = std::thread::spawn(move || Connection::open(port)?.get("/"));
        std::thread::sleep(300 * MS);
        assert!(!asked.is_finished());
        // The end of the server ends the wait too.
        drop(server);
        assert!(asked.join().unwrap().is_err());
    }
}

#[test]
fn wrk_loads_the_threaded_and_the_event_driven_server() {
    if require::program("wrk").is_none() {
        return;
    }
    for server in [start("plain", &[]), start("hog", &["--cpu", "0"]), start("mutex", &[])] {
        let mut wrk = std::process::Command::new("wrk");
        wrk.args(["-t1", "-c100", "-d1s", "--timeout", "10s", &server.url("/")]);
        let output = String::from_utf8(wrk.output().unwrap().stdout).unwrap();
        assert!(output.contains("Requests/sec"), "{output}");
        assert!(!output.contains("Socket errors") && !output.contains("Non-2xx"), "{output}");
    }
}

/// The file system keeps what is written, takes its time for `fsync` alone, and leaves no mount behind.
#[test]
fn slow_fs_takes_its_time_for_fsync() {
    if require::fuse().is_none() {
        return;
    }
    let system = SlowFs::mount(30).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(comm(system.pid()), "weir-slow-fs");
    let path = system.dir().join("a.log");
    let dir = system.dir().to_owned();
    let start = Instant::now();
    let mut file = fs::File::options().create(true).append(true).open(&path).unwrap();
    for line in ["one\n", "two\n"] {
        io::Write::write_all(&mut file, line.as_bytes()).unwrap();
    }
    let wrote = start.elapsed();
    file.sync_all().unwrap();
    let took = start.elapsed();
    assert!(took - wrote >= 30 * MS && took - wrote < 80 * MS && wrote < 20 * MS, "{wrote:?} {took:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    drop((file, system));
    assert!(!fs::read_to_string("/proc/mounts").unwrap().contains(dir.to_str().unwrap()));
}

/// Each connection wakes all of the herd, and one of them gets it.
#[test]
fn herd_wakes_all_for_each_connection() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("counts");
    let server = start("herd", &[file.to_str().unwrap(), "--processes", "20"]);
    let count = |place: usize| {
        let bytes = fs::read(&file).unwrap();
        u64::from_ne_bytes(bytes[place * 8..place * 8 + 8].try_into().unwrap())
    };
    // How often they have gone to sleep, as the kernel counts it.
    let sleeps = || -> u64 {
        let of = |pid: &u32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
            line.trim().parse::<u64>().unwrap()
        };
        server.pids().iter().map(of).sum()
    };
    let at_rest = || {
        for _ in 0..200 {
            let before = sleeps();
            std::thread::sleep(50 * MS);
            if count(0) == 20 && sleeps() == before {
                return before;
            }
        }
        panic!("the herd does not come to rest");
    };
    let before = at_rest();
    for _ in 0..10 {
        assert_eq!(Connection::open(server.port).unwrap().get("/").unwrap().body, b"ok\n");
        at_rest();
    }
    let (woken, accepted, other) = (at_rest() - before, count(1), count(5));
    assert_eq!(accepted, 10);
    // A process that is still on its way to sleep is not woken.
    assert!((180..=200).contains(&(woken - other)), "{woken} wake-ups, {other} of them for other things");
}
