//! Logs, taken in: 16 bytes for each request, and each object once.

use crate::Kind;
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read};
use weir_access_log::world_cup::{RECORD_BYTES, Record};
use weir_access_log::{Entry, Lines};

/// The most requests that are taken in.
pub const ENTRIES_MAX: usize = 100_000_000;
/// The most different objects.
pub const OBJECTS_MAX: usize = 8_000_000;
/// How many of the lines that cannot be read are told of.
pub const TOLD_MAX: usize = 5;
/// The object that stands for whatever was not found, refused or failed: it is work, but no node keeps it.
pub(crate) const NOTHING: u32 = 0;
/// For a request whose log has whole seconds only.
const NO_NANOSECOND: u32 = u32::MAX;

/// Why a log cannot be taken in.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// It cannot be read, or is damaged as a compressed file.
    #[error("it cannot be read")]
    Read(#[from] io::Error),
    /// It has more than [`ENTRIES_MAX`] requests.
    #[error("the logs have more than {ENTRIES_MAX} requests; take a part of them")]
    TooManyRequests,
    /// It has more than [`OBJECTS_MAX`] different paths.
    #[error("the logs ask for more than {OBJECTS_MAX} different paths; take a part of them")]
    TooManyObjects,
}

/// Something that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its path without the query; `#` and a number where the log has only that.
    pub name: Box<str>,
    /// Its sort.
    pub kind: Kind,
    /// Its size: the most bytes that a response with status 200 had, 0 where there was none.
    pub bytes: u64,
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
    malformed: u64,
    told: Vec<(String, u64, &'static str)>,
}

impl Log {
    /// Takes in logs, each with its name, in any of the formats: Common, Combined, JSON, the World Cup's records; each also
    /// compressed by gzip. What cannot be read as a request is counted.
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

    /// Lines or records that are no requests.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// The first of them: log, line or record from 1, and what is wrong with it.
    #[must_use]
    pub fn told(&self) -> &[(String, u64, &'static str)] {
        &self.told
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

impl Intake {
    fn new() -> Self {
        let nothing = Object { name: "(errors)".into(), kind: Kind::Other, bytes: 0, requests: 0 };
        Self { log: Log { objects: vec![nothing], ..Log::default() }, places: HashMap::new(), name: String::new() }
    }

    fn take(&mut self, name: &str, log: impl Read) -> Result<(), LogError> {
        name.clone_into(&mut self.name);
        let mut log = BufReader::with_capacity(1 << 16, log);
        if log.fill_buf()?.starts_with(&[0x1f, 0x8b]) {
            let log = flate2::bufread::MultiGzDecoder::new(log);
            return self.take_plain(BufReader::with_capacity(1 << 16, log));
        }
        self.take_plain(log)
    }

    fn take_plain(&mut self, mut log: impl BufRead) -> Result<(), LogError> {
        if Record::begins(log.fill_buf()?) { self.take_records(log) } else { self.take_lines(log) }
    }

    fn take_lines(&mut self, log: impl BufRead) -> Result<(), LogError> {
        let mut lines = Lines::new(log);
        while let Some((number, line)) = lines.next_line()? {
            match line.and_then(Entry::parse) {
                Err(problem) => self.malformed(number, problem),
                Ok(entry) => match u32::try_from(entry.second) {
                    Err(_) => self.malformed(number, "its time lies before 1970 or after 2105"),
                    Ok(second) => {
                        let path = entry.target.split('?').next().unwrap_or("/");
                        let at = (second, entry.nanosecond.unwrap_or(NO_NANOSECOND));
                        self.push(at, path, entry.status, entry.bytes.unwrap_or(0), Kind::of_path)?;
                    }
                },
            }
        }
        Ok(())
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
                    self.malformed(number, "it is cut");
                    break;
                }
            }
            let one = Record::parse(&record);
            let Some(status) = one.status_code() else {
                self.malformed(number, "its status has no such number");
                continue;
            };
            let (name, bytes) = (format!("#{}", one.object), u64::from(one.bytes.unwrap_or(0)));
            self.push((one.second, NO_NANOSECOND), &name, Some(status), bytes, |_| Kind::of_world_cup(one.kind))?;
        }
        Ok(())
    }

    fn push(
        &mut self,
        (second, nanosecond): (u32, u32),
        name: &str,
        status: Option<u16>,
        bytes: u64,
        kind: impl Fn(&str) -> Kind,
    ) -> Result<(), LogError> {
        let log = &mut self.log;
        if log.rows.len() == ENTRIES_MAX {
            return Err(LogError::TooManyRequests);
        }
        let object = match self.places.get(name) {
            _ if status.is_some_and(|status| status >= 400) => NOTHING,
            Some(place) => *place,
            None if log.objects.len() == OBJECTS_MAX => return Err(LogError::TooManyObjects),
            None => {
                let place = log.objects.len() as u32;
                log.objects.push(Object { name: name.into(), kind: kind(name), bytes: 0, requests: 0 });
                self.places.insert(name.into(), place);
                place
            }
        };
        let known = &mut log.objects[object as usize];
        known.requests += 1;
        if object != NOTHING && status.is_none_or(|status| status == 200) {
            known.bytes = known.bytes.max(bytes);
        }
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        log.rows.push(Row { second, nanosecond, object, bytes });
        Ok(())
    }

    fn malformed(&mut self, number: u64, problem: &'static str) {
        self.log.malformed += 1;
        if self.log.told.len() < TOLD_MAX {
            self.log.told.push((self.name.clone(), number, problem));
        }
    }

    /// A line is written when its response is over but has the time of its request, so the order is not exact.
    fn finish(self) -> Log {
        let mut log = self.log;
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
        assert_eq!((log.requests(), log.duration_s(), log.malformed(), log.bytes()), (5, 5, 1, 3326));
        assert_eq!(log.told()[0].0, "a.log");
        assert_eq!(log.told()[0].1, 3);
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
        assert_eq!((log.requests(), log.malformed(), log.bytes(), log.duration_s()), (2, 2, 4096, 2));
        assert_eq!((&*log.objects()[1].name, log.objects()[1].kind), ("#7", Kind::Image));
        assert_eq!(log.told().iter().map(|(_, at, _)| *at).collect::<Vec<_>>(), [3, 4]);
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
            prop_assert!(log.told().len() as u64 <= log.malformed());
        }
    }
}
