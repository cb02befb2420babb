//! What comes on a connection, and what the server says of the connection itself.

use crate::LoadError;
use crate::connect::kernel::{HANGUP, monotonic_ns};
use crate::counts::codes::code_words;
use crate::engine::state::{Engine, READS_IN_A_ROW};
use crate::http2::frames::{ACK, Event, FRAME_HEAD_BYTES, PING, SETTINGS, Settings, WINDOW_UPDATE};
use crate::http2::{Malformed, WINDOW_BYTES};
use crate::tunneled::state::Tunnels;
use std::io;
use std::sync::atomic::Ordering;
use weir_wire::client::Outcome;

/// Bytes after which the server is told that it may send more: half of its window, so that it never waits.
const TELL_BYTES: u32 = WINDOW_BYTES / 2;
/// The largest window (RFC 9113 6.9.1).
const WINDOW_MAX: i64 = 0x7fff_ffff;

impl Engine<'_, Tunnels<'_>> {
    /// Takes what a connection has received.
    pub(crate) fn receive(&mut self, slot: usize, flags: u32) {
        let generation = self.connections[slot].generation;
        self.connections[slot].hung_up |= flags & HANGUP != 0;
        for _ in 0..READS_IN_A_ROW {
            let connection = &mut self.connections[slot];
            let Some(stream) = &mut connection.stream else { return };
            let read = stream.read(&mut self.connector.kernel, &mut self.buffer);
            self.now_ns = monotonic_ns();
            let count = match read {
                Ok(0) => return self.ended(slot),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.broken(slot, &error),
            };
            let drained = stream.drained;
            connection.hung_up |= stream.ended;
            self.tally.received(count as u64, self.now_ns <= self.scheduler.end_ns);
            // Borrowed for as long as its bytes are looked at.
            let buffer = std::mem::take(&mut self.buffer);
            self.take(slot, generation, &buffer[..count]);
            self.buffer = buffer;
            self.flush_touched();
            let connection = &self.connections[slot];
            if connection.generation != generation || drained && !connection.hung_up {
                return;
            }
        }
        self.unread.list(u64::from(generation) << 32 | slot as u64);
    }

    /// Takes the frames of a read.
    fn take(&mut self, slot: usize, generation: u32, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() && self.connections[slot].generation == generation {
            let reader = &mut self.connections[slot].http.reader;
            let taken = reader.next(&mut self.http.decoder, &bytes[at..]).and_then(|(used, event)| {
                at += used;
                match event {
                    None => Ok(()),
                    Some(Event::Data { stream, content, flow, bytes: all, end }) => {
                        // The byte that tells the padding's length stands in the frame's head.
                        let has_head = (all - flow) as usize == FRAME_HEAD_BYTES;
                        let padding = (flow - content) - u32::from(has_head && flow > content);
                        let to = at - padding as usize;
                        self.on_content(slot, (stream, flow, end), &bytes[to - content as usize..to])
                    }
                    Some(event) => self.on_frame(slot, event),
                }
            });
            if let Err(malformed) = taken {
                return self.malformed(slot, malformed);
            }
        }
    }

    fn on_frame(&mut self, slot: usize, event: Event) -> Result<(), Malformed> {
        match event {
            Event::Settings(settings) => self.on_settings(slot, settings)?,
            Event::Ping(number) => {
                self.connections[slot].http.answer(PING, ACK, 0, &number)?;
                self.touch(slot);
            }
            Event::Window { stream, more } => self.on_window(slot, stream, more)?,
            Event::Reset { stream, code } => {
                let Some(place) = self.find(slot, stream)? else { return Ok(()) };
                let words = format!("the server gave the stream up: {}", code_words(code));
                self.fail(slot, place, Outcome::StreamReset, &words);
            }
            Event::Goaway { last, code } => self.on_goaway(slot, last, code),
            Event::Headers { stream, head, end, .. } => {
                if let Some(place) = self.find(slot, stream)? {
                    self.on_answer(slot, place, head.status, end);
                }
            }
            Event::SettingsTaken | Event::Data { .. } => {}
        }
        Ok(())
    }

