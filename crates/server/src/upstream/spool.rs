//! Holds the body of a request whose length the client did not say, for an upstream that needs the length first.
//!
//! The beginning is held in memory, the rest in a file without a name. Both reading and writing are done on the thread of
//! the loop, a piece of at most [`PIECE_BYTES_MAX`] at a time: the kernel takes such a piece into its page cache, which
//! takes some microseconds. Where the disk is slower than the clients for a long time the kernel makes writers wait, and
//! then the loop waits too; the bound on a body keeps that rare.

#![cfg_attr(not(test), expect(dead_code, reason = "wired by the handler"))]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a body that are held in memory.
pub(crate) const MEMORY_BYTES_MAX: usize = 64 << 10;
/// Bytes that are written to or read from the file at a time.
pub(crate) const PIECE_BYTES_MAX: usize = 64 << 10;

/// Where bodies are held, and how large they may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpoolSettings {
    /// The directory for what is beyond [`MEMORY_BYTES_MAX`].
    pub(crate) directory: PathBuf,
    /// Bytes of a body; more are refused.
    pub(crate) bytes_max: u64,
}

/// Why a body cannot be held.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpoolError {
    /// It is larger than it may be.
    #[error("the body is larger than {0} bytes, which is the most that is held for an upstream")]
    TooLarge(u64),
    /// The disk, or what the user may use of it, is full.
    #[error("the directory {} is full: make room, or name another one", .0.display())]
    Full(PathBuf),
    /// A file cannot be made.
    #[error("no file can be made in {}: {source}; let the server's user write there, or name another directory", .directory.display())]
    Directory { directory: PathBuf, source: io::Error },
    /// Any other error of the file.
    #[error("the held body cannot be written or read: {0}")]
    File(io::Error),
}

impl SpoolError {
    /// The status of the response that says so (RFC 9110 section 15.5.14, RFC 4918 section 11.5).
    pub(crate) fn status(&self) -> u16 {
        match self {
            Self::TooLarge(_) => 413,
            Self::Full(_) => 507,
            Self::Directory { .. } | Self::File(_) => 500,
        }
    }
}

/// A body: written to its end, then read, once or again.
#[derive(Debug, Default)]
pub(crate) struct Spool {
    memory: Vec<u8>,
    /// What is beyond the memory; made when it is needed.
    file: Option<File>,
    /// Bytes that were written.
    bytes: u64,
    /// Bytes that were read.
    taken: u64,
}

impl Spool {
    /// Bytes of the body up to now.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a piece of any size.
    ///
    /// # Errors
    ///
    /// [`SpoolError`]; the body cannot be used then.
    pub(crate) fn write(&mut self, bytes: &[u8], settings: &SpoolSettings) -> Result<(), SpoolError> {
        if self.bytes + bytes.len() as u64 > settings.bytes_max {
            return Err(SpoolError::TooLarge(settings.bytes_max));
        }
        let (first, rest) = bytes.split_at(bytes.len().min(MEMORY_BYTES_MAX - self.memory.len()));
        self.memory.extend_from_slice(first);
        self.bytes += first.len() as u64;
        for piece in rest.chunks(PIECE_BYTES_MAX) {
            let file = match &self.file {
                Some(file) => file,
                None => self.file.insert(nameless(&settings.directory)?),
            };
            let at = self.bytes - MEMORY_BYTES_MAX as u64;
            file.write_all_at(piece, at).map_err(|error| match error.raw_os_error() {
                Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => SpoolError::Full(settings.directory.clone()),
                _ => SpoolError::File(error),
            })?;
            self.bytes += piece.len() as u64;
        }
        Ok(())
    }

    /// The next bytes in memory, or an empty piece where they lie in the file or the body has ended. [`Self::skip`] passes
    /// over what was used of them.
    pub(crate) fn in_memory(&self) -> &[u8] {
        let taken = usize::try_from(self.taken).unwrap_or(usize::MAX).min(self.memory.len());
        &self.memory[taken..]
    }

    /// Passes over bytes, at most as many as [`Self::in_memory`] gives.
    pub(crate) fn skip(&mut self, bytes: usize) {
        self.taken += bytes.min(self.in_memory().len()) as u64;
    }

    /// Reads the next bytes, at most [`PIECE_BYTES_MAX`] and as many as the room takes; 0 behind the end.
    ///
    /// # Errors
    ///
    /// [`SpoolError::File`].
    pub(crate) fn read(&mut self, room: &mut [u8]) -> Result<usize, SpoolError> {
        let held = self.in_memory();
        let length = room.len().min(PIECE_BYTES_MAX);
        let bytes = match (&self.file, held.len()) {
            (Some(file), 0) if self.taken < self.bytes => {
                let left = usize::try_from(self.bytes - self.taken).unwrap_or(usize::MAX);
                let room = &mut room[..length.min(left)];
                file.read_exact_at(room, self.taken - MEMORY_BYTES_MAX as u64).map_err(SpoolError::File)?;
                room.len()
            }
            (_, held_bytes) => {
                let bytes = length.min(held_bytes);
                room[..bytes].copy_from_slice(&held[..bytes]);
                bytes
            }
        };
        self.taken += bytes as u64;
        Ok(bytes)
    }

