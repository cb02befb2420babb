//! Who talks to whom within the host: the two ends of a connection, and what tasks did at each.
//!
//! What one end sends the other receives; so a task that waits at one end waits for the task at the other.

use crate::tasks::Verb;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Ends that are remembered; beyond, those go at which nothing happened for longest.
const MOST_ENDS: usize = 1 << 16;
/// Dealings that an end keeps.
const MOST_DEALINGS: usize = 1 << 12;

/// What a task did at an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dealing {
    pub(crate) at_ns: u64,
    pub(crate) verb: Verb,
    pub(crate) pid: u32,
}

/// One end of a connection within the host, or between recorded hosts.
#[derive(Debug)]
struct End {
    peer: u32,
    /// The other end is on another host: what it is sent is on the way for a while.
    far: bool,
    /// When data arrived here, if it came from another host, and whether no task had accepted the connection then.
    arrivals: VecDeque<(u64, bool)>,
    /// It was accepted: requests come in here.
    accepted: bool,
    touched_ns: u64,
    dealings: VecDeque<Dealing>,
    /// Dealings were forgotten, so the first one that is kept is not the first one of the connection.
    forgotten: bool,
}

impl End {
    fn new(peer: u32, accepted: bool, at_ns: u64) -> Self {
        let (dealings, arrivals) = (VecDeque::new(), VecDeque::new());
        Self { peer, far: false, arrivals, accepted, touched_ns: at_ns, dealings, forgotten: false }
    }

    /// How many dealings lie before a time; they stand in the order in which they were told, which is that of time.
    fn before(&self, at_ns: u64) -> usize {
        self.dealings.partition_point(|dealing| dealing.at_ns < at_ns)
    }

    /// The last sending before a time.
    fn sent_before(&self, at_ns: u64) -> Option<Dealing> {
        self.dealings.range(..self.before(at_ns)).rev().find(|dealing| dealing.verb == Verb::Send).copied()
    }

    /// The first sending from a time on.
    fn sent_from(&self, at_ns: u64) -> Option<Dealing> {
        self.dealings.range(self.before(at_ns)..).find(|dealing| dealing.verb == Verb::Send).copied()
    }
}

/// All ends, by their socket's short id.
#[derive(Debug, Default)]
pub(crate) struct Conversations {
    ends: FxHashMap<u32, End>,
}

impl Conversations {
    /// A call that sends returns so soon after its wake-up, unless its task loses the CPU; nanoseconds.
    pub(crate) const RETURN_NS: u64 = 5_000_000;

    /// Two sockets are the ends of one connection; one of them may be known to be the one that was accepted.
    pub(crate) fn connect(&mut self, ends: [u32; 2], accepted: Option<u32>, at_ns: u64) {
        let [one, other] = ends;
        if one == other {
            return;
        }
        for (own, peer) in [(one, other), (other, one)] {
            let is_accepted = accepted == Some(own);
            // Told again, it is the same one; told anew, the number has another owner.
            if self.ends.get(&own).is_some_and(|end| end.peer == peer && (end.accepted == is_accepted || end.far)) {
                continue;
            }
            self.ends.insert(own, End::new(peer, is_accepted, at_ns));
        }
    }

    /// Two sockets of two recorded hosts are the ends of one connection; one of them was accepted.
    pub(crate) fn connect_far(&mut self, ends: [u32; 2], accepted: u32, at_ns: u64) {
        let [one, other] = ends;
        for (own, peer) in [(one, other), (other, one)] {
            if !self.ends.get(&own).is_some_and(|end| end.peer == peer && end.far) {
                self.ends.insert(own, End { far: true, ..End::new(peer, accepted == own, at_ns) });
            }
        }
    }

    /// Data arrived at a socket; kept where it came from another host.
    pub(crate) fn arrive(&mut self, socket: u32, at_ns: u64, not_accepted: bool) {
        let Some(end) = self.ends.get_mut(&socket).filter(|end| end.far) else { return };
        end.arrivals.push_back((at_ns, not_accepted));
        if end.arrivals.len() > MOST_DEALINGS {
            end.arrivals.pop_front();
        }
    }

    /// Whether the other end of a socket's connection is on another host.
    pub(crate) fn is_far(&self, socket: u32) -> bool {
        self.ends.get(&socket).is_some_and(|end| end.far)
    }

    /// When the answer that was given at the other end at a time was taken here, or 0.
    pub(crate) fn heard_ns(&self, socket: u32, answered_ns: u64) -> u64 {
        let Some(end) = self.ends.get(&socket) else { return 0 };
        let mut later = end.dealings.range(end.before(answered_ns)..);
        later.find(|dealing| dealing.verb == Verb::Receive).map_or(0, |dealing| dealing.at_ns)
    }

