//! Scripts that the server runs: each kind answers, a fault costs one request, and nothing is left at the end.

use super::support::planted::wait_for;
use super::support::served::Served;
use super::support::weir;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const CGI: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\necho \"cgi $PATH_INFO $QUERY_STRING $(cat)\"\n\
                   echo 'a word for the log' >&2\n[ \"$QUERY_STRING\" != leave ] || (setsid sleep 1000 >/dev/null 2>&1 </dev/null &)\n";
const PLUS: &str = "#!/bin/sh\ncount=0\nwhile read -r line <&3; do\n  die=\n  while read -r line <&3 && [ -n \"$line\" ]; do \
                    [ \"$line\" != QUERY_STRING=die ] || die=1; done\n  [ -z \"$die\" ] || kill -SEGV $$\n  count=$((count + 1))\n  \
                    printf 'Content-Type: text/plain\\n\\nplus %s' $count\n  echo \"$CGIPLUSEOF\"\ndone\n";
const OLD: &str =
    "#!/usr/bin/perl\nour $count; $count++;\nprint \"Content-Type: text/plain\\n\\nold $count $ENV{QUERY_STRING}\";\n";

/// A site with scripts of all kinds, which another user may run.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    let root = folder.path().join("www");
    for (name, content) in [
        ("cgi-bin/hello.sh", CGI),
        ("cgi-bin/nph-raw.sh", "#!/bin/sh\nprintf 'HTTP/1.1 203 Fine\\r\\nX-Own: 1\\r\\n\\r\\nraw'\n"),
        ("cgi-bin/stuck.sh", "#!/bin/sh\nsleep 1000\n"),
        ("plus/count.sh", PLUS),
        ("old/count.pl", OLD),
        ("a.txt", "file"),
    ] {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("creates");
        fs::write(&path, content).expect("writes");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("sets");
    }
    fs::create_dir(root.join("isapi")).expect("creates");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../native/isapi");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-o"])
        .arg(root.join("isapi/hello.so"))
        .arg("-I")
        .arg(&source)
        .arg(source.join("examples/hello.c"))
        .status()
        .expect("cc runs");
    assert!(built.success());
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("sets");
    configure(folder.path(), "slow = \"500 ms\"");
    folder
}

fn configure(folder: &Path, of_cgi: &str) {
    let text = format!(
        "[[host]]\nroot = \"www\"\n[[host.path]]\nprefix = \"/cgi-bin/\"\ncgi = {{ workers = 2, {of_cgi} }}\n\
         [[host.path]]\nprefix = \"/plus/\"\ncgiplus = {{ workers = 1 }}\n[[host.path]]\nprefix = \"/old/\"\nrte = {{ workers = 1 }}\n\
         [[host.path]]\nprefix = \"/isapi/\"\nisapi = {{ workers = 1 }}\n"
    );
    fs::write(folder.join("weir.toml"), text).expect("writes");
}

/// Status and body of an answer, whose end is that of the connection.
fn ask(served: &Served, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", served.port)).expect("connects");
    let length = body.len();
    let request = format!("{method} {path} HTTP/1.0\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).expect("asks");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("an answer");
    let status = reply.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, reply.split_once("\r\n\r\n").expect("a head").1.to_owned())
}

pub(super) fn get(served: &Served, path: &str) -> (u16, String) {
    ask(served, "GET", path, "")
}

/// Processes whose command line or environment names the folder: scripts, and what they have left.
fn left(folder: &Path) -> Vec<String> {
    let name = folder.to_string_lossy().into_owned();
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    let told = all
        .filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok_and(|pid| pid != std::process::id()));
    let texts = told.map(|entry| {
        let of =
            |file: &str| String::from_utf8_lossy(&fs::read(entry.path().join(file)).unwrap_or_default()).into_owned();
        format!("{} {}", of("cmdline"), of("environ"))
    });
    texts.filter(|text| text.contains(&name) && !text.contains("\0serve\0")).collect()
}

