//! The memory that the agent reads: made at the first registration, and again by each child that was forked.

use crate::page::own;
use crate::process::Process;
use crate::{announcement, clock, definitions, lock};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};
use weir_wire::arm::{
    DEFINITION_BYTES, DEFINITIONS_AT, HEAD_DEFINED_BYTES, HEAD_HEARTBEAT, HEAD_MADE_NS, HEAD_MAGIC, HEAD_PID,
    HEAD_TOKEN, LANE_BYTES, LANES_AT, MAGIC, MEMORY_BYTES,
};

const NAME: &std::ffi::CStr = c"weir-arm";
/// As of Linux 6.3: what is in the file can never be run.
const NEVER_RUN: libc::c_uint = 8;
/// A program that closes our descriptor again and again gets no more memories than this.
const MOST_GENERATIONS_OF_ONE: u64 = 8;

/// How many memories this process and its forebears have made. Survives forks, unlike the process's page.
static GENERATIONS: AtomicU64 = AtomicU64::new(0);
/// The last memory file and its inode; of the parent, in a child that has made none.
static LAST: (AtomicI32, AtomicU64) = (AtomicI32::new(-1), AtomicU64::new(0));
/// How often this process had to make its memory again.
static RENEWED: AtomicU64 = AtomicU64::new(0);

/// The head of the memory where a child has yet to make its own; null = there is none to be had.
#[cold]
#[inline(never)]
pub(crate) fn revived() -> *mut AtomicU64 {
    // Without a registration in this process or a forebear there is nothing to be recorded.
    if GENERATIONS.load(Ordering::Relaxed) == 0 {
        return ptr::null_mut();
    }
    match own() {
        Some(process) if process.refused.load(Ordering::Relaxed) == 0 => ensure(process),
        _ => ptr::null_mut(),
    }
}

/// The head of this process's memory, made if need be; null = none can be had now.
pub(crate) fn ensure(process: &Process) -> *mut AtomicU64 {
    let head = process.head.load(Ordering::Acquire);
    if !head.is_null() {
        return head;
    }
    let Some(_guard) = lock::lock(process) else { return ptr::null_mut() };
    let head = process.head.load(Ordering::Acquire);
    if head.is_null() { make(process) } else { head }
}

/// Looks after the memory now and then: it is made again where the program closed its descriptor or became another
/// user, and announced again where the announcement has gone.
pub(crate) fn look_after(process: &Process) {
    let now = clock::exact_ns();
    let last = process.announced_ns.load(Ordering::Relaxed);
    if now.wrapping_sub(last) < 1_000_000_000
        || process.announced_ns.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_err()
    {
        return;
    }
    let descriptor = process.descriptor.load(Ordering::Relaxed);
    // SAFETY: it only asks.
    let user = unsafe { libc::geteuid() };
    if is_ours(descriptor) && user == process.user.load(Ordering::Relaxed) {
        announcement::keep(descriptor);
    } else {
        renew(process);
    }
}

/// Whether a descriptor still is the memory file, and not what the program has opened since.
fn is_ours(descriptor: i32) -> bool {
    // SAFETY: plain numbers, for which zeros are valid.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the status is this function's own.
    descriptor == LAST.0.load(Ordering::Relaxed)
        && unsafe { libc::fstat(descriptor, &raw mut status) } == 0
        && status.st_ino == LAST.1.load(Ordering::Relaxed)
        && status.st_size == MEMORY_BYTES as libc::off_t
}

/// Makes another memory. Threads that still write into the old one do no harm: it stays mapped.
fn renew(process: &Process) {
    let Some(_guard) = lock::lock(process) else { return };
    if RENEWED.fetch_add(1, Ordering::Relaxed) >= MOST_GENERATIONS_OF_ONE {
        return;
    }
    process.head.store(ptr::null_mut(), Ordering::Release);
    process.generation.store(0, Ordering::Relaxed);
    for lane in &process.lanes {
        lane.store(ptr::null_mut(), Ordering::Relaxed);
    }
    make(process);
}

