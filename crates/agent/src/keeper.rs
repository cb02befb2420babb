//! What the agent gives to a keeper, and what it asks the keeper.

use crate::protocol::{Counts, Filter, Outcomes};
use crate::transaction::{Transaction, Wanted};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_measure::durations::Durations;

/// The figures of a minute of one user of one transaction: one that stands for several counts so many.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Fold {
    /// The minute in which the transactions ended, in minutes since 1970.
    pub minute: u64,
    /// The application's name.
    pub application: String,
    /// The transaction's name.
    pub transaction: String,
    /// The user; `None` where none was told, and [`OTHER_USERS`] for those beyond the bound.
    pub user: Option<String>,
    /// How many ended how.
    pub outcomes: Outcomes,
    /// How long they took; in JSON the bytes of [`Durations::to_bytes`], hexadecimal.
    #[serde(serialize_with = "durations_to_text", deserialize_with = "durations_of_text")]
    pub durations: Durations,
    /// Of that, blocked, nanoseconds.
    pub blocked_ns: u64,
    /// Of that, from arrival to start, nanoseconds.
    pub queued_ns: u64,
}

impl Fold {
    /// Adds the figures of another of the same minute, transaction and user.
    pub fn add(&mut self, other: &Self) {
        self.outcomes.merge(&other.outcomes);
        self.durations.merge(&other.durations);
        self.blocked_ns = self.blocked_ns.saturating_add(other.blocked_ns);
        self.queued_ns = self.queued_ns.saturating_add(other.queued_ns);
    }
}

/// The user of a [`Fold`] that stands for all those beyond the bound.
pub const OTHER_USERS: &str = "(others)";

fn durations_to_text<S: Serializer>(durations: &Durations, serializer: S) -> Result<S::Ok, S::Error> {
    let bytes = durations.to_bytes();
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Nothing is looked up and nothing can fail: this is done for each class some times a second.
        let digit = |half: u8| char::from(if half < 10 { b'0' + half } else { b'a' - 10 + half });
        text.extend([digit(byte >> 4), digit(byte & 15)]);
    }
    serializer.serialize_str(&text)
}

fn durations_of_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Durations, D::Error> {
    let text = String::deserialize(deserializer)?;
    let half = |digit: u8| char::from(digit).to_digit(16).map(|half| half as u8);
    let bytes: Option<Vec<u8>> =
        text.as_bytes().chunks(2).map(|pair| Some(half(pair[0])? << 4 | half(*pair.get(1)?)?)).collect();
    let durations = bytes.and_then(|bytes| Durations::from_bytes(&bytes));
    durations.ok_or_else(|| serde::de::Error::custom("these are no durations"))
}

/// Figures and exemplars of some seconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Batch {
    /// Its number; the next one is one more.
    pub number: u64,
    /// Figures, to be added to those that are kept of the same minute, application, transaction and user.
    pub folds: Vec<Fold>,
    /// Whole transactions: slow ones, failed ones, with their known relatives. The same one may come again.
    pub exemplars: Vec<Transaction>,
    /// What came and what was lost since the batch before.
    pub counts: Counts,
}

/// What a keeper is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sought {
    /// A transaction, or all of a trace.
    Related(Wanted),
    /// The newest ones that fit.
    Latest(Filter),
}

/// What a keeper has found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Found {
    /// The transactions; of the newest ones that fit, the newest first.
    pub transactions: Vec<Transaction>,
    /// How many were looked at, those that do not fit included.
    pub looked_at: u32,
}

/// It could not be kept, or not found; in words, with what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KeepError(pub String);

/// Keeps figures and exemplars beyond the agent's life. A thread of its own calls it.
pub trait Keeper: Send {
    /// The number of the last batch that was kept, 0 = none ever was.
    ///
    /// # Errors
    /// When what is kept cannot be read.
    fn last_batch(&mut self) -> Result<u64, KeepError>;

    /// Keeps a batch, whole or not at all, together with its number. One whose number is not above the last kept one
    /// was kept already and changes nothing.
    ///
    /// # Errors
    /// When it cannot be kept now; it will be tried again.
    fn keep(&mut self, batch: &Batch) -> Result<(), KeepError>;

    /// Exemplars that are kept, at most `most`.
    ///
    /// # Errors
    /// When what is kept cannot be read.
    fn find(&mut self, sought: &Sought, most: usize) -> Result<Found, KeepError>;
}
