//! The record of a server: memory that its successor maps as well, and a lock that says whether its process lives.

use super::message::{Found, Messages};
use crate::io::epoll::check;
use crate::telemetry::admin::former::FormerReading;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The name of the memory, by which a successor finds it among the descriptors of its predecessor.
const NAME: &std::ffi::CStr = c"weir-server-1";
/// The first word: another layout gets another one, and another name.
const MAGIC: u64 = 0x7765_6972_7375_6301;

/// How far a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It serves, or was asked to end without a successor.
    Serving,
    /// A successor serves; it keeps its tunnels.
    Followed,
    /// A successor wants it to end.
    Ending,
}

/// What is under way in a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Under {
    pub(crate) connections: u64,
    pub(crate) tunnels: u64,
    pub(crate) responses: u64,
}

#[repr(C)]
struct Layout {
    magic: AtomicU64,
    stage: AtomicU64,
    since_unix_ms: AtomicU64,
    /// When it was followed; 0 = it was not.
    followed_unix_ms: AtomicU64,
    tunnels_kept_ms: AtomicU64,
    stop_ms: AtomicU64,
    connections: AtomicU64,
    tunnels: AtomicU64,
    responses: AtomicU64,
    /// How often access logs were to be opened again.
    log_openings: AtomicU64,
    /// What caches are to forget: how many of the messages were carried out, and how many responses that were.
    purges_done: AtomicU64,
    purged: AtomicU64,
    purges: Messages,
}

/// The record of this process or of another one.
#[derive(Debug)]
pub(super) struct Record {
    /// It is open as long as the record is in use: closing it would give up the lock.
    file: OwnedFd,
    memory: NonNull<Layout>,
}

// SAFETY: the memory has atomics only, and is there until the record is dropped.
unsafe impl Send for Record {}
// SAFETY: as above.
unsafe impl Sync for Record {}

/// Whether a descriptor of another process, by the link that proc(5) has for it, is such a record.
pub(crate) fn is_record(link: &Path) -> bool {
    let name = link.to_string_lossy();
    name.strip_prefix("/memfd:").and_then(|rest| rest.strip_suffix(" (deleted)")) == NAME.to_str().ok()
}

