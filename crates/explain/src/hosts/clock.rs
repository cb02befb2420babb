//! Clocks of hosts by that of one of them, from the messages between them: no message arrives before it is sent.
//!
//! What one host sent after a time of its clock, and another one had by a time of its own, bounds the difference of the
//! two clocks from one side, and messages the other way bound it from the other side, as in NTP. Bounds of other times
//! count, too, as far as two clocks may have drifted apart meanwhile.

use std::collections::BTreeMap;
use std::rc::Rc;

/// Bounds of so much time are one, nanoseconds.
const BUCKET_NS: u64 = 10_000_000;
/// By how much the rates of two clocks may differ, in parts per million, unless messages say that it is more.
const RATE_PPM: u64 = 100;
/// Beyond this rate messages that contradict each other are counted: a clock was set, or a connection was mistaken.
const RATE_PPM_MAX: u64 = 3_200;

/// Bytes that went from one host to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) from: usize,
    pub(super) to: usize,
    /// They were not yet sent then, by the sender's clock.
    pub(super) before_ns: u64,
    /// They had arrived by then, by the receiver's clock.
    pub(super) at_ns: u64,
}

/// The clock of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct HostClock {
    /// Times of its own, ascending, and what they are by the common clock, ascending, too.
    points: Vec<(u64, u64)>,
    /// By how much a common time may be wrong: within the time of the messages, at most and in the middle of it.
    pub(super) error_ns: u64,
    pub(super) typical_error_ns: u64,
    /// The rate by which it had to be let drift, parts per million.
    pub(super) rate_ppm: u64,
}

/// Why a host's clock cannot be known, by the host's index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unaligned {
    /// No message went between it and the others.
    Silent(usize),
    /// Messages went one way only.
    OneWay(usize),
}

/// Messages that arrived before they were sent, by the clocks found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Contradictions {
    pub(super) messages: u64,
    pub(super) contradicting: u64,
    pub(super) worst_ns: u64,
}

impl HostClock {
    /// The common time of a time of its own: between two points in proportion, outside of them at the clock's own rate.
    pub(super) fn at(&self, own_ns: u64) -> u64 {
        let next = self.points.partition_point(|(own, _)| *own <= own_ns);
        let before = next.checked_sub(1).and_then(|index| self.points.get(index));
        match (before, self.points.get(next)) {
            (Some((own, common)), Some((next_own, next_common))) => {
                let (passed, whole) = (u128::from(own_ns - own), u128::from((next_own - own).max(1)));
                common.saturating_add((u128::from(next_common - common) * passed / whole) as u64)
            }
            (Some((own, common)), None) => common.saturating_add(own_ns - own),
            (None, Some((own, common))) => common.saturating_sub(own - own_ns),
            (None, None) => own_ns,
        }
    }

    /// What is to be added to its times in the middle of the messages' time.
    pub(super) fn offset_ns(&self) -> i64 {
        let middle = self.points.get(self.points.len() / 2);
        middle.map_or(0, |(own, common)| common.wrapping_sub(*own).cast_signed())
    }
}

/// The clocks of so many hosts by that of the first one.
///
/// # Errors
/// [`Unaligned`], with the first host whose clock cannot be known.
pub(super) fn align(hosts: usize, messages: &[Message]) -> Result<Vec<Rc<HostClock>>, Unaligned> {
    let mut clocks: Vec<Option<Rc<HostClock>>> = vec![None; hosts];
    if let Some(first) = clocks.first_mut() {
        *first = Some(Rc::new(HostClock::default()));
    }
    // A host that exchanges nothing with the first one is known by way of another one.
    for _ in 1..hosts {
        for host in 1..hosts {
            if clocks[host].is_none() {
                clocks[host] = Bounds::of(host, messages, &clocks).clock().map(Rc::new);
            }
        }
    }
    let known = |(host, clock): (usize, Option<Rc<HostClock>>)| {
        let has_message = messages.iter().any(|one| one.from == host || one.to == host);
        clock.ok_or(if has_message { Unaligned::OneWay(host) } else { Unaligned::Silent(host) })
    };
    clocks.into_iter().enumerate().map(known).collect()
}

