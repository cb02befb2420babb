//! What cannot be done is refused in words, with the remedy and the right exit code; what was recorded stays readable.
// scripts/test: waits

mod support;

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::{alone, output, recording, weir};
use weir_testkit::{Faulty, require};

/// Checks exit code and words of a refusal.
fn refused(output: &Output, code: i32, words: &[&str]) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    for word in words {
        assert!(stderr.contains(word), "{word:?} is not said in: {stderr}");
    }
    assert!(!stderr.contains("panicked"), "{stderr}");
}

/// A port that no process listens on: one that was free a moment ago.
fn closed_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}

#[test]
fn wrong_usage_is_2_and_says_how_it_is_meant() {
    refused(&output(&["load", "127.0.0.1:80"]), 2, &["http://"]);
    refused(&output(&["load"]), 2, &["URL"]);
    refused(&output(&["record"]), 2, &["--port", "--help"]);
    refused(&output(&["explain"]), 2, &["--load"]);
    refused(&output(&["explain", "--load", "http://127.0.0.1:1/"]), 2, &["--port 1"]);
    refused(&output(&["explain", "--load", "127.0.0.1:80/", "--port", "80"]), 2, &["http://"]);
    refused(&output(&["record", "--port", "0"]), 2, &["--port"]);
    refused(&output(&["record", "-d", "5 minutes", "--port", "80"]), 2, &["10s"]);
    refused(&output(&["no-such-command"]), 2, &["--help"]);
    refused(&output(&["compare", "plan.toml", "--load", "wrk {url}"]), 2, &["--load: a plan says that itself"]);
    refused(&output(&["compare", "--resume", "folder", "--load", "wrk {url}"]), 2, &["--load: the experiment goes on"]);
    refused(&output(&["explain", "--port", "80", "--slo", "p99=5ms"]), 2, &["'p99<200ms'"]);
}

/// What is told by the host's numbers of tasks cannot be laid beside this namespace's.
#[test]
fn stacks_are_refused_in_a_pid_namespace_of_ones_own() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let run = tempfile::tempdir().expect("a temporary directory");
    let path = run.path().join("run");
    for option in [&["--stacks"][..], &["--watch", "locks"]] {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc", "--mount", env!("CARGO_BIN_EXE_weir"), "record"]);
        command.args(["-d", "1s", "--run"]).arg(&path).args(option).args(["--", "sleep", "5"]);
        refused(&command.output().expect("unshare starts"), 1, &["pid namespace", "--pid=host"]);
    }
}

/// What an option asks for is done or refused, never passed over.
#[test]
fn options_that_do_not_belong_together_are_refused() {
    for option in [&["--stacks"][..], &["--watch", "all"], &["--packs", "auto"], &["--rate", "5"], &["--rung", "proc"]]
    {
        refused(&output(&[&["explain", "runs/a"], option].concat()), 2, &["[RUN]", option[0]]);
    }
    for option in [&["--stacks"][..], &["--watch", "all"], &["--probe", "x:y"]] {
        refused(&output(&[&["record", "--always", "--port", "80"], option].concat()), 2, &["--always", option[0]]);
    }
}

#[test]
fn a_loads_options_without_a_load_are_refused() {
    for option in
        [&["-c", "5"][..], &["-c", "10"], &["--rate", "5"], &["-H", "X: y"], &["--no-keepalive"], &["-n", "9"]]
    {
        let output = output(&[&["explain", "--port", "80"], option].concat());
        let long = match option[0] {
            "-c" => "--connections",
            "-H" => "--header",
            "-n" => "--requests",
            long => long,
        };
        refused(&output, 2, &[long, "--load URL"]);
    }
    // The duration is the recording's, too.
    let output = output(&["explain", "--port", &closed_port().to_string(), "-d", "10ms"]);
    refused(&output, 1, &[]);
}

/// Half a report must not look like a whole one.
#[test]
fn a_report_that_cannot_be_written_is_1() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("the kernel has it");
    let output = weir().args(["completions", "bash"]).stdout(full).stderr(Stdio::piped()).output();
    refused(&output.expect("the command starts"), 1, &["cannot be written", "space"]);
}

#[test]
fn an_unreachable_port_is_1() {
    let url = format!("http://127.0.0.1:{}/", closed_port());
    refused(&output(&["load", &url, "-d", "1s", "-q"]), 1, &["refused"]);
}

