//! The admin page and its status, for people and programs: at a separate address, answered by a separate thread, and
//! only if the options ask for it. The mode of a Unix socket admits its owner only; over TCP every request needs a
//! token, except the one for the page itself, which holds no figures.

mod adaptation;
mod address;
mod answer;
pub(crate) mod connected;
pub(crate) mod former;
mod history;
mod metrics;
mod process;
mod questions;
pub(crate) mod reloads;
pub(crate) mod response_cache;
mod rights;
mod status;
mod teller;
mod visitors;

pub use address::{Admin, AdminError, AdminToken};
pub(crate) use process::Process;
pub use rights::{AdminRights, UnknownAdminRight};
pub(crate) use status::View;
pub use teller::Teller;
pub(crate) use visitors::{AdminServer, AdminThread};
