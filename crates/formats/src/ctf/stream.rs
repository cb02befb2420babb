//! A stream of a CTF trace: packets of events in the order of time, of which a window is in memory.

use super::decode::{Cursor, Stop, Value, Values};
use super::types::{EventClass, Metadata, StreamClass};
use crate::ReadError;
use std::io::{Read, Seek, SeekFrom};

/// Bytes of a window at first, and those of the largest event.
const WINDOW_BYTES: usize = 256 << 10;
const EVENT_BYTES_MAX: usize = 32 << 20;
const MAGIC: i64 = 0xc1fc_1fc1;

/// The packet that is being read.
#[derive(Debug, Clone, Copy)]
struct Packet {
    /// Where it begins, bytes of the file.
    from: u64,
    /// Where its content ends, bits of the file.
    content_end: u64,
    /// Where the next one begins, bytes of the file.
    next: u64,
    cpu: Option<u32>,
    /// The class of its stream, by its place in the metadata.
    class: usize,
}

/// An event that was read and not handed out yet.
#[derive(Debug)]
pub(crate) struct Next<'m> {
    pub(crate) at_ns: Option<u64>,
    pub(crate) class: Option<&'m EventClass>,
    pub(crate) cpu: Option<u32>,
}

#[derive(Debug)]
pub(crate) struct Stream<'m, R> {
    metadata: &'m Metadata,
    input: R,
    whole: u64,
    window: Vec<u8>,
    /// Where the window begins, bytes of the file.
    window_at: u64,
    /// What is to be read next, bits of the file.
    at: u64,
    packet: Option<Packet>,
    clock: u64,
    discarded: u64,
    pub(crate) values: Values<'m>,
    /// The event.
    pub(crate) next: Option<Next<'m>>,
    /// Events that the source says were lost since this was last looked at.
    pub(crate) lost: u64,
}

impl<'m, R: Read + Seek> Stream<'m, R> {
    pub(crate) fn new(metadata: &'m Metadata, mut input: R) -> Result<Self, ReadError> {
        let whole = input.seek(SeekFrom::End(0)).map_err(|source| ReadError::Io { at: 0, source })?;
        Ok(Self {
            metadata,
            input,
            whole,
            window: Vec::new(),
            window_at: 0,
            at: 0,
            packet: None,
            clock: 0,
            discarded: 0,
            values: Values::default(),
            next: None,
            lost: 0,
        })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.window
    }

    fn wrong(&self, what: &str) -> ReadError {
        ReadError::wrong(self.at / 8, what.to_owned())
    }

    /// Goes to the next event; there is none at the end.
    pub(crate) fn advance(&mut self) -> Result<(), ReadError> {
        self.next = None;
        loop {
            let Some(packet) = self.packet else {
                if self.at / 8 >= self.whole {
                    return Ok(());
                }
                self.packet = Some(self.begin_packet()?);
                continue;
            };
            if self.at >= packet.content_end {
                (self.at, self.packet) = (packet.next * 8, None);
                continue;
            }
            self.next = Some(self.event(packet)?);
            return Ok(());
        }
    }

    /// Reads with a cursor, with a larger window as long as what is read goes beyond it.
    fn with_window<T>(
        &mut self,
        (packet, end): (u64, u64),
        mut read: impl FnMut(&mut Cursor<'_>, &mut Values<'m>) -> Result<T, Stop>,
    ) -> Result<T, ReadError> {
        let mut bytes = WINDOW_BYTES;
        loop {
            let base = self.window_at * 8;
            let is_within = self.at >= base && self.at / 8 <= self.window_at + self.window.len() as u64;
            if is_within {
                let mut cursor = Cursor {
                    bytes: &self.window,
                    packet: (packet * 8).cast_signed() - base.cast_signed(),
                    at: self.at - base,
                    end: end.saturating_sub(base),
                };
                self.values.clear();
                match read(&mut cursor, &mut self.values) {
                    Ok(value) => {
                        self.at = base + cursor.at;
                        return Ok(value);
                    }
                    Err(Stop::Wrong(what)) => return Err(self.wrong(what)),
                    Err(Stop::End) => {}
                }
            }
            let window_end = self.window_at + self.window.len() as u64;
            let is_all =
                is_within && self.window_at == self.at / 8 && (window_end * 8 >= end || window_end >= self.whole);
            if is_all || bytes > EVENT_BYTES_MAX {
                return Err(ReadError::Cut { at: self.at / 8, within: "a packet" });
            }
            self.fill(bytes)?;
            bytes *= 2;
        }
    }

