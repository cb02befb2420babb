//! How an etcd is supervised; a script stands for it where no answer of it is needed.

use crate::support::{is_alive, wait_for};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use weir_directory::supervise::{EtcdServer, SuperviseError, Supervisor};

/// Names the folder to the process that is to be killed, in the test of that.
const PARENT: &str = "WEIR_TEST_SUPERVISING_PARENT";

fn script(folder: &Path, text: &str) -> EtcdServer {
    let program = folder.join("program");
    fs::write(&program, format!("#!/bin/sh\n{text}\n")).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it may run");
    EtcdServer { program, ..EtcdServer::alone(folder, "127.0.0.1:1", "127.0.0.1:2") }
}

/// Starts a script. A process that another test forks meanwhile may still have it open to write (ETXTBSY).
fn start(server: &EtcdServer) -> Supervisor {
    let mut started = None;
    wait_for("a start", || match Supervisor::start(server.clone()) {
        Ok(supervisor) => {
            started = Some(supervisor);
            true
        }
        Err(SuperviseError::Program { error, .. }) if error.raw_os_error() == Some(libc::ETXTBSY) => false,
        Err(error) => panic!("{error}"),
    });
    started.expect("it has started")
}

#[test]
fn it_is_started_again_and_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = script(folder.path(), "echo \"$@\"; exec sleep 600");
    let mut supervisor = start(&server);
    let first = supervisor.state().pid.expect("it runs");
    let log = || fs::read_to_string(&server.log).unwrap_or_default();
    wait_for("a line in the log", || log().lines().count() == 1);
    assert!(log().contains("--listen-client-urls=http://127.0.0.1:1 "), "{}", log());
    assert_eq!(fs::metadata(&server.data).expect("its data").permissions().mode() & 0o777, 0o700);
    // SAFETY: kill touches no memory; the process is one that the supervisor has not waited for.
    unsafe { libc::kill(first.cast_signed(), libc::SIGKILL) };
    wait_for("a new start", || supervisor.state().pid.is_some_and(|pid| pid != first));
    let state = supervisor.state();
    assert_eq!(state.restarts, 1);
    assert!(state.ended.as_deref().is_some_and(|ended| ended.contains("signal: 9")), "{state:?}");
    let second = state.pid.expect("it runs");
    supervisor.stop();
    assert!(!is_alive(second));
    assert_eq!(supervisor.state().pid, None);
}

#[test]
fn one_that_does_not_stay_up_is_started_less_and_less_often() {
    let folder = tempfile::tempdir().expect("a folder");
    let supervisor = start(&script(folder.path(), "exit 3"));
    // 0.1, 0.2 and 0.4 s after one another.
    wait_for("three new starts", || supervisor.state().restarts >= 3);
    let state = supervisor.state();
    assert!(state.restarts <= 8, "{state:?}");
    wait_for("its end", || supervisor.state().ended.is_some_and(|ended| ended.contains("exit status: 3")));
}

#[test]
fn one_that_ignores_sigterm_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mark = folder.path().join("ready");
    let text = format!("trap '' TERM; touch {}; while true; do sleep 0.1; done", mark.display());
    let supervisor = start(&script(folder.path(), &text));
    wait_for("a script that ignores the signal", || mark.exists());
    let pid = supervisor.state().pid.expect("it runs");
    drop(supervisor);
    assert!(!is_alive(pid));
}

/// A part of the next test: does nothing unless that one has started it.
#[test]
fn a_parent_that_supervises() {
    let Some(folder) = std::env::var_os(PARENT) else { return };
    let supervisor = start(&script(Path::new(&folder), "exec sleep 600"));
    let pid = supervisor.state().pid.expect("it runs");
    fs::write(Path::new(&folder).join("pid.new"), pid.to_string()).expect("written");
    fs::rename(Path::new(&folder).join("pid.new"), Path::new(&folder).join("pid")).expect("renamed");
    // Until it is killed; not without a bound where the other test has failed.
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
fn it_ends_with_a_parent_that_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = std::env::current_exe().expect("this program");
    let mut parent = Command::new(program)
        .args(["--exact", "supervised::a_parent_that_supervises", "--nocapture"])
        .env(PARENT, folder.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut pid = None;
    wait_for("a supervised process", || {
        pid = fs::read_to_string(folder.path().join("pid")).ok().and_then(|pid| pid.parse().ok());
        pid.is_some()
    });
    let pid: u32 = pid.expect("a process");
    let was_alive = is_alive(pid);
    parent.kill().expect("killed");
    parent.wait().expect("it has ended");
    assert!(was_alive);
    wait_for("its end with its parent", || !is_alive(pid));
}
