//! Perfetto's clocks: each time is of one of them, and snapshots tell how they stood at the same moment.

use crate::protobuf::{Field, Message};
use rustc_hash::FxHashMap;

/// The clock of the boot, which times are of unless another is named.
const BOOT: u64 = 6;
/// Numbers from here on are a sequence's own.
const OWN: std::ops::Range<u64> = 64..128;
/// Clocks that are remembered.
const CLOCKS_MAX: usize = 1 << 16;

#[derive(Debug, Clone, Copy)]
struct Clock {
    /// To be added for the time of the trace's clock, nanoseconds.
    offset_ns: i128,
    unit_ns: u64,
    /// Times are told as differences from the one before, which is this.
    last: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Clocks {
    primary: Option<u64>,
    clocks: FxHashMap<(u64, u64), Clock>,
}

fn key(clock: u64, sequence: u64) -> (u64, u64) {
    (if OWN.contains(&clock) { sequence } else { 0 }, clock)
}

impl Clocks {
    fn primary(&self) -> u64 {
        self.primary.unwrap_or(BOOT)
    }

    /// The name of the trace's clock.
    pub(crate) fn name(&self) -> &'static str {
        match self.primary() {
            1 => "CLOCK_REALTIME",
            2 => "CLOCK_REALTIME_COARSE",
            3 => "CLOCK_MONOTONIC",
            4 => "CLOCK_MONOTONIC_COARSE",
            5 => "CLOCK_MONOTONIC_RAW",
            BOOT => "CLOCK_BOOTTIME",
            _ => "a clock of the trace's own",
        }
    }

    /// Several clocks at one moment.
    pub(crate) fn snapshot(&mut self, bytes: &[u8], sequence: u64) {
        let mut told = Vec::new();
        for (number, field) in Message::new(bytes) {
            match (number, field) {
                (1, Field::Bytes(clock)) => told.push(one(clock)),
                // Of several traces in one the first names the clock: times cannot change theirs on the way.
                (2, Field::Number(primary)) => drop(self.primary.get_or_insert(primary)),
                _ => {}
            }
        }
        let ns = |clock: &Told| i128::from(clock.at) * i128::from(clock.unit_ns);
        let Some(primary) = told.iter().find(|clock| clock.id == self.primary()).map(ns) else { return };
        for clock in &told {
            if self.clocks.len() >= CLOCKS_MAX {
                return;
            }
            let known = Clock {
                offset_ns: primary - ns(clock),
                unit_ns: clock.unit_ns,
                last: clock.is_incremental.then_some(clock.at),
            };
            self.clocks.insert(key(clock.id, sequence), known);
        }
    }

    /// A time by the trace's clock; none where no snapshot tells how the two clocks stand.
    pub(crate) fn time_ns(&mut self, at: u64, clock: Option<u64>, sequence: u64) -> Option<u64> {
        let clock = clock.unwrap_or(BOOT);
        let Some(known) = self.clocks.get_mut(&key(clock, sequence)) else {
            return (clock == self.primary()).then_some(at);
        };
        let whole = match &mut known.last {
            Some(last) => {
                *last = last.wrapping_add(at);
                *last
            }
            None => at,
        };
        u64::try_from(i128::from(whole) * i128::from(known.unit_ns) + known.offset_ns).ok()
    }
}

struct Told {
    id: u64,
    at: u64,
    is_incremental: bool,
    unit_ns: u64,
}

fn one(bytes: &[u8]) -> Told {
    let mut told = Told { id: 0, at: 0, is_incremental: false, unit_ns: 1 };
    for (number, field) in Message::new(bytes) {
        let Some(value) = field.number() else { continue };
        match number {
            1 => told.id = value,
            2 => told.at = value,
            3 => told.is_incremental = value != 0,
            4 => told.unit_ns = value.max(1),
            _ => {}
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_another_clock_are_moved_by_the_snapshot() {
        // boot 1000, monotonic 400, a sequence's own clock 64 in microseconds, told as differences.
        let clock = |fields: &[u8]| [&[0x0a, fields.len() as u8][..], fields].concat();
        let snapshot = [
            clock(&[0x08, 6, 0x10, 0xe8, 0x07]),
            clock(&[0x08, 3, 0x10, 0x90, 0x03]),
            clock(&[0x08, 64, 0x10, 2, 0x18, 1, 0x20, 0xe8, 0x07]),
        ]
        .concat();
        let mut clocks = Clocks::default();
        assert_eq!(clocks.time_ns(7, None, 1), Some(7), "a time of the trace's clock needs no snapshot");
        assert_eq!(clocks.time_ns(7, Some(3), 1), None);
        clocks.snapshot(&snapshot, 9);
        assert_eq!(clocks.time_ns(407, Some(3), 1), Some(1_007));
        // At 2 us it was 1000 ns: one more is 2000, two more after that 4000.
        assert_eq!(clocks.time_ns(1, Some(64), 9), Some(2_000));
        assert_eq!(clocks.time_ns(2, Some(64), 9), Some(4_000));
        assert_eq!(clocks.time_ns(1, Some(64), 8), None, "it is another sequence's");
    }
}
