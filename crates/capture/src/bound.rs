//! What this kernel and this process's privileges allow.

use crate::error::CaptureError;
use std::path::Path;

/// The ladder of sources for request boundaries, the most telling first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rung {
    /// Tracepoints at sockets (Linux 6.3 and later).
    SocketTracepoints,
    /// Probes at TCP's own functions (fentry and fexit: Linux 5.19 and later, not in lockdown).
    Functions,
    /// The server's system calls, filtered in the kernel (Linux 5.18 and later).
    SystemCalls,
    /// Probes in the functions of known servers.
    UserProbes,
    /// What /proc tells of the server's tasks, without any probe.
    ProcOnly,
    /// The client's own view only.
    ClientOnly,
}

impl Rung {
    /// All rungs, from the top.
    pub const ALL: [Self; 6] = [
        Self::SocketTracepoints,
        Self::Functions,
        Self::SystemCalls,
        Self::UserProbes,
        Self::ProcOnly,
        Self::ClientOnly,
    ];

    /// Its name in reports and in `run.toml`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SocketTracepoints => "socket tracepoints",
            Self::Functions => "fentry",
            Self::SystemCalls => "system calls",
            Self::UserProbes => "user probes",
            Self::ProcOnly => "proc only",
            Self::ClientOnly => "client only",
        }
    }

    /// Its name as an option's value.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::SocketTracepoints => "tracepoints",
            Self::Functions => "fentry",
            Self::SystemCalls => "syscalls",
            Self::UserProbes => "userprobes",
            Self::ProcOnly => "proc",
            Self::ClientOnly => "client",
        }
    }

    /// The rung of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rung| rung.name() == name)
    }

    /// Whether it puts probes into the kernel.
    #[must_use]
    pub fn has_probes(self) -> bool {
        !matches!(self, Self::ProcOnly | Self::ClientOnly)
    }

    /// Whether a request's data may arrive on it without its being told.
    #[must_use]
    pub fn misses_arrivals(self) -> bool {
        matches!(self, Self::SystemCalls | Self::UserProbes)
    }

    /// The rung of an option's value.
    ///
    /// # Errors
    /// The values that there are.
    pub fn of_word(word: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|rung| rung.word() == word).ok_or_else(|| {
            let words = Self::ALL.map(Self::word).join(", ");
            format!("no such rung; there are {words}")
        })
    }
}

/// Capability numbers, from linux/capability.h.
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// The capabilities that are missing to load probes, or `None`.
#[must_use]
pub fn missing_privilege() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0);
    let has = |capability: u32| effective >> capability & 1 == 1;
    if has(CAP_SYS_ADMIN) {
        return None;
    }
    let missing: Vec<&str> = [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON")]
        .into_iter()
        .filter(|(capability, _)| !has(*capability))
        .map(|(_, name)| name)
        .collect();
    (!missing.is_empty()).then(|| format!("missing {}", missing.join(" and ")))
}

/// Refuses early, in words, what would otherwise be a number from the kernel.
pub(crate) fn check() -> Result<(), CaptureError> {
    if let Some(missing) = missing_privilege() {
        return Err(CaptureError::NoPrivilege { missing });
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Err(CaptureError::NoBtf);
    }
    let namespace = std::fs::read_link("/proc/self/ns/pid").map(|name| name.display().to_string()).unwrap_or_default();
    if is_not_the_hosts(&namespace) {
        return Err(CaptureError::PidNamespace { namespace });
    }
    Ok(())
}

/// Whether a pid namespace, as the kernel calls it, is another one than that of the system's first process, in whose
/// numbers probes tell of tasks. Without a name (a kernel without namespaces) there is but one.
fn is_not_the_hosts(namespace: &str) -> bool {
    /// `PROC_PID_INIT_INO` of linux/proc_ns.h.
    const FIRST: &str = "pid:[4026531836]";
    !namespace.is_empty() && namespace != FIRST
}

/// The kernel's release, for messages.
pub(crate) fn release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_namespace_of_ones_own_is_told_from_the_hosts() {
        assert!(!is_not_the_hosts("pid:[4026531836]") && !is_not_the_hosts(""));
        assert!(is_not_the_hosts("pid:[4026532280]"));
        let words = CaptureError::PidNamespace { namespace: "pid:[4026532280]".to_owned() }.to_string();
        assert!(words.contains("pid:[4026532280]") && words.contains("--pid=host"), "{words}");
    }
}
