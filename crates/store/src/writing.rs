//! Writing to a store.

use crate::retention;
use crate::schema::fold_of;
use crate::store::{SET, Store, Written};
use crate::{Minute, Record, Series, StoreError};
use rusqlite::{OptionalExtension, Statement, Transaction, TransactionBehavior, params};

/// The longest text of a series that is kept, bytes.
const MOST_NAME_BYTES: usize = 1024;

/// What is written at once: all of it or nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// Minutes, each merged with what is there already.
    pub minutes: Vec<Minute>,
    /// Records; one of a trace and a span that is there already takes its place.
    pub records: Vec<Record>,
    /// Settings that hold from this batch on, such as its number: name and text.
    pub settings: Vec<(String, String)>,
}

impl Store {
    /// Writes a batch: all of it, or nothing and an error.
    ///
    /// Where the bound on bytes is reached, what is oldest is removed to make room. `now_ms` is the present, in
    /// milliseconds since 1970.
    ///
    /// # Errors
    /// If there is no room, or the file cannot be written. The same batch may be written again later.
    pub fn write(&mut self, batch: &Batch, now_ms: u64) -> Result<Written, StoreError> {
        let mut written = Written::default();
        match self.put(batch) {
            Err(StoreError::Full { .. }) => {
                written = self.retire(now_ms)?;
                self.put(batch)?;
            }
            put => put?,
        }
        if retention::is_due(self)? {
            let more = self.retire(now_ms)?;
            written.minutes_removed += more.minutes_removed;
            written.records_removed += more.records_removed;
        }
        Ok(written)
    }

    /// Removes what is too old, and what is oldest if the store has grown to its bound. To be called now and then, each
    /// minute for example.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn retire(&mut self, now_ms: u64) -> Result<Written, StoreError> {
        retention::retire(self, now_ms)
    }

    /// Has these views, and no others of earlier versions of the same names: name and query. They are for people who
    /// ask in SQL.
    ///
    /// # Errors
    /// If the file cannot be written, or a query cannot be understood.
    pub fn set_views(&mut self, views: &[(&str, &str)], now_ms: u64) -> Result<(), StoreError> {
        match self.put_views(views) {
            Err(StoreError::Full { .. }) => {
                self.retire(now_ms)?;
                self.put_views(views)
            }
            put => put,
        }
    }

    fn put_views(&mut self, views: &[(&str, &str)]) -> Result<(), StoreError> {
        let put = (|| {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for (name, query) in views {
                let made = format!("create view \"{name}\" as {query}");
                let known = transaction
                    .query_row("select sql from sqlite_master where type = 'view' and name = ?1", [name], |row| {
                        row.get::<_, String>(0)
                    })
                    .optional()?;
                // SQLite keeps the text as it was given, but for the first words.
                if known.is_some_and(|known| known.ends_with(query)) {
                    continue;
                }
                transaction.execute_batch(&format!("drop view if exists \"{name}\"; {made}"))?;
            }
            transaction.commit()
        })();
        put.map_err(|error| self.error(error))
    }

    fn put(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let mut record_bytes = 0;
        let put = (|| {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let mut putting = Putting::prepare(&transaction)?;
            for minute in &batch.minutes {
                putting.minute(minute)?;
            }
            for record in &batch.records {
                putting.record(record)?;
                record_bytes += record.body.len() as u64;
            }
            drop(putting);
            for (name, value) in &batch.settings {
                transaction.execute(SET, [name, value])?;
            }
            transaction.commit()
        })();
        put.map_err(|error| self.error(error))?;
        self.record_bytes += record_bytes;
        Ok(())
    }
}

/// The statements of a write, each prepared once.
struct Putting<'t> {
    find_series: Statement<'t>,
    add_series: Statement<'t>,
    find_minute: Statement<'t>,
    put_minute: Statement<'t>,
    add_record: Statement<'t>,
}

impl<'t> Putting<'t> {
    fn prepare(transaction: &'t Transaction<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            find_series: transaction.prepare("select id from series where source = ?1 and class = ?2 and user = ?3")?,
            add_series: transaction.prepare("insert into series (source, class, user) values (?1, ?2, ?3)")?,
            find_minute: transaction.prepare(
                "select good, aborted, failed, unknown, unfinished, blocked_ns, queued_ns, durations \
                 from minute where minute = ?1 and series = ?2",
            )?,
            put_minute: transaction
                .prepare("insert or replace into minute values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")?,
            add_record: transaction.prepare(
                "insert or replace into record \
                 (at_ms, series, duration_ns, outcome, trace_high, trace_low, span, bytes, body) \
                 values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?,
        })
    }

    fn minute(&mut self, minute: &Minute) -> rusqlite::Result<()> {
        let series = self.number_of(&minute.series)?;
        let at = minute.minute as i64;
        let held = self.find_minute.query_row(params![at, series], |row| fold_of(row, 0)).optional()?;
        let mut fold = minute.fold.clone();
        if let Some(held) = held {
            fold.merge(&held);
        }
        let [good, aborted, failed, unknown, unfinished] = fold.outcomes.map(|count| count as i64);
        let (blocked_ns, queued_ns) = (fold.blocked_ns as i64, fold.queued_ns as i64);
        let durations = fold.durations.to_bytes();
        let row = params![at, series, good, aborted, failed, unknown, unfinished, blocked_ns, queued_ns, durations];
        self.put_minute.execute(row)?;
        Ok(())
    }

    fn record(&mut self, record: &Record) -> rusqlite::Result<()> {
        let series = self.number_of(&record.series)?;
        let [high, low, span] = [record.trace[0], record.trace[1], record.span].map(|word| word as i64);
        let (at_ms, duration_ns, outcome) = (record.at_ms as i64, record.duration_ns as i64, record.outcome as i64);
        let bytes = record.body.len() as i64;
        self.add_record.execute(params![at_ms, series, duration_ns, outcome, high, low, span, bytes, record.body])?;
        Ok(())
    }

    /// The number of a series, which it gets at its first event.
    fn number_of(&mut self, series: &Series) -> rusqlite::Result<i64> {
        let names = [&series.source, &series.class, &series.user].map(|name| cut(name));
        match self.find_series.query_row(names, |row| row.get(0)).optional()? {
            Some(number) => Ok(number),
            None => self.add_series.insert(names),
        }
    }
}

fn cut(name: &str) -> &str {
    let most = (0..=MOST_NAME_BYTES.min(name.len())).rev().find(|at| name.is_char_boundary(*at));
    &name[..most.unwrap_or(0)]
}