#[test]
fn a_target_that_is_not_there_is_1() {
    if require::root_and_bpf().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let run = folder.path().to_str().expect("a readable path");
    refused(&output(&["record", "--run", run, "--pid", "4194303"]), 1, &["no process 4194303"]);
    refused(&output(&["record", "--run", run, "--comm", "no-such-server"]), 1, &["no-such-server"]);
    let port = closed_port().to_string();
    refused(&output(&["record", "--run", run, "--port", &port]), 1, &["nothing listens", &port]);
    refused(&output(&["record", "--run", run, "--", "/no/such/program"]), 1, &["/no/such/program"]);
    // What is refused leaves no run behind.
    let server = Faulty::new("plain").start().expect("the server starts");
    let (listening, left) = (server.port.to_string(), folder.path().join("left"));
    let left_text = left.to_str().expect("a readable path");
    let arguments =
        ["record", "--port", &listening, "--rung", "proc", "-d", "1s", "--run", left_text, "--watch", "disk"];
    refused(&output(&arguments), 1, &["--watch", "--rung"]);
    assert!(!left.exists());
    let url = format!("http://127.0.0.1:{port}/");
    refused(&output(&["explain", "--run", run, "--load", &url, "--port", &port]), 1, &["nothing listens"]);
    refused(&output(&["explain", "--run", run, "--load", &url, "--", "false"]), 1, &["ended before it answered"]);
}

#[test]
fn without_privilege_it_says_which_one_is_missing() {
    if require::or_skip(is_root(), "only root can try what an ordinary user may not").is_none() {
        return;
    }
    let run = std::env::temp_dir();
    let (mut command, _copy) = copy_for_others();
    command.args(["record", "--run", "weir-run", "--port", "80"]).current_dir(run).uid(65534).gid(65534);
    refused(&command.output().expect("the command starts"), 1, &["CAP_BPF", "CAP_PERFMON", "root"]);
}

/// Without any privilege a server of the user's own is looked at through /proc, and what is missing is said.
#[test]
fn without_privilege_proc_tells_what_it_can() {
    let _turn = alone();
    if require::or_skip(is_root(), "only root can try what an ordinary user may not").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(folder.path().join("index.html"), "hello").expect("a page is written");
    std::os::unix::fs::chown(folder.path(), Some(65534), Some(65534)).expect("the directory is given away");
    let (mut command, _copy) = copy_for_others();
    let program = command.get_program().to_string_lossy().into_owned();
    let (port, site) = (closed_port(), folder.path().to_str().expect("a readable path"));
    let (url, listen) = (format!("http://127.0.0.1:{port}/"), format!("127.0.0.1:{port}"));
    command.args(["explain", "--json", "--load", &url, "-n", "500", "--run"]).arg(folder.path().join("run"));
    command.args(["--", &program, "serve", "--listen", &listen, site]);
    let output = command.uid(65534).gid(65534).output().expect("the command starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(report["rung"], "proc only");
    assert!(report["warnings"].to_string().contains("missing CAP_BPF and CAP_PERFMON"), "{}", report["warnings"]);
}

#[test]
fn two_capabilities_do_instead_of_root() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::program("setcap").is_none() {
        return;
    }
    let server = Faulty::new("plain").start().expect("the server starts");
    let (mut command, _copy) = copy_for_others();
    let program = command.get_program().to_owned();
    let capabilities = "cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search+ep";
    let given = Command::new("setcap").arg(capabilities).arg(&program).status().expect("setcap starts");
    assert!(given.success());
    let folder = tempfile::tempdir().expect("a temporary directory");
    std::os::unix::fs::chown(folder.path(), Some(65534), Some(65534)).expect("the directory is given away");
    let port = server.port.to_string();
    command.args(["explain", "--load", &server.url("/"), "--port", &port, "-n", "200", "--json", "--run"]);
    let output = command.arg(folder.path()).uid(65534).gid(65534).output().expect("the command starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert!(report["joined_fraction"].as_f64().expect("a share") > 0.99, "{}", report["unjoinable"]);
}

#[test]
fn without_type_information_it_says_so() {
    if require::root_and_bpf().is_none() {
        return;
    }
    // In a mount namespace of its own the file's directory is covered by an empty one.
    let script = format!(
        "mount -t tmpfs none /sys/kernel/btf && exec {} record --run $(mktemp -d) --port {}",
        env!("CARGO_BIN_EXE_weir"),
        closed_port()
    );
    let output = Command::new("unshare").args(["-m", "sh", "-c", &script]).output().expect("unshare starts");
    refused(&output, 1, &["BTF", "CONFIG_DEBUG_INFO_BTF"]);
}

#[test]
fn a_target_that_ends_in_the_middle_leaves_a_readable_run() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("plain").start().expect("the server starts");
    let run = tempfile::tempdir().expect("a temporary directory");
    let run = run.path().to_str().expect("a readable path");
    let port = server.port.to_string();
    let recording = recording::attached(&["--run", run, "--port", &port, "-d", "60s"]);
    let url = server.url("/");
    let loading = weir().args(["load", "--run", run, &url, "-n", "500", "-q"]).output().expect("the command starts");
    assert!(loading.status.success(), "{}", String::from_utf8_lossy(&loading.stderr));
    let begin = Instant::now();
    drop(server);
    let (status, said) = recording.end();
    assert!(begin.elapsed() < Duration::from_secs(30), "it went on without a target");
    assert!(status.success());
    assert!(said.contains("has ended"), "{said}");
    let explained = output(&["explain", "--json", run]);
    let report: serde_json::Value = serde_json::from_slice(&explained.stdout).expect("a report");
    assert_eq!(report["requests"], 500);
    assert!(report["joined_fraction"].as_f64().expect("a share") > 0.99, "{}", report["unjoinable"]);
    assert!(report["warnings"].to_string().contains("ended"));
}

