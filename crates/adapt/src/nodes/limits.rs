//! The limits of rules over epochs of directors: the next director goes on counting what the one before has done.

use super::intake::Intake;
use super::wished::{Firings, Wished};
use crate::engine::Limited;
use std::collections::BTreeMap;

/// Firings of a rule that are told apart; what is beyond counts as later than it was.
const FIRINGS_MAX: usize = 16;
/// Bytes of all of them: they are gossiped.
const LIMITS_BYTES_MAX: usize = 4 << 10;
/// Of one group of firings, at most.
const FIRINGS_BYTES: usize = 32;

/// By the rule, and the path of the atom.
type Told = BTreeMap<(String, String), Vec<Firings>>;

/// What the next director is to count, and how many firings have no room there: of atoms before those of rules for all
/// atoms together, and the oldest first.
pub(super) fn told(intake: &Intake, now_ms: u64) -> (Told, u64) {
    let mut limits: Vec<Limited> = intake.engine.limits(&intake.state).collect();
    limits.sort_by_key(|limited| (limited.atom.is_some(), std::cmp::Reverse(limited.fired_ms.last().copied())));
    let (mut told, mut bytes, mut dropped) = (Told::new(), 0, 0);
    for Limited { rule, atom, fired_ms } in limits {
        let (of, firings) = (atom.unwrap_or_default(), grouped(&fired_ms, now_ms));
        bytes += rule.len() + of.len() + firings.len() * FIRINGS_BYTES;
        if bytes <= LIMITS_BYTES_MAX {
            told.insert((rule, of), firings);
        } else {
            dropped += fired_ms.len() as u64;
        }
    }
    (told, dropped)
}

/// Firings in groups; of those in one group the latest time counts for all, so that no limit is exceeded.
fn grouped(fired_ms: &[u64], now_ms: u64) -> Vec<Firings> {
    let firings = |group: &[u64]| Firings {
        ago_ms: now_ms.saturating_sub(group.last().copied().unwrap_or(now_ms)),
        count: u32::try_from(group.len()).unwrap_or(u32::MAX),
    };
    fired_ms.chunks(fired_ms.len().div_ceil(FIRINGS_MAX).max(1)).map(firings).collect()
}

/// Counts at `now_ms` what was told so long ago.
pub(super) fn go_on(intake: &mut Intake, last: &Wished, (now_ms, age_ms): (u64, u64)) {
    for ((rule, of), firings) in &last.limited {
        let atom = if of.is_empty() { None } else { intake.atom(of, now_ms) };
        if !of.is_empty() && atom.is_none() {
            continue;
        }
        for Firings { ago_ms, count } in firings {
            let at_ms = now_ms.saturating_sub(age_ms.saturating_add(*ago_ms));
            intake.engine.count_firings(&mut intake.state, rule, atom, (at_ms, *count));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_firings_count_as_later_than_they_were() {
        assert_eq!(grouped(&[], 10), []);
        assert_eq!(grouped(&[100, 400], 1_000), [Firings { ago_ms: 900, count: 1 }, Firings { ago_ms: 600, count: 1 }]);
        let many: Vec<u64> = (0..40).collect();
        let firings = grouped(&many, 100);
        assert!(firings.len() <= FIRINGS_MAX, "{}", firings.len());
        assert_eq!(firings.iter().map(|firings| firings.count).sum::<u32>(), 40);
        assert_eq!(firings[0], Firings { ago_ms: 98, count: 3 });
    }
}
