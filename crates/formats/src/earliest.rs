//! Several streams of events in the order of time.

/// Which stream has the earliest event, by the times of their next ones, and the earliest time of the others: as long
/// as its own events are before that one, no other stream has to be looked at.
pub(crate) fn earliest(times: impl Iterator<Item = Option<u64>>) -> Option<(usize, u64)> {
    let mut first: Option<(usize, u64)> = None;
    let mut second_ns = u64::MAX;
    for (stream, at_ns) in times.enumerate() {
        let Some(at_ns) = at_ns else { continue };
        match first {
            Some((_, before_ns)) if before_ns <= at_ns => second_ns = second_ns.min(at_ns),
            _ => {
                second_ns = second_ns.min(first.map_or(u64::MAX, |(_, before_ns)| before_ns));
                first = Some((stream, at_ns));
            }
        }
    }
    first.map(|(stream, _)| (stream, second_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_of_the_earliest_is_found(times: [Option<u8>; 5]) {
            let times = times.map(|at_ns| at_ns.map(|at_ns| u64::from(at_ns % 4)));
            let told = times.iter().enumerate().filter_map(|(stream, at_ns)| Some((at_ns.as_ref()?, stream)));
            let mut told: Vec<_> = told.collect();
            told.sort_unstable();
            let second_ns = told.get(1).map_or(u64::MAX, |(at_ns, _)| **at_ns);
            let expected = told.first().map(|(_, stream)| (*stream, second_ns));
            prop_assert_eq!(earliest(times.into_iter()), expected);
        }
    }
}
