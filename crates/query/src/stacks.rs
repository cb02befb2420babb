//! Sampled stacks.

use crate::cell::{since, text, whole};
use crate::hosts::Hosts;
use crate::names::Names;
use crate::writer::TableWriter;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};
use std::sync::Arc;
use weir_timeline::Stacks;
use weir_trace::{Source, Sourced};
use weir_wire::stack::StackSample;

/// Samples whose names of functions are still to come; the oldest are told as they are then.
const MOST_HELD: usize = 1 << 20;

/// Fills the table `samples`.
pub(crate) struct Samples<'c> {
    rows: TableWriter<'c>,
    stacks: Stacks,
    names: Names,
    /// A function's name may be told after its sample.
    held: Vec<(StackSample, u32)>,
    hosts: Arc<Hosts>,
    origin_ns: u64,
}

impl<'c> Samples<'c> {
    /// Makes the table.
    pub(crate) fn new(connection: &'c Connection, origin_ns: u64, hosts: &Arc<Hosts>) -> Result<Self> {
        let rows = TableWriter::new(connection, "samples")?;
        let (stacks, names, hosts) = (Stacks::default(), Names::default(), Arc::clone(hosts));
        Ok(Self { rows, stacks, names, held: Vec::new(), hosts, origin_ns })
    }

    /// Takes the next record.
    pub(crate) fn push(&mut self, sourced: &Sourced<'_>) -> Result<()> {
        let record = &sourced.record;
        if sourced.source == Source::Kernel {
            self.names.push(record, sourced.payload);
        }
        self.stacks.push(record, sourced.payload);
        if let Some(sample) = StackSample::read(record, sourced.payload) {
            self.held.push((sample, self.stacks.number(sample.node)));
            if self.held.len() >= MOST_HELD {
                self.tell()?;
            }
        }
        Ok(())
    }

    /// Tells of the rest.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.tell()
    }

    fn tell(&mut self) -> Result<()> {
        for (sample, number) in std::mem::take(&mut self.held) {
            let frames = self.stacks.frames(number);
            let name = self.names.of(sample.pid);
            self.rows.push([
                ValueRef::Integer(since(sample.at_ns, self.origin_ns)),
                ValueRef::Integer(sample.pid.into()),
                name.map_or(ValueRef::Null, |name| text(&name.name)),
                text(if sample.blocked { "blocked" } else { "running" }),
                whole(sample.weight_ns),
                text(frames.last().map_or("", |frame| frame)),
                text(&frames.join(";")),
                self.hosts.name(self.hosts.of_task(sample.pid)),
            ])?;
        }
        Ok(())
    }
}
