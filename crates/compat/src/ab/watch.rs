//! What ab counts of a run, request by request.

use super::arguments::Arguments;
use super::samples::{Sample, Samples};
use crate::heads::Heads;
use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use weir_load::{ClientRequest, Control, Observer, Outcome, Secured};

/// What is kept of a response to be shown, in bytes.
const SHOWN_BYTES_MAX: usize = 8191;
/// After more failures than these, a connection that cannot be made ends the run.
const FAILURES_MAX: u64 = 10;

/// What ended the run before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fatal {
    /// A connection was reset, and `-r` was not given.
    Reset,
    /// Connections could not be made, more than ten times.
    NoConnection(Outcome),
}

/// The counts of ab's report.
#[derive(Debug)]
pub(super) struct Counts {
    pub(super) begin_ns: u64,
    /// Requests that end later do not count; the time limit of `-t`.
    deadline_ns: u64,
    pub(super) server: String,
    /// Bytes of the first response's content.
    pub(super) document_bytes: Option<u64>,
    pub(super) done: u64,
    pub(super) bad: u64,
    pub(super) connect_errors: u64,
    pub(super) receive_errors: u64,
    pub(super) length_errors: u64,
    pub(super) exceptions: u64,
    pub(super) not_2xx: u64,
    pub(super) kept_alive: u64,
    pub(super) read_bytes: u64,
    pub(super) content_bytes: u64,
    pub(super) posted_bytes: u64,
    /// When the last request that counts was over.
    pub(super) last_ns: u64,
    pub(super) fatal: Option<Fatal>,
    /// What the first encrypted connection agreed on.
    pub(super) tls: Option<Tls>,
    pub(super) samples: Samples,
}

/// The report's words about the encryption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tls {
    /// Version, cipher suite, bits of the certificate's key, bits of the cipher.
    pub(super) protocol: String,
    /// The key exchange's group with its bits.
    pub(super) group: Option<String>,
}

/// The counts, shared by the loop and the report.
pub(super) type Shared = Arc<Mutex<Counts>>;

/// The response that is awaited on a connection.
#[derive(Debug, Default)]
struct Response {
    /// Its first bytes.
    shown: Vec<u8>,
    heads: Heads,
    /// Bytes of the heads with their empty lines, interim ones included, once they are whole.
    head_bytes: Option<u64>,
    read_bytes: u64,
    keep_alive: bool,
}

/// Looks at every request for ab's report.
#[derive(Debug)]
pub(super) struct Watch {
    shared: Shared,
    control: Arc<Control>,
    pending: HashMap<u64, Response>,
    spare: Vec<Response>,
    limit_ns: Option<u64>,
    heartbeat: u64,
    keep_alive: bool,
    variable_length: bool,
    go_on: bool,
    strict: bool,
    verbosity: i32,
}

impl Watch {
    pub(super) fn new(arguments: &Arguments, control: Arc<Control>) -> (Self, Shared) {
        let shared = Arc::new(Mutex::new(Counts {
            begin_ns: 0,
            deadline_ns: u64::MAX,
            server: String::new(),
            document_bytes: None,
            done: 0,
            bad: 0,
            connect_errors: 0,
            receive_errors: 0,
            length_errors: 0,
            exceptions: 0,
            not_2xx: 0,
            kept_alive: 0,
            read_bytes: 0,
            content_bytes: 0,
            posted_bytes: 0,
            last_ns: 0,
            fatal: None,
            tls: None,
            samples: Samples::new(arguments.gnuplot.is_some()),
        }));
        let limit_s = u64::from(arguments.time_limit_s);
        let watch = Self {
            shared: Arc::clone(&shared),
            control,
            pending: HashMap::new(),
            spare: Vec::new(),
            limit_ns: (limit_s > 0).then_some(limit_s * 1_000_000_000),
            heartbeat: arguments.heartbeat(),
            keep_alive: arguments.keep_alive,
            variable_length: arguments.variable_length,
            go_on: arguments.go_on,
            strict: arguments.strict,
            verbosity: arguments.verbosity,
        };
        (watch, shared)
    }

