//! Ready-made servers: each serves what it should, and leaves nothing.
use crate::support;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use support::{becomes_silent, role, run};
use weir_compare::{CpuSet, Defaults, Pinning, ReadyMade, SAMPLE_FILES, read_plan, ready_made};
use weir_testkit::client::Connection;
use weir_testkit::require;

/// How far the port of what a subject asks lies behind its own.
const ASKED_PORT: u16 = 1_600;

/// Plays a role of these tests' own; whether it is one.
pub(crate) fn play(words: &[&str]) -> bool {
    match words {
        // experiment NAME PORT LOAD SECONDS: one with a single ready-made server.
        ["experiment", name, port, load, seconds] => experiment(name, port, load, seconds),
        // check URL NAME: looks at all that the server should serve, and prints what wrk does.
        ["check", url, name] => check(url, ReadyMade::named(name).expect("a ready-made server")),
        // secure URL NAME: looks at what is asked for by TLS, likewise.
        ["secure", url, _name] => secure(url),
        // page URL: looks at one page, and prints what wrk does.
        ["page", url] => {
            let (_, port) = url.trim_end_matches("/index.html").rsplit_once(':').expect("a port");
            assert_eq!(to_the_end(port.parse().expect("a port"), "/index.html"), b"found");
            println!("\n  1 requests in 0.10s, 0.00MB read\nRequests/sec: 10.00");
        }
        _ => return false,
    }
    true
}

fn experiment(name: &str, port: &str, load: &str, seconds: &str) {
    let tls = load == "secure";
    let load = role(&format!("{load} {{url}} {name}"));
    let (asked, upstream) = asked_by(ReadyMade::named(name).expect("a ready-made server"), port);
    // In the plan: behind a default one follows what makes our own believe any certificate.
    let text = format!(
        "load = '''{load}'''\n[repeat]\nblocks = 1\nagain = 0\nslice = '{seconds}s'\nwarm_up = 0\n{asked}\
         [[subject]]\nfrom = '{name}'\nport = {port}\ntls = {tls}\n{upstream}\
         [[case]]\nname = 'all'\nconnections = 4\nsubjects = ['{name}']\n"
    );
    let available = CpuSet::available().expect("the kernel knows");
    let first = CpuSet::one(available.numbers()[0]).ok();
    let defaults = Defaults {
        load,
        pinning: Pinning { server: first, load: None, beside: None },
        seed: 7,
        weir: "weir".to_owned(),
    };
    let plan = read_plan(&text, Path::new("plan.toml"), &defaults).expect("a plan");
    if let Err(error) = run(plan) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

/// The server that a subject asks, and how a plan says so; both empty for one that asks none.
fn asked_by(subject: &ReadyMade, port: &str) -> (String, String) {
    if !subject.asks_upstream() {
        return Default::default();
    }
    let from = if subject.script().is_some() { "php-fpm" } else { "nginx" };
    // Those of other subjects lie beside the port of this one.
    let of_asked = port.parse::<u16>().expect("a port") + ASKED_PORT;
    let asked = format!("[[subject]]\nname = 'asked'\nfrom = '{from}'\nport = {of_asked}\n");
    (asked, format!("upstream = '127.0.0.1:{of_asked}'\n"))
}

fn check(url: &str, subject: &ReadyMade) {
    let port = url.trim_start_matches("http://127.0.0.1:").trim_end_matches('/').parse().expect("a port");
    let mut connection = Connection::open(port).expect("the server listens");
    let mut requests = 0;
    for (name, size) in SAMPLE_FILES.into_iter().chain(SAMPLE_FILES) {
        let reply = connection.get(&format!("/{name}")).expect("the connection stays open");
        assert_eq!((reply.status, reply.body.len()), (200, size), "{name}");
        let lines = reply.body.split_inclusive(|byte| *byte == b'\n').enumerate();
        let mut whole = lines.filter(|(_, line)| line.ends_with(b"\n"));
        assert!(
            whole.all(|(index, line)| line == format!("line {index:>8} of the sample site of weir compare\n").as_bytes()),
            "{name} is not what it was"
        );
        requests += 1;
    }
    if let Some(script) = subject.script() {
        for (name, size) in [("header", 0), ("64k", 64 << 10), ("header", 0), ("64k", 64 << 10)] {
            let body = to_the_end(port, &format!("/{name}.{script}"));
            assert_eq!(body.len(), size, "{name}.{script}: {}", String::from_utf8_lossy(&body));
            requests += 1;
        }
        if script == "php" {
            let page = String::from_utf8_lossy(&to_the_end(port, "/info.php")).into_owned();
            assert!(page.contains("phpinfo()") && page.contains("opcache.validate_timestamps"), "{page}");
        }
    }
    println!("\n  {requests} requests in 0.10s, 0.00MB read\nRequests/sec: {}.00", requests * 10);
}

/// By other clients than ours: two files over one connection, by the version and the cipher that all have.
fn secure(url: &str) {
    let told = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().expect("it is installed");
        (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let url = url.trim_end_matches('/');
    let address = url.strip_prefix("https://").expect("TLS");
    let files = [format!("{url}/1k.txt"), format!("{url}/64k.txt")];
    let words = "%{http_code} %{size_download} %{num_connects}\n";
    let sink = ["-o", "/dev/null"];
    let all =
        [&["-sS", "-k", "--http1.1", "-w", words][..], &sink, &sink, &[files[0].as_str(), files[1].as_str()]].concat();
    let (_, said) = told("curl", &all);
    assert_eq!(said, "200 1024 1\n200 65536 0\n");
    let (_, said) = told("openssl", &["s_client", "-connect", address, "-brief"]);
    assert!(said.contains("TLSv1.3") && said.contains("TLS_AES_128_GCM_SHA256"), "{said}");
    let (older, said) = told("curl", &["-sS", "-k", "--tls-max", "1.2", &files[0]]);
    assert!(!older && !said.contains("line "), "{said}");
    println!("\n  2 requests in 0.10s, 0.00MB read\nRequests/sec: 20.00");
}

/// The body of an answer without a length, as scripts give it.
fn to_the_end(port: u16, path: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a TCP socket");
    write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n").expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
    assert!(answer.starts_with(b"HTTP/1.1 200") || answer.starts_with(b"HTTP/1.0 200"), "{:?}", &answer[..head]);
    answer.split_off(head)
}

/// A folder for temporary files that all users may enter, since servers that root starts drop their privileges.
fn temporary() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary directory");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("ours");
    folder
}

fn begin(name: &str, port: u16, load: &str, seconds: f64, folder: &Path) -> Child {
    let command = role(&format!("experiment {name} {port} {load} {seconds}"));
    Command::new(command.program())
        .args(command.arguments())
        .env("TMPDIR", folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this program runs again")
}

/// Processes whose command line names the folder.
fn processes_of(folder: &Path) -> Vec<String> {
    let name = folder.display().to_string();
    let processes = fs::read_dir("/proc").expect("Linux").flatten();
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).into_owned()).filter(|line| line.contains(&name)).collect()
}

