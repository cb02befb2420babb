//! Opening what lies below a root.

use crate::files::root::calls::{open_at, openat2};
use crate::files::root::directory::Root;
use crate::files::root::walk;
use crate::files::settings::Symlinks;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// How often an open is repeated when a rename next to it made the kernel unsure.
const ATTEMPTS_MAX: usize = 8;

impl Root {
    /// Opens a file or directory for reading. `path` begins with a slash and is taken from the root.
    ///
    /// Symbolic links are followed as it was said. One that leaves the root and must not fails with `EXDEV`, one that
    /// is not followed for another reason with `ELOOP`.
    pub(crate) fn open(&self, path: &[u8]) -> io::Result<File> {
        self.open_below(path, libc::O_RDONLY)
    }

    /// Opens just for a look at what it is.
    pub(crate) fn open_for_stat(&self, path: &[u8]) -> io::Result<File> {
        self.open_below(path, libc::O_PATH)
    }

    /// Whether there is nothing at a path, not even a link that leads nowhere: then only a change of its directory
    /// brings something there.
    pub(crate) fn has_nothing_at(&self, path: &[u8]) -> bool {
        let (directory, name) = path.split_at(memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1));
        let (Ok(directory), Ok(name)) = (self.open_for_stat(directory), CString::new(name)) else { return false };
        // SAFETY: all zeros is a valid value of this plain structure.
        let mut stat: libc::stat64 = unsafe { std::mem::zeroed() };
        // SAFETY: the name is terminated, and the call fills the structure; both live over it.
        let found = crate::io::epoll::check(unsafe {
            libc::fstatat64(directory.as_raw_fd(), name.as_ptr(), &raw mut stat, libc::AT_SYMLINK_NOFOLLOW)
        });
        found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    fn open_below(&self, path: &[u8], access: i32) -> io::Result<File> {
        // Without O_NONBLOCK a pipe that lies in the directory would hold up the whole loop. With O_PATH nothing
        // is opened in that sense, and openat2 refuses flags that mean nothing.
        let reading = if access == libc::O_PATH { 0 } else { libc::O_NOCTTY | libc::O_NONBLOCK };
        let flags = access | libc::O_CLOEXEC | reading;
        let relative = path.strip_prefix(b"/").unwrap_or(path);
        let relative = if relative.is_empty() { b"." } else { relative };
        if self.symlinks == Symlinks::Anywhere && relative.split(|&byte| byte == b'/').any(|segment| segment == b"..") {
            // Links may leave the root, and requests may not.
            return Err(io::Error::from_raw_os_error(libc::EXDEV));
        }
        let top = self.directory.as_raw_fd();
        for _ in 0..ATTEMPTS_MAX {
            if !self.has_openat2.get() {
                return match self.symlinks {
                    Symlinks::Anywhere => open_at(top, relative, flags),
                    _ => walk::open(self, relative, flags),
                };
            }
            let error = match openat2(top, relative, flags, resolve(self.symlinks)) {
                Ok(file) => return Ok(file),
                Err(error) => error,
            };
            match (error.raw_os_error(), self.symlinks) {
                (Some(libc::ENOSYS | libc::EPERM), _) => self.has_openat2.set(false),
                (Some(libc::EAGAIN | libc::EINTR), _) => {}
                // The kernel does not follow an absolute link, which may lead to something below the root, and knows
                // nothing of owners.
                (Some(libc::EXDEV), Symlinks::Within) | (Some(libc::ELOOP), Symlinks::Owner) => {
                    return walk::open(self, relative, flags);
                }
                _ => return Err(error),
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }
}

/// What the kernel follows by itself.
fn resolve(symlinks: Symlinks) -> u64 {
    match symlinks {
        Symlinks::Never | Symlinks::Owner => libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS,
        Symlinks::Within => libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS,
        Symlinks::Anywhere => libc::RESOLVE_NO_MAGICLINKS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A root `www` with links of all kinds, beside a secret.
    fn outer() -> tempfile::TempDir {
        let outer = tempfile::tempdir().expect("a directory");
        std::fs::write(outer.path().join("secret"), "s").expect("writes");
        let top = outer.path().join("www");
        std::fs::create_dir_all(top.join("a/b")).expect("creates");
        std::fs::write(top.join("a/b/file"), "f").expect("writes");
        symlink("../secret", top.join("up")).expect("links");
        symlink(outer.path().join("secret"), top.join("absolute")).expect("links");
        symlink("..", top.join("a/over")).expect("links");
        symlink("a/b/file", top.join("inside")).expect("links");
        symlink("b/../../a/./b/", top.join("a/round")).expect("links");
        symlink(top.join("a"), top.join("home")).expect("links");
        symlink(top.join("a/../../secret"), top.join("sly")).expect("links");
        symlink("loop", top.join("loop")).expect("links");
        symlink("www", outer.path().join("named")).expect("links");
        symlink(outer.path().join("named/a/b"), top.join("by-name")).expect("links");
        outer
    }

    /// The root by its real path, or by a link to it.
    fn root(outer: &tempfile::TempDir, name: &str, symlinks: Symlinks) -> Root {
        let path = outer.path().join(name);
        Root::open_directory(&path).expect("opens").following(symlinks, &path)
    }

    /// Whether both ways of opening reach it, which they do alike.
    fn opens(root: &Root, path: &str) -> bool {
        let opens = root.open(path.as_bytes()).is_ok();
        assert_eq!(root.open_for_stat(path.as_bytes()).is_ok(), opens, "{path}");
        opens
    }

    #[test]
    fn nothing_outside_the_root_opens_with_or_without_openat2() {
        let outer = outer();
        for symlinks in [Symlinks::Never, Symlinks::Within, Symlinks::Owner] {
            let root = root(&outer, "www", symlinks);
            for forbid in [false, true] {
                if forbid {
                    root.forbid_openat2();
                }
                assert!(opens(&root, "/a/b/file"));
                assert!(root.open(b"/").expect("opens").metadata().expect("stats").is_dir());
                assert!(root.open(b"/a/b/").expect("opens").metadata().expect("stats").is_dir());
                for bad in [
                    "/up",
                    "/absolute",
                    "/../secret",
                    "/a/over/../secret",
                    "/a/b/file/",
                    "/none",
                    "/a/../../secret",
                    "/sly",
                    "/loop",
                    "/inside/",
                    "/inside/x",
                ] {
                    assert!(!opens(&root, bad), "{symlinks:?} {bad}");
                }
            }
        }
    }

    #[test]
    fn links_are_followed_as_it_was_said_with_or_without_openat2() {
        let outer = outer();
        let links = ["/inside", "/a/round/file", "/a/over/a/b/file", "/home/b/file", "/home/", "/a/over/inside"];
        for (symlinks, inside, outside) in [
            (Symlinks::Never, false, false),
            (Symlinks::Within, true, false),
            (Symlinks::Owner, true, false),
            (Symlinks::Anywhere, true, true),
        ] {
            let root = root(&outer, "www", symlinks);
            for forbid in [false, true] {
                if forbid {
                    root.forbid_openat2();
                }
                for link in links {
                    assert_eq!(opens(&root, link), inside, "{symlinks:?} {link}");
                }
                for link in ["/up", "/absolute", "/sly"] {
                    assert_eq!(opens(&root, link), outside, "{symlinks:?} {link}");
                }
                assert!(!opens(&root, "/../secret") && !opens(&root, "/a/../../secret"), "{symlinks:?}");
            }
        }
        // A link may name the root as it was given, or as it is called in truth.
        let by_link = root(&outer, "named", Symlinks::Within);
        assert!(opens(&by_link, "/by-name/file") && opens(&by_link, "/home/b/file"));
        assert!(!opens(&root(&outer, "www", Symlinks::Within), "/by-name/file"));
    }

    #[test]
    fn what_a_link_leads_to_is_opened_as_it_was_asked_for() {
        let outer = outer();
        let root = root(&outer, "www", Symlinks::Within);
        for path in [&b"/home/b/file"[..], b"/inside"] {
            let file = root.open(path).expect("opens");
            assert_eq!(io::read_to_string(&file).expect("reads"), "f");
            assert!(!root.is_straight(&file, path), "the kernel would not tell of it by this path");
        }
        assert!(io::read_to_string(root.open_for_stat(b"/home/b/file").expect("opens")).is_err());
    }

    #[test]
    fn a_link_of_another_user_is_not_followed_by_owner() {
        // SAFETY: the call takes no pointers.
        if unsafe { libc::geteuid() } != 0 {
            println!("skipped: only root gives links to others");
            return;
        }
        let outer = outer();
        let top = outer.path().join("www");
        for link in ["inside", "home"] {
            std::os::unix::fs::lchown(top.join(link), Some(1), Some(1)).expect("gives it away");
        }
        symlink("inside", top.join("twice")).expect("links");
        let root = root(&outer, "www", Symlinks::Owner);
        for forbid in [false, true] {
            if forbid {
                root.forbid_openat2();
            }
            for link in ["/inside", "/home/b/file", "/home/", "/twice"] {
                assert!(!opens(&root, link), "{link}");
            }
            assert!(opens(&root, "/a/round/file"));
        }
        std::os::unix::fs::chown(top.join("a/b/file"), Some(1), Some(1)).expect("gives it away");
        assert!(opens(&root, "/inside") && !opens(&root, "/twice"), "both links count");
    }

    #[test]
    fn a_link_that_is_changed_all_the_time_never_leads_out() {
        let outer = outer();
        let top = outer.path().join("www");
        let root = root(&outer, "www", Symlinks::Within);
        root.forbid_openat2();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (link, new) = (top.join("changing"), top.join("new"));
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    for target in ["../secret", "a/b/file", "home/../../secret", "inside"] {
                        symlink(target, &new).expect("links");
                        std::fs::rename(&new, &link).expect("renames");
                    }
                    std::fs::write(&new, "f").expect("writes");
                    std::fs::rename(&new, &link).expect("renames");
                }
            });
            // Both have their turns however few CPUs there are.
            let (mut opened, mut refused, mut outside) = (0, 0, 0);
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
            while (opened < 1000 || refused < 1000) && std::time::Instant::now() < deadline {
                match root.open(b"/changing") {
                    Ok(file) if io::read_to_string(&file).is_ok_and(|text| text == "f") => opened += 1,
                    Ok(_) => outside += 1,
                    Err(_) => refused += 1,
                }
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(
                opened >= 1000 && refused >= 1000 && outside == 0,
                "{opened}, {refused} refused, {outside} outside"
            );
        });
    }
}
