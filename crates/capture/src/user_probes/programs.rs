//! The files that a server's processes run and map.

use super::error::ProbeError;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files that are looked at; a process maps some dozens.
const MOST_FILES: usize = 4096;

/// What the processes of a server run and map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Programs {
    /// Programs by the path under which they can be opened, with their names.
    programs: BTreeMap<PathBuf, String>,
    /// The same by device and inode: each is opened under one path.
    known: BTreeSet<(u64, u64)>,
    /// By their names in the processes' own view: programs and libraries.
    files: BTreeMap<String, PathBuf>,
}

impl Programs {
    /// Of these processes; of those that may not be looked at, nothing.
    #[must_use]
    pub fn of(pids: impl IntoIterator<Item = u32>) -> Self {
        let mut found = Self::default();
        for pid in pids {
            found.program(pid);
            for path in mapped(&fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default()) {
                found.note(pid, Path::new(path));
            }
        }
        found
    }

    /// Remembers the program that a process runs.
    fn program(&mut self, pid: u32) -> Option<()> {
        let link = PathBuf::from(format!("/proc/{pid}/exe"));
        let (told, own) = (fs::read_link(&link).ok()?, identity(&link)?);
        if !self.known.insert(own) {
            return Some(());
        }
        let path = self.note(pid, &told).filter(|path| identity(path) == Some(own));
        // One that an update has replaced since, or of the same name as another container's: it is what the process runs.
        let path = path.unwrap_or(link);
        let name = told.file_name()?.to_str()?;
        let name = name.strip_suffix(" (deleted)").unwrap_or(name).to_owned();
        self.files.entry(name.clone()).or_insert_with(|| path.clone());
        self.programs.insert(path, name);
        Some(())
    }

    /// Remembers a file by its name; returns where it can be opened.
    fn note(&mut self, pid: u32, path: &Path) -> Option<PathBuf> {
        let name = path.file_name()?.to_str()?.to_owned();
        if let Some(known) = self.files.get(&name) {
            return Some(known.clone());
        }
        if self.files.len() >= MOST_FILES {
            return None;
        }
        // A process in a container has files of its own; they can be opened through it.
        let through = PathBuf::from(format!("/proc/{pid}/root{}", path.display()));
        let path = match (identity(path), identity(&through)) {
            (Some(here), Some(there)) if here == there => path.to_owned(),
            (_, Some(_)) => through,
            (Some(_), None) => path.to_owned(),
            (None, None) => return None,
        };
        self.files.insert(name, path.clone());
        Some(path)
    }

    /// The programs that the processes run: where each can be opened, and its name.
    pub fn programs(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.programs.iter().map(|(path, name)| (path.as_path(), name.as_str()))
    }

    /// The file of a path, or the one of this name that a process runs or maps.
    ///
    /// # Errors
    /// [`ProbeError::NotMapped`] for a name that none has.
    pub fn file(&self, name: &str) -> Result<PathBuf, ProbeError> {
        if name.contains('/') {
            return Ok(PathBuf::from(name));
        }
        self.files.get(name).cloned().ok_or_else(|| ProbeError::NotMapped { name: name.to_owned() })
    }
}

/// Device and inode, by which a file is the same under all its paths.
fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).map(|found| (found.dev(), found.ino())).ok()
}

/// The files that a table of mappings (proc(5)) holds instructions of.
fn mapped(maps: &str) -> impl Iterator<Item = &str> {
    maps.lines().filter_map(|line| {
        let (fields, path) = line.split_at_checked(line.find('/')?)?;
        let executable = fields.split_ascii_whitespace().nth(1)?.contains('x');
        (executable && !path.ends_with(" (deleted)")).then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_runs_its_own_program_and_maps_the_library() {
        let programs = Programs::of([std::process::id()]);
        let own = std::env::current_exe().expect("a program");
        let name = own.file_name().and_then(|name| name.to_str()).expect("its name");
        assert_eq!(programs.programs().collect::<Vec<_>>(), [(own.as_path(), name)]);
        let library = programs.file("libc.so.6").expect("the C library is mapped");
        assert!(library.is_file());
        assert_eq!(programs.file("/a/b").expect("a path is taken as it is"), Path::new("/a/b"));
        let error = programs.file("no-such-library.so").expect_err("no program maps it");
        assert!(error.to_string().contains("no-such-library.so"));
    }

    /// As after an update of a server that was not restarted.
    #[test]
    fn a_program_that_was_replaced_is_still_the_one_that_runs() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let program = folder.path().join("nginx");
        fs::copy("/bin/sleep", &program).expect("a program");
        let mut processes: Vec<_> =
            (0..2).map(|_| std::process::Command::new(&program).arg("30").spawn().expect("it starts")).collect();
        fs::remove_file(&program).expect("it was there");
        fs::copy("/bin/cat", &program).expect("another program");
        let programs = Programs::of(processes.iter().map(std::process::Child::id));
        let found: Vec<_> = programs.programs().map(|(path, name)| (fs::read(path).ok(), name.to_owned())).collect();
        let by_name = programs.file("nginx").ok().and_then(|path| fs::read(path).ok());
        for process in &mut processes {
            process.kill().and_then(|()| process.wait()).expect("it ends");
        }
        let sleep = fs::read("/bin/sleep").expect("readable");
        assert!(found == [(Some(sleep.clone()), "nginx".to_owned())], "one program, and the one that runs");
        assert!(by_name == Some(sleep));
    }

    #[test]
    fn only_instructions_count() {
        let maps = "\
55d0-55d1 r--p 00000000 fe:01 12 /usr/sbin/a
55d1-55d2 r-xp 00001000 fe:01 12 /usr/sbin/a
7f00-7f01 r-xp 00000000 fe:01 13 /usr/lib/with space.so
7f02-7f03 r-xp 00000000 fe:01 14 /usr/lib/old.so (deleted)
7ffc-7ffd r-xp 00000000 00:00 0 [vdso]
broken";
        assert_eq!(mapped(maps).collect::<Vec<_>>(), ["/usr/sbin/a", "/usr/lib/with space.so"]);
    }
}
