//! The store of content: a file for each digest, in a folder, within a bound of bytes.
//!
//! A file appears whole or not at all: it is written beside its place, flushed to the disk, and renamed. It is never
//! written again, so that trees may share it by hard links.

use super::digest::{Digest, Digesting};
use super::error::{AtomError, at};
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Below the folder: what is still written.
const PARTIAL: &str = "partial";
/// Below the folder: what is there.
const WHOLE: &str = "sha256";
/// A half-written file that has not grown for so long is of a process that has ended.
const ABANDONED: Duration = Duration::from_secs(6 * 3600);
/// Bytes that are read at once.
const PIECE_BYTES: usize = 128 << 10;
/// A file of the store: readable for the server, and changed by no program.
const MODE: u32 = 0o444;

/// Content by digest, in a folder that several processes may use.
///
/// Each counts the bytes that it found and those that it wrote; [`make_room`](Self::make_room) counts them anew.
#[derive(Debug)]
pub struct ContentStore {
    folder: PathBuf,
    bytes_max: u64,
    bytes: AtomicU64,
    next: AtomicU64,
}

/// What changes about some content when another program writes to its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

/// What was evicted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Evicted {
    /// How many contents.
    pub contents: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A file that is being written; removed where it does not become whole.
struct Partial {
    path: PathBuf,
    file: File,
}

impl Mark {
    /// When the file was modified: seconds since 1970.
    #[must_use]
    pub fn modified_unix_s(&self) -> u64 {
        u64::try_from(self.modified.0).unwrap_or(0)
    }
}

impl ContentStore {
    /// Opens a store, and makes its folder; what a process left half written hours ago is removed.
    ///
    /// # Errors
    ///
    /// The folder cannot be made, read or written.
    pub fn open(folder: &Path, bytes_max: u64) -> Result<Self, AtomError> {
        let partial = folder.join(PARTIAL);
        for made in [&partial, &folder.join(WHOLE)] {
            fs::create_dir_all(made).map_err(at(made))?;
        }
        remove_abandoned(&partial)?;
        let store = Self { folder: folder.to_owned(), bytes_max, bytes: AtomicU64::new(0), next: AtomicU64::new(0) };
        let bytes = store.contents()?.iter().map(|(_, bytes)| bytes).sum();
        store.bytes.store(bytes, Ordering::Relaxed);
        Ok(store)
    }

    /// Bytes that it holds.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether it has some content.
    #[must_use]
    pub fn has(&self, digest: &Digest) -> bool {
        self.path(digest).exists()
    }

