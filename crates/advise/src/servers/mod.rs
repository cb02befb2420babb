//! The servers behind an explanation: which processes they are, and what their configuration says.

mod apache;
mod ask;
mod cgroup;
mod found;
mod kind;
mod linked;
mod nginx;
mod php_fpm;
mod postgres;
mod process;
mod roots;
mod server;

pub(crate) use cgroup::{Quota, quota, unit};
pub(crate) use found::{Servers, find};
pub(crate) use kind::Kind;
pub(crate) use linked::{Address, addresses, listens};
pub(crate) use php_fpm::Ini;
pub(crate) use process::{Process, answers_names, available_bytes, is_real_time, resident_bytes};
pub(crate) use server::Server;
