//! What tells a changed file from an unchanged one.

use crate::files::digest::digest_of;
use crate::http::response::{Digest, ResourceId};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What tells a changed file from an unchanged one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Stamp {
    pub(super) id: ResourceId,
    /// Changes with every write, even if a program sets the modification time back.
    ctime_ns: i64,
}

impl Stamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        let ns = |seconds: i64, ns: i64| seconds.saturating_mul(1_000_000_000).saturating_add(ns);
        Self {
            id: ResourceId {
                dev: metadata.dev(),
                ino: metadata.ino(),
                mtime_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
                size: metadata.size(),
            },
            ctime_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Bytes of the file.
    pub(crate) fn size(self) -> u64 {
        self.id.size
    }

    /// Whether it is of content of this identity.
    pub(crate) fn is_of(self, id: ResourceId) -> bool {
        self.id == id
    }

    pub(crate) fn ctime_ns(self) -> i64 {
        self.ctime_ns
    }

    pub(crate) fn mtime_ns(self) -> i64 {
        self.id.mtime_ns
    }

    /// Names the content of a file that is too large to be read for it: a hash of the inode and the times of change,
    /// from which no client can read the inode back. A copy, a restored archive or `touch` cannot set the time of the
    /// last change of status back.
    pub(super) fn digest(self) -> Digest {
        let ResourceId { dev, ino, mtime_ns, size } = self.id;
        let numbers = [dev, ino, mtime_ns.cast_unsigned(), size, self.ctime_ns.cast_unsigned()];
        digest_of(&numbers.map(u64::to_le_bytes).concat())
    }

    /// Whether the content came into its place after the time that it claims to be of, so that this time is no strong
    /// validator (RFC 9110 section 8.8.2.2).
    pub(crate) fn is_backdated(self) -> bool {
        const NS_PER_S: i64 = 1_000_000_000;
        self.ctime_ns.div_euclid(NS_PER_S) > self.id.mtime_ns.div_euclid(NS_PER_S)
    }

    /// Whether the file was changed so shortly ago that another change could leave the same stamp.
    pub(crate) fn is_ambiguous(self, within: Duration) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(self.ctime_ns()).is_ok_and(|changed_ns| now < Duration::from_nanos(changed_ns) + within)
    }
}
