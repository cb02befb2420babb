//! What answers a request elsewhere: servers that are asked over HTTP, FastCGI, SCGI or uwsgi.

pub(crate) mod fastcgi;
pub(crate) mod gateway;
pub(crate) mod message;
pub(crate) mod scgi;
pub(crate) mod settings;
pub(crate) mod spool;
pub(crate) mod uwsgi;
