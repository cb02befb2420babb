//! Who or what is behind a part: a process, a file, a lock, a statement, and whose request holds it.
//!
//! Only what was recorded is said: where no holder, request or statement is known, the words end before it.

use crate::explanation::{Cause, Explanation, Holding, Query};
use crate::html::palette::part_named;
use crate::units::{percent, share};
use weir_measure::part::Part;

/// From this share of a part on one is its culprit; below, there are several, which the list of causes names.
const MOST: f64 = 0.5;
/// From this share on it is all of it, as far as a person cares.
const ALL: f64 = 0.95;
/// Characters of a statement or of a lock's name in a sentence.
const MOST_TEXT: usize = 120;

/// The culprit of a cause in words that follow the part's: `, 93 % of it taken by hog (4242)`; empty where none is known.
pub(crate) fn of_cause(explanation: &Explanation, cause: &Cause) -> String {
    if cause.part == Part::WaitLock.name()
        && let Some(words) = lock(explanation, cause)
    {
        return words;
    }
    let mut who = of_most(&cause.part, &cause.who);
    // Where there is but one class, all that is told is of it.
    if explanation.transactions.len() > 1
        && let Some((request, of)) = cause.requests.first().filter(|(_, of)| *of >= MOST)
    {
        let how_much = if *of >= ALL { String::new() } else { format!("{} of it ", percent(*of)) };
        who.push_str(&format!(", {how_much}for {}", short(request)));
    }
    match statement(explanation, cause) {
        Some(query) if who.is_empty() => format!(", mostly in {}", quoted(query)),
        Some(query) => format!("{who}, mostly in {}", quoted(query)),
        None => who,
    }
}

/// The one that most of a part was spent on.
pub(crate) fn of_most(part: &str, who: &[(String, f64)]) -> String {
    match who.first() {
        Some((label, of)) if *of >= MOST => {
            let label = short(label);
            let how_much = if *of >= ALL { String::new() } else { format!("{} of it ", percent(*of)) };
            format!(", {how_much}{}", with(part, &label))
        }
        _ => String::new(),
    }
}

/// What a culprit has to do with a part.
fn with(part: &str, label: &str) -> String {
    match part_named(part) {
        Some(Part::WaitCpu) if label.starts_with("the CPU quota") => format!("kept from it by {label}"),
        Some(Part::WaitCpu) => format!("taken by {label}"),
        Some(Part::Run | Part::WaitTimer) => format!("in {label}"),
        Some(Part::ResponseTransit) => format!("held back by {label}"),
        Some(Part::Generator) => format!("behind {label}"),
        _ => label.to_owned(),
    }
}

/// The lock that most of the wait was for, who had it, for which request, and what that did.
fn lock(explanation: &Explanation, cause: &Cause) -> Option<String> {
    let of = |ns: f64| share(ns, cause.mean_ns);
    let (name, ns) = largest(&explanation.holders, |one| Some(&one.lock))?;
    if of(ns) < MOST {
        return None;
    }
    let here: Vec<&Holding> = explanation.holders.iter().filter(|one| one.lock == name).collect();
    let how_much = if of(ns) >= ALL { String::new() } else { format!("{} of it ", percent(of(ns))) };
    let mut words = format!(", {how_much}{}", short(name));
    let (holder, held_ns) = largest(here.iter().copied(), |one| Some(&one.holder))?;
    if share(held_ns, ns) < MOST {
        return Some(words);
    }
    words.push_str(&format!(", held by {}", short(holder)));
    let own = here.into_iter().filter(|one| one.holder == holder);
    if let Some((request, for_ns)) = largest(own.clone(), |one| one.request.as_ref())
        && share(for_ns, held_ns) >= MOST
    {
        words.push_str(&format!(" for {}", short(request)));
        words.push_str(&own.filter(|one| one.request.as_deref() == Some(request)).map(did).collect::<String>());
    }
    Some(words)
}

/// What a holder's request did for most of the time.
fn did(holding: &Holding) -> String {
    let largest =
        Part::ALL.into_iter().max_by(|a, b| holding.parts_ns[*a as usize].total_cmp(&holding.parts_ns[*b as usize]));
    let words = match largest.filter(|part| share(holding.parts_ns[*part as usize], holding.mean_ns) >= MOST) {
        Some(Part::Run) => "ran",
        Some(Part::WaitTimer) => "slept",
        Some(Part::WaitCpu) => "waited for a CPU",
        Some(Part::WaitDisk) => "waited for a disk",
        Some(Part::WaitLock) => "waited for a lock itself",
        Some(Part::WaitProcess) => "waited for another process",
        Some(Part::WaitNetwork) => "waited for the network",
        Some(Part::Stopped) => "was stopped",
        _ => return String::new(),
    };
    format!(", which {words}")
}

/// The name with the largest sum, and that.
fn largest<'a>(
    all: impl IntoIterator<Item = &'a Holding>,
    name: impl Fn(&'a Holding) -> Option<&'a String>,
) -> Option<(&'a str, f64)> {
    let mut sums: Vec<(&str, f64)> = Vec::new();
    for one in all {
        let Some(name) = name(one) else { continue };
        match sums.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += one.mean_ns,
            None => sums.push((name, one.mean_ns)),
        }
    }
    sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))
}

/// The statement that takes most of the mean response, where the part is one that a statement can be spent in and its
/// culprit is the database.
fn statement<'a>(explanation: &'a Explanation, cause: &Cause) -> Option<&'a Query> {
    let query = explanation.queries.first()?;
    let each = query.mean_ns * query.count as f64 / explanation.requests.max(1) as f64;
    let is_databases = cause.who.first().is_some_and(|(label, _)| {
        label.to_lowercase().contains(&query.server.to_lowercase()) && !query.server.is_empty()
    });
    (is_databases && share(each, cause.mean_ns) >= MOST).then_some(query)
}

/// A lock's own name, and who has it where the text tells.
pub(crate) fn lock_and_holder(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(" held by ") {
        Some((lock, holder)) => (lock, Some(holder)),
        None => (text, None),
    }
}

fn quoted(query: &Query) -> String {
    format!("`{}`", short(&query.text))
}

/// Text as far as a sentence has room for it, in one line: its two ends, for files and statements differ at either.
pub(crate) fn short(text: &str) -> String {
    ends(&text.split_whitespace().collect::<Vec<_>>().join(" "), MOST_TEXT)
}

/// Text of at most so many characters, dots in the place of its middle: twice as much of its end as of its beginning.
pub(crate) fn ends(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.to_owned();
    }
    let (head, tail) = (most.saturating_sub(1) / 3, most.saturating_sub(1) - most.saturating_sub(1) / 3);
    let begin: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(length - tail).collect();
    format!("{begin}\u{2026}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_long_name_are_kept() {
        assert_eq!(ends("/var/lib/php/sessions/sess_abc123", 16), "/var/\u{2026}ess_abc123");
        assert_eq!(ends("/var/lib/a", 16), "/var/lib/a");
        assert_eq!(ends("ab", 0), "\u{2026}");
        assert_eq!(short("SELECT\n  1"), "SELECT 1");
    }
}
