//! The redirect for a request of a directory without its slash.

use crate::exchange::error_page::{self, Extra};
use crate::exchange::life::Exchange;
use crate::files::head::Persistence;
use crate::http::target;
use crate::io::clock::Clock;

/// Leads to the same path with a slash at its end.
pub(crate) fn redirect(
    found: &target::Target<'_>,
    extra: Extra<'_>,
    clock: &Clock,
    persistence: Persistence,
    out: &mut Exchange,
) {
    let mut fields = b"Location: ".to_vec();
    target::encode(found.path, &mut fields);
    fields.push(b'/');
    // The parser lets no control character into a target, so the query cannot end the field.
    fields.extend_from_slice(found.query);
    fields.extend_from_slice(b"\r\n");
    error_page::write(out, 301, Extra { fields: &fields, ..extra }, clock, persistence);
}
