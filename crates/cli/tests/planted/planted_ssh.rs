//! Two hosts recorded at once by ssh, with the sshd that Debian has: one beginning, one end, the runs fetched, explained
//! and shown together; a host that cannot be reached is named, and the others go on.

use super::planted_hosts::{STORE, Stand, WEB, explained, listens, stand};
use crate::support;

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use support::planted::{Beside, first, said};
use support::{alone, number, weir};
use weir_testkit::namespace::Namespace;
use weir_testkit::require;

const PORT: u16 = 7022;

/// sshd wants the whole path of itself.
fn sshd() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    places.map(|place| place.join("sshd")).find(|path| path.is_file())
}

/// Whether there is an sshd and the user that it becomes; a test is skipped without.
fn required() -> Option<PathBuf> {
    require::program("ssh")?;
    let found = sshd();
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    if found.is_none() || !users.lines().any(|line| line.starts_with("sshd:")) {
        require::program("sshd")?;
        eprintln!("skipped: there is no user sshd (openssh-server makes it)");
        return None;
    }
    found
}

fn ran(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).status().expect("it starts");
    assert!(status.success(), "{program} {arguments:?}");
}

/// The keys and configurations of both sides, in a folder.
fn configured(folder: &Path) {
    for name in ["host", "user"] {
        let file = folder.join(name);
        ran("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", file.to_str().expect("a readable path")]);
    }
    let at = folder.display();
    let client = format!(
        "Host web\n HostName {WEB}\nHost store\n HostName {STORE}\nHost gone\n HostName {WEB}\n Port 9\n\
         Host *\n Port {PORT}\n User root\n IdentityFile {at}/user\n IdentitiesOnly yes\n\
         UserKnownHostsFile {at}/known\n GlobalKnownHostsFile /dev/null\n StrictHostKeyChecking accept-new\n"
    );
    fs::write(folder.join("client.conf"), client).expect("written");
    fs::copy(folder.join("user.pub"), folder.join("authorized")).expect("copied");
    fs::create_dir(folder.join("there")).expect("made");
    // Two hosts that share a kernel see each other's processes: of the ports each records its own.
    let script = format!(
        "#!/bin/sh\n\
         echo 'a word of the shell'\n\
         case $SSH_CONNECTION in *' {STORE} '*) other=8300;; *) other=7300;; esac\n\
         for word; do shift; [ \"$word\" = --port=$other ] || set -- \"$@\" \"$word\"; done\n\
         TMPDIR={at}/there exec {} \"$@\"\n",
        weir().get_program().display()
    );
    let path = folder.join("weir there");
    fs::write(&path, script).expect("written");
    ran("chmod", &["755", path.to_str().expect("a readable path")]);
}

/// An sshd on a host, with the keys of the folder.
fn serving(sshd: &Path, folder: &Path, host: &Namespace, address: &str) -> Beside {
    let at = folder.display();
    let configuration = format!(
        "Port {PORT}\nListenAddress {address}\nHostKey {at}/host\nAuthorizedKeysFile {at}/authorized\n\
         PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\nStrictModes no\n\
         UsePAM no\nPidFile none\n"
    );
    let file = folder.join(format!("{address}.conf"));
    fs::write(&file, configuration).expect("written");
    // In a view of mounts of its own: the folder that it wants is made by a service that may not run here.
    let script = "mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec \"$0\" -D -e -f \"$1\"";
    let mut command = Command::new("ip");
    command.args(["netns", "exec", host.name(), "sh", "-c", script]).arg(sshd).arg(&file);
    let served = Beside::spawn({
        command.stderr(Stdio::null());
        command
    });
    listens(host, address, PORT);
    served
}

