//! What a loop's statistics had no room for.

/// What there was no room for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Dropped {
    /// Requests for paths beyond those that are followed one by one.
    pub paths: u64,
    /// Sessions beyond those that are followed.
    pub connections: u64,
    /// Requests whose client was not looked at.
    pub clients: u64,
    /// Requests that found the statistics locked, or the rules at work, and were answered without advice, or of whose waiting
    /// nothing was noted.
    pub undecided: u64,
}

impl Dropped {
    pub(crate) fn add(&mut self, other: Self) {
        self.paths += other.paths;
        self.connections += other.connections;
        self.clients += other.clients;
        self.undecided += other.undecided;
    }
}
