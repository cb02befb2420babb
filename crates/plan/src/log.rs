//! Logs, taken in: 16 bytes for each request, and each object once.

use crate::Kind;
use std::collections::HashMap;
use std::io::{self, BufRead, Read};
use weir_access_log::world_cup::{RECORD_BYTES, Record};
use weir_access_log::{Entry, LeftOut, Parts, Reason, Requests, Source, SourceError};

/// The most requests that are taken in.
pub const ENTRIES_MAX: usize = 100_000_000;
/// The most different objects.
pub const OBJECTS_MAX: usize = 8_000_000;
/// The object that stands for all that was not found, was refused or failed: it is work, but no node keeps it.
pub(crate) const NOTHING: u32 = 0;
/// For a request whose log has whole seconds only.
const NO_NANOSECOND: u32 = u32::MAX;

/// Why a log cannot be taken in.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// It cannot be read, or is damaged as a compressed file.
    #[error("it cannot be read")]
    Read(#[from] io::Error),
    /// It is no log, or of a format that is not read.
    #[error(transparent)]
    Source(SourceError),
    /// It has more than [`ENTRIES_MAX`] requests.
    #[error("the logs have more than {ENTRIES_MAX} requests; take a part of them")]
    TooManyRequests,
    /// It has more than [`OBJECTS_MAX`] different paths.
    #[error("the logs ask for more than {OBJECTS_MAX} different paths; take a part of them")]
    TooManyObjects,
}

impl From<SourceError> for LogError {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Read(error) => Self::Read(error),
            error => Self::Source(error),
        }
    }
}

/// Where the size of an object is known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SizeFrom {
    /// No response told it, such as where all were 304.
    Nothing,
    /// From parts of it (206): it is at least as large as the largest of them.
    Parts,
    /// From a whole response, or from what a part says of the whole; or nothing was to be kept, as of a redirect.
    Whole,
}

/// Something that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its path without the query; `#` and a number where the log has only that.
    pub name: Box<str>,
    /// Its sort.
    pub kind: Kind,
    /// Its size: the most bytes that a response with status 200, 203 or 206 had, or those of the whole where a part tells
    /// them; 0 where none told any.
    pub bytes: u64,
    /// Where that is known from.
    pub size_from: SizeFrom,
    /// How often it was asked for.
    pub requests: u64,
}

/// A request of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// Seconds since 1970.
    pub(crate) second: u32,
    nanosecond: u32,
    pub(crate) object: u32,
    /// Bytes of the response; what is longer than 4 GiB counts as 4 GiB.
    pub(crate) bytes: u32,
}

impl Row {
    pub(crate) fn nanosecond(&self) -> Option<u32> {
        (self.nanosecond != NO_NANOSECOND).then_some(self.nanosecond)
    }
}

/// Requests of one or several logs, in the order of their times.
#[derive(Debug, Clone, Default)]
pub struct Log {
    pub(crate) rows: Vec<Row>,
    pub(crate) objects: Vec<Object>,
    left_out: LeftOut,
    unread: Unread,
    /// How many were taken in, also those outside of the busiest stretch.
    taken_in: u64,
}

/// What could not be read of requests that were taken in, or was passed over beside them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unread {
    /// Requests without a status.
    pub statuses: u64,
    /// Requests without a size, and without a sign that there is none.
    pub sizes: u64,
    /// Requests whose parts of seconds were zero like most of the log's, so that they stand for whole seconds.
    pub apparent_parts: u64,
    /// Bytes 0 in front of lines.
    pub zeros: u64,
}

impl Log {
    /// Takes in logs, each with its name, in any of the formats that [`Source`] recognises. What cannot be read as a request
    /// is counted by its reason.
    ///
    /// # Errors
    /// [`LogError`], with the name of the log.
    pub fn read<R: Read>(logs: impl IntoIterator<Item = (String, R)>) -> Result<Self, (String, LogError)> {
        let mut intake = Intake::new();
        for (name, log) in logs {
            intake.take(&name, log).map_err(|error| (name, error))?;
        }
        Ok(intake.finish())
    }

