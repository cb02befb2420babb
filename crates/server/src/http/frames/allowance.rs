//! A bound on useless work that a client can cause: a bucket of tokens for each connection.
//!
//! Cancelled requests, pings and settings cost the server more than the client, and nothing else bounds them. A browser
//! that leaves a page cancels the requests that are still open, a hundred at most; a client that cancels all the time
//! attacks the server (CVE-2023-44487, CVE-2019-9512, CVE-2019-9515).

/// Tokens at the beginning, and the most that there can be.
const MOST: u64 = 1000;
/// Tokens that come back in a second.
const PER_S: u64 = 200;

/// What frames that bring nothing cost, in tokens.
pub(crate) mod cost {
    /// A frame that is read and forgotten, or answered by one frame.
    pub(crate) const FRAME: u64 = 1;
    /// A request that was taken up and taken back, or refused.
    pub(crate) const REQUEST: u64 = 5;
}

/// The tokens of a connection.
#[derive(Debug)]
pub(crate) struct Allowance {
    tokens: u64,
    since_ms: u64,
}

impl Allowance {
    pub(crate) fn new(now_ms: u64) -> Self {
        Self { tokens: MOST, since_ms: now_ms }
    }

    /// With what another one has left.
    pub(crate) fn of_tokens(tokens: u64, now_ms: u64) -> Self {
        Self { tokens: tokens.min(MOST), since_ms: now_ms }
    }

    /// What is left.
    pub(crate) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Takes tokens; whether there were enough.
    pub(crate) fn spend(&mut self, tokens: u64, now_ms: u64) -> bool {
        let earned = now_ms.saturating_sub(self.since_ms) * PER_S / 1000;
        if earned > 0 {
            self.since_ms = now_ms;
            self.tokens = (self.tokens + earned).min(MOST);
        }
        let left = self.tokens.checked_sub(tokens);
        self.tokens = left.unwrap_or(0);
        left.is_some()
    }
}

/// Small frames of content that are allowed within so many bytes.
const DRIBBLES_MAX: u32 = 1000;
const DRIBBLE_SPAN_BYTES: u64 = 1 << 20;

/// How much a client has us send in small frames by opening its windows a little at a time: for a byte of it a frame is
/// made, encrypted and sent (CVE-2019-9511). A client that takes the rest of a window now and then is far below the
/// bound.
#[derive(Debug, Default)]
pub(crate) struct Dribble {
    frames: u32,
    bytes: u64,
}

impl Dribble {
    /// Counts frames of content; whether they can be borne.
    #[inline]
    pub(crate) fn bear(&mut self, bytes: u64, is_small: bool) -> bool {
        self.bytes += bytes;
        if self.bytes >= DRIBBLE_SPAN_BYTES {
            *self = Self::default();
        }
        self.frames += u32::from(is_small);
        self.frames <= DRIBBLES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_frames_are_borne_among_large_ones() {
        let mut dribble = Dribble::default();
        assert!((0..100_000).all(|i| dribble.bear(if i % 5 == 0 { 20 } else { 16_384 }, i % 5 == 0)));
        let mut dribble = Dribble::default();
        assert!((0..DRIBBLES_MAX).all(|_| dribble.bear(10, true)) && !dribble.bear(10, true));
    }

    #[test]
    fn a_burst_passes_and_a_flood_does_not() {
        let mut allowance = Allowance::new(5000);
        assert!((0..MOST / cost::REQUEST).all(|_| allowance.spend(cost::REQUEST, 5000)));
        assert!(!allowance.spend(cost::FRAME, 5004));
        // What comes back in a second, and no more after a long rest than at the beginning.
        assert!((0..PER_S).all(|_| allowance.spend(cost::FRAME, 6004)) && !allowance.spend(cost::FRAME, 6004));
        assert!(allowance.spend(MOST, 100_000) && !allowance.spend(cost::FRAME, 100_000));
    }
}
