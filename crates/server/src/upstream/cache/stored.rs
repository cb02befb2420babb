//! A stored response.

use super::disk::DiskBody;
use super::freshness::Freshness;
use super::key::Selecting;
use super::meter::Hold;
use super::validators::Validators;
use crate::exchange::life::StoredBody;
use crate::http::field_lines::lines;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Bytes that a stored response counts beside its key, fields and body: this structure, its places in tables and queues,
/// what the allocator adds.
pub(crate) const ENTRY_BYTES: u64 = 512;
/// Uses that are counted: S3-FIFO needs no more than two bits.
const USES_MAX: u8 = 3;

/// A body in memory, counted as long as it lives.
#[derive(Debug)]
pub(crate) struct MemoryBody {
    pub(crate) bytes: Box<[u8]>,
    pub(crate) _hold: Hold,
}

impl StoredBody for MemoryBody {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Where a body is; copies share it.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    Memory(Arc<MemoryBody>),
    Disk(Arc<DiskBody>),
}

impl Body {
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Memory(body) => body.bytes.len() as u64,
            Self::Disk(body) => body.bytes(),
        }
    }
}

/// A stored response to GET. It does not change; one that is freshened takes its place.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) hash: u64,
    pub(crate) key: Arc<[u8]>,
    pub(crate) selecting: Selecting,
    pub(crate) status: u16,
    /// Whether its fields say what has made it.
    pub(crate) names_server: bool,
    /// Lines of fields, with Date and without Age.
    pub(crate) fields: Box<[u8]>,
    pub(crate) body: Body,
    pub(crate) freshness: Freshness,
    /// When it was made, in seconds since 1970.
    pub(crate) date_s: u64,
    /// Counts [`Self::head_bytes`].
    pub(crate) _hold: Hold,
    pub(crate) life: Life,
}

/// What of a stored response changes.
#[derive(Debug, Default)]
pub(crate) struct Life {
    uses: AtomicU8,
    is_retired: AtomicBool,
    /// It stands in the main queue; written under the lock of its shard.
    pub(super) is_in_main: AtomicBool,
}

impl Life {
    /// Counts a use. A response that is used much is only read.
    pub(crate) fn add_use(&self) {
        let uses = self.uses.load(Ordering::Relaxed);
        if uses < USES_MAX {
            self.uses.store(uses + 1, Ordering::Relaxed);
        }
    }

    pub(crate) fn uses(&self) -> u8 {
        self.uses.load(Ordering::Relaxed)
    }

    pub(super) fn take_use(&self) {
        self.uses.store(self.uses().saturating_sub(1), Ordering::Relaxed);
    }

    pub(super) fn retire(&self) {
        self.is_retired.store(true, Ordering::Release);
    }

    /// It is in the cache no more.
    pub(crate) fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Acquire)
    }
}

impl Stored {
    pub(crate) fn validators(&self) -> Validators<'_> {
        Validators::of(&self.fields, self.date_s)
    }

    /// A response with other fields and the same body that is not in the cache, for one answer.
    pub(crate) fn apart(old: &Self, fields: Vec<u8>, freshness: Freshness, hold: Hold) -> Self {
        let life = Life::default();
        life.retire();
        Self {
            hash: old.hash,
            key: Arc::clone(&old.key),
            selecting: old.selecting.clone(),
            status: old.status,
            names_server: names_server(&fields),
            fields: fields.into(),
            body: old.body.clone(),
            freshness,
            date_s: old.date_s,
            _hold: hold,
            life,
        }
    }

    /// Bytes of memory without a body.
    pub(crate) fn head_bytes(&self) -> u64 {
        head_bytes(&self.key, &self.fields, &self.selecting)
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.head_bytes() + if let Body::Memory(body) = &self.body { body.bytes.len() as u64 } else { 0 }
    }
}

/// Whether lines of fields have Server.
pub(crate) fn names_server(fields: &[u8]) -> bool {
    lines(fields).any(|(name, _)| name.eq_ignore_ascii_case(b"server"))
}

/// Bytes of memory that a stored response takes without its body.
pub(crate) fn head_bytes(key: &[u8], fields: &[u8], selecting: &Selecting) -> u64 {
    let names: usize = selecting.names.iter().map(|name| name.len() + 16).sum();
    (key.len() + fields.len() + selecting.values.len() + names) as u64 + ENTRY_BYTES
}
