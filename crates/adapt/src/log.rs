//! Recorded readings: a line of JSON for each thing that an engine was told, so that it can be told again.
//!
//! The first line is a [`Header`]; each further one an [`Entry`], or the header of another part, which begins afresh:
//!
//! ```text
//! {"format":"weir-readings","version":1,"here":"n1","tick_ms":1000,"valid_ms":3000}
//! {"at_ms":1000,"read":"cpu","node":"n1","value":"93%"}
//! {"at_ms":1000,"read":"rate","atom":"/news/a.html","value":"620rps","valid_ms":5000}
//! {"at_ms":1200,"begin":17,"atom":"/v/film"}
//! {"at_ms":1200,"read":"bandwidth","session":17,"value":"64kbps"}
//! {"at_ms":1200,"start":17}
//! {"at_ms":1300,"look":17}
//! {"at_ms":9000,"end":17}
//! {"at_ms":9000,"read":"rate","client":"192.0.2.7","value":"90rps"}
//! {"at_ms":9100,"begin":18,"atom":"/v/film","client":"192.0.2.7"}
//! {"at_ms":9400,"gone":"192.0.2.7"}
//! {"at_ms":9000,"read":"rate","unit":"rps","node":"n1","season":{...}}
//! {"at_ms":9400,"gone":"atom","atom":"/news/a.html"}
//! {"at_ms":9500,"down":"n2"}
//! {"at_ms":9700,"up":"n2"}
//! {"at_ms":10000,"passed":38,"atom":"/v/film","bandwidth":"900kbps"}
//! {"at_ms":10000,"tick":true}
//! {"at_ms":10000,"decided":{"number":1,...}}
//! {"at_ms":11000,"lost":12}
//! {"format":"weir-readings","version":1,"here":"n1","valid_ms":3000}
//! {"at_ms":70000,"tick":true}
//! ```
//!
//! What was decided, and how many lines there was no room for, stand there to be compared with; an engine is not told.

mod error;

pub use error::{EntryError, HeaderError, JsonError};

use crate::decision::Decision;
use crate::forecast::HoltWinters;
use crate::language::value_with_unit;
use crate::reading::Resource;
use serde::{Deserialize, Serialize};

/// Sessions that one line can stand for.
pub const PASSED_MAX: u32 = 1000;
/// Bytes of a line at most.
pub const LINE_BYTES_MAX: usize = 8192;
/// Times are below this, some 8,900 years of milliseconds.
const AT_MS_END: u64 = 1 << 48;
const FORMAT: &str = "weir-readings";
/// What is gone where it is no client: no address is this.
const GONE_ATOM: &str = "atom";

/// What holds for a part of a recording: from its line up to that of the next one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// `weir-readings`.
    pub format: String,
    /// 1.
    pub version: u32,
    /// The node at which it was recorded: what `@here` means.
    pub here: String,
    /// With it there is a tick each so many milliseconds from the first entry on; without it, where the file has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick_ms: Option<u64>,
    /// How long readings hold that do not say so themselves, in milliseconds.
    pub valid_ms: u64,
    /// Which rules were at work when it was recorded ([`crate::Policy::mark`]), if any were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<String>,
    /// It goes on with the part before it, of which it is the rest in another file, and nothing begins afresh.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub continues: bool,
    /// How its times stand to the host's clock, if the recorder knew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockPair>,
}

/// One moment by the recording's times and by the clock that the host's events are told in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockPair {
    /// Which start of which host: the kernel's id of the boot.
    pub boot_id: String,
    /// The moment by the recording.
    pub at_ms: u64,
    /// The same by CLOCK_MONOTONIC, nanoseconds.
    pub monotonic_ns: u64,
}

impl ClockPair {
    /// A time of the recording by CLOCK_MONOTONIC, nanoseconds; `None` where the host had not started by then.
    pub fn monotonic_ns(&self, at_ms: u64) -> Option<u64> {
        let since_ms = i128::from(at_ms) - i128::from(self.at_ms);
        u64::try_from(i128::from(self.monotonic_ns) + since_ms * 1_000_000).ok()
    }
}

