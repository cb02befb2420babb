//! The benchmarks run, on an input too small to mean anything.
// scripts/test: counts

use std::path::Path;
use std::process::{Command, Stdio};
use weir_testkit::require;

#[test]
fn observer_cost() {
    if require::root_and_bpf().is_none() || require::nginx().is_none() {
        return;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_observer-cost"))
        .args(["nginx", "--connections", "4", "--pairs", "5", "--slice-ms", "300"])
        .output()
        .expect("the benchmark starts");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    assert!(stdout.contains("observer cost") && stdout.contains("0 events lost"), "{stdout}");
}

#[test]
fn director_packets() {
    if require::root_and_bpf().is_none() {
        return;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_director-packets")).args(["3", "1000"]).output().expect("it starts");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.lines().count() == 2 && stdout.contains("a plain redirect"), "{stdout}");
}

#[test]
fn arm_cost() {
    let weir = Path::new(env!("CARGO_BIN_EXE_arm-cost")).with_file_name("weir");
    if !weir.exists() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let arm = folder.path().join("arm");
    std::fs::write(folder.path().join("rules"), "Arm On\nArmApplication tiny\nArmTransaction file\n").expect("writes");
    std::fs::write(folder.path().join("file.txt"), "content").expect("writes");
    let (address, quiet) = (format!("127.0.0.1:{}", weir_testkit::free_port()), Stdio::null);
    let start = |words: &[&str]| {
        let mut command = Command::new(&weir);
        command.args(words).current_dir(folder.path()).env("WEIR_ARM_DIR", &arm).stdout(quiet()).stderr(quiet());
        command.spawn().expect("it starts")
    };
    let mut agent = start(&["agent", "--no-state", "--directory", "arm"]);
    let mut server = start(&["serve", "--listen", &address, "--loops", "1", "--arm", "rules", "."]);
    let there = (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        std::net::TcpStream::connect(&address).is_ok()
            && std::os::unix::net::UnixStream::connect(arm.join("agent.sock")).is_ok()
    });
    let output = Command::new(env!("CARGO_BIN_EXE_arm-cost"))
        .args([&format!("http://{address}/file.txt"), "--pid", &server.id().to_string(), "--json", "--pairs", "5"])
        .args(["--slice-ms", "100", "--connections", "2", "--directory"])
        .arg(&arm)
        .output();
    for child in [&mut server, &mut agent] {
        // It fails only where it has ended by itself.
        let _ = child.kill();
        let _ = child.wait();
    }
    let output = output.expect("the benchmark starts");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(there && output.status.success(), "{stderr}");
    let told: serde_json::Value = serde_json::from_str(&stdout).expect("a line of JSON");
    assert!(told["transactions"].as_u64() > Some(20) && told["ratio"].as_f64() > Some(0.2), "{stdout}");
}

#[test]
fn bare_clients_and_servers() {
    for (server, options) in
        [(env!("CARGO_BIN_EXE_bare-server"), &["--body", "100000"][..]), (env!("CARGO_BIN_EXE_bare-ring-server"), &[])]
    {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], weir_testkit::free_port()));
        let mut server = Command::new(server)
            .arg(address.to_string())
            .args(options)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let there = (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            std::net::TcpStream::connect(address).is_ok()
        });
        let clients = [env!("CARGO_BIN_EXE_bare-client"), env!("CARGO_BIN_EXE_bare-ring-client")];
        let outputs = clients.map(|client| {
            let client =
                Command::new(client).args([&address.to_string(), "--connections", "3", "--seconds", "0.2"]).output();
            client.expect("the client starts")
        });
        // It fails only where it has ended by itself.
        let _ = server.kill();
        let said = server.wait_with_output().expect("it ends").stderr;
        // A kernel may have no io_uring, or forbid it.
        if String::from_utf8_lossy(&said).contains("io_uring_setup") {
            continue;
        }
        for output in outputs {
            let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            if stderr.contains("io_uring_setup") {
                continue;
            }
            assert!(there && output.status.success(), "{stderr}");
            let first = stdout.strip_prefix("{\"requests\": ").and_then(|rest| rest.split(',').next());
            assert!(first.and_then(|requests| requests.parse::<u64>().ok()) > Some(10), "{stdout}");
        }
    }
}

