//! Figures for Prometheus over HTTP, of commands that have no server of their own.

use std::net::SocketAddr;
use std::sync::Arc;
use weir_endpoint::{Answer, Endpoint, Limits, Request, StartError};
use weir_exposition::Format;

/// Answers requests at an address with what the figures are then, in the text format of Prometheus, until it is dropped.
///
/// # Errors
/// The address cannot be listened at.
pub(crate) fn answering(
    address: SocketAddr,
    figures: impl Fn() -> String + Send + Sync + 'static,
) -> Result<Endpoint, StartError> {
    start(address, move |_| (Format::Text, figures()))
}

/// The same in the format that the scraper asks for.
///
/// # Errors
/// The address cannot be listened at.
pub(crate) fn answering_as(
    address: SocketAddr,
    figures: impl Fn(Format) -> String + Send + Sync + 'static,
) -> Result<Endpoint, StartError> {
    start(address, move |request| {
        let format = Format::accepted(request.header("accept"));
        (format, figures(format))
    })
}

fn start(
    address: SocketAddr,
    figures: impl Fn(&Request) -> (Format, String) + Send + Sync + 'static,
) -> Result<Endpoint, StartError> {
    let handler = move |request: Request| match request.target.split('?').next() {
        Some("/metrics" | "/") => {
            let (format, text) = figures(&request);
            Answer::whole(200, format.content_type(), text)
        }
        _ => Answer::line(404, "the figures are at /metrics"),
    };
    Endpoint::start(&address.to_string(), Limits::default(), Arc::new(handler))
}
