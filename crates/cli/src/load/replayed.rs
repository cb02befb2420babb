//! Warnings about a log that is replayed.

use weir_load::access_log::AccessLog;

/// A warning names gaps without a request from this length on, seconds.
const GAP_S_MIN: u64 = 3600;

/// Why lines were left out: how many by each reason where there are several, and the first ones; `None` where none were.
pub(super) fn left_out(log: &AccessLog) -> Option<String> {
    let left_out = &log.left_out;
    let first: Vec<String> =
        left_out.first().iter().map(|(_, line, reason)| format!("line {line}: {}", reason.words())).collect();
    let more = if left_out.count() > first.len() as u64 { "; …" } else { "" };
    let reasons: Vec<String> = left_out
        .by_reason()
        .iter()
        .filter(|_| left_out.by_reason().len() > 1)
        .map(|(reason, count)| format!("{count} × {}", reason.words()))
        .collect();
    let reasons = if reasons.is_empty() { String::new() } else { format!("; in all {}", reasons.join("; ")) };
    (left_out.count() > 0).then(|| format!("{}{more}{reasons}", first.join("; ")))
}

/// What else the log's reader skipped, or read in another way than it is written.
pub(super) fn beside(log: &AccessLog, speed: f64) -> Vec<String> {
    let mut notes = Vec::new();
    if log.apparent_parts > 0 {
        notes.push(format!(
            "{} times of the log have a part of a second that is 0 like that of most: they count as whole seconds",
            log.apparent_parts
        ));
    }
    if log.zeros > 0 {
        notes.push(format!("{} bytes that are 0 were passed over in front of lines of the log", log.zeros));
    }
    let gap_s = log.longest_gap.map_or(0, |(from, to)| to.abs_diff(from));
    if gap_s >= GAP_S_MIN {
        notes.push(format!(
            "for {gap_s} s of the log no request came: nothing is asked for {:.0} s of this run; a wrong clock, perhaps",
            gap_s as f64 / speed
        ));
    }
    notes
}
