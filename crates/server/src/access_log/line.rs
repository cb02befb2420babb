//! One line: written when a response begins, but for what is known at its end.

use super::format::{Format, LATE_MAX, Late, Piece, TEXT_BYTES};
use super::room::Room;
use crate::clock::Clock;
use crate::front::host_counts::HostCounts;
use crate::options::AccessLog;
use crate::request::Request;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Instant;

/// Bytes of a request line, referrer or user agent that are logged.
const TEXT_BYTES_MAX: usize = 1024;

/// Bytes that most lines have room in.
const LINE_BYTES: usize = 512;
/// Clients whose addresses are kept as texts.
const CLIENTS: usize = 64;

/// The texts of clients' addresses, so that one who comes again is not written anew.
#[derive(Debug)]
pub(super) struct Clients(Vec<(IpAddr, Vec<u8>)>);

impl Default for Clients {
    fn default() -> Self {
        let unknown = IpAddr::from(Ipv4Addr::UNSPECIFIED);
        Self(vec![(unknown, unknown.to_string().into_bytes()); CLIENTS])
    }
}

impl Clients {
    #[inline]
    fn text(&mut self, client: IpAddr) -> &[u8] {
        let bits = match client {
            IpAddr::V4(client) => u64::from(client.to_bits()),
            // What tells clients apart can be in either half.
            IpAddr::V6(client) => (client.to_bits() >> 64) as u64 ^ client.to_bits() as u64,
        };
        // Fibonacci hashing (Knuth, volume 3, 6.4): the topmost bits of the product depend on all.
        let place = bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - CLIENTS.ilog2());
        let kept = &mut self.0[place as usize % CLIENTS];
        if kept.0 != client {
            *kept = (client, client.to_string().into_bytes());
        }
        &kept.1
    }
}

/// A line that lacks what is known only when the response has been sent.
#[derive(Debug, Default)]
pub(crate) struct LogLine {
    /// Memory for the line; of it `used` bytes are written.
    text: Vec<u8>,
    used: usize,
    late: [(u32, Late); LATE_MAX],
    late_count: u8,
    began: Option<Instant>,
    /// The user that was let in; empty = nobody's.
    pub(crate) user: String,
    /// The host that answers.
    pub(crate) host: Option<Arc<HostCounts>>,
}

impl LogLine {
    pub(crate) fn clear(&mut self) {
        self.used = 0;
        self.user.clear();
        self.host = None;
    }

