//! A response on its way: what it is, how it is sent, how a request's body is passed over.

pub(crate) mod drain;
pub(crate) mod error_page;
pub(crate) mod eviction;
pub(crate) mod goaway;
pub(crate) mod outgoing;
pub(crate) mod send;
