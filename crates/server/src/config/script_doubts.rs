//! Looks at scripts before a request does: what would keep them from being run.

use super::script_rights::{self, EXECUTE, READ};
use super::table::Value;
use crate::io::user::User;
use crate::upstream::script_pool::{ScriptPool, ScriptWay};
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Files and directories that are looked at for one table, or for one home.
const LOOKS_MAX: usize = 1_000;
/// Homes that are looked at for one route, and files and directories in all of them.
const HOMES_MAX: usize = 1_000;
const LOOKS_IN_HOMES_MAX: usize = 20_000;
/// Different doubts that are told of homes.
const TOLD_OF_HOMES_MAX: usize = 20;
/// Bytes of a file that are read for the line with its interpreter; the kernel reads no more (execve(2)).
const LINE_BYTES_MAX: u64 = 256;
/// Where `/usr/bin/env` looks for a program unless a table says another PATH.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The least number of a user as whom scripts run (suEXEC's AP_UID_MIN).
const UID_MIN: u32 = 100;
/// Bits of a mode: set-user-ID and set-group-ID; write by group and others.
const SET_ID: u32 = 0o6000;
const WRITE_BY_OTHERS: u32 = 0o022;

/// What keeps a script from being run.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Hindrance {
    /// No user may execute it.
    Permission,
    /// The user that scripts run as may not execute it.
    Execution(String),
    /// Its interpreter cannot read it as that user.
    Reading(String),
    /// The user may not enter its directory, or one above.
    Directory(String, PathBuf),
    /// The line with its interpreter ends as on Windows: the kernel takes CR for a part of the name.
    CarriageReturn,
    /// The interpreter of its first line is not there.
    Interpreter(PathBuf),
    /// It has no line with an interpreter, and is no program.
    NoInterpreter,
    /// It does not run as its owner: why, and what helps.
    Owner(&'static str, &'static str),
}

/// Doubts that scripts can run as their owners where this process could not change users.
pub(super) fn look_at_rights(value: &Value<'_, '_>) {
    // SAFETY: the call takes nothing, and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        let what = "only a server that root starts can run scripts as the owners of their files, and this is not root";
        value.doubt(what, "start the server as root, and check as root; or leave `as_owner` away");
    }
}

/// Looks at the scripts in a directory, and at the programs that run them.
pub(super) fn look(value: &Value<'_, '_>, pool: &ScriptPool, directory: &Path, endings: &[String]) {
    look_at_programs(value, pool);
    if pool.as_owner {
        look_at_rights(value);
    }
    if !directory.is_dir() {
        let what = format!("there is no directory {}, in which scripts are to lie", directory.display());
        value.doubt(what, "make it, or mend `prefix` or `root`");
        return;
    }
    if pool.way == ScriptWay::Isapi {
        return;
    }
    // Of a user that the table names; otherwise it depends on who starts the server. With `as_owner` each script has a
    // user of its own.
    let user = pool.user.as_deref().filter(|_| !pool.as_owner).and_then(|name| User::named(name).ok());
    let mut found = Found::up_to(LOOKS_MAX);
    for file in scripts(directory, endings, &mut LOOKS_MAX.clone()) {
        let of_owner = if pool.as_owner { not_of_owner(&file, &pool.root) } else { None };
        found.add(of_owner.or_else(|| of_pool(&file, pool, user.as_ref())), file);
    }
    found.tell(value, pool.as_owner);
}

/// A home with scripts of its user.
#[derive(Debug)]
pub(super) struct Home<'h> {
    pub(super) user: &'h str,
    pub(super) uid: u32,
    pub(super) home: &'h Path,
    /// Where scripts lie, which need not be there.
    pub(super) directory: PathBuf,
}