fn now_unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, milliseconds)
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Record {
    /// That of this process, which holds its lock until it ends.
    ///
    /// # Errors
    ///
    /// What the system refuses.
    pub(super) fn create() -> io::Result<Self> {
        // SAFETY: the name is a text that ends with a zero, and the flags are those of the call.
        let fd = check(unsafe { libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) })?;
        // SAFETY: the descriptor is new and has no other owner.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        file.set_len(size_of::<Layout>() as u64)?;
        // No process that has it can cut it off under the other one.
        // SAFETY: the call takes no pointers.
        check(unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW) })?;
        let mut lock = whole_file();
        // SAFETY: the structure lives over the call, which reads it.
        check(unsafe { libc::fcntl(fd, libc::F_SETLK, &raw mut lock) })?;
        let record = Self { memory: map(&file)?, file: file.into() };
        record.layout().since_unix_ms.store(now_unix_ms(), Ordering::Relaxed);
        record.layout().magic.store(MAGIC, Ordering::Release);
        Ok(record)
    }

    /// That of another process.
    ///
    /// # Errors
    ///
    /// `InvalidData` if it is none of ours.
    pub(super) fn open(file: OwnedFd) -> io::Result<Self> {
        // SAFETY: the call takes no pointers.
        let seals = check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) })?;
        let file = File::from(file);
        let is_whole = file.metadata()?.len() == size_of::<Layout>() as u64;
        if seals & libc::F_SEAL_SHRINK == 0 || !is_whole {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let record = Self { memory: map(&file)?, file: file.into() };
        let is_ours = record.layout().magic.load(Ordering::Acquire) == MAGIC;
        if is_ours { Ok(record) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    fn layout(&self) -> &Layout {
        // SAFETY: the memory has the size of the layout, is mapped until the record is dropped, is aligned to a page, and
        // any bytes are values of its atomics.
        unsafe { self.memory.as_ref() }
    }

    /// The process that holds the lock, as this one numbers it; none if it has ended, or is this one.
    pub(super) fn pid(&self) -> Option<u32> {
        let mut lock = whole_file();
        // SAFETY: the structure lives over the call, which fills it.
        check(unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_GETLK, &raw mut lock) }).ok()?;
        let is_held = i32::from(lock.l_type) != libc::F_UNLCK;
        // 0 where it is in a namespace that this process cannot see into.
        is_held.then(|| u32::try_from(lock.l_pid).unwrap_or(0))
    }

    pub(super) fn since_unix_ms(&self) -> u64 {
        self.layout().since_unix_ms.load(Ordering::Relaxed)
    }

    pub(super) fn promise(&self, tunnels_kept: Duration, stop: Duration) {
        self.layout().tunnels_kept_ms.store(milliseconds(tunnels_kept), Ordering::Relaxed);
        self.layout().stop_ms.store(milliseconds(stop), Ordering::Relaxed);
    }

    pub(super) fn tunnels_kept(&self) -> Duration {
        Duration::from_millis(self.layout().tunnels_kept_ms.load(Ordering::Relaxed))
    }

    pub(super) fn stop_time(&self) -> Duration {
        Duration::from_millis(self.layout().stop_ms.load(Ordering::Relaxed))
    }

    pub(super) fn follow(&self) {
        self.layout().followed_unix_ms.store(now_unix_ms(), Ordering::Relaxed);
        let (from, to) = (Stage::Serving as u64, Stage::Followed as u64);
        let _ = self.layout().stage.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.layout().stage.store(Stage::Ending as u64, Ordering::Release);
    }

    pub(super) fn stage(&self) -> Stage {
        match self.layout().stage.load(Ordering::Acquire) {
            0 => Stage::Serving,
            1 => Stage::Followed,
            _ => Stage::Ending,
        }
    }

    pub(super) fn note(&self, under: Under) {
        self.layout().connections.store(under.connections, Ordering::Relaxed);
        self.layout().tunnels.store(under.tunnels, Ordering::Relaxed);
        self.layout().responses.store(under.responses, Ordering::Relaxed);
    }

    pub(super) fn open_log_again(&self) {
        self.layout().log_openings.fetch_add(1, Ordering::Release);
    }

    pub(super) fn log_openings(&self) -> u64 {
        self.layout().log_openings.load(Ordering::Acquire)
    }

    /// What it tells; none if its process has ended.
    pub(super) fn reading(&self) -> Option<FormerReading> {
        let (layout, pid) = (self.layout(), self.pid()?);
        let read = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let followed_unix_ms = read(&layout.followed_unix_ms);
        let kept_ms = if self.stage() == Stage::Ending { read(&layout.stop_ms) } else { read(&layout.tunnels_kept_ms) };
        Some(FormerReading {
            pid,
            started_unix_s: read(&layout.since_unix_ms) / 1000,
            followed_unix_s: followed_unix_ms / 1000,
            tunnels_until_unix_s: followed_unix_ms.saturating_add(kept_ms) / 1000,
            connections: read(&layout.connections),
            tunnels: read(&layout.tunnels),
            responses: read(&layout.responses),
        })
    }

    /// Has it forget responses; the number of the message.
    pub(super) fn ask_purge(&self, query: &str) -> Option<u64> {
        self.layout().purges.send(query.as_bytes())
    }

    pub(super) fn has_purged(&self, number: u64) -> bool {
        self.layout().purges_done.load(Ordering::Acquire) > number
    }

    pub(super) fn purged_count(&self) -> u64 {
        self.layout().purged.load(Ordering::Acquire)
    }

    /// The next message; none in place of its words if they are lost.
    pub(super) fn next_purge(&self) -> Option<Option<String>> {
        match self.layout().purges.receive(self.layout().purges_done.load(Ordering::Relaxed))? {
            Found::Message(bytes) => Some(String::from_utf8(bytes).ok()),
            Found::Lost => Some(None),
        }
    }

    pub(super) fn purged(&self, responses: u64) {
        self.layout().purged.fetch_add(responses, Ordering::Release);
        self.layout().purges_done.fetch_add(1, Ordering::Release);
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this size, and nothing refers to it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), size_of::<Layout>()) };
    }
}

/// A lock for writing of all that a file has.
fn whole_file() -> libc::flock {
    libc::flock { l_type: libc::F_WRLCK as _, l_whence: libc::SEEK_SET as _, l_start: 0, l_len: 0, l_pid: 0 }
}

fn map(file: &File) -> io::Result<NonNull<Layout>> {
    let (size, fd) = (size_of::<Layout>(), file.as_raw_fd());
    // SAFETY: the kernel chooses the place; the file has this size and is sealed against getting smaller.
    let memory =
        unsafe { libc::mmap(std::ptr::null_mut(), size, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, fd, 0) };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(memory.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(record: &Record) -> Record {
        Record::open(record.file.try_clone().expect("copies")).expect("is ours")
    }

    #[test]
    fn what_one_side_says_the_other_reads() {
        let own = Record::create().expect("makes");
        let other = copy(&own);
        own.promise(Duration::from_secs(5), Duration::from_secs(1));
        assert_eq!(
            (other.tunnels_kept(), other.stop_time(), other.stage()),
            (Duration::from_secs(5), Duration::from_secs(1), Stage::Serving)
        );
        other.follow();
        assert_eq!(own.stage(), Stage::Followed);
        let number = other.ask_purge("tag=a").expect("is short");
        assert!(!other.has_purged(number));
        assert_eq!((own.next_purge(), other.ask_purge(&"x".repeat(9000))), (Some(Some("tag=a".to_owned())), None));
        own.purged(3);
        assert!(other.has_purged(number) && own.next_purge().is_none());
        assert_eq!(other.purged_count(), 3);
        other.end();
        other.follow();
        assert_eq!(own.stage(), Stage::Ending, "what is to end is not kept");
    }

    #[test]
    fn a_file_of_others_is_none() {
        assert!(
            is_record(Path::new("/memfd:weir-server-1 (deleted)")) && !is_record(Path::new("/memfd:other (deleted)"))
        );
        let file = tempfile::tempfile().expect("makes");
        file.set_len(size_of::<Layout>() as u64).expect("grows");
        assert!(Record::open(file.into()).is_err(), "it can be cut off");
    }
}
