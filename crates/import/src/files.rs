//! Files that a configuration includes or names: read by the program that imports.

/// What lies at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// A file.
    File,
    /// A directory.
    Directory,
}

/// The files of the machine that the configuration is for. Paths are absolute.
pub trait Files {
    /// The text of a file; none if it cannot be read.
    fn read(&self, path: &str) -> Option<String>;

    /// The files whose paths match a pattern of the shell (`*`, `?`, `[...]`), in the order of their names.
    fn matching(&self, pattern: &str) -> Vec<String>;

    /// What lies at a path.
    fn entry(&self, path: &str) -> Option<Entry>;

    /// The files of this name in the directories below a directory, in order.
    fn below(&self, directory: &str, name: &str) -> Vec<String>;

    /// A variable of the environment.
    fn variable(&self, name: &str) -> Option<String>;
}

/// No files, for a text alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _path: &str) -> Option<String> {
        None
    }

    fn matching(&self, _pattern: &str) -> Vec<String> {
        Vec::new()
    }

    fn entry(&self, _path: &str) -> Option<Entry> {
        None
    }

    fn below(&self, _directory: &str, _name: &str) -> Vec<String> {
        Vec::new()
    }

    fn variable(&self, _name: &str) -> Option<String> {
        None
    }
}

/// A path from a directory, without `.`, `..` and double slashes.
pub(crate) fn join(folder: &str, path: &str) -> String {
    let whole = if path.starts_with('/') { path.to_owned() } else { format!("{folder}/{path}") };
    let mut segments: Vec<&str> = Vec::new();
    for segment in whole.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            other => segments.push(other),
        }
    }
    format!("/{}", segments.join("/"))
}

/// The directory of a file.
pub(crate) fn folder_of(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((folder, _)) => folder,
    }
}
