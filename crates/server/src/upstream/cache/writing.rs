//! A body on its way into the cache, while it also goes to the client.

use super::disk::{Disk, Growing};
use super::meter::{Hold, Meter};
use super::stored::{Body, MemoryBody};
use std::sync::Arc;

/// Bytes by which the memory of a body grows at least whose length is not known.
const GROWTH_BYTES_MIN: usize = 16 << 10;

/// Why a body is kept no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GaveUp {
    /// It is larger than the settings allow, or there is no room now.
    NoRoom,
    /// The disk refuses it.
    Disk,
}

/// Where bodies go, and how large they may be.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) memory: Arc<Meter>,
    /// Bytes of the largest body in memory.
    pub(crate) memory_object: u64,
    pub(crate) disk: Option<Disk>,
    /// Bytes of the largest body of all.
    pub(crate) object: u64,
}

/// A body that is being written.
#[derive(Debug)]
pub(crate) enum BodyWriter {
    Memory { bytes: Vec<u8>, hold: Hold },
    Disk(Growing),
}

impl BodyWriter {
    /// Begins a body of this length, if it is known.
    pub(crate) fn begin(length: Option<u64>, places: &Places) -> Result<Self, GaveUp> {
        let mut hold = Hold::new(&places.memory);
        let Some(length) = length else { return Ok(Self::Memory { bytes: Vec::new(), hold }) };
        if length > places.object {
            return Err(GaveUp::NoRoom);
        }
        if length > places.memory_object {
            let disk = places.disk.as_ref().ok_or(GaveUp::NoRoom)?;
            return disk.create().map(Self::Disk).map_err(|_| GaveUp::Disk);
        }
        let mut bytes = Vec::new();
        let is_there = hold.grow(length) && bytes.try_reserve_exact(length as usize).is_ok();
        if is_there { Ok(Self::Memory { bytes, hold }) } else { Err(GaveUp::NoRoom) }
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Memory { bytes, .. } => bytes.len() as u64,
            Self::Disk(growing) => growing.bytes(),
        }
    }

    /// Appends. A body that becomes too large for memory moves to the disk.
    pub(crate) fn write(&mut self, more: &[u8], places: &Places) -> Result<(), GaveUp> {
        let total = self.bytes().saturating_add(more.len() as u64);
        if total > places.object {
            return Err(GaveUp::NoRoom);
        }
        if let Self::Memory { bytes, hold } = self {
            if total <= places.memory_object {
                return append(bytes, hold, more, places.memory_object as usize);
            }
            let disk = places.disk.as_ref().ok_or(GaveUp::NoRoom)?;
            let mut growing = disk.create().map_err(|_| GaveUp::Disk)?;
            growing.write(bytes).map_err(|_| GaveUp::Disk)?;
            *self = Self::Disk(growing);
        }
        if let Self::Disk(growing) = self {
            growing.write(more).map_err(|_| GaveUp::Disk)?;
        }
        Ok(())
    }

    /// The whole body.
    pub(crate) fn finish(self) -> Result<Body, GaveUp> {
        match self {
            Self::Memory { bytes, mut hold } => {
                hold.shrink_to(bytes.len() as u64);
                Ok(Body::Memory(Arc::new(MemoryBody { bytes: bytes.into_boxed_slice(), _hold: hold })))
            }
            Self::Disk(growing) => growing.finish().map(|body| Body::Disk(Arc::new(body))).map_err(|_| GaveUp::Disk),
        }
    }
}

/// Appends to a body in memory; the capacity is what is counted.
fn append(bytes: &mut Vec<u8>, hold: &mut Hold, more: &[u8], most: usize) -> Result<(), GaveUp> {
    let needed = bytes.len() + more.len();
    if needed as u64 > hold.bytes() {
        let capacity = needed.max((bytes.len() * 2).max(GROWTH_BYTES_MIN).min(most));
        if !hold.grow(capacity as u64 - hold.bytes()) || bytes.try_reserve_exact(capacity - bytes.len()).is_err() {
            return Err(GaveUp::NoRoom);
        }
    }
    bytes.extend_from_slice(more);
    Ok(())
}
