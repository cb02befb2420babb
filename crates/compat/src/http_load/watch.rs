//! What http_load counts of a run, fetch by fetch.

use crate::heads::Heads;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use weir_load::{ClientRequest, Observer, Outcome};

/// Mean and extremes of a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Span {
    pub(super) count: u64,
    pub(super) sum_ns: u128,
    pub(super) max_ns: u64,
    pub(super) min_ns: u64,
}

impl Span {
    fn add(&mut self, from_ns: u64, to_ns: u64) {
        let ns = to_ns.saturating_sub(from_ns);
        self.min_ns = if self.count == 0 { ns } else { self.min_ns.min(ns) };
        self.max_ns = self.max_ns.max(ns);
        self.count += 1;
        self.sum_ns += u128::from(ns);
    }
}

/// The counts of http_load's report.
#[derive(Debug)]
pub(super) struct Counts {
    pub(super) begin_ns: u64,
    /// Fetches that end later do not count.
    deadline_ns: u64,
    pub(super) last_ns: u64,
    pub(super) started: u64,
    pub(super) fetches: u64,
    pub(super) parallel: u64,
    pub(super) parallel_max: u64,
    /// Bytes of contents, heads apart.
    pub(super) bytes: u64,
    pub(super) connect: Span,
    pub(super) first_response: Span,
    pub(super) timeouts: u64,
    /// Contents whose length (or checksum) was not that of the first fetch of the same URL.
    pub(super) bad: u64,
    /// By status code.
    pub(super) status: Box<[u64; 1000]>,
    /// Of each URL what its first whole fetch had: length or checksum.
    known: Vec<Option<u64>>,
}

/// The counts, shared by the loop and the report.
pub(super) type Shared = Arc<Mutex<Counts>>;

/// The fetch that is under way on a connection.
#[derive(Debug, Default)]
struct Fetch {
    /// The heads so far, until the last one is whole.
    heads: Heads,
    in_content: bool,
    bytes: u64,
    sum: u16,
}

/// Looks at every fetch for http_load's report.
#[derive(Debug)]
pub(super) struct Watch {
    shared: Shared,
    urls: Vec<String>,
    checksum: bool,
    limit_ns: Option<u64>,
    pending: HashMap<u64, Fetch>,
    spare: Vec<Fetch>,
}

impl Watch {
    /// `urls` by the names that their requests have in events.
    pub(super) fn new(urls: Vec<String>, checksum: bool, limit_s: Option<u64>) -> (Self, Shared) {
        let shared = Arc::new(Mutex::new(Counts {
            begin_ns: 0,
            deadline_ns: u64::MAX,
            last_ns: 0,
            started: 0,
            fetches: 0,
            parallel: 0,
            parallel_max: 0,
            bytes: 0,
            connect: Span::default(),
            first_response: Span::default(),
            timeouts: 0,
            bad: 0,
            status: Box::new([0; 1000]),
            known: vec![None; urls.len()],
        }));
        let limit_ns = limit_s.map(|seconds| seconds * 1_000_000_000);
        let (pending, spare) = (HashMap::new(), Vec::new());
        (Self { shared: Arc::clone(&shared), urls, checksum, limit_ns, pending, spare }, shared)
    }
}

impl Observer for Watch {
    fn begins(&mut self, at_ns: u64) {
        let mut counts = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        (counts.begin_ns, counts.last_ns) = (at_ns, at_ns);
        counts.deadline_ns = self.limit_ns.map_or(u64::MAX, |limit_ns| at_ns + limit_ns);
    }

    fn opens(&mut self, _connection: u64) {
        let mut counts = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        counts.started += 1;
        counts.parallel += 1;
        counts.parallel_max = counts.parallel_max.max(counts.parallel);
    }

    fn closes(&mut self, _connection: u64) {
        let mut counts = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        counts.parallel = counts.parallel.saturating_sub(1);
    }

    fn received(&mut self, connection: u64, bytes: &[u8]) {
        let spare = &mut self.spare;
        self.pending.entry(connection).or_insert_with(|| spare.pop().unwrap_or_default()).take(bytes, self.checksum);
    }

    fn request(&mut self, request: &ClientRequest) {
        let mut fetch = self.pending.remove(&request.connection).unwrap_or_default();
        let mut counts = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if request.done_ns <= counts.deadline_ns {
            self.count(&mut counts, request, &fetch);
        }
        drop(counts);
        fetch.heads.clear();
        (fetch.in_content, fetch.bytes, fetch.sum) = (false, 0, 0);
        self.spare.push(fetch);
    }
}

