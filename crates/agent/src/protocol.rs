//! What is said over the agent's socket: a line of JSON for each question and each answer.
//!
//! The socket is a stream; a client asks, the agent answers with one line, and so on. After [`Ask::Tail`] the agent
//! sends a line for each transaction until the client goes; it never waits for a slow one, which is told by
//! [`Answer::Missed`] how many it did not get.

use crate::transaction::{Status, Transaction};
use crate::waits::CaptureStatus;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The socket's name in the ARM directory.
pub const SOCKET_NAME: &str = "agent.sock";
/// The most bytes of a question's line.
pub const MOST_QUESTION_BYTES: usize = 64 << 10;
/// The most transactions of an [`Answer::Kept`].
pub const MOST_KEPT_TOLD: u32 = 200;

/// A question or an order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum Ask {
    /// How the agent is: answered by [`Answer::Status`].
    Status,
    /// Which applications, transactions and processes it knows: answered by [`Answer::List`].
    List,
    /// What runs at which rate: answered by [`Answer::Top`].
    Top {
        /// Over the last so many seconds, 5 to 60, in steps of 5.
        #[serde(default = "ten")]
        seconds: u32,
        /// What each row is of.
        #[serde(default)]
        by: By,
    },
    /// A transaction with its relatives, or all of a trace: answered by [`Answer::Trace`].
    Show {
        /// An id as [`crate::transaction::Wanted`] reads it.
        id: String,
    },
    /// The transactions that are kept whole and fit, the newest first: answered by [`Answer::Kept`].
    Kept {
        /// Which are wanted.
        #[serde(default)]
        filter: Filter,
        /// How many at most, 1 to [`MOST_KEPT_TOLD`].
        most: u32,
    },
    /// Every transaction from now on that fits: answered by [`Answer::Transaction`], again and again.
    Tail(Filter),
    /// Records, leaves out or samples: answered by [`Answer::Switched`]. Only the agent's own user and root may.
    Switch {
        /// The application's name; `*` = all.
        application: String,
        /// The transaction's name; absent = all of the application.
        #[serde(default)]
        transaction: Option<String>,
        /// The switch's position; absent = the rule is forgotten.
        #[serde(default)]
        to: Option<Switch>,
    },
    /// Which switches are set: answered by [`Answer::Switches`].
    Switches,
}

fn ten() -> u32 {
    10
}

/// What a row of [`Ask::Top`] is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// A transaction of an application.
    #[default]
    Class,
    /// A user of such a transaction.
    User,
}

/// Which transactions are wanted; what is absent does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Filter {
    /// Of this application.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// Of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
    /// Of this user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// That took at least so long, nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least_ns: Option<u64>,
    /// Only those that failed or were not finished.
    pub failed: bool,
}

impl Filter {
    /// Whether a transaction is wanted.
    #[must_use]
    pub fn wants(&self, transaction: &Transaction) -> bool {
        let is = |wanted: &Option<String>, have: Option<&String>| wanted.is_none() || wanted.as_ref() == have;
        is(&self.application, Some(&transaction.application))
            && is(&self.transaction, Some(&transaction.name))
            && is(&self.user, transaction.user.as_ref())
            && self.at_least_ns.is_none_or(|least| transaction.duration_ns >= least)
            && (!self.failed || transaction.status.is_failure())
    }
}

/// A switch's position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Switch {
    /// Every transaction is recorded.
    On,
    /// None is.
    Off,
    /// One of so many is, at least 2.
    OneIn(u32),
}

/// A switch that a user has set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The application's name; `*` = all.
    pub application: String,
    /// The transaction's name; absent = all of the application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
    /// The switch's position.
    pub to: Switch,
}

/// What the agent says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// How the agent is.
    Status(Box<AgentStatus>),
    /// What it knows.
    List(List),
    /// What runs.
    Top(Top),
    /// All transactions of a trace that are known, by their begin; empty = none is (any more).
    Trace {
        /// The transactions.
        transactions: Vec<Transaction>,
        /// Those of the trace that found no room.
        missing: u32,
    },
    /// The latest ones that are kept and fit, the newest first.
    Kept {
        /// The transactions.
        transactions: Vec<Transaction>,
        /// So many that are kept were looked at for them, the newest ones.
        looked_at: u32,
    },
    /// A transaction that fits the filter.
    Transaction(Box<Transaction>),
    /// This client was too slow for so many transactions.
    Missed {
        /// How many since the last line of this sort.
        transactions: u64,
    },
    /// A switch was set.
    Switched {
        /// Processes in which something changed.
        processes: u32,
        /// Definitions that changed in them.
        definitions: u32,
        /// Every rule from now on.
        rules: Vec<Rule>,
        /// What did not work, such as keeping the rules for the next start.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        warning: Option<String>,
    },
    /// Every rule.
    Switches {
        /// The rules, the order of setting.
        rules: Vec<Rule>,
    },
    /// It cannot be answered.
    Error {
        /// Why, and what to do.
        message: String,
    },
}

