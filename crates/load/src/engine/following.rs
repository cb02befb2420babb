//! What is looked at of a whole response beside its status: its checks, and the scopes that its request is in.

use crate::checks::{Answer, Parsed, Seen};
use crate::counts::answered::Answered;
use crate::counts::durations::Durations;
use crate::counts::scopes::Unanswered;
use crate::counts::tally::Tally;
use crate::plan::followed::Followed;
use crate::plan::run_plan::Plan;

/// A response that is whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whole {
    pub(crate) request: u32,
    pub(crate) answer: Answer,
    pub(crate) in_time: bool,
    pub(crate) durations: Durations,
}

/// Checks a response and counts it in the scopes of its request.
pub(crate) fn look_at_response(
    plan: &Plan,
    followed: &Followed,
    tally: &mut Tally,
    whole: &Whole,
    seen: Option<&Seen>,
) -> Answered {
    let of_request = followed.of_request(plan.requests.place(whole.request));
    let (mut parsed, mut is_unfit) = (Parsed::default(), false);
    for (place, check) in followed.checks.iter().enumerate() {
        if of_request.checks >> place & 1 == 0 {
            continue;
        }
        let failure = check.failure(whole.answer, seen, &mut parsed);
        is_unfit |= failure.is_some();
        tally.checks.count(place, failure, |words| format!("{}: {words}", of_request.name));
    }
    let status = whole.answer.status;
    let answered = if is_unfit { Answered::unfit(status) } else { Answered::fit(status) };
    if is_unfit {
        tally.checks.count_unfit();
    }
    let is_success = plan.is_success(answered);
    tally.scopes.answered(of_request.scopes, is_success, whole.in_time, whole.durations);
    answered
}

/// Counts a request without a whole response in its scopes.
pub(crate) fn count_unanswered(plan: &Plan, tally: &mut Tally, request: u32, why: Unanswered) {
    if let Some(followed) = &plan.followed {
        tally.scopes.unanswered(followed.of_request(plan.requests.place(request)).scopes, why);
    }
}
