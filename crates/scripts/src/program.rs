//! Which program runs a script.

use crate::owner::{NotOwned, Owned};
use crate::pool::Pool;
use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

/// A file as it was when it was looked at: what differs if it was changed or replaced.
pub(crate) type Stamp = (u64, u64, i64, i64, u64);

/// A script and what runs it.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// The script's file, in messages.
    pub(crate) name: String,
    pub(crate) file: CString,
    pub(crate) arguments: Vec<CString>,
    pub(crate) folder: CString,
    pub(crate) stamp: Stamp,
    /// As whom it runs, if that is the owner of its file.
    pub(crate) owned: Option<Owned>,
}

impl Program {
    /// Whether the script's file is the program.
    pub(crate) fn is_own(&self) -> bool {
        self.file.as_bytes() == self.name.as_bytes()
    }
}

/// A script cannot be run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotRun {
    /// The request names none.
    #[error("the request names no script")]
    Unnamed,
    /// It lies elsewhere.
    #[error("{0} is not below the directory of scripts")]
    Elsewhere(String),
    /// It is no file.
    #[error("{0} is no file; restore it, or ask for another path")]
    NoFile(String),
    /// It is not executable.
    #[error("{0} may not be executed by the user that scripts run as; allow it (chmod +x), or name a program by `run`")]
    NotExecutable(String),
    /// Its interpreter is not there.
    #[error("{0} names a program that is not there in its first line, or a library that it needs is not; install that")]
    NoInterpreter(String),
    /// The kernel does not know the format.
    #[error("{0} is no program: its first line does not begin with #!; add one, or name a program by `run`")]
    NoFormat(String),
    /// No engine runs it.
    #[error("{0} is no script of Perl or Python, by its ending (.pl, .py) or its first line; serve it by `cgi`")]
    NoEngine(String),
    /// The kernel gives a program less (execve(2): 128 KiB for a variable, and a part of the stack's bound for all).
    #[error("the variables of a request to {0} are longer than the system gives programs")]
    TooLong(String),
    /// Its owner is none as whom scripts run, or others could change it.
    #[error("{0} is not run as its owner: {1}")]
    NotOwned(String, NotOwned),
    /// Another error.
    #[error("{0} cannot be started: {1}")]
    Failed(String, io::Error),
}

impl NotRun {
    /// The status of the response.
    pub(crate) fn status(&self) -> u16 {
        match self {
            Self::Unnamed | Self::Elsewhere(_) | Self::NoFile(_) => 404,
            Self::NotExecutable(_) | Self::NotOwned(..) => 403,
            Self::NoInterpreter(_) | Self::NoFormat(_) | Self::NoEngine(_) => 500,
            Self::TooLong(_) => 431,
            Self::Failed(..) => 503,
        }
    }

    /// Why the kernel did not start the program of a script.
    pub(crate) fn of(script: &str, error: io::Error) -> Self {
        let name = script.to_owned();
        match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => Self::NotExecutable(name),
            Some(libc::ENOENT | libc::ENOTDIR) if Path::new(script).is_file() => Self::NoInterpreter(name),
            Some(libc::ENOENT | libc::ENOTDIR) => Self::NoFile(name),
            Some(libc::E2BIG) => Self::TooLong(name),
            Some(libc::ENOEXEC) => Self::NoFormat(name),
            _ => Self::Failed(name, error),
        }
    }
}

/// The program for a script below the directory of a pool.
pub(crate) fn of_script(pool: &Pool, script: &[u8]) -> Result<Program, NotRun> {
    if script.is_empty() {
        return Err(NotRun::Unnamed);
    }
    let path = Path::new(OsStr::from_bytes(script));
    let name = path.to_string_lossy().into_owned();
    // The server has looked already; a mistake there shall not start another file.
    let is_plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !is_plain || !path.starts_with(&pool.root) {
        return Err(NotRun::Elsewhere(name));
    }
    let stamp = stamp(path).ok_or_else(|| NotRun::NoFile(name.clone()))?;
    let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| NotRun::Elsewhere(name.clone()));
    let file = text(script)?;
    let folder = text(path.parent().unwrap_or(Path::new("/")).as_os_str().as_bytes())?;
    let with = pool.interpreters.iter().find(|(ending, _)| script.ends_with(ending.as_bytes()));
    let (file, arguments) = match with {
        Some((_, program)) => {
            let program = text(program.as_os_str().as_bytes())?;
            (program.clone(), vec![program, file])
        }
        None => (file.clone(), vec![file]),
    };
    Ok(Program { name, file, arguments, folder, stamp, owned: None })
}

/// The stamp of a regular file.
pub(crate) fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    Some((metadata.dev(), metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), metadata.size()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_files_below_the_directory_are_run() {
        let folder = tempfile::tempdir().expect("a directory");
        let root = folder.path().join("cgi-bin");
        fs::create_dir(&root).expect("creates");
        fs::write(root.join("a.pl"), "").expect("writes");
        fs::write(folder.path().join("b.pl"), "").expect("writes");
        let pool = Pool {
            root: root.clone(),
            interpreters: vec![(".pl".to_owned(), "/usr/bin/perl".into())],
            ..Pool::default()
        };
        let of = |path: &Path| of_script(&pool, path.as_os_str().as_bytes());
        let program = of(&root.join("a.pl")).expect("it is there");
        assert_eq!((program.file.to_str(), program.arguments.len()), (Ok("/usr/bin/perl"), 2));
        for path in [root.join("../b.pl"), folder.path().join("b.pl"), "a.pl".into(), root.join("./../b.pl")] {
            assert!(matches!(of(&path), Err(NotRun::Elsewhere(_))), "{}", path.display());
        }
        assert!(matches!(of(&root.join("c.pl")), Err(NotRun::NoFile(_))));
        assert!(matches!(of(&root), Err(NotRun::NoFile(_))));
        assert!(matches!(of(Path::new("")), Err(NotRun::Unnamed)));
    }
}