    /// Writes everything that is known when a response begins. Without a request its head was unreadable.
    pub(super) fn begin(
        &mut self,
        (options, format, clients): (&AccessLog, &Format, &mut Clients),
        request: Option<&Request<'_>>,
        peer: IpAddr,
        status: u16,
        clock: &Clock,
    ) {
        self.began = format.has_duration().then(Instant::now);
        if self.text.is_empty() {
            self.text.resize(LINE_BYTES, 0);
        }
        let client = clients.text(if options.addresses { peer } else { network(peer) });
        loop {
            let mut room = Room::new(&mut self.text);
            let mut out = Out { room: &mut room, is_json: format.is_json, queries: options.queries };
            self.late_count = 0;
            for piece in &format.pieces {
                match piece {
                    Piece::Text(text) => out.room.some(text.bytes, usize::from(text.used)),
                    Piece::Client => out.plain(client),
                    Piece::User => out.text(Some(self.user.as_bytes()).filter(|user| !user.is_empty())),
                    Piece::Time => out.room.text(&clock.log_time),
                    Piece::Rfc3339 => out.room.text(&clock.rfc3339),
                    Piece::Seconds => out.room.decimal(clock.unix_s),
                    Piece::Line => match request {
                        Some(request) => {
                            // A token (RFC 9110, 5.6.2), which has neither quotes nor backslashes.
                            out.room.text(request.method_text.as_bytes());
                            out.room.byte(b' ');
                            out.address(request.target.as_bytes());
                            out.room.byte(b' ');
                            out.room.text(request.version().as_bytes());
                        }
                        None => out.room.byte(b'-'),
                    },
                    Piece::Method => out.text(request.map(|request| request.method_text.as_bytes())),
                    Piece::Path => out.text(request.map(|request| parts(request.target).0)),
                    Piece::Query => {
                        let query = request.map(|request| parts(request.target).1).unwrap_or_default();
                        out.escaped(if query.is_empty() || options.queries { query } else { b"?-" });
                    }
                    Piece::Target => out.quoted_address(request.map(|request| request.target.as_bytes())),
                    Piece::Protocol => out.text(request.map(|request| request.version().as_bytes())),
                    Piece::Status => out.room.decimal(u64::from(status)),
                    Piece::Host => out.text(self.host.as_ref().map(|host| host.name.as_bytes())),
                    Piece::AskedHost => out.text(request.and_then(|request| request.host)),
                    Piece::Referrer => out.quoted_address(request.and_then(|request| request.referrer)),
                    Piece::UserAgent => out.text(request.and_then(|request| request.user_agent)),
                    Piece::Late(what) => {
                        // A format has no more of them than places.
                        if let Some(place) = self.late.get_mut(usize::from(self.late_count)) {
                            *place = (out.room.used() as u32, *what);
                            self.late_count += 1;
                        }
                    }
                }
            }
            room.byte(b'\n');
            self.used = room.used();
            if !room.is_short() {
                return;
            }
            // With what a text of the format may be written too far.
            self.text.resize(self.used + TEXT_BYTES, 0);
        }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Bytes of it so far.
    pub(super) fn len(&self) -> usize {
        self.used
    }

    /// Appends the whole line.
    pub(super) fn end(&self, body_bytes: u64, all_bytes: u64, out: &mut Vec<u8>) {
        let text = &self.text[..self.used];
        let mut from = 0;
        for &(at, late) in self.late.iter().take(usize::from(self.late_count)) {
            let at = at as usize;
            out.extend_from_slice(&text[from..at]);
            from = at;
            let took = || self.began.map(|began| began.elapsed()).unwrap_or_default();
            let number: u64 = match late {
                Late::BodyOrDash if body_bytes == 0 => {
                    out.push(b'-');
                    continue;
                }
                Late::BodyOrDash | Late::Body => body_bytes,
                Late::All => all_bytes,
                // Half a million years fit.
                Late::Microseconds => took().as_micros() as u64,
                Late::Milliseconds => took().as_millis() as u64,
                Late::Seconds => took().as_secs(),
            };
            let mut digits = [0; 24];
            let mut room = Room::new(&mut digits);
            room.decimal(number);
            let used = room.used();
            out.extend_from_slice(&digits[..used]);
        }
        match &text[from..] {
            [only] => out.push(*only),
            rest => out.extend_from_slice(rest),
        }
    }
}

/// Path and query of a target.
fn parts(target: &str) -> (&[u8], &[u8]) {
    target.as_bytes().split_at(target.find('?').unwrap_or(target.len()))
}

struct Out<'o, 'r> {
    room: &'o mut Room<'r>,
    is_json: bool,
    queries: bool,
}

impl Out<'_, '_> {
    /// A text of which nothing has to be escaped.
    #[inline]
    fn plain(&mut self, text: &[u8]) {
        if self.is_json {
            self.room.byte(b'"');
        }
        self.room.text(text);
        if self.is_json {
            self.room.byte(b'"');
        }
    }

    fn text(&mut self, text: Option<&[u8]>) {
        match (text, self.is_json) {
            (Some(text), false) => self.escaped(text),
            (None, false) => self.room.byte(b'-'),
            (Some(text), true) => {
                self.room.byte(b'"');
                self.escaped(text);
                self.room.byte(b'"');
            }
            (None, true) => self.room.text(b"null"),
        }
    }

    /// Text so that it can neither end its quotes nor its line; in JSON a byte beyond ASCII is the character of that
    /// number, so that nothing is lost.
    #[inline]
    fn escaped(&mut self, text: &[u8]) {
        let text = &text[..text.len().min(TEXT_BYTES_MAX)];
        if is_plain(text) {
            self.room.text(text);
        } else {
            self.escape_each(text);
        }
    }

    #[cold]
    fn escape_each(&mut self, text: &[u8]) {
        for &byte in text {
            match byte {
                b'"' | b'\\' => self.room.some([b'\\', byte], 2),
                b' '..=b'~' => self.room.byte(byte),
                _ => {
                    self.room.text(if self.is_json { b"\\u00" } else { b"\\x" });
                    for digit in [byte >> 4, byte & 15] {
                        self.room.byte(b"0123456789abcdef"[usize::from(digit)]);
                    }
                }
            }
        }
    }

