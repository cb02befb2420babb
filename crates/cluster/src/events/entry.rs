//! A line of an events file: the header of a start, or an event.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bytes of a line.
pub const EVENT_BYTES_MAX: usize = 8 << 10;
/// What a header names its file.
const FORMAT: &str = "weir-cluster-events";
/// The version that is written and read.
const VERSION: u32 = 1;
/// Bytes of a reason that are written.
const WHY_BYTES_MAX: usize = 512;

/// A line that is not understood.
#[derive(Debug, thiserror::Error)]
pub enum EventFileError {
    /// It is longer than any event.
    #[error("the line has {0} bytes, and an event has {EVENT_BYTES_MAX} at most; give an events.jsonl of a cluster")]
    TooLong(usize),
    /// It is no JSON, or another one.
    #[error("the line is no event of a cluster: {0}; give an events.jsonl of a cluster")]
    NoEvent(#[from] serde_json::Error),
    /// It is of another program, or of a later one.
    #[error(
        "the file says that it is {format:?} of version {version}; this weir reads {FORMAT:?} of version {VERSION}"
    )]
    OtherFormat {
        /// The name of its format.
        format: String,
        /// The version of that.
        version: u32,
    },
}

/// The first line of each start of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventHeader {
    format: String,
    version: u32,
    /// The member that writes.
    pub member: String,
    /// Which start of which kernel its `monotonic_us` count from (`/proc/sys/kernel/random/boot_id`, random(4)).
    pub boot_id: String,
}

impl EventHeader {
    /// That of a member of this machine.
    pub fn new(member: &str, boot_id: &str) -> Self {
        Self { format: FORMAT.to_owned(), version: VERSION, member: member.to_owned(), boot_id: boot_id.to_owned() }
    }
}

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum What {
    /// The member has started.
    Started,
    /// A session went to another node, says the one that had it.
    Given,
    /// A session came, says the node that has it now.
    Taken,
    /// A move did not begin: the session was not stopped.
    NotBegun,
    /// A move came back: the session goes on at its old node.
    CameBack,
    /// A node did not take a session in.
    Refused,
    /// A session ended within its move.
    Lost,
    /// A node stopped before the director had said who has the session.
    Undecided,
    /// This node's replicas are kept by another node from now on.
    Replicated,
    /// A session of a node that was down goes on here.
    TakenOver,
    /// A session of a node that was down does not go on here.
    NotTakenOver,
    /// A session was discarded here, as another node had taken it over.
    Discarded,
    /// The director sends a connection's packets to another node.
    Steered,
    /// The director lets the new node go on.
    Confirmed,
    /// The director lets the old node go on.
    Reclaimed,
    /// The director did not do as it was asked.
    Declined,
    /// A member is not heard any more.
    Down,
    /// A member is heard.
    Up,
    /// A node gets no new connections any more, as it asked.
    Draining,
    /// It gets them again.
    Undrained,
    /// A rule over nodes has decided something.
    Decided,
    /// The director has given a node another weight for new connections.
    Weighed,
    /// How this member's clock stands to that of another one.
    Clock,
    /// Content has come to this node, to stay.
    Fetched,
    /// Content that this node lacks was passed on from another one to a client.
    Proxied,
    /// This node has given content up, which others keep.
    Evicted,
    /// No node has sent content that a client has asked for, or that this node is to keep.
    Away,
    /// Fewer copies of published content are kept than there should be, or enough again.
    Copies,
    /// What a later weir wrote.
    Other(String),
}

