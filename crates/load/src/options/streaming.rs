//! Whether streamed answers can be looked at with the other options.

use crate::LoadError;
use crate::options::settings::{Io, Options};
use crate::reach::protocol::Protocol;
use crate::streamed::Streaming;
use std::time::Duration;

/// The longest times that are kept: an hour.
const LONGEST: Duration = Duration::from_secs(3600);

impl Streaming {
    /// Whether they can.
    pub(crate) fn check(&self, options: &Options) -> Result<(), LoadError> {
        let wrong = |what| Err(LoadError::Options(what));
        if [self.between_max, self.close_after].into_iter().flatten().any(|time| time.is_zero() || time > LONGEST) {
            return wrong(
                "the time between two events, and that after which a stream is ended, lie between 1 ns and an hour",
            );
        }
        if self.between_max.is_some_and(|time| time >= options.timeout) {
            return wrong("the time between two events is shorter than the timeout, which is that of a whole answer");
        }
        if self.close_after.is_some_and(|time| time >= options.timeout) {
            return wrong("a stream is ended before the timeout, which is that of a whole answer: raise the timeout");
        }
        if matches!(options.protocol, Protocol::Http3 { .. }) {
            return wrong("events of streamed answers are told apart over HTTP/1.1 and HTTP/2: leave HTTP/3 out");
        }
        if options.pipeline > 1 {
            return wrong("streamed answers are looked at one at a time on a connection: leave the pipeline out");
        }
        if options.requests.sessions.is_some() || options.requests.mix.is_some() || options.directed.is_some() {
            return wrong(
                "streamed answers are looked at without sessions, mixes and directors: leave one of both out",
            );
        }
        if options.slow.is_slow() {
            return wrong(
                "streamed answers are looked at by clients that read at once: leave limits, latency and patience out",
            );
        }
        if options.io == Io::Uring {
            return wrong(
                "io_uring brings answers of many connections at once, which bends the times of events: leave it out",
            );
        }
        if options.request.is_head() {
            return wrong("the answer to HEAD has no body, and so no events: use another method");
        }
        Ok(())
    }
}
