//! Which directories are watched, and what the kernel's events about them mean for paths.
//!
//! A path is covered if every directory on its way is watched: one of them reports a change of the file, of a name on
//! the way, or of a directory's mode. The kernel does not report writes by other hosts of a network file system, behind
//! a symbolic link or through another hard link; such paths are not covered. Nor does it report writes through a memory
//! mapping, or a mount over a directory: so the server checks covered paths as well, only seldom.

use crate::files::root::Root;
use crate::files::watcher::Watcher;
use crate::io::inotify::Event;
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;

/// Directories on the way to one file.
const DEPTH_MAX: usize = 64;
/// How often all watches may be given up to make room for others.
const RENEWAL_MS: u64 = 10_000;

/// What the kernel has told, as it concerns paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// This name: what it stands for is new, changed or gone.
    Path(Vec<u8>),
    /// A directory, whose path ends with a slash, and everything below it.
    Below(Vec<u8>),
    /// It is not known what: events were lost.
    Everything,
}

/// The watched directories of a root.
#[derive(Debug)]
pub(crate) struct Watches {
    watcher: Rc<Watcher>,
    directories: HashMap<Box<[u8]>, Directory>,
    paths: HashMap<i32, Box<[u8]>>,
    directories_max: usize,
    renewed_ms: u64,
    is_lost: bool,
    /// Directories that got no watch, from the kernel or within the bound; the code that counts them resets this.
    pub(crate) refused: u64,
}

#[derive(Debug, Clone, Copy)]
struct Directory {
    watch: i32,
    dev: u64,
}

impl Watches {
    /// With room for so many directories; 0 = nothing is watched.
    pub(crate) fn new(watcher: Rc<Watcher>, directories_max: usize) -> Self {
        Self {
            watcher,
            directories: HashMap::new(),
            paths: HashMap::new(),
            directories_max,
            renewed_ms: 0,
            is_lost: false,
            refused: 0,
        }
    }

    /// Another bound on directories; where more than that are watched already, it is begun anew.
    pub(crate) fn limit(&mut self, directories_max: usize) {
        self.directories_max = directories_max;
        if self.directories.len() > directories_max {
            self.forget_all();
        }
    }

    /// Gives all watches up, as another directory is to be watched.
    pub(crate) fn begin_anew(&mut self) {
        self.forget_all();
    }

    /// Watches the directories on the way to a path, before what it leads to is opened. Gives the device of the last
    /// one; none if one of them cannot be watched.
    pub(crate) fn cover(&mut self, root: &Root, path: &[u8], now_ms: u64) -> Option<u64> {
        let last = memchr::memrchr(b'/', path)?;
        // Mostly all of them are watched, and then the last one says so.
        if let Some(directory) = self.directories.get(&path[..=last]) {
            return Some(directory.dev);
        }
        if !self.watcher.is_there() || self.directories_max == 0 {
            return None;
        }
        let slashes: Vec<usize> = memchr::memchr_iter(b'/', path).collect();
        if slashes.len() > DEPTH_MAX {
            return None;
        }
        let missing = slashes.iter().filter(|&&slash| !self.directories.contains_key(&path[..=slash])).count();
        if self.directories.len() + missing > self.directories_max
            && slashes.len() <= self.directories_max
            && now_ms.saturating_sub(self.renewed_ms) >= RENEWAL_MS
        {
            self.renewed_ms = now_ms;
            self.forget_all();
        }
        // From the top: a directory that is renamed while this goes on is told by the one above it.
        slashes.into_iter().map(|slash| self.watch(root, &path[..=slash])).last().flatten()
    }

