//! Landlock (Linux 5.13 and later): the process reaches files beneath these directories, and no others, even where its
//! user has more rights. From Linux 6.7 on it cannot connect or bind by TCP, from 6.12 on it cannot signal other
//! processes.

use crate::process::confine::paths::{Connects, Paths};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// System calls; the same numbers everywhere.
const CREATE_RULESET: libc::c_long = 444;
const ADD_RULE: libc::c_long = 445;
const RESTRICT_SELF: libc::c_long = 446;

/// Asks for the version in place of a set of rules.
const VERSION: u32 = 1;
const RULE_PATH_BENEATH: u32 = 1;

/// Rights on files (linux/landlock.h).
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REMOVE_DIR: u64 = 1 << 4;
const REMOVE_FILE: u64 = 1 << 5;
const MAKE_REG: u64 = 1 << 8;
/// All rights of the first version; then what each later one knows in addition: moving files to other directories,
/// cutting them, and commands to devices.
const ALL: u64 = (1 << 13) - 1;
const LATER: [(i64, u64); 3] = [(2, 1 << 13), (3, 1 << 14), (5, 1 << 15)];
/// Rights that a file can have; the others are a directory's.
const OF_FILES: u64 = 1 | WRITE_FILE | READ_FILE | 1 << 14 | 1 << 15;
/// Taking an address over TCP, and connecting to one.
const NET: (i64, u64) = (4, 1 | CONNECT_TCP);
const CONNECT_TCP: u64 = 1 << 1;
const RULE_NET_PORT: u32 = 2;
/// Abstract Unix sockets of others, and signals to others.
const SCOPES: (i64, u64) = (6, 1 | 1 << 1);

