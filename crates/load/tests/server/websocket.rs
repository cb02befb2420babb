//! A connection of WebSocket (RFC 6455) as a test's server sees it: frames, and nothing that a test does not ask for.

use super::Peer;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use std::io::{Read, Write};

pub(crate) const TEXT: u8 = 0x81;
pub(crate) const BINARY: u8 = 0x82;
pub(crate) const CLOSE: u8 = 0x88;
pub(crate) const PING: u8 = 0x89;
pub(crate) const PONG: u8 = 0x8a;

/// A frame of a client, its mask taken off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) first: u8,
    pub(crate) content: Vec<u8>,
    pub(crate) mask: [u8; 4],
}

/// The bytes of a server's frame, which has no mask.
pub(crate) fn frame(first: u8, content: &[u8]) -> Vec<u8> {
    let length = match content.len() {
        short @ 0..126 => vec![short as u8],
        middle @ 126..0x1_0000 => [&[126][..], &(middle as u16).to_be_bytes()].concat(),
        long => [&[127][..], &(long as u64).to_be_bytes()].concat(),
    };
    [&[first][..], &length, content].concat()
}

/// The answer to a key (RFC 6455 4.2.2), as base64 has it.
pub(crate) fn accept(key: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let digest = digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    // 20 bytes: six groups of three and one of two.
    let groups = digest.as_ref().chunks(3).map(|group| {
        let at = |place: usize| u32::from(group.get(place).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        (0..4).map(move |place| match place > group.len() {
            true => '=',
            false => char::from(DIGITS[(bits >> (18 - 6 * place)) as usize & 63]),
        })
    });
    groups.flatten().collect()
}

impl Peer {
    /// Takes the request for an upgrade and agrees to it, with these lines more; gives the request.
    pub(crate) fn upgrade(&mut self, more: &str) -> Option<String> {
        let request = self.request()?;
        let key = request.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap_or_default();
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n{more}\r\n",
            accept(key)
        );
        self.send(answer.as_bytes()).then_some(request)
    }

    /// The next frame of the client; `None` at the end of the stream.
    pub(crate) fn received(&mut self) -> Option<Received> {
        let mut head = [0; 2];
        self.stream.read_exact(&mut head).ok()?;
        assert!(head[1] & 0x80 != 0, "a client's frame has a mask");
        let length = match head[1] & 0x7f {
            126 => {
                let mut length = [0; 2];
                self.stream.read_exact(&mut length).ok()?;
                u64::from(u16::from_be_bytes(length))
            }
            127 => {
                let mut length = [0; 8];
                self.stream.read_exact(&mut length).ok()?;
                u64::from_be_bytes(length)
            }
            short => u64::from(short),
        };
        let mut mask = [0; 4];
        self.stream.read_exact(&mut mask).ok()?;
        let mut content = vec![0; length as usize];
        self.stream.read_exact(&mut content).ok()?;
        content.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
        Some(Received { first: head[0], content, mask })
    }

    /// Sends back what comes until the client closes, and answers that as the standard has it.
    pub(crate) fn echo(&mut self) {
        while let Some(received) = self.received() {
            let _ = self.stream.write_all(&frame(received.first, &received.content));
            if received.first == CLOSE {
                return;
            }
        }
    }
}
