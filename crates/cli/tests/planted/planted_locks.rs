//! Locks that another process holds, planted behind Debian's Apache: the lock is named first, and who held it.

use crate::support;

use std::path::Path;
use support::planted::{Beside, explained, names_first, undisturbed};
use weir_testkit::{Apache, Cgi, Site, require};

/// Holds a lock 20 of each 25 ms: a request waits for 8 ms on average (20 x 20 / 2 / 25).
const HOLDER: &str = "#!/usr/bin/python3
import fcntl, sys, time
file = open(sys.argv[1], 'r+')
lock = {'flock': fcntl.flock, 'fcntl': fcntl.lockf}[sys.argv[2]]
for _ in range(4000):
    lock(file, fcntl.LOCK_EX)
    time.sleep(0.020)
    lock(file, fcntl.LOCK_UN)
    time.sleep(0.005)
";

/// Takes the lock for as long as it takes to let go of it.
const CGI: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
int main(void) {
    int file = open(LOCK, O_RDWR);
    struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    int failed = file < 0 || (FCNTL ? fcntl(file, F_SETLKW, &all) : flock(file, LOCK_EX));
    printf("Status: %d\r\nContent-Type: text/plain\r\n\r\ndone\n", failed ? 500 : 200);
    fflush(stdout);
    return failed;
}
"#;

fn ready() -> Option<()> {
    require::root_and_bpf()?;
    require::apache_module("cgi")?;
    require::program("python3")?;
    require::program("cc")
}

fn lock_behind_a_cgi(kind: &str) {
    let site = Site::empty().expect("a site");
    let lock = site.path().join("the.lock");
    site.write("the.lock", b"").expect("a lock file");
    open_to_all(&lock);
    site.write_program("lock-hoarder", HOLDER.as_bytes()).expect("the holder");
    let defines = [format!("-DLOCK=\"{}\"", lock.display()), format!("-DFCNTL={}", u8::from(kind == "fcntl"))];
    site.compile("page.cgi", CGI, &defines).expect("the CGI program is compiled");
    let server = Apache::prefork().workers(4).root(site.path()).cgi(Cgi::Direct).start().expect("Apache starts");
    let _holder = Beside::start(&site.path().join("lock-hoarder"), &[lock.to_str().expect("a readable path"), kind]);
    let port = server.port.to_string();
    // Without keep-alive: a worker that finds its CGI program not yet ended sleeps before it takes the next request of
    // its connection, which is another fault than this one.
    let options = ["--port", &port, "--watch", "locks", "-c", "1", "-d", "2s", "--no-keepalive"];
    let report = explained(&server.url("/page.cgi"), &options);
    names_first(&report, "wait_lock", "lock-hoarder");
}

#[test]
fn a_file_lock_behind_a_cgi() {
    let _turn = undisturbed();
    if ready().is_some() {
        lock_behind_a_cgi("flock");
    }
}

#[test]
fn a_record_lock_behind_a_cgi() {
    let _turn = undisturbed();
    if ready().is_some() {
        lock_behind_a_cgi("fcntl");
    }
}

fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).expect("the file is ours");
}
