//! Which server is recorded.

use anyhow::bail;
use std::path::PathBuf;
use weir_capture::{Target, cgroup};

/// What is noted of a target that has ended.
pub(crate) const TARGET_ENDED: &str = "every process of the target has ended; what was recorded is kept";

/// A server as its user names it.
#[derive(Debug, Clone, Default)]
pub struct Named {
    /// TCP ports that it listens on.
    pub ports: Vec<u16>,
    /// Processes, with their children and threads.
    pub pids: Vec<u32>,
    /// Names of processes.
    pub comms: Vec<String>,
    /// Units of systemd.
    pub units: Vec<String>,
    /// Containers, by name, id, or the first characters of that.
    pub containers: Vec<String>,
    /// Control groups, by their paths below /sys/fs/cgroup.
    pub cgroups: Vec<PathBuf>,
    /// How much of it must be there.
    pub wanted: Wanted,
}

/// How much of what is named must be there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wanted {
    /// All of it.
    #[default]
    All,
    /// Some of it: what is named is on one of several hosts. What is not there is told of.
    Some,
}

impl Named {
    /// Whether nothing was named.
    pub fn is_empty(&self) -> bool {
        let groups = self.units.len() + self.containers.len() + self.cgroups.len();
        self.ports.is_empty() && self.pids.is_empty() && self.comms.is_empty() && groups == 0
    }

    /// What was named, in words.
    pub fn words(&self) -> String {
        let ports = self.ports.iter().map(|port| format!("port {port}"));
        let pids = self.pids.iter().map(|pid| format!("process {pid}"));
        let groups = self.cgroups.iter().map(|path| path.display().to_string());
        let named = self.comms.iter().chain(&self.units).chain(&self.containers).cloned();
        ports.chain(pids).chain(named).chain(groups).collect::<Vec<_>>().join(", ")
    }

    /// The processes and ports that are meant.
    ///
    /// # Errors
    /// One of them is not there.
    pub fn find(&self) -> anyhow::Result<Target> {
        let (mut found, mut missing) = (None::<Target>, Vec::new());
        for one in self.each() {
            match one {
                Ok(target) => found = Some(found.take().unwrap_or_default().and(target)),
                Err(error) if self.wanted == Wanted::Some => missing.push(format!("{error:#}")),
                Err(error) => return Err(error),
            }
        }
        if found.is_none() && !missing.is_empty() {
            bail!("{}", missing.join("; "));
        }
        missing.iter().for_each(|missing| eprintln!("not on this host: {missing}"));
        Ok(found.unwrap_or_default())
    }

    /// Each thing that was named, found.
    fn each(&self) -> impl Iterator<Item = anyhow::Result<Target>> + '_ {
        let ports = self.ports.iter().map(|port| Ok(Target::of_port(*port)?));
        let pids = self.pids.iter().map(|pid| Ok(Target::of_pid(*pid)?));
        let comms = self.comms.iter().map(|comm| Ok(Target::of_comm(comm)?));
        let units = self.units.iter().map(|unit| Ok(Target::of_group(&cgroup::of_unit(unit)?)?));
        let containers = self.containers.iter().map(|name| Ok(Target::of_group(&cgroup::of_container(name)?)?));
        let cgroups = self.cgroups.iter().map(|path| Ok(Target::of_group(&cgroup::of_path(path)?)?));
        ports.chain(pids).chain(comms).chain(units).chain(containers).chain(cgroups)
    }
}

/// Without a TCP port no request of a server that runs already would be seen.
pub(crate) fn must_listen(target: &Target) -> anyhow::Result<()> {
    if target.ports.is_empty() {
        bail!("the target listens on no TCP port; name one with --port N");
    }
    Ok(())
}

/// Whether no process of the target runs any more.
pub(crate) fn has_ended(target: &Target) -> bool {
    target.pids.iter().all(|pid| !crate::child::lives(*pid))
}
