//! What telling a request costs `weir serve --arm`, in instructions, which do not depend on the machine's load.

use super::{Place, Running};
use crate::support::{alone, planted::wait_for};
use std::fs;
use std::process::{Command, Stdio};
use weir_testkit::client::Connection;
use weir_testkit::counts::{settled, total, within};
use weir_testkit::{free_port, require};

/// Instructions of a request that is told beyond one without directives, and of one with them where no agent listens: 641
/// and 67 measured with Rust 1.95, of 2,532 that a request takes; on 2026-11-30 657 and 74 of 2,560, and up to five more
/// from run to run.
const MOST_TOLD: f64 = 700.0;
const MOST_UNHEARD: f64 = 80.0;
/// Requests of the shorter run, and how many more the longer one has.
const FEW: u64 = 200;
const MORE: u64 = 2_000;

#[test]
fn telling_a_request_is_few_instructions() {
    let _turn = alone();
    if require::program("valgrind").is_none() {
        return;
    }
    let (heard, unheard) = (Place::new(), Place::new());
    let agent = heard.agent();
    settled(|least| {
        let mut each = |name: &str, place: &Place, has_rules| {
            least.each(name, (FEW, MORE), |requests| instructions(place, has_rules, requests))
        };
        let plain = each("plain", &heard, false);
        let told = each("told", &heard, true) - plain;
        let silent = each("silent", &unheard, true) - plain;
        eprintln!("{plain:.0} instructions a request, {told:.0} more if it is told, {silent:.0} if no agent listens");
        within("a request", plain, 1_000.0, 10_000.0)?;
        within("to tell a request", told, 100.0, MOST_TOLD)?;
        within("where no agent listens", silent, f64::MIN, MOST_UNHEARD)
    });
    drop(agent);
}

/// All instructions of a server that has answered so many requests of one connection.
fn instructions(place: &Place, has_rules: bool, requests: u64) -> u64 {
    let folder = tempfile::tempdir().expect("a directory");
    let path = |name: &str| folder.path().join(name);
    fs::write(path("a.txt"), "hello").expect("a file");
    fs::write(path("rules"), "Arm On\nArmApplication cost\nArmMatch ^/a a\n").expect("a file");
    let (port, counts) = (free_port(), path("counts"));
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "-q"]).arg(format!("--callgrind-out-file={}", counts.display()));
    // The clock is set once a millisecond: under valgrind on a busy machine that is each time, some 300 instructions.
    command.args(["--toggle-collect=weir_arm::clock::Clock::ask", "--collect-atstart=yes"]);
    // A confined server could not write callgrind's file.
    command.arg(env!("CARGO_BIN_EXE_weir")).args([
        "serve",
        "--no-sandbox",
        "--loops",
        "1",
        // One of the two ways.
        "--io",
        "epoll",
        "--listen",
        &format!("127.0.0.1:{port}"),
    ]);
    if has_rules {
        command.arg("--arm").arg(path("rules"));
    }
    command.arg(folder.path()).env("WEIR_ARM_DIR", place.directory());
    let mut server = Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("valgrind starts"));
    let mut connection = wait_for(|| Connection::open(port).ok());
    for _ in 0..requests {
        assert_eq!(connection.get("/a.txt").expect("an answer").status, 200);
    }
    drop(connection);
    server.signal(libc::SIGTERM);
    assert!(server.0.wait().expect("it ends").success(), "it ended otherwise");
    total(&fs::read_to_string(&counts).expect("callgrind's file"))
}
