//! What servers told of themselves.

use crate::cell::{since, text};
use crate::hosts::Hosts;
use crate::names::name_of;
use crate::writer::TableWriter;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};
use std::sync::Arc;
use weir_timeline::Remarks;
use weir_trace::Sourced;

/// Remarks that are kept until they are written.
const MOST_HELD: usize = 4096;

/// Fills the table `decisions`.
pub(crate) struct Decisions<'c> {
    rows: TableWriter<'c>,
    remarks: Remarks,
    hosts: Arc<Hosts>,
    origin_ns: u64,
}

impl<'c> Decisions<'c> {
    /// Makes the table.
    pub(crate) fn new(connection: &'c Connection, origin_ns: u64, hosts: &Arc<Hosts>) -> Result<Self> {
        let rows = TableWriter::new(connection, "decisions")?;
        Ok(Self { rows, remarks: Remarks::with_room(MOST_HELD), hosts: Arc::clone(hosts), origin_ns })
    }

    /// Takes the next record.
    pub(crate) fn push(&mut self, sourced: &Sourced<'_>) -> Result<()> {
        self.remarks.push(&sourced.record, name_of(sourced).map(|name| &**name));
        if self.remarks.remarks.is_empty() { Ok(()) } else { self.tell(self.hosts.of_record(sourced)) }
    }

    fn tell(&mut self, host: Option<u32>) -> Result<()> {
        for remark in self.remarks.remarks.drain(..) {
            let at = ValueRef::Integer(since(remark.at_ns, self.origin_ns));
            self.rows.push([at, text(&remark.sort), text(&remark.text), self.hosts.name(host)])?;
        }
        Ok(())
    }
}
