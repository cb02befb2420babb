//! The root directory: opens files below it, and no others. No path or symbolic link leads out of it.

mod calls;
mod directory;
mod opening;
pub(crate) mod place;
mod walk;

pub(crate) use directory::Root;
