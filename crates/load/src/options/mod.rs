//! What a run is to do, and what shows and ends it while it goes on.

pub(crate) mod call;
mod check;
pub(crate) mod control;
mod grpc;
pub(crate) mod means;
mod messages;
pub(crate) mod settings;
mod streaming;
pub(crate) mod websocket;

pub use call::Grpc;
pub use control::Control;
pub use settings::{Io, Options};
pub use websocket::{AnswerRule, WebSocket};