/// `struct landlock_ruleset_attr`.
#[repr(C)]
#[derive(Default)]
struct Ruleset {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

/// `struct landlock_net_port_attr`.
#[repr(C)]
struct NetPort {
    allowed_access: u64,
    port: u64,
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct PathBeneath {
    allowed_access: u64,
    parent_fd: i32,
}

/// Restricts this thread, and those that it starts, to these paths.
///
/// # Errors
///
/// The kernel has no Landlock, or refuses.
pub(super) fn restrict(paths: &Paths) -> io::Result<()> {
    let version = version()?;
    let since = |from: i64, rights: u64| if version >= from { rights } else { 0 };
    let ruleset = Ruleset {
        handled_access_fs: LATER.iter().fold(ALL, |all, &(from, rights)| all | since(from, rights)),
        handled_access_net: since(NET.0, NET.1),
        scoped: since(SCOPES.0, SCOPES.1),
    };
    // What a kernel does not know yet must not be in the structure.
    let bytes = match version {
        ..4 => 8,
        4..6 => 16,
        _ => size_of::<Ruleset>(),
    };
    // SAFETY: the structure lives over the call and has at least the length that is said.
    let fd = checked(unsafe { libc::syscall(CREATE_RULESET, &raw const ruleset, bytes, 0) })?;
    // SAFETY: the descriptor is new and has no other owner.
    let set = unsafe { OwnedFd::from_raw_fd(fd) };
    for (paths, rights) in [
        (&paths.serve, READ_FILE | READ_DIR),
        (&paths.releases, READ_FILE | READ_DIR),
        (&paths.read, READ_FILE),
        (&paths.own, READ_FILE | READ_DIR),
        (&paths.write, WRITE_FILE | MAKE_REG | REMOVE_FILE),
        (&paths.store, READ_FILE | READ_DIR | WRITE_FILE | MAKE_REG | REMOVE_FILE | REMOVE_DIR),
    ] {
        for path in paths {
            allow(&set, path, rights & ruleset.handled_access_fs)?;
        }
    }
    if let Connects::Ports(ports) = &paths.connects
        && ruleset.handled_access_net != 0
    {
        for &port in ports {
            let rule = NetPort { allowed_access: CONNECT_TCP, port: u64::from(port) };
            let fd = set.as_raw_fd();
            // SAFETY: the structure lives over the call, which only reads it.
            checked(unsafe { libc::syscall(ADD_RULE, fd, RULE_NET_PORT, &raw const rule, 0) })?;
        }
    }
    // SAFETY: the call takes no pointers.
    checked(unsafe { libc::syscall(RESTRICT_SELF, set.as_raw_fd(), 0) }).map(drop)
}

fn version() -> io::Result<i64> {
    // SAFETY: for the version no structure is passed.
    let version = unsafe { libc::syscall(CREATE_RULESET, std::ptr::null::<Ruleset>(), 0, VERSION) };
    if version < 0 { Err(io::Error::last_os_error()) } else { Ok(version) }
}

fn allow(set: &OwnedFd, path: &Path, rights: u64) -> io::Result<()> {
    let file = File::options().read(true).custom_flags(libc::O_PATH).open(path)?;
    let rights = if file.metadata()?.is_dir() { rights } else { rights & OF_FILES };
    let rule = PathBeneath { allowed_access: rights, parent_fd: file.as_raw_fd() };
    // SAFETY: the structure lives over the call, which only reads it.
    checked(unsafe { libc::syscall(ADD_RULE, set.as_raw_fd(), RULE_PATH_BENEATH, &raw const rule, 0) }).map(drop)
}

/// The result as a descriptor, which all of these calls return or 0.
fn checked(result: libc::c_long) -> io::Result<i32> {
    crate::io::epoll::check(i32::try_from(result).unwrap_or(-1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn files_outside_are_out_of_reach_and_those_inside_are_not() {
        if version().is_err() {
            println!("skipped: this kernel has no Landlock");
            return;
        }
        let folder = tempfile::tempdir().expect("a directory");
        let top = folder.path().to_owned();
        let at = move |name: &str| top.join(name);
        for name in ["serve", "read", "write", "other", "store"] {
            std::fs::create_dir(at(name)).expect("creates");
            std::fs::write(at(name).join("file"), name).expect("writes");
        }
        let paths = Paths { serve: vec![at("serve")], read: vec![at("read")], ..Paths::default() };
        let paths = Paths { write: vec![at("write")], store: vec![at("store")], ..paths };
        std::fs::create_dir(at("store/folder")).expect("creates");
        // In a thread of its own, as there is no way back.
        let confined = move || {
            crate::process::confine::privileges::no_new_privileges()?;
            restrict(&paths)?;
            let reads = |name: &str| std::fs::read(at(name)).is_ok();
            assert!(reads("serve/file") && reads("read/file"));
            assert!(!reads("write/file") && !reads("other/file") && !Path::new("/etc/passwd").is_dir());
            assert!(std::fs::read("/etc/passwd").is_err());
            assert!(std::fs::read_dir(at("serve")).is_ok() && std::fs::read_dir(at("read")).is_err());
            let append = |name: &str| File::options().append(true).create(true).open(at(name));
            assert!(append("serve/file").is_err() && append("serve/new").is_err() && append("other/new").is_err());
            append("write/new").expect("it may").write_all(b"x").expect("it may");
            std::fs::rename(at("write/new"), at("write/old")).expect("it may");
            std::fs::remove_file(at("write/old")).expect("it may");
            assert!(std::fs::create_dir(at("write/directory")).is_err());
            append("store/folder/new").expect("it may").write_all(b"x").expect("it may");
            std::fs::rename(at("store/folder/new"), at("store/folder/old")).expect("it may");
            assert!(reads("store/folder/old") && std::fs::create_dir(at("store/other")).is_err());
            std::fs::remove_dir_all(at("store/folder")).expect("it may");
            let listening = std::net::TcpListener::bind("127.0.0.1:0");
            assert!(version()? < NET.0 || listening.is_err());
            io::Result::Ok(())
        };
        std::thread::spawn(confined).join().expect("no panic").expect("the kernel has it");
        drop(folder);
    }
}
