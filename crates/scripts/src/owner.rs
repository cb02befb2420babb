//! The owner of a script, as whom it runs: which files are run so, by the rules of Apache's suEXEC.
//!
//! No directory from the root down to the script belongs to another user than root or the script's owner, or can be
//! written by others. So only root and the owner can put another file in the place of the one that was checked, and
//! what runs then runs as that owner all the same.

use crate::descriptor;
use crate::fastcgi::Pairs;
use crate::pool::{Pool, Way};
use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The least number of a user and of its group: below it is what the system runs as (suEXEC's AP_UID_MIN, AP_GID_MIN).
const NUMBER_MIN: u32 = 100;
/// How long an entry of the database of users is remembered.
const KNOWN: Duration = Duration::from_secs(5);
/// Users that are remembered.
const KNOWN_MAX: usize = 256;
/// Bytes for an entry of the database of users.
const ENTRY_BYTES: usize = 64 << 10;
/// Groups of one user (NGROUPS_MAX of Linux).
const GROUPS_MAX: usize = 65_536;
/// Bits of a mode: set-user-ID and set-group-ID; write by group and others.
const SET_ID: u32 = 0o6000;
const WRITE_BY_OTHERS: u32 = 0o022;

/// Variables of a request that scripts get besides `HTTP_` and `SSL_CLIENT_`: those of RFC 3875 and those that the server makes. Others,
/// such as LD_PRELOAD, would have the owner run what another user says.
const PASSED: [&[u8]; 26] = [
    b"ARM_CORRELATOR",
    b"AUTH_TYPE",
    b"CONTENT_LENGTH",
    b"CONTENT_TYPE",
    b"DOCUMENT_ROOT",
    b"DOCUMENT_URI",
    b"GATEWAY_INTERFACE",
    b"HTTPS",
    b"PATH_INFO",
    b"PATH_TRANSLATED",
    b"QUERY_STRING",
    b"REDIRECT_STATUS",
    b"REMOTE_ADDR",
    b"REMOTE_PORT",
    b"REMOTE_USER",
    b"REQUEST_ID",
    b"REQUEST_METHOD",
    b"REQUEST_SCHEME",
    b"REQUEST_URI",
    b"SCRIPT_FILENAME",
    b"SCRIPT_NAME",
    b"SERVER_ADDR",
    b"SERVER_NAME",
    b"SERVER_PORT",
    b"SERVER_PROTOCOL",
    b"SERVER_SOFTWARE",
];

/// A user as whom a script runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: libc::uid_t,
    pub(crate) gid: libc::gid_t,
    /// All groups of the user.
    pub(crate) groups: Vec<libc::gid_t>,
    home: PathBuf,
}

/// A script that has passed the rules.
#[derive(Debug, Clone)]
pub(crate) struct Owned {
    pub(crate) owner: Rc<Owner>,
    /// The script's file where the script itself is the program, and its directory.
    pub(crate) place: Option<Rc<(OwnedFd, OwnedFd)>>,
    /// Processes of the owner at once (RLIMIT_NPROC); 0 = no bound.
    pub(crate) processes: u64,
}

/// Why a script does not run as its owner.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotOwned {
    #[error("it belongs to user {0}, below {NUMBER_MIN}, which is no person; give it to another user (chown)")]
    System(u32),
    #[error("it belongs to user {0}, whom the system does not know; give it to another user (chown)")]
    Unknown(u32),
    #[error("its owner has the group {0}, below {NUMBER_MIN}; give the owner another primary group (usermod -g)")]
    Group(u32),
    #[error("its owner is a member of root's group; take the owner out of it (gpasswd -d)")]
    RootGroup,
    #[error("it is not below {0}, in the home of its owner; move it there")]
    Home(PathBuf),
    #[error("{0} is a symbolic link; put the file itself there")]
    Link(PathBuf),
    #[error("it is set-user-ID or set-group-ID; take that away (chmod ug-s)")]
    SetId,
    #[error("{0} can be written by its group or by others; take that away (chmod go-w)")]
    Writable(PathBuf),
    #[error("the directory {0} belongs to user {1}, and not to the owner of the script or root; change that (chown)")]
    Directory(PathBuf, u32),
    #[error("it is no regular file; ask for another path")]
    Kind,
    #[error("{0} cannot be looked at: {1}; allow the server's user to search the directories above it (chmod o+x)")]
    Look(PathBuf, io::Error),
}