/// Something that an engine was told.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// When: of a reading, when it was measured.
    pub at_ms: u64,
    /// What.
    pub what: Recorded,
}

/// What an engine can be told.
#[derive(Debug, Clone, PartialEq)]
pub enum Recorded {
    /// A reading.
    Reading {
        /// What was measured.
        resource: Resource,
        /// Whose it is.
        of: Owner,
        /// The value, in the unit of the resource.
        value: f64,
        /// How long it holds; `None` = as the header says.
        valid_ms: Option<u64>,
    },
    /// What repeats in readings that were told to the rules before these.
    Season {
        /// What was measured.
        resource: Resource,
        /// Whose it is.
        of: Owner,
        /// As it was taken over.
        season: Box<HoltWinters>,
    },
    /// A session begins.
    Begin {
        /// Its number.
        session: u64,
        /// The path of its atom.
        atom: String,
        /// The name of its client, where rules ask for readings of clients and it has some.
        client: Option<String>,
    },
    /// It is to be decided for a session that has begun. Without it, the next tick decides first.
    Start {
        /// Its number.
        session: u64,
    },
    /// A reading of a session's link came, and its rules are looked at before the next tick.
    Look {
        /// Its number.
        session: u64,
    },
    /// A session is over.
    End {
        /// Its number.
        session: u64,
    },
    /// A client is forgotten, and begins anew if it comes again.
    Gone {
        /// Its name.
        client: String,
    },
    /// An atom is forgotten, and begins anew if it is asked for again.
    GoneAtom {
        /// Its path.
        atom: String,
    },
    /// So many sessions began and ended alike since the last tick, and nothing was decided for the first of them.
    Passed {
        /// How many, from 1 to [`PASSED_MAX`].
        sessions: u32,
        /// The path of their atom.
        atom: String,
        /// What was known of their links.
        bandwidth_bps: Option<f64>,
        /// See above.
        rtt_s: Option<f64>,
    },
    /// A node can be used, or cannot.
    Node {
        /// Its name.
        name: String,
        /// Whether it can.
        up: bool,
    },
    /// A tick.
    Tick,
    /// What was decided when this was recorded.
    Decided(Box<Decision>),
    /// Lines that could not be written before this one.
    Lost {
        /// How many.
        lines: u64,
    },
}

/// The subject of a recorded reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// A node's, by its name.
    Node(String),
    /// An atom's, by its path.
    Atom(String),
    /// A session's, by its number.
    Session(u64),
    /// A client's, by its name.
    Client(String),
}

/// A line as it is written.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    at_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    read: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    begin: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    look: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gone: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    down: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    up: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tick: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    decided: Option<Box<Decision>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lost: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    passed: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    atom: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bandwidth: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rtt: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    valid_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    season: Option<Box<HoltWinters>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
}

impl Header {
    /// Of a recording at a node that has ticks of its own.
    pub fn new(here: &str, valid_ms: u64) -> Self {
        let (format, here) = (FORMAT.to_owned(), here.to_owned());
        Self { format, version: 1, here, tick_ms: None, valid_ms, rules: None, continues: false, clock: None }
    }

    /// The line that says it, without an end of line.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("numbers and texts have a form in JSON")
    }
}

/// What every header begins with, as it is written here.
pub const HEADER_BEGINS: &str = "{\"format\":\"weir-readings\"";

/// Whether a line is a header: an entry has no such field.
pub fn is_header(line: &str) -> bool {
    line.trim_start().starts_with("{\"format\":")
}

/// Whether a line breaks off in the middle, as the last one does where the disk was full or who wrote was killed.
pub fn is_cut(line: &[u8]) -> bool {
    let is_half = serde_json::from_slice::<serde::de::IgnoredAny>(line).is_err_and(|error| error.is_eof());
    is_half || std::str::from_utf8(line).is_err_and(|error| error.error_len().is_none())
}

