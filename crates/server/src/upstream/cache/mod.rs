//! A shared cache of responses (RFC 9111) between routing and the handlers of upstreams.
//!
//! `control` parses fields, `freshness` decides what may be stored and reused, `validators` compares and updates,
//! `store` keeps, `collapse` makes one request of many, and `lookup` and `fetch` are what a handler drives. No module
//! reads a clock or a socket.

pub(crate) mod answer;
pub(crate) mod collapse;
pub(crate) mod control;
pub(crate) mod disk;
pub(crate) mod eviction;
pub(crate) mod fetch;
pub(crate) mod freshness;
pub(crate) mod key;
pub(crate) mod lookup;
pub(crate) mod meter;
pub(crate) mod rules;
pub(crate) mod shared;
pub(crate) mod store;
pub(crate) mod stored;
#[cfg(test)]
mod tests;
pub(crate) mod uncacheable;
pub(crate) mod validators;
pub(crate) mod writing;
