//! The empty file by which the agent finds a process: `PID-DESCRIPTOR` in the directory for ARM.
//!
//! It carries nothing, so it may be cut, removed or made unreadable, and its disk may be full.

use crate::handover;
use crate::process::{PATH_BYTES, Process, process};
use std::ffi::{CStr, c_char};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_wire::arm::HEAD_HEARTBEAT;

unsafe extern "C" {
    /// As `getenv`, but for programs that run with more rights than their caller has it finds nothing.
    fn secure_getenv(name: *const c_char) -> *const c_char;
}

const VARIABLE: &CStr = c"WEIR_ARM_DIR";
const SYSTEM: &CStr = c"/run/weir/arm";
const SPARE: &CStr = c"/dev/shm/weir-arm";

/// A path on the stack: a child of a fork must not need memory, as another thread may have held the allocator's lock.
struct Path {
    bytes: [u8; PATH_BYTES],
    used: usize,
    is_whole: bool,
}

impl Path {
    fn new(folder: &CStr) -> Self {
        let mut path = Self { bytes: [0; PATH_BYTES], used: 0, is_whole: true };
        path.add(folder.to_bytes());
        path
    }

    fn add(&mut self, bytes: &[u8]) {
        // The last byte stays NUL.
        match self.bytes[..PATH_BYTES - 1].get_mut(self.used..self.used + bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.used += bytes.len();
            }
            None => self.is_whole = false,
        }
    }
}

impl Write for Path {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.add(text.as_bytes());
        Ok(())
    }
}

/// The directory for ARM.
fn folder() -> Path {
    // SAFETY: constant names; the variable's value stays as long as the program does not change it, and is copied here.
    unsafe {
        let chosen = secure_getenv(VARIABLE.as_ptr());
        if chosen.is_null() {
            Path::new(if is_folder(SYSTEM) { SYSTEM } else { SPARE })
        } else {
            Path::new(CStr::from_ptr(chosen))
        }
    }
}

/// Hands the memory file to the agent, if one is there now, so that nothing is lost of what is told before it has found
/// the announcement; not even where the program is over by then.
pub(crate) fn hand_over(descriptor: i32) -> bool {
    let folder = folder();
    folder.is_whole && handover::hand_over(&folder.bytes[..folder.used], descriptor)
}

/// The announcement's path; `None` = the directory's name is too long.
fn path(descriptor: i32) -> Option<Path> {
    let mut path = folder();
    // SAFETY: it only asks.
    let pid = unsafe { libc::getpid() };
    let _ = write!(path, "/{pid}-{descriptor}");
    path.is_whole.then_some(path)
}

fn is_folder(name: &CStr) -> bool {
    // SAFETY: plain numbers, for which zeros are valid.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the status is this function's own.
    unsafe { libc::stat(name.as_ptr(), &raw mut status) == 0 && status.st_mode & libc::S_IFMT == libc::S_IFDIR }
}

/// Announces the memory file. If that fails, no agent listens until a later registration succeeds.
pub(crate) fn make(descriptor: i32) {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    let Some(path) = path(descriptor) else { return };
    if path.bytes.starts_with(SPARE.to_bytes()) {
        // SAFETY: constant names. The first process makes it for all users, with the mode of `/tmp`.
        unsafe {
            if libc::mkdir(SPARE.as_ptr(), 0o1777) == 0 {
                libc::chmod(SPARE.as_ptr(), 0o1777);
            }
        }
    }
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
    // An announcement that an earlier process of the same number has left is removed, so that the agent sees a new one.
    // SAFETY: the path ends with a NUL.
    unsafe {
        libc::unlink(path.bytes.as_ptr().cast());
        let made = libc::open(path.bytes.as_ptr().cast(), flags, 0o600);
        if made >= 0 {
            libc::close(made);
            for (place, byte) in process().announced.iter().zip(path.bytes) {
                place.store(byte, Ordering::Relaxed);
            }
        }
        if !IS_WATCHED.swap(true, Ordering::Relaxed) {
            libc::atexit(at_exit);
        }
    }
}

/// Announces it again where the announcement is gone.
pub(crate) fn keep(descriptor: i32) {
    let Some(path) = path(descriptor) else { return };
    // SAFETY: the path ends with a NUL.
    if unsafe { libc::access(path.bytes.as_ptr().cast(), libc::F_OK) } != 0 {
        make(descriptor);
    }
}

/// Where no agent removes the announcement, the program does, if it ends in order. By its name as it was then: programs
/// that show their state in the list of processes, such as PHP, have given their environment back by now.
extern "C" fn at_exit() {
    let process = process();
    let head = process.head.load(Ordering::Acquire);
    // A child that has no memory of its own has announced nothing.
    if head.is_null() || Process::word(head, HEAD_HEARTBEAT).load(Ordering::Relaxed) != 0 {
        return;
    }
    let mut path = [0; PATH_BYTES];
    for (byte, place) in path.iter_mut().zip(&process.announced) {
        *byte = place.load(Ordering::Relaxed);
    }
    if path[0] != 0 {
        // SAFETY: the path ends with a NUL, as it did where it was kept.
        unsafe { libc::unlink(path.as_ptr().cast()) };
    }
}
