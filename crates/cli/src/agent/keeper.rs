//! What the agent gives away is kept in a store.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};
use weir_agent::keeper::{Batch, Fold, Found, KeepError, Keeper, Sought};
use weir_agent::protocol::{Counts, Filter};
use weir_agent::transaction::{Status, Transaction, Wanted};
use weir_store::{Limits, Minute, Outcome, Record, Select, Series, Store, StoreError};

/// The setting that holds the number of the last batch.
const NUMBER: &str = "batch";
/// The setting that holds what came and what was lost, of all batches.
const COUNTS: &str = "counts";
/// How often what is too old is removed.
const RETIRE_EVERY: Duration = Duration::from_secs(60);
/// Transactions that are looked at for the latest ones of a filter.
const MOST_LOOKED_AT: usize = 2_000;

/// A store as the agent's keeper.
#[derive(Debug)]
pub(super) struct StoreKeeper {
    store: Store,
    retired: Option<Instant>,
}

impl StoreKeeper {
    /// Opens the store, or begins one.
    pub(super) fn open(path: &Path, limits: Limits) -> Result<Self, StoreError> {
        let (store, aside) = Store::open_or_begin_anew(path, limits)?;
        if let Some(aside) = aside {
            eprintln!("weir: {} was damaged; it is kept as {}", path.display(), aside.display());
        }
        Ok(Self { store, retired: None })
    }

    fn counts(&self) -> Result<Counts, StoreError> {
        let kept = self.store.setting(COUNTS)?;
        Ok(kept.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
    }
}

impl Keeper for StoreKeeper {
    fn last_batch(&mut self) -> Result<u64, KeepError> {
        let kept = self.store.setting(NUMBER).map_err(words)?;
        Ok(kept.and_then(|text| text.parse().ok()).unwrap_or(0))
    }

    fn keep(&mut self, batch: &Batch) -> Result<(), KeepError> {
        if batch.number <= self.last_batch()? {
            return Ok(());
        }
        let mut counts = self.counts().map_err(words)?;
        counts.add(&batch.counts);
        let records: Result<Vec<Record>, KeepError> = batch.exemplars.iter().map(record).collect();
        let write = weir_store::Batch {
            minutes: batch.folds.iter().map(minute).collect(),
            records: records?,
            settings: vec![
                (NUMBER.to_owned(), batch.number.to_string()),
                (COUNTS.to_owned(), serde_json::to_string(&counts).map_err(words)?),
            ],
        };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.store.write(&write, now_ms).map_err(words)?;
        if self.retired.is_none_or(|retired| retired.elapsed() >= RETIRE_EVERY) {
            self.retired = Some(Instant::now());
            // The batch is kept; what could not be cleared away now is cleared away later.
            let _ = self.store.retire(now_ms);
        }
        Ok(())
    }

