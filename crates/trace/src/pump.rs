//! From rings to streams: the thread that writes what a source put into its rings.

use crate::error::WriteError;
use crate::run::{Run, clock_ns, clock_pair};
use crate::writer::{Limits, Written};
use crate::{Cost, Source};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_wire::client::ClientRequest;
use weir_wire::{Consumer, Kind, Record};

/// Writes the records of a source's rings, a lane each, until `stop` is set and the rings are empty.
///
/// `names` are the dictionary's texts, their ids counted from 0.
/// What found no room in a ring is told as lost.
///
/// # Errors
/// [`WriteError`] of the first stream that could not be written.
pub fn pump(
    run: &Run,
    source: Source,
    rings: &mut [Consumer],
    names: &[String],
    stop: &AtomicBool,
) -> Result<Cost, WriteError> {
    let cpu_before = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
    let mut streams: Vec<_> = (0..rings.len()).map(|lane| run.stream(source, lane as u32, Limits::default())).collect();
    for stream in &mut streams {
        for (id, name) in names.iter().enumerate() {
            stream.define(id as u32, name);
        }
    }
    let mut lost = vec![0u64; rings.len()];
    let mut next_pair_ns = 0;
    loop {
        let stopping = stop.load(Ordering::Acquire);
        let mut taken = 0;
        let (monotonic_ns, realtime_ns) = clock_pair();
        let a_second_passed = monotonic_ns >= next_pair_ns;
        // Lane 0 carries the clock pairs, each in its place by the time.
        let mut pair = a_second_passed.then(|| Record {
            time_ns: monotonic_ns,
            kind: Kind::ClockPair as u16,
            a: realtime_ns,
            ..Record::default()
        });
        for ((ring, stream), lost) in rings.iter_mut().zip(&mut streams).zip(&mut lost) {
            let mut outcome = Ok(());
            taken += ring.drain(1 << 16, |record, payload| {
                if outcome.is_ok()
                    && let Some(earlier) = pair.take_if(|pair| pair.time_ns < record.time_ns)
                {
                    outcome = stream.push(earlier, &[], None);
                }
                let name = ClientRequest::read(&record, payload).map(|request| request.name);
                if outcome.is_ok() {
                    outcome = stream.push(record, payload, name);
                }
            });
            outcome?;
            if let Some(latest) = pair.take() {
                stream.push(latest, &[], None)?;
            }
            // The count lies in the ring, which the other side may write.
            let dropped = ring.dropped();
            stream.lose(dropped.saturating_sub(*lost));
            *lost = dropped;
            if a_second_passed {
                // Who is killed loses no more than the last second.
                stream.flush()?;
            }
        }
        if a_second_passed {
            next_pair_ns = monotonic_ns + 1_000_000_000;
        }
        if stopping && taken == 0 {
            break;
        }
        if taken < 1000 {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let mut sum = Written::default();
    for stream in streams {
        let written = stream.finish()?;
        sum.records += written.records;
        sum.bytes += written.bytes;
        sum.lost = sum.lost.saturating_add(written.lost);
    }
    let cpu_seconds = (clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) - cpu_before) as f64 / 1e9;
    Ok(Cost { events: sum.records, bytes: sum.bytes, lost: sum.lost, cpu_seconds })
}
