//! Servers with scripts that are killed, alone and with all that they have started, and full disks: no process, socket or
//! directory stays, or the next server removes it.

use super::remote::{ScriptServer, request, running};
use super::support::planted::wait_for;
use super::support::served::Served;
use super::support::weir;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use weir_testkit::{free_port, require};

const HELLO: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nhello'\n";
const STUCK: &str = "#!/bin/sh\nexec sleep 1000\n";
const ENGINE: &str = "print \"Content-Type: text/plain\\n\\nkept\";\n";

/// Scripts in `bin`, and their server's files: of a script server in the clear, and of a web server.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    fs::create_dir(folder.path().join("bin")).expect("creates");
    for (name, text) in [("hello.sh", HELLO), ("stuck.sh", STUCK), ("kept.pl", ENGINE)] {
        let path = folder.path().join("bin").join(name);
        fs::write(&path, text).expect("writes");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("sets");
    }
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("sets");
    let text = "[[host]]\n[[host.path]]\nprefix = \"/cgi-bin/\"\nroot = \"bin\"\ncgi = { workers = 2, slow = \"0 s\" }\n\
                [[host.path]]\nprefix = \"/kept/\"\nroot = \"bin\"\nrte = { workers = 1 }\n";
    fs::write(folder.path().join("weir.toml"), text).expect("writes");
    folder
}

/// A second table for scripts that engines run.
const KEPT: &str = "slow = \"0 s\" }\n[[scripts]]\nprefix = \"/kept/\"\nroot = \"bin\"\nrte = { workers = 1";

/// The directory of the sockets of a server.
fn sockets(pid: u32) -> Option<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let places = [Some("/run".into()), own, Some(std::env::temp_dir())].into_iter().flatten();
    let beginning = format!("weir-scripts-{pid}-");
    let entries = places.flat_map(|place| fs::read_dir(place).into_iter().flatten().flatten());
    let found = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&beginning));
    found.map(|entry| entry.path()).next()
}

/// The children of a process.
fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// Whether a process runs.
fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, behind)| !behind.starts_with(" Z"))
}

fn kill(pid: u32, signal: i32) {
    // SAFETY: the call takes no pointers.
    assert_eq!(unsafe { libc::kill(pid.cast_signed(), signal) }, 0, "{pid}");
}

/// The process that runs the scripts of a server, and its runners.
fn supervisor(server: u32) -> (u32, Vec<u32>) {
    wait_for(|| {
        let [supervisor] = children(server)[..] else { return None };
        let runners = children(supervisor);
        (runners.len() == 3).then_some((supervisor, runners))
    })
}

/// Asks a script server in the clear for a script; the answer comes later.
fn asked(port: u16, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
    stream.write_all(&request(&[("SCRIPT_NAME", path), ("REQUEST_METHOD", "GET")])).expect("asks");
    stream
}

fn answer(mut stream: TcpStream) -> String {
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply);
    String::from_utf8_lossy(&reply).into_owned()
}

#[test]
fn nothing_stays_of_a_script_server_that_is_killed() {
    let folder = folder();
    let mut server = ScriptServer::start(folder.path(), "", KEPT);
    let (supervisor, runners) = supervisor(server.child.id());
    assert!(answer(asked(server.port, "/kept/kept.pl")).contains("kept"));
    let own = sockets(server.child.id()).expect("a directory of sockets");
    assert!(own.join("rte.pl").is_file());
    let _stuck = asked(server.port, "/cgi-bin/stuck.sh");
    wait_for(|| (running(folder.path()) == 2).then_some(()));
    // A runner first, which costs its request alone.
    let of_stuck = runners.iter().find(|&&runner| {
        children(runner)
            .iter()
            .any(|&child| fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|name| name.trim() == "sleep"))
    });
    kill(*of_stuck.expect("a runner with a script"), libc::SIGKILL);
    server.says("is started again in");
    assert!(answer(asked(server.port, "/cgi-bin/hello.sh")).contains("hello"));
    let _stuck = asked(server.port, "/cgi-bin/stuck.sh");
    wait_for(|| (running(folder.path()) == 2).then_some(()));
    server.child.kill().expect("it runs");
    server.child.wait().expect("it ends");
    wait_for(|| (running(folder.path()) == 0 && !runs(supervisor) && !own.exists()).then_some(()));
}