/// What one runner knows of the users of this machine.
#[derive(Debug, Default)]
pub(crate) struct Owners(HashMap<libc::uid_t, (Instant, Rc<Owner>)>);

impl Owners {
    /// The owner of a script below the root of a pool.
    pub(crate) fn of(&mut self, pool: &Pool, path: &Path) -> Result<Owned, NotOwned> {
        let Some(folder) = &pool.home else {
            let walk = Walk::to(&pool.root, path)?;
            walk.check(path)?;
            let owner = self.find(walk.uid)?;
            return Ok(walk.into_owned(owner, pool));
        };
        // Whose home it has to be says the file's owner; all of the way from the home down to the file is looked at.
        let owner = self.find(Walk::look(path)?)?;
        let below = owner.home.join(folder);
        if !path.starts_with(&below) {
            return Err(NotOwned::Home(below));
        }
        let walk = Walk::to(&owner.home, path)?;
        walk.check(path)?;
        // Another file may have come into its place since.
        if walk.uid == owner.uid { Ok(walk.into_owned(owner, pool)) } else { Err(NotOwned::Home(below)) }
    }

    /// A user who may run scripts.
    fn find(&mut self, uid: libc::uid_t) -> Result<Rc<Owner>, NotOwned> {
        if uid < NUMBER_MIN {
            return Err(NotOwned::System(uid));
        }
        if let Some((until, owner)) = self.0.get(&uid)
            && Instant::now() < *until
        {
            return Ok(Rc::clone(owner));
        }
        let owner = look_up(uid).ok_or(NotOwned::Unknown(uid))?;
        if owner.gid < NUMBER_MIN {
            return Err(NotOwned::Group(owner.gid));
        }
        if owner.groups.contains(&0) {
            return Err(NotOwned::RootGroup);
        }
        if self.0.len() >= KNOWN_MAX {
            self.0.clear();
        }
        let owner = Rc::new(owner);
        self.0.insert(uid, (Instant::now() + KNOWN, Rc::clone(&owner)));
        Ok(owner)
    }
}

/// The way from a root down to a script, by directories that were opened one within the other.
#[derive(Debug)]
struct Walk {
    /// Directories from the root on: names, owners and modes.
    directories: Vec<(PathBuf, libc::uid_t, u32)>,
    folder: OwnedFd,
    file: OwnedFd,
    uid: libc::uid_t,
    mode: u32,
}

impl Walk {
    /// The owner of a file, of which nothing else is known yet.
    fn look(path: &Path) -> Result<libc::uid_t, NotOwned> {
        let metadata = path.symlink_metadata().map_err(|error| NotOwned::Look(path.to_owned(), error))?;
        Ok(std::os::unix::fs::MetadataExt::uid(&metadata))
    }

    fn to(root: &Path, path: &Path) -> Result<Self, NotOwned> {
        let below = path.strip_prefix(root).map_err(|_| NotOwned::Kind)?;
        let mut name = root.to_owned();
        let mut folder = open(libc::AT_FDCWD, root.as_os_str(), 0).map_err(|why| NotOwned::Look(name.clone(), why))?;
        let (mut uid, mut mode) = status(&folder).map_err(|why| NotOwned::Look(name.clone(), why))?;
        let mut directories = Vec::new();
        let mut parts = below.iter().peekable();
        while let Some(part) = parts.next() {
            match mode & libc::S_IFMT {
                libc::S_IFDIR => directories.push((name.clone(), uid, mode)),
                libc::S_IFLNK => return Err(NotOwned::Link(name)),
                _ => return Err(NotOwned::Kind),
            }
            name.push(part);
            let looked = open(folder.as_raw_fd(), part, libc::O_NOFOLLOW).and_then(|file| Ok((status(&file)?, file)));
            let (found, file) = looked.map_err(|why| NotOwned::Look(name.clone(), why))?;
            (uid, mode) = found;
            if parts.peek().is_none() {
                return Ok(Self { directories, folder, file, uid, mode });
            }
            folder = file;
        }
        Err(NotOwned::Kind)
    }

