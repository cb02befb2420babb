//! Numbers in what load commands print.
use std::collections::BTreeMap;

/// Those of the pairs whose count is not zero.
pub(super) fn counted<N: AsRef<str>>(pairs: impl IntoIterator<Item = (N, u64)>) -> BTreeMap<String, u64> {
    pairs.into_iter().filter(|(_, count)| *count > 0).map(|(name, count)| (name.as_ref().to_owned(), count)).collect()
}

/// What follows `label` on the first line that begins with it, without the space around.
pub(super) fn after<'a>(output: &'a str, label: &str) -> Option<&'a str> {
    output.lines().find_map(|line| line.trim_start().strip_prefix(label)).map(str::trim)
}

/// The number at the beginning of `text`.
pub(super) fn leading<T: std::str::FromStr>(text: &str) -> Option<T> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// The number after the word `label` in `text`, as in `connect 3, read 0` or `4xx=1`.
pub(super) fn labelled(text: &str, label: &str) -> Option<u64> {
    let position = text.find(label)?;
    leading(text[position + label.len()..].trim_start_matches([' ', '=', ':']))
}

/// The number before the word `label` in `text`, as in `100 total, 97 succeeded`.
pub(super) fn before(text: &str, label: &str) -> Option<u64> {
    text.split(',').find_map(|part| part.trim().strip_suffix(label))?.trim().parse().ok()
}

/// Seconds from a positive count and rate: finer than the two decimals that tools print.
pub(super) fn seconds(requests: u64, rate_per_s: Option<f64>) -> Option<f64> {
    rate_per_s.filter(|rate| *rate > 0.0 && requests > 0).map(|rate| requests as f64 / rate)
}
