//! A recording that goes on for ever and meets a full disk: it says so, waits without work, and goes on.

use crate::support;

use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use support::files::SmallDisk;
use support::planted::{Beside, wait_for};
use support::{alone, number, output, weir};
use weir_testkit::{Faulty, require};

/// What a recorder says, as it says it; it is ended with the test.
struct Recording {
    child: Child,
    said: Arc<Mutex<String>>,
}

impl Recording {
    fn start(port: u16, runs: &Path) -> Self {
        let port = port.to_string();
        let often = ["--window", "200ms", "--cpu-share", "100", "--disk-per-hour", "100000"];
        let mut command = weir();
        command.args(["record", "--always", "--port", &port]).args(often).arg("--run").arg(runs);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let said = Arc::new(Mutex::new(String::new()));
        let (stderr, into) = (child.stderr.take().expect("a pipe"), Arc::clone(&said));
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                into.lock().expect("no thread panics with it").push_str(&(line + "\n"));
            }
        });
        Self { child, said }
    }

    fn said(&self) -> String {
        self.said.lock().expect("no thread panics with it").clone()
    }

    /// CPU time up to now, in clock ticks of 10 ms.
    fn ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("it lives");
        let fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().skip(11).take(2);
        fields.filter_map(|field| field.parse::<u64>().ok()).sum()
    }

    fn stop(mut self) {
        // SAFETY: the process is our child and not yet waited for.
        unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGINT) };
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}: {}", self.said());
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // It fails where it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs in which something was recorded, the oldest first.
fn runs_in(directory: &Path) -> Vec<PathBuf> {
    let recorded = |run: &PathBuf| {
        let files = fs::read_dir(run.join("segments")).into_iter().flatten().flatten();
        files.filter_map(|file| file.metadata().ok()).any(|file| file.len() > 4096)
    };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut runs: Vec<PathBuf> = entries.filter(recorded).collect();
    runs.sort();
    runs
}

fn requests_of(run: &Path) -> f64 {
    let explained = output(&["explain", "--json", run.to_str().expect("a readable path")]);
    let stderr = String::from_utf8_lossy(&explained.stderr);
    let report: Value =
        serde_json::from_slice(&explained.stdout).unwrap_or_else(|error| panic!("no JSON ({error}); stderr: {stderr}"));
    number(&report, "/requests")
}

#[test]
fn a_full_disk_is_told_waited_for_and_left_behind() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let Some(disk) = SmallDisk::mount(32) else { return };
    let server = Faulty::new("sleep").start().expect("the server starts");
    let mut load = weir();
    load.args(["load", &server.url("/"), "-c", "4", "-d", "2m", "-q"]).stdout(Stdio::null());
    let _load = Beside::spawn(load);
    let runs = disk.path().join("runs");
    let recording = Recording::start(server.port, &runs);
    let first = wait_for(|| runs_in(&runs).pop());
    std::thread::sleep(std::time::Duration::from_secs(1));

    let filler = disk.path().join("filler.bin");
    let mut file = File::create(&filler).expect("a file");
    while file.write_all(&[0; 1 << 16]).is_ok() {}
    let said = wait_for(|| Some(recording.said()).filter(|said| said.contains("is full")));
    assert!(said.contains("No space left on device") && said.contains("stays readable"), "{said}");
    assert!(said.contains("make room") && said.contains("--keep"), "{said}");
    let (before, words) = (recording.ticks(), recording.said());
    std::thread::sleep(std::time::Duration::from_secs(5));
    let worked = recording.ticks() - before;
    assert!(worked <= 25, "{worked} ticks of 10 ms in 5 s of waiting");
    assert_eq!(recording.said(), words, "it says it once");
    assert!(requests_of(&first) > 10.0);

    drop(file);
    fs::remove_file(&filler).expect("there is room again");
    let second = wait_for(|| runs_in(&runs).into_iter().find(|run| *run != first));
    assert!(recording.said().contains("there is room again"), "{}", recording.said());
    std::thread::sleep(std::time::Duration::from_secs(1));
    recording.stop();
    assert!(requests_of(&second) > 10.0);
}