/// Reads the line of a header.
///
/// # Errors
/// What is wrong with it.
pub fn parse_header(line: &str) -> Result<Header, HeaderError> {
    let header: Header = from_json(line).map_err(HeaderError::Json)?;
    if header.format != FORMAT || header.version != 1 {
        return Err(HeaderError::Format { format: header.format, version: header.version, known: FORMAT });
    }
    if header.tick_ms.is_some_and(|tick_ms| tick_ms == 0 || tick_ms >= AT_MS_END) || header.valid_ms >= AT_MS_END {
        return Err(HeaderError::Times);
    }
    Ok(header)
}

fn from_json<T: for<'d> Deserialize<'d>>(line: &str) -> Result<T, JsonError> {
    if line.len() > LINE_BYTES_MAX {
        return Err(JsonError::TooLong { most: LINE_BYTES_MAX });
    }
    serde_json::from_str(line).map_err(|error| {
        if error.is_eof() {
            return JsonError::Cut;
        }
        // The place that it tells is one within this line, and would be taken for one of the file.
        let text = error.to_string();
        let end = text.rfind(" at line ").unwrap_or(text.len());
        JsonError::Form(text[..end].to_owned())
    })
}

/// Reads a further line.
///
/// # Errors
/// What is wrong with it.
pub fn parse_entry(line: &str) -> Result<Entry, EntryError> {
    let mut line: Line = from_json(line)?;
    let at_ms = line.at_ms;
    if at_ms >= AT_MS_END || line.valid_ms.is_some_and(|valid_ms| valid_ms >= AT_MS_END) {
        return Err(EntryError::Time);
    }
    let what = match (line.decided.take(), line.lost.take(), line.look.take()) {
        (Some(_), Some(_), _) => return Err(EntryError::DecidedAndLost),
        (Some(decision), None, None) => alone(&line, Recorded::Decided(decision), EntryError::DecidedOrLostAndMore)?,
        (None, Some(lines), None) => alone(&line, Recorded::Lost { lines }, EntryError::DecidedOrLostAndMore)?,
        (Some(_), None, Some(_)) | (None, Some(_), Some(_)) => return Err(EntryError::DecidedOrLostAndMore),
        (None, None, Some(session)) => alone(&line, Recorded::Look { session }, EntryError::LookAndMore)?,
        (None, None, None) if line.passed.is_some() => passed(line)?,
        (None, None, None) if line.bandwidth.is_some() || line.rtt.is_some() => return Err(EntryError::LinkAlone),
        (None, None, None) => match line.read.take() {
            Some(word) => reading(&word, line)?,
            None => event(line)?,
        },
    };
    Ok(Entry { at_ms, what })
}

/// What a line tells, if nothing else is left in it.
fn alone(line: &Line, what: Recorded, otherwise: EntryError) -> Result<Recorded, EntryError> {
    if *line == (Line { at_ms: line.at_ms, ..Line::default() }) { Ok(what) } else { Err(otherwise) }
}

/// A reading of a resource by this word, or what repeats in its readings.
fn reading(word: &str, line: Line) -> Result<Recorded, EntryError> {
    let Line { begin: None, start: None, end: None, gone: None, down: None, up: None, tick: None, .. } = line else {
        return Err(EntryError::Kinds);
    };
    let of = match (line.node, line.atom, line.session, line.client) {
        (Some(node), None, None, None) => Owner::Node(node),
        (None, Some(atom), None, None) => Owner::Atom(atom),
        (None, None, Some(session), None) => Owner::Session(session),
        (None, None, None, Some(client)) => Owner::Client(client),
        _ => return Err(EntryError::Owner),
    };
    if let Some(season) = line.season {
        let is_meant =
            |resource: &Resource| resource.name() == word && Some(resource.dimension().unit()) == line.unit.as_deref();
        return match (line.value, Resource::ALL.into_iter().find(is_meant)) {
            (None, Some(resource)) if season.is_sound() => Ok(Recorded::Season { resource, of, season }),
            _ => Err(EntryError::Season),
        };
    }
    let (resource, value) = measured(word, &line.value.ok_or(EntryError::NoValue)?)?;
    Ok(Recorded::Reading { resource, of, value, valid_ms: line.valid_ms })
}

