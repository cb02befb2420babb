//! Packs: which places in known servers' programs begin which phases of their work, and which tell queries and names.
//!
//! A pack is a table and nothing else. It names functions that the server exports and static probes that it brings
//! along, so that it fits a range of versions; what a build lacks is left out with a note.
//! A mark begins a phase of the task that meets it, which lasts until its next mark: so phases have no gaps, do not
//! overlap, and cost one probe each.

mod apache;
mod choice;
mod go;
mod mariadb;
mod nginx;
mod pack;
mod php;
mod postgresql;
mod scripts;
mod weir;

pub use choice::{PACKS, PackChoice};
pub(crate) use choice::{always, fitting, of_runtimes};
pub use pack::{Entry, Pack, Place, Reads};
