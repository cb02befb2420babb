//! What tables and routes of a host may say alike.

use super::table::Value;

/// Statuses that a table can answer with; those that need more than a page are left out.
pub(super) const STATUSES: [u16; 6] = [403, 404, 410, 451, 500, 503];
pub(super) const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];

/// Whether a text is a path, or a pattern of paths, as they are matched.
pub(super) fn is_path(kind: &str, value: &Value<'_, '_>) -> Option<()> {
    let text = value.string()?;
    if !(text.starts_with('/') || kind == "glob" && text.starts_with("**")) {
        value.wrong(format!("\"{text}\" is no path"), "a path begins with /");
        return None;
    }
    if text.contains('?') && kind != "glob" {
        value.wrong(format!("\"{text}\" has a query"), "paths are matched without their query");
        return None;
    }
    if text.contains("//") || text.contains('%') || text.split('/').any(|segment| segment == "." || segment == "..") {
        value.wrong(
            format!("\"{text}\" is not as paths are matched"),
            "write it decoded, with single slashes and without . and ..",
        );
        return None;
    }
    Some(())
}

pub(super) fn listed(list: &[u16]) -> String {
    list.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}
