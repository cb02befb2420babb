//! What all of these commands say in the same words.

use weir_agent::protocol::Answer;

/// The answer was to another question: the agent is of another version.
pub(super) fn unexpected(answer: &Answer) -> anyhow::Error {
    let name = serde_json::to_value(answer).ok().and_then(|value| Some(value.get("answer")?.as_str()?.to_owned()));
    anyhow::anyhow!(
        "the agent answered {} to another question: it is of another version; start it anew",
        name.unwrap_or_else(|| "something".to_owned())
    )
}

/// A value as JSON, with a line's end.
pub(super) fn json(value: &impl serde::Serialize) -> anyhow::Result<String> {
    Ok(format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Nanoseconds since 1970 as date and time, UTC, to the microsecond.
pub(super) fn date_and_time(unix_ns: u64) -> String {
    let time = chrono::DateTime::from_timestamp_nanos(i64::try_from(unix_ns).unwrap_or(i64::MAX));
    time.format("%Y-%m-%d %H:%M:%S%.6f").to_string()
}

/// How a transaction is called: its application and its name, as the switches take it.
pub(super) fn full_name(application: &str, transaction: &str) -> String {
    weir_report::clean(&format!("{application}/{transaction}"))
}