impl What {
    /// All that are known, with their words in files.
    const WORDS: [(Self, &'static str); 28] = [
        (Self::Started, "started"),
        (Self::Given, "given"),
        (Self::Taken, "taken"),
        (Self::NotBegun, "not_begun"),
        (Self::CameBack, "came_back"),
        (Self::Refused, "refused"),
        (Self::Lost, "lost"),
        (Self::Undecided, "undecided"),
        (Self::Replicated, "replicated"),
        (Self::TakenOver, "taken_over"),
        (Self::NotTakenOver, "not_taken_over"),
        (Self::Discarded, "discarded"),
        (Self::Steered, "steered"),
        (Self::Confirmed, "confirmed"),
        (Self::Reclaimed, "reclaimed"),
        (Self::Declined, "declined"),
        (Self::Down, "down"),
        (Self::Up, "up"),
        (Self::Draining, "draining"),
        (Self::Undrained, "undrained"),
        (Self::Decided, "decided"),
        (Self::Weighed, "weighed"),
        (Self::Clock, "clock"),
        (Self::Fetched, "fetched"),
        (Self::Proxied, "proxied"),
        (Self::Evicted, "evicted"),
        (Self::Away, "away"),
        (Self::Copies, "copies"),
    ];

    /// Its word in files.
    pub fn word(&self) -> &str {
        if let Self::Other(word) = self {
            return word;
        }
        Self::WORDS.iter().find(|(what, _)| what == self).map_or("", |(_, word)| word)
    }
}

impl From<String> for What {
    fn from(word: String) -> Self {
        let known = Self::WORDS.iter().find(|(_, known)| *known == word).map(|(what, _)| what.clone());
        known.unwrap_or(Self::Other(word))
    }
}

impl From<What> for String {
    fn from(what: What) -> Self {
        what.word().to_owned()
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// An event. A field that says nothing of it is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventEntry {
    /// When, by the member's clock: microseconds since 1970. Of a move, when it was over.
    pub at_us: u64,
    /// The same by CLOCK_MONOTONIC (clock_gettime(2)), microseconds.
    pub monotonic_us: u64,
    /// What.
    pub what: What,
    /// The client's end of the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<SocketAddr>,
    /// The service's end of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<SocketAddr>,
    /// The move: the number of the node that gave, and its number for it.
    #[serde(default, rename = "move", skip_serializing_if = "Option::is_none")]
    pub move_id: Option<String>,
    /// The node that had the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The node that was to have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The member that went, came, asked, or whose clock it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// How long the session stood still, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freeze_us: Option<u64>,
    /// How long all of the move took here, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_us: Option<u64>,
    /// Whether a response was under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under_way: Option<bool>,
    /// How many responses the old node goes on making, as an upstream was asked there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relayed: Option<u64>,
    /// The other member's clock less this one's, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset_us: Option<i64>,
    /// By how much that may be wrong: half of the round trip, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_us: Option<u64>,
    /// Of a decision: the rule, as FILE:LINE NAME.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Of a decision: the director's epoch in which it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// Of a decision: what was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<String>,
    /// Why it is so; of a decision, its readings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl EventEntry {
    /// One of this moment.
    pub fn now(what: What) -> Self {
        Self::at(what, SystemTime::now())
    }

    /// One of a moment that is over.
    pub fn at(what: What, at: SystemTime) -> Self {
        let age = SystemTime::now().duration_since(at).unwrap_or_default();
        Self {
            at_us: us(at.duration_since(UNIX_EPOCH).unwrap_or_default()),
            monotonic_us: us(monotonic().saturating_sub(age)),
            what,
            client: None,
            service: None,
            move_id: None,
            from: None,
            to: None,
            member: None,
            freeze_us: None,
            total_us: None,
            under_way: None,
            relayed: None,
            offset_us: None,
            error_us: None,
            rule: None,
            epoch: None,
            done: None,
            why: None,
        }
    }

    /// The same, and why it is so.
    #[must_use]
    pub fn because(mut self, why: &str) -> Self {
        let mut end = why.len().min(WHY_BYTES_MAX);
        while !why.is_char_boundary(end) {
            end -= 1;
        }
        self.why = Some(why[..end].to_owned());
        self
    }

    /// The same, of a member.
    #[must_use]
    pub fn of(mut self, member: impl Into<String>) -> Self {
        self.member = Some(member.into());
        self
    }

    /// Its line, with the end of that.
    pub fn line(&self) -> String {
        line(self)
    }
}

impl EventHeader {
    /// Its line, with the end of that.
    pub fn line(&self) -> String {
        line(self)
    }
}

fn line(written: &impl Serialize) -> String {
    // Numbers and texts; no map has other keys than texts.
    serde_json::to_string(written).map(|text| text + "\n").unwrap_or_default()
}

/// A line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventLine {
    /// A member has started to write.
    Header(EventHeader),
    /// It tells an event.
    Entry(Box<EventEntry>),
}

impl EventLine {
    /// Reads a line without its end.
    ///
    /// # Errors
    /// [`EventFileError`].
    pub fn parse(line: &str) -> Result<Self, EventFileError> {
        if line.len() > EVENT_BYTES_MAX {
            return Err(EventFileError::TooLong(line.len()));
        }
        if !line.trim_start().starts_with("{\"format\"") {
            return Ok(Self::Entry(Box::new(serde_json::from_str(line)?)));
        }
        let header: EventHeader = serde_json::from_str(line)?;
        if header.format == FORMAT && header.version == VERSION {
            return Ok(Self::Header(header));
        }
        Err(EventFileError::OtherFormat { format: header.format, version: header.version })
    }
}

fn us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// CLOCK_MONOTONIC: the clock of a run's events.
fn monotonic() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the structure, which lives over the call.
    let told = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    if told != 0 {
        return Duration::ZERO;
    }
    // Neither is negative, and nanoseconds are below a second (clock_gettime(2)).
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_later_weir_writes_is_kept() {
        let line = r#"{"at_us":1,"monotonic_us":2,"what":"multiplied","bytes":7}"#;
        let EventLine::Entry(entry) = EventLine::parse(line).expect("is read") else { panic!("no entry") };
        assert_eq!(entry.what, What::Other("multiplied".to_owned()));
        assert!(entry.line().contains("\"what\":\"multiplied\""));
    }

