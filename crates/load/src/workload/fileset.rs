//! The files of a workload, and writing them to a directory.

use crate::LoadError;
use crate::workload::surge::Surge;
use crate::workload::{specweb96, surge};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The file that says which set a directory holds.
pub const MARK: &str = "weir-fileset.txt";
/// What is written at a time.
const CHUNK_BYTES: usize = 64 * 1024;
/// File systems give room in blocks.
const BLOCK_BYTES: u64 = 4096;

/// A set of files, each known by its number.
#[derive(Debug, Clone, PartialEq)]
pub enum FileSet {
    /// The files of SPECweb96, 36 to a directory.
    SpecWeb96 {
        /// How many directories, 1 to 100000.
        directories: u32,
        /// Where the random numbers of the content begin.
        seed: u64,
    },
    /// The files of SURGE, a thousand to a directory.
    Surge(Surge),
}

/// How far writing has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Files that are there, of all.
    pub files: u32,
    /// All files.
    pub files_all: u32,
    /// Files that were there before.
    pub kept: u32,
    /// Bytes of the files that are there.
    pub bytes: u64,
    /// Bytes of all files.
    pub bytes_all: u64,
}

/// Why a file set was not written.
#[derive(Debug, thiserror::Error)]
pub enum FileSetError {
    /// The directory holds something else.
    #[error("{} is not empty and holds no file set; name a directory that is empty or not there yet", directory.display())]
    NotEmpty {
        /// The directory.
        directory: PathBuf,
    },
    /// The directory holds another set.
    #[error("{} holds another file set ({there}); remove it or name another directory", directory.display())]
    Another {
        /// The directory.
        directory: PathBuf,
        /// What it holds.
        there: String,
    },
    /// There is less room than the files need.
    #[error("{} has room for {free} bytes, and the files need {needed} more; make room, or make fewer files", directory.display())]
    NoRoom {
        /// The directory.
        directory: PathBuf,
        /// What is needed, in bytes.
        needed: u64,
        /// What is there.
        free: u64,
    },
    /// The file system has become full.
    #[error("the file system is full: {} of {} files are there; make room, then the same command goes on from here", progress.files, progress.files_all)]
    Full {
        /// How far it had got.
        progress: Progress,
    },
    /// The user ended it.
    #[error("ended by you: {} of {} files are there; the same command goes on from here", progress.files, progress.files_all)]
    Stopped {
        /// How far it had got.
        progress: Progress,
    },
    /// A file or directory could not be made.
    #[error("{}: {cause}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
}

impl FileSet {
    /// Its name on the command line.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::SpecWeb96 { .. } => "specweb96",
            Self::Surge(_) => "surge",
        }
    }

    /// How many files it has.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no set is empty")]
    pub fn len(&self) -> u32 {
        match self {
            Self::SpecWeb96 { directories, .. } => directories * specweb96::FILES_A_DIRECTORY,
            Self::Surge(surge) => surge.files,
        }
    }

    /// The path of a file, relative to the directory of the set; its length depends on the file's kind only.
    #[must_use]
    pub fn path(&self, file: u32) -> String {
        match self {
            Self::SpecWeb96 { .. } => specweb96::path(file),
            Self::Surge(_) => surge::path(file),
        }
    }

    /// The size of a file, in bytes.
    #[must_use]
    #[inline]
    pub fn size(&self, file: u32) -> u64 {
        match self {
            Self::SpecWeb96 { .. } => specweb96::size(file),
            Self::Surge(surge) => surge.size(file),
        }
    }

    /// The sizes of all files together, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (0..self.len()).map(|file| self.size(file)).sum()
    }

    /// How many kinds of files are told apart: a power of two, and the kind is what the number leaves by it.
    #[must_use]
    pub fn kinds(&self) -> u32 {
        match self {
            Self::SpecWeb96 { .. } => specweb96::CLASSES,
            Self::Surge(_) => 1,
        }
    }

    /// What a kind is called.
    #[must_use]
    pub fn kind_name(&self, kind: u32) -> String {
        match self {
            Self::SpecWeb96 { .. } => format!("class{kind}"),
            Self::Surge(_) => "files".to_owned(),
        }
    }

    #[inline]
    pub(crate) fn kind_mask(&self) -> u32 {
        self.kinds() - 1
    }

    /// Makes the path of the first file of a kind, somewhere in a request, that of another one of its kind.
    #[inline]
    pub(crate) fn patch(&self, file: u32, path: &mut [u8]) {
        match self {
            Self::SpecWeb96 { .. } => specweb96::patch(file, path),
            Self::Surge(_) => surge::patch(file, path),
        }
    }

    /// Whether there is such a set.
    pub(crate) fn check(&self) -> Result<(), LoadError> {
        match self {
            Self::SpecWeb96 { directories, .. } if !(1..=specweb96::DIRECTORIES_MAX).contains(directories) => {
                Err(LoadError::Options("the number of directories lies between 1 and 100000"))
            }
            Self::Surge(surge) if !(1..=surge::FILES_MAX).contains(&surge.files) => {
                Err(LoadError::Options("the number of files lies between 1 and 1000000"))
            }
            Self::SpecWeb96 { .. } | Self::Surge(_) => Ok(()),
        }
    }

    /// What the mark of a directory with this set says.
    fn mark(&self) -> String {
        match self {
            Self::SpecWeb96 { directories, seed } => {
                format!("weir file set 1: specweb96, {directories} directories, seed {seed}\n")
            }
            Self::Surge(surge) => format!("weir file set 1: surge, {} files, seed {}\n", surge.files, surge.seed),
        }
    }

    fn seed(&self) -> u64 {
        match self {
            Self::SpecWeb96 { seed, .. } => *seed,
            Self::Surge(surge) => surge.seed,
        }
    }

    /// The bytes of a file: text that does not compress well, the same for the same seed.
    fn content(&self, file: u32) -> Content {
        let seed = self.seed().wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(file));
        Content { random: fastrand::Rng::with_seed(seed), left: self.size(file) }
    }
}

