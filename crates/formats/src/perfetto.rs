//! Perfetto's protobuf: <https://perfetto.dev/docs/reference/trace-packet-proto>.
//!
//! A packet at a time is in memory. Times are of the trace's clock, which is the one of the boot (CLOCK_BOOTTIME) unless
//! a snapshot of clocks names another.

mod clocks;
mod ftrace;
mod sequences;

use crate::packets::Packets;
use crate::protobuf::{Field, Message};
use crate::slices::Slices;
use crate::{Counts, Event, Markers, ReadError, Skipped, Task, What};
use clocks::Clocks;
use ftrace::Ftrace;
use sequences::{Sequences, Track};
use std::borrow::Cow;
use std::io::Read;

/// Packed packets hold no packed ones, and unpack to at most so much.
const UNPACKED_MAX: u64 = 256 << 20;

// Fields of a packet.
const FTRACE_EVENTS: u32 = 1;
const PROCESS_TREE: u32 = 2;
const CLOCK_SNAPSHOT: u32 = 6;
const TIMESTAMP: u32 = 8;
const SEQUENCE: u32 = 10;
const TRACK_EVENT: u32 = 11;
const INTERNED_DATA: u32 = 12;
const STATE_CLEARED: u32 = 41;
const COMPRESSED: u32 = 50;
const TIMESTAMP_CLOCK: u32 = 58;
const DEFAULTS: u32 = 59;
const TRACK_DESCRIPTOR: u32 = 60;
const SEQUENCE_FLAGS: u32 = 13;
/// Bit of the flags: what was interned before is forgotten.
const IS_CLEARED: u64 = 1;

/// Hands out the events of a file, nearly in its order: those of each CPU and of each sequence are in that of time.
///
/// # Errors
/// [`ReadError`], with the byte at which a packet is damaged or cut.
pub fn read_perfetto(
    input: impl Read,
    markers: &Markers,
    mut take: impl FnMut(Event<'_>),
) -> Result<Counts, ReadError> {
    let mut reader = Reader {
        markers,
        counts: Counts::default(),
        clocks: Clocks::default(),
        ftrace: Ftrace::default(),
        sequences: Sequences::default(),
        slices: Slices::default(),
    };
    let mut packets = Packets::new(input, "a packet of Perfetto's");
    while let Some((at, packet)) = packets.next()? {
        reader.packet(at, packet, true, &mut take)?;
    }
    let unended = reader.slices.open() + reader.slices.dropped;
    if unended > 0 {
        *reader.counts.skipped.entry(Skipped::Unreferenced).or_default() += unended;
    }
    reader.counts.clock = Some(reader.clocks.name().to_owned());
    Ok(reader.counts.told())
}

struct Reader<'m> {
    markers: &'m Markers,
    counts: Counts,
    clocks: Clocks,
    ftrace: Ftrace,
    sequences: Sequences,
    slices: Slices<u64>,
}

/// What a packet says of itself.
#[derive(Default)]
struct Head {
    timestamp: Option<u64>,
    clock: Option<u64>,
    sequence: u64,
    is_cleared: bool,
}

