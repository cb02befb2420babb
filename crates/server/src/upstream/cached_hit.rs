//! The short way of a request that a fresh response in memory answers: straight into what is sent, without a handler.

use super::cache::answer::AnswerPiece;
use super::cache::freshness::Now;
use super::cache::lookup::Front;
use crate::exchange::application::RequestHead;
use crate::exchange::life::Exchange;
use crate::files::head::Persistence;
use crate::http::request::Method;
use crate::io::clock::Clock;

/// Bytes of a body that is copied behind its head. A larger one is given piece by piece, as its client takes it.
const COPIED_BYTES_MAX: u64 = 64 << 10;

/// Answers a request out of a cache, if that is so simple; whether it did.
pub(crate) fn answer(
    front: &mut Front,
    head: &RequestHead<'_>,
    clock: &Clock,
    persistence: Persistence,
    out: &mut Exchange,
) -> bool {
    let now = Now { wall_s: clock.unix_s, mono_ms: clock.now_ms };
    let Some(answer) = front.hit(head, COPIED_BYTES_MAX, now) else { return false };
    let Some(length) = answer.length() else { return false };
    let text = &mut out.response.head;
    text.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    if !answer.names_server() {
        text.extend_from_slice(clock.server());
    }
    answer.write_fields(text);
    text.extend_from_slice(b"Content-Length: ");
    super::http1::digits::decimal(length, text);
    text.extend_from_slice(b"\r\n");
    text.extend_from_slice(persistence.end_of_head());
    out.status = 200;
    out.head_bytes = text.len() as u64;
    if head.request.method != Method::Head
        && let Some(AnswerPiece::Bytes(content)) = answer.piece(0)
    {
        text.extend_from_slice(content);
    }
    true
}