    /// Opens some content to read.
    ///
    /// # Errors
    ///
    /// [`AtomError::Missing`] where it is not there.
    pub fn open_content(&self, digest: &Digest) -> Result<File, AtomError> {
        let path = self.path(digest);
        match File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(AtomError::Missing { digest: *digest }),
            opened => opened.map_err(at(&path)),
        }
    }

    /// The mark of some content; `None` where it is not there. While it is the same, the content needs not be verified
    /// again.
    #[must_use]
    pub fn mark(&self, digest: &Digest) -> Option<Mark> {
        let metadata = fs::metadata(self.path(digest)).ok()?;
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Some(Mark { inode: metadata.ino(), bytes: metadata.size(), modified })
    }

    /// Takes in content whose digest and length are known, such as from another node.
    ///
    /// # Errors
    ///
    /// [`AtomError::Digest`] or [`AtomError::Length`] where other bytes come; then nothing is kept.
    pub fn receive(&self, digest: &Digest, bytes: u64, from: &mut dyn Read) -> Result<(), AtomError> {
        if self.has(digest) {
            return Ok(());
        }
        self.check_room(bytes)?;
        let mut partial = self.partial()?;
        let (found, length) = copy(from, &mut partial, bytes)?;
        if length != bytes {
            return Err(AtomError::Length { digest: *digest, expected: bytes, found: length });
        }
        if found != *digest {
            return Err(AtomError::Digest { expected: *digest, found });
        }
        self.complete(&partial, digest, length)
    }

    /// Takes in a file; returns its digest and its bytes.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or there is no room.
    pub fn take_in(&self, path: &Path) -> Result<(Digest, u64), AtomError> {
        let mut file = File::open(path).map_err(at(path))?;
        let expected = file.metadata().map_err(at(path))?.len();
        self.check_room(expected)?;
        let mut partial = self.partial()?;
        let (digest, bytes) = copy(&mut file, &mut partial, self.bytes_max)?;
        self.check_room(bytes)?;
        self.complete(&partial, &digest, bytes)?;
        Ok((digest, bytes))
    }

    /// Whether some content still has its digest; where not, it is removed, to be fetched again.
    ///
    /// # Errors
    ///
    /// It cannot be read or removed.
    pub fn verify(&self, digest: &Digest) -> Result<bool, AtomError> {
        let path = self.path(digest);
        let mut file = self.open_content(digest)?;
        let mut digesting = Digesting::new();
        let mut piece = vec![0; PIECE_BYTES];
        let mut bytes = 0;
        loop {
            let read = file.read(&mut piece).map_err(at(&path))?;
            if read == 0 {
                break;
            }
            bytes += read as u64;
            digesting.update(&piece[..read]);
        }
        if digesting.finish() == *digest {
            return Ok(true);
        }
        self.remove(digest, bytes)?;
        Ok(false)
    }

    /// Makes room for so many bytes: the least popular contents go first, those to `keep` never.
    ///
    /// What a tree still shares by a hard link takes room on the disk until the tree is removed.
    ///
    /// # Errors
    ///
    /// [`AtomError::Full`] where all that may go is not enough; then nothing was evicted.
    pub fn make_room(
        &self,
        wanted: u64,
        keep: &HashSet<Digest>,
        popularity: &dyn Fn(&Digest) -> f64,
    ) -> Result<Evicted, AtomError> {
        let contents = self.contents()?;
        let used: u64 = contents.iter().map(|(_, bytes)| bytes).sum();
        self.bytes.store(used, Ordering::Relaxed);
        let excess = used.saturating_add(wanted).saturating_sub(self.bytes_max);
        let mut may_go: Vec<(Digest, u64)> =
            contents.into_iter().filter(|(digest, _)| !keep.contains(digest)).collect();
        if may_go.iter().map(|(_, bytes)| bytes).sum::<u64>() < excess {
            return Err(AtomError::Full { used, most: self.bytes_max, wanted });
        }
        let order = |(digest, bytes): &(Digest, u64)| (popularity(digest), *bytes);
        // Of those that are equally popular the larger ones go first, as fewer are then enough.
        may_go.sort_by(|one, two| {
            let ((first, first_bytes), (second, second_bytes)) = (order(one), order(two));
            first.total_cmp(&second).then(second_bytes.cmp(&first_bytes)).then(one.0.cmp(&two.0))
        });
        let mut evicted = Evicted::default();
        for (digest, bytes) in may_go {
            if evicted.bytes >= excess {
                break;
            }
            self.remove(&digest, bytes)?;
            evicted.contents += 1;
            evicted.bytes += bytes;
        }
        Ok(evicted)
    }

    /// Removes some content; its bytes, 0 where it was not there.
    ///
    /// # Errors
    ///
    /// It cannot be removed.
    pub fn evict(&self, digest: &Digest) -> Result<u64, AtomError> {
        let Some(Mark { bytes, .. }) = self.mark(digest) else { return Ok(0) };
        self.remove(digest, bytes)?;
        Ok(bytes)
    }

    /// All contents, each with its bytes.
    ///
    /// # Errors
    ///
    /// The folder cannot be read.
    pub fn contents(&self) -> Result<Vec<(Digest, u64)>, AtomError> {
        let mut found = Vec::new();
        let whole = self.folder.join(WHOLE);
        for part in fs::read_dir(&whole).map_err(at(&whole))? {
            let part = part.map_err(at(&whole))?.path();
            for entry in fs::read_dir(&part).map_err(at(&part))? {
                let entry = entry.map_err(at(&part))?;
                // A file of another name is none of ours, and is left alone.
                let Some(digest) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
                let metadata = entry.metadata().map_err(at(&entry.path()))?;
                found.push((digest, metadata.size()));
            }
        }
        Ok(found)
    }

    /// Where some content lies: in one of 256 folders, by the first byte of its digest.
    pub(super) fn path(&self, digest: &Digest) -> PathBuf {
        let name = digest.to_string();
        self.folder.join(WHOLE).join(&name[..2]).join(name)
    }

    fn check_room(&self, wanted: u64) -> Result<(), AtomError> {
        let used = self.bytes();
        if used.saturating_add(wanted) > self.bytes_max {
            return Err(AtomError::Full { used, most: self.bytes_max, wanted });
        }
        Ok(())
    }

    fn partial(&self) -> Result<Partial, AtomError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(PARTIAL).join(format!("{}-{number}", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&path).map_err(at(&path))?;
        Ok(Partial { path, file })
    }

    fn complete(&self, partial: &Partial, digest: &Digest, bytes: u64) -> Result<(), AtomError> {
        let path = self.path(digest);
        if path.exists() {
            return Ok(());
        }
        let folder = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder).map_err(at(folder))?;
        partial.file.sync_all().map_err(at(&partial.path))?;
        fs::rename(&partial.path, &path).map_err(at(&path))?;
        // The name too outlives the loss of power.
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(at(folder))?;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn remove(&self, digest: &Digest, bytes: u64) -> Result<(), AtomError> {
        let path = self.path(digest);
        fs::remove_file(&path).map_err(at(&path))?;
        let _ = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| Some(used.saturating_sub(bytes)));
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // One that became whole is no longer here.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes what no process writes any more; another process may be writing right now.
fn remove_abandoned(partial: &Path) -> Result<(), AtomError> {
    for entry in fs::read_dir(partial).map_err(at(partial))? {
        let path = entry.map_err(at(partial))?.path();
        let written = fs::metadata(&path).and_then(|metadata| metadata.modified()).ok();
        if written.and_then(|written| written.elapsed().ok()).is_some_and(|age| age > ABANDONED) {
            // Another process may remove it as well.
            let _ = fs::remove_file(&path);
        }
    }
    Ok(())
}

/// Copies and digests, and stops behind `most` bytes.
fn copy(from: &mut dyn Read, to: &mut Partial, most: u64) -> Result<(Digest, u64), AtomError> {
    let mut digesting = Digesting::new();
    let mut piece = vec![0; PIECE_BYTES];
    let mut bytes = 0u64;
    while bytes <= most {
        let room = usize::try_from((most - bytes).saturating_add(1)).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        let read = from.read(&mut piece[..room]).map_err(at(&to.path))?;
        if read == 0 {
            break;
        }
        digesting.update(&piece[..read]);
        to.file.write_all(&piece[..read]).map_err(at(&to.path))?;
        bytes += read as u64;
    }
    Ok((digesting.finish(), bytes))
}
