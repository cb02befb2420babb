//! Network namespaces: the kernel lists a namespace's sockets only to a task that is in it.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// The namespaces whose sockets were listed since the window began.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    known: HashSet<PathBuf>,
}

/// A network namespace that is not this process's, by one of the processes in it.
#[derive(Debug)]
pub(crate) struct Namespace {
    /// One of its processes.
    pub(crate) pid: u32,
    /// As the kernel calls it, such as `net:[4026532281]`.
    pub(crate) name: String,
}

impl Listed {
    /// Those of these processes' namespaces that are neither this process's nor were given before.
    pub(crate) fn fresh(&mut self, pids: impl IntoIterator<Item = u32>) -> Vec<Namespace> {
        self.known.extend(name_of("self"));
        let mut found = BTreeMap::new();
        for pid in pids {
            // Of a process that is gone no connection is left that it could deal with.
            if let Some(name) = name_of(&pid.to_string())
                && self.known.insert(name.clone())
            {
                found.insert(name, pid);
            }
        }
        found.into_iter().map(|(name, pid)| Namespace { pid, name: name.display().to_string() }).collect()
    }

    /// Forgets all: in a pause connections came and went.
    pub(crate) fn clear(&mut self) {
        self.known.clear();
    }
}

fn name_of(pid: &str) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}

impl Namespace {
    /// Runs `work` in a thread of its own that is in this namespace; the process stays where it is.
    ///
    /// # Errors
    /// That the process is gone, that we may not enter its namespace, or what `work` says.
    pub(crate) fn within(&self, work: impl FnOnce() -> io::Result<()> + Send) -> io::Result<()> {
        let namespace = File::open(format!("/proc/{}/ns/net", self.pid))?;
        std::thread::scope(|scope| {
            let entered = scope.spawn(|| {
                // SAFETY: setns takes a descriptor, which is open, and a number; it moves this thread alone.
                if unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
                    return Err(io::Error::last_os_error());
                }
                work()
            });
            entered.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn our_own_namespace_is_none_of_the_others() {
        let mut listed = Listed::default();
        assert!(listed.fresh([std::process::id(), u32::MAX]).is_empty());
    }

    /// Without the privilege to make a namespace there is none to look into.
    #[test]
    fn another_namespace_is_found_once_and_can_be_entered() {
        let mut command = Command::new("unshare");
        let child =
            command.args(["-n", "sh", "-c", "echo; exec sleep 60"]).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut child) = child.spawn() else { return };
        let mut line = [0];
        let is_there = child.stdout.take().is_some_and(|mut out| io::Read::read_exact(&mut out, &mut line).is_ok());
        if is_there {
            let mut listed = Listed::default();
            let found = listed.fresh([std::process::id(), child.id(), child.id()]);
            assert_eq!(found.iter().map(|one| one.pid).collect::<Vec<_>>(), [child.id()]);
            assert!(listed.fresh([child.id()]).is_empty(), "it is listed once");
            let (own, mut seen) = (name_of("self"), None);
            let entered = found[0].within(|| {
                seen = name_of("thread-self");
                Ok(())
            });
            assert!(entered.is_ok(), "{entered:?}");
            assert_eq!(seen.map(|name| name.display().to_string()), Some(found[0].name.clone()));
            assert_eq!(name_of("self"), own, "this process has stayed");
            listed.clear();
            assert_eq!(listed.fresh([child.id()]).len(), 1, "in the next window it is listed again");
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}
