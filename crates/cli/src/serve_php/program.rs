//! Which program runs PHP.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Where it is looked for beside the search path, which seldom has these for users other than root.
const FOLDERS: [&str; 2] = ["/usr/local/sbin", "/usr/sbin"];

/// There is none.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum NoProgram {
    /// None was found.
    #[error(
        "there is no php-fpm on this machine; install it (apt-get install php-fpm), or name one by \
         php = {{ program = \"FILE\" }}"
    )]
    Nowhere,
    /// The one that the configuration names.
    #[error("{0} is no program; install it (apt-get install php-fpm), or leave `program` away to have one found")]
    Named(PathBuf),
}

/// The program that a configuration names, or else the newest that is found.
pub(super) fn find(named: Option<&Path>, search_path: Option<&OsStr>) -> Result<PathBuf, NoProgram> {
    if let Some(named) = named {
        let is_there = is_program(named);
        return if is_there { Ok(named.to_owned()) } else { Err(NoProgram::Named(named.to_owned())) };
    }
    let folders = search_path.map(|path| std::env::split_paths(path).collect::<Vec<_>>()).unwrap_or_default();
    newest(folders.into_iter().chain(FOLDERS.map(PathBuf::from))).ok_or(NoProgram::Nowhere)
}

/// The newest of the programs in these directories by its version, and among equals the first: one without a version is
/// what the administrator has chosen.
fn newest(folders: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let mut found: Option<(u64, PathBuf)> = None;
    for folder in folders {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(rest) = name.to_str().and_then(|name| name.strip_prefix("php-fpm")) else { continue };
            let Some(version) = version(rest).filter(|_| is_program(&entry.path())) else { continue };
            if found.as_ref().is_none_or(|(known, _)| *known < version) {
                found = Some((version, entry.path()));
            }
        }
    }
    found.map(|(_, path)| path)
}

/// A version such as 8.2 as a number; the largest one for none.
fn version(text: &str) -> Option<u64> {
    if text.is_empty() {
        return Some(u64::MAX);
    }
    let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
    Some(major.parse::<u32>().map(u64::from).ok()? << 32 | u64::from(minor.parse::<u32>().ok()?))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_found_unless_one_was_chosen() {
        let folder = tempfile::tempdir().expect("a directory");
        let add = |name: &str, mode: u32| {
            let path = folder.path().join(name);
            fs::write(&path, "").expect("writes");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("sets");
            path
        };
        let here = || newest(std::iter::once(folder.path().to_owned()));
        assert_eq!(here(), None);
        add("php-fpm9.9", 0o644);
        add("php-fpm-old", 0o755);
        add("php-fpm8.2", 0o755);
        let ten = add("php-fpm8.10", 0o755);
        assert_eq!(here(), Some(ten.clone()));
        let chosen = add("php-fpm", 0o755);
        assert_eq!(here(), Some(chosen));
        assert_eq!(find(Some(&ten), None), Ok(ten));
    }

    #[test]
    fn what_is_missing_is_told_with_its_package() {
        let error = find(Some(Path::new("/nonexistent/php-fpm")), None).expect_err("it is not there");
        assert!(error.to_string().contains("/nonexistent/php-fpm is no program; install it (apt-get install php-fpm)"));
        assert!(NoProgram::Nowhere.to_string().contains("apt-get install php-fpm"));
    }
}
