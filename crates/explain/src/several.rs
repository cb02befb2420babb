//! A directory that holds the runs of several hosts: a file in it says which.

use anyhow::Context;
use std::path::{Path, PathBuf};
use weir_trace::{holds_several, list_of};

/// No list is longer, bytes.
const MOST_BYTES: u64 = 1 << 16;

/// Notes that a directory holds the runs of several hosts, by the names of their directories in it.
///
/// # Errors
/// The file cannot be written.
pub fn note_hosts(directory: &Path, names: &[&str]) -> anyhow::Result<()> {
    let path = list_of(directory);
    std::fs::write(&path, names.iter().map(|name| format!("{name}\n")).collect::<String>())
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The runs that a user means: in place of a directory that holds those of several hosts, these.
///
/// # Errors
/// A list of hosts cannot be read, or names what is no directory in it.
pub fn runs_of(named: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut runs = Vec::new();
    for directory in named {
        let path = list_of(directory);
        if !holds_several(directory) {
            runs.push(directory.clone());
            continue;
        }
        let read = || -> anyhow::Result<String> {
            anyhow::ensure!(path.metadata()?.len() <= MOST_BYTES, "it is longer than any list of hosts");
            Ok(std::fs::read_to_string(&path)?)
        };
        let text = read().with_context(|| format!("cannot read {}", path.display()))?;
        for name in text.lines() {
            anyhow::ensure!(
                is_name(name),
                "{}: {name:?} is no directory in {}; name the runs themselves",
                path.display(),
                directory.display()
            );
            runs.push(directory.join(name));
        }
    }
    Ok(runs)
}

/// A name that leads nowhere else.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains('/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_directory_of_hosts_stands_for_their_runs() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let (run, alone) = (folder.path().to_owned(), PathBuf::from("runs/alone"));
        assert_eq!(runs_of(std::slice::from_ref(&run)).expect("a run"), std::slice::from_ref(&run));
        note_hosts(&run, &["web", "store"]).expect("written");
        let expected = [alone.clone(), run.join("web"), run.join("store")];
        assert_eq!(runs_of(&[alone, run.clone()]).expect("runs"), expected);
        note_hosts(&run, &["../web"]).expect("written");
        assert!(runs_of(&[run]).is_err());
    }

    proptest! {
        /// No list leads out of its directory.
        #[test]
        fn no_list_leads_elsewhere(text in "[a-z./\\n]{0,40}") {
            let folder = tempfile::tempdir().expect("a temporary directory");
            std::fs::write(list_of(folder.path()), &text).expect("written");
            for run in runs_of(&[folder.path().to_owned()]).unwrap_or_default() {
                prop_assert_eq!(run.parent(), Some(folder.path()));
            }
        }
    }
}
