//! A client that writes the memory word by word, as the layout says: it can also do what no client of ours does.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use weir_wire::arm::{
    DEFINITIONS_AT, DefinitionWriter, Detail, Field, HEAD_DEFINED_BYTES, HEAD_HEARTBEAT, HEAD_LANES_USED, HEAD_MAGIC,
    HEAD_PID, HEAD_TOKEN, Handle, Identity, LANE_BYTES, LANE_DROPPED, LANE_READ, LANE_SLOTS, LANE_WRITTEN, LANES_AT,
    MAGIC, MEMORY_BYTES, MEMORY_NAME, POSITION_WORDS, POSITIONS_AT, SWITCHES_AT, Sort, Token,
};
use weir_wire::{Kind, Record, SLOT_BYTES, Slot};

/// CLOCK_MONOTONIC.
pub(crate) fn now_ns() -> u64 {
    weir_agent::host::now_ns()
}

/// A client's memory with its announcement.
pub(crate) struct Writer {
    pub(crate) file: File,
    words: *mut AtomicU64,
    pub(crate) token: Token,
    pub(crate) announcement: PathBuf,
    definitions: u16,
}

// SAFETY: the mapping is the value's own and accessed through atomics only.
unsafe impl Send for Writer {}
// SAFETY: as above; what two threads write into one lane at once is damaged, but memory is only accessed as a whole word.
unsafe impl Sync for Writer {}

/// A memory file as a client makes it, but with these seals and this length.
pub(crate) fn memory_file(seals: i32, length: u64) -> File {
    let name = CString::new(MEMORY_NAME).expect("no NUL");
    // SAFETY: the name is a string with its NUL.
    let made = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    assert!(made >= 0, "a memory file");
    // SAFETY: the kernel just gave it to us.
    let file = unsafe { File::from_raw_fd(made) };
    file.set_len(length).expect("its length");
    // SAFETY: a call on our own descriptor.
    assert_eq!(unsafe { libc::fcntl(made, libc::F_ADD_SEALS, seals) }, 0);
    file
}

impl Writer {
    /// Makes the memory and announces it.
    pub(crate) fn new(directory: &Path) -> Self {
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        Self::with(memory_file(seals, MEMORY_BYTES as u64), directory)
    }