    /// Bytes that were not read yet.
    pub(crate) fn left(&self) -> u64 {
        self.bytes - self.taken
    }

    /// Begins to read once more, for another upstream.
    pub(crate) fn rewind(&mut self) {
        self.taken = 0;
    }
}

/// A file that no path leads to: it goes with its descriptor, also when the process is killed.
fn nameless(directory: &Path) -> Result<File, SpoolError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    let made = options.clone().custom_flags(libc::O_TMPFILE).open(directory);
    let made = match made.as_ref().map_err(io::Error::raw_os_error) {
        // Not every file system has such files (open(2)).
        Err(Some(libc::EOPNOTSUPP | libc::EISDIR | libc::ENOENT)) if directory.is_dir() => unlinked(options, directory),
        _ => made,
    };
    made.map_err(|source| match source.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => SpoolError::Full(directory.to_owned()),
        _ => SpoolError::Directory { directory: directory.to_owned(), source },
    })
}

/// A file whose name is taken away at once.
fn unlinked(mut options: OpenOptions, directory: &Path) -> io::Result<File> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!(".weir-body-{}-{count}", std::process::id()));
    let file = options.create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_testkit::SmallDisk;

    fn settings(directory: &Path) -> SpoolSettings {
        SpoolSettings { directory: directory.to_owned(), bytes_max: 1 << 20 }
    }

    fn read_all(spool: &mut Spool, piece: usize) -> Vec<u8> {
        let (mut all, mut room) = (Vec::new(), vec![0; piece]);
        loop {
            match spool.read(&mut room).expect("reads") {
                0 => return all,
                bytes => all.extend_from_slice(&room[..bytes]),
            }
        }
    }

    #[test]
    fn a_small_body_stays_in_memory() {
        let settings = SpoolSettings { directory: "/none/such".into(), bytes_max: 1 << 20 };
        let mut spool = Spool::default();
        spool.write(&vec![7; MEMORY_BYTES_MAX], &settings).expect("it fits");
        assert_eq!((spool.in_memory().len(), spool.left()), (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX as u64));
        spool.skip(10);
        assert_eq!(spool.in_memory().len(), MEMORY_BYTES_MAX - 10);
        let error = spool.write(b"x", &settings).expect_err("no directory");
        assert!(matches!(error, SpoolError::Directory { .. }) && error.status() == 500, "{error}");
    }

    #[test]
    fn the_file_has_no_name() {
        let folder = tempfile::tempdir().expect("a directory");
        for by_name in [false, true] {
            let mut spool = Spool::default();
            if by_name {
                let mut options = OpenOptions::new();
                options.read(true).write(true);
                spool.file = Some(unlinked(options, folder.path()).expect("is made"));
            }
            spool.write(&vec![1; 200_000], &settings(folder.path())).expect("is written");
            assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 0);
            assert_eq!(read_all(&mut spool, 1000), vec![1; 200_000]);
        }
    }

    #[test]
    fn a_bound_and_a_full_disk_are_told_apart() {
        let folder = tempfile::tempdir().expect("a directory");
        let mut spool = Spool::default();
        spool.write(&vec![0; 1 << 20], &settings(folder.path())).expect("as large as it may be");
        let error = spool.write(b"x", &settings(folder.path())).expect_err("too large");
        assert!(matches!(error, SpoolError::TooLarge(_)) && error.status() == 413);
        let Some(disk) = SmallDisk::mount(1) else { return };
        let large = SpoolSettings { directory: disk.path().to_owned(), bytes_max: 1 << 30 };
        let error = Spool::default().write(&vec![1; 4 << 20], &large).expect_err("full");
        assert!(matches!(error, SpoolError::Full(_)) && error.status() == 507, "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn pieces_come_back_in_order(
            pieces in proptest::collection::vec((any::<u8>(), 0_usize..60_000), 0..8),
            piece in 1_usize..90_000,
            skipped in 0_usize..100,
        ) {
            let folder = tempfile::tempdir().expect("a directory");
            let (mut spool, mut expected) = (Spool::default(), Vec::new());
            for (byte, length) in pieces {
                let bytes: Vec<u8> = (0..length).map(|at| byte.wrapping_add(at as u8)).collect();
                spool.write(&bytes, &settings(folder.path())).expect("is written");
                expected.extend_from_slice(&bytes);
            }
            prop_assert_eq!(spool.bytes(), expected.len() as u64);
            prop_assert_eq!(&read_all(&mut spool, piece), &expected);
            prop_assert_eq!(spool.left(), 0);
            spool.rewind();
            let skipped = skipped.min(expected.len());
            spool.skip(skipped);
            prop_assert_eq!(&read_all(&mut spool, piece)[..], &expected[skipped..]);
        }
    }
}