    /// How many requests there are.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.rows.len() as u64
    }

    /// How many requests were taken in: with those outside of the [`Log::busiest`] stretch.
    #[must_use]
    pub fn taken_in(&self) -> u64 {
        self.taken_in
    }

    /// What was asked for; the first stands for all that was not found or failed.
    #[must_use]
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// Bytes of all objects, each once.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.objects.iter().map(|object| object.bytes).sum()
    }

    /// From the first second to the end of the last, seconds; 0 without a request.
    #[must_use]
    pub fn duration_s(&self) -> u64 {
        let ends = self.rows.first().zip(self.rows.last());
        ends.map_or(0, |(first, last)| u64::from(last.second - first.second) + 1)
    }

    /// Lines or records that are no requests, by reason.
    #[must_use]
    pub fn left_out(&self) -> &LeftOut {
        &self.left_out
    }

    /// What could not be read of the requests.
    #[must_use]
    pub fn unread(&self) -> Unread {
        self.unread
    }

    /// Requests that were answered with 400 or above: they are work, but nothing is kept for them.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.objects.first().map_or(0, |errors| errors.requests)
    }

    /// Objects that were asked for and whose size is not known, or known from parts only.
    #[must_use]
    pub fn objects_sized_from(&self, from: SizeFrom) -> u64 {
        let is_one = |object: &&Object| object.requests > 0 && object.size_from == from;
        self.objects.iter().skip(1).filter(is_one).count() as u64
    }

    /// The longest time without a request: the seconds around it.
    #[must_use]
    pub fn longest_gap(&self) -> Option<(u32, u32)> {
        let gaps = self.rows.windows(2).map(|two| (two[0].second, two[1].second));
        gaps.max_by_key(|(from, to)| to - from)
    }

    /// The stretch of `seconds` that has the most requests, with the objects that are asked for in it.
    #[must_use]
    pub fn busiest(self, seconds: u32) -> Self {
        let (mut from, mut best) = (0, 0..0);
        for to in 0..self.rows.len() {
            while self.rows[to].second - self.rows[from].second >= seconds.max(1) {
                from += 1;
            }
            if to + 1 - from > best.len() {
                best = from..to + 1;
            }
        }
        let mut log = self;
        log.rows.truncate(best.end);
        log.rows.drain(..best.start);
        for object in &mut log.objects {
            object.requests = 0;
        }
        for row in &log.rows {
            log.objects[row.object as usize].requests += 1;
        }
        log
    }
}

struct Intake {
    log: Log,
    places: HashMap<Box<str>, u32>,
    name: String,
}

/// What a response tells of its object.
struct Response {
    status: Option<u16>,
    /// Of the response itself.
    bytes: u64,
    /// Of the object, and where that is from.
    size: (u64, SizeFrom),
}

impl Response {
    fn of(entry: &Entry<'_>) -> Self {
        let bytes = entry.bytes.unwrap_or(0);
        let size = match (entry.status, entry.whole_bytes) {
            // A response to HEAD has no body for an object of any size (RFC 9110 9.3.2).
            (Some(200 | 203 | 206) | None, _) if entry.method == "HEAD" || entry.is_size_unread => {
                (0, SizeFrom::Nothing)
            }
            (Some(200 | 203 | 206) | None, Some(whole)) => (whole, SizeFrom::Whole),
            (Some(206), None) => (bytes, SizeFrom::Parts),
            (Some(200 | 203) | None, None) => (bytes, SizeFrom::Whole),
            // Not modified: the client has it already (RFC 9110 15.4.5).
            (Some(304), _) => (0, SizeFrom::Nothing),
            (Some(_), _) => (0, SizeFrom::Whole),
        };
        Self { status: entry.status, bytes, size }
    }
}

impl Intake {
    fn new() -> Self {
        let nothing =
            Object { name: "(errors)".into(), kind: Kind::Other, bytes: 0, size_from: SizeFrom::Whole, requests: 0 };
        Self { log: Log { objects: vec![nothing], ..Log::default() }, places: HashMap::new(), name: String::new() }
    }

