//! What is known of a recording as a whole: one row.

use crate::cell::{text, whole};
use crate::writer::TableWriter;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};
use weir_trace::{Damage, Entry, RunReader};

/// Fills the table `run`.
pub(crate) struct RunRow<'c> {
    rows: TableWriter<'c>,
    events: u64,
}

impl<'c> RunRow<'c> {
    /// Makes the table.
    pub(crate) fn new(connection: &'c Connection) -> Result<Self> {
        Ok(Self { rows: TableWriter::new(connection, "run")?, events: 0 })
    }

    /// Counts the next record.
    pub(crate) fn push(&mut self) {
        self.events += 1;
    }

    /// Writes the row.
    pub(crate) fn finish(mut self, reader: &RunReader, span_ns: (u64, u64), damage: &Damage) -> Result<()> {
        let (origin_ns, end_ns) = span_ns;
        let begun = reader.entries.iter().find_map(|entry| match entry {
            Entry::Source { host, version, monotonic_ns, realtime_ns, .. } => {
                let begin_unix_ns = realtime_ns.saturating_add(origin_ns).saturating_sub(*monotonic_ns);
                Some((host, version, begin_unix_ns))
            }
            _ => None,
        });
        let null = ValueRef::Null;
        self.rows.push([
            begun.map_or(null, |(host, ..)| text(&host.name)),
            begun.map_or(null, |(host, ..)| text(&host.kernel)),
            begun.map_or(null, |(host, ..)| whole(host.cpus.into())),
            begun.map_or(null, |(_, version, _)| text(version)),
            reader.rung().map_or(null, text),
            begun.map_or(null, |(.., begin_unix_ns)| whole(begin_unix_ns)),
            whole(origin_ns),
            whole((end_ns - origin_ns).saturating_add(1)),
            whole(self.events),
            whole(damage.lost),
            whole(damage.bytes),
            whole(damage.cut_segments),
        ])
    }
}
