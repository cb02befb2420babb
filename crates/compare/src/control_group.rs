//! Control groups (version 2) of our own: the kernel sums up the CPU time of everything that ever
//! ran in them, including processes that no parent waited for.
//!
//! `cpu.stat` exists in every group, whether or not a CPU controller is enabled, so all that is
//! needed is the right to make directories in our own group.
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::cpu_time::CpuTime;

/// The groups of one experiment, under a common parent. They are removed by the
/// [guardian](crate::guardian), which also does so when we are killed.
pub(crate) struct ControlGroups {
    directory: PathBuf,
    kill_file: Option<File>,
    /// For the servers, in the plan's order.
    pub(crate) servers: Vec<ControlGroup>,
    /// For load commands.
    pub(crate) load: ControlGroup,
    /// For what runs beside.
    pub(crate) beside: ControlGroup,
}

impl ControlGroups {
    /// Makes them for so many servers, if this system lets us.
    pub(crate) fn create(servers: usize) -> io::Result<Self> {
        static EXPERIMENTS: AtomicU32 = AtomicU32::new(0);
        let number = EXPERIMENTS.fetch_add(1, Ordering::Relaxed);
        let directory = own_group()?.join(format!("weir-compare-{}-{number}", std::process::id()));
        fs::create_dir(&directory)?;
        Self::within(&directory, servers).inspect_err(|_| {
            // Nothing ran in them yet, so they can go at once.
            for name in names(servers) {
                let _absent = fs::remove_dir(directory.join(name));
            }
            let _kept = fs::remove_dir(&directory);
        })
    }

    fn within(directory: &Path, servers: usize) -> io::Result<Self> {
        let mut groups = names(servers).into_iter().map(|name| ControlGroup::create(&directory.join(name)));
        let mut next = || groups.next().unwrap_or_else(|| Err(io::ErrorKind::NotFound.into()));
        let (load, beside) = (next()?, next()?);
        let groups = Self {
            directory: directory.to_owned(),
            // Linux 5.14 and later; without it the process groups are killed all the same.
            kill_file: OpenOptions::new().write(true).open(directory.join("cgroup.kill")).ok(),
            servers: groups.collect::<io::Result<_>>()?,
            load,
            beside,
        };
        groups.load.probe()?;
        Ok(groups)
    }

    /// What kills everything in all of the groups when `1` is written to it.
    pub(crate) fn kill_file(&self) -> Option<&File> {
        self.kill_file.as_ref()
    }

    /// The directories in the order in which they can be removed.
    pub(crate) fn directories(&self) -> Vec<CString> {
        let children = names(self.servers.len()).into_iter().map(|name| self.directory.join(name));
        let all = children.chain([self.directory.clone()]);
        // A path from the kernel's own lists has no NUL; one that had could not be opened either.
        all.filter_map(|path| CString::new(path.as_os_str().as_bytes()).ok()).collect()
    }
}

/// The names of the groups: of the load, of what runs beside, then of the servers.
fn names(servers: usize) -> Vec<String> {
    let servers = (1..=servers).map(|number| format!("server-{number}"));
    ["load".to_owned(), "beside".to_owned()].into_iter().chain(servers).collect()
}

/// One group.
pub(crate) struct ControlGroup {
    directory: PathBuf,
    members: File,
}

impl ControlGroup {
    fn create(directory: &Path) -> io::Result<Self> {
        fs::create_dir(directory)?;
        let members = OpenOptions::new().write(true).open(directory.join("cgroup.procs"))?;
        let group = Self { directory: directory.to_owned(), members };
        group.cpu()?;
        Ok(group)
    }

    /// A descriptor to which a process writes `0` to become a member.
    pub(crate) fn members(&self) -> RawFd {
        self.members.as_raw_fd()
    }

    /// CPU time of all members so far, also of those that ended (the kernel shows microseconds).
    pub(crate) fn cpu(&self) -> io::Result<CpuTime> {
        let statistics = fs::read_to_string(self.directory.join("cpu.stat"))?;
        let ns = |name: &str| {
            let value = statistics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
            value.map(|us| us * 1000)
        };
        let absent = || io::Error::new(io::ErrorKind::InvalidData, "cpu.stat has no usage_usec");
        Ok(CpuTime { ns: ns("usage_usec ").ok_or_else(absent)?, system_ns: ns("system_usec ") })
    }

    /// The processes in it now.
    pub(crate) fn processes(&self) -> io::Result<Vec<libc::pid_t>> {
        let members = fs::read_to_string(self.directory.join("cgroup.procs"))?;
        Ok(members.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// Ends every member at once.
    pub(crate) fn kill(&self) {
        // Absent before Linux 5.14; then the process group's end has to do.
        let _unsupported = fs::write(self.directory.join("cgroup.kill"), "1");
    }

    /// Whether a process may really enter: tried with a child that ends at once.
    fn probe(&self) -> io::Result<()> {
        // SAFETY: the child only writes to an open descriptor and exits.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: as above; one byte is read from a constant of one byte.
            unsafe {
                let entered = libc::write(self.members(), c"0".as_ptr().cast(), 1) == 1;
                libc::_exit(i32::from(!entered));
            }
        }
        let mut status = 0;
        // SAFETY: the child is ours, and no other thread waits for it.
        if pid < 0 || unsafe { libc::waitpid(pid, &raw mut status, 0) } != pid {
            return Err(io::Error::last_os_error());
        }
        if status == 0 { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }
}

/// The directory of the group that we are in.
fn own_group() -> io::Result<PathBuf> {
    let absent = || io::Error::new(io::ErrorKind::NotFound, "no control groups (version 2) are mounted");
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    let ours = groups.lines().find_map(|line| line.strip_prefix("0::")).ok_or_else(absent)?;
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    mounts.lines().find_map(|mount| group_directory(mount, ours)).ok_or_else(absent)
}

/// The directory of group `ours` below one line of `mountinfo`, if that is a mount of version 2.
fn group_directory(mount: &str, ours: &str) -> Option<PathBuf> {
    let (place, kind) = mount.split_once(" - ")?;
    if kind.split(' ').next() != Some("cgroup2") {
        return None;
    }
    let mut fields = place.split(' ').skip(3);
    let (root, mounted_at) = (fields.next()?, fields.next()?);
    // In a container the mount may begin further down.
    let below = Path::new(ours).strip_prefix(root).ok()?;
    Some(Path::new(mounted_at).join(below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_below_its_mount() {
        let mount = "42 35 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw";
        let found = |mount: &str, ours: &str| group_directory(mount, ours).map(|path| path.display().to_string());
        assert_eq!(found(mount, "/user/x").as_deref(), Some("/sys/fs/cgroup/unified/user/x"));
        assert_eq!(
            found(&mount.replace("0:38 /", "0:38 /user"), "/user/x").as_deref(),
            Some("/sys/fs/cgroup/unified/x")
        );
        assert_eq!(found(&mount.replace("0:38 /", "0:38 /other"), "/user/x"), None);
        assert_eq!(found(&mount.replace("- cgroup2", "- cgroup"), "/user/x"), None);
    }
}
