//! The clocks of several hosts, in words.

use crate::Explanation;
use crate::units::nanoseconds;

/// How far the clocks of several hosts are known, and what that can change.
pub(crate) fn words(explanation: &Explanation) -> Option<String> {
    let error_ns = explanation.hosts.iter().map(|host| host.clock_error_ns).reduce(f64::max)?;
    Some(format!(
        "The hosts' clocks are known within {}: so far a way there may be longer and the way back shorter; their sum, the \
         network's share, is right. How long an answer lay unread at a generator that was recorded without its kernel is in \
         the network's.",
        nanoseconds(error_ns).trim()
    ))
}
