//! The admin page and its status, for people and programs: at a separate address, answered by a separate thread, and
//! only if the options ask for it. The mode of a Unix socket admits its owner only; over TCP every request needs a
//! token, except those for the pages themselves, which hold no figures.

mod adaptation;
mod address;
mod answer;
pub(crate) mod connected;
pub(crate) mod former;
mod history;
mod metrics;
mod pages;
mod process;
mod questions;
pub(crate) mod reloads;
pub(crate) mod response_cache;
mod rights;
mod status;
mod teller;
mod times;
mod visitors;

pub use address::{Admin, AdminError, AdminToken};
pub use pages::{AdminDoor, AdminPages, AdminSocket, AdminVisit};
pub(crate) use process::Process;
pub use rights::{AdminRights, UnknownAdminRight};
pub(crate) use status::View;
pub use teller::Teller;
pub(crate) use visitors::{AdminServer, AdminThread};
