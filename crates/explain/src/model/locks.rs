//! Work under a lock that other requests wait for.
//!
//! How long a lock is held is seen only while another request waits for it: what its holder does meanwhile is done
//! under the lock. What a holder does with a lock that no request waits for is not recorded.

use super::ways::{Ways, cut};
use std::collections::{BTreeMap, HashMap};
use weir_measure::part::Part;

/// Locks that are told apart.
const MOST_LOCKS: usize = 64;

/// For each request, when it had which lock: (lock, from, to), nanoseconds.
pub(super) type Held = HashMap<usize, Vec<(u16, u64, u64)>>;

/// The names of locks that requests wait for, and the requests that had them.
pub(super) fn held(ways: &Ways) -> (Vec<String>, Held) {
    let mut names: Vec<String> = Vec::new();
    let mut waits: BTreeMap<(u32, u16), Vec<(u64, u64)>> = BTreeMap::new();
    for stretch in ways.all.iter().flat_map(|way| &way.stretches) {
        if stretch.part != Part::WaitLock || stretch.holder == 0 || stretch.text == 0 {
            continue;
        }
        let name = &ways.texts[stretch.text as usize];
        let number = names.iter().position(|known| known == name).or_else(|| {
            (names.len() < MOST_LOCKS).then(|| {
                names.push(name.clone());
                names.len() - 1
            })
        });
        if let Some(number) = number {
            waits.entry((stretch.holder, number as u16)).or_default().push((stretch.from_ns, stretch.to_ns));
        }
    }
    let mut held = Held::new();
    if names.is_empty() {
        return (names, held);
    }
    // Each task's waits of others, in order and put together where they overlap.
    for waits in waits.values_mut() {
        waits.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (from, to) in waits.drain(..) {
            match merged.last_mut().filter(|last| from <= last.1) {
                Some(last) => last.1 = last.1.max(to),
                None => merged.push((from, to)),
            }
        }
        *waits = merged;
    }
    for (number, way) in ways.all.iter().enumerate() {
        let (begin, end) = (way.picked_ns, way.sent_ns.max(way.picked_ns));
        let mut pids: Vec<u32> = way.stretches.iter().map(|stretch| stretch.pid).filter(|pid| *pid != 0).collect();
        pids.sort_unstable();
        pids.dedup();
        for ((_, lock), waits) in pids.iter().flat_map(|pid| waits.range((*pid, 0)..=(*pid, u16::MAX))) {
            let first = waits.partition_point(|(_, to)| *to <= begin);
            for (from, to) in waits[first..].iter().take_while(|(from, _)| *from < end) {
                held.entry(number).or_default().push((*lock, (*from).max(begin), (*to).min(end)));
            }
        }
    }
    (names, held)
}

/// A request's stretches, cut where it has and gives back locks, each with its lock.
pub(super) fn with_locks(
    stretches: &[super::ways::Stretch],
    held: Option<&Vec<(u16, u64, u64)>>,
) -> Vec<(super::ways::Stretch, Option<u16>)> {
    let Some(held) = held else { return stretches.iter().map(|stretch| (*stretch, None)).collect() };
    let mut all = stretches.to_vec();
    for (_, from_ns, to_ns) in held {
        all = cut(&all, *from_ns, *to_ns, |_| {});
    }
    let lock_at = |from_ns: u64| held.iter().find(|(_, from, to)| (*from..*to).contains(&from_ns)).map(|held| held.0);
    all.into_iter().map(|stretch| (stretch, lock_at(stretch.from_ns))).collect()
}