/// How the agent is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AgentStatus {
    /// The program's version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// The host's name.
    pub host: String,
    /// The ARM directory.
    pub directory: String,
    /// How long it has been listening, seconds.
    pub up_s: f64,
    /// CPU time that it used, nanoseconds.
    pub cpu_ns: u64,
    /// Memory that it occupies, bytes.
    pub resident_bytes: u64,
    /// Client processes whose memory is open.
    pub processes: u32,
    /// Transactions that have begun but not ended.
    pub running: u64,
    /// Subscribers: sockets and exporters.
    pub subscribers: u32,
    /// What came, and what became of it, since the agent's start.
    pub counts: Counts,
    /// Memories that it does not read, with the reason; at most 100.
    pub refused: Vec<Refused>,
    /// The capture of waits; absent = it is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<CaptureStatus>,
    /// What does not work, in words.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// What came, and what became of it: every start is finished, discarded, running, forgotten or lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Records that were read.
    pub records: u64,
    /// Transactions that began.
    pub started: u64,
    /// Transactions that ended, those of ended processes included.
    pub finished: u64,
    /// Of those, the ones whose process ended first.
    pub unfinished: u64,
    /// Transactions that were reported as a whole; they are among the finished ones.
    pub reported: u64,
    /// Transactions that their application discarded.
    pub discarded: u64,
    /// Running transactions that were forgotten, as there were too many.
    pub forgotten: u64,
    /// Running transactions that a former agent had seen begin, found again in the ring; they are among the started.
    pub recovered: u64,
    /// Ends, updates and details of transactions whose begin never came: it was lost, or they are wrong.
    pub unmatched: u64,
    /// Records that found no room in a ring, as no agent read it in time.
    pub dropped: u64,
    /// Records for which a client had no lane.
    pub laneless: u64,
    /// Definitions that found no room in a client's memory, or here.
    pub definitions_dropped: u64,
    /// Transactions that switches left out.
    pub skipped: u64,
    /// Times that a ring or definitions held what cannot be.
    pub damaged: u64,
    /// Transactions of classes beyond the bound, counted under one name.
    pub classes_dropped: u64,
    /// Transactions that are in no minute's figures of their user's, as there were too many users.
    pub users_dropped: u64,
    /// Exemplars that found no room in their batch.
    pub exemplars_dropped: u64,
    /// Transactions that subscribers missed.
    pub missed: u64,
    /// Batches of figures that could not be kept.
    pub batches_dropped: u64,
}

impl Counts {
    /// Adds another's.
    pub fn add(&mut self, other: &Self) {
        let mut other = *other;
        for (place, count) in self.each_mut().into_iter().zip(other.each_mut()) {
            *place = place.saturating_add(*count);
        }
    }

    /// What was lost, of all causes: records, definitions, running transactions.
    #[must_use]
    pub fn lost(&self) -> u64 {
        [self.dropped, self.laneless, self.forgotten, self.unmatched, self.definitions_dropped, self.damaged]
            .iter()
            .fold(0, |all, count| all.saturating_add(*count))
    }

    fn each_mut(&mut self) -> [&mut u64; 19] {
        let Self {
            records,
            started,
            finished,
            unfinished,
            reported,
            discarded,
            forgotten,
            recovered,
            unmatched,
            dropped,
            laneless,
            definitions_dropped,
            skipped,
            damaged,
            classes_dropped,
            users_dropped,
            exemplars_dropped,
            missed,
            batches_dropped,
        } = self;
        [
            records,
            started,
            finished,
            unfinished,
            reported,
            discarded,
            forgotten,
            recovered,
            unmatched,
            dropped,
            laneless,
            definitions_dropped,
            skipped,
            damaged,
            classes_dropped,
            users_dropped,
            exemplars_dropped,
            missed,
            batches_dropped,
        ]
    }
}

/// A memory that the agent does not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The announcement's name.
    pub announcement: String,
    /// Why, and what to do.
    pub reason: String,
}

/// What the agent knows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct List {
    /// Every transaction of every application, by name.
    pub classes: Vec<ClassLine>,
    /// Every client process, by number.
    pub processes: Vec<ProcessLine>,
}

/// A transaction of an application, with what became of it since the agent's start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassLine {
    /// The application's name.
    pub application: String,
    /// The transaction's name.
    pub transaction: String,
    /// Live processes that have it defined.
    pub processes: u32,
    /// Transactions that ended; each that stands for several counts so many.
    pub transactions: u64,
    /// Of those, failed and unfinished.
    pub failed: u64,
    /// The switch that holds for it.
    pub switch: Switch,
}

