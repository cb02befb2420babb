//! Where request boundaries may come from.

/// The ladder of sources for request boundaries, the most telling first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BoundarySource {
    /// Tracepoints at sockets (Linux 6.3 and later).
    SocketTracepoints,
    /// Probes at TCP's own functions (fentry and fexit: Linux 5.10 and later, not in lockdown).
    Functions,
    /// The server's system calls, filtered in the kernel (Linux 5.10 and later).
    SystemCalls,
    /// Probes in the functions of known servers.
    UserProbes,
    /// What /proc tells of the server's tasks, without any probe.
    ProcOnly,
    /// The client's own view only.
    ClientOnly,
}

impl BoundarySource {
    /// All sources, from the top.
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

    /// The source of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.name() == name)
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

    /// Whether sockets are found by their descriptors on it.
    pub(crate) fn finds_by_descriptor(self) -> bool {
        matches!(self, Self::SystemCalls | Self::UserProbes)
    }

    /// The source of an option's value.
    ///
    /// # Errors
    /// [`NoSuchSource`] says which values there are.
    pub fn of_word(word: &str) -> Result<Self, NoSuchSource> {
        Self::ALL.into_iter().find(|source| source.word() == word).ok_or(NoSuchSource)
    }
}

/// An option's value names no source of request boundaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no such rung; there are {}", BoundarySource::ALL.map(BoundarySource::word).join(", "))]
pub struct NoSuchSource;