impl Reader<'_> {
    fn packet(
        &mut self,
        at: u64,
        packet: &[u8],
        may_be_packed: bool,
        take: &mut impl FnMut(Event<'_>),
    ) -> Result<(), ReadError> {
        let mut head = Head::default();
        let mut fields = Message::new(packet);
        for (number, field) in fields.by_ref() {
            match (number, field) {
                (TIMESTAMP, Field::Number(number)) => head.timestamp = Some(number),
                (TIMESTAMP_CLOCK, Field::Number(number)) => head.clock = Some(number),
                (SEQUENCE, Field::Number(number)) => head.sequence = number,
                (SEQUENCE_FLAGS, Field::Number(flags)) => head.is_cleared |= flags & IS_CLEARED != 0,
                (STATE_CLEARED, Field::Number(is)) => head.is_cleared |= is != 0,
                _ => {}
            }
        }
        if fields.is_cut {
            return Err(ReadError::wrong(at, "a packet is damaged: it ends within a field"));
        }
        if head.is_cleared {
            self.sequences.clear(head.sequence);
        }
        // What others refer to comes first, wherever it stands.
        for (number, field) in Message::new(packet) {
            let Field::Bytes(bytes) = field else { continue };
            match number {
                CLOCK_SNAPSHOT => self.clocks.snapshot(bytes, head.sequence),
                INTERNED_DATA => self.sequences.intern(head.sequence, bytes),
                DEFAULTS => self.sequences.defaults(head.sequence, bytes),
                _ => {}
            }
        }
        for (number, field) in Message::new(packet) {
            let Field::Bytes(bytes) = field else { continue };
            match number {
                FTRACE_EVENTS => self.ftrace.bundle(bytes, self.markers, &mut self.counts, take),
                TRACK_EVENT => self.track_event(&head, bytes, take),
                TRACK_DESCRIPTOR => self.track(bytes, take),
                PROCESS_TREE => self.tree(bytes, take),
                COMPRESSED if may_be_packed => self.packed(at, bytes, take)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn packed(&mut self, at: u64, bytes: &[u8], take: &mut impl FnMut(Event<'_>)) -> Result<(), ReadError> {
        let unpacked = flate2::read::ZlibDecoder::new(bytes).take(UNPACKED_MAX);
        let mut packets = Packets::new(unpacked, "a packed packet of Perfetto's");
        let of = |error| ReadError::wrong(at, format!("packed packets are damaged: {error}"));
        while let Some((_, packet)) = packets.next().map_err(of)? {
            self.packet(at, packet, false, take)?;
        }
        Ok(())
    }

    fn track(&mut self, bytes: &[u8], take: &mut impl FnMut(Event<'_>)) {
        self.counts.skip(Skipped::Describing);
        let Some((track, name)) = self.sequences.describe(bytes) else { return };
        self.name(track, name.as_deref(), take);
    }

    fn name(&mut self, track: Track, name: Option<&str>, take: &mut impl FnMut(Event<'_>)) {
        let (Some(number), Some(name)) = (track.task, name) else { return };
        let what = What::Named { task: Task { number, name }, process: track.process };
        take(Event { at_ns: 0, cpu: None, task: Some(number), process: track.process, what });
    }

    /// Processes and their threads.
    fn tree(&mut self, bytes: &[u8], take: &mut impl FnMut(Event<'_>)) {
        const PROCESSES: u32 = 1;
        const THREADS: u32 = 2;
        self.counts.skip(Skipped::Describing);
        for (number, field) in Message::new(bytes) {
            let Field::Bytes(bytes) = field else { continue };
            let (mut own, mut name, mut process) = (None, None, None);
            for field in Message::new(bytes) {
                match (number, field) {
                    (PROCESSES | THREADS, (1, Field::Number(number))) => own = Some(number as u32),
                    (THREADS, (2, field)) => name = field.text(),
                    (THREADS, (3, Field::Number(number))) => process = Some(number as u32),
                    // A process is called by the last name of the path of its program.
                    (PROCESSES, (3, field)) if name.is_none() => {
                        name = field.text().and_then(|command| command.rsplit('/').next());
                    }
                    _ => {}
                }
            }
            let process = if number == PROCESSES { own } else { process };
            self.name(Track { task: own, process }, name, take);
        }
    }

    fn track_event(&mut self, head: &Head, bytes: &[u8], take: &mut impl FnMut(Event<'_>)) {
        let Self { sequences, clocks, slices, counts, markers, .. } = self;
        let told = sequences.event(head.sequence, bytes);
        let name = told.name.unwrap_or("(nameless)");
        // An end has no name of its own: it is counted with its begin.
        if told.kind != sequences::SLICE_END {
            counts.event(name);
        }
        let clock = head.clock.or(sequences.clock(head.sequence));
        let at_ns = head.timestamp.and_then(|at| clocks.time_ns(at, clock, head.sequence));
        let Some(at_ns) = at_ns else { return counts.skip(Skipped::NoTime) };
        let event = Event {
            at_ns,
            cpu: None,
            task: told.track.and_then(|track| track.task),
            process: told.track.and_then(|track| track.process),
            what: What::Other(""),
        };
        let field = |name: &str| sequences.annotation(head.sequence, bytes, name).map(Cow::Owned);
        match told.kind {
            sequences::SLICE_BEGIN => slices.begin(told.uuid, name, event, (markers, field), take),
            sequences::SLICE_END => {
                counts.event("(end of a slice)");
                if !slices.end(&told.uuid, event, take) {
                    counts.skip(Skipped::Unreferenced);
                }
            }
            sequences::INSTANT if markers.may_mark(name) => {
                markers.told(name, field, |mark| take(Event { what: What::Mark(mark), ..event }));
            }
            _ => counts.skip(Skipped::NotMapped),
        }
    }
}
