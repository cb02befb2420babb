//! How the server confines itself once all that it needs is open: it gives up the rights of root, all files but those
//! that it serves, reads again and writes, and all system calls but those that it makes.
//!
//! It does so before it starts the first thread, because the confinement holds for the calling thread and all threads
//! that it starts later. It cannot be undone.

mod confinement;
mod filter;
mod landlock;
mod paths;
mod privileges;
mod releases;
mod script_server;

pub(crate) use confinement::Confinement;
pub(crate) use paths::make_arm_folder;
pub use script_server::confine_script_server;