    #[test]
    fn headers_of_others_are_refused_by_name() {
        let line = EventHeader::new("n1", "b").line().replace("\"version\":1", "\"version\":2");
        let error = EventLine::parse(line.trim_end()).expect_err("is refused");
        assert!(error.to_string().contains("version 2"), "{error}");
        assert!(EventLine::parse("{\"format\":\"weir-readings\",\"version\":1}").is_err());
    }

    #[test]
    fn a_moment_that_is_over_is_so_by_both_clocks() {
        let (now, before) = (EventEntry::now(What::Up), SystemTime::now() - Duration::from_secs(1));
        let entry = EventEntry::at(What::Down, before);
        let age_us = now.monotonic_us - entry.monotonic_us;
        assert!((900_000..1_000_500).contains(&age_us), "{age_us}");
    }

    fn entries() -> impl Strategy<Value = EventEntry> {
        let texts = (proptest::option::of(".{0,40}"), proptest::option::of("[a-z0-9-]{1,8}"), ".{0,600}");
        let numbers = (any::<u64>(), any::<u64>(), any::<Option<i64>>(), any::<Option<bool>>());
        (0..What::WORDS.len(), texts, numbers, any::<Option<(u32, u16)>>()).prop_map(
            |(what, texts, numbers, client)| {
                let mut entry = EventEntry::now(What::WORDS[what].0.clone()).because(&texts.2);
                (entry.move_id, entry.from) = (texts.0, texts.1);
                (entry.at_us, entry.monotonic_us, entry.offset_us, entry.under_way) = numbers;
                entry.client =
                    client.map(|(address, port)| SocketAddr::new(std::net::IpAddr::V4(address.into()), port));
                entry
            },
        )
    }

    proptest! {
        #[test]
        fn an_entry_is_read_as_it_was_written(entry in entries()) {
            let line = entry.line();
            prop_assert_eq!(line.matches('\n').count(), 1);
            prop_assert_eq!(EventLine::parse(line.trim_end_matches('\n')).expect("is read"), EventLine::Entry(Box::new(entry)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,200}") {
            let _ = EventLine::parse(&text);
        }
    }
}
