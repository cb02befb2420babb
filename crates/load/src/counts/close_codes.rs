//! The codes by which WebSockets are closed.

/// The number and the name of a code (RFC 6455 7.4.1 and its registry).
pub(crate) fn close_words(code: u32) -> String {
    const NAMES: [&str; 15] = [
        "normal closure",
        "going away",
        "protocol error",
        "unsupported data",
        "",
        "no code",
        "without a close frame",
        "invalid text",
        "policy violation",
        "message too big",
        "mandatory extension",
        "internal error",
        "service restart",
        "try again later",
        "bad gateway",
    ];
    let name = code.checked_sub(1000).and_then(|place| NAMES.get(place as usize)).copied().unwrap_or_default();
    match (name, code) {
        ("", 3000) => "3000 (unauthorized)".to_owned(),
        ("", 3003) => "3003 (forbidden)".to_owned(),
        ("", 3008) => "3008 (timeout)".to_owned(),
        ("", 4000..=4999) => format!("{code} (of the application)"),
        ("", _) => format!("{code}"),
        (name, _) => format!("{code} ({name})"),
    }
}