    /// Whether the script may run as its owner.
    fn check(&self, path: &Path) -> Result<(), NotOwned> {
        match self.mode & libc::S_IFMT {
            libc::S_IFREG => {}
            libc::S_IFLNK => return Err(NotOwned::Link(path.to_owned())),
            _ => return Err(NotOwned::Kind),
        }
        if self.uid < NUMBER_MIN {
            return Err(NotOwned::System(self.uid));
        }
        if self.mode & SET_ID != 0 {
            return Err(NotOwned::SetId);
        }
        if self.mode & WRITE_BY_OTHERS != 0 {
            return Err(NotOwned::Writable(path.to_owned()));
        }
        for (name, uid, mode) in self.directories.iter().rev() {
            if *uid != 0 && *uid != self.uid {
                return Err(NotOwned::Directory(name.clone(), *uid));
            }
            if mode & WRITE_BY_OTHERS != 0 {
                return Err(NotOwned::Writable(name.clone()));
            }
        }
        Ok(())
    }

    fn into_owned(self, owner: Rc<Owner>, pool: &Pool) -> Owned {
        // An engine runs scripts of several directories.
        let place = (pool.way != Way::Rte).then(|| Rc::new((self.file, self.folder)));
        Owned { owner, place, processes: pool.processes }
    }
}