    /// The answer of another host to what was asked at a socket by a time: given at the other end after the answer before
    /// was taken here, and before the next taking here, which was of it; of one in pieces, the last of these.
    ///
    /// The clocks of hosts are known within bounds only, so a taking may seem to come before the sending.
    pub(crate) fn far_answer(&self, socket: u32, asked_ns: u64, at_ns: u64) -> Option<Dealing> {
        let (end, peer) = (self.ends.get(&socket)?, self.ends.get(&self.peer(socket)?)?);
        let received = |dealing: &&Dealing| dealing.verb == Verb::Receive;
        let heard_ns = end.dealings.range(end.before(at_ns)..).find(received).map_or(at_ns, |taken| taken.at_ns);
        let before_ns = end.dealings.range(..end.before(asked_ns)).rev().find(received).map_or(0, |taken| taken.at_ns);
        let after = || peer.sent_from(heard_ns).filter(|one| one.at_ns < heard_ns.saturating_add(Self::RETURN_NS));
        peer.sent_before(heard_ns).filter(|one| one.at_ns >= before_ns).or_else(after)
    }

    /// When the first data arrived at a socket for the answer that was given there at a time: after the answer before; and
    /// whether no task had accepted the connection then.
    pub(crate) fn arrived(&self, socket: u32, answered_ns: u64) -> Option<(u64, bool)> {
        let end = self.ends.get(&socket)?;
        let before_ns = end.sent_before(answered_ns).map_or(0, |before| before.at_ns);
        let first = end.arrivals.partition_point(|(at_ns, _)| *at_ns < before_ns);
        end.arrivals.get(first).copied().filter(|(at_ns, _)| *at_ns <= answered_ns)
    }

    /// Whether a socket is an end at which requests come in.
    pub(crate) fn is_accepted(&self, socket: u32) -> bool {
        self.ends.get(&socket).is_some_and(|end| end.accepted)
    }

    /// The other end.
    pub(crate) fn peer(&self, socket: u32) -> Option<u32> {
        self.ends.get(&socket).map(|end| end.peer)
    }

    /// A task dealt with a socket.
    pub(crate) fn touch(&mut self, socket: u32, dealing: Dealing) {
        let Some(end) = self.ends.get_mut(&socket) else { return };
        end.touched_ns = dealing.at_ns;
        end.dealings.push_back(dealing);
        if end.dealings.len() > MOST_DEALINGS {
            end.dealings.pop_front();
            end.forgotten = true;
        }
    }

    /// The first task that received at a socket for an answer that was given at a time, or is the next one after it:
    /// since the answer before.
    pub(crate) fn picked(&self, socket: u32, answered_ns: u64) -> Option<Dealing> {
        let end = self.ends.get(&socket)?;
        let (dealings, first_not_before) = (&end.dealings, end.before(answered_ns));
        let is_answer = |index: &usize| dealings[*index].verb == Verb::Send;
        let answer = (first_not_before..dealings.len()).find(is_answer).unwrap_or(dealings.len());
        let since = (0..answer).rev().find(is_answer).map_or(0, |before| before + 1);
        dealings.range(since..answer).next().copied()
    }

    /// The task whose sending at a socket ended a wait at a time: the wake-up comes from within the call that sends, and
    /// the event of the sending after it; only where the wake-up was put off does it come before.
    pub(crate) fn answered(&self, socket: u32, from_ns: u64, at_ns: u64) -> Option<Dealing> {
        let end = self.ends.get(&socket)?;
        let before = || end.sent_before(at_ns).filter(|one| one.at_ns >= from_ns);
        let after = end.sent_from(at_ns).filter(|one| one.at_ns < at_ns.saturating_add(Self::RETURN_NS));
        // Both: an answer in pieces, whose first piece ended the wait before the one asked for.
        after.or_else(before)
    }

    /// The first sending at a socket after a time.
    pub(crate) fn sent(&self, socket: u32, after_ns: u64) -> Option<Dealing> {
        self.ends.get(&socket)?.sent_from(after_ns.saturating_add(1))
    }

    /// When something was last sent at a socket, up to a time.
    pub(crate) fn asked_ns(&self, socket: u32, until_ns: u64) -> Option<u64> {
        self.asked(socket, until_ns).map(|dealing| dealing.at_ns)
    }

    /// The last sending at a socket, up to a time.
    pub(crate) fn asked(&self, socket: u32, until_ns: u64) -> Option<Dealing> {
        self.ends.get(&socket)?.sent_before(until_ns.saturating_add(1))
    }

    /// Whether nothing had happened at a socket before a time.
    pub(crate) fn is_new(&self, socket: u32, before_ns: u64) -> bool {
        self.ends
            .get(&socket)
            .is_some_and(|end| !end.forgotten && end.dealings.front().is_none_or(|first| first.at_ns >= before_ns))
    }