    fn take(&mut self, name: &str, log: impl Read) -> Result<(), LogError> {
        name.clone_into(&mut self.name);
        match Source::open(log)? {
            Source::Lines(requests) => self.take_lines(*requests),
            Source::Records(records) => self.take_records(records),
        }
    }

    fn take_lines(&mut self, mut requests: Requests<impl BufRead>) -> Result<(), LogError> {
        let first = self.log.rows.len();
        while let Some((number, entry)) = requests.next_request()? {
            let entry = entry.and_then(|entry| match u32::try_from(entry.second) {
                Ok(second) => Ok((second, entry)),
                Err(_) => Err(Reason::Century),
            });
            match entry {
                Err(reason) => self.log.left_out.push(&self.name, number, reason),
                Ok((second, entry)) => {
                    let path = entry.target.split('?').next().unwrap_or("/");
                    let at = (second, entry.nanosecond.unwrap_or(NO_NANOSECOND));
                    self.log.unread.statuses += u64::from(entry.status.is_none());
                    self.log.unread.sizes += u64::from(entry.is_size_unread);
                    self.push(at, path, &Response::of(&entry), Kind::of_path)?;
                }
            }
        }
        self.log.unread.zeros += requests.zeros();
        self.forget_apparent_parts(first, requests.parts());
        Ok(())
    }

    /// Has requests from place `first` on no parts of seconds where these say nothing.
    fn forget_apparent_parts(&mut self, first: usize, parts: Parts) {
        if !parts.are_apparent() {
            return;
        }
        for row in &mut self.log.rows[first..] {
            if row.nanosecond != NO_NANOSECOND && parts.is_whole(row.nanosecond) {
                row.nanosecond = NO_NANOSECOND;
                self.log.unread.apparent_parts += 1;
            }
        }
    }

