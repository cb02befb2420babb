//! What a run is to do, and what shows and ends it while it goes on.

mod check;
pub(crate) mod control;
pub(crate) mod grpc;
pub(crate) mod means;
mod messages;
pub(crate) mod settings;
mod streaming;
pub(crate) mod websocket;

pub use control::Control;
pub use grpc::Grpc;
pub use settings::{Io, Options};
pub use websocket::{AnswerRule, WebSocket};