#[test]
fn a_server_removes_what_one_has_left_that_was_killed_with_all_its_processes() {
    let folder = folder();
    let mut killed = ScriptServer::start(folder.path(), "", KEPT);
    let (supervisor, runners) = supervisor(killed.child.id());
    let _stuck = asked(killed.port, "/cgi-bin/stuck.sh");
    wait_for(|| (running(folder.path()) >= 1).then_some(()));
    let left = sockets(killed.child.id()).expect("a directory of sockets");
    // None of them can do anything about the end of another one.
    kill(supervisor, libc::SIGSTOP);
    runners.iter().for_each(|&runner| kill(runner, libc::SIGSTOP));
    for pid in runners.iter().copied().chain([supervisor, killed.child.id()]) {
        kill(pid, libc::SIGKILL);
    }
    killed.child.wait().expect("it ends");
    // The script itself has ended with its runner.
    wait_for(|| (running(folder.path()) == 0 && !runs(supervisor)).then_some(()));
    assert!(left.is_dir());
    let living = ScriptServer::start(folder.path(), "", KEPT);
    assert!(!left.exists());
    let own = sockets(living.child.id()).expect("a directory of sockets");
    let served = Served::start(folder.path(), &["--loops", "1"], "weir.toml");
    self::supervisor(served.child.id());
    assert!(own.is_dir(), "that of a living one stays");
    assert!(answer(asked(living.port, "/kept/kept.pl")).contains("kept"));
    let of_served = sockets(served.child.id()).expect("a directory of sockets");
    living.end();
    assert!(!own.exists() && of_served.is_dir());
}

#[test]
fn nothing_stays_of_a_web_server_with_scripts_and_a_lost_supervisor_is_told() {
    let folder = folder();
    let mut served = Served::start(folder.path(), &["--loops", "1"], "weir.toml");
    let (of_scripts, _) = supervisor(served.child.id());
    let own = sockets(served.child.id()).expect("a directory of sockets");
    let stuck = || {
        let mut stream = TcpStream::connect(("127.0.0.1", served.port)).expect("connects");
        stream.write_all(b"GET /cgi-bin/stuck.sh HTTP/1.1\r\nHost: a\r\n\r\n").expect("asks");
        stream
    };
    let _stuck = stuck();
    wait_for(|| (running(folder.path()) == 1).then_some(()));
    served.signal(libc::SIGKILL);
    served.child.wait().expect("it ends");
    wait_for(|| (running(folder.path()) == 0 && !runs(of_scripts) && !own.exists()).then_some(()));
    let mut served = Served::start(folder.path(), &["--loops", "1"], "weir.toml");
    let (of_scripts, runners) = supervisor(served.child.id());
    let own = sockets(served.child.id()).expect("a directory of sockets");
    // Its socket listens before its scripts are ready; a supervisor that is lost until then ends the start.
    let mut stream = TcpStream::connect(("127.0.0.1", served.port)).expect("connects");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("asks");
    stream.read_to_end(&mut Vec::new()).expect("is answered");
    kill(of_scripts, libc::SIGKILL);
    served.says("the process that runs scripts has ended");
    wait_for(|| runners.iter().all(|&runner| !runs(runner)).then_some(()));
    served.signal(libc::SIGTERM);
    assert!(served.child.wait().expect("it ends").success());
    // A confined server may not remove it; the next one does.
    let _next = Served::start(folder.path(), &["--loops", "1"], "weir.toml");
    wait_for(|| (!own.exists()).then_some(()));
}