    /// The place of a stream; of one that is over it is none.
    fn find(&self, slot: usize, stream: u32) -> Result<Option<u32>, Malformed> {
        let http = &self.connections[slot].http;
        if http.is_unknown(stream) {
            return Err(Malformed::protocol("a frame of a stream that was not begun"));
        }
        Ok(http.find(stream))
    }

    fn on_settings(&mut self, slot: usize, settings: Settings) -> Result<(), Malformed> {
        let host = self.host(slot);
        host.agreed.store(true, Ordering::Relaxed);
        let http = &mut self.connections[slot].http;
        http.answer(SETTINGS, ACK, 0, &[])?;
        match settings.connect {
            Some(false) if http.is_offered => {
                return Err(Malformed::protocol("it takes its word back that it opens WebSockets (RFC 8441 3)"));
            }
            Some(true) => http.is_offered = true,
            _ if !http.is_offered => {
                self.fatal = Some(LoadError::NoTunnels { host: host.url.host.clone() });
                return Ok(());
            }
            _ => {}
        }
        http.allow(settings.streams);
        self.tally.streams_allowed = self.tally.streams_allowed.min(http.streams_max);
        if let Some(bytes) = settings.frame_bytes {
            http.frame_bytes = bytes as usize;
        }
        if let Some(window) = settings.window {
            // RFC 9113 6.9.2: streams that are open gain or lose the difference, and may be below zero.
            let difference = i64::from(window) - http.first_window;
            http.first_window = i64::from(window);
            for tunnel in http.tunnels.iter_mut().filter(|tunnel| tunnel.stream != 0) {
                tunnel.window += difference;
                if tunnel.window > WINDOW_MAX {
                    return Err(Malformed::flow_control("a window that is too large"));
                }
            }
            (0..http.tunnels.len() as u32).for_each(|place| http.list(place));
        }
        self.open_tunnels(slot);
        self.touch(slot);
        Ok(())
    }

    fn on_window(&mut self, slot: usize, stream: u32, more: u32) -> Result<(), Malformed> {
        let window = if stream == 0 {
            &mut self.connections[slot].http.window
        } else {
            let Some(place) = self.find(slot, stream)? else { return Ok(()) };
            &mut self.connections[slot].http.tunnels[place as usize].window
        };
        *window += i64::from(more);
        if *window > WINDOW_MAX {
            return Err(Malformed::flow_control("a window that is too large"));
        }
        if let Some(place) = self.connections[slot].http.find(stream) {
            self.connections[slot].http.list(place);
        }
        self.touch(slot);
        Ok(())
    }

    /// The server opens no more streams, and did not look at those after `last`.
    fn on_goaway(&mut self, slot: usize, last: u32, code: u32) {
        let generation = self.connections[slot].generation;
        self.connections[slot].http.is_leaving = true;
        if code != 0 {
            self.tally.goaways.count(code, 1);
        }
        let words = format!("the server ended the connection: GOAWAY with {}", code_words(code));
        for place in 0..self.connections[slot].http.tunnels.len() as u32 {
            if self.connections[slot].http.tunnels[place as usize].stream > last {
                self.fail(slot, place, Outcome::Closed, &words);
            }
            if self.connections[slot].generation != generation {
                return;
            }
        }
        self.leave_if_over(slot);
    }

    /// Takes content of a stream: bytes of its WebSocket.
    fn on_content(
        &mut self,
        slot: usize,
        (stream, flow, end): (u32, u32, bool),
        content: &[u8],
    ) -> Result<(), Malformed> {
        let http = &mut self.connections[slot].http;
        http.untold += flow;
        if http.untold >= TELL_BYTES {
            let more = std::mem::take(&mut http.untold);
            http.answer(WINDOW_UPDATE, 0, 0, &more.to_be_bytes())?;
            self.touch(slot);
        }
        let Some(place) = self.find(slot, stream)? else { return Ok(()) };
        let http = &mut self.connections[slot].http;
        let tunnel = &mut http.tunnels[place as usize];
        tunnel.untold += flow;
        if tunnel.untold >= TELL_BYTES && !end {
            let more = std::mem::take(&mut tunnel.untold);
            http.answer(WINDOW_UPDATE, 0, stream, &more.to_be_bytes())?;
            self.touch(slot);
        }
        self.on_bytes(slot, place, content, end);
        Ok(())
    }
}
