//! The answer in a sentence.

use super::palette::part_named;
use crate::units::{count, figure, percent, share};
use crate::{Explanation, culprit};

/// Below this share of successes what is told is told of failures.
const MOST: f64 = 0.5;

/// Where the time goes, in one sentence without its full stop.
pub(crate) fn headline(explanation: &Explanation) -> String {
    if explanation.requests == 0 {
        let failed: u64 = explanation.errors.values().sum();
        return match failed {
            0 => "No request was answered, and none failed: there is nothing to explain".to_owned(),
            failed => format!("No request was answered: {} failed", count(failed)),
        };
    }
    let Some(cause) = explanation.causes.first() else {
        return "No part of the response time stands out".to_owned();
    };
    let mean = format!(
        "{} of the mean response is {}{}",
        percent(cause.share),
        words_of(&cause.part),
        culprit::of_cause(explanation, cause)
    );
    let mean = match explanation.success_fraction {
        Some(fraction) if fraction < MOST => {
            format!(
                "Only {} of the requests succeeded, and the times are mostly those of error pages: {mean}",
                percent(fraction)
            )
        }
        _ => mean,
    };
    match slow_in_words(explanation) {
        Some(slow) => format!("{mean}; {slow}"),
        None => mean,
    }
}

/// How much longer the slowest take than the median: `12.7 times`; `None` where it is not worth a word.
pub(crate) fn slow_over_median(explanation: &Explanation) -> Option<String> {
    let ratio = share(explanation.slow_response_ns, explanation.median_response_ns);
    (ratio >= 1.05).then(|| if ratio < 9.95 { format!("{ratio:.1} times") } else { format!("{} times", figure(ratio)) })
}

fn slow_in_words(explanation: &Explanation) -> Option<String> {
    let times = slow_over_median(explanation)?;
    let slow = format!("the slowest 1 % take {times} the median");
    let same = |part: &str| explanation.causes.first().is_some_and(|cause| cause.part == part);
    Some(match explanation.slow_causes.first() {
        Some(cause) if same(&cause.part) => {
            format!("{slow}, {} of the difference for the same reason", percent(cause.share))
        }
        Some(cause) => format!(
            "{slow}, and {} of the difference is {}{}",
            percent(cause.share),
            words_of(&cause.part),
            culprit::of_most(&cause.part, &cause.who)
        ),
        None => slow,
    })
}

/// What a person would say of a part; the name itself of one that we do not know.
pub(crate) fn words_of(name: &str) -> &str {
    match part_named(name) {
        Some(part) => part.words(),
        None => name,
    }
}