/// Opens a file or directory, or a link itself, for nothing but to look at it and to run it. The number is one that no
/// script has.
fn open(at: RawFd, name: &OsStr, flags: libc::c_int) -> io::Result<OwnedFd> {
    let name = CString::new(name.as_bytes())?;
    // SAFETY: the kernel reads the name.
    let fd = unsafe { libc::openat(at, name.as_ptr(), libc::O_PATH | libc::O_CLOEXEC | flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and of no one else.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    descriptor::above(file.as_fd())
}

/// Owner and mode.
fn status(file: &OwnedFd) -> io::Result<(libc::uid_t, u32)> {
    // SAFETY: all zeros is a valid value of this plain structure.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one structure.
    match unsafe { libc::fstat(file.as_raw_fd(), &raw mut status) } {
        0 => Ok((status.st_uid, status.st_mode)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A user with its groups, by the system's databases (getpwuid_r(3), getgrouplist(3)).
fn look_up(uid: libc::uid_t) -> Option<Owner> {
    // SAFETY: all zeros is a valid value of this plain structure.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut room = vec![0; ENTRY_BYTES];
    let mut found = std::ptr::null_mut();
    // SAFETY: all that is passed lives over the call, and the room has the length that is said.
    unsafe { libc::getpwuid_r(uid, &raw mut entry, room.as_mut_ptr(), room.len(), &raw mut found) };
    if found.is_null() {
        return None;
    }
    // SAFETY: both are texts within the room.
    let (name, home) = unsafe { (CStr::from_ptr(entry.pw_name), CStr::from_ptr(entry.pw_dir)) };
    let mut groups = vec![0; GROUPS_MAX];
    let mut count = libc::c_int::try_from(groups.len()).ok()?;
    // SAFETY: the list has room for so many.
    if unsafe { libc::getgrouplist(name.as_ptr(), entry.pw_gid, groups.as_mut_ptr(), &raw mut count) } < 0 {
        return None;
    }
    groups.truncate(usize::try_from(count).ok()?);
    groups.shrink_to_fit();
    let home = PathBuf::from(OsStr::from_bytes(home.to_bytes()));
    Some(Owner { uid, gid: entry.pw_gid, groups, home })
}

/// Leaves the variables away that the owner's programs would obey. What cannot be read stays, and is refused later.
pub(crate) fn keep_harmless(pairs: &mut Vec<u8>) {
    let mut kept = Vec::with_capacity(pairs.len());
    for pair in Pairs(pairs) {
        let Some((name, value)) = pair else { return };
        if !is_harmless(name) {
            continue;
        }
        for length in [name.len(), value.len()] {
            // A request's variables are far shorter than the bound of 2 GiB.
            kept.extend_from_slice(&(length as u32 | 1 << 31).to_be_bytes());
        }
        kept.extend_from_slice(name);
        kept.extend_from_slice(value);
    }
    *pairs = kept;
}

fn is_harmless(name: &[u8]) -> bool {
    PASSED.contains(&name) || name.starts_with(b"SSL_CLIENT_") || (name.starts_with(b"HTTP_") && name != b"HTTP_PROXY")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    fn pairs(of: &[(&str, &str)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, value) in of {
            bytes.extend_from_slice(&[name.len() as u8, value.len() as u8]);
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(value.as_bytes());
        }
        bytes
    }

    #[test]
    fn variables_that_programs_obey_are_left_away() {
        let mut bytes = pairs(&[
            ("LD_PRELOAD", "/tmp/x.so"),
            ("QUERY_STRING", "a"),
            ("PERL5LIB", "/tmp"),
            ("HTTP_PROXY", "x"),
            ("HTTP_ACCEPT", "*/*"),
            ("BASH_ENV", "/tmp/x"),
            ("PATH", "/tmp"),
        ]);
        keep_harmless(&mut bytes);
        let kept: Vec<_> = Pairs(&bytes).map(|pair| pair.expect("whole").0.to_owned()).collect();
        assert_eq!(kept, [b"QUERY_STRING".to_vec(), b"HTTP_ACCEPT".to_vec()]);
        let mut cut = pairs(&[("QUERY_STRING", "a")]);
        cut.pop();
        let before = cut.clone();
        keep_harmless(&mut cut);
        assert_eq!(cut, before);
    }

    #[test]
    fn links_and_what_others_can_write_are_seen_on_the_way() {
        let folder = tempfile::tempdir().expect("a directory");
        let root = folder.path().canonicalize().expect("a name");
        fs::create_dir_all(root.join("a/b")).expect("creates");
        let script = root.join("a/b/x");
        fs::write(&script, "").expect("writes");
        for path in ["", "a", "a/b", "a/b/x"] {
            fs::set_permissions(root.join(path), fs::Permissions::from_mode(0o755)).expect("sets");
        }
        let uid = script.metadata().expect("is there").uid();
        let walk = |path: &Path| Walk::to(&root, path);
        let found = walk(&script).expect("is found");
        assert_eq!((found.directories.len(), found.uid), (3, uid));
        // The rules need an owner who is a person.
        let check = |path: &Path| Walk { uid: 1000, ..walk(path)? }.check(path);
        if uid == 0 || uid == 1000 {
            check(&script).expect("is good");
        }
        symlink("b", root.join("a/c")).expect("links");
        symlink("x", root.join("a/b/y")).expect("links");
        assert!(matches!(check(&root.join("a/c/x")), Err(NotOwned::Link(_))));
        assert!(matches!(check(&root.join("a/b/y")), Err(NotOwned::Link(_))));
        assert!(matches!(check(&root.join("a/b")), Err(NotOwned::Kind)));
        assert!(matches!(check(&root), Err(NotOwned::Kind)));
        assert!(matches!(check(Path::new("/etc/passwd")), Err(NotOwned::Kind)));
        assert!(matches!(check(&root.join("a/b/x/z")), Err(NotOwned::Kind | NotOwned::Look(..))));
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("sets");
        for wrong in [0o775, 0o757] {
            mode(&script, wrong);
            assert!(matches!(check(&script), Err(NotOwned::Writable(_))));
        }
        for wrong in [0o4755, 0o2755] {
            mode(&script, wrong);
            assert!(matches!(check(&script), Err(NotOwned::SetId)));
        }
        mode(&script, 0o755);
        mode(&root.join("a"), 0o777);
        let told = check(&script);
        assert!(uid != 0 || matches!(told, Err(NotOwned::Writable(ref path)) if path.ends_with("a")), "{told:?}");
        assert!(matches!(Walk { uid: 33, ..walk(&script).expect("") }.check(&script), Err(NotOwned::System(33))));
        mode(&root.join("a"), 0o755);
        let other = Walk { uid: 1001, directories: vec![(root.clone(), 1002, 0o755)], ..walk(&script).expect("") };
        assert!(matches!(other.check(&script), Err(NotOwned::Directory(_, 1002))));
    }

    #[test]
    fn who_is_no_person_runs_nothing() {
        let mut owners = Owners::default();
        assert!(matches!(owners.find(0), Err(NotOwned::System(0))));
        assert!(matches!(owners.find(33), Err(NotOwned::System(33))));
        assert!(matches!(owners.find(3_999_999_999), Err(NotOwned::Unknown(3_999_999_999))));
    }
}
