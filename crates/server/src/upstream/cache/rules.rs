//! What a configuration says of a cache.

use std::path::PathBuf;
use std::time::Duration;

/// The settings of one cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CacheRules {
    /// Bytes of memory for heads and bodies, of all loops together.
    pub(crate) memory: u64,
    /// Bytes of the largest body that is kept in memory; a sixteenth of `memory` at most.
    pub(crate) memory_object: u64,
    /// Where larger bodies are kept; none keeps them nowhere.
    pub(crate) disk: Option<DiskRules>,
    /// Stored responses, of all loops together.
    pub(crate) entries: usize,
    /// How long a response is fresh that does not say it and whose status is heuristically cacheable (RFC 9111 section
    /// 4.2.2). None never takes one for fresh.
    pub(crate) default_ttl: Option<Duration>,
    /// The longest heuristic lifetime: a tenth of the time since Last-Modified. None does without that heuristic.
    pub(crate) heuristic: Option<Duration>,
    /// How long a stale response may answer while the upstream fails, where the response does not say it (RFC 5861).
    pub(crate) stale_if_error: Duration,
    /// How long a stale response may answer while a new one is fetched, where the response does not say it.
    pub(crate) stale_while_revalidate: Duration,
    /// What of the query belongs to the key.
    pub(crate) query: QueryKey,
    /// A request with one of these cookies goes by the cache.
    pub(crate) bypass_cookies: Vec<String>,
    /// Whether responses with Set-Cookie are stored.
    pub(crate) set_cookie: SetCookie,
    /// Whether the Cache-Control field of a request counts.
    pub(crate) request_directives: RequestDirectives,
    /// How long a request waits for the response to another one.
    pub(crate) collapse_wait: Duration,
}

/// Where large bodies are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DiskRules {
    /// A directory that the server may write to.
    pub(crate) directory: PathBuf,
    /// Bytes of all files.
    pub(crate) bytes: u64,
    /// Bytes of the largest body that is kept at all; a sixteenth of `bytes` at most.
    pub(crate) object: u64,
}

/// What of a query belongs to the key of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum QueryKey {
    /// All of it, as it came.
    Whole,
    /// Nothing.
    Ignored,
    /// All arguments but these.
    Without(Vec<String>),
    /// Only these arguments.
    Only(Vec<String>),
}

/// What becomes of a response with Set-Cookie.
///
/// RFC 9111 allows a cache to store it, and section 7.3 warns of it: a cookie is mostly one client's session, and a
/// stored one makes the session of the first client that of all. An upstream that means it can seldom be told from one
/// that forgot `private`, so a person has to say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetCookie {
    NotStored,
    Stored,
}

/// Whether clients steer the cache by their Cache-Control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestDirectives {
    /// As RFC 9111 section 5.2.1 has it.
    Obeyed,
    /// They are ignored, apart from `only-if-cached`: a client cannot make the upstream work.
    Ignored,
}

impl Default for CacheRules {
    fn default() -> Self {
        Self {
            memory: 256 << 20,
            memory_object: 1 << 20,
            disk: None,
            entries: 100_000,
            default_ttl: None,
            heuristic: None,
            stale_if_error: Duration::ZERO,
            stale_while_revalidate: Duration::ZERO,
            query: QueryKey::Whole,
            bypass_cookies: Vec::new(),
            set_cookie: SetCookie::NotStored,
            request_directives: RequestDirectives::Obeyed,
            collapse_wait: Duration::from_secs(5),
        }
    }
}
