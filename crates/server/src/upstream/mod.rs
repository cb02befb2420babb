//! What answers a request elsewhere: servers that are asked over HTTP, FastCGI, SCGI or uwsgi.

#![expect(dead_code, reason = "wired by the handler")]

pub(crate) mod http1;
pub(crate) mod message;
pub(crate) mod settings;
