//! What is asked of whoever knows rules, while requests are answered. The server knows none.

/// What a request is about, for whoever knows rules.
pub struct Question<'a> {
    /// The path of the request, decoded.
    pub path: &'a str,
    /// The client's address.
    pub client: std::net::IpAddr,
    /// The connection's number, of no other one that is open.
    pub connection: u64,
    /// What is known of it.
    pub link: Link,
}

/// What is known of a client's connection; `None` is unknown.
#[derive(Debug, Clone, Copy, Default)]
pub struct Link {
    /// Acknowledged bits over the time in which data was queued, bits a second.
    pub bandwidth_bps: Option<f64>,
    /// The round-trip time, seconds.
    pub rtt_s: Option<f64>,
}

/// What is to be done with a request or a response under way.
#[derive(Debug, Clone, Default)]
pub struct Advice {
    /// The variant to serve; `None` = the file as it is named.
    pub variant: Option<std::sync::Arc<str>>,
    /// Refuse it with 503, to be tried again after so many seconds.
    pub refuse_retry_after_s: Option<u32>,
    /// Answer from memory without a look at the file.
    pub may_be_stale: bool,
}

/// Asked by the event loops, from several threads; must not block.
pub trait Adviser: Send + Sync + std::fmt::Debug {
    /// Whether any rule is for this path: asked once for each path that is loaded, the answer is kept with it.
    fn governs(&self, path: &str) -> bool;
    /// A request for a governed path is about to be answered.
    fn begin(&self, question: &Question<'_>) -> Advice;
    /// A response of a governed path is under way, at most every 100 ms: another variant to go on with?
    fn during(&self, connection: u64, link: Link) -> Option<std::sync::Arc<str>>;
    /// It is over.
    fn end(&self, connection: u64, bytes: u64, failed: bool);
}
