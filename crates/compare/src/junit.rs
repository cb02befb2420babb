//! The report for continuous integration: JUnit's XML, a test case for each judgement.
use std::fmt::Write;

use weir_measure::comparison::Verdict;

use crate::outcome::{Ending, Outcome};
use crate::terminal::{in_words, why};
use crate::verdict::verdicts;

/// The report as JUnit's XML. Each metric of each subject and case is a test: it fails where the subject is worse than
/// the baseline, is skipped where one cannot tell, and passes else. An experiment that failed is an error.
#[must_use]
pub fn junit_report(outcome: &Outcome) -> String {
    let (plan, judgements) = (&outcome.plan, verdicts(outcome));
    let count = |verdict: Verdict| judgements.iter().filter(|judgement| judgement.verdict == verdict).count();
    let failed = match &outcome.ending {
        Ending::Failed(why) => Some(why),
        _ => None,
    };
    let seconds = |case: usize| -> f64 {
        outcome.blocks_of(case).flat_map(|block| &block.slices).map(|found| found.slice.wall_s).sum()
    };
    let all_s: f64 = (0..plan.cases.len()).map(seconds).sum();
    let (tests, errors) = (judgements.len() + usize::from(failed.is_some()), usize::from(failed.is_some()));
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    line(
        &mut text,
        format_args!(
            "<testsuite name=\"weir compare\" tests=\"{tests}\" failures=\"{}\" errors=\"{errors}\" skipped=\"{}\" time=\"{all_s:.3}\">",
            count(Verdict::Worse),
            count(Verdict::CannotTell)
        ),
    );
    for judgement in &judgements {
        let case = &plan.cases[judgement.case];
        let (subject, baseline) = (plan.subject_name(judgement.subject), plan.subject_name(case.baseline()));
        let words = in_words(judgement, &subject, &baseline, plan.smallest_effect);
        let words = escaped(&[vec![words], why(outcome, &[judgement])].concat().join("; "));
        let name = escaped(&format!("{subject} against {baseline}: {}", judgement.metric.name()));
        let begin = format!("  <testcase classname=\"{}\" name=\"{name}\"", escaped(&case.name));
        match judgement.verdict {
            Verdict::Worse => {
                line(&mut text, format_args!("{begin}>\n    <failure message=\"{words}\"/>\n  </testcase>"));
            }
            Verdict::CannotTell => {
                line(&mut text, format_args!("{begin}>\n    <skipped message=\"{words}\"/>\n  </testcase>"));
            }
            Verdict::Better | Verdict::TheSame => {
                line(&mut text, format_args!("{begin}>\n    <system-out>{words}</system-out>\n  </testcase>"));
            }
        }
    }
    if let Some(why) = failed {
        let why = escaped(why);
        line(
            &mut text,
            format_args!(
                "  <testcase classname=\"weir compare\" name=\"to the end\">\n    <error message=\"{why}\"/>\n  </testcase>"
            ),
        );
    }
    text.push_str("</testsuite>\n");
    text
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _infallible = writeln!(text, "{arguments}");
}

/// Text for an attribute or an element; what XML 1.0 has no place for becomes a question mark.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\n' => safe.push_str("&#10;"),
            letter if letter < ' ' && letter != '\t' => safe.push('?'),
            '\u{fffe}' | '\u{ffff}' => safe.push('?'),
            letter => safe.push(letter),
        }
    }
    safe
}
