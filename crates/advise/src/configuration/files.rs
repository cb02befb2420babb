//! Reading configuration files: within bounds, and as the server sees them.

use super::pattern;
use std::cell::Cell;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

/// Bytes of one file.
const MOST_FILE_BYTES: u64 = 1 << 20;
/// Bytes of all files of a server.
const MOST_BYTES: u64 = 16 << 20;
/// Files of a server.
const MOST_FILES: usize = 2000;
/// Files that one pattern may match.
const MOST_MATCHES: usize = 1000;

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// The system refuses.
    #[error("{path}: {source}{}", remedy(source))]
    System {
        /// The file.
        path: String,
        /// Its reason.
        source: std::io::Error,
    },
    /// It is a folder, a pipe or a device.
    #[error("{path}: no regular file; it is not read")]
    NoFile {
        /// Its path.
        path: String,
    },
    /// It is larger than any configuration.
    #[error("{path}: larger than 1 MiB, which no configuration is; it is not read")]
    TooLarge {
        /// The file.
        path: String,
    },
    /// Too many files, or too many bytes.
    #[error("{path}: not read, the configuration is larger than {MOST_FILES} files or 16 MiB")]
    TooMany {
        /// The file.
        path: String,
    },
}

/// The files as one server sees them, with what may still be read of them.
#[derive(Debug)]
pub(crate) struct Files {
    root: PathBuf,
    bytes: Cell<u64>,
    files: Cell<usize>,
}

impl Files {
    /// Files below a root; `/` for our own, `/proc/PID/root` for those of a container.
    pub(crate) fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), bytes: Cell::new(0), files: Cell::new(0) }
    }

    /// A file's text; what is no UTF-8 in it is replaced.
    ///
    /// # Errors
    /// [`ReadError`].
    pub(crate) fn read(&self, path: &Path) -> Result<String, ReadError> {
        let name = || path.display().to_string();
        if self.files.get() >= MOST_FILES || self.bytes.get() >= MOST_BYTES {
            return Err(ReadError::TooMany { path: name() });
        }
        let system = |source| ReadError::System { path: name(), source };
        let mut bytes = Vec::new();
        // A pipe or a device would keep us waiting, or never end.
        let file =
            OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(self.seen(path)).map_err(system)?;
        if !file.metadata().map_err(system)?.is_file() {
            return Err(ReadError::NoFile { path: name() });
        }
        file.take(MOST_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(system)?;
        if bytes.len() as u64 > MOST_FILE_BYTES {
            return Err(ReadError::TooLarge { path: name() });
        }
        self.files.set(self.files.get() + 1);
        self.bytes.set(self.bytes.get() + bytes.len() as u64);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The paths that a pattern stands for, in the order of their names; a path without a pattern is itself.
    pub(crate) fn matching(&self, path: &Path) -> Vec<PathBuf> {
        let mut found = vec![PathBuf::new()];
        for component in path.components() {
            let Component::Normal(name) = component else {
                found.iter_mut().for_each(|path| path.push(component));
                continue;
            };
            let Some(name) = name.to_str().filter(|name| pattern::is_pattern(name)) else {
                found.iter_mut().for_each(|path| path.push(name));
                continue;
            };
            found = found.iter().flat_map(|folder| self.within(folder, name)).take(MOST_MATCHES).collect();
        }
        found
    }

    /// The names in a folder that fit a pattern, sorted.
    fn within(&self, folder: &Path, name: &str) -> Vec<PathBuf> {
        let listing = std::fs::read_dir(self.seen(folder)).into_iter().flatten().flatten();
        let names = listing.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|other| pattern::fits(name, other)).collect();
        names.sort();
        names.into_iter().map(|name| folder.join(name)).collect()
    }

    /// The entries of a folder, sorted; nothing if it is none.
    pub(crate) fn folder(&self, path: &Path) -> Vec<PathBuf> {
        let mut entries = self.within(path, "*");
        entries.truncate(MOST_MATCHES);
        entries
    }

    /// Whether something is there.
    pub(crate) fn exists(&self, path: &Path) -> bool {
        self.seen(path).exists()
    }

    /// Whether it is a folder.
    pub(crate) fn is_folder(&self, path: &Path) -> bool {
        self.seen(path).is_dir()
    }

    /// Where we find a path of the server's.
    fn seen(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

fn remedy(error: &std::io::Error) -> &'static str {
    if error.kind() == std::io::ErrorKind::PermissionDenied { " (ask as root, or as the server's user)" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_in_folders_and_names() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        for name in ["b/x.conf", "a/y.conf", "a/x.conf", "a/no.txt"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, name).expect("written");
        }
        let files = Files::below(folder.path());
        let found = files.matching(Path::new("/*/[x-y].conf"));
        assert_eq!(found, [Path::new("/a/x.conf"), Path::new("/a/y.conf"), Path::new("/b/x.conf")]);
        assert_eq!(files.read(&found[2]).expect("there"), "b/x.conf");
        assert!(files.read(Path::new("/none")).expect_err("not there").to_string().starts_with("/none: "));
        assert!(matches!(files.read(Path::new("/a")), Err(ReadError::NoFile { .. })));
        assert!(files.is_folder(Path::new("/a")) && files.exists(&found[0]));
    }

    #[test]
    fn a_huge_file_is_refused() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(folder.path().join("big"), vec![b'a'; (MOST_FILE_BYTES + 1) as usize]).expect("written");
        assert!(matches!(Files::below(folder.path()).read(Path::new("/big")), Err(ReadError::TooLarge { .. })));
    }
}