/// Within some seconds: no process, no listening port, no file.
fn leaves_nothing(folder: &Path, port: u16) -> Result<(), String> {
    let began = Instant::now();
    loop {
        let files: Vec<_> = fs::read_dir(folder).expect("ours").flatten().map(|entry| entry.path()).collect();
        let processes = processes_of(folder);
        if files.is_empty() && processes.is_empty() && becomes_silent(port) {
            return Ok(());
        }
        if began.elapsed() > Duration::from_secs(10) {
            return Err(format!("left: {files:?} {processes:?}"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// `weir serve` is a program of another package, whose tests try it.
fn installed() -> Vec<&'static ReadyMade> {
    let others = ready_made().iter().filter(|subject| !subject.name.starts_with("weir") && subject.speaks_http());
    others
        .filter(|subject| {
            let missing = subject.needs().into_iter().find(|need| !need.file.exists());
            let package = missing.map_or_else(String::new, |need| need.package);
            require::or_skip(package.is_empty(), &format!("{} needs {package} (make deps)", subject.name)).is_some()
        })
        .collect()
}

#[test]
fn each_serves_the_same_and_leaves_nothing() {
    let folder = temporary();
    for (index, subject) in installed().into_iter().enumerate() {
        let port = 14_100 + (std::process::id() % 48) as u16 * 25 + index as u16;
        let Output { status, stderr, .. } =
            begin(subject.name, port, "check", 0.05, folder.path()).wait_with_output().expect("our child");
        assert!(status.success(), "{}: {}", subject.name, String::from_utf8_lossy(&stderr));
        leaves_nothing(folder.path(), port).unwrap_or_else(|left| panic!("{}: {left}", subject.name));
    }
}

#[test]
fn each_speaks_the_same_tls() {
    let ready = require::program("curl").and_then(|()| require::program("openssl"));
    if ready.is_none() {
        return;
    }
    let folder = temporary();
    // The others have the configuration of one of these.
    let chosen = ["nginx", "nginx-php-fpm", "apache-event", "apache-prefork", "lighttpd", "caddy", "h2o", "haproxy"];
    for (index, subject) in installed().into_iter().filter(|subject| chosen.contains(&subject.name)).enumerate() {
        let module = Path::new("/usr/lib/lighttpd/mod_openssl.so");
        let is_there = subject.name != "lighttpd" || module.exists();
        if require::or_skip(is_there, "lighttpd's TLS needs lighttpd-mod-openssl (make deps)").is_none() {
            continue;
        }
        let port = 13_200 + (std::process::id() % 60) as u16 * 8 + index as u16;
        let Output { status, stderr, .. } =
            begin(subject.name, port, "secure", 0.05, folder.path()).wait_with_output().expect("our child");
        assert!(status.success(), "{}: {}", subject.name, String::from_utf8_lossy(&stderr));
        leaves_nothing(folder.path(), port).unwrap_or_else(|left| panic!("{}: {left}", subject.name));
    }
}

#[test]
fn nothing_is_left_when_we_are_killed() {
    let folder = temporary();
    // One with a second server behind it, and one with many processes.
    let chosen = ["nginx-php-fpm", "apache-prefork"];
    for (index, subject) in installed().into_iter().filter(|subject| chosen.contains(&subject.name)).enumerate() {
        let port = 13_900 + (std::process::id() % 60) as u16 * 2 + index as u16;
        let mut ours = begin(subject.name, port, "load", 30.0, folder.path());
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed() < Duration::from_secs(20), "{} does not start", subject.name);
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!processes_of(folder.path()).is_empty(), "the test sees the server");
        ours.kill().expect("it runs");
        ours.wait().expect("our child");
        leaves_nothing(folder.path(), port).unwrap_or_else(|left| panic!("{}: {left}", subject.name));
    }
}

#[test]
fn our_own_plans_can_be_read_and_their_results_are_told() {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench");
    let mut plans = 0;
    for file in fs::read_dir(bench.join("plans")).expect("the plans").flatten().map(|entry| entry.path()) {
        let text = fs::read_to_string(&file).expect("a plan");
        let plan = read_plan(&text, &file, &defaults()).unwrap_or_else(|error| panic!("{error}"));
        assert!(plan.repetitions.budget_s.is_some(), "{} has no end", file.display());
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        let results = bench.join("results").join(format!("{name}.toml"));
        assert!(results.is_file(), "bench/results and {name}: make bench");
        plans += 1;
    }
    assert!(plans > 5, "{plans}");
}

fn defaults() -> Defaults {
    Defaults {
        load: role("load {url} {seconds} 0"),
        pinning: Pinning { server: None, load: None, beside: None },
        seed: 7,
        weir: "weir".to_owned(),
    }
}

#[test]
fn what_is_missing_is_named_with_its_package() {
    let text = "[[subject]]\nname = 'x'\nfrom = 'nginx'\n";
    let mut plan = read_plan(text, Path::new("plan.toml"), &defaults()).expect("a plan");
    plan.servers[0].needs[0].file = "/nonexistent/nginx".into();
    let error = run(plan).expect_err("it is not there").to_string();
    assert!(error.contains("x needs /nonexistent/nginx, of Debian's package nginx-light"), "{error}");
}

#[test]
fn a_site_is_seen_from_where_the_plan_is() {
    let here = std::env::current_dir().expect("a folder");
    // From here to a plan elsewhere without its own path being absolute.
    let up: std::path::PathBuf = here.components().skip(1).map(|_| "..").collect();
    let folder = temporary();
    let plan = up.join(folder.path().strip_prefix("/").expect("an absolute path")).join("plan.toml");
    let text = "site = 'made/../site'\n[[subject]]\nname = 'x'\nfrom = 'nginx'\n";
    let plan = || read_plan(text, &plan, &defaults()).expect("a plan");
    let error = run(plan()).expect_err("it is not there").to_string();
    assert!(error.contains("site cannot be served") && error.contains("seen from the plan"), "{error}");
    for name in ["made", "site"] {
        fs::create_dir(folder.path().join(name)).expect("ours");
    }
    fs::write(folder.path().join("site/index.html"), "found").expect("ours");
    for subject in installed().into_iter().filter(|one| ["nginx", "apache-event"].contains(&one.name)) {
        let text = format!(
            "site = 'made/../site'\n[repeat]\nblocks = 1\nagain = 0\nslice = '100ms'\nwarm_up = 0\n\
             [[subject]]\nfrom = '{}'\n[[case]]\nname = 'all'\npath = '/index.html'\n",
            subject.name
        );
        let defaults = Defaults { load: role("page {url}"), ..defaults() };
        let plan = up.join(folder.path().strip_prefix("/").expect("an absolute path")).join("plan.toml");
        run(read_plan(&text, &plan, &defaults).expect("a plan")).unwrap_or_else(|error| panic!("{error}"));
    }
}