/// Not on a tiny input: this is the promise itself, and takes a second.
#[test]
fn ten_thousand_idle_connections_fit_into_100_mb() {
    let weir = Path::new(env!("CARGO_BIN_EXE_idle-connections")).with_file_name("weir");
    if require::or_skip(weir.is_file(), "weir itself is not built: test the whole workspace").is_none() {
        return;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_idle-connections")).arg(weir).output().expect("it starts");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if require::or_skip(!stderr.contains("descriptors are not allowed"), "10,000 descriptors are not allowed").is_none()
    {
        return;
    }
    assert!(output.status.success(), "{stderr}");
    let resident = stdout.lines().find(|line| line.contains("resident memory")).map(cells).expect("a row");
    let (before, with) = (resident[1].parse::<f64>().expect("MB"), resident[2].parse::<f64>().expect("MB"));
    assert!(before > 1.0 && with > before && with < 100.0, "{stdout}");
}

#[test]
fn always_cost() {
    if require::root_and_bpf().is_none() || require::apache().is_none() || require::php_fpm().is_none() {
        return;
    }
    let weir = Path::new(env!("CARGO_BIN_EXE_always-cost")).with_file_name("weir");
    if require::or_skip(weir.is_file(), "weir itself is not built: test the whole workspace").is_none() {
        return;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_always-cost"))
        .args(["--rate", "50", "--seconds", "3"])
        .output()
        .expect("the benchmark starts");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    assert!(stdout.contains("together") && stdout.contains("MB an hour"), "{stdout}");
}

/// A line of a table in Markdown, as its cells.
fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

#[test]
fn pacing() {
    let server = weir_testkit::Faulty::new("plain").start().expect("it starts");
    let output = Command::new(env!("CARGO_BIN_EXE_pacing"))
        .args([&server.url("/"), "--rates", "200,1000", "--blocks", "3", "--seconds", "0.3"])
        .output()
        .expect("the benchmark starts");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rates: Vec<_> = stdout.lines().skip(2).map(|line| cells(line)[0].to_owned()).collect();
    assert_eq!(rates, ["200/s", "1000/s"], "{stdout}");
    let ratio = |line: &str| cells(line)[5].split(' ').next().and_then(|ratio| ratio.parse::<f64>().ok());
    assert!(stdout.lines().skip(2).all(|line| ratio(line) > Some(0.0)), "{stdout}");
}

#[test]
fn truth_table() {
    let weir = Path::new(env!("CARGO_BIN_EXE_truth-table")).with_file_name("weir");
    if require::or_skip(weir.is_file(), "weir itself is not built: test the whole workspace").is_none() {
        return;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_truth-table"))
        .args(["--periods", "1", "--hey", "/nowhere/hey"])
        .output()
        .expect("the benchmark starts");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: Vec<_> = stdout.lines().skip(2).map(cells).collect();
    let names: Vec<_> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(names, ["arithmetic truth", "weir", "wrk", "ab", "hey", "h2load"], "{stdout}");
    // Four figures of weir's own, with their distance from the truth; a tool that is not there says so.
    assert!(rows[1][2..6].iter().all(|cell| cell.contains(" ms (")), "{stdout}");
    assert!(rows[4][2].contains("not measured: /nowhere/hey cannot be run"), "{stdout}");
}

#[test]
fn arm_pair() {
    let library = std::env::current_exe().expect("this test").with_file_name("libarm4.so");
    if require::or_skip(library.is_file(), "libarm4.so is not built: test the whole workspace").is_none() {
        return;
    }
    let announcements = tempfile::tempdir().expect("a directory");
    let output = Command::new(env!("CARGO_BIN_EXE_arm-pair"))
        .arg(library)
        .args(["--rounds", "5", "--batches", "2", "--threads", "1,3"])
        .env("WEIR_ARM_DIR", announcements.path())
        .output()
        .expect("the benchmark starts");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: Vec<_> = stdout.lines().skip(2).take(2).map(cells).collect();
    assert_eq!([rows[0][0], rows[1][0]], ["1", "3"], "{stdout}");
    let figure = |row: &[&str], column: usize| row[column].parse::<f64>().unwrap_or(0.0);
    // Who listens costs something, and nothing was lost.
    assert!(rows.iter().all(|row| figure(row, 3) > figure(row, 2) && figure(row, 2) > 0.0), "{stdout}");
    assert!(stdout.contains("\n0 records dropped"), "{stdout}");
}

#[test]
fn arm_agent() {
    let output = Command::new(env!("CARGO_BIN_EXE_arm-agent"))
        .args(["--rates", "1000", "--processes", "1,5", "--seconds", "0.3"])
        .output()
        .expect("the benchmark starts");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    assert_eq!(stdout.lines().filter(|line| line.contains("s | 1000/s")).count(), 4, "{stdout}");

    let output = Command::new(env!("CARGO_BIN_EXE_arm-agent"))
        .args(["--tail", "--rates", "200", "--processes", "200", "--seconds", "3"])
        .output()
        .expect("the benchmark starts");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    let row = stdout.lines().find(|line| line.starts_with("| 200/s | 200 |")).map(cells).expect("a row");
    let median: f64 = row[2].strip_suffix(" ms").and_then(|ms| ms.parse().ok()).expect("milliseconds");
    // 300 ms on a machine that has time; without a follower, each client would be looked at every 0.4 s or later.
    assert!(median < 300.0, "{stdout}");

    let has_command = Path::new(env!("CARGO_BIN_EXE_arm-agent")).with_file_name("weir").exists();
    if require::root_and_bpf().is_none() || !has_command {
        return;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_arm-agent"))
        .args(["--rates", "200", "--processes", "2", "--seconds", "0.3", "--capture", "1"])
        .output()
        .expect("the benchmark starts");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    assert!(stdout.contains("| off |") && stdout.contains("| on |"), "{stdout}");
}
