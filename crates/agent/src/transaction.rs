//! A finished transaction, as the agent tells of it: to the socket, to exporters, to the store.

use crate::waits::ThreadTime;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use weir_wire::arm::Identity;

/// Which transaction: its trace and its span; as text 32 and 16 hexadecimal digits with a `-` between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TransactionId {
    /// The trace, as in W3C Trace Context; the first word's bytes come first.
    pub trace: [u64; 2],
    /// The transaction in it; never 0.
    pub span: u64,
}

/// A text is no transaction's id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no id of a transaction: expected 32 and 16 hexadecimal digits with a '-' between them")]
pub struct TransactionIdError(pub String);

impl TransactionId {
    /// The trace alone, 32 hexadecimal digits.
    #[must_use]
    pub fn trace_text(&self) -> String {
        format!("{:016x}{:016x}", self.trace[0], self.trace[1])
    }
}

impl From<Identity> for TransactionId {
    fn from(identity: Identity) -> Self {
        Self { trace: identity.trace, span: identity.span }
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}{:016x}-{:016x}", self.trace[0], self.trace[1], self.span)
    }
}

/// A number of exactly so many hexadecimal digits.
fn hexadecimal(digits: &str, count: usize) -> Option<u64> {
    let whole = digits.len() == count && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    whole.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

/// Both words of a trace.
fn trace_of(digits: &str) -> Option<[u64; 2]> {
    let (first, second) = digits.split_at_checked(16)?;
    Some([hexadecimal(first, 16)?, hexadecimal(second, 16)?])
}

impl FromStr for TransactionId {
    type Err = TransactionIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let (trace, span) = text.split_once('-')?;
            Some(Self { trace: trace_of(trace)?, span: hexadecimal(span, 16)? })
        };
        read().ok_or_else(|| TransactionIdError(text.to_owned()))
    }
}

impl Serialize for TransactionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TransactionId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// What is looked for: one transaction, or all of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// All transactions of a trace.
    Trace([u64; 2]),
    /// The transaction of this span, in any trace.
    Span(u64),
}

impl FromStr for Wanted {
    type Err = TransactionIdError;

    /// Reads an id (trace and span: the trace is wanted), a trace or a span alone, or a `traceparent`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if let Ok(id) = text.parse::<TransactionId>() {
            return Ok(Self::Trace(id.trace));
        }
        if let Some(identity) = Identity::of_traceparent(text) {
            return Ok(Self::Trace(identity.trace));
        }
        let found = trace_of(text).map(Self::Trace).or_else(|| hexadecimal(text, 16).map(Self::Span));
        found.ok_or_else(|| TransactionIdError(text.to_owned()))
    }
}

impl Wanted {
    /// Whether this is what was looked for.
    #[must_use]
    pub fn is(&self, id: &TransactionId) -> bool {
        match self {
            Self::Trace(trace) => id.trace == *trace,
            Self::Span(span) => id.span == *span,
        }
    }
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// As it should.
    Good,
    /// Given up before it was done, such as by its user.
    Aborted,
    /// It failed.
    Failed,
    /// The application did not know, or said what the standard does not have.
    Unknown,
    /// Its process ended before it did.
    Unfinished,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 5] = [Self::Good, Self::Aborted, Self::Failed, Self::Unknown, Self::Unfinished];

    /// Whether it counts as failed: the transaction failed, or its process ended before it.
    #[must_use]
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::Unfinished)
    }

    /// Of the standard's number.
    #[must_use]
    pub fn of_number(number: u64) -> Self {
        match number as u32 {
            0 => Self::Good,
            1 => Self::Aborted,
            2 => Self::Failed,
            _ => Self::Unknown,
        }
    }

    /// As it is shown.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Aborted => "aborted",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Unfinished => "unfinished",
        }
    }
}

/// The process in which a transaction ran.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The user that it runs as.
    pub uid: u32,
    /// Its command's name, as the kernel has it.
    pub command: String,
}

/// A name with a value: a property, a value of a context.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Named {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

/// What a metric says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MetricValue {
    /// A counter's increase, or a gauge's or numeric id's last value.
    Integer(i64),
    /// A value with a divisor, divided.
    Ratio(f64),
    /// A text.
    Text(String),
}

/// A metric's sort: how its values of one transaction become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricSort {
    /// The increase from the first value to the last counts.
    Counter,
    /// The last value counts.
    Gauge,
    /// A number that names something; the last counts.
    Identifier,
    /// A text that names something; the last counts.
    Text,
}

/// A metric of a transaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// The place among the transaction's metrics, 0 to 6 (ARM 2.0's 1 to 7 less one).
    pub slot: u8,
    /// Its name; empty where its slot is bound to no definition.
    pub name: String,
    /// The unit of its values, as the application calls it; empty = none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// Its sort.
    pub sort: MetricSort,
    /// What the standard calls usage: 0 = general, 1 = size of the transaction, 2 = its status.
    #[serde(default)]
    pub usage: u8,
    /// What it says.
    pub value: MetricValue,
}

/// A stretch of time in which a thread worked for a transaction, as the application told by binding it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// The thread's number.
    pub thread: u32,
    /// From, CLOCK_MONOTONIC in nanoseconds.
    pub from_ns: u64,
    /// To, CLOCK_MONOTONIC in nanoseconds.
    pub to_ns: u64,
}

