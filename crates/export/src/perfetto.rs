//! A run as a trace of Perfetto (its protocol buffers `perfetto.protos.Trace`), for ui.perfetto.dev.

use crate::charts::{self, Chart, Charted, Slice, Track};
use crate::error::ExportError;
use crate::protobuf::Message;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use weir_query::{Cell, Queries};

/// Fields of `TracePacket`.
mod packet {
    pub(super) const CLOCK_SNAPSHOT: u32 = 6;
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE_ID: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const SEQUENCE_FLAGS: u32 = 13;
    pub(super) const CLOCK_ID: u32 = 58;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;
}

/// Fields of `TrackEvent`.
mod event {
    pub(super) const ANNOTATION: u32 = 4;
    pub(super) const KIND: u32 = 9;
    pub(super) const TRACK: u32 = 11;
    pub(super) const CATEGORY: u32 = 22;
    pub(super) const NAME: u32 = 23;
    pub(super) const FLOW: u32 = 47;
    pub(super) const BEGIN: u64 = 1;
    pub(super) const END: u64 = 2;
}

/// `Trace.packet`.
const PACKET: u32 = 1;
/// `BuiltinClock.BUILTIN_CLOCK_REALTIME`.
const REALTIME: u64 = 1;
/// `BuiltinClock.BUILTIN_CLOCK_MONOTONIC`.
const MONOTONIC: u64 = 3;
/// `TracePacket.SEQ_INCREMENTAL_STATE_CLEARED`.
const CLEARED: u64 = 1;

/// Writes a run as a trace of Perfetto.
///
/// # Errors
/// [`ExportError`].
pub fn perfetto(queries: &mut Queries, path: &Path) -> Result<Charted, ExportError> {
    let wrong = |source| ExportError::Write { path: path.to_owned(), source };
    let mut trace = Trace { out: BufWriter::new(File::create(path).map_err(wrong)?), packets: 0 };
    let charted = charts::tell(queries, &mut trace, &wrong)?;
    trace.out.flush().map_err(wrong)?;
    Ok(charted)
}

struct Trace<W> {
    out: W,
    packets: u64,
}

impl<W: Write> Trace<W> {
    fn packet(&mut self, mut packet: Message) -> io::Result<()> {
        packet.number(packet::SEQUENCE_ID, 1);
        if self.packets == 0 {
            packet.number(packet::SEQUENCE_FLAGS, CLEARED);
        }
        self.packets += 1;
        let mut trace = Message::new();
        trace.message(PACKET, &packet);
        self.out.write_all(trace.bytes())
    }

    fn event(&mut self, at_ns: u64, event: &Message) -> io::Result<()> {
        let mut packet = Message::new();
        packet.number(packet::TIMESTAMP, at_ns);
        packet.number(packet::CLOCK_ID, MONOTONIC);
        packet.message(packet::TRACK_EVENT, event);
        self.packet(packet)
    }
}

/// A track's number among all: the sort in the upper bits.
fn uuid(track: Track) -> u64 {
    let (sort, number) = match track {
        Track::Requests => (1, 0),
        Track::Lane(lane) => (2, lane),
        Track::Cpus => (3, 0),
        Track::Cpu(cpu) => (4, cpu),
        Track::Process(process) => (5, process),
        Track::Thread { pid, .. } => (6, pid),
        Track::Serving { pid, .. } => (7, pid),
        Track::Objects => (8, 0),
        Track::Object(object) => (9, object),
    };
    sort << 32 | u64::from(number)
}

impl<W: Write> Chart for Trace<W> {
    fn clocks(&mut self, monotonic_ns: u64, unix_ns: u64) -> io::Result<()> {
        let mut snapshot = Message::new();
        for (clock, at_ns) in [(MONOTONIC, monotonic_ns), (REALTIME, unix_ns)] {
            let mut reading = Message::new();
            reading.number(1, clock).number(2, at_ns);
            snapshot.message(1, &reading);
        }
        // Times are those of this clock, not of the one that counts suspension, which is the default.
        snapshot.number(2, MONOTONIC);
        let mut packet = Message::new();
        packet.message(packet::CLOCK_SNAPSHOT, &snapshot);
        self.packet(packet)
    }

    fn track(&mut self, track: Track, name: &str) -> io::Result<()> {
        let mut descriptor = Message::new();
        descriptor.number(1, uuid(track));
        if let Some(group) = track.group() {
            descriptor.number(5, uuid(group));
        }
        match track {
            Track::Process(process) => {
                let mut about = Message::new();
                about.number(1, process.into()).text(6, name);
                descriptor.message(3, &about);
            }
            Track::Thread { process, pid } => {
                let mut about = Message::new();
                about.number(1, process.into()).number(2, pid.into()).text(5, name);
                descriptor.message(4, &about);
            }
            _ => {
                descriptor.text(2, name);
            }
        }
        let mut packet = Message::new();
        packet.message(packet::TRACK_DESCRIPTOR, &descriptor);
        self.packet(packet)
    }

    fn begin(&mut self, slice: &Slice<'_>) -> io::Result<()> {
        let mut event = Message::new();
        event.number(event::KIND, event::BEGIN).number(event::TRACK, uuid(slice.track));
        event.text(event::CATEGORY, slice.category).text(event::NAME, slice.name);
        if slice.flow != 0 {
            event.fixed(event::FLOW, slice.flow);
        }
        for (name, cell) in slice.arguments {
            let mut annotation = Message::new();
            annotation.text(10, name);
            match cell {
                Cell::Integer(number) => annotation.number(4, *number as u64),
                Cell::Text(text) if !text.is_empty() => annotation.text(6, text),
                // What is not known is left out.
                _ => continue,
            };
            event.message(event::ANNOTATION, &annotation);
        }
        self.event(slice.from_ns, &event)
    }

    fn end(&mut self, slice: &Slice<'_>) -> io::Result<()> {
        let mut event = Message::new();
        event.number(event::KIND, event::END).number(event::TRACK, uuid(slice.track));
        self.event(slice.to_ns, &event)
    }
}