/// Looks at the scripts in homes, which run as the users of these.
pub(super) fn look_in_homes(value: &Value<'_, '_>, pool: &ScriptPool, homes: &[Home<'_>], endings: &[String]) {
    look_at_programs(value, pool);
    look_at_rights(value);
    let (found, looked) = find_in_homes(pool, homes, endings, LOOKS_IN_HOMES_MAX);
    found.tell(value, true);
    if looked < homes.len() {
        let left = homes.len() - looked;
        let what = format!("the scripts of {looked} homes were looked at, and those of {left} more were not");
        value.doubt(
            what,
            format!("look at these by themselves; at most {HOMES_MAX} homes and {LOOKS_IN_HOMES_MAX} files are"),
        );
    }
}

/// What keeps scripts in homes from being run, and how many homes were looked at.
fn find_in_homes(pool: &ScriptPool, homes: &[Home<'_>], endings: &[String], mut looks: usize) -> (Found, usize) {
    let mut found = Found::up_to(TOLD_OF_HOMES_MAX);
    for (number, home) in homes.iter().enumerate() {
        if number == HOMES_MAX || looks == 0 {
            return (found, number);
        }
        let mut of_home = looks.min(LOOKS_MAX);
        let before = of_home;
        let files = scripts(&home.directory, endings, &mut of_home);
        looks -= before - of_home;
        let user = if files.is_empty() { None } else { User::named(home.user).ok() };
        for file in files {
            let of_owner = not_of_home(&file, home).or_else(|| not_of_owner(&file, home.home));
            found.add(of_owner.or_else(|| of_pool(&file, pool, user.as_ref())), file);
        }
    }
    (found, homes.len())
}

/// Looks at the programs that run scripts in place of these themselves.
fn look_at_programs(value: &Value<'_, '_>, pool: &ScriptPool) {
    for (ending, program) in &pool.interpreters {
        if !is_program(program) {
            let what = format!("{} is no program that could run {ending}", program.display());
            value.doubt(what, "install it, or mend the path in `run`");
        }
    }
}

/// What keeps a file from being run in a pool, by a user if that is known.
fn of_pool(file: &Path, pool: &ScriptPool, user: Option<&User>) -> Option<Hindrance> {
    let path = pool.env.iter().find(|(name, _)| name == "PATH").map_or(PATH, |(_, path)| path);
    let runs = |(ending, _): &(String, PathBuf)| file.as_os_str().as_bytes().ends_with(ending.as_bytes());
    let is_run = pool.interpreters.iter().any(runs);
    let of_file = if is_run { None } else { hindrance(file, pool.way, path) };
    of_file.or_else(|| of_user(file, user?, is_run || pool.way == ScriptWay::Rte))
}

/// What was found: each hindrance with the first script that has it, and how many have it.
#[derive(Debug)]
struct Found {
    all: Vec<(Hindrance, PathBuf, usize)>,
    most: usize,
    /// Scripts with others than these.
    more: usize,
}

impl Found {
    /// With so many different hindrances.
    fn up_to(most: usize) -> Self {
        Self { all: Vec::new(), most, more: 0 }
    }

    fn add(&mut self, hindrance: Option<Hindrance>, file: PathBuf) {
        let Some(hindrance) = hindrance else { return };
        match self.all.iter().position(|(known, ..)| *known == hindrance) {
            Some(at) => self.all[at].2 += 1,
            None if self.all.len() < self.most => self.all.push((hindrance, file, 1)),
            None => self.more += 1,
        }
    }

    fn tell(self, value: &Value<'_, '_>, as_owner: bool) {
        for (hindrance, file, count) in self.all {
            let (what, remedy) = told(&hindrance, &file, as_owner);
            let others = if count > 1 { format!(", as {} more", count - 1) } else { String::new() };
            value.doubt(format!("{what}{others}"), remedy);
        }
        if self.more > 0 {
            value.doubt(format!("{} more scripts could not be run", self.more), "mend the others, and look again");
        }
    }
}

fn told(hindrance: &Hindrance, file: &Path, as_owner: bool) -> (String, String) {
    let file = file.display();
    let or_user = if as_owner { "" } else { ", or name another `user`" };
    match hindrance {
        Hindrance::Permission => (
            format!("the script {file} may not be executed"),
            format!("chmod +x {file}, or name a program for it in `run`"),
        ),
        Hindrance::Execution(user) => (
            format!("the script {file} may not be executed by {user}, which scripts run as"),
            format!("chmod a+rx {file}{or_user}"),
        ),
        Hindrance::Reading(user) => (
            format!("the script {file} may not be read by {user}, which scripts run as, so its interpreter cannot"),
            format!("chmod a+r {file}{or_user}"),
        ),
        Hindrance::Directory(user, directory) => (
            format!(
                "the script {file} is out of reach for {user}, which scripts run as: {} is closed",
                directory.display()
            ),
            format!("chmod a+x {}{or_user}", directory.display()),
        ),
        Hindrance::CarriageReturn => (
            format!("the first line of the script {file} ends with CR LF, so that its interpreter is not found"),
            format!("sed -i 's/\\r$//' {file}, or name a program for it in `run`"),
        ),
        Hindrance::Interpreter(program) => (
            format!("the script {file} needs {}, which is not there", program.display()),
            "install it, mend the first line of the script, or name a program for it in `run`".to_owned(),
        ),
        Hindrance::Owner(why, remedy) => {
            (format!("the script {file} does not run as its owner: {why}"), (*remedy).to_owned())
        }
        Hindrance::NoInterpreter => (
            format!("the script {file} is no program, and has no first line such as #!/bin/sh"),
            "add one, or name a program for it in `run`".to_owned(),
        ),
    }
}

/// The scripts in a directory and those below it, of as many entries as may be looked at yet.
fn scripts(directory: &Path, endings: &[String], looks: &mut usize) -> Vec<PathBuf> {
    let (mut directories, mut scripts) = (vec![directory.to_owned()], Vec::new());
    while let Some(directory) = directories.pop() {
        let Ok(entries) = fs::read_dir(directory) else { continue };
        for entry in entries.flatten() {
            if *looks == 0 {
                return scripts;
            }
            *looks -= 1;
            let (name, path) = (entry.file_name(), entry.path());
            if name.as_bytes().starts_with(b".") {
                continue;
            }
            // A link to a directory may lead in a circle.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                directories.push(path);
            } else if (endings.is_empty() || endings.iter().any(|ending| name.as_bytes().ends_with(ending.as_bytes())))
                && path.is_file()
            {
                scripts.push(path);
            }
        }
    }
    scripts
}

/// What keeps a file in a home from being run as the user of that.
fn not_of_home(file: &Path, home: &Home<'_>) -> Option<Hindrance> {
    let is_other = file.symlink_metadata().ok()?.uid() != home.uid;
    is_other.then_some(Hindrance::Owner("it belongs to another user than the home", "chown it to the user of the home"))
}

/// What keeps a file below a root from being run as its owner, as far as file and directories say it; the process that
/// runs scripts looks at the owner's groups besides.
fn not_of_owner(file: &Path, root: &Path) -> Option<Hindrance> {
    let metadata = file.symlink_metadata().ok()?;
    let uid = metadata.uid();
    if metadata.file_type().is_symlink() {
        return Some(Hindrance::Owner("it is a symbolic link", "put the file itself there"));
    }
    if uid < UID_MIN {
        return Some(Hindrance::Owner("that is a user of the system (below 100)", "chown it to a person"));
    }
    if metadata.mode() & SET_ID != 0 {
        return Some(Hindrance::Owner("it is set-user-ID or set-group-ID", "chmod ug-s"));
    }
    if metadata.mode() & WRITE_BY_OTHERS != 0 {
        return Some(Hindrance::Owner("its group or others can write it", "chmod go-w"));
    }
    for folder in file.ancestors().skip(1).take_while(|folder| folder.starts_with(root)) {
        let of_folder = folder.symlink_metadata().ok()?;
        if of_folder.uid() != 0 && of_folder.uid() != uid {
            let why = "a directory above it belongs to another user";
            return Some(Hindrance::Owner(why, "chown it to the same user or to root"));
        }
        if folder != root && of_folder.file_type().is_symlink() {
            return Some(Hindrance::Owner("a directory above it is a symbolic link", "put the directory itself there"));
        }
        if !of_folder.file_type().is_symlink() && of_folder.mode() & WRITE_BY_OTHERS != 0 {
            return Some(Hindrance::Owner("its group or others can write a directory above it", "chmod go-w"));
        }
    }
    None
}

/// What keeps a user from running a file that could be run; `is_read` says that a program reads it, so that it need not be
/// executable.
fn of_user(file: &Path, user: &User, is_read: bool) -> Option<Hindrance> {
    let name = || user.name.clone();
    if let Some(directory) = file.parent().and_then(|directory| script_rights::closed(user, directory)) {
        return Some(Hindrance::Directory(name(), directory));
    }
    if !is_read && !script_rights::may(user, file, EXECUTE) {
        return Some(Hindrance::Execution(name()));
    }
    let mut start = [0; 2];
    let is_text = open(file).is_ok_and(|mut file| file.read_exact(&mut start).is_ok()) && &start == b"#!";
    let needs = is_read || is_text;
    (needs && !script_rights::may(user, file, READ)).then(|| Hindrance::Reading(name()))
}

/// What keeps a file from being run.
fn hindrance(file: &Path, way: ScriptWay, path: &str) -> Option<Hindrance> {
    // An interpreter that stays reads its scripts.
    if way != ScriptWay::Rte && !is_executable(&file.metadata().ok()?) {
        return Some(Hindrance::Permission);
    }
    let mut start = Vec::new();
    open(file).ok()?.take(LINE_BYTES_MAX).read_to_end(&mut start).ok()?;
    match interpreter(&start) {
        Some(_) if way != ScriptWay::Rte && ends_with_cr(&start) => Some(Hindrance::CarriageReturn),
        Some(program) => {
            let is_there = if program.starts_with('/') { is_program(program.as_ref()) } else { is_in(path, &program) };
            (!is_there).then(|| Hindrance::Interpreter(program.into()))
        }
        None if way == ScriptWay::Rte || start.starts_with(b"\x7fELF") => None,
        None => Some(Hindrance::NoInterpreter),
    }
}

/// Opens a file without a wait, should its user have put a pipe in its place.
fn open(file: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_NONBLOCK).open(file)
}

