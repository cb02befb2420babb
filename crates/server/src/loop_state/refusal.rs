//! The answer to a request for which there is no place.

use crate::exchange::error_page::{self, Extra};
use crate::exchange::life::Exchange;
use crate::files::head::Persistence;
use crate::http::request::{Method, Request};
use crate::io::clock::Clock;

/// Refuses a request for which too many others are under way.
#[cold]
pub(crate) fn refuse_full(
    seconds: u64,
    request: &Request<'_>,
    persistence: Persistence,
    clock: &Clock,
    out: &mut Exchange,
) {
    let fields = format!("Retry-After: {seconds}\r\nCache-Control: no-store\r\n");
    let extra = Extra { fields: fields.as_bytes(), head_only: request.method == Method::Head };
    error_page::write(out, 503, extra, clock, persistence);
}
