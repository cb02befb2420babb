//! The lock by which Apache's processes take turns at accepting, held by another process.

use crate::support;

use support::planted::{Beside, explained, names_first, undisturbed};
use weir_testkit::{Apache, Site, require};

/// Holds the lock 20 of each 25 ms.
const HOLDER: &str = "#!/usr/bin/python3
import fcntl, sys, time
file = open(sys.argv[1], 'r+')
for _ in range(4000):
    fcntl.flock(file, fcntl.LOCK_EX)
    time.sleep(0.020)
    fcntl.flock(file, fcntl.LOCK_UN)
    time.sleep(0.005)
";

/// With two ports Apache's processes take turns at accepting, by a lock on a file; another process holds the same
/// file 20 of each 25 ms. Nothing of Apache's own takes long, so the wait for that lock is nearly all.
#[test]
fn the_lock_by_which_apache_accepts() {
    let _turn = undisturbed();
    if require::root_and_bpf().is_none() || require::apache().is_none() || require::program("python3").is_none() {
        return;
    }
    let locks = Site::empty().expect("a directory");
    let mutex = format!("Mutex flock:{} mpm-accept", locks.path().display());
    let server = Apache::prefork().workers(8).more_ports(1).directive(&mutex).start().expect("Apache starts");
    let file = std::fs::read_dir(locks.path()).expect("the directory of locks").next().expect("a lock file");
    let file = file.expect("a lock file").path();
    locks.write_program("lock-hoarder", HOLDER.as_bytes()).expect("the holder");
    let _holder = Beside::start(&locks.path().join("lock-hoarder"), &[file.to_str().expect("a readable path")]);
    let port = server.port.to_string();
    let options = ["--port", &port, "--watch", "locks", "-c", "4", "-d", "2s", "--no-keepalive"];
    names_first(&explained(&server.url("/1k.txt"), &options), "wait_lock", "lock-hoarder");
}