    fn take_records(&mut self, mut log: impl BufRead) -> Result<(), LogError> {
        let mut record = [0; RECORD_BYTES];
        for number in 1.. {
            let mut filled = 0;
            while filled < RECORD_BYTES {
                match log.read(&mut record[filled..]) {
                    Ok(0) => break,
                    Ok(count) => filled += count,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error.into()),
                }
            }
            match filled {
                0 => break,
                RECORD_BYTES => {}
                _ => {
                    self.log.left_out.push(&self.name, number, Reason::RecordCut);
                    break;
                }
            }
            let one = Record::parse(&record);
            let Some(status) = one.status_code() else {
                self.log.left_out.push(&self.name, number, Reason::RecordStatus);
                continue;
            };
            let bytes = u64::from(one.bytes.unwrap_or(0));
            let size_from = match status {
                206 => SizeFrom::Parts,
                304 => SizeFrom::Nothing,
                _ => SizeFrom::Whole,
            };
            let size = if matches!(status, 200 | 203 | 206) { (bytes, size_from) } else { (0, size_from) };
            let response = Response { status: Some(status), bytes, size };
            let name = format!("#{}", one.object);
            self.push((one.second, NO_NANOSECOND), &name, &response, |_| Kind::of_world_cup(one.kind))?;
        }
        Ok(())
    }

    fn push(
        &mut self,
        (second, nanosecond): (u32, u32),
        name: &str,
        response: &Response,
        kind: impl Fn(&str) -> Kind,
    ) -> Result<(), LogError> {
        let log = &mut self.log;
        if log.rows.len() == ENTRIES_MAX {
            return Err(LogError::TooManyRequests);
        }
        let object = match self.places.get(name) {
            _ if response.status.is_some_and(|status| status >= 400) => NOTHING,
            Some(place) => *place,
            None if log.objects.len() == OBJECTS_MAX => return Err(LogError::TooManyObjects),
            None => {
                let place = log.objects.len() as u32;
                let (name_of, kind) = (name.into(), kind(name));
                let size_from = SizeFrom::Nothing;
                log.objects.push(Object { name: name_of, kind, bytes: 0, size_from, requests: 0 });
                self.places.insert(name.into(), place);
                place
            }
        };
        let known = &mut log.objects[object as usize];
        known.requests += 1;
        if object != NOTHING {
            known.bytes = known.bytes.max(response.size.0);
            known.size_from = known.size_from.max(response.size.1);
        }
        let bytes = u32::try_from(response.bytes).unwrap_or(u32::MAX);
        log.rows.push(Row { second, nanosecond, object, bytes });
        Ok(())
    }

    /// A line is written when its response is over but has the time of its request, so the order is not exact.
    fn finish(self) -> Log {
        let mut log = self.log;
        log.taken_in = log.rows.len() as u64;
        let time = |row: &Row| (row.second, row.nanosecond);
        if !log.rows.is_sorted_by_key(time) {
            log.rows.sort_by_key(time);
        }
        log
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    const TEXT: &str = r#"::1 - - [10/Oct/2000:13:55:36 -0700] "GET /a.gif?x=1 HTTP/1.0" 200 2326
::1 - - [10/Oct/2000:13:55:38 -0700] "GET / HTTP/1.1" 200 1000
nonsense
::1 - - [10/Oct/2000:13:55:36 -0700] "GET /a.gif HTTP/1.1" 304 -
::1 - - [10/Oct/2000:13:55:39 -0700] "GET /none HTTP/1.1" 404 200
{"ts":971211340.5,"method":"GET","uri":"/a.gif","status":200,"size":2326}
"#;

    fn read(bytes: &[u8]) -> Log {
        Log::read([("a.log".to_owned(), bytes)]).expect("it can be read")
    }

    #[test]
    fn a_log_is_objects_and_rows() {
        let log = read(TEXT.as_bytes());
        let objects: Vec<_> = log.objects().iter().map(|one| (&*one.name, one.kind, one.bytes, one.requests)).collect();
        assert_eq!(
            objects,
            [("(errors)", Kind::Other, 0, 1), ("/a.gif", Kind::Image, 2326, 3), ("/", Kind::Html, 1000, 1)]
        );
        assert_eq!((log.requests(), log.duration_s(), log.left_out().count(), log.bytes()), (5, 5, 1, 3326));
        assert_eq!(log.left_out().first(), [("a.log".to_owned(), 3, Reason::Form)]);
        let bytes: Vec<_> = log.rows.iter().map(|row| (row.bytes, row.nanosecond())).collect();
        assert_eq!(bytes, [(2326, None), (0, None), (1000, None), (200, None), (2326, Some(500_000_000))]);
        let busiest = log.busiest(1);
        assert_eq!((busiest.requests(), busiest.objects()[1].requests, busiest.objects()[2].requests), (2, 2, 0));
    }

    #[test]
    fn compressed_logs_and_records_are_read() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(TEXT.as_bytes()).expect("memory");
        let gzip = gzip.finish().expect("memory");
        // Logs that are rotated are often joined.
        assert_eq!(read(&[&gzip[..], &gzip].concat()).requests(), 10);
        assert!(Log::read([("cut.gz".to_owned(), &gzip[..gzip.len() / 2])]).is_err_and(|(name, _)| name == "cut.gz"));
        let record =
            |second: u8, status: u8| [0x35, 0x4a, 0, second, 0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0x10, 0, 0, status, 1, 0];
        let log = read(&[&record(2, 0x42)[..], &record(1, 0x4d), &record(3, 63), &[1, 2, 3]].concat());
        assert_eq!((log.requests(), log.left_out().count(), log.bytes(), log.duration_s()), (2, 2, 4096, 2));
        assert_eq!((&*log.objects()[1].name, log.objects()[1].kind), ("#7", Kind::Image));
        assert_eq!(log.left_out().first().iter().map(|(_, at, _)| *at).collect::<Vec<_>>(), [3, 4]);
    }

    fn line(time: &str, path: &str, tail: &str) -> String {
        format!("::1 - - [{time}] \"GET {path} HTTP/1.1\" {tail}\n")
    }

    const WHOLE: &str = "10/Oct/2000:13:55:36 -0700";

    #[test]
    fn a_size_is_that_of_the_whole_or_of_the_largest_part() {
        let log = read(
            [
                line(WHOLE, "/part", "206 5"),
                line(WHOLE, "/part", "206 9"),
                line(WHOLE, "/both", "206 9"),
                line(WHOLE, "/both", "200 70"),
                line(WHOLE, "/known", "304 -"),
                line(WHOLE, "/moved", "301 162"),
                line(WHOLE, "/empty", "200 -"),
                line(WHOLE, "/head", "200 0").replace("GET", "HEAD"),
                line(WHOLE, "/none", "200 \"-\""),
                line(WHOLE, "/error", "404 5"),
            ]
            .concat()
            .as_bytes(),
        );
        let of = |name: &str| {
            let object = log.objects().iter().find(|object| &*object.name == name).expect(name);
            (object.bytes, object.size_from)
        };
        assert_eq!((of("/part"), of("/both")), ((9, SizeFrom::Parts), (70, SizeFrom::Whole)));
        assert_eq!((of("/known"), of("/head")), ((0, SizeFrom::Nothing), (0, SizeFrom::Nothing)));
        assert_eq!((of("/moved"), of("/empty")), ((0, SizeFrom::Whole), (0, SizeFrom::Whole)));
        assert_eq!((of("/none"), log.unread().sizes, log.errors()), ((0, SizeFrom::Nothing), 1, 1));
        assert_eq!((log.objects_sized_from(SizeFrom::Nothing), log.objects_sized_from(SizeFrom::Parts)), (3, 1));
    }

    #[test]
    fn milliseconds_that_are_all_zero_are_whole_seconds() {
        let zero = line("2000-10-10T20:55:36.000Z", "/", "200 5");
        let log = read(zero.repeat(3).as_bytes());
        assert!(log.rows.iter().all(|row| row.nanosecond().is_none()));
        assert_eq!(log.unread().apparent_parts, 3);
        // Each log for itself.
        let exact = line("2000-10-10T20:55:36.250Z", "/", "200 5");
        let both = Log::read([("a", &zero), ("b", &exact)].map(|(name, log)| (name.to_owned(), log.as_bytes())));
        let log = both.expect("they can be read");
        let mut parts: Vec<_> = log.rows.iter().map(Row::nanosecond).collect();
        parts.sort_unstable();
        assert_eq!((parts, log.unread().apparent_parts), (vec![None, Some(250_000_000)], 1));
    }

    #[test]
    fn a_gap_and_zeros_in_front_are_known() {
        let text = [line(WHOLE, "/", "200 5"), line("10/Oct/2000:13:55:39 -0700", "/", "- -")].concat();
        let log = read(&[&[0; 9000], text.as_bytes()].concat());
        assert_eq!((log.requests(), log.unread().zeros, log.unread().statuses), (2, 9000, 1));
        assert_eq!(log.longest_gap(), Some((971_211_336, 971_211_339)));
        assert_eq!(read(b"").longest_gap(), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_in_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..400), gzip: bool, text: bool) {
            if text {
                bytes.splice(0..0, TEXT.bytes());
            }
            if gzip {
                bytes.splice(0..0, [0x1f, 0x8b, 8]);
            }
            let Ok(log) = Log::read([(String::new(), &bytes[..])]) else { return Ok(()) };
            prop_assert!(log.rows.is_sorted_by_key(|row| row.second));
            prop_assert_eq!(log.objects().iter().map(|object| object.requests).sum::<u64>(), log.requests());
            prop_assert!(log.left_out().first().len() as u64 <= log.left_out().count());
            if !gzip {
                // What is no request of a text is counted, but for empty lines.
                let ends = bytes.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count() as u64;
                prop_assert!(log.requests() + log.left_out().count() <= ends + 1);
            }
        }
    }
}