/// Something that happened to a session, a client, an atom or a node, or a tick.
fn event(line: Line) -> Result<Recorded, EntryError> {
    let Line { node: None, session: None, value: None, valid_ms: None, season: None, unit: None, .. } = line else {
        return Err(EntryError::Kinds);
    };
    let Line { begin, start, end, gone, down, up, tick, atom, client, .. } = line;
    Ok(match (begin, start, end, gone, down, up, tick, (atom, client)) {
        (Some(session), None, None, None, None, None, None, (Some(atom), client)) => {
            Recorded::Begin { session, atom, client }
        }
        (None, Some(session), None, None, None, None, None, (None, None)) => Recorded::Start { session },
        (None, None, Some(session), None, None, None, None, (None, None)) => Recorded::End { session },
        (None, None, None, Some(client), None, None, None, (None, None)) => Recorded::Gone { client },
        (None, None, None, Some(gone), None, None, None, (Some(atom), None)) if gone == GONE_ATOM => {
            Recorded::GoneAtom { atom }
        }
        (None, None, None, None, Some(name), None, None, (None, None)) => Recorded::Node { name, up: false },
        (None, None, None, None, None, Some(name), None, (None, None)) => Recorded::Node { name, up: true },
        (None, None, None, None, None, None, Some(true), (None, None)) => Recorded::Tick,
        _ => return Err(EntryError::Kind),
    })
}

/// What was measured, and its value.
fn measured(word: &str, value: &str) -> Result<(Resource, f64), EntryError> {
    let (value, dimension) = value_with_unit(value).ok_or_else(|| EntryError::Value(value.to_owned()))?;
    let unknown = || EntryError::Resource { word: word.to_owned(), unit: dimension.unit() };
    Ok((Resource::of(word, dimension).ok_or_else(unknown)?, value))
}

/// Sessions of a line.
fn passed(mut line: Line) -> Result<Recorded, EntryError> {
    let known = |resource: Resource, value: Option<String>| {
        value.map(|value| measured(resource.name(), &value).map(|(_, value)| value)).transpose()
    };
    let bandwidth_bps = known(Resource::Bandwidth, line.bandwidth.take())?;
    let rtt_s = known(Resource::Rtt, line.rtt.take())?;
    match (line.passed.take(), line.atom.take()) {
        _ if line != (Line { at_ms: line.at_ms, ..Line::default() }) => Err(EntryError::PassedAndMore),
        (Some(sessions), Some(atom)) if (1..=PASSED_MAX).contains(&sessions) => {
            Ok(Recorded::Passed { sessions, atom, bandwidth_bps, rtt_s })
        }
        _ => Err(EntryError::Passed { most: PASSED_MAX }),
    }
}

impl Line {
    fn is_of(&mut self, owner: &Owner) {
        match owner {
            Owner::Node(name) => self.node = Some(name.clone()),
            Owner::Atom(path) => self.atom = Some(path.clone()),
            Owner::Session(number) => self.session = Some(*number),
            Owner::Client(name) => self.client = Some(name.clone()),
        }
    }
}