    /// A socket is closed for good, and its number may be another's soon.
    pub(crate) fn close(&mut self, socket: u32) {
        if let Some(end) = self.ends.get_mut(&socket) {
            end.touched_ns = 0;
        }
    }

    /// Forgets what lies before a time, and beyond the bound the ends that were not touched since.
    pub(crate) fn trim(&mut self, before_ns: u64) {
        for end in self.ends.values_mut() {
            while end.dealings.front().is_some_and(|first| first.at_ns < before_ns) {
                end.dealings.pop_front();
                end.forgotten = true;
            }
            while end.arrivals.front().is_some_and(|(first, _)| *first < before_ns) {
                end.arrivals.pop_front();
            }
        }
        if self.ends.len() > MOST_ENDS {
            self.ends.retain(|_, end| end.touched_ns >= before_ns);
        }
        while self.ends.len() > 2 * MOST_ENDS {
            let mut times: Vec<u64> = self.ends.values().map(|end| end.touched_ns).collect();
            let middle = times.len() / 2;
            let (_, median, _) = times.select_nth_unstable(middle);
            let median = *median;
            self.ends.retain(|_, end| end.touched_ns > median);
        }
    }

    /// How many things are held.
    pub(crate) fn held(&self) -> usize {
        self.ends.values().map(|end| 1 + end.dealings.len() + end.arrivals.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dealing(at_ns: u64, verb: Verb, pid: u32) -> Dealing {
        Dealing { at_ns, verb, pid }
    }

    #[test]
    fn a_question_finds_who_took_it_and_who_answered() {
        let mut conversations = Conversations::default();
        conversations.connect([7, 8], Some(8), 5);
        assert!(conversations.is_new(8, 100));
        conversations.touch(7, dealing(10, Verb::Send, 1));
        conversations.touch(8, dealing(30, Verb::Receive, 2));
        conversations.touch(8, dealing(61, Verb::Send, 2));
        conversations.touch(7, dealing(70, Verb::Receive, 1));
        conversations.touch(9, dealing(70, Verb::Receive, 1));
        assert_eq!((conversations.peer(7), conversations.peer(8), conversations.peer(9)), (Some(8), Some(7), None));
        assert!(conversations.is_accepted(8) && !conversations.is_accepted(7));
        assert_eq!(conversations.picked(8, 61), Some(dealing(30, Verb::Receive, 2)));
        assert_eq!(conversations.picked(8, 40), Some(dealing(30, Verb::Receive, 2)));
        assert_eq!(conversations.answered(8, 10, 60), Some(dealing(61, Verb::Send, 2)));
        assert_eq!(conversations.picked(8, 62), None);
        assert_eq!((conversations.asked_ns(7, 60), conversations.asked_ns(7, 9)), (Some(10), None));
        assert!(!conversations.is_new(8, 100));
        conversations.trim(65);
        assert_eq!(conversations.held(), 3);
    }

    proptest! {
        /// What is found by the order of time is what a look at every dealing finds.
        #[test]
        fn no_dealing_is_overlooked(
            told in proptest::collection::vec((0u64..4, any::<bool>()), 0..40), at_ns in 0u64..80, from_ns in 0u64..80,
        ) {
            let (mut conversations, mut dealings, mut now_ns) = (Conversations::default(), Vec::new(), 0);
            conversations.connect([7, 8], None, 0);
            for (later, sends) in told {
                now_ns += later;
                let one = dealing(now_ns, if sends { Verb::Send } else { Verb::Receive }, 1);
                conversations.touch(8, one);
                dealings.push(one);
            }
            let sends = || dealings.iter().filter(|one| one.verb == Verb::Send).copied();
            prop_assert_eq!(conversations.sent(8, at_ns), sends().find(|one| one.at_ns > at_ns));
            let asked = sends().rfind(|one| one.at_ns <= at_ns).map(|one| one.at_ns);
            prop_assert_eq!(conversations.asked_ns(8, at_ns), asked);
            let before = sends().rfind(|one| (from_ns..at_ns).contains(&one.at_ns));
            let answered = sends().find(|one| one.at_ns >= at_ns).or(before);
            prop_assert_eq!(conversations.answered(8, from_ns, at_ns), answered);
        }
    }

    #[test]
    fn ends_are_bounded_at_any_times() {
        let mut conversations = Conversations::default();
        for socket in 0..3 * MOST_ENDS as u32 {
            conversations.connect([2 * socket, 2 * socket + 1], None, u64::from(socket));
        }
        conversations.trim(0);
        assert!(conversations.held() <= 2 * MOST_ENDS);
        assert!(conversations.peer(6 * MOST_ENDS as u32 - 2).is_some(), "the latest stay");
    }
}
