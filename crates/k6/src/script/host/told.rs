//! What scripts are told of answers, in numbers and words of k6.

use weir_load::Outcome;
use weir_scenario::behaviour::{Answer, AnsweredBy};
use weir_scenario::metrics::error_code;

/// The number of an error, as k6 has it.
pub(super) fn code(answer: &Answer) -> u32 {
    match &answer.by {
        AnsweredBy::Status(status) => error_code(*status, None),
        AnsweredBy::Nothing(failing) => match failing.outcome {
            Outcome::ConnectFailed if failing.words.contains("name") => 1101,
            outcome => error_code(0, Some(outcome)),
        },
    }
}

pub(super) fn words_of(answer: &Answer) -> &str {
    match &answer.by {
        AnsweredBy::Status(_) => "",
        AnsweredBy::Nothing(failing) => &failing.words,
    }
}

/// The words for a status (RFC 9110, section 15).
pub(super) fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        418 => "I'm a teapot",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "",
    }
}
