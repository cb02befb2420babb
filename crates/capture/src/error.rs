//! What can go wrong, with the remedy.

use thiserror::Error;

/// Why the kernel cannot be observed.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// The process lacks a capability.
    #[error(
        "no privilege to load kernel probes ({missing}): run as root, or `setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search+ep` on the weir binary"
    )]
    NoPrivilege {
        /// The capabilities that are missing.
        missing: String,
    },
    /// The kernel has no type information.
    #[error(
        "this kernel has no BTF (/sys/kernel/btf/vmlinux is missing): boot one built with CONFIG_DEBUG_INFO_BTF, as all current distributions' are"
    )]
    NoBtf,
    /// The kernel tells of tasks by other numbers than this process's /proc.
    #[error(
        "weir runs in a pid namespace of its own ({namespace}), where processes have other numbers than in the kernel's events, and this kernel does not tell both: run it in the host's (docker run --pid=host, hostPID: true in a pod, or from the host), or take `--rung proc`, which needs no probes"
    )]
    PidNamespace {
        /// As the kernel calls it, such as `pid:[4026532280]`.
        namespace: String,
    },
    /// The kernel has none of the socket tracepoints that mark requests.
    #[error(
        "this kernel ({release}) has no tracepoint {tracepoint}, which marks where requests begin and end; Linux 6.3 or later has it. `weir load` works without"
    )]
    NoSocketTracepoints {
        /// The kernel's release.
        release: String,
        /// The first one missing.
        tracepoint: String,
    },
    /// The kernel lets no probe be attached to its functions.
    #[error(
        "this kernel lets no probe be attached to its functions ({reason}): one in lockdown or built without function tracing refuses"
    )]
    NoFunctionProbes {
        /// What the kernel or libbpf said.
        reason: String,
    },
    /// The source knows the functions of some servers only.
    #[error(
        "the rung \"user probes\" knows the functions of Apache and nginx, and the server runs {programs}: `--rung proc` works with every server"
    )]
    NoKnownServer {
        /// What the server runs.
        programs: String,
    },
    /// Probes are asked for on a source that has none.
    #[error("the rung {name:?} has no probes in the kernel")]
    NoProbes {
        /// The source's name.
        name: &'static str,
    },
    /// The kernel refused the probes for another reason.
    #[error("the kernel refused the probes while {doing}: {reason}")]
    Refused {
        /// What was being done.
        doing: &'static str,
        /// What the kernel or libbpf said.
        reason: String,
    },
}

/// Why a target cannot be found.
#[derive(Debug, Error)]
pub enum TargetError {
    /// No such process.
    #[error("no process {0}; `pgrep -a NAME` lists processes")]
    NoPid(u32),
    /// Nothing of that name runs.
    #[error("no process is named {0:?} (names are at most 15 characters; `ps -eo pid,comm` lists them)")]
    NoComm(String),
    /// Nothing listens there.
    #[error("nothing listens on TCP port {0}; `ss -ltnp` lists what does")]
    NoListener(u16),
    /// /proc does not let us look.
    #[error(
        "TCP port {0} is listened on, but by a process that we may not look at: run as root, or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
    )]
    Hidden(u16),
    /// No such control group.
    #[error("no control group of the {what} {name:?}; `systemd-cgls` or `find /sys/fs/cgroup -type d` lists them")]
    NoGroup {
        /// Unit, container or group.
        what: &'static str,
        /// As it was named.
        name: String,
    },
    /// No such container.
    #[error("no container {name:?}: {why}")]
    NoContainer {
        /// As it was named.
        name: String,
        /// What was looked at, and the remedy.
        why: String,
    },
    /// Several, of which none is the other's.
    #[error("the {what} {name:?} is not one control group but several: {found}; name one by --cgroup")]
    SeveralGroups {
        /// Unit or container.
        what: &'static str,
        /// As it was named.
        name: String,
        /// Their paths.
        found: String,
    },
    /// A group without processes.
    #[error("the control group {0} holds no process; start the service first")]
    EmptyGroup(String),
}