    /// What a whole head tells.
    fn head_is_whole(&mut self, response: &mut Response, head_bytes: u64) {
        response.head_bytes = Some(head_bytes);
        let head = response.heads.last();
        // As the original looks for it: anywhere in the head.
        response.keep_alive = self.keep_alive && find(head, b"keep-alive").is_some();
        let mut counts = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.server.is_empty() && counts.done == 0 {
            counts.server = server_of(head);
        }
        if self.verbosity >= 2 {
            say(response, self.verbosity);
        }
    }
}

impl Observer for Watch {
    fn begins(&mut self, at_ns: u64) {
        let mut counts = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        (counts.begin_ns, counts.last_ns) = (at_ns, at_ns);
        counts.deadline_ns = self.limit_ns.map_or(u64::MAX, |limit_ns| at_ns + limit_ns);
    }

    fn secured(&mut self, session: &Secured<'_>) {
        let mut counts = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.tls.is_none() {
            let (version, cipher) = (session.version(), session.cipher());
            let (key_bits, cipher_bits) = (session.key_bits().unwrap_or(0), session.cipher_bits());
            counts.tls = Some(Tls {
                protocol: format!("{version},{cipher},{key_bits},{cipher_bits}"),
                group: session.group().map(|(name, bits)| format!("{name} {bits} bits")),
            });
        }
    }

    fn received(&mut self, connection: u64, bytes: &[u8]) {
        let spare = &mut self.spare;
        let mut response = self.pending.remove(&connection).unwrap_or_else(|| spare.pop().unwrap_or_default());
        response.read_bytes += bytes.len() as u64;
        if response.head_bytes.is_none() {
            let room = SHOWN_BYTES_MAX - response.shown.len();
            response.shown.extend_from_slice(&bytes[..bytes.len().min(room)]);
            if let Some(begin) = response.heads.take(bytes) {
                let head_bytes = response.read_bytes - (bytes.len() - begin) as u64;
                self.head_is_whole(&mut response, head_bytes);
            }
        }
        self.pending.insert(connection, response);
    }

    fn request(&mut self, request: &ClientRequest) {
        let mut response = self.pending.remove(&request.connection).unwrap_or_default();
        let mut counts = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if request.done_ns <= counts.deadline_ns && counts.fatal.is_none() {
            self.count(&mut counts, request, &response);
            if counts.fatal.is_some() {
                self.control.stop();
            }
        }
        drop(counts);
        response.shown.clear();
        response.heads.clear();
        (response.head_bytes, response.read_bytes, response.keep_alive) = (None, 0, false);
        self.spare.push(response);
    }
}

impl Watch {
    fn count(&self, counts: &mut Counts, request: &ClientRequest, response: &Response) {
        counts.last_ns = counts.last_ns.max(request.done_ns);
        counts.read_bytes += response.read_bytes;
        let content_bytes = response.head_bytes.map_or(0, |head| response.read_bytes.saturating_sub(head));
        counts.content_bytes += content_bytes;
        counts.posted_bytes += u64::from(request.request_bytes);
        let whole = request.outcome == Outcome::Done;
        if whole && (100..1000).contains(&request.status) && request.status / 100 != 2 {
            counts.not_2xx += 1;
        }
        match request.outcome {
            Outcome::ConnectFailed
            | Outcome::Refused
            | Outcome::ConnectTimedOut
            | Outcome::Proxy
            | Outcome::NoDescriptors
            | Outcome::NoPorts
            | Outcome::Tls => {
                counts.connect_errors += 1;
                counts.bad += 1;
                if counts.bad > FAILURES_MAX && !self.go_on {
                    counts.fatal = Some(Fatal::NoConnection(request.outcome));
                }
                return;
            }
            Outcome::Reset => {
                counts.receive_errors += 1;
                counts.bad += 1;
                if !self.go_on {
                    counts.fatal = Some(Fatal::Reset);
                    return;
                }
                if self.strict && !self.variable_length && counts.document_bytes != Some(content_bytes) {
                    // The original counts one such request twice.
                    counts.length_errors += 1;
                    counts.bad += 1;
                }
            }
            Outcome::Closed | Outcome::ShortBody => self.compare_length(counts, content_bytes, false),
            Outcome::Done => self.compare_length(counts, content_bytes, true),
            _ => {
                counts.exceptions += 1;
                counts.bad += 1;
            }
        }
        counts.done += 1;
        counts.kept_alive += u64::from(whole && response.keep_alive);
        let sample = sample(counts.begin_ns, request);
        counts.samples.push(sample);
        if self.heartbeat > 0 && counts.done.is_multiple_of(self.heartbeat) {
            eprintln!("Completed {} requests", counts.done);
        }
    }

