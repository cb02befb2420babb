//! What is known of a recording as a whole: one row, or one for each host.

use crate::cell::{text, whole};
use crate::hosts::Hosts;
use crate::writer::TableWriter;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};
use std::sync::Arc;
use weir_trace::{Damage, Entry, RunReader, Sourced};
use weir_wire::task::host_of_task;

/// Fills the table `run`.
pub(crate) struct RunRow<'c> {
    rows: TableWriter<'c>,
    hosts: Arc<Hosts>,
    /// By the hosts' numbers.
    events: Vec<u64>,
}

impl<'c> RunRow<'c> {
    /// Makes the table.
    pub(crate) fn new(connection: &'c Connection, hosts: &Arc<Hosts>) -> Result<Self> {
        let events = vec![0; hosts.names().len().max(1)];
        Ok(Self { rows: TableWriter::new(connection, "run")?, hosts: Arc::clone(hosts), events })
    }

    /// Counts the next record.
    pub(crate) fn push(&mut self, sourced: &Sourced<'_>) {
        // What tells no host of the list is of the first one.
        let host = self.hosts.of_record(sourced).unwrap_or(0) as usize;
        self.events[host] += 1;
    }

    /// Writes a row for each host.
    pub(crate) fn finish(mut self, reader: &RunReader, span_ns: (u64, u64), damage: &Damage) -> Result<()> {
        let (origin_ns, end_ns) = span_ns;
        let are_several = self.hosts.are_several();
        let (bytes, cut) = self.hosts.damaged();
        let sources = |host: u32| {
            reader.entries.iter().filter_map(move |entry| match entry {
                Entry::Source { pid, host: machine, version, rung, .. } => {
                    let is_own = !are_several || host_of_task(*pid) == host;
                    is_own.then_some((machine, version, rung.as_deref()))
                }
                _ => None,
            })
        };
        let begin_unix_ns = reader.entries.iter().find_map(|entry| match entry {
            // The times of all hosts are given by the first one's clock, whose entries come first.
            Entry::Source { monotonic_ns, realtime_ns, .. } => {
                Some(realtime_ns.saturating_add(origin_ns).saturating_sub(*monotonic_ns))
            }
            _ => None,
        });
        for (number, events) in self.events.iter().enumerate() {
            let begun = sources(number as u32).next();
            let rung = sources(number as u32).find_map(|(.., rung)| rung);
            let null = ValueRef::Null;
            let of_all = |sum: u64| if number == 0 { whole(sum) } else { null };
            self.rows.push([
                self.hosts.name(Some(number as u32)),
                begun.map_or(null, |(machine, ..)| text(&machine.kernel)),
                begun.map_or(null, |(machine, ..)| whole(machine.cpus.into())),
                begun.map_or(null, |(_, version, _)| text(version)),
                rung.map_or(null, text),
                begin_unix_ns.map_or(null, whole),
                of_all(origin_ns),
                whole((end_ns - origin_ns).saturating_add(1)),
                whole(*events),
                of_all(damage.lost),
                of_all(damage.bytes + bytes),
                of_all(damage.cut_segments + cut),
                whole(self.hosts.clock_error_ns(number)),
            ])?;
        }
        Ok(())
    }
}
