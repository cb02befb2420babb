//! What answers a request elsewhere: servers that are asked over HTTP, FastCGI, SCGI or uwsgi.

pub(crate) mod links;
pub(crate) mod message;
pub(crate) mod settings;