/// `weir record` on both hosts and one that is not there, begun, and what it has said until then.
fn recording(stand: &Stand, folder: &Path, run: &Path) -> (Child, Vec<String>, impl Iterator<Item = String> + use<>) {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", stand.web.name()]).arg(weir().get_program());
    command.args(["record", "--host", "web", "--host", "gone", "--host", "store", "--keep-addresses"]);
    // On neither host does anything listen on the last port.
    command.args(["--port", "8300", "--port", "7300", "--port", "1"]);
    command.arg("--remote-weir").arg(folder.join("weir there")).arg("--ssh-config").arg(folder.join("client.conf"));
    let mut child = command.arg("--run").arg(run).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let mut told = Vec::new();
    while let Some(line) = lines.next() {
        let begun = line == "recording on 2 of 3 hosts";
        told.push(line);
        if begun {
            return (child, told, lines);
        }
    }
    let ended = child.wait();
    panic!("no recording begins: {told:#?}, {ended:?}");
}

/// What a viewer answers to a path below its page's.
fn got(address: &str, path: &str) -> String {
    let (authority, below) = address.trim_start_matches("http://").split_once('/').expect("a path");
    let mut stream = TcpStream::connect(authority).expect("it listens");
    write!(stream, "GET /{below}{path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n").expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
}

/// The viewer has the lanes of both hosts on one clock, and says how well that is known.
fn shown(run: &Path) {
    let mut child = weir().arg("view").arg(run).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    let address = line.split_whitespace().find(|word| word.starts_with("http://")).expect("an address");
    let (page, whole) = (got(address, ""), got(address, "whole.json"));
    let _gone = child.kill();
    let _ended = child.wait();
    assert!(line.starts_with("web, store (clock known to within ") && page.contains("[&quot;web&quot;,"), "{line}");
    let whole: Value = serde_json::from_str(&whole).expect("JSON");
    let tasks = whole["tasks"].as_array().expect("tasks");
    let ran = |name: &str| {
        let one = tasks.iter().find(|one| one["name"].as_str().is_some_and(|own| own == name));
        one.and_then(|one| one["run_ns"].as_u64()).unwrap_or_default()
    };
    assert!(ran("web-server on web") > 0 && ran("store-server on store") > 0, "{tasks:#?}");
    let cpus: Vec<u64> = whole["cpus"].as_array().expect("CPUs").iter().filter_map(Value::as_u64).collect();
    assert!(cpus.iter().any(|cpu| *cpu < 1024) && cpus.iter().any(|cpu| *cpu >= 1024), "{cpus:?}");
    let left = fs::read_dir(run.join("web/derived")).into_iter().flatten().flatten();
    assert!(left.count() <= 1, "what the viewer was killed over is one folder, to be removed by the next one");
}

#[test]
fn hosts_are_recorded_together() {
    let _turn = alone();
    let Some(sshd) = required() else { return };
    let Some(stand) = stand() else { return };
    let folder = tempfile::tempdir().expect("a temporary directory");
    configured(folder.path());
    let _served =
        [(&stand.web, WEB), (&stand.store, STORE)].map(|(host, address)| serving(&sshd, folder.path(), host, address));
    let run = folder.path().join("run");
    let (mut child, mut told, lines) = recording(&stand, folder.path(), &run);
    stand.load(&folder.path().join("load"), &format!("http://{WEB}:8300/"));
    // SAFETY: a signal to a child of ours, which is not yet waited for.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGINT) };
    told.extend(lines);
    let status = child.wait().expect("it ends");
    let told = told.join("\n");
    assert_eq!(status.code(), Some(1), "one host was not reached: {told}");
    assert!(told.contains("gone: not recorded: ") && told.contains("refused"), "{told}");
    assert!(told.contains("web: not on this host: ") && told.contains("recorded 2 of 3 hosts"), "{told}");
    assert_eq!(fs::read_dir(folder.path().join("there")).expect("a folder").count(), 0, "a run is left there: {told}");
    let kept: Vec<_> = fs::read_dir(&run).expect("runs").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(kept.len(), 3, "two runs and the list of them: {kept:?}");
    let report = explained(&[&run]);
    assert!(number(&report, "/requests") > 10.0 && number(&report, "/joined_fraction") > 0.99, "{}", said(&report));
    assert_eq!(first(&report), ("wait_timer", "store-server on store"), "{}", said(&report));
    assert_eq!(report["hosts"].as_array().map(Vec::len), Some(2));
    shown(&run);
}