impl Watch {
    fn count(&self, counts: &mut Counts, request: &ClientRequest, fetch: &Fetch) {
        let at = request.name as usize;
        let url = self.urls.get(at).map_or("", String::as_str);
        counts.last_ns = counts.last_ns.max(request.done_ns);
        counts.fetches += 1;
        counts.bytes += fetch.bytes;
        if request.sent_ns > 0 {
            counts.connect.add(request.started_ns, request.sent_ns);
        }
        if request.first_byte_ns > 0 {
            counts.first_response.add(request.sent_ns, request.first_byte_ns);
        }
        match request.outcome {
            Outcome::Done => {
                if let Some(count) = counts.status.get_mut(usize::from(request.status)) {
                    *count += 1;
                }
            }
            Outcome::TimedOut | Outcome::ConnectTimedOut => {
                counts.timeouts += 1;
                eprintln!("{url}: timed out");
            }
            Outcome::Refused => eprintln!("{url}: Connection refused"),
            Outcome::Closed | Outcome::ShortBody => eprintln!("{url}: the response was cut off"),
            other => eprintln!("{url}: failed ({})", other.name()),
        }
        let whole = request.outcome == Outcome::Done;
        let value = if self.checksum { u64::from(fetch.sum) } else { fetch.bytes };
        match counts.known.get_mut(at) {
            Some(known @ None) if whole => *known = Some(value),
            Some(Some(known)) if *known != value => {
                counts.bad += 1;
                eprintln!("{url}: {} wrong", if self.checksum { "checksum" } else { "byte count" });
            }
            _ => {}
        }
    }
}

impl Fetch {
    fn take(&mut self, bytes: &[u8], checksum: bool) {
        if self.in_content {
            return self.content(bytes, checksum);
        }
        if let Some(begin) = self.heads.take(bytes) {
            self.in_content = true;
            self.content(&bytes[begin..], checksum);
        }
    }

    fn content(&mut self, bytes: &[u8], checksum: bool) {
        self.bytes += bytes.len() as u64;
        if checksum {
            self.sum = bytes.iter().fold(self.sum, |sum, byte| rotated(sum, *byte));
        }
    }
}

/// A step of the original's checksum: rotated right by a bit, then the byte added; as there, bytes have a sign.
fn rotated(sum: u16, byte: u8) -> u16 {
    sum.rotate_right(1).wrapping_add_signed(i16::from(byte.cast_signed()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(connection: u64, name: u32, outcome: Outcome) -> ClientRequest {
        ClientRequest {
            connection,
            intended_ns: 0,
            started_ns: 1_000,
            sent_ns: 3_000,
            first_byte_ns: 8_000,
            done_ns: 9_000,
            request_offset: 0,
            request_bytes: 80,
            response_offset: 0,
            response_bytes: 0,
            status: 200,
            name,
            outcome,
            opened_connection: true,
            encrypted: false,
            retried: false,
            http_version: 1,
            stream: 0,
        }
    }

    fn fetched(watch: &mut Watch, name: u32, content: &[u8]) {
        watch.opens(1);
        watch.received(1, b"HTTP/1.0 200 OK\r\nServer: x\r\n\r");
        watch.received(1, &[b"\n", content].concat());
        watch.closes(1);
        watch.request(&request(1, name, Outcome::Done));
    }

    #[test]
    fn each_url_is_compared_with_itself() {
        let urls = || vec!["http://h/a".to_owned(), "http://h/b".to_owned()];
        let (mut watch, shared) = Watch::new(urls(), false, None);
        for (name, content) in [(0, "aaaa"), (1, "bb"), (0, "cccc"), (1, "b"), (0, "aaaa")] {
            fetched(&mut watch, name, content.as_bytes());
        }
        {
            let counts = shared.lock().expect("no panic before");
            assert_eq!((counts.fetches, counts.bytes, counts.bad, counts.parallel_max), (5, 15, 1, 1));
            assert_eq!((counts.connect.sum_ns, counts.first_response.max_ns, counts.status[200]), (10_000, 5_000, 5));
        }
        let (mut watch, shared) = Watch::new(urls(), true, None);
        for content in ["aaaa", "aaab", "aaaa"] {
            fetched(&mut watch, 0, content.as_bytes());
        }
        assert_eq!(shared.lock().expect("no panic before").bad, 1);
    }

    #[test]
    fn timeouts_are_counted_and_late_fetches_are_not() {
        let (mut watch, shared) = Watch::new(vec!["http://h/".to_owned()], false, Some(1));
        watch.begins(0);
        watch.request(&request(1, 0, Outcome::TimedOut));
        watch.request(&ClientRequest { done_ns: 1_000_000_001, ..request(2, 0, Outcome::Done) });
        let counts = shared.lock().expect("no panic before");
        assert_eq!((counts.fetches, counts.timeouts, counts.status[200]), (1, 1, 0));
    }

    proptest! {
        #[test]
        fn a_checksum_is_the_same_however_the_bytes_come(content: Vec<u8>, cuts in prop::collection::vec(0usize..200, 0..8)) {
            let whole = [b"HTTP/1.0 200 OK\r\nA: b\r\n\r\n", &content[..]].concat();
            let mut fetch = Fetch::default();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(whole.len())).chain([0, whole.len()]).collect();
            cuts.sort_unstable();
            for pair in cuts.windows(2) {
                fetch.take(&whole[pair[0]..pair[1]], true);
            }
            // The original's own steps, in its type.
            let mut sum = 0i64;
            for byte in &content {
                sum = if sum & 1 == 1 { (sum >> 1) + 0x8000 } else { sum >> 1 };
                sum = (sum + i64::from(byte.cast_signed())) & 0xffff;
            }
            prop_assert_eq!((fetch.bytes, i64::from(fetch.sum)), (content.len() as u64, sum));
        }
    }
}
