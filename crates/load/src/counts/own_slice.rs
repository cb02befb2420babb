//! What a loop did in an interval, on its way to another host.

use crate::carried::{Carried, CarriedError, Reader};
use crate::counts::packed::Packed;
use crate::counts::series::{Counts, Series, Slice, Strain};

/// The most connections that a slice opens or closes.
const CONNECTIONS_MAX: i64 = 1_000_000;

/// A slice that goes to another host.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnSlice {
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) counts: Counts,
    pub(crate) latency: Packed,
    pub(crate) connections: i64,
    pub(crate) strain: Strain,
}

impl Slice<'_> {
    /// The same without what it borrows.
    pub(crate) fn owned(&self) -> OwnSlice {
        OwnSlice {
            begin_ns: self.begin_ns,
            end_ns: self.end_ns,
            counts: self.counts,
            latency: Packed::of(self.latency),
            connections: self.connections,
            strain: self.strain,
        }
    }
}

impl Series {
    /// Adds what a loop on another host handed out.
    pub(crate) fn add_own(&mut self, slice: &OwnSlice) {
        self.add(&Slice {
            begin_ns: slice.begin_ns,
            end_ns: slice.end_ns,
            counts: slice.counts,
            latency: &slice.latency.histogram(),
            connections: slice.connections,
            strain: slice.strain,
        });
    }
}

impl Carried for OwnSlice {
    fn put(&self, to: &mut Vec<u8>) {
        self.begin_ns.put(to);
        self.end_ns.put(to);
        self.counts.put(to);
        self.latency.put(to);
        self.connections.put(to);
        self.strain.put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CarriedError> {
        let slice = Self {
            begin_ns: Carried::take(from)?,
            end_ns: Carried::take(from)?,
            counts: Carried::take(from)?,
            latency: Carried::take(from)?,
            connections: Carried::take(from)?,
            strain: Carried::take(from)?,
        };
        let wrong = |what| Err(CarriedError::Contradiction { what });
        if slice.begin_ns > slice.end_ns {
            return wrong("an interval ends before it begins");
        }
        if slice.counts.unexpected > slice.counts.requests || slice.latency.len() != slice.counts.successes() {
            return wrong("the latencies of an interval are not those of its successes");
        }
        if slice.connections.abs() > CONNECTIONS_MAX {
            return wrong("an interval opens or closes more connections than a run has");
        }
        Ok(slice)
    }
}