    /// ab's check: every document is as long as the first one.
    fn compare_length(&self, counts: &mut Counts, content_bytes: u64, whole: bool) {
        if counts.document_bytes.is_none() && (whole || self.strict) {
            counts.document_bytes = Some(content_bytes);
        } else if (!whole && !self.strict) || !self.variable_length && counts.document_bytes != Some(content_bytes) {
            counts.length_errors += 1;
            counts.bad += 1;
        }
    }
}

/// The times of a request, each end cut to whole microseconds first, so that their differences add up.
fn sample(begin_ns: u64, request: &ClientRequest) -> Sample {
    let us =
        |from_ns: u64, to_ns: u64| u32::try_from((to_ns / 1000).saturating_sub(from_ns / 1000)).unwrap_or(u32::MAX);
    let start_ns = request.started_ns;
    let sent_ns = if request.sent_ns == 0 { request.done_ns } else { request.sent_ns };
    Sample {
        start_us: start_ns.saturating_sub(begin_ns) / 1000,
        connect_us: if request.opened_connection { us(start_ns, sent_ns) } else { 0 },
        total_us: us(start_ns, request.done_ns),
        wait_us: if request.first_byte_ns == 0 { 0 } else { us(sent_ns, request.first_byte_ns) },
    }
}

/// Where a text begins; `wanted` in lower case, upper case is found as well.
fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|part| part.eq_ignore_ascii_case(wanted))
}

/// The first word of the Server header.
fn server_of(head: &[u8]) -> String {
    let Some(at) = find(head, b"server:") else { return String::new() };
    let value = head.get(at + 8..).unwrap_or_default();
    let end = value.iter().position(|byte| *byte <= b' ').unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end.min(1023)]).into_owned()
}