    /// Moves the window to what is to be read next.
    fn fill(&mut self, bytes: usize) -> Result<(), ReadError> {
        let at = self.at / 8;
        let io = |source| ReadError::Io { at, source };
        self.input.seek(SeekFrom::Start(at)).map_err(io)?;
        self.window.clear();
        self.window_at = at;
        self.input.by_ref().take(bytes as u64).read_to_end(&mut self.window).map_err(io)?;
        Ok(())
    }

    fn begin_packet(&mut self) -> Result<Packet, ReadError> {
        let (from, metadata, whole) = (self.at / 8, self.metadata, self.whole);
        self.at = from * 8;
        let (class, head) = self.with_window((from, whole * 8), |cursor, values| {
            if let Some(header) = &metadata.packet_header {
                cursor.read(header, "", values)?;
            }
            let is_other = values.number("magic").is_some_and(|magic| magic & 0xffff_ffff != MAGIC);
            if is_other {
                return Err(Stop::Wrong("a packet does not begin as one of CTF does; is the file a stream's?"));
            }
            let id = values.number("stream_id").unwrap_or(0).cast_unsigned();
            let class = metadata.streams.iter().position(|stream| stream.id == id);
            let class = class.ok_or(Stop::Wrong("the metadata does not describe the packet's stream"))?;
            values.clock = None;
            if let Some(context) = &metadata.streams[class].packet_context {
                cursor.read(context, "", values)?;
            }
            let of = |name: &str| values.number(name).map(i64::cast_unsigned);
            let head = [of("content_size"), of("packet_size"), of("cpu_id"), of("events_discarded")];
            Ok((class, (head, of("timestamp_begin").or(of("timestamp_begin_time")))))
        })?;
        let ([content, size, cpu, discarded], begin) = head;
        self.clock = begin.unwrap_or(self.clock);
        // Without a size the packet is the file's rest.
        let rest = (whole - from) * 8;
        let size = size.or(content).unwrap_or(rest);
        let content = content.unwrap_or(size);
        let is_sound = content <= size && size <= rest && size.is_multiple_of(8) && size / 8 > 0;
        if !is_sound || self.at - from * 8 > content {
            let what = format!(
                "a packet has {size} bits, {content} of content, where the file has {rest}: was it cut, or is it written still?"
            );
            return Err(ReadError::wrong(from, what));
        }
        let discarded = discarded.unwrap_or(0);
        self.lost += discarded.saturating_sub(self.discarded);
        self.discarded = self.discarded.max(discarded);
        let cpu = cpu.and_then(|cpu| u32::try_from(cpu).ok());
        Ok(Packet { from, content_end: from * 8 + content, next: from + size / 8, cpu, class })
    }

    fn event(&mut self, packet: Packet) -> Result<Next<'m>, ReadError> {
        let class: &'m StreamClass = &self.metadata.streams[packet.class];
        let before = self.at;
        let event = self.with_window((packet.from, packet.content_end), |cursor, values| {
            if let Some(header) = &class.event_header {
                cursor.read(header, "", values)?;
            }
            let id = values.number("id").unwrap_or(0).cast_unsigned();
            let event =
                class.events.get(&id).ok_or(Stop::Wrong("the metadata does not describe the event's number"))?;
            let own = [&class.event_context, &event.context, &event.fields];
            let clock = values.clock;
            for of in own.into_iter().flatten() {
                cursor.read(of, "", values)?;
            }
            values.clock = clock.or(values.clock);
            Ok(event)
        })?;
        if self.at == before {
            return Err(self.wrong("an event has no bits"));
        }
        let at_ns = self.values.clock.map(|(low, bits)| self.time_ns(low, bits));
        let cpu = packet.cpu.or_else(|| Some(self.values.number("cpu_id")? as u32));
        Ok(Next { at_ns, class: Some(event), cpu })
    }

    /// The time of which an event has the lower bits: the next one behind the time before.
    fn time_ns(&mut self, low: u64, bits: u32) -> u64 {
        if bits >= 64 {
            self.clock = low;
        } else {
            let mask = (1u64 << bits) - 1;
            let mut clock = self.clock & !mask | low;
            if clock < self.clock {
                clock = clock.wrapping_add(mask + 1);
            }
            self.clock = clock;
        }
        let frequency_hz = u128::from(self.metadata.frequency_hz);
        if frequency_hz == 1_000_000_000 {
            return self.clock;
        }
        u64::try_from(u128::from(self.clock) * 1_000_000_000 / frequency_hz).unwrap_or(u64::MAX)
    }
}

/// A value that is a number.
pub(crate) fn number(value: Option<Value<'_>>) -> Option<u32> {
    match value? {
        Value::Number(number) | Value::Labelled(number, _) => u32::try_from(number).ok(),
        Value::Text(..) | Value::Fraction(_) => None,
    }
}
