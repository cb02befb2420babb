//! Workloads whose shape was published: which files there are, how large they are, how often each is asked for.
//!
//! A [`FileSet`] is a rule, not a list: the path and the size of each file follow from its number, so that a set of a
//! million files takes no room. [`fileset::write`] makes its files; a [`Mix`] says how they are asked for.

pub mod crowd;
pub(crate) mod crowd_clients;
mod distribution;
pub(crate) mod draw;
pub mod fileset;
pub(crate) mod mix;
pub(crate) mod requests;
pub mod specweb96;
pub mod surge;
pub(crate) mod users;

pub use crowd::Crowd;
pub use fileset::FileSet;
pub use mix::Mix;
pub use surge::Surge;
pub use users::{BETWEEN_S, EMBEDDED, WITHIN_S};
