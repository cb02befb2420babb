//! What a loop knows of new sessions without asking the rules: the links for which nothing is decided, and the answers
//! that connections got since the last tick.

use rustc_hash::FxHashSet;
use std::net::{IpAddr, Ipv4Addr};
use weir_server::{Link, Question};

/// Links for which a loop remembers, until the next tick, that nothing is decided.
const AT_REST_MAX: usize = 4096;
/// Places for connections with their paths; the numbers of both choose the place.
const AT_HAND: usize = 256;

/// For which links nothing is decided as sessions begin.
#[derive(Debug, Default)]
pub(crate) struct AtRestNow {
    /// Since which tick, by the policy of which number.
    now: (u64, u64),
    /// Patterns and pieces, and the one that was asked about last.
    pieces: FxHashSet<(usize, u64)>,
    last: Option<(usize, u64)>,
}

impl AtRestNow {
    pub(crate) fn knows(&mut self, now: (u64, u64), piece: (usize, u64)) -> bool {
        if self.now != now {
            return false;
        }
        if self.last == Some(piece) {
            return true;
        }
        let is_known = self.pieces.contains(&piece);
        if is_known {
            self.last = Some(piece);
        }
        is_known
    }

    pub(crate) fn learn(&mut self, now: (u64, u64), piece: (usize, u64)) {
        if self.now != now {
            self.pieces.clear();
            (self.now, self.last) = (now, None);
        }
        if self.pieces.len() < AT_REST_MAX {
            self.pieces.insert(piece);
        }
    }
}

/// A connection that has asked for a path before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CachedAdvice {
    connection: u64,
    /// Stands for the path: what the last advice had the server remember of it. 0 = this place is empty.
    remembered: u64,
    client: IpAddr,
    /// The period of the statistics in which its client was told of; 0 = it was not.
    pub(crate) period: u64,
    /// Its place there among the clients that were seen.
    pub(crate) seen: u32,
    /// Since which tick the answer holds.
    ticks: u64,
    link: Link,
    pub(crate) answer: Option<Answer>,
}

/// What is answered again while nothing changes: with the file itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Answer {
    /// Whether that was chosen.
    pub(crate) is_chosen: bool,
    pub(crate) stale_ms_max: Option<u64>,
    /// The number of the kind as which its sessions are counted; none where they are not.
    pub(crate) kind: Option<u32>,
}

/// The table of these connections.
#[derive(Debug)]
pub(crate) struct AdviceCache(Box<[CachedAdvice]>);

const EMPTY: CachedAdvice = CachedAdvice {
    connection: 0,
    remembered: 0,
    client: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    period: 0,
    seen: 0,
    ticks: 0,
    link: Link { bandwidth_bps: None, rtt_s: None },
    answer: None,
};

impl Default for AdviceCache {
    fn default() -> Self {
        Self(vec![EMPTY; AT_HAND].into_boxed_slice())
    }
}

impl AdviceCache {
    /// The place of a connection and a path, which may be that of others.
    #[inline]
    pub(crate) fn of(&mut self, connection: u64, remembered: u64) -> &mut CachedAdvice {
        // An odd factor, so that connections and paths that are both numbered on do not meet.
        &mut self.0[connection.wrapping_add(remembered.wrapping_mul(37)) as usize % AT_HAND]
    }

    /// Other rules hold, or other orders.
    pub(crate) fn forget(&mut self) {
        self.0.fill(EMPTY);
    }
}

impl CachedAdvice {
    #[inline]
    fn is(&self, question: &Question<'_>, remembered: u64) -> bool {
        self.connection == question.connection && self.remembered == remembered && self.client == question.client
    }

    /// The asking connection takes this place. `seen`: the period of the statistics and the place of its client in them, if it
    /// has one. The former answer is dropped.
    pub(crate) fn becomes(&mut self, question: &Question<'_>, remembered: u64, seen: Option<(u64, u32)>) {
        let Question { connection, client, .. } = *question;
        let (period, seen) = seen.unwrap_or_default();
        *self = Self { connection, remembered, client, period, seen, ..EMPTY };
    }

    /// Whether the answer is one to this question, too, if the period of the statistics is the same.
    #[inline]
    pub(crate) fn holds(&self, question: &Question<'_>, ticks: u64) -> bool {
        self.is(question, question.remembered) && self.ticks == ticks && self.link == question.link
    }

    /// The answer holds for its next questions.
    pub(crate) fn hold(&mut self, ticks: u64, link: Link, answer: Answer) {
        (self.ticks, self.link, self.answer) = (ticks, link, Some(answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(advice_cache: &mut AdviceCache, question: &Question<'_>, ticks: u64) -> Option<(Answer, u64)> {
        let cached = advice_cache.of(question.connection, question.remembered);
        cached.answer.filter(|_| cached.holds(question, ticks)).map(|answer| (answer, cached.period))
    }

    #[test]
    fn a_regular_is_known_by_all_that_may_change() {
        let mut advice_cache = AdviceCache::default();
        let link = Link { bandwidth_bps: Some(1e6), rtt_s: None };
        let client = IpAddr::from([10, 0, 0, 1]);
        let question = Question { path: "/a", client, connection: 1, link, remembered: 3, takes_lease: true };
        let answer = Answer { is_chosen: true, stale_ms_max: Some(5), kind: Some(4) };
        assert_eq!(held(&mut advice_cache, &question, 2), None);
        advice_cache.of(1, 3).becomes(&question, 3, Some((7, 2)));
        assert_eq!(held(&mut advice_cache, &question, 2), None, "nothing holds yet");
        advice_cache.of(1, 3).hold(2, link, answer);
        assert_eq!(held(&mut advice_cache, &question, 2), Some((answer, 7)));
        assert_eq!(held(&mut advice_cache, &question, 4), None, "another tick");
        let far = 1 + AT_HAND as u64;
        for other in [
            Question { connection: far, ..question },
            Question { remembered: 3 + AT_HAND as u64, ..question },
            Question { client: IpAddr::from([10, 0, 0, 2]), ..question },
            Question { link: Link { bandwidth_bps: Some(2e6), rtt_s: None }, ..question },
            Question { link: Link { bandwidth_bps: None, rtt_s: None }, ..question },
            Question { link: Link { rtt_s: Some(0.1), ..link }, ..question },
        ] {
            assert_eq!(held(&mut advice_cache, &other, 2), None, "{other:?}");
        }
        // Without room the statistics do not count the client, so its period is 0.
        advice_cache.of(1, 3).becomes(&question, 3, None);
        advice_cache.of(1, 3).hold(2, link, answer);
        assert_eq!(held(&mut advice_cache, &question, 2), Some((answer, 0)));
        advice_cache.forget();
        assert_eq!(held(&mut advice_cache, &question, 2), None);
    }
}
