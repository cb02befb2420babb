//! Times of members by the clock of a run.
//!
//! On the run's own machine both are CLOCK_MONOTONIC. Elsewhere members have compared their clocks with the director's:
//! the way leads from the member that tells over the director's clock to a member of the run's machine, and the errors
//! of both comparisons add up.

use super::told::{ClockTold, EventsOf, Moment};
use weir_trace::{Entry, RunReader, Source};

/// By how much two clocks may drift apart, microseconds a second (PHI of RFC 5905, section 7.1).
const DRIFT_US_PER_S: u64 = 15;

/// A time of the run's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) at_ns: u64,
    /// By how much it may be wrong; `None` where clocks were not compared.
    pub(super) error_ns: Option<u64>,
}

/// The clock of a run.
#[derive(Debug)]
pub(super) struct RunClock {
    boot_id: String,
    /// The same moment by CLOCK_MONOTONIC and by the time of day, nanoseconds.
    pair: (u64, u64),
}

impl RunClock {
    /// That of the first source which noted it; `None` for a run of which none did.
    pub(super) fn of(reader: &RunReader) -> Option<Self> {
        reader.entries.iter().find_map(|entry| match entry {
            Entry::Source { source, host, monotonic_ns, realtime_ns, .. } if source != Source::Decisions.name() => {
                Some(Self { boot_id: host.boot_id.clone(), pair: (*monotonic_ns, *realtime_ns) })
            }
            _ => None,
        })
    }

    /// A time that a member told; `all` are the members' events that are known.
    pub(super) fn place(&self, by: &EventsOf, at: Moment, all: &[EventsOf]) -> Placed {
        if by.boot_id == self.boot_id {
            return Placed { at_ns: at.monotonic_us.saturating_mul(1_000), error_ns: Some(1_000) };
        }
        let on_host = all.iter().filter(|own| own.boot_id == self.boot_id);
        let ways = on_host.filter_map(|own| way(by, at, own));
        if let Some((at_us, error_us)) = ways.min_by_key(|(_, error_us)| *error_us) {
            return Placed { at_ns: at_us.saturating_mul(1_000), error_ns: Some(error_us.saturating_mul(1_000)) };
        }
        let (monotonic_ns, realtime_ns) = self.pair;
        let at_ns = i128::from(at.unix_us) * 1_000 - i128::from(realtime_ns) + i128::from(monotonic_ns);
        Placed { at_ns: u64::try_from(at_ns.max(0)).unwrap_or(u64::MAX), error_ns: None }
    }
}

/// A time of one member by the monotonic clock of another one's machine, microseconds, and the error of that: over any
/// clock with which both compared theirs.
fn way(by: &EventsOf, at: Moment, own: &EventsOf) -> Option<(u64, u64)> {
    let known = |of: &EventsOf| of.clocks.iter().map(|clock| clock.member.clone()).chain([of.member.clone()]).collect();
    let (mut theirs, ours): (Vec<String>, Vec<String>) = (known(by), known(own));
    theirs.sort();
    theirs.dedup();
    let over = theirs.into_iter().filter(|member| ours.contains(member));
    let ways = over.filter_map(|member| {
        let there = compared(by, &member, at.unix_us)?;
        let reference_us = i128::from(at.unix_us) + i128::from(there.offset_us);
        // Its own clock is near that one, or its comparison would not be of use.
        let here = compared(own, &member, u64::try_from(reference_us).ok()?)?;
        let own_us = reference_us - i128::from(here.offset_us);
        // The moment nearest to it: the time of day may have been set since.
        let near = |moment: &Moment| (i128::from(moment.unix_us) - own_us).unsigned_abs();
        let moments = own.clocks.iter().map(|clock| clock.at).chain([own.began]);
        let moment = moments.min_by_key(near)?;
        let monotonic_us = own_us - i128::from(moment.unix_us) + i128::from(moment.monotonic_us);
        let error_us = there.error_us.saturating_add(here.error_us).saturating_add(1);
        Some((u64::try_from(monotonic_us).ok()?, error_us))
    });
    ways.min_by_key(|(_, error_us)| *error_us)
}

/// The best comparison with a member's clock for a time, with the error that it has by then.
fn compared(of: &EventsOf, member: &str, unix_us: u64) -> Option<ClockTold> {
    if of.member == member {
        return Some(ClockTold { at: of.began, member: member.to_owned(), offset_us: 0, error_us: 0 });
    }
    let with = of.clocks.iter().filter(|clock| clock.member == member);
    let drifted = with.map(|clock| {
        let age_s = clock.at.unix_us.abs_diff(unix_us).div_ceil(1_000_000);
        ClockTold { error_us: clock.error_us.saturating_add(age_s.saturating_mul(DRIFT_US_PER_S)), ..clock.clone() }
    });
    drifted.min_by_key(|clock| clock.error_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(unix_us: u64, monotonic_us: u64) -> Moment {
        Moment { unix_us, monotonic_us }
    }

    fn member(name: &str, boot_id: &str, began: Moment, clocks: &[(Moment, i64, u64)]) -> EventsOf {
        let told = |(at, offset_us, error_us): &(Moment, i64, u64)| ClockTold {
            at: *at,
            member: "front".to_owned(),
            offset_us: *offset_us,
            error_us: *error_us,
        };
        let clocks = clocks.iter().map(told).collect();
        EventsOf { member: name.to_owned(), boot_id: boot_id.to_owned(), began, moves: Vec::new(), clocks }
    }

    fn run() -> RunClock {
        RunClock { boot_id: "one".to_owned(), pair: (5_000_000_000, 1_000_000_000_000_000_000) }
    }

    #[test]
    fn on_the_runs_own_machine_the_clock_is_the_same() {
        let by = member("n1", "one", moment(0, 0), &[]);
        let placed = run().place(&by, moment(77, 1_234), std::slice::from_ref(&by));
        assert_eq!(placed, Placed { at_ns: 1_234_000, error_ns: Some(1_000) });
    }

    #[test]
    fn elsewhere_the_way_leads_over_the_directors_clock_and_errors_add_up() {
        // n2 is 1 s behind the director, and the machine of n1 and of the run 2 s before it.
        let n2 = member("n2", "two", moment(0, 0), &[(moment(10_000_000, 1), 1_000_000, 80)]);
        let here = moment(13_000_000, 500_000_000);
        let n1 = member("n1", "one", moment(1, 1), &[(here, -2_000_000, 40)]);
        let all = [n2.clone(), n1.clone()];
        let placed = run().place(&n2, moment(10_500_000, 9), &all);
        // 10.5 s of n2 are 11.5 s of the director, and 13.5 s of n1. 1 s and 2 s of drift are added.
        assert_eq!(placed, Placed { at_ns: 500_500_000_000, error_ns: Some((80 + 15 + 40 + 30 + 1) * 1_000) });
        // What the director itself tells needs one comparison.
        let front = member("front", "three", moment(0, 0), &[]);
        let placed = run().place(&front, moment(11_500_000, 9), &[front.clone(), n1]);
        assert_eq!(placed, Placed { at_ns: 500_500_000_000, error_ns: Some((40 + 30 + 1) * 1_000) });
    }

    #[test]
    fn without_a_comparison_the_time_of_day_has_to_do_and_the_error_is_not_known() {
        let n2 = member("n2", "two", moment(0, 0), &[]);
        let placed = run().place(&n2, moment(1_000_000_000_000_250, 9), std::slice::from_ref(&n2));
        assert_eq!(placed, Placed { at_ns: 5_000_250_000, error_ns: None });
    }
}
