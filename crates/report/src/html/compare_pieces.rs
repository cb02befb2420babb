//! Pieces of the page of a comparison that several of its sections hold.

use super::escape::escaped;
use crate::compared::{ComparedCase, ComparedResult};
use weir_measure::comparison::Verdict;

/// Plots that are shown at once; the others unfold.
const SHOWN: usize = 6;
/// Characters of a name in a table and in a legend.
pub(super) const MOST_NAME: usize = 60;

/// The heading of a section of a case; `id` is unlike all others of its case.
pub(super) fn headed(id: &str, index: usize, title: &str, body: &str) -> String {
    format!(
        "<section aria-labelledby=\"case-{index}-{id}\"><h3 class=\"of-case\" id=\"case-{index}-{id}\">{}</h3>{body}</section>\n",
        escaped(title)
    )
}

/// Plots beside each other; those beyond the first few unfold.
pub(super) fn beside(drawn: &[String]) -> String {
    let (shown, folded) = drawn.split_at(drawn.len().min(SHOWN));
    let more = if folded.is_empty() {
        String::new()
    } else {
        format!(
            "<details><summary>{} more</summary><div class=\"plots\">{}</div></details>",
            folded.len(),
            folded.concat()
        )
    };
    format!("<div class=\"plots\">{}</div>{more}", shown.concat())
}

/// The verdict as a word of the page, and as a class of its style sheet.
pub(super) fn word(verdict: Verdict) -> (&'static str, &'static str) {
    match verdict {
        Verdict::Better => ("better", "v-better"),
        Verdict::Worse => ("worse", "v-worse"),
        Verdict::TheSame => ("the same", "v-same"),
        Verdict::CannotTell => ("cannot tell", "v-open"),
    }
}

/// A ratio as a change: `+10.7 %`.
pub(super) fn change(ratio: f64) -> String {
    match (ratio - 1.0) * 100.0 {
        percent if !percent.is_finite() => "-".to_owned(),
        percent if percent.abs() < 0.05 => "0 %".to_owned(),
        percent => format!("{percent:+.1} %"),
    }
}

/// The results of a case, subject by subject.
pub(super) fn by_subject(case: &ComparedCase) -> Vec<&[ComparedResult]> {
    case.results.chunk_by(|one, other| one.subject == other.subject).collect()
}

/// A name as far as a legend has room for it.
pub(super) fn named(name: &str) -> String {
    if name.chars().count() <= MOST_NAME {
        return name.to_owned();
    }
    name.chars().take(MOST_NAME - 1).chain(['\u{2026}']).collect()
}
