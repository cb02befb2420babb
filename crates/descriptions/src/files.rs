//! Files that a description names: read by the program that asks for the scenario.

/// The files of the machine. Relative paths begin at the directory of the description.
pub trait Files {
    /// The text of a file; none if it cannot be read, is no UTF-8, or has more than `most` bytes.
    fn read(&self, path: &str, most: u64) -> Option<String>;
}

/// No files, for a text alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _path: &str, _most: u64) -> Option<String> {
        None
    }
}