/// `weir explain` says so, too, whether it loads the server or only watches it, and does not go on watching.
#[test]
fn a_target_that_ends_while_it_is_explained_is_told() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    for loads in [true, false] {
        let server = Faulty::new("plain").start().expect("the server starts");
        let run = tempfile::tempdir().expect("a temporary directory");
        let run = run.path().to_str().expect("a readable path");
        let (port, url) = (server.port.to_string(), server.url("/"));
        let mut command = weir();
        command.args(["explain", "--json", "--run", run, "--port", &port]).stdout(Stdio::piped());
        match loads {
            true => command.args(["-d", "4s", "--load", &url, "-c", "2", "--timeout", "1s"]),
            false => command.args(["-d", "60s"]),
        };
        let mut explaining = recording::begun(command);
        let mut other = None;
        if !loads {
            let load = ["load", &url, "-d", "10s", "-q", "--timeout", "1s"];
            other = Some(weir().args(load).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts"));
        }
        std::thread::sleep(Duration::from_millis(1200));
        let begin = Instant::now();
        drop(server);
        let mut explained = String::new();
        let output = explaining.child.stdout.as_mut().expect("piped");
        output.read_to_string(&mut explained).expect("text");
        let (_, told) = explaining.end();
        if let Some(mut load) = other {
            load.kill().expect("it is ours");
            load.wait().expect("it ends");
            assert!(begin.elapsed() < Duration::from_secs(30), "it went on watching for {:?}", begin.elapsed());
        }
        let report: serde_json::Value = serde_json::from_str(&explained).unwrap_or_else(|_| panic!("{told}"));
        let warnings = report["warnings"].to_string();
        assert!(warnings.contains("every process of the target has ended"), "{loads}: {warnings}");
    }
}

#[test]
fn a_killed_recording_stays_readable() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("plain").start().expect("the server starts");
    let run = tempfile::tempdir().expect("a temporary directory");
    let run = run.path().to_str().expect("a readable path");
    let port = server.port.to_string();
    let mut recording = recording::attached(&["--run", run, "--port", &port]);
    let load = ["load", "--run", run, &server.url("/"), "-d", "2s", "-q"].map(str::to_owned);
    assert!(weir().args(&load).output().expect("the command starts").status.success());
    // SIGKILL: nothing is flushed, the manifest gets no end.
    recording.child.kill().expect("it is killed");
    let _ = recording.end();
    let explained = output(&["explain", "--json", run]);
    let report: serde_json::Value = serde_json::from_slice(&explained.stdout).expect("a report");
    // Whole blocks reached the disk while it ran; only the last ones are missing.
    assert!(report["joined_fraction"].as_f64().expect("a share") > 0.5, "{}", report["unjoinable"]);
}

#[test]
fn ctrl_c_ends_a_recording_with_its_report() {
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("plain").start().expect("the server starts");
    let run = tempfile::tempdir().expect("a temporary directory");
    let run = run.path().to_str().expect("a readable path");
    let port = server.port.to_string();
    let recording = recording::attached(&["--run", run, "--port", &port]);
    // SAFETY: the process is our child and not yet waited for.
    unsafe { libc::kill(recording.child.id().cast_signed(), libc::SIGINT) };
    let (status, said) = recording.end();
    assert!(status.success());
    assert!(said.contains("recorded"), "{said}");
}

fn is_root() -> bool {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// The command where an ordinary user may run it: build directories are often closed to others. The copy goes with the
/// directory.
fn copy_for_others() -> (Command, tempfile::TempDir) {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let copy = directory.path().join("weir");
    std::fs::copy(env!("CARGO_BIN_EXE_weir"), &copy).expect("the command can be copied");
    for path in [directory.path(), &copy] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("permissions can be set");
    }
    (Command::new(copy), directory)
}

#[test]
fn what_is_kept_holds_no_secret() {
    let server = Faulty::new("plain").start().expect("the server starts");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let run = folder.path().join("run");
    let url = server.url("/?token=hush1");
    let mut command = weir();
    command.args(["load", &url, "-n", "20", "-qH", "Authorization: hush2", "--header=X: hush3", "--body", "hush4"]);
    assert!(command.arg("--run").arg(&run).output().expect("the command starts").status.success());
    let found = Command::new("grep").arg("-rl").arg("hush").arg(&run).output().expect("grep starts");
    assert_eq!(String::from_utf8_lossy(&found.stdout), "", "secrets are in the run");
    // The same search finds what is kept: it is no search that cannot fail.
    let kept = Command::new("grep").arg("-rl").arg("redacted").arg(&run).output().expect("grep starts");
    assert!(!kept.stdout.is_empty());
}
