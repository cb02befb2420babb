//! A neighbour on the server's CPU.

use crate::support;

use support::alone;
use support::planted::{Beside, explained, names_first};
use weir_testkit::{Apache, Site, require};

/// Takes the CPU for 8 of each 10 ms.
const NEIGHBOUR: &str = "#!/usr/bin/python3
import time
for _ in range(6000):
    end = time.monotonic() + 0.008
    while time.monotonic() < end:
        pass
    time.sleep(0.002)
";

/// A script that computes on the CPU of Apache, as a real-time task, which goes before every other task there: other
/// programs on the machine of the test would be neighbours, too.
#[test]
fn a_noisy_neighbour() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::apache().is_none() || require::cpus(2).is_none() {
        return;
    }
    if require::program("python3").is_none() || require::program("chrt").is_none() {
        return;
    }
    let scripts = Site::empty().expect("a directory");
    scripts.write_program("report-nightly", NEIGHBOUR.as_bytes()).expect("the script");
    let server = Apache::prefork().workers(8).pin(0).start().expect("Apache starts");
    let mut neighbour = std::process::Command::new("taskset");
    neighbour.args(["-c", "0", "chrt", "-f", "1"]).arg(scripts.path().join("report-nightly"));
    let _neighbour = Beside::spawn(neighbour);
    let port = server.port.to_string();
    let report = explained(&server.url("/1k.txt"), &["--port", &port, "-c", "4", "-d", "2s", "--cpu", "1"]);
    names_first(&report, "wait_cpu", "report-nightly");
}
