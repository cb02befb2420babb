//! Texts for GitHub: cells of Markdown tables, and annotations of a workflow's run.

/// How an annotation is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// What fails the run.
    Error,
    /// What should be known.
    Warning,
    /// What went well.
    Notice,
}

/// A workflow command that makes an annotation; one line, without its end.
///
/// Percent signs and line ends are escaped, in the title colons and commas too, as GitHub's runner reads them back.
#[must_use]
pub fn annotation(level: Level, title: &str, message: &str) -> String {
    let level = match level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Notice => "notice",
    };
    let escaped = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let title = escaped(title).replace(':', "%3A").replace(',', "%2C");
    format!("::{level} title={title}::{}", escaped(message))
}

/// What stands in a cell or a heading of Markdown as it is: nothing in it is read as a table, a tag or emphasis.
#[must_use]
pub fn cell(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\r' => safe.push(' '),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' => {
                safe.push('\\');
                safe.push(letter);
            }
            letter => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_annotation_is_one_line_that_says_all() {
        let line = annotation(Level::Error, "weir load: GET /a,b", "1.50 % missed\r\n::warning::x");
        assert_eq!(line, "::error title=weir load%3A GET /a%2Cb::1.50 %25 missed%0D%0A::warning::x");
    }
}
