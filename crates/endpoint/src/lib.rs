//! Little HTTP/1.1 endpoints of commands: the viewer's pages, metrics, the recording proxy.
//!
//! Not the server that weir measures or is: that one is the crate `weir-server`. Here a few people or one browser ask,
//! and handlers may block. Connections cost no thread, so that a browser may keep as many as it likes.

mod answer;
mod serving;

pub use answer::{Answer, Content, Done};
pub use serving::{BodyError, Endpoint, Handler, Limits, Request, StartError};
