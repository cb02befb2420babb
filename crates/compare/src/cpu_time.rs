//! CPU time of a server or a load.

/// CPU time so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CpuTime {
    /// Of user and system, in nanoseconds.
    pub(crate) ns: u64,
    /// Of the system, in nanoseconds; `None` where it is not told apart.
    pub(crate) system_ns: Option<u64>,
}

impl CpuTime {
    /// What was used since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        let system_ns = self.system_ns.zip(earlier.system_ns).map(|(now, then)| now.saturating_sub(then));
        Self { ns: self.ns.saturating_sub(earlier.ns), system_ns }
    }
}