    /// Whether all watches were given up, so that nothing is known of what they have covered.
    pub(crate) fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.is_lost)
    }

    fn watch(&mut self, root: &Root, path: &[u8]) -> Option<u64> {
        if let Some(directory) = self.directories.get(path) {
            return Some(directory.dev);
        }
        let open = root.open_for_stat(path).ok()?;
        let metadata = open.metadata().ok()?;
        let parent = memchr::memrchr(b'/', &path[..path.len() - 1]).map(|slash| &path[..=slash]);
        let is_covered = parent.is_none_or(|parent| self.directories.contains_key(parent));
        if !is_covered || !metadata.is_dir() || !is_told(&open) || !root.is_straight(&open, path) {
            return None;
        }
        if self.directories.len() >= self.directories_max {
            self.refused += 1;
            return None;
        }
        let Ok(watch) = self.watcher.hold(&open, |watch| !self.paths.contains_key(&watch)) else {
            self.refused += 1;
            return None;
        };
        // Otherwise the directory is there under two paths, by a mount; only one of them can be told.
        let watch = watch?;
        let dev = metadata.dev();
        self.directories.insert(path.into(), Directory { watch, dev });
        self.paths.insert(watch, path.into());
        Some(dev)
    }

    /// Takes note of an event, which may be another site's, and adds what it means for this one's paths.
    pub(crate) fn note_event(&mut self, event: Event<'_>, changes: &mut Vec<Change>) {
        let has = |bits: u32| event.mask & bits != 0;
        if has(libc::IN_Q_OVERFLOW) {
            self.forget_all();
            return changes.push(Change::Everything);
        }
        let Some(directory) = self.paths.get(&event.watch) else { return };
        if event.name.is_empty() {
            let below = directory.to_vec();
            // The root goes on under another name: it was opened once for all.
            if below != b"/" || has(libc::IN_IGNORED | libc::IN_ATTRIB) {
                self.forget_below(&below);
            }
            return changes.push(Change::Below(below));
        }
        let mut path = [directory, event.name].concat();
        changes.push(Change::Path(path.clone()));
        path.push(b'/');
        if has(libc::IN_ISDIR) || self.directories.contains_key(path.as_slice()) {
            self.forget_below(&path);
            changes.push(Change::Below(path));
        }
    }

    fn forget_below(&mut self, top: &[u8]) {
        if !self.directories.contains_key(top) {
            return;
        }
        let (paths, watcher) = (&mut self.paths, &self.watcher);
        self.directories.retain(|path, directory| {
            let stays = !path.starts_with(top);
            if !stays {
                paths.remove(&directory.watch);
                watcher.release(directory.watch);
            }
            stays
        });
    }

    fn forget_all(&mut self) {
        self.give_back();
        self.is_lost = true;
    }

    fn give_back(&mut self) {
        self.directories.clear();
        self.paths.drain().for_each(|(watch, _)| self.watcher.release(watch));
    }
}

