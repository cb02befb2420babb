//! A client's memory, opened after it was looked at from all sides, and read without trust.
//!
//! The head is mapped; definitions and lanes are copied before they are read, so that nothing changes under a parser.
//! The seals hold that the file keeps its size, so no access can fault.

use crate::directory::Announcement;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use weir_wire::arm::{
    DEFINITION_BYTES, DEFINITIONS_AT, HEAD_MAGIC, HEAD_PID, HEAD_TOKEN, LANE_BYTES, LANE_SLOTS, LANES, LANES_AT, MAGIC,
    MEMORY_BYTES, MEMORY_NAME, MOST_DEFINITIONS, POSITION_WORDS, POSITIONS_AT, SWITCHES_AT, Token,
};
use weir_wire::{SLOT_BYTES, Slot};

const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// Why a memory is not read.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The process is gone, or the announcement is.
    #[error("its process is gone")]
    Gone,
    /// A user announced the process of another user.
    #[error("user {announced} announced it, but process {pid} is user {owner}'s; remove the file")]
    NotTheirs {
        /// Owner of the announcement.
        announced: u32,
        /// Owner of the process.
        owner: u32,
        /// The process.
        pid: u32,
    },
    /// The descriptor is no memory of a client.
    #[error("descriptor {descriptor} of process {pid} is {what}, not an ARM client's memory")]
    NotMemory {
        /// The process.
        pid: u32,
        /// The descriptor.
        descriptor: u32,
        /// What it is.
        what: String,
    },
    /// The kernel does not let us.
    #[error(
        "process {pid} is user {owner}'s: {error}; run the agent as that user or as root, or give it CAP_SYS_PTRACE"
    )]
    NotAllowed {
        /// The process.
        pid: u32,
        /// Its owner.
        owner: u32,
        /// What the kernel says.
        error: io::Error,
    },
    /// Something else went wrong.
    #[error("{0}")]
    Other(#[from] io::Error),
}

/// The users of a process: real, effective, saved and file system user.
fn users_of(pid: u32) -> Option<[u32; 4]> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let mut users = line.split_whitespace().map(str::parse);
    Some([users.next()?.ok()?, users.next()?.ok()?, users.next()?.ok()?, users.next()?.ok()?])
}

/// A client's memory.
#[derive(Debug)]
pub struct Memory {
    file: File,
    head: NonNull<AtomicU64>,
    /// The file's number: it tells memories apart as long as one of them is open.
    pub inode: u64,
    /// The process's random number.
    pub token: Token,
    /// The effective user of its process.
    pub uid: u32,
}

// SAFETY: the mapping belongs to this value alone, and is only accessed through atomics.
unsafe impl Send for Memory {}

