//! What slows a client down.

use crate::sessions::session::Think;
use crate::slow::links::Link;

/// What slows a client down, for every connection of a run; by default nothing does.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SlowClient {
    /// Rates and latency of its line.
    pub link: Link,
    /// How long users wait for a whole response before they click stop; `None` = as long as it takes.
    ///
    /// It counts from the intended time, and the request counts as
    /// [`Outcome::Stopped`](weir_wire::client::Outcome::Stopped), which is no error. Over HTTP/1.1 the connection is closed;
    /// over HTTP/2 and HTTP/3 the request's stream is cancelled, and the connection lives on.
    pub patience: Option<Think>,
    /// Where the random numbers of the patience begin.
    pub seed: u64,
}

impl SlowClient {
    /// Whether anything slows the client down.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        self.link != Link::default() || self.patience.is_some()
    }
}
