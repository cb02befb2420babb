//! Traces of other tools.

use std::io::Cursor;
use weir_formats::{Event, What, read_ftrace_text, read_perf_data, read_trace_dat};

/// Bytes that a trace may unpack to are bounded by the reader; so few events are in so short inputs.
const EVENTS_MAX: usize = 1 << 22;

/// Reads any bytes as each format.
pub fn foreign_trace(input: &[u8]) {
    let mut events = 0;
    let mut take = |event: Event<'_>| {
        events += 1;
        if let What::Switch { from, to, .. } = event.what {
            assert!(from.name.len() <= input.len().max(64 << 10) && to.name.len() <= input.len().max(64 << 10));
        }
    };
    let outcomes = [
        read_perf_data(Cursor::new(input), &mut take),
        read_trace_dat(Cursor::new(input), &mut take),
        read_ftrace_text(input, &mut take),
    ];
    // Of what was skipped each piece was there.
    for counts in outcomes.into_iter().flatten() {
        assert!(counts.skipped.values().sum::<u64>() <= EVENTS_MAX as u64);
    }
    assert!(events <= EVENTS_MAX);
}
