//! Raw tables as virtual tables of SQLite: rows are read from the segments while a question is answered.

use crate::cell::owned;
use crate::derived::Recording;
use crate::error::QueryError;
use crate::hosts::Hosts;
use crate::progress::{Progress, Watch};
use crate::raw::{Decode, decoder};
use crate::schema::{Origin, Table};
use rusqlite::types::{Value, ValueRef};
use rusqlite::vtab::{
    Context, Filters, IndexConstraintOp, IndexInfo, VTab, VTabConnection, VTabCursor, eponymous_only_module,
    sqlite3_vtab, sqlite3_vtab_cursor,
};
use rusqlite::{Connection, Error, Result, ffi};
use std::ffi::c_int;
use std::fs::File;
use std::io::Take;
use std::rc::Rc;
use std::sync::Arc;
use weir_tiles::Places;
use weir_trace::Merge;

/// Rows that are read at a time.
const BATCH: usize = 1024;
/// Records between two looks at whether to go on.
const LOOK: u64 = 1 << 16;
/// Bits of the plan's number, in the order in which their arguments come.
const FROM: c_int = 1;
const TO: c_int = 2;

/// A raw table of a run.
pub(crate) struct RawTable {
    table: &'static Table,
    decode: Decode,
    /// The column that chooses the blocks.
    time_column: c_int,
    places: Arc<Places>,
    span_ns: (u64, u64),
    hosts: Arc<Hosts>,
    watch: Watch,
}

/// Adds the raw tables of a run to a connection.
pub(crate) fn add(
    connection: &Connection,
    tables: &'static [Table],
    places: &Arc<Places>,
    recording: &Recording,
    watch: &Watch,
) -> Result<()> {
    for table in tables {
        let Origin::Raw(time) = table.origin else { continue };
        let decode = decoder(table.name).ok_or_else(|| Error::ModuleError(format!("{} has no decoder", table.name)))?;
        let time_column = table.columns.iter().position(|column| column.name == time).unwrap_or(0) as c_int;
        let (span_ns, hosts) = (recording.span_ns, Arc::clone(&recording.hosts));
        let (places, watch) = (Arc::clone(places), Arc::clone(watch));
        let raw = RawTable { table, decode, time_column, places, span_ns, hosts, watch };
        connection.create_module(table.name, eponymous_only_module::<Stream>(), Some(Rc::new(raw)))?;
    }
    Ok(())
}

#[repr(C)]
struct Stream {
    /// SQLite's own part, which must come first.
    base: sqlite3_vtab,
    raw: Rc<RawTable>,
}

// SAFETY: SQLite's part is the first field of a struct with C's layout, as the trait demands.
unsafe impl<'vtab> VTab<'vtab> for Stream {
    type Aux = Rc<RawTable>;
    type Cursor = Rows;

    fn connect(_: &mut VTabConnection, aux: Option<&Self::Aux>, _: &[&[u8]]) -> Result<(String, Self)> {
        let raw = aux.ok_or_else(|| Error::ModuleError("a raw table without its run".to_owned()))?;
        Ok((raw.table.declaration(), Self { base: sqlite3_vtab::default(), raw: Rc::clone(raw) }))
    }

    /// Takes one bound of time from below and one from above; SQLite checks each row again.
    fn best_index(&self, info: &mut IndexInfo) -> Result<()> {
        let (mut from, mut to) = (None, None);
        for (index, constraint) in info.constraints().enumerate() {
            if constraint.column() != self.raw.time_column || !constraint.is_usable() {
                continue;
            }
            match constraint.operator() {
                IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_GT | IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_GE => {
                    from = Some(index);
                }
                IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_LT | IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_LE => {
                    to = Some(index);
                }
                IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ => (from, to) = (Some(index), Some(index)),
                _ => {}
            }
        }
        // Of an equality one argument is both bounds.
        let same = from.is_some() && from == to;
        let mut plan = 0;
        let mut arguments = 0;
        for (bound, bit) in [(from, FROM), (to.filter(|_| !same), TO)] {
            if let Some(index) = bound {
                arguments += 1;
                info.constraint_usage(index).set_argv_index(arguments);
                plan |= bit;
            }
        }
        if same {
            plan = FROM | TO | 4;
        }
        let all = self.raw.places.records(0, u64::MAX);
        let share = [1, 2, 2, 20][(plan & 3) as usize];
        info.set_idx_num(plan);
        info.set_estimated_rows(i64::try_from(all / share).unwrap_or(i64::MAX).max(1));
        info.set_estimated_cost(all as f64 / share as f64);
        Ok(())
    }

