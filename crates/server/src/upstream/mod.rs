//! What answers a request elsewhere: servers that are asked over HTTP, FastCGI, SCGI or uwsgi.

pub(crate) mod address;
pub(crate) mod balance;
pub(crate) mod concurrency;
pub(crate) mod health;
pub(crate) mod message;
pub(crate) mod retry;
pub(crate) mod settings;
