//! Reading what is kept, while another process may write.

use crate::schema::fold_of;
use crate::{Fold, Minute, Outcome, Record, Select, Series, StoreError, schema};
use rusqlite::{Connection, OptionalExtension, Row, ToSql};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A store, opened to read.
#[derive(Debug)]
pub struct Reader {
    connection: Connection,
    path: PathBuf,
}

impl Reader {
    /// Opens a store that is there.
    ///
    /// # Errors
    /// If it is not there, may not be read or is none of ours.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(Self { connection: schema::open_to_read(path)?, path: path.to_owned() })
    }

    /// A setting; `None`: it was not set.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn setting(&self, name: &str) -> Result<Option<String>, StoreError> {
        let asked = self.connection.query_row("select value from setting where name = ?1", [name], |row| row.get(0));
        asked.optional().map_err(|error| StoreError::of(&self.path, error))
    }

    /// Hands out minutes in the order of time, within one those of a series after the other, until `each` says enough
    /// (`false`). Takes the memory of one, however many there are.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn minutes(&self, select: &Select, mut each: impl FnMut(Minute) -> bool) -> Result<(), StoreError> {
        let asked = Asked::new(select, "m.minute", 60_000);
        let sql = format!(
            "select s.source, s.class, s.user, m.good, m.aborted, m.failed, m.unknown, m.unfinished, m.blocked_ns, \
             m.queued_ns, m.durations, m.minute from minute m join series s on s.id = m.series {} order by m.minute, m.series",
            asked.condition
        );
        self.each(&sql, &asked, |row| {
            let minute = row.get::<_, i64>(11)? as u64;
            Ok(each(Minute { minute, series: series_of(row)?, fold: fold_of(row, 3)? }))
        })
    }

    /// All minutes that were asked for, merged by what `by` makes of their series; bounded by the number of different
    /// ones.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn summed<K: Ord>(&self, select: &Select, by: impl Fn(&Series) -> K) -> Result<BTreeMap<K, Fold>, StoreError> {
        let mut sums: BTreeMap<K, Fold> = BTreeMap::new();
        self.minutes(select, |minute| {
            sums.entry(by(&minute.series)).or_default().merge(&minute.fold);
            true
        })?;
        Ok(sums)
    }

    /// The latest records, the newest first.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn records(&self, select: &Select, most: usize) -> Result<Vec<Record>, StoreError> {
        let asked = Asked::new(select, "r.at_ms", 1);
        let sql = format!("{RECORD} {} order by r.at_ms desc, r.id desc", asked.condition);
        let mut records = Vec::new();
        self.each(&sql, &asked, |row| {
            if records.len() < most {
                records.push(record_of(row)?);
            }
            Ok(records.len() < most)
        })?;
        Ok(records)
    }

    /// The records of a trace in the order of their ends, at most so many.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn trace(&self, trace: [u64; 2], most: usize) -> Result<Vec<Record>, StoreError> {
        self.found("r.trace_high = ?2 and r.trace_low = ?3", &[trace[0], trace[1]], most)
    }

    /// The records of events of a number within their trace, of any trace, at most so many.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn span(&self, span: u64, most: usize) -> Result<Vec<Record>, StoreError> {
        self.found("r.span = ?2", &[span], most)
    }

    fn found(&self, condition: &str, words: &[u64], most: usize) -> Result<Vec<Record>, StoreError> {
        let sql = format!("{RECORD} where {condition} order by r.at_ms, r.id limit ?1");
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let values = std::iter::once(most).chain(words.iter().map(|word| *word as i64));
        let asked = Asked { condition: String::new(), values: values.map(|value| Box::new(value) as _).collect() };
        let mut records = Vec::new();
        self.each(&sql, &asked, |row| {
            records.push(record_of(row)?);
            Ok(true)
        })?;
        Ok(records)
    }

    fn each(
        &self,
        sql: &str,
        asked: &Asked,
        mut row: impl FnMut(&Row<'_>) -> rusqlite::Result<bool>,
    ) -> Result<(), StoreError> {
        let read = (|| {
            let mut query = self.connection.prepare(sql)?;
            let mut rows = query.query(rusqlite::params_from_iter(&asked.values))?;
            while let Some(next) = rows.next()? {
                if !row(next)? {
                    break;
                }
            }
            Ok(())
        })();
        read.map_err(|error| StoreError::of(&self.path, error))
    }
}

const RECORD: &str = "select s.source, s.class, s.user, r.at_ms, r.duration_ns, r.outcome, r.trace_high, r.trace_low, \
                      r.span, r.body from record r join series s on s.id = r.series";

/// A selection as a condition of SQL, and the values in it.
struct Asked {
    condition: String,
    values: Vec<Box<dyn ToSql>>,
}

impl Asked {
    /// `unit_ms` is what the column of time counts in.
    fn new(select: &Select, time: &str, unit_ms: u64) -> Self {
        let mut asked = Self { condition: String::new(), values: Vec::new() };
        if let Some(from) = select.from_ms {
            asked.and(&format!("{time} >="), (from / unit_ms) as i64);
        }
        if let Some(to) = select.to_ms {
            asked.and(&format!("{time} <"), to.div_ceil(unit_ms) as i64);
        }
        for (column, name) in [("s.source", &select.source), ("s.class", &select.class), ("s.user", &select.user)] {
            if let Some(name) = name {
                asked.and(&format!("{column} ="), name.clone());
            }
        }
        asked
    }

    fn and(&mut self, condition: &str, value: impl ToSql + 'static) {
        self.values.push(Box::new(value));
        let joint = if self.values.len() == 1 { "where" } else { " and" };
        self.condition.push_str(&format!("{joint} {condition} ?{}", self.values.len()));
    }
}

fn series_of(row: &Row<'_>) -> rusqlite::Result<Series> {
    Ok(Series { source: row.get(0)?, class: row.get(1)?, user: row.get(2)? })
}

fn record_of(row: &Row<'_>) -> rusqlite::Result<Record> {
    let word = |column| row.get::<_, i64>(column).map(|number| number as u64);
    Ok(Record {
        series: series_of(row)?,
        at_ms: word(3)?,
        duration_ns: word(4)?,
        outcome: Outcome::of_code(row.get(5)?),
        trace: [word(6)?, word(7)?],
        span: word(8)?,
        body: row.get(9)?,
    })
}