#[test]
fn scripts_of_each_kind_answer_until_the_server_ends() {
    let folder = folder();
    let mut served = Served::start(folder.path(), &["--loops", "1"], "weir.toml");
    assert_eq!(ask(&served, "POST", "/cgi-bin/hello.sh/a/b?q=1", "body"), (200, "cgi /a/b q=1 body\n".to_owned()));
    let told = served.says("a word for the log");
    assert!(told.contains("(request "), "{told}");
    assert_eq!(get(&served, "/cgi-bin/nph-raw.sh"), (203, "raw".to_owned()));
    for count in 1..=3 {
        assert_eq!(get(&served, "/plus/count.sh"), (200, format!("plus {count}")));
        assert_eq!(get(&served, "/old/count.pl?x"), (200, "old 1 x".to_owned()), "globals are put back");
        let (status, text) = get(&served, "/isapi/hello.so?name=weir");
        assert!(status == 200 && text.to_lowercase().contains("hello"), "{text}");
    }
    // A process that crashes costs one request, which is told with the script.
    assert_eq!(get(&served, "/plus/count.sh?die").0, 502);
    let told = served.says("was killed by SIGSEGV");
    assert!(told.contains("/www/plus/count.sh"), "{told}");
    assert_eq!(get(&served, "/plus/count.sh"), (200, "plus 1".to_owned()));
    // What forks away is ended with its script, and told.
    assert_eq!(get(&served, "/cgi-bin/hello.sh?leave").0, 200);
    served.says("left 1 processes behind");
    for path in ["/cgi-bin/", "/cgi-bin/none", "/plus/", "/old/none.pl"] {
        assert_eq!(get(&served, path).0, 404, "{path}");
    }
    assert_eq!(get(&served, "/a.txt"), (200, "file".to_owned()));
    served.signal(libc::SIGTERM);
    assert!(served.child.wait().expect("it ends").success());
    wait_for(|| left(folder.path()).is_empty().then_some(()));
}

#[test]
fn a_script_that_is_stuck_is_named_and_ends_with_a_server_that_is_killed() {
    let folder = folder();
    let mut served = Served::start(folder.path(), &["--loops", "1", "--admin", "unix:admin.sock"], "weir.toml");
    let mut stuck = TcpStream::connect(("127.0.0.1", served.port)).expect("connects");
    stuck.write_all(b"GET /cgi-bin/stuck.sh?a=b HTTP/1.1\r\nHost: a\r\n\r\n").expect("asks");
    let told = served.says("is stuck in");
    assert!(told.contains("/cgi-bin/stuck.sh for ") && told.contains("GET /cgi-bin/stuck.sh?a=b)"), "{told}");
    let mut admin = std::os::unix::net::UnixStream::connect(folder.path().join("admin.sock")).expect("connects");
    admin.write_all(b"GET /status.json HTTP/1.0\r\n\r\n").expect("asks");
    let mut status = String::new();
    admin.read_to_string(&mut status).expect("an answer");
    assert!(status.contains("\"scripts\":{") && status.contains("stuck.sh"), "{status}");
    // Others go on meanwhile, also by other settings.
    configure(folder.path(), "slow = \"0 s\"");
    served.signal(libc::SIGHUP);
    served.says("was read again and holds");
    assert_eq!(get(&served, "/cgi-bin/hello.sh").0, 200);
    served.signal(libc::SIGKILL);
    served.child.wait().expect("it ends");
    wait_for(|| left(folder.path()).is_empty().then_some(()));
}

#[test]
fn a_directory_has_scripts_below_cgi_bin() {
    let folder = folder();
    let served = Served::start(folder.path(), &["--cgi", "--loops", "1"], "www");
    assert_eq!(get(&served, "/cgi-bin/hello.sh?a"), (200, "cgi  a \n".to_owned()));
    assert_eq!(get(&served, "/plus/count.sh"), (200, PLUS.to_owned()));
    drop(served);
    fs::rename(folder.path().join("www/cgi-bin"), folder.path().join("cgi")).expect("renames");
    let output = weir().args(["serve", "--cgi"]).arg(folder.path().join("www")).output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && told.contains("cgi-bin, which the directory does not have"), "{told}");
}