/// How many messages arrived before they were sent.
pub(super) fn contradictions(clocks: &[Rc<HostClock>], host: usize, messages: &[Message]) -> Contradictions {
    let mut sum = Contradictions::default();
    for message in messages.iter().filter(|one| one.from == host || one.to == host) {
        sum.messages += 1;
        let early_ns = clocks[message.from].at(message.before_ns).saturating_sub(clocks[message.to].at(message.at_ns));
        sum.contradicting += u64::from(early_ns > 0);
        sum.worst_ns = sum.worst_ns.max(early_ns);
    }
    sum
}

/// Bounds of what is to be added to a host's times, by buckets of its own time.
#[derive(Debug, Default)]
struct Bounds {
    buckets: BTreeMap<u64, (i64, i64)>,
}

/// No bound: small enough that a drift can be added to it.
const NONE: (i64, i64) = (i64::MIN / 4, i64::MAX / 4);

impl Bounds {
    /// From the messages between a host and those whose clocks are known.
    fn of(host: usize, messages: &[Message], clocks: &[Option<Rc<HostClock>>]) -> Self {
        let mut bounds = Self::default();
        for message in messages {
            // Of damaged times a difference may be any: those of clocks that ran together are far within.
            let difference = |common_ns: u64, own_ns: u64| {
                common_ns.wrapping_sub(own_ns).cast_signed().clamp(NONE.0 / 2, NONE.1 / 2)
            };
            if message.to == host
                && let Some(sender) = &clocks[message.from]
            {
                let bucket = bounds.bucket(message.at_ns);
                let least = difference(sender.at(message.before_ns), message.at_ns);
                bucket.0 = bucket.0.max(least.saturating_sub_unsigned(sender.error_ns).max(NONE.0 / 2));
            } else if message.from == host
                && let Some(receiver) = &clocks[message.to]
            {
                let bucket = bounds.bucket(message.before_ns);
                let most = difference(receiver.at(message.at_ns), message.before_ns);
                bucket.1 = bucket.1.min(most.saturating_add_unsigned(receiver.error_ns).min(NONE.1 / 2));
            }
        }
        bounds
    }

    fn bucket(&mut self, own_ns: u64) -> &mut (i64, i64) {
        self.buckets.entry(own_ns / BUCKET_NS).or_insert(NONE)
    }

    /// The clock in the middle of the bounds; `None` if one side has no bound.
    fn clock(&self) -> Option<HostClock> {
        let bounded = |side: fn(&(i64, i64)) -> bool| self.buckets.values().any(side);
        if !bounded(|(least, _)| *least > NONE.0) || !bounded(|(_, most)| *most < NONE.1) {
            return None;
        }
        let mut rate_ppm = RATE_PPM;
        let drifted = loop {
            let drifted = self.drifted(rate_ppm);
            let fits = drifted.iter().all(|(_, (least, most))| least <= most);
            if fits || rate_ppm >= RATE_PPM_MAX {
                break drifted;
            }
            rate_ppm *= 2;
        };
        let mut errors: Vec<u64> = drifted.iter().map(|(_, (least, most))| most.abs_diff(*least).div_ceil(2)).collect();
        let mut points: Vec<(u64, u64)> = Vec::with_capacity(drifted.len());
        for (bucket, (least, most)) in drifted {
            let own_ns = (bucket * BUCKET_NS).saturating_add(BUCKET_NS / 2);
            let common_ns = own_ns.saturating_add_signed(least + (most - least) / 2);
            // Where messages contradict each other the clock stands still until it is right again.
            points.push((own_ns, points.last().map_or(common_ns, |(_, before)| common_ns.max(*before))));
        }
        errors.sort_unstable();
        let (error_ns, typical_error_ns) = (*errors.last()?, errors[errors.len() / 2]);
        Some(HostClock { points, error_ns, typical_error_ns, rate_ppm })
    }