    fn open(&'vtab mut self) -> Result<Rows> {
        Ok(Rows {
            base: sqlite3_vtab_cursor::default(),
            raw: Rc::clone(&self.raw),
            merge: None,
            window_ns: (0, 0),
            values: Vec::new(),
            row: 0,
            rows: 0,
            number: 0,
            looked: 0,
        })
    }
}

#[repr(C)]
struct Rows {
    /// SQLite's own part, which must come first.
    base: sqlite3_vtab_cursor,
    raw: Rc<RawTable>,
    merge: Option<Merge<Take<File>>>,
    /// The times that are asked for, nanoseconds by the recording's clock, both included.
    window_ns: (u64, u64),
    /// The values of the rows that were read, one row behind the other.
    values: Vec<Value>,
    /// The row among these, and how many there are.
    row: usize,
    rows: usize,
    number: i64,
    /// Records that were read so far.
    looked: u64,
}

impl Rows {
    /// Reads the next rows.
    fn fill(&mut self) -> Result<()> {
        let Self { raw, merge, window_ns, values, looked, .. } = self;
        let (from_ns, to_ns) = *window_ns;
        values.clear();
        let (mut rows, mut stopped) = (0, false);
        if let Some(merge) = merge {
            merge.each(|sourced| {
                *looked += 1;
                if looked.is_multiple_of(LOOK) && !(raw.watch)(Progress::Asking { events: *looked }) {
                    stopped = true;
                    return false;
                }
                let within = (from_ns..=to_ns).contains(&sourced.record.time_ns);
                if within && (raw.decode)(&sourced, raw.span_ns.0, values) {
                    values.push(owned(raw.hosts.name(raw.hosts.of_record(&sourced))));
                    rows += 1;
                }
                rows < BATCH
            });
        }
        (self.row, self.rows) = (0, rows);
        if stopped { Err(interrupted()) } else { Ok(()) }
    }
}

/// What SQLite returns where a question was stopped.
fn interrupted() -> Error {
    Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_INTERRUPT), Some(QueryError::Stopped.to_string()))
}

/// A bound as the recording's clock has it; `None` where the argument bounds nothing, such as a text.
fn bound(value: ValueRef<'_>, origin_ns: u64, up: bool) -> Option<u64> {
    let ns = match value {
        ValueRef::Integer(ns) => i128::from(ns),
        ValueRef::Real(ns) if ns.is_finite() => (if up { ns.ceil() } else { ns.floor() }) as i128,
        _ => return None,
    };
    let ns = ns.saturating_add(i128::from(origin_ns));
    Some(u64::try_from(ns).unwrap_or(if ns < 0 { 0 } else { u64::MAX }))
}

// SAFETY: SQLite's part is the first field of a struct with C's layout, as the trait demands.
unsafe impl VTabCursor for Rows {
    fn filter(&mut self, plan: c_int, _: Option<&str>, arguments: &Filters<'_>) -> Result<()> {
        let (origin_ns, end_ns) = self.raw.span_ns;
        let mut window_ns = (origin_ns, end_ns);
        let mut values = arguments.iter();
        if plan == FROM | TO | 4 {
            let value = values.next().unwrap_or(ValueRef::Null);
            window_ns.0 = bound(value, origin_ns, false).unwrap_or(origin_ns).max(origin_ns);
            window_ns.1 = bound(value, origin_ns, true).unwrap_or(end_ns).min(end_ns);
        } else {
            if plan & FROM != 0 {
                let value = values.next().unwrap_or(ValueRef::Null);
                window_ns.0 = bound(value, origin_ns, false).unwrap_or(origin_ns).max(origin_ns);
            }
            if plan & TO != 0 {
                let value = values.next().unwrap_or(ValueRef::Null);
                window_ns.1 = bound(value, origin_ns, true).unwrap_or(end_ns).min(end_ns);
            }
        }
        (self.window_ns, self.number) = (window_ns, 0);
        let merge = self.raw.places.window(window_ns.0, window_ns.1, window_ns.1);
        self.merge = Some(merge.map_err(|error| Error::ModuleError(error.to_string()))?);
        self.fill()
    }

    fn next(&mut self) -> Result<()> {
        self.row += 1;
        self.number += 1;
        if self.row < self.rows { Ok(()) } else { self.fill() }
    }

    fn eof(&self) -> bool {
        self.row >= self.rows
    }

    fn column(&self, context: &mut Context, column: c_int) -> Result<()> {
        let columns = self.raw.table.columns.len();
        let value = usize::try_from(column).ok().and_then(|column| self.values.get(self.row * columns + column));
        context.set_result(value.unwrap_or(&Value::Null))
    }

    fn rowid(&self) -> Result<i64> {
        Ok(self.number)
    }
}
