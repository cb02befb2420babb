//! Walks to a file name by name: where openat2 is missing, and for links that openat2 does not follow.
//!
//! Each name is opened in a directory that is held open, and never through a link: the target of a link is read from
//! the link that is held open, and its names are walked in the same way. `..` goes back to the directory that the walk
//! came from. So renaming or replacing directories meanwhile cannot lead the walk out of the root.

use crate::files::root::calls::{open_at, segments};
use crate::files::root::directory::Root;
use crate::files::settings::Symlinks;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;

/// Directories below each other on one way.
const DEPTH_MAX: usize = 256;
/// Links on one way, as the kernel has it.
const LINKS_MAX: usize = 40;
/// Names on one way, those that links say included.
const STEPS_MAX: usize = 4096;
/// Bytes of what a link says; the kernel has no longer ones.
const LINK_BYTES_MAX: usize = 4096;

/// What is to be done next.
#[derive(Debug)]
enum Step {
    /// Goes to a name.
    To(Vec<u8>),
    /// Makes sure that what a link has led to belongs to this user, as the link does.
    OwnedBy(u32),
}

/// Opens what lies at a path below the root.
pub(super) fn open(root: &Root, path: &[u8], flags: i32) -> io::Result<File> {
    let wants_directory = path.ends_with(b"/");
    // The last is the next.
    let mut steps: Vec<Step> = Vec::new();
    put(&mut steps, segments(path).collect());
    let mut way: Vec<File> = Vec::new();
    let (mut links, mut taken) = (0, 0);
    while let Some(step) = steps.pop() {
        let here = way.last().unwrap_or(&root.directory);
        taken += 1;
        if taken > STEPS_MAX || way.len() > DEPTH_MAX {
            return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
        }
        let name = match step {
            Step::OwnedBy(user) => {
                is_owned(here, user)?;
                continue;
            }
            Step::To(name) if name == b".." => {
                way.pop().ok_or_else(|| io::Error::from_raw_os_error(libc::EXDEV))?;
                continue;
            }
            Step::To(name) => name,
        };
        let found = open_at(here.as_raw_fd(), &name, libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC)?;
        let metadata = found.metadata()?;
        if metadata.is_symlink() {
            links += 1;
            if root.symlinks == Symlinks::Never || links > LINKS_MAX {
                return Err(io::Error::from_raw_os_error(libc::ELOOP));
            }
            if root.symlinks == Symlinks::Owner {
                steps.push(Step::OwnedBy(metadata.uid()));
            }
            let text = read_link(found.as_raw_fd())?;
            if text.starts_with(b"/") {
                let below = root.below(&text).ok_or_else(|| io::Error::from_raw_os_error(libc::EXDEV))?;
                way.clear();
                put(&mut steps, below);
            } else {
                put(&mut steps, segments(&text).collect());
            }
            continue;
        }
        if metadata.is_dir() {
            way.push(found);
            continue;
        }
        if wants_directory || steps.iter().any(|step| matches!(step, Step::To(_))) {
            return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
        }
        // What was found may have been replaced since; what is opened counts.
        let file =
            if flags & libc::O_PATH != 0 { found } else { open_at(here.as_raw_fd(), &name, flags | libc::O_NOFOLLOW)? };
        for step in &steps {
            if let Step::OwnedBy(user) = step {
                is_owned(&file, *user)?;
            }
        }
        return Ok(file);
    }
    open_at(way.last().unwrap_or(&root.directory).as_raw_fd(), b".", flags)
}

fn put(steps: &mut Vec<Step>, names: Vec<&[u8]>) {
    steps.extend(names.into_iter().rev().map(|name| Step::To(name.to_vec())));
}

fn is_owned(file: &File, user: u32) -> io::Result<()> {
    if file.metadata()?.uid() == user { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ELOOP)) }
}

/// What a link says that is held open itself.
fn read_link(link: RawFd) -> io::Result<Vec<u8>> {
    let mut text = vec![0_u8; LINK_BYTES_MAX];
    // SAFETY: the empty path is terminated, and the kernel writes at most the length into the memory.
    let bytes = unsafe { libc::readlinkat(link, c"".as_ptr(), text.as_mut_ptr().cast(), text.len()) };
    text.truncate(usize::try_from(bytes).map_err(|_| io::Error::last_os_error())?);
    Ok(text)
}
