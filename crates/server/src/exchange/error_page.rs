//! Small pages for errors, redirects and other statuses without a file.

use crate::exchange::life::Exchange;
use crate::files::head::{self, Persistence};
use crate::io::clock::Clock;

/// What a page says beyond its status.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Extra<'e> {
    /// More header fields, each with its line end.
    pub(crate) fields: &'e [u8],
    /// Leave the body away, as HEAD wants it.
    pub(crate) head_only: bool,
}

/// Writes a response with a page that names the status and says what to make of it.
pub(crate) fn write(out: &mut Exchange, status: u16, extra: Extra<'_>, clock: &Clock, persistence: Persistence) {
    write_explained(out, (status, explanation(status)), extra, clock, persistence);
}

/// The same with an explanation of its own.
pub(crate) fn write_explained(
    out: &mut Exchange,
    (status, explanation): (u16, &str),
    extra: Extra<'_>,
    clock: &Clock,
    persistence: Persistence,
) {
    let reason = head::reason(status);
    let page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{status} {reason}</title>\n<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:36em;margin:4em auto;\
         padding:0 1em;color-scheme:light dark}}</style>\n<h1>{status} {reason}</h1>\n<p>{explanation}</p>\n</html>\n"
    );
    write_html(out, status, &page, extra, clock, persistence);
}

/// Writes a response with an HTML page that was made for it.
pub(crate) fn write_html(
    out: &mut Exchange,
    status: u16,
    page: &str,
    extra: Extra<'_>,
    clock: &Clock,
    persistence: Persistence,
) {
    let fields = format!("Content-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n", page.len());
    out.status = status;
    head::other(&mut out.response.head, status, &[fields.as_bytes(), extra.fields], clock, persistence);
    out.head_bytes = out.response.head.len() as u64;
    if !extra.head_only {
        out.response.head.extend_from_slice(page.as_bytes());
    }
}

fn explanation(status: u16) -> &'static str {
    match status {
        301..=308 => "This is found at another address, which the field Location of this response names.",
        400 => "The request is not well-formed.",
        401 => "This needs a name and a password.",
        403 => "This may not be read.",
        404 => "There is nothing here under this name.",
        405 => "Only GET, HEAD and OPTIONS are served here.",
        408 => "The request did not arrive in time.",
        410 => "What was here is gone for good.",
        412 => "The file is not the version that the request asked for.",
        414 => "The address is too long.",
        416 => "The file has no bytes in the range that was asked for.",
        417 => "Only 100-continue can be expected of this server.",
        421 => "There is no host of this name here.",
        429 => "There were too many requests from your network. Please try again shortly.",
        431 => "The header fields of the request are too large.",
        451 => "This may not be shown, for legal reasons.",
        501 => "The transfer coding of the request is not known here.",
        502 => "What answers here could not answer this request.",
        504 => "What answers here did not answer in time.",
        503 => "The server has no room for this request now. Please try again shortly.",
        505 => "Only HTTP/1.0 and HTTP/1.1 are spoken here.",
        _ => "The server could not read the file.",
    }
}
