//! Calls of gRPC: which methods there are, their messages as bytes, and what comes of one call. No socket, no clock.
//!
//! `schema` and `method` turn `.proto` files, descriptor sets or what a server's reflection tells, and messages in
//! JSON, into bytes, once before a run; `messages` finds the messages in what comes, `call` is one call under way.

pub(crate) mod call;
pub(crate) mod collector;
mod error;
mod kind;
// Open to the tests and fuzz targets of its readers only.
#[doc(hidden)]
pub mod messages;
mod method;
#[doc(hidden)]
pub mod reflection;
mod schema;
#[cfg(test)]
mod tests;

pub use error::{GrpcError, SetError};
pub use kind::CallKind;
pub use method::Method;
pub use schema::Schema;
