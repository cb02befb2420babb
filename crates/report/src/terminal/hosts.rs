//! Hosts whose runs were explained together: how far their clocks are known.

use super::text::Screen;
use crate::units::{count, nanoseconds};
use crate::{Explanation, HostRun};

/// Writes them, if there are several.
pub(super) fn write(screen: &mut Screen, explanation: &Explanation) {
    let Some((first, others)) = explanation.hosts.split_first() else { return };
    screen.blank();
    let clock = format!("{}, whose clock is used ({})", first.name, first.run);
    screen.labelled("hosts", &clock, str::to_owned);
    for host in others {
        screen.labelled("", &words(host), str::to_owned);
    }
}

/// A host in a line.
fn words(host: &HostRun) -> String {
    let contradicting = match host.contradicting {
        0 => String::new(),
        some => format!(", {} of which arrived before they were sent", count(some)),
    };
    format!(
        "{} ({}): its clock is right within {}, by {} messages over {} connections{contradicting}",
        host.name,
        host.run,
        nanoseconds(host.clock_error_ns),
        count(host.messages),
        count(host.connections)
    )
}
