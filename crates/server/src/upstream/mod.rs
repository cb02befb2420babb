//! What answers a request elsewhere: servers that are asked over HTTP, FastCGI, SCGI or uwsgi.

pub(crate) mod common;
mod gate;
pub(crate) mod group;
mod handler;
mod http1;
pub(crate) mod links;
mod message;
mod protocol;
pub(crate) mod address;
pub(crate) mod balance;
pub(crate) mod concurrency;
pub(crate) mod health;
pub(crate) mod message;
pub(crate) mod retry;
pub(crate) mod settings;
mod trouble;
pub(crate) mod fastcgi;
pub(crate) mod gateway;
pub(crate) mod scgi;
pub(crate) mod spool;
pub(crate) mod uwsgi;
