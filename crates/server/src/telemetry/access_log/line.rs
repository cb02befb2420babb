//! One line of the log. It is written when a response begins; what is known only at its end is put in then.

use super::format::{Clf, Format, LATE_MAX, Late, Piece};
use super::room::Room;
use crate::counters::host_counts::HostCounts;
use crate::http::request::Request;
use crate::io::clock::Clock;
use crate::telemetry::access_log::settings::AccessLog;
use crate::telemetry::recent::Noted;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of a request line, referrer or user agent that are logged.
const TEXT_BYTES_MAX: usize = 1024;

/// Bytes of a number with as many digits as there can be, and some behind it.
const DIGITS_MAX: usize = 24;
/// Bytes that most lines have room in.
const LINE_BYTES: usize = 512;
/// Clients for which the beginning of a line is kept.
const CLIENTS: usize = 64;
/// Bytes of that at most: the longest address and a time, with what stands between and behind them.
const BEGIN_BYTES: usize = 80;

/// The beginning of a client's lines in the Common and the Combined Log Format, for requests without a user.
#[derive(Debug, Clone)]
struct Kept {
    client: IpAddr,
    unix_s: u64,
    text: [u8; BEGIN_BYTES],
    used: u8,
    /// Bytes of the address, which it begins with.
    client_bytes: u8,
}

/// The beginnings of some clients' lines: for a client that asks again within a second it is copied by a few wide
/// instructions.
#[derive(Debug)]
pub(super) struct Clients(Vec<Kept>);

impl Default for Clients {
    fn default() -> Self {
        let no_client = Ipv4Addr::UNSPECIFIED.into();
        let kept = Kept { client: no_client, unix_s: 0, text: [0; BEGIN_BYTES], used: 0, client_bytes: 0 };
        Self(vec![kept; CLIENTS])
    }
}

impl Clients {
    #[inline]
    fn of(&mut self, client: IpAddr, clock: &Clock) -> &Kept {
        let bits = match client {
            IpAddr::V4(client) => u64::from(client.to_bits()),
            // What tells clients apart can be in either half.
            IpAddr::V6(client) => (client.to_bits() >> 64) as u64 ^ client.to_bits() as u64,
        };
        // Fibonacci hashing (Knuth, volume 3, 6.4): the topmost bits of the product depend on all.
        let place = bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - CLIENTS.ilog2());
        let kept = &mut self.0[place as usize % CLIENTS];
        if kept.unix_s != clock.unix_s || kept.client != client || kept.used == 0 {
            kept.make(client, clock);
        }
        kept
    }
}

impl Kept {
    #[cold]
    fn make(&mut self, client: IpAddr, clock: &Clock) {
        (self.client, self.unix_s) = (client, clock.unix_s);
        let mut room = Room::new(&mut self.text);
        match client {
            IpAddr::V4(client) => {
                for (number, octet) in client.octets().into_iter().enumerate() {
                    if number > 0 {
                        room.byte(b'.');
                    }
                    room.decimal(u64::from(octet));
                }
            }
            IpAddr::V6(client) => room.text(client.to_string().as_bytes()),
        }
        let client_bytes = room.used();
        room.text(b" - - ");
        room.text(&clock.log_time);
        room.text(b" \"");
        // Below the bytes that there are: 39 of an address, 28 of a time.
        (self.client_bytes, self.used) = (client_bytes as u8, room.used() as u8);
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
    /// Where the status is to stand, which was not known at the beginning.
    status_at: Vec<u32>,
    /// The user that was let in; empty = none.
    pub(crate) user: String,
    /// The host that answers.
    pub(crate) host: Option<Arc<HostCounts>>,
    /// The same request in the history. It is not cleared with the line, but written anew with the next one.
    pub(crate) noted: Noted,
}

/// A line that another server completes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LineText {
    /// With its line end.
    pub(crate) text: Vec<u8>,
    /// Where something is to be put in that is known at the end only, and what: the places ascend.
    pub(crate) late: Vec<(u32, u8)>,
    /// Since the request was read.
    pub(crate) took_us: u64,
}

