//! What a report says of streamed answers.

use super::figures::summary;
use serde_json::{Value, json};
use std::fmt::Write;
use weir_load::{Form, StreamReport};
use weir_report::count as grouped;

/// What the screen says of them, but for the times.
pub(super) fn write(screen: &mut String, streams: &StreamReport) -> std::fmt::Result {
    let kinds: Vec<_> = Form::ALL
        .into_iter()
        .zip(streams.forms)
        .filter(|(_, count)| *count > 0)
        .map(|(form, count)| format!("{} of {}", grouped(count), form.name()))
        .collect();
    let kinds = if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") };
    writeln!(screen, "  streams    {kinds}")?;
    let each = &streams.events_per_answer;
    write!(screen, "  events     {:>12}   {:.1}/s", grouped(streams.events), streams.events_per_s)?;
    if !each.is_empty() {
        let bytes = &streams.bytes_per_answer;
        write!(
            screen,
            ", {:.1} an answer ({} to {}), {:.0} B each",
            each.mean(),
            grouped(each.min()),
            grouped(each.max().min(each.value_at_quantile(1.0))),
            bytes.mean() / each.mean().max(f64::MIN_POSITIVE)
        )?;
    }
    writeln!(screen)?;
    for (what, count) in [
        ("answers ended with data: [DONE]", streams.done),
        ("answers were ended by this side (--stream-for)", streams.closed),
        ("answers ended within an event, which does not count", streams.unfinished),
        ("events behind data: [DONE] do not count", streams.behind),
    ] {
        if count > 0 {
            writeln!(screen, "             {} {what}", grouped(count))?;
        }
    }
    Ok(())
}

/// The same for programs.
pub(super) fn as_json(streams: &StreamReport) -> Value {
    let answers: serde_json::Map<_, _> =
        Form::ALL.into_iter().zip(streams.forms).map(|(form, count)| (form.name().to_owned(), json!(count))).collect();
    json!({
        "answers": answers,
        "events": streams.events,
        "events_per_s": streams.events_per_s,
        "done": streams.done,
        "closed": streams.closed,
        "unfinished": streams.unfinished,
        "behind_done": streams.behind,
        "first_event_ns": summary(&streams.first_event),
        "between_ns": summary(&streams.between),
        "events_per_answer": summary(&streams.events_per_answer),
        "bytes_per_answer": summary(&streams.bytes_per_answer),
    })
}
