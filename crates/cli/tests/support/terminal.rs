//! A command at a terminal of its own (pty(7)).

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A terminal, and what was written to it.
pub(crate) struct Terminal {
    ours: File,
    theirs: OwnedFd,
    seen: Vec<u8>,
}

impl Terminal {
    /// One of so many columns and rows.
    pub(crate) fn new(columns: u16, rows: u16) -> Self {
        let (mut ours, mut theirs) = (0, 0);
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the pointers are to two numbers and a size of ours; a name and modes are not asked for.
        let made = unsafe {
            libc::openpty(&raw mut ours, &raw mut theirs, std::ptr::null_mut(), std::ptr::null(), &raw const size)
        };
        assert_eq!(made, 0, "a pseudo-terminal can be made");
        // SAFETY: both descriptors were just made, and nothing else owns them.
        let (ours, theirs) = unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
        // SAFETY: the call takes numbers only.
        unsafe { libc::fcntl(ours.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        Self { ours, theirs, seen: Vec::new() }
    }

    /// Starts a command at it.
    pub(crate) fn start(&self, mut command: Command) -> Child {
        let stdio = || Stdio::from(self.theirs.try_clone().expect("a descriptor"));
        command.stdin(stdio()).stdout(stdio()).stderr(stdio());
        // SAFETY: between fork and exec it calls setsid and ioctl only, which are safe there (signal-safety(7)).
        unsafe {
            command.pre_exec(|| {
                // The terminal is its own, so that keys go to it.
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        command.spawn().expect("it starts")
    }

    /// What was written so far.
    pub(crate) fn seen(&mut self) -> String {
        // Ends with an error: there is no more now.
        let _ = self.ours.read_to_end(&mut self.seen);
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    /// Waits until what was written from a byte on fits; where it ends.
    pub(crate) fn wait_for(&mut self, from: usize, fits: impl Fn(&str) -> bool) -> usize {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let seen = self.seen();
            if seen.get(from..).is_some_and(&fits) {
                return seen.len();
            }
            assert!(Instant::now() < deadline, "{seen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &[u8]) {
        self.ours.write_all(keys).expect("the keys are taken");
    }

    /// Its modes (termios(3)).
    pub(crate) fn modes(&self) -> [u32; 4] {
        // SAFETY: the structure is plain numbers, of which any are valid, and the call fills it.
        let modes = unsafe {
            let mut modes: libc::termios = std::mem::zeroed();
            assert_eq!(libc::tcgetattr(self.theirs.as_raw_fd(), &raw mut modes), 0);
            modes
        };
        [modes.c_iflag, modes.c_oflag, modes.c_cflag, modes.c_lflag]
    }
}