/// Makes the memory; the lock is held.
fn make(process: &Process) -> *mut AtomicU64 {
    if process.generation.load(Ordering::Relaxed) == 0 {
        // 1 to 255, and round again: no process still uses a handle of 255 forks ago.
        let generation = GENERATIONS.fetch_add(1, Ordering::Relaxed) % 255 + 1;
        process.token.store(random(), Ordering::Relaxed);
        process.generation.store(generation, Ordering::Release);
    }
    process.refused.store(1, Ordering::Relaxed);
    clock::find_out();
    let Some(descriptor) = file() else { return ptr::null_mut() };
    // SAFETY: a new mapping of our own file; its size is sealed, so no access can miss.
    let mapped = unsafe {
        libc::mmap(ptr::null_mut(), LANES_AT, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, descriptor, 0)
    };
    if mapped == libc::MAP_FAILED {
        // SAFETY: it was just opened here.
        unsafe { libc::close(descriptor) };
        return ptr::null_mut();
    }
    let head: *mut AtomicU64 = mapped.cast();
    let word = |index| Process::word(head, index);
    // SAFETY: they only ask.
    let (pid, user) = unsafe { (libc::getpid(), libc::geteuid()) };
    word(HEAD_PID).store(pid as u64, Ordering::Relaxed);
    word(HEAD_TOKEN).store(process.token.load(Ordering::Relaxed), Ordering::Relaxed);
    word(HEAD_MADE_NS).store(clock::exact_ns(), Ordering::Relaxed);
    process.descriptor.store(descriptor, Ordering::Relaxed);
    process.user.store(user, Ordering::Relaxed);
    append(head, 0, definitions::whole().iter().map(|word| word.load(Ordering::Relaxed)));
    word(HEAD_MAGIC).store(MAGIC, Ordering::Release);
    announcement::make(descriptor);
    if announcement::hand_over(descriptor) {
        // Where it has come meanwhile, its own word stands.
        let _ = word(HEAD_HEARTBEAT).compare_exchange(0, clock::exact_ns(), Ordering::Relaxed, Ordering::Relaxed);
    }
    process.announced_ns.store(clock::exact_ns(), Ordering::Relaxed);
    process.refused.store(0, Ordering::Relaxed);
    process.head.store(head, Ordering::Release);
    head
}

/// A new memory file, sealed against cutting and growing.
fn file() -> Option<i32> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // Beyond this limit `ftruncate` would send SIGXFSZ, which ends the program.
    // SAFETY: the limit is this function's own.
    let asked = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
    if !asked || limit.rlim_cur < MEMORY_BYTES as u64 {
        return None;
    }
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a constant with its NUL.
    let made = unsafe { libc::memfd_create(NAME.as_ptr(), flags | NEVER_RUN) };
    // SAFETY: likewise; older kernels do not know the last flag.
    let descriptor = if made >= 0 { made } else { unsafe { libc::memfd_create(NAME.as_ptr(), flags) } };
    if descriptor < 0 {
        return None;
    }
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: plain numbers, for which zeros are valid.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: calls on our own new file.
    let whole = unsafe {
        libc::ftruncate(descriptor, MEMORY_BYTES as libc::off_t) == 0
            && libc::fcntl(descriptor, libc::F_ADD_SEALS, seals) == 0
            && libc::fstat(descriptor, &raw mut status) == 0
    };
    // A child lets go of its parent's file, unless the number means something else by now.
    let former = LAST.0.load(Ordering::Relaxed);
    if is_ours(former) {
        // SAFETY: it is our parent's memory file, or our own former one, of which only mappings are used.
        unsafe { libc::close(former) };
    }
    if !whole {
        LAST.0.store(-1, Ordering::Relaxed);
        // SAFETY: it was just opened here.
        unsafe { libc::close(descriptor) };
        return None;
    }
    LAST.0.store(descriptor, Ordering::Relaxed);
    LAST.1.store(status.st_ino, Ordering::Relaxed);
    Some(descriptor)
}

/// Where a lane lies, mapped if it is not; the caller has the lane. Null = it cannot be mapped.
pub(crate) fn lane(process: &Process, lane: u32) -> *mut AtomicU64 {
    let place: &AtomicPtr<AtomicU64> = &process.lanes[lane as usize];
    let found = place.load(Ordering::Acquire);
    if !found.is_null() {
        return found;
    }
    let descriptor = process.descriptor.load(Ordering::Relaxed);
    if !is_ours(descriptor) {
        return ptr::null_mut();
    }
    let at = LANES_AT + lane as usize * LANE_BYTES;
    // SAFETY: a new mapping within our own file, whose size is sealed.
    let mapped = unsafe {
        libc::mmap(
            ptr::null_mut(),
            LANE_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            descriptor,
            at as libc::off_t,
        )
    };
    if mapped == libc::MAP_FAILED {
        return ptr::null_mut();
    }
    place.store(mapped.cast(), Ordering::Release);
    mapped.cast()
}

/// Puts words of definitions where the agent reads them, and then tells how much is whole. `at` counts words.
pub(crate) fn append(head: *mut AtomicU64, at: usize, words: impl Iterator<Item = u64>) {
    let mut end = at;
    for word in words.take((DEFINITION_BYTES / 8).saturating_sub(at)) {
        Process::word(head, DEFINITIONS_AT / 8 + end).store(word, Ordering::Relaxed);
        end += 1;
    }
    Process::word(head, HEAD_DEFINED_BYTES).store(8 * end as u64, Ordering::Release);
}

/// A number that no other process has; not 0.
fn random() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: it fills at most these bytes, and does not wait.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_NONBLOCK) };
    // SAFETY: it only asks.
    let pid = unsafe { libc::getpid() } as u64;
    let spare = if got == bytes.len() as isize { 0 } else { clock::exact_ns().rotate_left(24) ^ pid };
    (u64::from_ne_bytes(bytes) ^ spare).max(1)
}
