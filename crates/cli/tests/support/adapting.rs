//! A server with a policy, for tests: its folder, what it shows at its address, its end.

use super::output;
use super::planted::wait_for;
use super::served::Served;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use weir_testkit::client::Connection;

/// Serves `what`, of the folder, with a tick each 50 ms.
pub(crate) fn serve(folder: &Path, args: &[&str], what: &str) -> Served {
    let usual = ["--tick", "50ms", "--admin", "unix:admin.sock"];
    Served::start(folder, &[&usual, args].concat(), what)
}

/// Ends it and waits for it; its persister ends with it.
pub(crate) fn end(mut served: Served) {
    served.signal(libc::SIGTERM);
    assert!(served.child.wait().expect("it ends").success());
}

/// The statuses of as many requests over one connection.
pub(crate) fn statuses(port: u16, path: &str, count: usize) -> Vec<u16> {
    let mut connection = Connection::open(port).expect("connects");
    (0..count).map(|_| connection.get(path).expect("an answer").status).collect()
}

/// A folder with a site and a policy.
pub(crate) fn folder(policy: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a directory");
    fs::create_dir_all(folder.path().join("site/news")).expect("creates");
    fs::create_dir_all(folder.path().join("site/v")).expect("creates");
    for (name, text) in [("news/a.html", "news"), ("other.txt", "other"), ("v/film.mp4", "the whole film")] {
        fs::write(folder.path().join("site").join(name), text).expect("writes");
    }
    fs::write(folder.path().join("site/v/film.small.mp4"), "film").expect("writes");
    fs::write(folder.path().join("flood.policy"), policy).expect("writes");
    let path = folder.path().to_owned();
    (folder, path)
}

/// What the server shows at its address, once something is so.
pub(crate) fn environment(folder: &Path, is_so: impl Fn(&Value) -> bool) -> Value {
    let admin = format!("unix:{}", folder.join("admin.sock").display());
    wait_for(|| {
        let shown = output(&["env", "--json", &admin]);
        let shown: Option<Value> = serde_json::from_slice(&shown.stdout).ok();
        shown.filter(|shown| is_so(shown))
    })
}

/// The counts that it tells.
pub(crate) fn metrics(folder: &Path) -> String {
    let mut stream = UnixStream::connect(folder.join("admin.sock")).expect("connects");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("writes");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("reads");
    text
}
