//! What goes out: frames of WebSockets within those of HTTP/2, as far as the server's windows allow.

use crate::connect::kernel::monotonic_ns;
use crate::engine::state::Engine;
use crate::http2::Malformed;
use crate::http2::frame;
use crate::http2::frames::{DATA, END_STREAM, FRAME_BYTES_MAX};
use crate::tunneled::state::{Carrier, Tunnels};
use std::io;

/// Bytes that are put into frames ahead of their write.
const AHEAD_BYTES: usize = 64 * 1024;
/// Bytes of answers that wait to be written: a server that asks for more without reading them gets none.
const ANSWERS_BYTES_MAX: usize = 256 * 1024;

impl Carrier {
    /// Puts what WebSockets have to say into frames, one of each in turn, as far as all windows allow.
    pub(crate) fn fill(&mut self) {
        while self.out.len() - self.out_at < AHEAD_BYTES {
            let Some(place) = self.senders.front().copied() else { return };
            let tunnel = &mut self.tunnels[place as usize];
            let left = tunnel.out.len() - tunnel.out_at;
            if self.window <= 0 && left > 0 {
                return;
            }
            self.senders.pop_front();
            tunnel.is_listed = false;
            if !tunnel.has_more() {
                continue;
            }
            let allowed = usize::try_from(tunnel.window.min(self.window)).unwrap_or(0);
            let count = left.min(allowed).min(self.frame_bytes).min(FRAME_BYTES_MAX);
            let is_last = count == left;
            let flags = if is_last && tunnel.ends { END_STREAM } else { 0 };
            let from = tunnel.out_at;
            frame(&mut self.out, DATA, flags, tunnel.stream, &tunnel.out[from..from + count]);
            tunnel.out_at += count;
            tunnel.window -= count as i64;
            self.window -= count as i64;
            if is_last {
                tunnel.out.clear();
                (tunnel.out_at, tunnel.ends) = (0, false);
            }
            self.list(place);
        }
    }

    /// Appends a frame that answers the server, within the bound on those.
    pub(crate) fn answer(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Result<(), Malformed> {
        if self.answers > ANSWERS_BYTES_MAX {
            return Err(Malformed::too_much("it wants answers and does not read them"));
        }
        let before = self.out.len();
        frame(&mut self.out, kind, flags, stream, payload);
        self.answers += self.out.len() - before;
        Ok(())
    }

    /// So many bytes are written.
    fn written(&mut self, count: usize) {
        self.out_at += count;
        if self.out_at == self.out.len() {
            self.out.clear();
            (self.out_at, self.answers) = (0, 0);
        } else if self.out_at > self.out.len() / 2 {
            // What is written is let go before it has doubled what is kept.
            self.out.drain(..self.out_at);
            self.out_at = 0;
        }
    }
}

impl Engine<'_, Tunnels<'_>> {
    /// Has a connection written before the loop goes on.
    pub(crate) fn touch(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        if !connection.http.listed_touched {
            connection.http.listed_touched = true;
            self.http.touched.push(slot as u32);
        }
    }

    pub(crate) fn flush_touched(&mut self) {
        while let Some(slot) = self.http.touched.pop() {
            self.connections[slot as usize].http.listed_touched = false;
            self.flush(slot as usize);
        }
    }

    /// Writes what a connection has to say, as far as there is room.
    pub(crate) fn flush(&mut self, slot: usize) {
        loop {
            let connection = &mut self.connections[slot];
            connection.http.fill();
            let (http, Some(stream)) = (&mut connection.http, &mut connection.stream) else { return };
            let is_empty = http.out_at == http.out.len();
            if is_empty && !stream.is_clogged() {
                return;
            }
            self.now_ns = monotonic_ns();
            match stream.write(&mut self.connector.kernel, &http.out[http.out_at..]) {
                Ok(count) => http.written(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    // The server may have said why it closed: that is still to be had, at the next turn.
                    connection.hung_up = true;
                    let token = connection.token(slot);
                    return self.unread.list(token);
                }
            }
            if is_empty {
                return;
            }
        }
    }
}