    fn with(file: File, directory: &Path) -> Self {
        // SAFETY: a new mapping of our own file, which has this length.
        let mapped = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), MEMORY_BYTES, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        assert_ne!(mapped, libc::MAP_FAILED);
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let token = Token(now_ns() << 20 ^ u64::from(std::process::id()) << 8 ^ COUNT.fetch_add(1, Ordering::Relaxed));
        let announcement = directory.join(format!("{}-{}", std::process::id(), file.as_raw_fd()));
        let writer = Self { file, words: mapped.cast(), token, announcement, definitions: 0 };
        writer.word(HEAD_PID).store(u64::from(std::process::id()), Ordering::Relaxed);
        writer.word(HEAD_TOKEN).store(token.0, Ordering::Relaxed);
        writer.word(HEAD_MAGIC).store(MAGIC, Ordering::Release);
        fs::write(&writer.announcement, "").expect("announced");
        writer
    }

    pub(crate) fn word(&self, word: usize) -> &AtomicU64 {
        assert!(word < MEMORY_BYTES / 8);
        // SAFETY: within the mapping, which lives as long as this value.
        unsafe { &*self.words.add(word) }
    }

    pub(crate) fn position(&self, lane: usize, word: usize) -> &AtomicU64 {
        self.word(POSITIONS_AT / 8 + lane * POSITION_WORDS + word)
    }

    pub(crate) fn switch(&self, number: u16) -> u32 {
        // SAFETY: a word within the mapping.
        let place = unsafe { &*self.words.cast::<AtomicU32>().add(SWITCHES_AT / 4 + usize::from(number)) };
        place.load(Ordering::Acquire)
    }

    pub(crate) fn is_listened_to(&self) -> bool {
        self.word(HEAD_HEARTBEAT).load(Ordering::Relaxed) != 0
    }

    /// Adds a definition; returns its number.
    pub(crate) fn define(&mut self, sort: Sort, belongs_to: u16, pieces: &[(Field, u8, &[u8])]) -> u16 {
        let mut writer = DefinitionWriter::new(sort, 4, belongs_to);
        for (field, index, piece) in pieces {
            assert!(writer.piece(*field, *index, piece));
        }
        let bytes = writer.finish();
        let at = self.word(HEAD_DEFINED_BYTES).load(Ordering::Relaxed) as usize;
        // SAFETY: the region has room for the few definitions of a test.
        unsafe {
            let place = self.words.cast::<u8>().add(DEFINITIONS_AT + at);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len());
        }
        self.word(HEAD_DEFINED_BYTES).store((at + bytes.len()) as u64, Ordering::Release);
        self.definitions += 1;
        self.definitions
    }

    /// An application and a transaction of it.
    pub(crate) fn define_shop(&mut self, transaction: &str) -> u16 {
        let application = self.define(Sort::Application, 0, &[(Field::Name, 0, b"shop")]);
        self.define(Sort::Transaction, application, &[(Field::Name, 0, transaction.as_bytes())])
    }

    /// Writes a record, if there is room; returns the handle that its slot stands for.
    pub(crate) fn write(&self, lane: usize, mut record: Record, slots: &[Slot]) -> Option<Handle> {
        let used = self.word(HEAD_LANES_USED);
        used.fetch_max(lane as u64 + 1, Ordering::AcqRel);
        let written = self.position(lane, LANE_WRITTEN).load(Ordering::Relaxed);
        let read = self.position(lane, LANE_READ).load(Ordering::Acquire);
        if written + 1 + slots.len() as u64 - read > LANE_SLOTS as u64 {
            self.position(lane, LANE_DROPPED).fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let handle = Handle::new(1, lane as u32, written);
        if record.kind == Kind::ArmStart as u16 || record.kind == Kind::ArmReport as u16 {
            record.a = if record.a == 0 { handle.0 } else { record.a };
        }
        record.slots = slots.len() as u8;
        record.lane = std::process::id();
        for (at, slot) in std::iter::once(&record.to_slot()).chain(slots).enumerate() {
            let place = (LANES_AT + lane * LANE_BYTES) / 8 + (written as usize + at) % LANE_SLOTS * (SLOT_BYTES / 8);
            slot.iter().enumerate().for_each(|(word, value)| self.word(place + word).store(*value, Ordering::Relaxed));
        }
        self.position(lane, LANE_WRITTEN).store(written + 1 + slots.len() as u64, Ordering::Release);
        Some(handle)
    }

    pub(crate) fn start(&self, lane: usize, transaction: u16, flags: u8, parent: Option<Identity>) -> Option<Handle> {
        let flags = flags | if parent.is_some() { weir_wire::arm::HAS_PARENT } else { 0 };
        let slots: Vec<Slot> = parent.map(Identity::slot).into_iter().collect();
        let b = u64::from(transaction);
        self.write(
            lane,
            Record { time_ns: now_ns(), kind: Kind::ArmStart as u16, flags, b, ..Record::default() },
            &slots,
        )
    }

    pub(crate) fn stop(&self, lane: usize, handle: Handle, status: u64) -> bool {
        self.of(lane, Kind::ArmStop, handle, status)
    }

    pub(crate) fn of(&self, lane: usize, kind: Kind, handle: Handle, b: u64) -> bool {
        let record = Record { time_ns: now_ns(), kind: kind as u16, a: handle.0, b, ..Record::default() };
        self.write(lane, record, &[]).is_some()
    }

    /// Tells a piece of at most 256 bytes.
    pub(crate) fn tell(&self, lane: usize, handle: Handle, field: Field, index: u8, piece: &[u8]) {
        let mut padded = piece.to_vec();
        padded.resize(piece.len().div_ceil(SLOT_BYTES) * SLOT_BYTES, 0);
        let slots: Vec<Slot> = padded
            .chunks(SLOT_BYTES)
            .map(|slot| {
                std::array::from_fn(|at| u64::from_ne_bytes(slot[at * 8..at * 8 + 8].try_into().expect("eight bytes")))
            })
            .collect();
        let detail = Detail { field: field as u8, index, offset: 0, whole_bytes: piece.len() as u32 };
        let kind = Kind::ArmDetail as u16;
        let record = Record { time_ns: now_ns(), kind, a: handle.0, b: detail.operand(), ..Record::default() };
        assert!(self.write(lane, record, &slots).is_some());
    }

    /// The identity of a transaction, as its correlator has it.
    pub(crate) fn identity(&self, handle: Handle) -> Identity {
        let span = self.token.span(handle);
        let flags = Identity::RECORDED;
        Identity { trace: self.token.trace(span), span, flags, format: Identity::FORMAT }
    }

    /// Writes into the memory wherever it may be.
    pub(crate) fn scribble(&mut self, at: usize, bytes: &[u8]) {
        use std::io::{Seek, SeekFrom};
        self.file.seek(SeekFrom::Start(at as u64)).expect("a place");
        self.file.write_all(bytes).expect("written");
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length; nothing refers to it any more.
        unsafe { libc::munmap(self.words.cast(), MEMORY_BYTES) };
    }
}
