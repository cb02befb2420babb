//! Warnings about a log and about plans.

use super::planned::Planned;
use super::words;
use weir_plan::{LeftOut, Log, SizeFrom, Tried, Unread};
use weir_report::{clean, count, nanoseconds, percent};

/// Above this share of lines that cannot be read the figures mean little.
const MALFORMED_SHARE: f64 = 0.01;
/// A warning names a gap without a request that is longer than this, seconds, and also this share of the whole.
const GAP_S_MIN: u64 = 86_400;
const GAP_SHARE_MIN: f64 = 0.1;
/// A node is behind if it worked longer than requests arrived, by more than this share of that time and by more than
/// this multiple of a request's time.
const BEHIND_SHARE: f64 = 0.02;
const BEHIND_REQUESTS: f64 = 10.0;
/// How many plans are named in one warning.
const PLANS_NAMED: usize = 4;

/// Warnings about a log.
pub(super) fn of_log(log: &Log) -> Vec<String> {
    let mut said = Vec::new();
    said.extend(left_out(log.left_out(), log.taken_in()));
    said.extend(unread(log.unread(), log.taken_in()));
    if log.errors() * 2 > log.requests() {
        said.push(format!(
            "{} of {} requests were answered with 400 or above: the plan is one for a site of errors",
            count(log.errors()),
            count(log.requests())
        ));
    }
    let unsized_objects = log.objects_sized_from(SizeFrom::Nothing);
    if unsized_objects > 0 {
        said.push(format!(
            "the size of {} is not known, as no response told it, and counts as 0 B: storage is larger",
            objects(unsized_objects)
        ));
    }
    let parts = log.objects_sized_from(SizeFrom::Parts);
    if parts > 0 {
        said.push(format!(
            "of {} only parts were sent (206): the size of the largest part counts, and storage may be larger",
            objects(parts)
        ));
    }
    said.extend(gap(log));
    said
}

/// What was left out, by reason; `None` where nothing was.
pub(super) fn left_out(left_out: &LeftOut, requests: u64) -> Option<String> {
    let (name, at, reason) = left_out.first().first()?;
    let share = left_out.count() as f64 / (left_out.count() + requests) as f64;
    let much = if share > MALFORMED_SHARE { ", which is much" } else { "" };
    let lines = if left_out.count() == 1 { "line is no request" } else { "lines are no requests" };
    let first = format!("{}:{at}: {}", clean(name), reason.words());
    let others: Vec<String> = left_out
        .by_reason()
        .iter()
        .filter(|_| left_out.by_reason().len() > 1)
        .map(|(reason, number)| format!("{} × {}", count(*number), reason.words()))
        .collect();
    let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join("; ")) };
    Some(format!("{} {lines}, {} of all{much}{others}; the first: {first}", count(left_out.count()), percent(share)))
}

fn unread(unread: Unread, requests: u64) -> Vec<String> {
    let of_all = |number: u64| format!("{} of {} requests", count(number), count(requests));
    let mut said = Vec::new();
    if unread.statuses > 0 {
        said.push(format!("{} have no status that can be read: they count as answered", of_all(unread.statuses)));
    }
    if unread.sizes > 0 {
        said.push(format!(
            "{} have no size that can be read: they count as 0 B, in the time that bytes take (--bandwidth), too",
            of_all(unread.sizes)
        ));
    }
    if unread.apparent_parts > 0 {
        said.push(format!(
            "{} have a time whose part of a second is 0 like that of most: it counts as a whole second (--within-second)",
            of_all(unread.apparent_parts)
        ));
    }
    if unread.zeros > 0 {
        said.push(format!("{} bytes that are 0 were passed over in front of lines", count(unread.zeros)));
    }
    said
}

fn objects(number: u64) -> String {
    if number == 1 { "1 object".to_owned() } else { format!("{} objects", count(number)) }
}

/// A clock that was wrong, or logs of two times.
fn gap(log: &Log) -> Option<String> {
    let (from, to) = log.longest_gap()?;
    let length_s = u64::from(to - from);
    if length_s < GAP_S_MIN || (length_s as f64) < GAP_SHARE_MIN * log.duration_s() as f64 {
        return None;
    }
    let length = match length_s / 86_400 {
        1 => "a day".to_owned(),
        days @ 2..730 => format!("{days} days"),
        days => format!("{} years", days * 100 / 36_525),
    };
    Some(format!(
        "for {length} no request came (a gap from {} to {}): either a clock was wrong, or a rate and a share of time at work \
         over the whole time mean little; --busiest takes a stretch",
        day(from),
        day(to)
    ))
}