/// What is still to be written of a file.
struct Content {
    random: fastrand::Rng,
    left: u64,
}

impl Content {
    /// The next piece, in `buffer`, whose length is a multiple of 8; empty at the end.
    fn next<'b>(&mut self, buffer: &'b mut [u8]) -> &'b [u8] {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 \n";
        let length = self.left.min(buffer.len() as u64) as usize;
        for eight in buffer[..length.next_multiple_of(8)].chunks_exact_mut(8) {
            let mut bits = self.random.u64(..);
            for letter in eight {
                *letter = LETTERS[(bits & 63) as usize];
                bits >>= 6;
            }
        }
        self.left -= length as u64;
        &buffer[..length]
    }
}

/// Writes the files of a set to a directory, which is made if it is not there; `go_on` is told of the progress after each
/// file, and says whether to go on.
///
/// A directory with a part of the same set is completed: files of the right size are kept.
///
/// # Errors
/// [`FileSetError`]; what was written until then stays, for the same call to go on.
pub fn write(
    set: &FileSet,
    directory: &Path,
    mut go_on: impl FnMut(Progress) -> bool,
) -> Result<Progress, FileSetError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |cause| FileSetError::Io { path, cause }
    };
    std::fs::create_dir_all(directory).map_err(failed(directory))?;
    let is_new = begin(set, directory)?;
    let mut progress = Progress { files: 0, files_all: set.len(), kept: 0, bytes: 0, bytes_all: set.bytes() };
    let is_there =
        |path: &Path, size| !is_new && path.metadata().is_ok_and(|found| found.is_file() && found.len() == size);
    let needed = (0..set.len())
        .filter(|file| !is_there(&directory.join(set.path(*file)), set.size(*file)))
        .map(|file| set.size(file).next_multiple_of(BLOCK_BYTES))
        .sum();
    let free = free_bytes(directory).map_err(failed(directory))?;
    if needed > free {
        return Err(FileSetError::NoRoom { directory: directory.to_owned(), needed, free });
    }
    let mut buffer = vec![0; CHUNK_BYTES];
    for file in 0..set.len() {
        let (path, size) = (directory.join(set.path(file)), set.size(file));
        if is_there(&path, size) {
            progress.kept += 1;
        } else {
            let written = write_file(&path, set.content(file), &mut buffer);
            written.map_err(|cause| match cause.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FileSetError::Full { progress },
                _ => FileSetError::Io { path, cause },
            })?;
        }
        progress.files += 1;
        progress.bytes += size;
        if !go_on(progress) && progress.files < progress.files_all {
            return Err(FileSetError::Stopped { progress });
        }
    }
    Ok(progress)
}

/// Sees to it that the directory is this set's; whether it is so only now.
fn begin(set: &FileSet, directory: &Path) -> Result<bool, FileSetError> {
    let (mark, owned) = (directory.join(MARK), || directory.to_owned());
    match std::fs::read(&mark) {
        Ok(there) if there == set.mark().as_bytes() => return Ok(false),
        Ok(there) => {
            let there = String::from_utf8_lossy(&there[..there.len().min(200)]).trim().to_owned();
            return Err(FileSetError::Another { directory: owned(), there });
        }
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
        Err(cause) => return Err(FileSetError::Io { path: mark, cause }),
    }
    let mut entries = directory.read_dir().map_err(|cause| FileSetError::Io { path: owned(), cause })?;
    if entries.next().is_some() {
        return Err(FileSetError::NotEmpty { directory: owned() });
    }
    std::fs::write(&mark, set.mark()).map_err(|cause| FileSetError::Io { path: mark, cause })?;
    Ok(true)
}

fn write_file(path: &Path, mut content: Content, buffer: &mut [u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mut file = std::fs::File::create(path)?;
    loop {
        let piece = content.next(buffer);
        if piece.is_empty() {
            return Ok(());
        }
        file.write_all(piece)?;
    }
}

/// What an ordinary user may still write to the file system of a directory.
fn free_bytes(directory: &Path) -> io::Result<u64> {
    let path = std::ffi::CString::new(directory.as_os_str().as_bytes())?;
    // SAFETY: an all-zero structure of numbers is a valid one.
    let mut told: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with a zero byte and the structure outlives the call.
    crate::error::system::checked(unsafe { libc::statvfs(path.as_ptr(), &raw mut told) })?;
    Ok(told.f_bavail * told.f_frsize)
}
