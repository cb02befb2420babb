//! Each launcher's server answers, is made as asked, and is gone afterwards.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use weir_testkit::client::Connection;
use weir_testkit::{Apache, Cgi, Faulty, Nginx, RunningServer, Site, StartError, WeirServe, require};

fn body(server: &RunningServer, path: &str) -> Vec<u8> {
    let reply = Connection::open(server.port).unwrap().get(path).unwrap();
    assert_eq!(reply.status, 200, "{path}; log: {}", server.log());
    reply.body
}

fn serves_the_sample(server: &RunningServer) {
    for (path, length) in [("/0.txt", 0), ("/1k.txt", 1 << 10), ("/64k.bin", 64 << 10), ("/3.9m.bin", 3_900_000)] {
        let expected = fs::read(server.root.join(&path[1..])).unwrap();
        assert_eq!(expected.len(), length);
        assert!(body(server, path) == expected, "{path}");
    }
}

fn all_end(server: RunningServer) {
    let pids = server.pids();
    drop(server);
    let start = Instant::now();
    let alive = || pids.iter().find(|pid| is_alive(**pid));
    while let Some(pid) = alive() {
        assert!(start.elapsed() < Duration::from_secs(5), "process {pid} of {pids:?} still lives");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[test]
fn apache_prefork_has_a_process_for_each_worker() {
    if require::apache().is_none() {
        return;
    }
    let server = Apache::prefork().workers(5).start().unwrap_or_else(|error| panic!("{error}"));
    serves_the_sample(&server);
    assert_eq!(server.pids().len(), 1 + 5);
    assert_eq!(server.url("/0.txt"), format!("http://127.0.0.1:{}/0.txt", server.port));
    all_end(server);
}

#[test]
fn apache_event_keeps_connections_as_asked() {
    if require::apache().is_none() {
        return;
    }
    let closing = Apache::event().workers(8).processes(2).keep_alive(false);
    let server = closing.start().unwrap_or_else(|error| panic!("{error}"));
    serves_the_sample(&server);
    assert_eq!(server.pids().len(), 1 + 2);
    let mut connection = Connection::open(server.port).unwrap();
    connection.get("/1k.txt").unwrap();
    assert!(connection.is_at_end().unwrap());
    all_end(server);

    let server = Apache::event().workers(8).start().unwrap_or_else(|error| panic!("{error}"));
    let mut connection = Connection::open(server.port).unwrap();
    for _ in 0..300 {
        assert_eq!(connection.get("/1k.txt").unwrap().status, 200);
    }
}

/// A machine may stand still while a server starts.
#[test]
fn a_server_that_is_slow_to_answer_is_asked_once() {
    if require::apache().is_none() {
        return;
    }
    let site = Site::sample().unwrap();
    site.write_program("slow.cgi", b"#!/bin/sh\nsleep 1.2\nprintf 'Content-Type: text/plain\\n\\n'\n").unwrap();
    let log = site.path().join("asked.log");
    let slow = Apache::prefork().workers(5).root(site.path()).cgi(Cgi::Direct).custom_log(&log);
    let server = slow
        .directive("DirectoryIndex disabled\nDirectoryIndex slow.cgi")
        .start()
        .unwrap_or_else(|error| panic!("{error}"));
    // Ended, it has logged all that it was asked.
    all_end(server);
    let asked = fs::read_to_string(&log).unwrap();
    assert_eq!(asked.lines().count(), 1, "{asked}");
}

#[test]
fn nginx_serves_a_directory_of_the_caller() {
    if require::nginx().is_none() {
        return;
    }
    let own = tempfile::tempdir().unwrap();
    fs::write(own.path().join("mine.txt"), "mine").unwrap();
    let nginx = Nginx::new().root(own.path()).pin(0);
    let server = nginx.start().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(body(&server, "/mine.txt"), b"mine");
    assert_eq!(server.pids().len(), 2);
    for pid in server.pids() {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        assert!(status.lines().any(|line| line == "Cpus_allowed_list:\t0"), "{status}");
    }
    all_end(server);

    let server = Nginx::new().workers(2).start().unwrap_or_else(|error| panic!("{error}"));
    serves_the_sample(&server);
    assert_eq!(server.pids().len(), 3);
}

#[test]
fn two_servers_at_once_do_not_meet() {
    if require::nginx().is_none() {
        return;
    }
    let sites: Vec<_> = (0..2).map(|_| Site::empty().unwrap()).collect();
    for (number, site) in sites.iter().enumerate() {
        site.write("who.txt", number.to_string().as_bytes()).unwrap();
    }
    let servers: Vec<_> = sites.iter().map(|site| Nginx::new().root(site.path()).start().unwrap()).collect();
    assert_ne!(servers[0].port, servers[1].port);
    for (number, server) in servers.iter().enumerate() {
        assert_eq!(body(server, "/who.txt"), number.to_string().as_bytes());
    }
}

#[test]
fn a_server_ends_with_a_test_that_panics() {
    let (send, receive) = std::sync::mpsc::channel();
    let test = std::thread::spawn(move || {
        let server = Faulty::new("plain").start().unwrap();
        send.send(server.pids()).unwrap();
        panic!("as planned");
    });
    let pids = receive.recv().unwrap();
    assert!(test.join().is_err());
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let error = Faulty::new("no-such-fault").start().unwrap_err();
    assert!(matches!(error, StartError::Ended { .. }));
    assert!(error.to_string().contains("there is no fault `no-such-fault`"), "{error}");

    let error = WeirServe::new("/no/such/weir").start().unwrap_err();
    assert!(matches!(error, StartError::Spawn { .. }));
    assert!(error.to_string().starts_with("/no/such/weir: "), "{error}");

    let error = Nginx::new().root("/no/such/directory").start().unwrap_err();
    assert!(matches!(error, StartError::Prepare(_)));
}

#[test]
fn weir_serve_is_called_by_its_own_command_line() {
    // A stand-in records its arguments and does not answer: the real program is tested where it is
    // built.
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("weir");
    fs::write(&program, "#!/bin/sh\necho \"got: $*\"\nexit 3\n").unwrap();
    set_mode(&program, 0o755);
    let error = WeirServe::new(&program).args(["--loops", "1"]).root(dir.path()).start();
    let text = error.unwrap_err().to_string();
    assert!(text.contains("got: serve --listen 127.0.0.1:"), "{text}");
    let root = dir.path().canonicalize().unwrap();
    assert!(text.contains(&format!("--loops 1 {}", root.display())), "{text}");
}

#[test]
fn a_directory_closed_to_apaches_user_is_refused() {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return; // Apache then runs as ourselves, who can read it.
    }
    let closed = tempfile::tempdir().unwrap();
    set_mode(closed.path(), 0o700);
    let error = Apache::prefork().root(closed.path()).start().unwrap_err();
    assert!(matches!(error, StartError::Unreadable { .. }), "{error}");
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
