//! Runs that were made of the runs of several hosts: a file in such a run says which hosts.

use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::Path;

/// The file.
const FILE: &str = "joined.json";
/// No list is longer, bytes.
const MOST_BYTES: u64 = 1 << 20;

/// A host whose run was joined with others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinedHost {
    /// Its name among the others'.
    pub name: String,
    /// By how much its clock may be wrong against that of the first one, nanoseconds; 0 for the first one.
    pub clock_error_ns: u64,
}

/// What is known of a run that was made of several hosts' runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinedHosts {
    /// The hosts, in the order of their numbers in tasks and lanes.
    pub hosts: Vec<JoinedHost>,
    /// What a reader should know before trusting the run.
    pub warnings: Vec<String>,
    /// Bytes of the hosts' own runs that could not be read, which the joined run does not hold.
    pub damaged_bytes: u64,
    /// Segments of the hosts' own runs that end in the middle of a block.
    pub cut_segments: u64,
}

impl JoinedHosts {
    /// Notes it in a run's directory.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, run: &Path) -> io::Result<()> {
        fs::write(run.join(FILE), serde_json::to_vec(self)?)
    }

    /// What a run's directory says; `None` of the run of one host.
    ///
    /// # Errors
    /// The file is there and cannot be read, is longer than 1 MiB, or says something else.
    pub fn read(run: &Path) -> io::Result<Option<Self>> {
        let path = run.join(FILE);
        match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
            Ok(data) if data.len() > MOST_BYTES => return Err(io::Error::other("it is longer than any list of hosts")),
            Ok(_) => {}
        }
        Ok(Some(serde_json::from_slice(&fs::read(&path)?)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_read_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let run = folder.path();
        assert_eq!(JoinedHosts::read(run).expect("no file is no mistake"), None);
        let hosts = [("web\none", 0), ("store", 5)]
            .map(|(name, error)| JoinedHost { name: name.into(), clock_error_ns: error });
        let told =
            JoinedHosts { hosts: hosts.to_vec(), warnings: vec!["a clock".into()], damaged_bytes: 3, cut_segments: 1 };
        told.write(run).expect("written");
        assert_eq!(JoinedHosts::read(run).expect("read"), Some(told));
        fs::write(run.join(FILE), "{\"hosts\":[{}]}").expect("written");
        assert!(JoinedHosts::read(run).is_err());
        fs::write(run.join(FILE), vec![b' '; MOST_BYTES as usize + 1]).expect("written");
        assert!(JoinedHosts::read(run).is_err());
    }
}
