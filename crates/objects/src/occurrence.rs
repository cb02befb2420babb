//! Interactions as they happened, one by one.

use crate::events::ObjectId;

/// An interaction that happened: who asked whom, and when each of its events was, nanoseconds.
///
/// A time is none where the event is not recorded, or was not seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occurrence {
    /// Which interaction, by its place in [`crate::Table::interactions`].
    pub interaction: u16,
    /// Who asked.
    pub requester: ObjectId,
    /// Who or what was asked.
    pub object: ObjectId,
    /// The request.
    pub requested_ns: Option<u64>,
    /// The accept.
    pub accepted_ns: Option<u64>,
    /// The finish; of what answers outside of the run, when the answer was heard.
    pub finished_ns: Option<u64>,
}

impl Occurrence {
    /// Equation (2) for it: accept less request, nanoseconds.
    #[must_use]
    pub fn waited_ns(&self) -> Option<u64> {
        Some(self.accepted_ns?.saturating_sub(self.requested_ns?))
    }

    /// Equation (1) for it: finish less accept, nanoseconds.
    #[must_use]
    pub fn used_ns(&self) -> Option<u64> {
        Some(self.finished_ns?.saturating_sub(self.accepted_ns?))
    }

    /// The first of its events that was seen, nanoseconds.
    #[must_use]
    pub fn first_ns(&self) -> u64 {
        self.requested_ns.or(self.accepted_ns).or(self.finished_ns).unwrap_or(0)
    }

    /// The last of its events that was seen, nanoseconds.
    #[must_use]
    pub fn last_ns(&self) -> u64 {
        self.finished_ns.or(self.accepted_ns).or(self.requested_ns).unwrap_or(0)
    }
}

/// Occurrences until the caller takes them, or none if they are not asked for.
#[derive(Debug, Default)]
pub(crate) enum Occurrences {
    /// Sums are all that is asked for.
    #[default]
    NotKept,
    /// Those since the last taking.
    Kept(Vec<Occurrence>),
}

impl Occurrences {
    /// One is over, or is as far as it will be seen.
    #[inline]
    pub(crate) fn tell(
        &mut self,
        interaction: u16,
        (requester, object): (ObjectId, ObjectId),
        [requested_ns, accepted_ns, finished_ns]: [Option<u64>; 3],
    ) {
        if let Self::Kept(kept) = self {
            kept.push(Occurrence { interaction, requester, object, requested_ns, accepted_ns, finished_ns });
        }
    }
}
