//! A connection of HTTP/2 as a test's server sees it: frames, and nothing that a test does not ask for.

use super::Peer;
use std::io::{Read, Write};

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;

/// A frame as it came.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// Whether the client has said everything on the stream.
    pub(crate) fn ends(&self) -> bool {
        self.kind <= HEADERS && self.flags & 1 != 0
    }
}

/// The bytes of a frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u32;
    let mut bytes = length.to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The bytes of settings.
pub(crate) fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> =
        values.iter().flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat()).collect();
    frame(SETTINGS, 0, 0, &payload)
}

/// The bytes of a whole response of status 200.
pub(crate) fn answer(stream: u32, content: &[u8]) -> Vec<u8> {
    [frame(HEADERS, 4, stream, &[0x88]), frame(DATA, 1, stream, content)].concat()
}

impl Peer {
    /// Takes the client's preface and says these settings; whether a client came at all.
    pub(crate) fn greet(&mut self, values: &[(u16, u32)]) -> bool {
        let mut preface = [0; 24];
        self.stream.read_exact(&mut preface).is_ok()
            && preface == *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            && self.send(&settings(values))
    }

    /// The next frame, settings of the client answered; `None` at the end of the stream.
    pub(crate) fn frame(&mut self) -> Option<Frame> {
        loop {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head).ok()?;
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            self.stream.read_exact(&mut payload).ok()?;
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let frame = Frame { kind: head[3], flags: head[4], stream, payload };
            match (frame.kind, frame.flags & 1) {
                (SETTINGS, 0) => self.stream.write_all(&self::frame(SETTINGS, 1, 0, &[])).ok()?,
                (SETTINGS, _) => {}
                _ => return Some(frame),
            }
        }
    }

    /// The stream of the next request that is all there.
    pub(crate) fn asked(&mut self) -> Option<u32> {
        loop {
            let frame = self.frame()?;
            if frame.ends() {
                return Some(frame.stream);
            }
        }
    }
}
