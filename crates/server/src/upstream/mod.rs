//! What answers a request elsewhere: servers that are asked over HTTP, FastCGI, SCGI or uwsgi.

pub(crate) mod address;
mod attempt;
pub(crate) mod background;
pub(crate) mod balance;
pub(crate) mod cache;
pub(crate) mod cached;
pub(crate) mod cached_hit;
pub(crate) mod common;
pub(crate) mod concurrency;
pub(crate) mod context;
mod entrance;
pub(crate) mod fastcgi;
mod fetching;
mod gate;
pub(crate) mod gateway;
pub(crate) mod group;
mod handler;
pub(crate) mod health;
mod http1;
pub(crate) mod links;
mod message;
mod owned_head;
mod probe;
mod probing;
mod protocol;
pub(crate) mod retry;
pub(crate) mod scgi;
pub(crate) mod scripts;
pub(crate) mod settings;
mod trouble;
pub(crate) mod uwsgi;

pub(crate) use probe::PROBES_MAX;
