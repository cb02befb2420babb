//! From rings to streams: the thread that writes what a source put into its rings.

use crate::error::WriteError;
use crate::run::{Run, clock_ns, clock_pair};
use crate::writer::{Limits, StreamWriter, Written};
use crate::{Cost, Source};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_wire::client::ClientRequest;
use weir_wire::{Consumer, Kind, Record, Slot};

/// Connections of a lane that are told again when the segments in which they were told are gone: the youngest. They
/// have no end that could be seen.
const MOST_CONNECTIONS: usize = 4096;

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
    let lanes = rings.iter_mut().enumerate();
    let mut lanes: Vec<Lane<'_>> = lanes.map(|(number, ring)| Lane::new(run, source, number, ring, names)).collect();
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
        for lane in &mut lanes {
            taken += lane.write(pair.take())?;
            if a_second_passed {
                lane.secure()?;
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
    for lane in lanes {
        let written = lane.stream.finish()?;
        sum.records += written.records;
        sum.bytes += written.bytes;
        sum.lost = sum.lost.saturating_add(written.lost);
    }
    let cpu_seconds = (clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) - cpu_before) as f64 / 1e9;
    Ok(Cost { events: sum.records, bytes: sum.bytes, lost: sum.lost, cpu_seconds })
}

/// A ring and the stream that it is written to.
struct Lane<'r> {
    ring: &'r mut Consumer,
    stream: StreamWriter,
    /// What found no room in the ring, as far as the stream tells it.
    lost: u64,
    living: Living,
}

impl<'r> Lane<'r> {
    fn new(run: &Run, source: Source, number: usize, ring: &'r mut Consumer, names: &[String]) -> Self {
        let mut stream = run.stream(source, number as u32, Limits::default());
        for (id, name) in names.iter().enumerate() {
            stream.define(id as u32, name);
        }
        Self { ring, stream, lost: 0, living: Living::default() }
    }

    /// Writes what is in the ring, and the clock pair in its place by the time. Returns how many records the ring had.
    fn write(&mut self, mut pair: Option<Record>) -> Result<usize, WriteError> {
        let Self { ring, stream, lost, living } = self;
        let mut outcome = Ok(());
        let taken = ring.drain(1 << 16, |record, payload| {
            if outcome.is_ok()
                && let Some(earlier) = pair.take_if(|pair| pair.time_ns < record.time_ns)
            {
                outcome = stream.push(earlier, &[], None);
            }
            living.see(record, payload);
            let name = ClientRequest::read(&record, payload).map(|request| request.name);
            if outcome.is_ok() {
                outcome = stream.push(record, payload, name);
            }
        });
        outcome?;
        if let Some(latest) = pair {
            stream.push(latest, &[], None)?;
        }
        // The count lies in the ring, which the other side may write.
        let dropped = ring.dropped();
        stream.lose(dropped.saturating_sub(*lost));
        *lost = dropped;
        Ok(taken)
    }

    /// Puts what is written on its way to the disk: a process that is killed loses no more than what came since.
    fn secure(&mut self) -> Result<(), WriteError> {
        self.living.tell_again(&mut self.stream)?;
        self.stream.flush()
    }
}

/// What a lane told once and still holds.
#[derive(Debug, Default)]
struct Living {
    /// By its number. A payload has two slots.
    connections: BTreeMap<u64, (Record, [Slot; 2])>,
    /// The task that drives the lane.
    task: Option<Record>,
    latest_ns: u64,
    removed: u64,
}

impl Living {
    fn see(&mut self, record: Record, payload: &[Slot]) {
        self.latest_ns = self.latest_ns.max(record.time_ns);
        if record.kind == Kind::ClientLane as u16 {
            self.task = Some(record);
        } else if record.kind == Kind::ClientConnection as u16
            && let Ok(slots) = payload.try_into()
        {
            self.connections.insert(record.a, (record, slots));
            if self.connections.len() > MOST_CONNECTIONS {
                self.connections.pop_first();
            }
        }
    }

    /// Tells it again if segments of the stream are gone since; at the time of the latest record, to keep the order.
    fn tell_again(&mut self, stream: &mut StreamWriter) -> Result<(), WriteError> {
        let removed = stream.written().removed;
        if removed == self.removed {
            return Ok(());
        }
        self.removed = removed;
        let now = |record: Record| Record { time_ns: self.latest_ns, ..record };
        self.task.map_or(Ok(()), |task| stream.push(now(task), &[], None))?;
        self.connections.values().try_for_each(|(record, slots)| stream.push(now(*record), slots, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RunReader;
    use weir_wire::client::ClientConnection;

    #[test]
    fn a_connection_is_told_again_when_its_segment_is_gone() {
        let directory = tempfile::tempdir().expect("a directory");
        let run = Run::create(directory.path()).expect("a run");
        let limits = Limits { segment_bytes: 4096, stream_bytes: 16_384, block_slots: 64 };
        let mut stream = run.stream(Source::Client, 0, limits);
        let mut living = Living::default();
        let address = "127.0.0.1:80".parse().expect("an address");
        let connection = ClientConnection {
            connection: 7,
            connect_start_ns: 1,
            connected_ns: 2,
            failed: false,
            local: address,
            remote: address,
        };
        let (record, slots) = connection.write(0);
        let lane = Record { time_ns: 1, kind: Kind::ClientLane as u16, a: 5, ..Record::default() };
        living.see(lane, &[]);
        living.see(record, &slots);
        stream.push(lane, &[], None).expect("it is written");
        stream.push(record, &slots, None).expect("it is written");
        living.tell_again(&mut stream).expect("nothing to tell yet");
        assert_eq!(stream.written().removed, 0);
        for time_ns in 3..2000 {
            let other = Record { time_ns, kind: Kind::ClientDropped as u16, ..Record::default() };
            living.see(other, &[]);
            stream.push(other, &[], None).expect("it is written");
        }
        assert!(stream.written().removed > 0);
        living.tell_again(&mut stream).expect("it is written");
        stream.finish().expect("it is written");
        let (mut connections, mut lanes) = (Vec::new(), 0);
        RunReader::open(directory.path()).expect("a run").merge().each(|sourced| {
            connections.extend(ClientConnection::read(&sourced.record, sourced.payload));
            lanes += u64::from(sourced.record.kind == Kind::ClientLane as u16);
            true
        });
        assert_eq!((connections, lanes), (vec![ClientConnection { connected_ns: 1999, ..connection }], 1));
    }
}