#[test]
fn a_script_server_ends_with_the_process_that_runs_scripts() {
    let folder = folder();
    let mut server = ScriptServer::start(folder.path(), "", KEPT);
    let (supervisor, runners) = supervisor(server.child.id());
    kill(supervisor, libc::SIGKILL);
    server.says("the process that runs scripts has ended");
    assert_eq!(server.child.wait().expect("it ends").code(), Some(1));
    wait_for(|| runners.iter().all(|&runner| !runs(runner)).then_some(()));
}

/// It is killed with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_log_without_room_is_no_reason_to_end() {
    let folder = folder();
    let port = free_port();
    let scripts = "[[scripts]]\nprefix = \"/cgi-bin/\"\nroot = \"bin\"\ncgi = { workers = 1 }\n";
    fs::write(folder.path().join("s.toml"), format!("listen = \"127.0.0.1:{port}\"\n{scripts}")).expect("writes");
    let full = fs::File::options().write(true).open("/dev/full").expect("each write says that no room is left");
    let mut server = weir();
    server.args(["script-server", "s.toml"]).current_dir(folder.path()).stdout(Stdio::null()).stderr(full);
    let mut server = Killed(server.spawn().expect("it starts"));
    wait_for(|| TcpStream::connect(("127.0.0.1", port)).ok());
    for _ in 0..3 {
        // This one leads to a line of the log.
        assert!(answer(asked(port, "/cgi-bin/none.sh")).contains("Status: 404"));
        assert!(answer(asked(port, "/cgi-bin/hello.sh")).contains("hello"));
    }
    kill(server.0.id(), libc::SIGTERM);
    assert!(server.0.wait().expect("it ends").success());
}

/// What a command says that has a `/run` of its own with so little room.
fn with_little_room(folder: &Path, room: &str, command: &str) -> (Option<i32>, String) {
    let script = format!("mount -t tmpfs -o {room} none /run && exec \"$@\"");
    let output = Command::new("timeout")
        .args(["20", "unshare", "-m", "sh", "-c", &script, "sh", env!("CARGO_BIN_EXE_weir"), command])
        .arg(if command == "serve" { "weir.toml" } else { "s.toml" })
        .current_dir(folder)
        .output()
        .expect("it runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_full_disk_for_sockets_and_engines_is_told_with_the_remedy() {
    // SAFETY: the call takes nothing.
    let is_root = unsafe { libc::geteuid() } == 0;
    let can_mount = is_root && Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|done| done.success());
    let Some(()) = require::or_skip(can_mount, "needs root and the right to mount (CAP_SYS_ADMIN)") else { return };
    let folder = folder();
    let scripts = "[[scripts]]\nprefix = \"/kept/\"\nroot = \"bin\"\nrte = { workers = 1 }\n";
    fs::write(folder.path().join("s.toml"), format!("listen = \"127.0.0.1:0\"\n{scripts}")).expect("writes");
    let listen = "listen = [\"127.0.0.1:0\"]\n";
    let text = fs::read_to_string(folder.path().join("weir.toml")).expect("it is there");
    fs::write(folder.path().join("weir.toml"), format!("{listen}{text}")).expect("writes");
    for command in ["serve", "script-server"] {
        // A page is too little for the engines; two more names are too few for a socket and them.
        for (room, words) in [
            ("size=4k", "cannot be written into /run/weir-scripts-"),
            ("nr_inodes=1", "cannot keep sockets in /run/weir-scripts-"),
        ] {
            let (code, told) = with_little_room(folder.path(), room, command);
            assert!(code == Some(1) && told.contains(words), "{command} {room}: {code:?} {told}");
            assert!(told.contains("No space left") && told.contains("TMPDIR"), "{command} {room}: {told}");
            assert!(!told.contains("panicked"), "{told}");
        }
    }
    wait_for(|| (running(folder.path()) == 0).then_some(()));
}