impl Entry {
    /// The line that says it, without an end of line; read again it is the same to the last bit.
    pub fn to_line(&self) -> String {
        let at_ms = self.at_ms;
        let in_unit = |resource: Resource, value: f64| format!("{value}{}", resource.dimension().unit());
        let mut line = Line { at_ms, ..Line::default() };
        match &self.what {
            // Three of nearly all lines: numbers need no care.
            Recorded::Start { session } => return format!("{{\"at_ms\":{at_ms},\"start\":{session}}}"),
            Recorded::Look { session } => return format!("{{\"at_ms\":{at_ms},\"look\":{session}}}"),
            Recorded::End { session } => return format!("{{\"at_ms\":{at_ms},\"end\":{session}}}"),
            Recorded::Reading { resource, of, value, valid_ms } => {
                line.read = Some(resource.name().to_owned());
                line.value = Some(in_unit(*resource, *value));
                line.valid_ms = *valid_ms;
                line.is_of(of);
            }
            Recorded::Season { resource, of, season } => {
                line.read = Some(resource.name().to_owned());
                line.unit = Some(resource.dimension().unit().to_owned());
                line.season = Some(season.clone());
                line.is_of(of);
            }
            Recorded::Begin { session, atom, client } => {
                (line.begin, line.atom, line.client) = (Some(*session), Some(atom.clone()), client.clone());
            }
            Recorded::Gone { client } => line.gone = Some(client.clone()),
            Recorded::GoneAtom { atom } => {
                (line.gone, line.atom) = (Some(GONE_ATOM.to_owned()), Some(atom.clone()));
            }
            Recorded::Passed { sessions, atom, bandwidth_bps, rtt_s } => {
                (line.passed, line.atom) = (Some(*sessions), Some(atom.clone()));
                line.bandwidth = bandwidth_bps.map(|value| in_unit(Resource::Bandwidth, value));
                line.rtt = rtt_s.map(|value| in_unit(Resource::Rtt, value));
            }
            Recorded::Node { name, up: true } => line.up = Some(name.clone()),
            Recorded::Node { name, up: false } => line.down = Some(name.clone()),
            Recorded::Tick => line.tick = Some(true),
            Recorded::Decided(decision) => line.decided = Some(decision.clone()),
            Recorded::Lost { lines } => line.lost = Some(*lines),
        }
        serde_json::to_string(&line).expect("numbers and texts have a form in JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_it_was_made_of() {
        for text in [
            r#"{"at_ms":1000,"read":"cpu","node":"n1","value":"93.1%"}"#,
            r#"{"at_ms":1000,"read":"rate","atom":"/a","value":"620rps","valid_ms":5000}"#,
            r#"{"at_ms":1,"read":"mem","node":"n1","value":"5000B"}"#,
            r#"{"at_ms":1,"begin":17,"atom":"/v"}"#,
            r#"{"at_ms":1,"begin":17,"atom":"/v","client":"2001:db8::/64"}"#,
            r#"{"at_ms":1,"read":"rate","client":"192.0.2.7","value":"90.5rps"}"#,
            r#"{"at_ms":1,"gone":"192.0.2.7"}"#,
            r#"{"at_ms":1,"gone":"atom","atom":"/a"}"#,
            r#"{"at_ms":1,"start":17}"#,
            r#"{"at_ms":1,"look":17}"#,
            r#"{"at_ms":1,"end":17}"#,
            r#"{"at_ms":1,"down":"n2"}"#,
            r#"{"at_ms":1,"up":"n2"}"#,
            r#"{"at_ms":1,"tick":true}"#,
            r#"{"at_ms":1,"passed":1,"atom":"/v"}"#,
            r#"{"at_ms":1,"passed":1000,"atom":"/v","bandwidth":"900000.25bps","rtt":"0.0123s"}"#,
            r#"{"at_ms":1,"lost":3}"#,
            r#"{"at_ms":1,"decided":{"number":1,"at_ms":1,"rule":"a","file":"f","line":2,"subject":{"atoms":"/**"},"outcome":{"kind":"fired"},"orders":[{"do":"shed","percent":5.0}]}}"#,
        ] {
            assert_eq!(parse_entry(text).expect(text).to_line(), text);
        }
        let short = parse_entry(r#"{"at_ms":1,"read":"mem","node":"n","value":"5kB"}"#).expect("well-formed");
        assert!(matches!(short.what, Recorded::Reading { resource: Resource::Mem, value: 5000.0, .. }));
    }

    #[test]
    fn what_is_no_line_is_refused_in_words() {
        for (text, word) in [
            ("", "it ends in the middle"),
            (r#"{"at_ms":1,"ti"#, "it ends in the middle"),
            (r#"{"at_ms":1}"#, "a line is one of"),
            (r#"{"at_ms":1,"tick":false}"#, "a line is one of"),
            (r#"{"at_ms":1,"tick":true,"end":5}"#, "a line is one of"),
            (r#"{"at_ms":1,"read":"cpu","node":"n","value":"5"}"#, "no value"),
            (r#"{"at_ms":1,"read":"cpu","node":"n","value":"-5%"}"#, "no value"),
            (r#"{"at_ms":1,"read":"cpu","node":"n","value":"5ms"}"#, "not measured"),
            (r#"{"at_ms":1,"read":"cpu","value":"5%"}"#, "one of node, atom, session and client"),
            (r#"{"at_ms":1,"read":"rate","client":"a","session":1,"value":"5rps"}"#, "one of node, atom, session"),
            (r#"{"at_ms":1,"end":5,"client":"a"}"#, "a line is one of"),
            (r#"{"at_ms":1,"gone":"a","client":"a"}"#, "a line is one of"),
            (r#"{"at_ms":1,"gone":"a","atom":"/a"}"#, "a line is one of"),
            (r#"{"at_ms":1,"read":"cpu","node":"n"}"#, "no value"),
            (r#"{"at_ms":999999999999999,"tick":true}"#, "too large"),
            (r#"{"at_ms":1,"tock":true}"#, "unknown field"),
            (r#"{"at_ms":1,"lost":3,"tick":true}"#, "stand alone"),
            (r#"{"at_ms":1,"look":3,"atom":"/v"}"#, "look stands alone"),
            (r#"{"at_ms":1,"passed":3}"#, "from 1 to 1000"),
            (r#"{"at_ms":1,"passed":0,"atom":"/v"}"#, "from 1 to 1000"),
            (r#"{"at_ms":1,"passed":1001,"atom":"/v"}"#, "from 1 to 1000"),
            (r#"{"at_ms":1,"passed":3,"atom":"/v","end":5}"#, "alone"),
            (r#"{"at_ms":1,"passed":3,"atom":"/v","rtt":"3kbps"}"#, "not measured"),
            (r#"{"at_ms":1,"begin":3,"atom":"/v","rtt":"3ms"}"#, "with passed alone"),
        ] {
            let error = parse_entry(text).expect_err(text).to_string();
            assert!(error.contains(word) && !error.contains("column"), "{text}: {error}");
        }
        assert!(parse_header(r#"{"format":"x","version":1,"here":"n","valid_ms":1}"#).is_err());
        let plain = r#"{"format":"weir-readings","version":1,"here":"n","valid_ms":1}"#;
        assert_eq!(parse_header(plain).expect("well-formed").to_line(), plain);
        let (rules, continues) = (Some("00ff".to_owned()), true);
        let clock = Some(ClockPair { boot_id: "b".to_owned(), at_ms: 2000, monotonic_ns: 5_000_000 });
        let whole = Header { rules, continues, clock, ..Header::new("n", 1) };
        assert_eq!(parse_header(&whole.to_line()), Ok(whole.clone()));
        assert!(is_header(&whole.to_line()) && whole.to_line().starts_with(HEADER_BEGINS));
        let by_clock = |at_ms| whole.clock.as_ref().and_then(|clock| clock.monotonic_ns(at_ms));
        assert_eq!([2001, 1995, 1994].map(by_clock), [Some(6_000_000), Some(0), None]);
        assert_eq!(by_clock(u64::MAX), None);
        assert!(!is_header(r#"{"at_ms":1,"tick":true}"#));
        let line = r#"{"at_ms":1,"begin":17,"atom":"/vä"}"#.as_bytes();
        assert!((1..line.len()).all(|end| is_cut(&line[..end])) && !is_cut(line) && !is_cut(b"nonsense"));
    }
}
