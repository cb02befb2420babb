//! Figures for Prometheus over HTTP, of commands that have no server of their own.

use std::net::SocketAddr;
use std::sync::Arc;
use weir_endpoint::{Answer, Endpoint, Limits, Request, StartError};
use weir_exposition::CONTENT_TYPE;

/// Answers requests at an address with what the figures are then, until it is dropped.
///
/// # Errors
/// The address cannot be listened at.
pub(crate) fn answering(
    address: SocketAddr,
    figures: impl Fn() -> String + Send + Sync + 'static,
) -> Result<Endpoint, StartError> {
    let handler = move |request: Request| match request.target.split('?').next() {
        Some("/metrics" | "/") => Answer::whole(200, CONTENT_TYPE, figures()),
        _ => Answer::line(404, "the figures are at /metrics"),
    };
    Endpoint::start(&address.to_string(), Limits::default(), Arc::new(handler))
}