impl Memory {
    /// Opens the memory that was announced by a user's file, if everything fits.
    ///
    /// Root's announcements are as good as the owner's: a daemon may have registered before it gave up being root.
    /// The caller holds a descriptor of the process, so that its number is not given again meanwhile.
    ///
    /// # Errors
    /// Says why it is not read.
    pub fn open(announcement: Announcement, announced_by: u32) -> Result<Self, MemoryError> {
        let Announcement { pid, descriptor } = announcement;
        let users = users_of(pid).ok_or(MemoryError::Gone)?;
        let owner = users[1];
        let theirs = |user: u32| user == 0 || users.contains(&user);
        if !theirs(announced_by) {
            return Err(MemoryError::NotTheirs { announced: announced_by, owner, pid });
        }
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied => MemoryError::NotAllowed { pid, owner, error },
            io::ErrorKind::NotFound => MemoryError::Gone,
            _ => MemoryError::Other(error),
        };
        // O_PATH only names the file: opening it has no effects on any kind of file.
        let named = match open(&format!("/proc/{pid}/fd/{descriptor}"), libc::O_PATH) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => mapped(pid).map_err(failed)?,
            named => named.map_err(failed)?,
        };
        let own_name = format!("/proc/self/fd/{}", named.as_raw_fd());
        let link = fs::read_link(&own_name)?.to_string_lossy().into_owned();
        let not_memory = |what: String| MemoryError::NotMemory { pid, descriptor, what };
        if link.strip_suffix(" (deleted)").unwrap_or(&link) != format!("/memfd:{MEMORY_NAME}") {
            return Err(not_memory(link));
        }
        let file = File::from(open(&own_name, libc::O_RDWR | libc::O_NONBLOCK | libc::O_NOCTTY).map_err(failed)?);
        let memory = Self::checked(file, announcement, owner, theirs)?;
        let seen_pid = memory.head(HEAD_PID);
        if seen_pid != u64::from(pid) {
            return Err(not_memory(format!("the memory of process {seen_pid}")));
        }
        Ok(memory)
    }

    /// The memory that a process has sent, if everything fits. The process may have ended since.
    ///
    /// `sent_by` is its effective user; where it had another one when it made the memory, the process must still
    /// be there to say so. Its number need not be what it takes itself for: it may be in a namespace of its own.
    ///
    /// # Errors
    /// Says why it is not read.
    pub fn handed(file: File, announcement: Announcement, sent_by: u32) -> Result<Self, MemoryError> {
        let owner = file.metadata()?.uid();
        Self::checked(file, announcement, owner, |user| {
            user == sent_by || users_of(announcement.pid).is_some_and(|users| users.contains(&user))
        })
    }

    /// A file that is a client's memory.
    fn checked(
        file: File,
        announcement: Announcement,
        owner: u32,
        theirs: impl Fn(u32) -> bool,
    ) -> Result<Self, MemoryError> {
        let Announcement { pid, descriptor } = announcement;
        let not_memory = |what: String| MemoryError::NotMemory { pid, descriptor, what };
        let facts = file.metadata()?;
        // SAFETY: the descriptor is open, and the call only reads the file's seals.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        if !theirs(facts.uid()) {
            return Err(MemoryError::NotTheirs { announced: facts.uid(), owner, pid });
        }
        if seals < 0 || seals & SEALS != SEALS || facts.len() != MEMORY_BYTES as u64 || huge(&file) {
            return Err(not_memory(format!("a memory file of {} bytes with seals {seals:#x}", facts.len())));
        }
        let mut memory = Self { head: map(&file)?, inode: facts.ino(), token: Token(0), uid: owner, file };
        let magic = memory.head(HEAD_MAGIC);
        if magic != MAGIC {
            return Err(not_memory(format!("of another version (it begins with {magic:#018x})")));
        }
        memory.token = Token(memory.head(HEAD_TOKEN));
        Ok(memory)
    }

    /// Reads a word of the head.
    #[must_use]
    pub fn head(&self, word: usize) -> u64 {
        self.word(word).load(Ordering::Acquire)
    }

    /// Writes a word of the head.
    pub fn set_head(&self, word: usize, value: u64) {
        self.word(word).store(value, Ordering::Release);
    }

    /// Reads a word of a lane's positions.
    #[must_use]
    pub fn position(&self, lane: usize, word: usize) -> u64 {
        self.word(lane_word(lane, word)).load(Ordering::Acquire)
    }

    /// Writes a word of a lane's positions.
    pub fn set_position(&self, lane: usize, word: usize, value: u64) {
        self.word(lane_word(lane, word)).store(value, Ordering::Release);
    }

    /// Sets the switch of a definition, if it is not set so; says whether it was another.
    pub fn set_switch(&self, number: usize, switch: u32) -> bool {
        let place = self.word(SWITCHES_AT / 8 + number.min(MOST_DEFINITIONS - 1) / 2);
        // SAFETY: the word is within the mapping, and both its halves are as aligned as a 32-bit word must be.
        let place = unsafe { &*std::ptr::from_ref(place).cast::<AtomicU32>().add(number % 2) };
        // Looked at first: what is not written to takes no memory.
        let other = place.load(Ordering::Relaxed) != switch;
        if other {
            place.store(switch, Ordering::Release);
        }
        other
    }

    /// Copies definitions: from this byte of the region on.
    ///
    /// # Errors
    /// When the kernel cannot read the memory.
    pub fn read_definitions(&self, from: usize, into: &mut [u8]) -> io::Result<()> {
        let from = from.min(DEFINITION_BYTES);
        let room = into.len().min(DEFINITION_BYTES - from);
        self.file.read_exact_at(&mut into[..room], (DEFINITIONS_AT + from) as u64)
    }

    /// Copies slots of a lane, from a position on; the lane is a ring.
    ///
    /// # Errors
    /// When the kernel cannot read the memory.
    pub fn read_slots(&self, lane: usize, from: u64, into: &mut [Slot]) -> io::Result<()> {
        let start = from as usize % LANE_SLOTS;
        let first = into.len().min(LANE_SLOTS - start);
        let at = LANES_AT + lane.min(LANES - 1) * LANE_BYTES;
        let (before, behind) = into.split_at_mut(first);
        self.file.read_exact_at(as_bytes(before), (at + start * SLOT_BYTES) as u64)?;
        let behind_room = behind.len().min(LANE_SLOTS);
        self.file.read_exact_at(as_bytes(&mut behind[..behind_room]), at as u64)
    }

    /// Whether a process's descriptor is this memory.
    #[must_use]
    pub fn is_at(&self, announcement: Announcement) -> bool {
        let path = format!("/proc/{}/fd/{}", announcement.pid, announcement.descriptor);
        fs::metadata(path).is_ok_and(|facts| facts.ino() == self.inode && self.same_device(&facts))
    }

    /// Whether the process still has this memory mapped, as one that has closed all its descriptors. Of one that may
    /// not be looked at, and has sent its memory, that is taken for given until it ends.
    #[must_use]
    pub fn is_mapped_by(&self, pid: u32) -> bool {
        mapping(pid, Some(self.inode)).is_some() || is_closed_to_us(pid)
    }

    fn same_device(&self, facts: &fs::Metadata) -> bool {
        self.file.metadata().is_ok_and(|own| own.dev() == facts.dev())
    }

    fn word(&self, word: usize) -> &AtomicU64 {
        assert!(word < DEFINITIONS_AT / 8, "the head has no word {word}");
        // SAFETY: the mapping has DEFINITIONS_AT bytes, which the index was just held against, begins on a page, and
        // is unmapped only with this value.
        unsafe { self.head.add(word).as_ref() }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and no reference to it outlives this value.
        unsafe { libc::munmap(self.head.as_ptr().cast(), DEFINITIONS_AT) };
    }
}