    fn find(&mut self, sought: &Sought, most: usize) -> Result<Found, KeepError> {
        let reader = self.store.reader().map_err(words)?;
        let records = match sought {
            Sought::Related(Wanted::Trace(trace)) => reader.trace(*trace, most),
            Sought::Related(Wanted::Span(span)) => reader.span(*span, most),
            Sought::Latest(filter) => reader.records(&select(filter), MOST_LOOKED_AT),
        };
        let records = records.map_err(words)?;
        // Another version of weir wrote it in another format: left out.
        let all = records.iter().filter_map(|record| serde_json::from_str::<Transaction>(&record.body).ok());
        let fits = |transaction: &Transaction| match sought {
            Sought::Related(_) => true,
            Sought::Latest(filter) => filter.wants(transaction),
        };
        Ok(Found { transactions: all.filter(fits).take(most).collect(), looked_at: records.len() as u32 })
    }
}

/// What of a filter the store knows by itself.
fn select(filter: &Filter) -> Select {
    let Filter { application, transaction, user, .. } = filter;
    Select { source: application.clone(), class: transaction.clone(), user: user.clone(), ..Select::default() }
}

fn words(error: impl std::error::Error) -> KeepError {
    KeepError(error.to_string())
}

fn minute(fold: &Fold) -> Minute {
    Minute {
        minute: fold.minute,
        series: Series {
            source: fold.application.clone(),
            class: fold.transaction.clone(),
            user: fold.user.clone().unwrap_or_default(),
        },
        fold: weir_store::Fold {
            outcomes: fold.outcomes.each(),
            durations: fold.durations.clone(),
            blocked_ns: fold.blocked_ns,
            queued_ns: fold.queued_ns,
        },
    }
}

fn record(transaction: &Transaction) -> Result<Record, KeepError> {
    Ok(Record {
        at_ms: transaction.end_unix_ns() / 1_000_000,
        series: Series {
            source: transaction.application.clone(),
            class: transaction.name.clone(),
            user: transaction.user.clone().unwrap_or_default(),
        },
        duration_ns: transaction.duration_ns,
        outcome: outcome(transaction.status),
        trace: transaction.id.trace,
        span: transaction.id.span,
        body: serde_json::to_string(transaction).map_err(words)?,
    })
}

fn outcome(status: Status) -> Outcome {
    match status {
        Status::Good => Outcome::Good,
        Status::Aborted => Outcome::Aborted,
        Status::Failed => Outcome::Failed,
        Status::Unknown => Outcome::Unknown,
        Status::Unfinished => Outcome::Unfinished,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_agent::protocol::Outcomes;

    #[test]
    fn a_batch_that_comes_twice_counts_once() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join(super::super::STORE_NAME);
        let mut keeper = StoreKeeper::open(&path, Limits::default()).expect("a store");
        assert_eq!(keeper.last_batch(), Ok(0));
        let mut fold = Fold { minute: u64::MAX / 120_000, application: "shop".into(), ..Fold::default() };
        fold.transaction = "pay".into();
        fold.outcomes = Outcomes { good: 1, unfinished: 2, ..Outcomes::default() };
        fold.durations.push_many(5, 3);
        let counts = Counts { records: 7, ..Counts::default() };
        let mut batch = Batch { number: 4, folds: vec![fold], counts, ..Batch::default() };
        for _ in 0..2 {
            assert_eq!(keeper.keep(&batch), Ok(()));
            assert_eq!(keeper.last_batch(), Ok(4));
        }
        batch.number = 5;
        assert_eq!(keeper.keep(&batch), Ok(()));
        assert_eq!(keeper.counts().expect("readable").records, 14);
        let reader = keeper.store.reader().expect("a second connection");
        let sums = reader.summed(&Select::default(), |series| series.class.clone()).expect("readable");
        assert_eq!((sums["pay"].outcomes, sums["pay"].durations.count()), ([2, 0, 0, 0, 4], 6));
        // The agent is started anew: it goes on behind the last one.
        drop(keeper);
        let mut keeper = StoreKeeper::open(&path, Limits::default()).expect("the same");
        assert_eq!(keeper.last_batch(), Ok(5));
        assert_eq!(keeper.find(&Sought::Related(Wanted::Span(3)), 10), Ok(Found::default()));
    }
    #[test]
    fn the_latest_that_fit_are_found_the_newest_first() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join(super::super::STORE_NAME);
        let mut keeper = StoreKeeper::open(&path, Limits::default()).expect("a store");
        let one = |span: u64, name: &str, status: &str| -> Transaction {
            let now_ns =
                SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
            serde_json::from_value(serde_json::json!({
                "id": format!("{:032x}-{span:016x}", 7), "host": "web1", "process": {"pid": 4, "uid": 0, "command": "shop"},
                "application": "shop", "name": name, "standard": 4, "thread": 1, "start_ns": span,
                "start_unix_ns": now_ns - 1_000_000_000 + span * 1_000_000, "duration_ns": 5, "status": status, "one_in": 1,
            }))
            .expect("a transaction as the agent tells of it")
        };
        let exemplars =
            vec![one(1, "pay", "good"), one(2, "pay", "failed"), one(3, "pay", "good"), one(4, "look", "failed")];
        let batch = Batch { number: 1, exemplars, ..Batch::default() };
        assert_eq!(keeper.keep(&batch), Ok(()));
        let mut spans = |filter: Filter, most| -> (Vec<u64>, u32) {
            let found = keeper.find(&Sought::Latest(filter), most).expect("readable");
            (found.transactions.iter().map(|transaction| transaction.id.span).collect(), found.looked_at)
        };
        assert_eq!(spans(Filter::default(), 10), (vec![4, 3, 2, 1], 4));
        assert_eq!(spans(Filter::default(), 2), (vec![4, 3], 4));
        let pay = Filter { transaction: Some("pay".into()), ..Filter::default() };
        assert_eq!(spans(Filter { failed: true, ..pay.clone() }, 10), (vec![2], 3));
        assert_eq!(spans(Filter { at_least_ns: Some(6), ..pay }, 10), (vec![], 3));
    }
}
