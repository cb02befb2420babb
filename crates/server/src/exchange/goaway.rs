//! How a server that stops ends a connection with many requests under way (RFC 9113 section 6.8, RFC 9114 section 5.2).
//!
//! The server first waits for a request that a new client may have sent already. Then it sends a GOAWAY that names no
//! last request, so that requests which cross with it are still answered. Once the client has received that GOAWAY, or
//! its time is up, the server sends another GOAWAY that names the last request.

/// How long a client's first request is waited for, and how long one may take to hear that the connection ends.
pub(crate) const GRACE_MS: u64 = 1000;

/// How far it has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Goaway {
    /// The server is not stopped, as far as the connection knows.
    #[default]
    Unsaid,
    /// The first request may still come, until then.
    Awaited { until_ms: u64 },
    /// The client was told that there is an end; what crosses with it is answered, until then.
    Announced { until_ms: u64 },
    /// The client was told which request was the last.
    Said,
}

/// What the client is to be told now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// The connection ends.
    Announcement,
    /// No request after the last one is answered.
    End,
}

impl Goaway {
    /// Whether there is anything to ask, which spares the others the question.
    #[inline]
    pub(crate) fn concerns(self, is_stopping: bool) -> bool {
        is_stopping || self != Self::Unsaid
    }

    /// What a server that is stopped, or was, has to say to a client that has asked for something or has not, and that
    /// has heard the announcement or has not.
    pub(crate) fn next(&mut self, is_stopping: bool, has_asked: bool, has_heard: bool, now_ms: u64) -> Option<Word> {
        let until_ms = now_ms.saturating_add(GRACE_MS);
        match *self {
            // A loop that serves again; only what was not said can be taken back.
            Self::Unsaid | Self::Awaited { .. } if !is_stopping => {
                *self = Self::Unsaid;
                None
            }
            Self::Unsaid if !has_asked => {
                *self = Self::Awaited { until_ms };
                None
            }
            Self::Awaited { until_ms } if !has_asked && now_ms < until_ms => None,
            Self::Unsaid | Self::Awaited { .. } => {
                *self = Self::Announced { until_ms };
                Some(Word::Announcement)
            }
            Self::Announced { until_ms } if !has_heard && now_ms < until_ms => None,
            Self::Announced { .. } => {
                *self = Self::Said;
                Some(Word::End)
            }
            Self::Said => None,
        }
    }

    /// Whether its time is over, so that the next step is due without input from the client.
    pub(crate) fn is_due(self, now_ms: u64) -> bool {
        match self {
            Self::Awaited { until_ms } | Self::Announced { until_ms } => until_ms <= now_ms,
            Self::Unsaid | Self::Said => false,
        }
    }

    /// Whether no further requests are taken up.
    pub(crate) fn is_said(self) -> bool {
        self == Self::Said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_asked_is_told_at_once_and_answered_until_it_has_heard() {
        let mut goaway = Goaway::default();
        assert_eq!(goaway.next(true, true, false, 5), Some(Word::Announcement));
        assert_eq!((goaway.next(true, true, false, 6), goaway.is_due(6)), (None, false));
        assert_eq!((goaway.next(true, true, true, 7), goaway.is_said()), (Some(Word::End), true));
        assert_eq!((goaway.next(true, true, true, 8), goaway.is_due(u64::MAX)), (None, false));
    }

    #[test]
    fn who_has_not_asked_has_its_time_and_who_hears_nothing_as_well() {
        let mut goaway = Goaway::default();
        assert_eq!((goaway.next(true, false, false, 5), goaway.next(true, false, false, 4 + GRACE_MS)), (None, None));
        assert!(!goaway.is_due(4 + GRACE_MS) && goaway.is_due(5 + GRACE_MS));
        assert_eq!(goaway.next(true, false, false, 5 + GRACE_MS), Some(Word::Announcement));
        assert_eq!(goaway.next(true, false, false, 4 + 2 * GRACE_MS), None);
        assert!(!goaway.is_said() && goaway.is_due(5 + 2 * GRACE_MS));
        assert_eq!(goaway.next(true, false, false, 5 + 2 * GRACE_MS), Some(Word::End));
        // A client whose first request comes in time gets the announcement after it.
        let mut goaway = Goaway::default();
        assert_eq!(
            (goaway.next(true, false, false, 5), goaway.next(true, true, false, 6)),
            (None, Some(Word::Announcement))
        );
    }
    #[test]
    fn what_was_announced_is_not_taken_back_and_nothing_else_is_kept() {
        let mut goaway = Goaway::default();
        assert_eq!((goaway.next(true, false, false, 5), goaway.concerns(false)), (None, true));
        assert_eq!((goaway.next(false, false, false, 6), goaway.concerns(false)), (None, false));
        assert_eq!(goaway.next(true, true, false, 7), Some(Word::Announcement));
        assert_eq!(goaway.next(false, true, true, 8), Some(Word::End));
    }
}