fn lane_word(lane: usize, word: usize) -> usize {
    POSITIONS_AT / 8 + lane.min(LANES - 1) * POSITION_WORDS + word
}

fn open(path: &str, flags: i32) -> io::Result<OwnedFd> {
    let path = CString::new(path).map_err(io::Error::other)?;
    // SAFETY: the path is a string that ends with a NUL; nothing else is handed over.
    let descriptor = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The range of the mapping of a client's memory in a process: of the one with this inode, or else of the last.
fn mapping(pid: u32, inode: Option<u64>) -> Option<String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let wanted = format!("/memfd:{MEMORY_NAME}");
    let mut found = maps.lines().rev().filter_map(|line| {
        let mut fields = line.split_whitespace();
        let (range, _, offset, _, number, path) =
            (fields.next()?, fields.next()?, fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let ours = path == wanted && offset.bytes().all(|digit| digit == b'0');
        let number: u64 = ours.then(|| number.parse().ok()).flatten()?;
        inode.is_none_or(|inode| inode == number).then(|| range.to_owned())
    });
    found.next()
}

/// Whether the kernel keeps us from looking at a process.
fn is_closed_to_us(pid: u32) -> bool {
    // Opening it is allowed to all; only reading asks for the right.
    fs::read(format!("/proc/{pid}/maps")).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// The memory of a process that has closed its descriptor, as daemons do with all that they find: by its mapping.
fn mapped(pid: u32) -> io::Result<OwnedFd> {
    let range = mapping(pid, None).ok_or(io::ErrorKind::NotFound)?;
    open(&format!("/proc/{pid}/map_files/{range}"), libc::O_PATH)
}

/// Whether a file is of huge pages: those can be used up, and an access then faults.
fn huge(file: &File) -> bool {
    // SAFETY: all bits 0 are a valid value of this plain structure.
    let mut facts: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open and the structure is ours.
    let told = unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut facts) };
    told != 0 || facts.f_type != libc::TMPFS_MAGIC
}

fn map(file: &File) -> io::Result<NonNull<AtomicU64>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice; the file is longer than it and cannot shrink.
    let address =
        unsafe { libc::mmap(std::ptr::null_mut(), DEFINITIONS_AT, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(address.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))
}

fn as_bytes(slots: &mut [Slot]) -> &mut [u8] {
    let length = size_of_val(slots);
    // SAFETY: the same memory, and every pattern of bytes is a slot.
    unsafe { std::slice::from_raw_parts_mut(slots.as_mut_ptr().cast(), length) }
}
