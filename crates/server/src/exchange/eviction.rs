//! Which connection gives up its place for another one, where all places are taken.

/// How long a connection is idle before it may be closed for another one: a client that asks again and again must not
/// lose its connection under the next request.
const IDLE_MS: u64 = 1000;
/// The same for one whose client sends its body slowly, or takes nothing of its response.
const STALLED_MS: u64 = 2000;

/// A connection that may be closed for another one; the first in their order first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Yields {
    kind: Kind,
    since_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Between two requests.
    Idle,
    /// Within a head, or a handshake.
    Slow,
    /// With a body that does not come, or a response that is not taken.
    Stalled,
}

impl Yields {
    /// Idle since then, if that is long enough.
    pub(crate) fn idle(since_ms: u64, now_ms: u64) -> Option<Self> {
        (now_ms.saturating_sub(since_ms) >= IDLE_MS).then_some(Self { kind: Kind::Idle, since_ms })
    }

    /// Within a head that began then.
    pub(crate) fn slow(since_ms: u64) -> Option<Self> {
        Some(Self { kind: Kind::Slow, since_ms })
    }

    /// Without a byte since then, if that is long enough.
    pub(crate) fn stalled(since_ms: u64, now_ms: u64) -> Option<Self> {
        (now_ms.saturating_sub(since_ms) >= STALLED_MS).then_some(Self { kind: Kind::Stalled, since_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_idle_goes_first_then_who_is_slow_then_who_takes_nothing() {
        let order = [
            Yields::idle(10, 5000),
            Yields::idle(4000, 5000),
            Yields::slow(5),
            Yields::slow(4999),
            Yields::stalled(1, 5000),
            Yields::stalled(3000, 5000),
        ];
        assert!(order.iter().all(Option::is_some) && order.is_sorted());
        assert_eq!((Yields::idle(4001, 5000), Yields::stalled(3001, 5000)), (None, None));
    }
}
