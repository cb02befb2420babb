//! What a call of gRPC sends.

use crate::grpc::CallKind;
use crate::grpc::collector::Collector;
use std::sync::Arc;

/// What each call sends.
#[derive(Debug, Clone)]
pub struct Grpc {
    /// The path of the method, `/package.Service/Method`.
    pub path: String,
    /// Which sides send several messages.
    pub kind: CallKind,
    /// The messages, encoded: one, or any number where the client streams; at most 256 MiB together.
    pub messages: Vec<Vec<u8>>,
    /// Where the messages of answers go, if they are wanted.
    pub(crate) collector: Option<Arc<Collector>>,
}

impl Grpc {
    /// Calls of a method, each of which sends these messages.
    #[must_use]
    pub fn new(path: String, kind: CallKind, messages: Vec<Vec<u8>>) -> Self {
        Self { path, kind, messages, collector: None }
    }
}