/// A wait for something outside of the transaction, as the application told by blocking it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// From, CLOCK_MONOTONIC in nanoseconds.
    pub from_ns: u64,
    /// To, CLOCK_MONOTONIC in nanoseconds.
    pub to_ns: u64,
    /// 0 = not told, 1 = synchronous, 2 = asynchronous (ARM 4.1).
    #[serde(default)]
    pub cause: u8,
}

/// What only some transactions tell; everything is empty or absent where it was not told.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Details {
    /// The 16 bytes of the user's id, hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The address of the system where it ran, or of its client, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The URI of this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// Values of its context, with the names that its definition gave them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<Named>,
    /// Its metrics, by slot.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
    /// The details of a diagnosis.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<String>,
    /// Properties of the diagnosis (ARM 4.1).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub diagnosis_properties: Vec<Named>,
    /// What an ARM 2.0 application said in its own way; bytes that are no text are replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opaque: Option<String>,
    /// Nanoseconds that were spent in preparation before the start (ARM 4.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preparation_ns: Option<u64>,
    /// Messages that it sent or received (ARM 4.1).
    #[serde(skip_serializing_if = "is_zero")]
    pub messages: u32,
    /// The waits that were told, at most [`MOST_STRETCHES`]; `blocked_ns` of the transaction counts all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<Blocked>,
    /// Which threads worked for it when, at most [`MOST_STRETCHES`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bound: Vec<Bound>,
    /// Pieces that came damaged or found no room.
    #[serde(skip_serializing_if = "is_zero")]
    pub pieces_lost: u32,
}

/// The most stretches of one sort that a transaction keeps.
pub const MOST_STRETCHES: usize = 32;

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A transaction that is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Transaction {
    /// Which it is.
    pub id: TransactionId,
    /// Its parent; `None` = it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<TransactionId>,
    /// The parent's correlator was not one of ours, so that the parent's id is a hash of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parent_foreign: bool,
    /// Its parent was seen on this host, so the parent need not be looked for on other hosts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parent_here: bool,
    /// The name of the host where it ran.
    pub host: String,
    /// Its process.
    pub process: Process,
    /// The application's name.
    pub application: String,
    /// The group that the application's instance belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The application's instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The transaction's name.
    pub name: String,
    /// Properties that identify application and transaction, as they were registered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<Named>,
    /// The user on whose behalf it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The version of the standard by which it was told: 2 or 4.
    pub standard: u8,
    /// The thread that started it, 0 = not known.
    pub thread: u32,
    /// When it began, CLOCK_MONOTONIC in nanoseconds: its arrival where that was told, else its start.
    pub start_ns: u64,
    /// The same in nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// From then to its end, nanoseconds.
    pub duration_ns: u64,
    /// Of that, from its arrival to its start, nanoseconds.
    #[serde(default)]
    pub queued_ns: u64,
    /// Of that, blocked, nanoseconds: overlapping waits count once.
    #[serde(default)]
    pub blocked_ns: u64,
    /// How it ended.
    pub status: Status,
    /// Of how many this is the one that was recorded; 1 = all are.
    pub one_in: u32,
    /// Its application asked for tracing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub traced: bool,
    /// It was measured by the application itself and reported as a whole.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reported: bool,
    /// Signs of life that it gave.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub updates: u32,
    /// Its children that ended before it did, on this host.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub children: u32,
    /// What the thread that started it did and waited for between its start and its stop; and the same of the one that
    /// stopped it, if that is another. Empty = not measured: the agent does not capture, or did not yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<ThreadTime>,
    /// What only some tell.
    #[serde(default)]
    pub details: Box<Details>,
}

impl Transaction {
    /// When it ended, CLOCK_MONOTONIC in nanoseconds.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.duration_ns)
    }

    /// When it ended, nanoseconds since 1970.
    #[must_use]
    pub fn end_unix_ns(&self) -> u64 {
        self.start_unix_ns.saturating_add(self.duration_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ids_come_back(trace: [u64; 2], span: u64) {
            let id = TransactionId { trace, span };
            prop_assert_eq!(id.to_string().parse::<TransactionId>(), Ok(id));
            prop_assert_eq!(id.to_string().parse::<Wanted>(), Ok(Wanted::Trace(trace)));
            prop_assert_eq!(id.trace_text().parse::<Wanted>(), Ok(Wanted::Trace(trace)));
            prop_assert_eq!(format!("{span:016x}").parse::<Wanted>(), Ok(Wanted::Span(span)));
            let json = serde_json::to_string(&id).expect("a text");
            prop_assert_eq!(serde_json::from_str::<TransactionId>(&json).expect("just written"), id);
        }

        #[test]
        fn no_text_breaks_the_reader(text in ".{0,60}") {
            let _ = text.parse::<TransactionId>();
            let _ = text.parse::<Wanted>();
        }
    }

    #[test]
    fn a_traceparent_names_its_trace() {
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let trace = [0x4bf9_2f35_77b3_4da6, 0xa3ce_929d_0e0e_4736];
        assert_eq!(header.parse::<Wanted>(), Ok(Wanted::Trace(trace)));
    }
}
