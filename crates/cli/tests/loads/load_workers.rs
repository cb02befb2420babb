//! One load by several processes: its report is that of one, what is lost with a worker is told, clocks that are shifted
//! shift nothing, and what cannot be shared is refused.

use crate::support;

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use support::workers::{Listening, by_tls, certificates};
use support::{alone, number, output, weir};
use weir_testkit::require;

/// A server that tells when each request came, and what was in it.
struct Server {
    port: u16,
    came: Receiver<(Instant, Vec<u8>)>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (tell, came) = channel();
        std::thread::spawn(move || {
            for mut connection in listener.incoming().map_while(Result::ok) {
                let tell = tell.clone();
                std::thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while let Ok(length @ 1..) = connection.read(&mut buffer) {
                        let at = Instant::now();
                        if tell.send((at, buffer[..length].to_vec())).is_err() {
                            return;
                        }
                        let _ = connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                    }
                });
            }
        });
        Self { port, came }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }
}

fn json(output: &Output) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("no JSON ({error}); stderr: {stderr}"))
}

fn refusal(arguments: &[&str]) -> (Option<i32>, String) {
    let output = output(arguments);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn eight_workers_make_the_arrivals_of_one_generator() {
    let _turn = alone();
    let server = Server::start();
    let url = server.url();
    let line = ["load", "-q", "--json", "-c", "16", "--rate", "400", "-d", "2s", "--check", "body~ok", &url];
    let single = output(&line);
    let several = output(&[&line[..], &["--workers", "local:8"]].concat());
    assert!(several.status.success(), "{}", String::from_utf8_lossy(&several.stderr));
    let (single, several) = (json(&single), json(&several));
    for path in ["/requests", "/successes", "/status/200", "/bytes", "/checks/0/responses"] {
        assert_eq!(number(&single, path), number(&several, path), "{path}");
    }
    assert_eq!(number(&several, "/requests"), 800.0);
    let workers = several["workers"].as_array().expect("workers");
    assert_eq!(workers.len(), 8);
    assert!(workers.iter().all(|worker| worker["requests"] == 100), "{workers:#?}");
    assert!(workers.iter().all(|worker| worker["clock_error_ns"].as_u64().is_some_and(|ns| ns < 50_000_000)));
    let of_points: f64 = several["series"]["points"]
        .as_array()
        .map(|points| points.iter().filter_map(|point| point["requests"].as_f64()).sum())
        .unwrap_or_default();
    assert_eq!(of_points, 800.0, "{:#}", several["series"]);
}

/// The processes that a process started.
fn children(of: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    let mut all: Vec<u32> = list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    // Threads may have started them.
    for task in std::fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten() {
        let list = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        all.extend(list.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    all.sort_unstable();
    all.dedup();
    all
}

fn kill(pid: u32) {
    let status = Command::new("kill").args(["-9", &pid.to_string()]).status().expect("kill is there");
    assert!(status.success());
}

fn begun(url: &str, more: &[&str]) -> (Child, Vec<u32>) {
    let mut command = weir();
    command.args(["load", "-q", "--json", "--workers", "local:4", "-c", "8", "--rate", "200"]).args(more).arg(url);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let begin = Instant::now();
    while children(child.id()).len() < 4 {
        assert!(begin.elapsed() < Duration::from_secs(20), "four workers are started");
        std::thread::sleep(Duration::from_millis(10));
    }
    let workers = children(child.id());
    (child, workers)
}

#[test]
fn of_a_worker_that_is_killed_the_loss_is_told_and_the_rest_is_right() {
    let _turn = alone();
    let server = Server::start();
    let (child, workers) = begun(&server.url(), &["-d", "3s"]);
    server.came.recv_timeout(Duration::from_secs(20)).expect("it begins");
    std::thread::sleep(Duration::from_millis(500));
    kill(workers[1]);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let report = json(&output);
    assert_eq!((number(&report, "/requests"), number(&report, "/successes")), (450.0, 450.0));
    let told: Vec<&Value> = report["workers"].as_array().expect("workers").iter().collect();
    let lost: Vec<_> = told.iter().filter_map(|worker| worker["lost"].as_object()).collect();
    assert_eq!(lost.len(), 1, "{told:#?}");
    assert_eq!(lost[0]["arrivals"], 150);
    let why = lost[0]["why"].as_str().expect("words");
    assert!(why.contains("its process ended (signal: 9"), "{why}");
    assert_eq!(report["passed"], false);
    let warning = report["warnings"][0].as_str().expect("a warning");
    assert!(warning.contains("1 of 4 parts is missing: 150 arrivals"), "{warning}");
}

#[test]
fn workers_end_with_their_orchestrator() {
    let _turn = alone();
    let server = Server::start();
    let (mut child, workers) = begun(&server.url(), &["-d", "60s"]);
    server.came.recv_timeout(Duration::from_secs(20)).expect("it begins");
    child.kill().expect("killed");
    child.wait().expect("ended");
    let begin = Instant::now();
    let lives =
        |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("worker"));
    while workers.iter().any(lives) {
        assert!(begin.elapsed() < Duration::from_secs(8), "workers go on without their orchestrator");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn ctrl_c_ends_all_with_a_report() {
    let _turn = alone();
    let server = Server::start();
    let (child, _) = begun(&server.url(), &["-d", "60s"]);
    server.came.recv_timeout(Duration::from_secs(20)).expect("it begins");
    std::thread::sleep(Duration::from_millis(800));
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill is there");
    assert!(status.success());
    let begin = Instant::now();
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success() && begin.elapsed() < Duration::from_secs(10));
    let report = json(&output);
    assert_eq!(report["interrupted"], true);
    assert!(number(&report, "/requests") > 50.0, "{report:#}");
    assert!(report["workers"].as_array().is_some_and(|workers| workers.iter().all(|worker| worker["lost"].is_null())));
}

#[test]
fn what_workers_cannot_share_is_refused() {
    let server = Server::start();
    let url = server.url();
    for (more, words) in [
        (&["--cpu", "0"][..], "--cpu"),
        (&["--source", "127.0.0.1"], "--source"),
        (&["--unix", "/s"], "--unix"),
        (&["--find-max"], "--workers"),
        (&["-c", "1"], "at least -c 2"),
        (&["--remote-weir", "w"], "no worker is reached by ssh"),
        (&["--worker-ca", "f"], "no worker is tls:"),
        (&["--body", "@/nowhere"], "cannot read /nowhere"),
    ] {
        let (status, stderr) = refusal(&[&["load", "--workers", "local:2", &url][..], more].concat());
        assert!(status == Some(2) && stderr.contains(words), "{more:?}: {status:?} {stderr}");
    }
    let (status, stderr) = refusal(&["load", "--workers", "tls:localhost:1", &url]);
    assert!(status == Some(2) && stderr.contains("--worker-cert"), "{stderr}");
    let (status, stderr) = refusal(&["load", "--workers", "local:200", "-c", "400", &url]);
    assert!(status == Some(2) && stderr.contains("between 1 and 128"), "{stderr}");
    assert!(server.came.try_recv().is_err(), "nothing was loaded");
}

#[test]
fn bodies_and_lists_go_to_workers() {
    let _turn = alone();
    let server = Server::start();
    let directory = tempfile::tempdir().expect("a directory");
    let list = directory.path().join("list");
    std::fs::write(&list, "POST /a @body\nGET /b\n").expect("written");
    std::fs::write(directory.path().join("body"), "the body of a worker").expect("written");
    let list = list.to_str().expect("text");
    let made = output(&["load", "-q", "--json", "--workers", "local:2", "-n", "20", "--urls", list, &server.url()]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert_eq!(number(&json(&made), "/requests"), 20.0);
    let asked: Vec<String> =
        server.came.try_iter().map(|(_, bytes)| String::from_utf8_lossy(&bytes).into_owned()).collect();
    let posts = asked.iter().filter(|text| text.starts_with("POST /a") && text.ends_with("the body of a worker"));
    assert_eq!((posts.count(), asked.iter().filter(|text| text.starts_with("GET /b")).count()), (10, 10), "{asked:?}");
}

/// Counts over HTTP/3 are those of all workers, moves of connections among them.
#[test]
fn workers_load_over_http3() {
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a directory");
    certificates(folder.path());
    std::fs::write(folder.path().join("a.txt"), "a").expect("written");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mut server = weir()
        .args(["serve", "--listen", "127.0.0.1:0", "--http3", "--tls-cert", &path("worker.pem")])
        .args(["--tls-key", &path("worker.key"), &path("")])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(server.stdout.take().expect("piped")), &mut line)
        .expect("its first line");
    let url = line.split(' ').find(|word| word.starts_with("https://")).expect("its address");
    let url = format!("{url}a.txt");
    let how = ["load", "-q", "--json", "--http3", "--ca", &path("ca.pem"), "--workers", "local:2", "-c", "4"];
    let made = output(&[&how[..], &["-n", "200", &url]].concat());
    let moved = output(&[&how[..], &["--rate", "100", "-d", "2s", "--migrate-every", "500ms", &url]].concat());
    server.kill().expect("it runs");
    server.wait().expect("it ends");
    for (made, requests) in [(&made, 200.0), (&moved, 200.0)] {
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let report = json(made);
        assert_eq!((number(&report, "/requests"), number(&report, "/successes")), (requests, requests), "{report:#}");
    }
    assert!(number(&json(&moved), "/http3/moves/made") >= 1.0, "{:#}", json(&moved));
}

#[test]
fn a_worker_by_tls_trusts_its_authority_alone_and_keeps_to_its_limits() {
    let _turn = alone();
    let server = Server::start();
    let url = server.url();
    let folder = tempfile::tempdir().expect("a directory");
    certificates(folder.path());
    let target = format!("127.0.0.1:{}", server.port);
    let worker = Listening::start(folder.path(), None, &["--allow-target", &target, "--most-rate", "100"]);
    let made = by_tls(folder.path(), &[&worker], &["--rate", "100", "-n", "50", &url]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert_eq!(number(&json(&made), "/requests"), 50.0);
    for (line, words) in [
        (&["--rate", "200", "-n", "50", url.as_str()][..], "at most 100 arrivals"),
        (&["-n", "50", url.as_str()], "closed loop"),
        (&["--rate", "10", "-n", "5", "http://127.0.0.1:1/"], "does not load 127.0.0.1:1"),
        (&["--rate", "10", "-n", "5", "--connect-to", "127.0.0.1:1", url.as_str()], "--connect-to leads elsewhere"),
    ] {
        let refused = by_tls(folder.path(), &[&worker], line);
        let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(1) && stderr.contains(words), "{line:?}: {stderr}");
        assert!(stderr.contains("nothing was loaded"), "{stderr}");
    }
    // Without a certificate of the authority there is no session.
    let stranger = tempfile::tempdir().expect("a directory");
    certificates(stranger.path());
    std::fs::copy(folder.path().join("ca.pem"), stranger.path().join("ca.pem")).expect("copied");
    let refused = by_tls(stranger.path(), &[&worker], &["--rate", "10", "-n", "5", &url]);
    assert_eq!(refused.status.code(), Some(1), "{}", String::from_utf8_lossy(&refused.stderr));
    // And bytes that are no TLS end nothing but their own connection.
    let mut plain = TcpStream::connect(("127.0.0.1", worker.port)).expect("it listens");
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("written");
    let made = by_tls(folder.path(), &[&worker], &["--rate", "100", "-n", "10", &url]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// Workers whose clocks show other times than the orchestrator's begin with it all the same.
#[test]
fn shifted_clocks_shift_no_arrival() {
    let _turn = alone();
    let is_root =
        Command::new("unshare").args(["--time", "--fork", "true"]).status().is_ok_and(|status| status.success());
    let Some(()) = require::or_skip(is_root, "no namespace of time can be made") else { return };
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a directory");
    certificates(folder.path());
    let workers = [Some(1), None, Some(100_000)].map(|shift_s| Listening::start(folder.path(), shift_s, &[]));
    let workers: Vec<&Listening> = workers.iter().collect();
    let made = by_tls(folder.path(), &workers, &["-c", "6", "--rate", "90", "-d", "2s", &server.url()]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let report = json(&made);
    let offsets: Vec<f64> =
        (0..3).map(|worker| number(&report, &format!("/workers/{worker}/clock_offset_ns"))).collect();
    let errors: Vec<f64> = (0..3).map(|worker| number(&report, &format!("/workers/{worker}/clock_error_ns"))).collect();
    for (worker, shift_s) in [1.0, 0.0, 100_000.0].into_iter().enumerate() {
        let off_ns = (offsets[worker] - shift_s * 1e9).abs();
        assert!(off_ns <= errors[worker] + 1e6, "worker {worker} is {off_ns} ns off, and {} were told", errors[worker]);
    }
    // The schedule has an arrival each 11.1 ms, in turn of the three workers. Each came in its place: as late as this host
    // makes a request come, and as early as the clocks are known.
    let came: Vec<Instant> = server.came.try_iter().map(|(at, _)| at).collect();
    assert_eq!(came.len(), 180);
    let begin = came.iter().min().expect("some");
    let mut offsets: Vec<f64> = came.iter().map(|at| (*at - *begin).as_secs_f64()).collect();
    offsets.sort_by(f64::total_cmp);
    let error_s = errors.iter().copied().fold(0.0, f64::max) / 1e9;
    let late: Vec<f64> = offsets.iter().enumerate().map(|(at, offset)| (offset - at as f64 / 90.0).abs()).collect();
    let off = late.iter().filter(|late| **late > error_s + 0.05).count();
    assert!(off < 18, "{off} arrivals are out of place by over 50 ms and {error_s} s");
}

/// An sshd of this host, and the configuration of a client of it in a folder.
struct Sshd(Child);

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts an sshd, where there is one and this user may; its users are this one.
fn sshd(folder: &Path) -> Option<Sshd> {
    require::program("ssh")?;
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let program = Path::new("/usr/sbin/sshd");
    let is_there = program.is_file() && users.lines().any(|line| line.starts_with("sshd:"));
    let may = Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success());
    require::or_skip(is_there && may, "there is no sshd, or no namespace of mounts can be made")?;
    for name in ["host", "user"] {
        let file = folder.join(name);
        let made = ["-q", "-t", "ed25519", "-N", "", "-f", file.to_str().expect("text")];
        assert!(Command::new("ssh-keygen").args(made).status().expect("it starts").success());
    }
    std::fs::copy(folder.join("user.pub"), folder.join("authorized")).expect("copied");
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let at = folder.display();
    let client = format!(
        "Host there\n HostName 127.0.0.1\nHost *\n Port {port}\n User root\n IdentityFile {at}/user\n IdentitiesOnly yes\n\
         UserKnownHostsFile {at}/known\n GlobalKnownHostsFile /dev/null\n StrictHostKeyChecking accept-new\n"
    );
    std::fs::write(folder.join("client.conf"), client).expect("written");
    let server = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {at}/host\nAuthorizedKeysFile {at}/authorized\n\
         PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\nStrictModes no\n\
         UsePAM no\nPidFile none\n"
    );
    std::fs::write(folder.join("server.conf"), server).expect("written");
    // In a view of mounts of its own: the folder that it wants is made by a service that may not run here.
    let script = "mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec \"$0\" -D -e -f \"$1\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(program).arg(folder.join("server.conf")).stderr(Stdio::null());
    let sshd = Sshd(command.spawn().expect("it starts"));
    let begin = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begin.elapsed() < Duration::from_secs(10), "sshd listens");
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(sshd)
}

#[test]
fn workers_are_reached_by_ssh() {
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a directory");
    let Some(_sshd) = sshd(folder.path()) else { return };
    let server = Server::start();
    let url = server.url();
    let script = folder.path().join("weir there");
    let program = weir().get_program().to_string_lossy().into_owned();
    std::fs::write(&script, format!("#!/bin/sh\necho 'a word of the shell'\nexec {program} \"$@\"\n"))
        .expect("written");
    assert!(Command::new("chmod").arg("755").arg(&script).status().expect("chmod is there").success());
    let client = folder.path().join("client.conf");
    let [client, script] = [&client, &script].map(|path| path.to_str().expect("text"));
    let line = ["load", "-q", "--json", "--workers", "there,root@there", "--ssh-config", client, "-n", "40", &url];
    let made = output(&[&line[..], &["--remote-weir", script]].concat());
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let report = json(&made);
    assert_eq!(number(&report, "/requests"), 40.0);
    assert_eq!(report["workers"][1]["name"], "root@there");
    let (status, stderr) = refusal(&[&line[..], &["--remote-weir", "/no/such/weir"]].concat());
    assert!(status == Some(1) && stderr.contains("install it there"), "{stderr}");
}