impl LineText {
    /// Whether it is one line, or none, that can be completed: it may come from elsewhere.
    pub(crate) fn is_sound(&self) -> bool {
        let Some((&end, line)) = self.text.split_last() else { return self.late.is_empty() };
        let is_line = end == b'\n' && line.iter().all(|&byte| byte == b'\t' || byte >= b' ');
        let places = self.late.iter().map(|&(at, _)| at as usize);
        is_line
            && self.late.len() <= LATE_MAX
            && places.clone().is_sorted()
            && places.max().is_none_or(|last| last <= line.len())
            && self.late.iter().all(|&(_, what)| Late::of_number(what).is_some())
    }
}

impl LogLine {
    /// The line as another server completes it.
    pub(crate) fn to_text(&self) -> LineText {
        if self.used == 0 {
            return LineText::default();
        }
        let late = self.late.iter().take(usize::from(self.late_count)).map(|&(at, what)| (at, what as u8)).collect();
        // Half a million years fit.
        LineText { text: self.text[..self.used].to_vec(), late, took_us: self.took().as_micros() as u64 }
    }

    /// A line that another server has begun, and that is sound.
    pub(crate) fn of_text(line: LineText) -> Self {
        let mut late = [(0, Late::default()); LATE_MAX];
        let mut late_count = 0;
        for (place, (at, what)) in late.iter_mut().zip(line.late) {
            *place = (at, Late::of_number(what).unwrap_or_default());
            late_count += 1;
        }
        let began = Instant::now().checked_sub(Duration::from_micros(line.took_us));
        Self { used: line.text.len(), text: line.text, late, late_count, began, ..Self::default() }
    }

    pub(crate) fn clear(&mut self) {
        self.used = 0;
        self.status_at.clear();
        self.user.clear();
        self.host = None;
    }