/// Whether the first line names its program, or that program's last argument, with CR at the end.
fn ends_with_cr(start: &[u8]) -> bool {
    start.split(|byte| *byte == b'\n').next().is_some_and(|line| line.len() < start.len() && line.ends_with(b"\r"))
}

/// The program of a script's first line; for `/usr/bin/env NAME` the name.
fn interpreter(start: &[u8]) -> Option<String> {
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_ascii_whitespace();
    let program = words.next()?;
    if program.ends_with("/env")
        && let Some(name) = words.find(|word| !word.starts_with('-') && !word.contains('='))
    {
        return Some(name.to_owned());
    }
    Some(program.to_owned())
}

fn is_in(path: &str, program: &str) -> bool {
    path.split(':').any(|directory| is_program(&Path::new(directory).join(program)))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && is_executable(&metadata))
}

fn is_executable(metadata: &Metadata) -> bool {
    metadata.permissions().mode() & 0o111 != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_first_line_names_its_interpreter() {
        for (line, expected) in [
            ("#!/bin/sh\necho", Some("/bin/sh")),
            ("#! /usr/bin/perl -w", Some("/usr/bin/perl")),
            ("#!/usr/bin/env python3\n", Some("python3")),
            ("#!/usr/bin/env -S A=b perl -w\n", Some("perl")),
            ("#!/usr/bin/env\n", Some("/usr/bin/env")),
            ("#!/bin/sh\r\n", Some("/bin/sh")),
            ("#!\n/bin/sh", None),
            (" #!/bin/sh", None),
            ("", None),
        ] {
            assert_eq!(interpreter(line.as_bytes()).as_deref(), expected, "{line:?}");
        }
    }

    #[test]
    fn looks_at_scripts_have_a_bound() {
        let folder = tempfile::tempdir().expect("a directory");
        for number in 0..LOOKS_MAX + 50 {
            fs::write(folder.path().join(format!("{number}.cgi")), "").expect("writes");
        }
        std::os::unix::fs::symlink(".", folder.path().join("circle")).expect("links");
        assert!(scripts(folder.path(), &[], &mut LOOKS_MAX.clone()).len() <= LOOKS_MAX);
        assert!(scripts(folder.path(), &[".pl".to_owned()], &mut LOOKS_MAX.clone()).is_empty());
    }

    #[test]
    fn scripts_in_homes_are_looked_at_up_to_a_bound() {
        let folder = tempfile::tempdir().expect("a directory");
        let uid = folder.path().metadata().expect("it is there").uid();
        let directory = |name: &str| folder.path().join(name).join("public_html/cgi-bin");
        let names = ["ann", "bob", "eve"];
        for name in names {
            fs::create_dir_all(directory(name)).expect("creates");
            for number in 0..10 {
                fs::write(directory(name).join(format!("{number}.sh")), "#!/bin/sh\n").expect("writes");
            }
        }
        let pool = ScriptPool::new(ScriptWay::Cgi, "/".into());
        let homes: Vec<_> = names.iter().map(|&user| (user, folder.path().join(user))).collect();
        let homes = |more: usize| -> Vec<Home<'_>> {
            let all = homes.iter().cycle().take(homes.len() + more);
            all.map(|(user, home)| Home { user, uid: uid + 1, home, directory: directory(user) }).collect()
        };
        // All belong to another user than these homes, which is one doubt.
        let (found, looked) = find_in_homes(&pool, &homes(0), &[], 1_000);
        assert_eq!((found.all.len(), found.all[0].2, found.more, looked), (1, 30, 0, 3));
        assert!(told(&found.all[0].0, &found.all[0].1, true).0.contains("another user than the home"));
        let (found, looked) = find_in_homes(&pool, &homes(0), &[], 20);
        assert_eq!((found.all[0].2, looked), (20, 2));
        let (_, looked) = find_in_homes(&pool, &homes(HOMES_MAX), &[".pl".to_owned()], usize::MAX);
        assert_eq!(looked, HOMES_MAX);
        let mut found = Found::up_to(1);
        found.add(Some(Hindrance::Permission), "a".into());
        found.add(Some(Hindrance::NoInterpreter), "b".into());
        found.add(Some(Hindrance::Permission), "c".into());
        assert_eq!((found.all.len(), found.all[0].2, found.more), (1, 2, 1));
    }

    proptest! {
        #[test]
        fn any_first_line_is_read(start in proptest::collection::vec(any::<u8>(), 0..40)) {
            let line = [b"#!", start.as_slice()].concat();
            if let Some(program) = interpreter(&line) {
                prop_assert!(!program.is_empty() && !program.contains(['\n', ' ']));
            }
        }
    }
}
