//! What answers a request elsewhere: servers that are asked over HTTP, FastCGI, SCGI or uwsgi.

pub(crate) mod cache;
pub(crate) mod message;
pub(crate) mod settings;
