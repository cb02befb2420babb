//! The benchmarks run, on an input too small to mean anything.

use std::path::Path;
use std::process::Command;
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
fn bare_client_and_server() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr()).expect("a free port");
    let mut server = Command::new(env!("CARGO_BIN_EXE_bare-server"))
        .args([&address.to_string(), "--body", "100000"])
        .spawn()
        .expect("the server starts");
    let there = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        std::net::TcpStream::connect(address).is_ok()
    });
    let output = Command::new(env!("CARGO_BIN_EXE_bare-client"))
        .args([&address.to_string(), "--connections", "3", "--seconds", "0.2"])
        .output()
        .expect("the client starts");
    // It fails only where it has ended by itself.
    let _ = server.kill();
    let _ = server.wait();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(there && output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let requests = stdout.strip_prefix("{\"requests\": ").and_then(|rest| rest.split(',').next()?.parse::<u64>().ok());
    assert!(requests > Some(10), "{stdout}");
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