    /// The bounds of each bucket and those of the others, as far as the clock can have drifted between them.
    fn drifted(&self, rate_ppm: u64) -> Vec<(u64, (i64, i64))> {
        let within = |buckets: u64| {
            let ns = buckets.saturating_mul(BUCKET_NS / 1_000).saturating_mul(rate_ppm) / 1_000;
            ns.cast_signed().min(NONE.1 / 4)
        };
        // A bound of a bucket is of any time in it.
        let widened = |(bucket, (least, most)): (&u64, &(i64, i64))| (*bucket, (least - within(1), most + within(1)));
        let mut all: Vec<(u64, (i64, i64))> = self.buckets.iter().map(widened).collect();
        for index in 1..all.len() {
            let (bucket, (least, most)) = all[index - 1];
            let apart = within(all[index].0 - bucket);
            let own = &mut all[index].1;
            *own = (own.0.max(least - apart), own.1.min(most + apart));
        }
        for index in (1..all.len()).rev() {
            let (bucket, (least, most)) = all[index];
            let apart = within(bucket - all[index - 1].0);
            let own = &mut all[index - 1].1;
            *own = (own.0.max(least - apart), own.1.min(most + apart));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two hosts that ask each other for a while: (when, the way there, the time at the other host, the way back), and
    /// how long before a sending the last time lies at which it was surely not yet sent; by the first host's clock.
    fn asked(exchanges: &[(u64, u64, u64, u64)], aside_ns: u64, other: impl Fn(u64) -> u64) -> Vec<Message> {
        let both = |&(at_ns, there_ns, thinks_ns, back_ns): &(u64, u64, u64, u64)| {
            let (came_ns, answered_ns) = (at_ns + there_ns, at_ns + there_ns + thinks_ns);
            [
                Message { from: 0, to: 1, before_ns: at_ns - aside_ns, at_ns: other(came_ns) },
                Message { from: 1, to: 0, before_ns: other(answered_ns - aside_ns), at_ns: answered_ns + back_ns },
            ]
        };
        exchanges.iter().flat_map(both).collect()
    }

    #[test]
    fn one_exchange_bounds_a_clock_as_ntp_does() {
        // 300 there, 100 back: the middle is wrong by 100, and may be by 200.
        let messages = asked(&[(1_000_000_000, 300, 5_000, 100)], 0, |at_ns| at_ns + 700_000);
        let clocks = align(2, &messages).expect("both ways");
        let drift_ns = 1_000; // within a bucket
        assert_eq!(clocks[1].error_ns, 200 + drift_ns);
        assert!(clocks[1].offset_ns().abs_diff(-700_000) <= 200, "{:?}", clocks[1]);
        assert_eq!(contradictions(&clocks, 1, &messages), Contradictions { messages: 2, ..Contradictions::default() });
    }

    #[test]
    fn messages_one_way_or_none_are_refused() {
        let both = asked(&[(1_000_000_000, 300, 5_000, 100)], 0, |at_ns| at_ns);
        assert_eq!(align(2, &both[..1]), Err(Unaligned::OneWay(1)));
        assert_eq!(align(2, &both[1..]), Err(Unaligned::OneWay(1)));
        assert_eq!(align(2, &[]), Err(Unaligned::Silent(1)));
        assert_eq!(align(3, &both), Err(Unaligned::Silent(2)));
    }

    #[test]
    fn a_host_is_known_by_way_of_another() {
        let mut messages = asked(&[(1_000_000_000, 300, 5_000, 300)], 0, |at_ns| at_ns + 50_000);
        let later = asked(&[(1_001_000_000, 400, 5_000, 400)], 0, |at_ns| at_ns + 90_000);
        // The second host asks the third one; the second one's times are 50,000 ahead.
        messages.extend(later.iter().map(|one| {
            let own = |host: usize, ns: u64| if host == 0 { ns + 50_000 } else { ns };
            let (before_ns, at_ns) = (own(one.from, one.before_ns), own(one.to, one.at_ns));
            Message { from: one.from + 1, to: one.to + 1, before_ns, at_ns }
        }));
        let clocks = align(3, &messages).expect("both");
        assert!(clocks[2].offset_ns().abs_diff(-90_000) <= clocks[2].error_ns, "{clocks:?}");
        assert!(clocks[2].error_ns >= clocks[1].error_ns + 400, "the errors of both add up: {clocks:?}");
    }

    #[test]
    fn a_clock_that_is_set_contradicts_and_is_counted() {
        let exchanges: Vec<(u64, u64, u64, u64)> = (1..200).map(|n| (n * 10_000_000, 300, 5_000, 100)).collect();
        let set = |at_ns: u64| if at_ns < 1_000_000_000 { at_ns + 50_000_000 } else { at_ns };
        let messages = asked(&exchanges, 0, set);
        let clocks = align(2, &messages).expect("both ways");
        let told = contradictions(&clocks, 1, &messages);
        assert!(told.contradicting > 0 && told.worst_ns > 1_000_000, "{told:?}");
    }

    proptest! {
        /// The truth: another clock that is ahead or behind and runs faster or slower, ways of any length in both
        /// directions. The error that is stated holds for each time between the first message and the last.
        #[test]
        fn the_stated_error_is_true(
            ahead_ns in -900_000_000i64..900_000_000,
            rate_ppm in -90i64..90,
            gaps in proptest::collection::vec((1u64..400_000_000, 20u64..3_000_000, 0u64..9_000_000, 20u64..3_000_000), 1..60),
            aside_ns in 0u64..50_000,
        ) {
            let begin_ns = 5_000_000_000u64;
            let other = |at_ns: u64| {
                let drifted = (at_ns as i64 - begin_ns as i64) * rate_ppm / 1_000_000;
                at_ns.saturating_add_signed(ahead_ns + drifted)
            };
            let mut at_ns = begin_ns;
            let exchanges: Vec<(u64, u64, u64, u64)> = gaps.iter().map(|(gap, there, thinks, back)| {
                at_ns += gap;
                (at_ns, *there, *thinks, *back)
            }).collect();
            let messages = asked(&exchanges, aside_ns, other);
            let clocks = align(2, &messages).expect("both ways");
            let clock = &clocks[1];
            prop_assert_eq!(clock.rate_ppm, RATE_PPM);
            for (asked_ns, there, thinks, _) in &exchanges {
                for true_ns in [asked_ns + there, asked_ns + there + thinks] {
                    let wrong_ns = clock.at(other(true_ns)).abs_diff(true_ns);
                    prop_assert!(wrong_ns <= clock.error_ns + 1, "{wrong_ns} of {}", clock.error_ns);
                }
            }
            prop_assert_eq!(contradictions(&clocks, 1, &messages).contradicting, 0);
        }

        /// Times stay in their order, and no message breaks anything.
        #[test]
        fn no_messages_break_it(
            raw in proptest::collection::vec((0usize..3, 0usize..3, any::<u64>(), any::<u64>()), 0..40),
            mut times in proptest::collection::vec(any::<u64>(), 2..20),
        ) {
            let messages: Vec<Message> =
                raw.into_iter().map(|(from, to, before_ns, at_ns)| Message { from, to, before_ns, at_ns }).collect();
            times.sort_unstable();
            if let Ok(clocks) = align(3, &messages) {
                for clock in &clocks {
                    prop_assert!(times.windows(2).all(|pair| clock.at(pair[0]) <= clock.at(pair[1])));
                }
                let _ = contradictions(&clocks, 1, &messages);
            }
        }
    }
}
