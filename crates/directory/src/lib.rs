//! What the nodes of a cluster agree on: published versions of sites, policies, nodes, and locks with epochs.
//!
//! [`Directory`] is one blocking interface. [`open_sqlite`] keeps it in one file, for the processes of one machine;
//! [`open_etcd`] keeps it in etcd, for many. Both store the same keys (see [`keys`]) through the same operations, so
//! they behave alike. Every operation has a time-out, and a lost connection is an error. Reads go on while the engine
//! is away: they return the last known value, marked as [`Known::Stale`].
//!
//! [`atoms`] keeps content by digest: it makes the manifest of a folder, stores the bytes, and exports a manifest as
//! a tree of files that a server serves. [`supervise`] starts an installed etcd and keeps it running.
//!
//! The crate knows neither HTTP servers nor how sessions move.
//!
//! # Example
//!
//! ```
//! use weir_directory::{Directory, Manifest, open_sqlite};
//! use std::time::Duration;
//!
//! let folder = tempfile::tempdir()?;
//! let directory = open_sqlite(&folder.path().join("directory.sqlite"), Duration::from_secs(5))?;
//! let version = directory.publish("shop", &Manifest::default(), None)?;
//! assert_eq!(directory.current("shop")?.into_value().expect("it was published").version, version);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agreed;
pub mod atoms;
mod directory;
mod engine;
mod error;
mod etcd;
pub mod keys;
mod known;
mod records;
mod sqlite;
pub mod supervise;
mod watch;

pub use agreed::{MANIFEST_PIECE_BYTES, POLICY_BYTES_MAX, VERSIONS_KEPT};
pub use atoms::{Digest, Manifest};
pub use directory::Directory;
pub use error::DirectoryError;
pub use etcd::{EtcdHealth, EtcdMember, EtcdMemberState, EtcdMembership, EtcdSettings, EtcdSilence, TlsFiles};
pub use known::Known;
pub use records::{Epoch, Holder, Member, Node, Policy, Publication, Status};
pub use watch::{Change, Notice, Watch};

use agreed::Agreed;
use std::path::Path;
use std::time::Duration;

/// Opens the directory in an SQLite file, which is made if it is missing; several processes of a machine may open it.
///
/// `patience` bounds how long an operation waits while another process writes.
///
/// # Errors
///
/// The file cannot be opened, or it holds something else.
pub fn open_sqlite(path: &Path, patience: Duration) -> Result<Box<dyn Directory>, DirectoryError> {
    Ok(Box::new(Agreed::new(sqlite::Sqlite::open(path, patience)?)))
}

/// Opens the directory in etcd; the servers need not answer yet.
///
/// # Errors
///
/// The settings cannot be used: no endpoint, a clear endpoint that is not of this machine, or unreadable files.
pub fn open_etcd(settings: &EtcdSettings) -> Result<Box<dyn Directory>, DirectoryError> {
    Ok(Box::new(Agreed::new(etcd::Etcd::open(settings)?)))
}
