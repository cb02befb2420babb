//! What was done and what was turned away.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// What was done and what was turned away, since the start.
#[derive(Debug, Default)]
pub struct Counts {
    /// Connections that were accepted.
    pub connections: AtomicU64,
    /// Connections that were closed at once, as there were too many.
    pub refused: AtomicU64,
    /// Connections whose handshake failed, or whose certificate has none of the names.
    pub untrusted: AtomicU64,
    /// Connections that were closed as they did not speak FastCGI, or took too long.
    pub malformed: AtomicU64,
    /// Requests whose variables came whole.
    pub requests: AtomicU64,
    /// Requests that were answered by a runner as a whole.
    pub answered: AtomicU64,
    /// Requests that lead to no script.
    pub unfound: AtomicU64,
    /// Requests for which there was no place.
    pub crowded: AtomicU64,
    /// Requests whose peer went away.
    pub gone: AtomicU64,
    /// Requests whose peer took nothing of the response for too long.
    pub stalled: AtomicU64,
    /// Requests whose runner ended before it had answered.
    pub broken: AtomicU64,
    /// Requests that the end of this program cut off.
    pub cut: AtomicU64,
    /// Lines of the log that were left out.
    pub lines_lost: AtomicU64,
}

impl Counts {
    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        write!(
            out,
            "{} connections, {} requests, {} answered",
            of(&self.connections),
            of(&self.requests),
            of(&self.answered)
        )?;
        let others = [
            (&self.refused, "connections refused (`connections`)"),
            (&self.untrusted, "connections without trust"),
            (&self.malformed, "connections that did not speak FastCGI in time"),
            (&self.unfound, "requests without a script"),
            (&self.crowded, "requests without a place (`workers`, `queue`)"),
            (&self.gone, "requests given up by their peer"),
            (&self.stalled, "requests whose peer read nothing"),
            (&self.broken, "requests whose runner ended"),
            (&self.cut, "requests cut off at the end"),
            (&self.lines_lost, "lines of the log left out"),
        ];
        others
            .iter()
            .filter(|(counter, _)| of(counter) > 0)
            .try_for_each(|(counter, what)| write!(out, ", {} {what}", of(counter)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_happened_is_told() {
        let counts = Counts::default();
        Counts::add(&counts.connections);
        Counts::add(&counts.untrusted);
        assert_eq!(counts.to_string(), "1 connections, 0 requests, 0 answered, 1 connections without trust");
    }
}
