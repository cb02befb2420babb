//! Network namespaces, for tests whose clients and servers have networks of their own. As root, with iproute2.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A network namespace, in which the loopback device is up; it ends with the value, and its devices with it.
#[derive(Debug)]
pub struct Namespace(String);

impl Namespace {
    /// Makes one whose name has this in it, the number of the process, and one of its own.
    ///
    /// # Panics
    ///
    /// Without root or iproute2.
    pub fn new(name: &str) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-{name}-{}-{number}", std::process::id());
        // One that cannot be made is another's, and is not to be removed.
        ip(&["netns", "add", &name]);
        let own = Self(name);
        ip(&["-n", &own.0, "link", "set", "lo", "up"]);
        own
    }

    /// Its name, for `ip -n` and `tc -n`.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Does something in a thread of the namespace; threads and sockets that it makes belong there.
    ///
    /// # Panics
    ///
    /// Where what is done does, and without the right to enter the namespace.
    pub fn within<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let file = File::open(format!("/run/netns/{}", self.0)).expect("the namespace");
                // SAFETY: the call takes numbers only, and changes the calling thread alone.
                assert_eq!(unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) }, 0, "enters the namespace");
                work()
            });
            thread.join().expect("no panic")
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // What cannot be removed was never made.
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

/// Runs `ip`.
///
/// # Panics
///
/// Where it is not there or fails.
pub fn ip(arguments: &[&str]) {
    run("ip", arguments);
}

/// Runs `tc`, to limit what a device sends.
///
/// # Panics
///
/// Where it is not there or fails.
pub fn tc(arguments: &[&str]) {
    run("tc", arguments);
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().expect("iproute2 is there");
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}
