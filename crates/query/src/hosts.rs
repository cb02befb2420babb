//! Which host a row is of.

use crate::cell::text;
use rusqlite::types::ValueRef;
use std::path::Path;
use weir_objects::ObjectId;
use weir_trace::{Entry, JoinedHosts, RunReader, Source, Sourced};
use weir_wire::client::host_of_client_lane;
use weir_wire::task::{host_of_lane, host_of_task};

/// The hosts of a recording: one, unless several were joined.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    names: Vec<String>,
    /// By how much their clocks may be wrong; none of a single host.
    clock_errors_ns: Vec<u64>,
    /// What of joined hosts' own runs could not be read: bytes, and segments that are cut.
    damaged: (u64, u64),
}

impl Hosts {
    /// Those of a run.
    pub(crate) fn of(run: &Path, reader: &RunReader) -> std::io::Result<Self> {
        if let Some(joined) = JoinedHosts::read(run)? {
            let damaged = (joined.damaged_bytes, joined.cut_segments);
            let (names, clock_errors_ns) =
                joined.hosts.into_iter().map(|host| (host.name, host.clock_error_ns)).unzip();
            return Ok(Self { names, clock_errors_ns, damaged });
        }
        let name = reader.entries.iter().find_map(|entry| match entry {
            Entry::Source { host, .. } => Some(host.name.clone()),
            _ => None,
        });
        let names = name.into_iter().filter(|name| !name.is_empty()).collect();
        Ok(Self { names, ..Self::default() })
    }

    /// Their names, in the order of their numbers.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// By how much a host's clock may be wrong against the first one's, nanoseconds.
    pub(crate) fn clock_error_ns(&self, host: usize) -> u64 {
        self.clock_errors_ns.get(host).copied().unwrap_or(0)
    }

    /// Bytes of joined hosts' own runs that could not be read, and segments of them that are cut.
    pub(crate) fn damaged(&self) -> (u64, u64) {
        self.damaged
    }

    /// Whether several hosts' runs were joined: else numbers tell nothing of a host.
    pub(crate) fn are_several(&self) -> bool {
        self.names.len() > 1
    }

    fn numbered(&self, host: u32) -> Option<u32> {
        // Of one host the numbers are its own, also where they have the bits that tell hosts apart.
        if self.are_several() { Some(host) } else { Some(0) }.filter(|host| (*host as usize) < self.names.len())
    }

    /// The host of a task, by its number among those of all.
    pub(crate) fn of_task(&self, pid: u32) -> Option<u32> {
        if self.are_several() && pid == 0 { None } else { self.numbered(host_of_task(pid)) }
    }

    /// The host whose recording has a record.
    pub(crate) fn of_record(&self, sourced: &Sourced<'_>) -> Option<u32> {
        let lane = sourced.record.lane;
        self.numbered(if sourced.source == Source::Client { host_of_client_lane(lane) } else { host_of_lane(lane) })
    }

    /// The host of an object whose number tells it: a task or a CPU.
    pub(crate) fn of_object(&self, class: &str, object: ObjectId) -> Option<u32> {
        let number = u32::try_from(object.number()?).ok()?;
        match class {
            "task" => self.of_task(number),
            "cpu" => self.numbered(host_of_lane(number)),
            _ => None,
        }
    }

    /// The only host; `None` where several were joined.
    pub(crate) fn only(&self) -> Option<u32> {
        if self.are_several() { None } else { self.numbered(0) }
    }

    /// A host's name as SQL has it.
    pub(crate) fn name(&self, host: Option<u32>) -> ValueRef<'_> {
        host.and_then(|host| self.names.get(host as usize)).map_or(ValueRef::Null, |name| text(name))
    }
}
