//! The short way of a request that a fresh response in memory answers: straight into what is sent, without a handler.

use super::cache::freshness::Now;
use super::cache::lookup::Front;
use super::cache::stored::MemoryBody;
use super::http1::digits;
use crate::exchange::application::RequestHead;
use crate::exchange::life::{Exchange, Source};
use crate::files::head::Persistence;
use crate::http::request::Method;
use crate::http::response::Part;
use crate::io::clock::Clock;
use std::sync::Arc;

/// Bytes of a body that is copied behind its head, as small files are; a larger one is sent from where it lies.
const COPIED_BYTES_MAX: usize = 3072;

/// Answers a request out of a cache, if that is so simple; whether it did.
pub(crate) fn answer(
    front: &mut Front,
    (head, stale_max_s): (&RequestHead<'_>, u64),
    clock: &Clock,
    persistence: Persistence,
    out: &mut Exchange,
) -> bool {
    let now = Now { wall_s: clock.unix_s, mono_ms: clock.now_ms };
    front.allow_stale(stale_max_s);
    let Some(answer) = front.hit(head, now) else { return false };
    let Some(body) = answer.memory() else { return false };
    let text = &mut out.response.head;
    text.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    if !answer.names_server() {
        text.extend_from_slice(clock.server());
    }
    answer.write_fields(text);
    text.extend_from_slice(b"Content-Length: ");
    digits::decimal(body.bytes.len() as u64, text);
    text.extend_from_slice(b"\r\n");
    text.extend_from_slice(persistence.end_of_head());
    out.status = 200;
    out.head_bytes = text.len() as u64;
    if head.request.method == Method::Head {
        return true;
    }
    if body.bytes.len() <= COPIED_BYTES_MAX {
        text.extend_from_slice(&body.bytes);
    } else {
        out.response.parts.push(Part { head_end: out.head_bytes, start: 0, end: body.bytes.len() as u64 });
        out.source = Source::Stored(Arc::<MemoryBody>::clone(body));
    }
    true
}