/// What `-v` shows of a response.
fn say(response: &Response, verbosity: i32) {
    let mut out = std::io::stdout().lock();
    let text = response.shown.split(|byte| *byte == 0).next().unwrap_or_default();
    let status = response.heads.last().get(9..12).map(String::from_utf8_lossy).unwrap_or_default();
    // Where the reader has closed the output, the error is of no use.
    let _ = out.write_all(b"LOG: header received:\n").and_then(|()| out.write_all(text));
    let _ = out.write_all(b"\n");
    if !status.starts_with('2') {
        let _ = writeln!(out, "WARNING: Response code not 2xx ({status})");
    } else if verbosity >= 3 {
        let _ = writeln!(out, "LOG: Response code = {status}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(connection: u64, outcome: Outcome, status: u16) -> ClientRequest {
        ClientRequest {
            connection,
            intended_ns: 1_000_000,
            started_ns: 1_000_000,
            sent_ns: 1_200_900,
            first_byte_ns: 3_000_000,
            done_ns: 4_100_000,
            request_offset: 0,
            request_bytes: 80,
            response_offset: 0,
            response_bytes: 0,
            status,
            name: 0,
            outcome,
            opened_connection: true,
            encrypted: false,
            retried: false,
            http_version: 1,
            stream: 0,
        }
    }

    fn watch(change: impl Fn(&mut Arguments)) -> (Watch, Shared) {
        let mut arguments = Arguments { keep_alive: true, ..Arguments::default() };
        change(&mut arguments);
        let (mut watch, shared) = Watch::new(&arguments, Arc::default());
        watch.begins(500_000);
        (watch, shared)
    }

    fn answered(watch: &mut Watch, content: &[u8]) {
        watch.received(1, b"HTTP/1.1 200 OK\r\nServer: thing/1.2 (odd)\r\nConnection: Kee");
        watch.received(1, b"p-Alive\r\n\r\n");
        watch.received(1, content);
        watch.request(&request(1, Outcome::Done, 200));
    }

    #[test]
    fn sizes_and_times_are_those_of_the_bytes_and_the_clock() {
        let (mut watch, shared) = watch(|_| {});
        answered(&mut watch, b"hello");
        answered(&mut watch, b"hullo!");
        let counts = shared.lock().expect("no panic before");
        assert_eq!((counts.done, counts.bad, counts.length_errors, counts.kept_alive), (2, 1, 1, 2));
        assert_eq!((counts.document_bytes, counts.content_bytes), (Some(5), 11));
        assert_eq!((counts.read_bytes, counts.posted_bytes), (2 * 68 + 11, 160));
        assert_eq!(counts.server, "thing/1.2");
        let sample = sample(500_000, &request(1, Outcome::Done, 200));
        assert_eq!((sample.start_us, sample.connect_us, sample.total_us, sample.wait_us), (500, 200, 3100, 1800));
    }

    #[test]
    fn neither_an_interim_nor_a_long_head_is_content() {
        let (mut watch, shared) = watch(|_| {});
        watch.received(1, b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nServer: s\r\nX: ");
        watch.received(1, &[b'x'; 9000]);
        watch.received(1, b"\r\n\r");
        watch.received(1, b"\nhello");
        watch.request(&request(1, Outcome::Done, 200));
        let counts = shared.lock().expect("no panic before");
        assert_eq!((counts.document_bytes, counts.content_bytes, counts.bad), (Some(5), 5, 0));
        assert_eq!(counts.server, "s");
    }

    #[test]
    fn failures_go_where_the_original_puts_them() {
        let (mut watch, shared) = watch(|arguments| arguments.go_on = true);
        answered(&mut watch, b"hello");
        for outcome in [Outcome::ShortBody, Outcome::Reset, Outcome::TimedOut, Outcome::Refused] {
            watch.request(&request(2, outcome, 0));
        }
        watch.received(3, b"HTTP/1.1 404 Not Found\r\n\r\nhello");
        watch.request(&request(3, Outcome::Done, 404));
        let counts = shared.lock().expect("no panic before");
        assert_eq!(
            (counts.connect_errors, counts.receive_errors, counts.length_errors, counts.exceptions),
            (1, 1, 1, 1)
        );
        assert_eq!((counts.done, counts.bad, counts.not_2xx, counts.kept_alive), (5, 4, 1, 1));
        assert_eq!(counts.fatal, None);
    }

    #[test]
    fn a_reset_ends_the_run_unless_it_may_go_on() {
        let (mut watch, shared) = watch(|_| {});
        watch.request(&request(2, Outcome::Reset, 0));
        answered(&mut watch, b"late");
        let counts = shared.lock().expect("no panic before");
        assert_eq!((counts.fatal, counts.done), (Some(Fatal::Reset), 0));
        assert!(watch.control.is_stopped());
    }

    #[test]
    fn strict_counts_a_reset_request_twice_as_the_original_does() {
        let (mut watch, shared) = watch(|arguments| (arguments.strict, arguments.go_on) = (true, true));
        answered(&mut watch, b"hello");
        watch.request(&request(2, Outcome::Reset, 0));
        let counts = shared.lock().expect("no panic before");
        assert_eq!((counts.done, counts.bad, counts.receive_errors, counts.length_errors), (2, 2, 1, 1));
    }

    #[test]
    fn what_ends_after_the_time_limit_does_not_count() {
        let (mut watch, shared) = watch(|arguments| arguments.time_limit_s = 1);
        answered(&mut watch, b"hello");
        watch.request(&ClientRequest { done_ns: 1_000_500_001, ..request(2, Outcome::Done, 200) });
        assert_eq!(shared.lock().expect("no panic before").done, 1);
    }
}
