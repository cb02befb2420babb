//! What a response over HTTP/1 has beside its status: its cookies, its length as a file of a mix, and what checks look at.

use crate::checks::Answer;
use crate::connect::connection::Connection;
use crate::connect::kernel::monotonic_ns;
use crate::counts::tally::Tally;
use crate::engine::events::Events;
use crate::engine::following::{Whole, look_at_response};
use crate::http1::account::Over;
use crate::http1::connection::Pipeline;
use crate::http1::response::{Malformed, Progress};
use crate::plan::run_plan::Plan;

/// What bytes are shown to, beside the parser.
pub(crate) struct Watching<'w> {
    pub(crate) plan: &'w Plan,
    pub(crate) tally: &'w mut Tally,
    pub(crate) events: &'w mut Events,
    /// When they came.
    pub(crate) now_ns: u64,
}

/// Feeds a connection's parser, and shows the bytes to observers and what they mean to checks.
#[inline(never)]
pub(crate) fn feed_watched(
    watching: Watching<'_>,
    connection: &mut Connection<Pipeline>,
    bytes: &[u8],
) -> Result<Progress, Malformed> {
    let Watching { plan, tally, events, now_ns } = watching;
    let http = &mut connection.http;
    let fed = match (&mut http.streamed, &mut tally.streams) {
        (Some(streamed), Some(streams)) => {
            let begins = !http.parser.in_body();
            match http.parser.feed_head(bytes) {
                Ok(None) => Ok(Progress { consumed: bytes.len(), complete: false }),
                Ok(Some(at)) => {
                    if begins {
                        let status = http.parser.status();
                        streamed.begin(plan.form_of(http.parser.head()), plan.expected.contains(status));
                    }
                    let fed = http.parser.feed_into(&bytes[at..], |piece| {
                        streamed.content(piece, now_ns, streams);
                        if let Some(seen) = &mut http.seen {
                            seen.content(piece);
                        }
                    });
                    fed.map(|progress| Progress { consumed: at + progress.consumed, ..progress })
                }
                Err(malformed) => Err(malformed),
            }
        }
        _ => match &mut http.seen {
            Some(seen) => http.parser.feed_into(bytes, |piece| seen.content(piece)),
            None => http.parser.feed(bytes),
        },
    };
    let consumed = fed.as_ref().map_or(bytes.len(), |progress| progress.consumed);
    events.received(connection.number, || &bytes[..consumed]);
    fed
}

/// Looks at a response that is whole, before its connection goes on; `end_ns` is when the run's time is over.
#[inline(never)]
pub(crate) fn follow(
    plan: &Plan,
    tally: &mut Tally,
    now_ns: &mut u64,
    end_ns: u64,
    connection: &mut Connection<Pipeline>,
    over: &mut Over,
) {
    let (request, status) = (over.batch.request, over.answered.status());
    let body_bytes = connection.http.parser.body_bytes();
    if plan.requests.is_composed {
        connection.keep_cookies(plan);
    }
    if let Some(followed) = &plan.followed {
        let http = &mut connection.http;
        if let Some(seen) = &mut http.seen {
            seen.head(http.parser.head());
        }
        let answer = Answer { status, body_bytes };
        let whole = Whole { request, answer, in_time: over.done_ns <= end_ns, durations: over.durations() };
        over.answered = look_at_response(plan, followed, tally, &whole, http.seen.as_deref());
        if let Some(seen) = &mut http.seen {
            seen.reset();
        }
        // What was taken by checks is not in the time of what goes out next; responses that came with this one have
        // come by now.
        if !followed.checks.is_empty() && http.batch.left == 1 {
            let before_ns = *now_ns;
            *now_ns = monotonic_ns();
            tally.checks.took_ns += now_ns.saturating_sub(before_ns);
        }
    }
    if let (Some(streamed), Some(streams)) = (&mut connection.http.streamed, &mut tally.streams) {
        streamed.finish(over.batch.intended_ns, plan.is_success(over.answered), over.done_ns, streams);
    }
    if let Some(files) = &plan.requests.files {
        let is_success = plan.is_success(over.answered);
        let head_only = plan.requests.entry(request).head_only;
        tally.mix.count(files, request, head_only, (status, is_success), body_bytes);
    }
}