impl Drop for Watches {
    /// The other sites of the loop go on, and its watches with them.
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Whether the kernel tells of all changes in the file system that a directory is in: not where other hosts, programs
/// or the kernel itself change files behind its back.
fn is_told(directory: &File) -> bool {
    // From linux/magic.h, and those that file systems outside of it use.
    const UNTOLD: [u64; 17] = [
        0x6969,      // NFS
        0x517b,      // SMB
        0xff53_4d42, // CIFS
        0xfe53_4d42, // SMB 2
        0x6573_5546, // FUSE
        0x00c3_6400, // Ceph
        0x5346_414f, // AFS
        0x6b41_4653, // AFS by the kernel
        0x7375_7245, // Coda
        0x0102_1997, // 9P
        0x0116_1970, // GFS2
        0x7461_636f, // OCFS2
        0x0bd0_0bd0, // Lustre
        0x4750_4653, // GPFS
        0x786f_4256, // VirtualBox
        0x9fa0,      // proc
        0x6265_6572, // sysfs
    ];
    // SAFETY: all zeros is a valid value of this plain structure.
    let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the call fills the structure, which lives over it.
    let known = unsafe { libc::fstatfs(directory.as_raw_fd(), &raw mut stat) } == 0;
    // The type's width differs between architectures; all magic numbers have 32 bits.
    known && !UNTOLD.contains(&(stat.f_type as u64 & 0xffff_ffff))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    fn site() -> (tempfile::TempDir, Root) {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(directory.path().join("a/b")).expect("creates");
        std::fs::write(directory.path().join("a/b/f"), "x").expect("writes");
        let root = Root::open_directory(directory.path()).expect("opens");
        (directory, root)
    }

    fn watching(directories_max: usize) -> Watches {
        Watches::new(Rc::new(Watcher::new()), directories_max)
    }

    fn heard(watches: &mut Watches) -> Vec<Change> {
        let mut changes = Vec::new();
        let watcher = Rc::clone(&watches.watcher);
        watcher.read_events(|event| watches.note_event(event, &mut changes));
        changes
    }

    fn path(path: &str) -> Change {
        Change::Path(path.into())
    }

    fn below(path: &str) -> Change {
        Change::Below(path.into())
    }

    #[test]
    fn changes_are_told_with_the_paths_that_they_concern() {
        let (directory, root) = site();
        let at = |name: &str| directory.path().join(name);
        let mut watches = watching(100);
        assert!(watches.cover(&root, b"/a/b/f", 0).is_some());
        assert_eq!(watches.directories.len(), 3);
        std::fs::write(at("a/b/f"), "y").expect("writes");
        assert!(heard(&mut watches).iter().all(|change| *change == path("/a/b/f")));
        std::fs::write(at("new"), "y").expect("writes");
        assert!(heard(&mut watches).contains(&path("/new")));
        std::fs::rename(at("new"), at("a/b/f")).expect("renames");
        assert!(heard(&mut watches).ends_with(&[path("/a/b/f")]));
        std::fs::rename(at("a"), at("c")).expect("renames");
        let changes = heard(&mut watches);
        assert!(changes.contains(&below("/a/")) && changes.contains(&path("/c")), "{changes:?}");
        assert_eq!(watches.directories.len(), 1, "only the root's own watch is left");
        std::fs::write(at("c/b/f"), "z").expect("writes");
        assert!(!heard(&mut watches).contains(&path("/a/b/f")), "nothing by its former name");
        assert!(watches.cover(&root, b"/c/b/f", 0).is_some());
        std::fs::write(at("c/b/f"), "0").expect("writes");
        assert!(heard(&mut watches).contains(&path("/c/b/f")));
        std::fs::remove_dir_all(at("c/b")).expect("removes");
        assert!(heard(&mut watches).contains(&below("/c/b/")));
    }

    #[test]
    fn what_the_kernel_would_not_tell_is_not_covered() {
        let (directory, root) = site();
        symlink("a", directory.path().join("link")).expect("links");
        let mut watches = watching(100);
        assert!(watches.cover(&root, b"/link/b/f", 0).is_none());
        assert!(watches.cover(&root, b"/a/b/f", 0).is_some());
        assert!(!is_told(&File::open("/proc").expect("opens")));
        let proc = Root::open_directory(Path::new("/proc")).expect("opens");
        assert!(watching(100).cover(&proc, b"/self/stat", 0).is_none());
        assert!(watching(0).cover(&root, b"/a/b/f", 0).is_none());
    }

    #[test]
    fn beyond_the_bound_watches_are_begun_anew_at_most_so_often() {
        let (directory, root) = site();
        for i in 0..10 {
            std::fs::create_dir(directory.path().join(format!("{i}"))).expect("creates");
        }
        let mut watches = watching(4);
        for i in 0..3 {
            assert!(watches.cover(&root, format!("/{i}/f").as_bytes(), 20_000).is_some());
        }
        assert!(!watches.take_lost());
        assert!(watches.cover(&root, b"/3/f", 20_000).is_some());
        assert!(watches.take_lost());
        for i in 4..10 {
            watches.cover(&root, format!("/{i}/f").as_bytes(), 20_001);
            assert!(watches.directories.len() <= 4);
        }
        assert!(watches.refused > 0 && !watches.take_lost());
        assert!(watches.cover(&root, b"/9/f", 30_001).is_some());
    }

    #[test]
    fn lost_events_make_everything_uncertain() {
        let (directory, root) = site();
        let mut watches = watching(100);
        assert!(watches.cover(&root, b"/a/b/f", 0).is_some());
        let max = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").expect("reads");
        let max: usize = max.trim().parse().expect("a number");
        // Two names in turn, because the kernel puts equal events into one.
        let names = [directory.path().join("a/b/f"), directory.path().join("a/b/g")];
        for i in 0..=max {
            std::fs::write(&names[i % 2], "x").expect("writes");
        }
        assert!(heard(&mut watches).contains(&Change::Everything));
        assert!(watches.take_lost() && watches.directories.is_empty());
        assert!(heard(&mut watches).is_empty());
        assert!(watches.cover(&root, b"/a/b/f", 0).is_some());
    }

    #[test]
    fn sites_share_watches_and_give_them_back() {
        let (directory, root) = site();
        let below = Root::open_directory(&directory.path().join("a")).expect("opens");
        let watcher = Rc::new(Watcher::new());
        let mut one = Watches::new(Rc::clone(&watcher), 100);
        let mut other = Watches::new(Rc::clone(&watcher), 100);
        assert!(one.cover(&root, b"/a/b/f", 0).is_some());
        assert!(other.cover(&below, b"/b/f", 0).is_some());
        assert_eq!(watcher.count(), 3, "two of the three directories are watched for both");
        std::fs::write(directory.path().join("a/b/f"), "y").expect("writes");
        let (mut of_one, mut of_other) = (Vec::new(), Vec::new());
        watcher.read_events(|event| {
            one.note_event(event, &mut of_one);
            other.note_event(event, &mut of_other);
        });
        assert!(of_one.contains(&path("/a/b/f")) && of_other.contains(&path("/b/f")), "{of_one:?} {of_other:?}");
        drop(one);
        assert_eq!(watcher.count(), 2);
        std::fs::write(directory.path().join("a/b/f"), "z").expect("writes");
        assert!(heard(&mut other).contains(&path("/b/f")), "it is still watched");
        other.limit(1);
        assert!(other.take_lost());
        assert_eq!(watcher.count(), 0);
        std::fs::write(directory.path().join("a/b/f"), "0").expect("writes");
        assert!(!heard(&mut other).contains(&path("/b/f")), "no watch is left");
    }
}
