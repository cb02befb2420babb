//! The files that options name: read where they are, or copied to and from the host where a part of the run is made.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_load::workers::{FILES_BYTES_MAX, FilePiece, PIECE_BYTES_MAX};

/// Where the files of options are.
#[derive(Debug, Default)]
pub(crate) enum Files {
    /// Where they are named.
    #[default]
    Here,
    /// The same, and each is copied when it is first read.
    Copied(RefCell<Copies>),
    /// Nowhere but among those that the orchestrator sent: what a worker's own host has is never read.
    Sent(Copies),
}

/// Copies without a name of their own: they are gone with the process, however that ends.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    files: Vec<(String, File)>,
    bytes: usize,
}

/// Why a file cannot be read for the workers.
#[derive(Debug, thiserror::Error)]
enum CopyError {
    #[error("the files of a run are sent to its workers, and are larger than {} MiB together", FILES_BYTES_MAX >> 20)]
    TooLarge,
    #[error("its name is not UTF-8, and goes to workers as text; give it another one")]
    Name,
    #[error("it was not sent with the run, and a worker reads no file of its own host")]
    NotSent,
}

impl Files {
    /// Files that are copied when they are read.
    pub(crate) fn copied() -> Self {
        Self::Copied(RefCell::default())
    }

    /// Where the file of a name can be opened, any number of times.
    ///
    /// # Errors
    /// It cannot be read, is too large to be sent, or was not sent.
    pub(crate) fn place(&self, path: &Path) -> io::Result<PathBuf> {
        let name = || path.to_str().ok_or_else(|| io::Error::other(CopyError::Name));
        match self {
            Self::Here => Ok(path.to_path_buf()),
            Self::Copied(copies) => copies.borrow_mut().copy(name()?, path),
            Self::Sent(copies) => {
                copies.find(name()?).ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, CopyError::NotSent))
            }
        }
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// As [`Files::place`].
    pub(crate) fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(self.place(path)?)
    }

    /// All that was copied, in pieces that go to workers.
    pub(crate) fn pieces(&self) -> io::Result<Vec<Arc<FilePiece>>> {
        let Self::Copied(copies) = self else { return Ok(Vec::new()) };
        let mut pieces = Vec::new();
        for (name, file) in &copies.borrow().files {
            let bytes = std::fs::read(opened(file))?;
            // An empty file is a piece without bytes.
            let parts = bytes.chunks(PIECE_BYTES_MAX).map(<[u8]>::to_vec);
            let parts: Vec<Vec<u8>> = if bytes.is_empty() { vec![Vec::new()] } else { parts.collect() };
            pieces.extend(parts.into_iter().map(|bytes| Arc::new(FilePiece { name: name.clone(), bytes })));
        }
        Ok(pieces)
    }
}

impl Copies {
    /// Adds a piece of a file that was sent.
    pub(crate) fn add(&mut self, piece: &FilePiece) -> io::Result<()> {
        let place = self.files.iter().position(|(name, _)| *name == piece.name);
        let place = match place {
            Some(place) => place,
            None => {
                self.files.push((piece.name.clone(), tempfile::tempfile()?));
                self.files.len() - 1
            }
        };
        self.files[place].1.write_all(&piece.bytes)
    }

    fn find(&self, name: &str) -> Option<PathBuf> {
        self.files.iter().find(|(known, _)| known == name).map(|(_, file)| opened(file))
    }

    /// Copies a file, or standard input where its name is `-`.
    fn copy(&mut self, name: &str, path: &Path) -> io::Result<PathBuf> {
        if let Some(place) = self.find(name) {
            return Ok(place);
        }
        let left = (FILES_BYTES_MAX - self.bytes) as u64;
        let mut bytes = Vec::new();
        if name == "-" {
            io::stdin().lock().take(left + 1).read_to_end(&mut bytes)?;
        } else {
            File::open(path)?.take(left + 1).read_to_end(&mut bytes)?;
        }
        if bytes.len() as u64 > left {
            return Err(io::Error::other(CopyError::TooLarge));
        }
        self.bytes += bytes.len();
        let mut file = tempfile::tempfile()?;
        file.write_all(&bytes)?;
        file.rewind()?;
        let place = opened(&file);
        self.files.push((name.to_owned(), file));
        Ok(place)
    }
}

/// Where a file without a name can be opened anew, from its beginning.
fn opened(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_reads_what_was_sent_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("body");
        let body = vec![b'x'; PIECE_BYTES_MAX + 7];
        std::fs::write(&path, &body).expect("written");
        let here = Files::copied();
        assert_eq!(here.read(&path).expect("it is there"), body);
        assert_eq!(here.read(&path).expect("it was copied"), body);
        let pieces = here.pieces().expect("copies");
        assert_eq!(pieces.len(), 2);
        let mut copies = Copies::default();
        pieces.iter().try_for_each(|piece| copies.add(piece)).expect("room");
        let there = Files::Sent(copies);
        assert_eq!(there.read(&path).expect("it was sent"), body);
        let refused = there.read(Path::new("/etc/passwd")).expect_err("it was not sent").to_string();
        assert!(refused.contains("was not sent"), "{refused}");
    }

    #[test]
    fn what_is_too_large_is_refused() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("large");
        File::create(&path).and_then(|file| file.set_len(FILES_BYTES_MAX as u64 + 1)).expect("a file");
        let refused = Files::copied().read(&path).expect_err("too large").to_string();
        assert!(refused.contains("larger than 64 MiB"), "{refused}");
    }
}