/// The date of a second, as 2026-03-12 (after Hinnant, as in `weir_access_log::calendar`).
fn day(second: u32) -> String {
    let days = i64::from(second / 86_400) + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Warnings about the best plan, or about all plans if none is best.
pub(super) fn of_plans(planned: &Planned<'_>, load: Option<f64>) -> Vec<String> {
    let told: Vec<&Tried> = match planned.best() {
        Some(best) => vec![best],
        None => planned.found.tried.iter().collect(),
    };
    let mut said = Vec::new();
    let behind: Vec<&Tried> = told.iter().copied().filter(|tried| is_behind(planned, tried)).collect();
    if let Some(first) = behind.first() {
        let most = behind.iter().map(|tried| tried.figures.behind_max_ns.high).fold(0.0, f64::max);
        let work = load.map_or(String::new(), |load| {
            let nodes = load / f64::from(planned.cluster.servers.max(1));
            format!("; the work is that of {nodes:.1} nodes")
        });
        let who = if planned.best().is_some() { words::of_nodes(first.nodes) } else { named(&behind) };
        said.push(format!(
            "{who} cannot keep up: a queue grows to the end of the log, {} long by then, and without end if requests go on \
             to come like that{work}",
            nanoseconds(most)
        ));
    }
    let rejecting: Vec<&Tried> = told.iter().copied().filter(|tried| tried.figures.rejected.high > 0.0).collect();
    if !rejecting.is_empty() {
        let most = rejecting.iter().map(|tried| tried.figures.rejected.high).fold(0.0, f64::max);
        said.push(format!(
            "up to {} requests found a queue full (--queue) and were rejected, by {}: they are in no time of queueing or \
             response, and miss an objective",
            count(most as u64),
            named(&rejecting)
        ));
    }
    said
}

fn is_behind(planned: &Planned<'_>, tried: &Tried) -> bool {
    let figures = &tried.figures;
    let behind_ns = figures.behind_max_ns.high;
    let request_ns = figures.response_mean_ns.mean - figures.waiting_mean_ns.mean;
    let whole_ns = planned.log.duration_s() as f64 * 1e9 / planned.growth;
    behind_ns > BEHIND_SHARE * whole_ns && behind_ns > BEHIND_REQUESTS * request_ns
}

fn named(tried: &[&Tried]) -> String {
    let mut names: Vec<String> =
        tried.iter().take(PLANS_NAMED).map(|tried| format!("{} {}", tried.nodes, tried.policy)).collect();
    if tried.len() > PLANS_NAMED {
        names.push(format!("{} more", tried.len() - PLANS_NAMED));
    }
    format!("the plans {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        for (second, date) in
            [(0, "1970-01-01"), (951_782_400, "2000-02-29"), (1_773_316_805, "2026-03-12"), (u32::MAX, "2106-02-07")]
        {
            assert_eq!(day(second), date);
        }
    }

    fn said(text: &str) -> String {
        let log = Log::read([("a.log".to_owned(), text.as_bytes())]).expect("a log");
        of_log(&log).join("\n")
    }

    #[test]
    fn what_is_missing_is_told_and_nothing_else() {
        let line = |day: u32, tail: &str| format!("::1 - - [{day:02}/Oct/2000:13:55:36 +0000] \"GET /{tail}\n");
        assert_eq!(said(&line(1, "a HTTP/1.1\" 200 5")), "");
        let one = said(&["nonsense\n", &line(1, "a HTTP/1.1\" 200 5")].concat());
        assert!(
            one.starts_with("1 line is no request, 50 % of all, which is much; the first: a.log:1: it is not"),
            "{one}"
        );
        let several =
            said(&["x\n", "y\n", &line(1, "a\"\n").replace("GET /a", "-"), &line(1, "a HTTP/1.1\" 200 5")].concat());
        assert!(several.contains("2 × it is not HOST") && several.contains("1 × it holds no request"), "{several}");
        let text = [line(1, "a HTTP/1.1\" x"), line(1, "b HTTP/1.1\" 206 5"), line(20, "c HTTP/1.1\" 304 -")].concat();
        let all = said(&text);
        for word in [
            "1 of 3 requests have no status",
            "1 of 3 requests have no size",
            "the size of 2 objects is not known",
            "of 1 object only parts",
            "for 19 days no request came (a gap from 2000-10-01 to 2000-10-20)",
        ] {
            assert!(all.contains(word), "{word} is not in {all}");
        }
    }
}
