//! What the admin address tells of servers before this one, which live on until their tunnels end.

use serde::Serialize;

/// The part of the server that knows them.
pub(crate) trait FormerServers: std::fmt::Debug + Send + Sync {
    /// Those that live, the oldest first.
    fn readings(&self) -> Vec<FormerReading>;
    /// Has their caches forget what these words of a query mean; they are known to mean something.
    fn purge(&self, query: &str) -> Told;
}

/// A former server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FormerReading {
    pub(crate) pid: u32,
    pub(crate) started_unix_s: u64,
    /// When another one followed it.
    pub(crate) followed_unix_s: u64,
    /// Until when it keeps its tunnels.
    pub(crate) tunnels_until_unix_s: u64,
    /// As of half a second ago at most.
    pub(crate) connections: u64,
    pub(crate) tunnels: u64,
    pub(crate) responses: u64,
}

/// What became of a purge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// Former servers that were told.
    pub(crate) servers: usize,
    /// Those of them that have not answered.
    pub(crate) silent: usize,
    /// Responses that the others have forgotten.
    pub(crate) purged: usize,
}