    /// Writes everything that is known when a response begins. Without a request its head was unreadable; a status of
    /// 0 is not known yet, see [`Self::know_status`].
    pub(super) fn begin(
        &mut self,
        (options, format, clients): (&AccessLog, &Format, &mut Clients),
        request: Option<&Request<'_>>,
        peer: IpAddr,
        status: u16,
        clock: &Clock,
    ) {
        if self.text.is_empty() {
            self.text.resize(LINE_BYTES, 0);
        }
        let client = clients.of(if options.addresses { peer } else { network(peer) }, clock);
        if let (Some(clf), Some(request)) = (format.clf, request)
            && self.user.is_empty()
            && self.begin_clf(clf, client, request, status, options.queries)
        {
            return;
        }
        self.began = format.has_duration().then(Instant::now);
        loop {
            let mut room = Room::new(&mut self.text);
            let mut out = Out { room: &mut room, is_json: format.is_json, queries: options.queries };
            self.late_count = 0;
            for piece in &format.pieces {
                match piece {
                    Piece::Text(text) => out.room.some(text.bytes, usize::from(text.used)),
                    Piece::Client => out.plain(&client.text[..usize::from(client.client_bytes)]),
                    Piece::User => out.text(Some(self.user.as_bytes()).filter(|user| !user.is_empty())),
                    Piece::Time => out.room.text(&clock.log_time),
                    Piece::Rfc3339 => out.room.text(&clock.rfc3339),
                    Piece::Seconds => out.room.decimal(clock.unix_s),
                    Piece::Line => match request {
                        Some(request) => out.line(request),
                        None => out.room.byte(b'-'),
                    },
                    Piece::Method => out.text(request.map(|request| request.method_text.as_bytes())),
                    Piece::Path => out.text(request.map(|request| parts(request.target).0)),
                    Piece::Query => {
                        let query = request.map(|request| parts(request.target).1).unwrap_or_default();
                        out.escaped(if query.is_empty() || options.queries { query } else { b"?-" });
                    }
                    Piece::Target => out.quoted_address(request.map(|request| request.target.as_bytes())),
                    Piece::Protocol => match request.map(Request::version) {
                        Some([major, minor]) => {
                            let text = [b'H', b'T', b'T', b'P', b'/', major, b'.', minor];
                            out.plain(&text);
                        }
                        None => out.text(None),
                    },
                    Piece::Status => out.status(status, &mut self.status_at),
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
            // With what may be written too far.
            self.text.resize(self.used + BEGIN_BYTES, 0);
        }
    }

    /// The same for the Common and the Combined Log Format without a user, without a look at each piece; returns
    /// whether there was room for it.
    ///
    /// A loop comes out of the kernel with cold caches for each response: there few instructions count for more.
    #[inline]
    fn begin_clf(&mut self, clf: Clf, client: &Kept, request: &Request<'_>, status: u16, queries: bool) -> bool {
        if status == 0 {
            return false;
        }
        let mut room = Room::new(&mut self.text);
        let mut out = Out { room: &mut room, is_json: false, queries };
        out.room.some(client.text, usize::from(client.used));
        out.line(request);
        // Three digits.
        let [hundreds, tens, ones] = [status / 100, status / 10, status].map(|digits| b'0' + (digits % 10) as u8);
        out.room.some([b'"', b' ', hundreds, tens, ones, b' ', 0, 0], 6);
        self.late[0] = (out.room.used() as u32, Late::BodyOrDash);
        if clf == Clf::Combined {
            out.room.some(*b" \"", 2);
            out.quoted_address(request.referrer);
            out.room.some(*b"\" \"", 3);
            out.text(request.user_agent);
            out.room.byte(b'"');
        }
        room.byte(b'\n');
        (self.used, self.late_count) = (room.used(), 1);
        !room.is_short()
    }

    /// Puts the status in that was not known at the beginning; it has three digits.
    #[cold]
    pub(crate) fn know_status(&mut self, status: u16) {
        self.noted.know_status(status);
        for at in self.status_at.drain(..) {
            let digits = [status / 100, status / 10, status].map(|digits| b'0' + (digits % 10) as u8);
            if let Some(place) = self.text.get_mut(at as usize..at as usize + 3) {
                place.copy_from_slice(&digits);
            }
        }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Bytes of it so far.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// Appends the whole line.
    #[inline]
    pub(super) fn end(&self, body_bytes: u64, all_bytes: u64, out: &mut Vec<u8>) {
        let text = &self.text[..self.used];
        // So that the rest need not ask for room each time.
        out.reserve(self.used + LATE_MAX * DIGITS_MAX);
        let mut from = 0;
        for &(at, late) in self.late.iter().take(usize::from(self.late_count)) {
            let at = at as usize;
            out.extend_from_slice(&text[from..at]);
            from = at;
            let number: u64 = match late {
                Late::BodyOrDash if body_bytes == 0 => {
                    out.push(b'-');
                    continue;
                }
                Late::BodyOrDash | Late::Body => body_bytes,
                Late::All => all_bytes,
                // Half a million years fit.
                Late::Microseconds => self.took().as_micros() as u64,
                Late::Milliseconds => self.took().as_millis() as u64,
                Late::Seconds => self.took().as_secs(),
            };
            let mut digits = [0; DIGITS_MAX];
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

    fn took(&self) -> Duration {
        self.began.map(|began| began.elapsed()).unwrap_or_default()
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
    /// A status; the place of one that is not known yet is remembered. Where a line is begun again it is the same place.
    fn status(&mut self, status: u16, unknown_at: &mut Vec<u32>) {
        if status == 0 {
            unknown_at.push(self.room.used() as u32);
            return self.room.text(b"000");
        }
        self.room.decimal(u64::from(status));
    }

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

    /// The first line of a request.
    #[inline]
    fn line(&mut self, request: &Request<'_>) {
        // A token (RFC 9110, 5.6.2), which has neither quotes nor backslashes.
        match *request.method_text.as_bytes() {
            [first, second, third] => self.room.some([first, second, third, b' '], 4),
            ref other => {
                self.room.text(other);
                self.room.byte(b' ');
            }
        }
        self.address(request.target.as_bytes());
        self.room.some(*b" HTTP/", 6);
        let [major, minor] = request.version();
        self.room.some([major, b'.', minor, 0], 3);
    }

    /// A target or address, without its query unless that was asked for.
    #[inline]
    fn address(&mut self, text: &[u8]) {
        if is_plain_without_query(text) {
            return self.room.text(text);
        }
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

/// Whether that holds and there is no query, of a text of 8 to 16 bytes; nothing is said of others.
#[inline]
fn is_plain_without_query(text: &[u8]) -> bool {
    let is = |word: [u8; 8]| is_plain_word(u64::from_ne_bytes(word)) && !has_question_mark(u64::from_ne_bytes(word));
    match (text.first_chunk(), text.last_chunk()) {
        (Some(first), Some(last)) if text.len() <= 16 => is(*first) && is(*last),
        _ => false,
    }
}

/// By the means of [`is_plain_word`].
#[inline]
fn has_question_mark(word: u64) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let marks = word ^ (ONES * u64::from(b'?'));
    marks.wrapping_sub(ONES) & !marks & ONES << 7 != 0
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
    use crate::telemetry::access_log::settings::LogTarget;
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
        fn addresses_and_times_are_those_of_the_library_and_the_clock(v4: [u8; 4], v6: u128) {
            let clock = Clock::new();
            let time = String::from_utf8(clock.log_time.clone()).expect("a text");
            let mut clients = Clients::default();
            for addr in [IpAddr::from(v4), IpAddr::from(Ipv6Addr::from(v6)), IpAddr::from(v4)] {
                let kept = clients.of(addr, &clock);
                let (text, behind) = kept.text[..usize::from(kept.used)].split_at(usize::from(kept.client_bytes));
                prop_assert!(text == addr.to_string().as_bytes(), "{kept:?}");
                prop_assert!(behind == format!(" - - {time} \"").as_bytes(), "{kept:?}");
            }
        }

        #[test]
        fn the_short_way_writes_what_the_long_one_does(
            method in "[A-Z]{1,5}", target in "/[a-z?\"\\x7f]{0,40}", referrer: Option<Vec<u8>>, user_agent: Option<Vec<u8>>,
            minor in 0..4_u8, status in 100..600_u16, queries: bool, addresses: bool, is_combined: bool, body_bytes in 0..3_u64,
        ) {
            let options = AccessLog { addresses, queries, ..AccessLog::new(LogTarget::Stdout) };
            let short = if is_combined { Format::combined() } else { Format::common() };
            prop_assert!(short.clf.is_some());
            let long = Format { clf: None, ..short.clone() };
            let mut request = Request::empty();
            (request.method_text, request.target, request.minor) = (&method, &target, minor);
            (request.referrer, request.user_agent) = (referrer.as_deref(), user_agent.as_deref());
            let (clock, mut clients) = (Clock::new(), Clients::default());
            let mut written = |format: &Format| {
                let (mut line, mut out) = (LogLine::default(), Vec::new());
                let client = IpAddr::from([127, 0, 0, 1]);
                line.begin((&options, format, &mut clients), Some(&request), client, status, &clock);
                line.end(body_bytes * 65_000, 0, &mut out);
                out
            };
            let lines = [&short, &long].map(&mut written);
            prop_assert_eq!(&lines[0], &lines[1]);
            prop_assert_eq!(lines[0].iter().filter(|&&byte| byte == b'\n').count(), 1);
        }
    }

    #[test]
    fn a_line_that_is_longer_than_its_memory_is_written_whole() {
        let (options, clock, mut clients) = (AccessLog::new(LogTarget::Stdout), Clock::new(), Clients::default());
        let target = format!("/{}", "a".repeat(2 * LINE_BYTES));
        let mut request = Request::empty();
        (request.method_text, request.target) = ("GET", &target);
        let (mut line, mut out) = (LogLine::default(), Vec::new());
        for _ in 0..2 {
            line.clear();
            out.clear();
            let client = IpAddr::from([127, 0, 0, 1]);
            line.begin((&options, &Format::combined(), &mut clients), Some(&request), client, 200, &clock);
            line.end(5, 0, &mut out);
            // As much of a text as is logged.
            let target = &target[..TEXT_BYTES_MAX];
            assert!(String::from_utf8_lossy(&out).ends_with(&format!("\"GET {target} HTTP/1.0\" 200 5 \"-\" \"-\"\n")));
        }
    }
}
