//! `WEIR_LOG` shows people who debug what a server does, also once it is confined; without it nothing is shown.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use weir_testkit::client::Connection;

/// A server with a configuration at a free port, with this filter, and where it serves.
fn start(folder: &Path, filter: Option<&str>) -> (Child, String) {
    fs::create_dir_all(folder.join("site")).expect("creates");
    fs::write(folder.join("site/a.txt"), "a").expect("writes");
    fs::write(folder.join("weir.toml"), "[[host]]\nroot = \"site\"\n").expect("writes");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["serve", "--listen", "127.0.0.1:0", "weir.toml"]).current_dir(folder).env_remove("WEIR_LOG");
    command.envs(filter.map(|filter| ("WEIR_LOG", filter)));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut greeting = String::new();
    BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut greeting).expect("it says where it serves");
    let place =
        greeting.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect("an address").to_owned();
    (child, place)
}

fn signal(child: &Child, signal: i32) {
    // SAFETY: the call takes no pointers.
    assert_eq!(unsafe { libc::kill(child.id().cast_signed(), signal) }, 0);
}

#[test]
fn a_server_tells_what_it_does_also_when_it_is_confined() {
    let folder = tempfile::tempdir().expect("a directory");
    let (mut child, place) = start(folder.path(), Some("debug"));
    let port = place.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let mut said = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let mut before = Vec::new();
    let mut until = |words: &str| {
        loop {
            let line = said.next().unwrap_or_else(|| panic!("no word of {words}: {before:#?}"));
            before.push(line.clone());
            if line.contains(words) {
                return line;
            }
        }
    };
    let line = until("begins");
    assert!(line.contains("INFO weir::developer_log") && line.contains("command=\"serve\""), "{line}");
    assert!(line.contains("arguments=\"root listen\"") || line.contains("arguments=\"listen root\""), "{line}");
    assert!(until("socket bound").contains(&format!("local=http://{place}/")));
    until("confines itself to these paths");
    // Loops answer only after the confinement holds.
    assert_eq!(Connection::open(port).expect("connects").get("/a.txt").expect("an answer").status, 200);
    signal(&child, libc::SIGHUP);
    until("configuration handed to the loops");
    signal(&child, libc::SIGTERM);
    assert!(child.wait().expect("it ends").success());
    before.extend(said);
    // What the filter of system calls refuses, the server reports itself.
    assert!(!before.iter().any(|line| line.contains("system call") && line.contains("refused")), "{before:#?}");
    // A request leaves no event.
    assert!(!before.iter().any(|line| line.contains("a.txt")), "{before:#?}");
}

#[test]
fn without_a_filter_nothing_is_told() {
    for filter in [None, Some("")] {
        let folder = tempfile::tempdir().expect("a directory");
        let (mut child, _) = start(folder.path(), filter);
        signal(&child, libc::SIGTERM);
        let mut said = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
        assert!(child.wait().expect("it ends").success());
        let of_events = |line: &str| [" INFO ", " DEBUG ", " TRACE "].iter().any(|level| line.contains(level));
        assert!(!said.lines().any(of_events), "{said}");
    }
}

#[test]
fn a_filter_that_cannot_be_understood_is_refused_with_the_remedy() {
    for (filter, named) in [("debgu", "`debgu` is no level"), ("weir_serve=debug", "no part is called `weir_serve`")] {
        let output = Command::new(env!("CARGO_BIN_EXE_weir")).arg("check").env("WEIR_LOG", filter).output();
        let output = output.expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.starts_with("weir: WEIR_LOG: ") && said.contains(named), "{said}");
        assert!(said.contains("WEIR_LOG=info,weir_server=debug"), "{said}");
    }
}