    /// A target or address, without its query unless that was asked for.
    #[inline]
    fn address(&mut self, text: &[u8]) {
        match memchr::memchr(b'?', text) {
            Some(at) if !self.queries => {
                self.escaped(&text[..at]);
                self.room.some(*b"?-", 2);
            }
            _ => self.escaped(text),
        }
    }

    fn quoted_address(&mut self, text: Option<&[u8]>) {
        match text {
            Some(text) if self.is_json => {
                self.room.byte(b'"');
                self.address(text);
                self.room.byte(b'"');
            }
            Some(text) => self.address(text),
            None => self.text(None),
        }
    }
}

/// The network that an address is in, as far as a redacted log says it.
fn network(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(addr) => IpAddr::V4(Ipv4Addr::from(u32::from(addr) & 0xffff_ff00)),
        IpAddr::V6(addr) => IpAddr::V6(Ipv6Addr::from(u128::from(addr) & !0 << 80)),
    }
}

/// Whether all bytes can stand as they are. Looked at in blocks without a branch in them, which are a few instructions
/// of those that work on 16 bytes at once; the last block takes again what it needs of the one before.
#[inline]
fn is_plain(text: &[u8]) -> bool {
    const BLOCK: usize = 16;
    let is_other = |byte: u8| !(b' '..=b'~').contains(&byte) | (byte == b'"') | (byte == b'\\');
    let has_other = |block: &[u8; BLOCK]| block.iter().fold(0, |found, &byte| found | u8::from(is_other(byte))) != 0;
    if let Some(last) = text.last_chunk::<BLOCK>() {
        return !text.as_chunks::<BLOCK>().0.iter().any(has_other) && !has_other(last);
    }
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        return is_plain_word(u64::from_ne_bytes(*first)) && is_plain_word(u64::from_ne_bytes(*last));
    }
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        return is_plain_word(u64::from(u32::from_ne_bytes(*first)) << 32 | u64::from(u32::from_ne_bytes(*last)));
    }
    !text.iter().any(|&byte| is_other(byte))
}

/// The same of eight bytes at once: what a subtraction borrows from, or an addition carries into, the topmost bit of a
/// byte tells that there is one of that kind (though not which it is).
#[inline]
fn is_plain_word(word: u64) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const TOPS: u64 = ONES << 7;
    let below = |word: u64, bound: u8| word.wrapping_sub(ONES * u64::from(bound)) & !word;
    let is = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    // A byte of 0x7f, and any beyond ASCII.
    let high = word | word.wrapping_add(ONES);
    (below(word, b' ') | high | is(b'"') | is(b'\\')) & TOPS == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(is_json: bool, write: impl Fn(&mut Out<'_, '_>)) -> Vec<u8> {
        let mut bytes = vec![0; 1000];
        let mut room = Room::new(&mut bytes);
        write(&mut Out { room: &mut room, is_json, queries: false });
        assert!(!room.is_short());
        let used = room.used();
        bytes.truncate(used);
        bytes
    }

    proptest! {
        #[test]
        fn what_is_escaped_is_plain_and_means_the_same(text in proptest::collection::vec(any::<u8>(), 0..80)) {
            let json = written(true, |out| out.text(Some(&text)));
            let read: String = serde_json::from_slice(&json).expect("a text");
            prop_assert_eq!(read.chars().map(|letter| u8::try_from(letter).expect("a byte")).collect::<Vec<u8>>(), text.clone());
            let plain = written(false, |out| out.text(Some(&text)));
            prop_assert!(plain.iter().all(|byte| (b' '..=b'~').contains(byte)));
            prop_assert_eq!(plain == text, is_plain(&text));
        }

        #[test]
        fn one_byte_anywhere_is_found(len in 1_usize..70, at in 0_usize..70, byte: u8) {
            let mut text = vec![b'a'; len];
            text[at % len] = byte;
            let is_other = !(b' '..=b'~').contains(&byte) || byte == b'"' || byte == b'\\';
            prop_assert_eq!(is_plain(&text), !is_other);
        }

        #[test]
        fn addresses_are_those_of_the_library(v4: [u8; 4], v6: u128) {
            for addr in [IpAddr::from(v4), IpAddr::from(Ipv6Addr::from(v6))] {
                let mut clients = Clients::default();
                let text = addr.to_string();
                prop_assert_eq!(clients.text(addr), text.as_bytes());
                prop_assert_eq!(clients.text(addr), text.as_bytes(), "once more");
            }
        }
    }
}