/// A client process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessLine {
    /// Its number.
    pub pid: u32,
    /// The user that it runs as.
    pub uid: u32,
    /// Its command's name.
    pub command: String,
    /// Applications that it has registered.
    pub applications: Vec<String>,
    /// Definitions that it made.
    pub definitions: u32,
    /// Lanes that it has used.
    pub lanes: u32,
    /// Its transactions that run.
    pub running: u32,
    /// Records of it that were read.
    pub records: u64,
    /// Records of it that were lost: no room, no lane.
    pub lost: u64,
    /// Transactions of it that switches left out.
    pub skipped: u64,
}

/// What runs at which rate.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Top {
    /// Seconds that the rows are of; fewer than were asked for if the agent is younger.
    pub seconds: f64,
    /// The rows, the highest rate first; at most 1000.
    pub rows: Vec<TopRow>,
    /// Rows that are left out.
    pub more: u32,
    /// Client processes.
    pub processes: u32,
    /// Records lost, of all causes, since the agent's start.
    pub lost: u64,
}

/// A row of [`Top`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopRow {
    /// The application's name.
    pub application: String,
    /// The transaction's name.
    pub transaction: String,
    /// The user; only where rows are of users, and absent for those without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Transactions that ended, in the time of the row; each that stands for several counts so many.
    pub transactions: u64,
    /// Transactions a second.
    pub rate_per_s: f64,
    /// Of the transactions, failed and unfinished.
    pub failed: u64,
    /// Of the transactions, aborted.
    pub aborted: u64,
    /// The mean of their durations, nanoseconds.
    pub mean_ns: u64,
    /// The median of their durations, nanoseconds.
    pub p50_ns: u64,
    /// The 90th percentile of their durations, nanoseconds.
    pub p90_ns: u64,
    /// The 99th percentile of their durations, nanoseconds.
    pub p99_ns: u64,
    /// The longest of their durations, nanoseconds.
    pub max_ns: u64,
    /// Share of the time of all that they were blocked, 0 to 1.
    pub blocked_share: f64,
    /// What their threads did and waited for, as shares of the time of those of which it was measured, by the names that
    /// `weir explain` has for parts; empty = of none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<String, f64>,
    /// Those that run now (rows of classes only).
    pub running: u32,
    /// The switch that holds (rows of classes only).
    pub switch: Switch,
}

/// How many ended how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Outcomes {
    /// As they should.
    pub good: u64,
    /// Given up.
    pub aborted: u64,
    /// Failed.
    pub failed: u64,
    /// Not known.
    pub unknown: u64,
    /// Their process ended first.
    pub unfinished: u64,
}

impl Outcomes {
    /// Counts `count` more of one.
    pub fn add(&mut self, status: Status, count: u64) {
        let place = match status {
            Status::Good => &mut self.good,
            Status::Aborted => &mut self.aborted,
            Status::Failed => &mut self.failed,
            Status::Unknown => &mut self.unknown,
            Status::Unfinished => &mut self.unfinished,
        };
        *place = place.saturating_add(count);
    }

    /// Adds another's.
    pub fn merge(&mut self, other: &Self) {
        for (status, count) in Status::ALL.into_iter().zip(other.each()) {
            self.add(status, count);
        }
    }

    /// The counts in the order of [`Status::ALL`].
    #[must_use]
    pub fn each(&self) -> [u64; 5] {
        [self.good, self.aborted, self.failed, self.unknown, self.unfinished]
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.each().iter().fold(0, |all, count| all.saturating_add(*count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn questions_are_written_as_the_documents_say() {
        let read = |line: &str| serde_json::from_str::<Ask>(line).expect(line);
        assert_eq!(read(r#"{"ask":"top"}"#), Ask::Top { seconds: 10, by: By::Class });
        let tail = read(r#"{"ask":"tail","application":"shop","failed":true}"#);
        let wanted = Filter { application: Some("shop".into()), failed: true, ..Filter::default() };
        assert_eq!(tail, Ask::Tail(wanted));
        let sample = read(r#"{"ask":"switch","application":"shop","to":{"one_in":10}}"#);
        let to = Some(Switch::OneIn(10));
        assert_eq!(sample, Ask::Switch { application: "shop".into(), transaction: None, to });
        assert_eq!(read(r#"{"ask":"status"}"#), Ask::Status);
    }

    proptest! {
        #[test]
        fn no_line_breaks_the_reader(line in ".{0,200}") {
            let _ = serde_json::from_str::<Ask>(&line);
        }
    }
}
