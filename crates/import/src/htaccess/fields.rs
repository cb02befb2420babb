//! Fields of responses and lives of content: `Header` and `Expires`.

use super::paths::Paths;
use crate::directive::Directive;
use crate::headers::{self, Fields};
use crate::report::Report;

/// Endings of names by media type, as Debian's Apache knows them.
const ENDINGS: [(&str, &[&str]); 44] = [
    ("text/html", &["html", "htm"]),
    ("text/css", &["css"]),
    ("text/javascript", &["js", "mjs"]),
    ("application/javascript", &["js", "mjs"]),
    ("application/x-javascript", &["js", "mjs"]),
    ("text/x-javascript", &["js", "mjs"]),
    ("text/plain", &["txt"]),
    ("text/xml", &["xml"]),
    ("application/xml", &["xml"]),
    ("application/json", &["json"]),
    ("application/ld+json", &["jsonld"]),
    ("application/manifest+json", &["webmanifest"]),
    ("application/rss+xml", &["rss"]),
    ("application/atom+xml", &["atom"]),
    ("application/pdf", &["pdf"]),
    ("application/zip", &["zip"]),
    ("application/wasm", &["wasm"]),
    ("application/xhtml+xml", &["xhtml"]),
    ("application/x-shockwave-flash", &["swf"]),
    ("image/jpg", &["jpg", "jpeg"]),
    ("image/jpeg", &["jpg", "jpeg"]),
    ("image/png", &["png"]),
    ("image/gif", &["gif"]),
    ("image/webp", &["webp"]),
    ("image/avif", &["avif"]),
    ("image/svg+xml", &["svg"]),
    ("image/x-icon", &["ico"]),
    ("image/vnd.microsoft.icon", &["ico"]),
    ("image/bmp", &["bmp"]),
    ("image/tiff", &["tif", "tiff"]),
    ("font/woff", &["woff"]),
    ("font/woff2", &["woff2"]),
    ("font/ttf", &["ttf"]),
    ("font/otf", &["otf"]),
    ("font/eot", &["eot"]),
    ("font/opentype", &["otf"]),
    ("application/font-woff", &["woff"]),
    ("application/font-woff2", &["woff2"]),
    ("application/vnd.ms-fontobject", &["eot"]),
    ("video/mp4", &["mp4"]),
    ("video/webm", &["webm"]),
    ("video/ogg", &["ogv"]),
    ("audio/ogg", &["ogg", "oga"]),
    ("audio/mpeg", &["mp3"]),
];

/// `Header [always] ACTION NAME [VALUE]`.
pub(crate) fn header(directive: &Directive, fields: &mut Fields, report: &mut Report) {
    let mut words: Vec<&str> = directive.arguments.iter().map(String::as_str).collect();
    if words.first().is_some_and(|word| ["always", "onsuccess"].contains(&word.to_ascii_lowercase().as_str())) {
        words.remove(0);
    }
    let (action, name, value) = match words.as_slice() {
        [action, name] => (action.to_ascii_lowercase(), name.trim_end_matches(':'), ""),
        [action, name, value, rest @ ..] => {
            let is_conditional = rest.iter().any(|word| word.starts_with("env=") || word.starts_with("expr="));
            let action = if is_conditional { String::new() } else { action.to_ascii_lowercase() };
            (action, name.trim_end_matches(':'), *value)
        }
        _ => (String::new(), "", ""),
    };
    let remedy = "write it in set_headers or remove_headers, with a fixed value";
    match action.as_str() {
        "set" | "append" | "add" | "merge" | "setifempty" if !value.contains("%{") => {
            let value = value.replace("%%", "%");
            match headers::problem(name, &value) {
                None => {
                    directive.told();
                    fields.set(name, &value);
                }
                Some(why) => report.lost(directive, format!("`{}`: {why}", directive.line()), "leave it to weir"),
            }
        }
        "unset" if headers::is_removable(name) => {
            directive.told();
            fields.remove(name);
        }
        _ => report.lost(directive, format!("`{}`: weir sets fixed values", directive.line()), remedy),
    }
}

/// How long content lives: `"access plus 1 year"`, `A3600`; in seconds, and not from when a file was changed.
pub(crate) fn life_s(text: &str) -> Option<u64> {
    if let Some(number) = text.strip_prefix(['A', 'a']).and_then(|rest| rest.parse().ok()) {
        return Some(number);
    }
    let lower = text.to_ascii_lowercase();
    let mut words = lower.split_whitespace().peekable();
    if !matches!(words.next()?, "access" | "now") {
        return None;
    }
    words.next_if_eq(&"plus");
    let mut seconds: u64 = 0;
    while let Some(number) = words.next() {
        let number: u64 = number.parse().ok()?;
        let unit = match words.next()?.trim_end_matches('s') {
            "year" => 365 * 86_400,
            "month" => 30 * 86_400,
            "week" => 7 * 86_400,
            "day" => 86_400,
            "hour" => 3600,
            "minute" => 60,
            "second" => 1,
            _ => return None,
        };
        seconds = seconds.checked_add(number.checked_mul(unit)?)?;
    }
    Some(seconds)
}

/// The paths of files of a media type; none if its endings are not known.
pub(crate) fn of_type(media_type: &str, directory: &Paths) -> Option<Vec<Paths>> {
    let endings = ENDINGS.iter().find(|(name, _)| media_type.eq_ignore_ascii_case(name))?.1;
    endings.iter().map(|ending| directory.matching(&format!("\\.{ending}$"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_are_read() {
        for (text, expected) in [
            ("access plus 1 year", Some(31_536_000)),
            ("now plus 1 day 2 hours", Some(93_600)),
            ("access plus 0 seconds", Some(0)),
            ("A3600", Some(3600)),
            ("modification plus 1 day", None),
            ("access plus", Some(0)),
            ("access plus 1 eon", None),
        ] {
            assert_eq!(life_s(text), expected, "{text}");
        }
    }
}
