//! Results for continuous integration: JUnit's XML.

use std::fmt::Write;

/// A test and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// What it belongs to.
    pub class: String,
    /// What was tested.
    pub name: String,
    /// How it ended.
    pub state: State,
}

/// How a test ended, each with the words for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It is right.
    Passed(String),
    /// It cannot be told.
    Skipped(String),
    /// It is wrong.
    Failed(String),
    /// It could not be tested.
    Error(String),
}

/// A test suite as JUnit's XML, which took so many seconds; `beside` is what else is to be told of it.
#[must_use]
pub fn suite(name: &str, tests: &[Test], took_s: f64, beside: &[String]) -> String {
    let count = |is_it: fn(&State) -> bool| tests.iter().filter(|test| is_it(&test.state)).count();
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    line(
        &mut text,
        format_args!(
            "<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{took_s:.3}\">",
            escaped(name),
            tests.len(),
            count(|state| matches!(state, State::Failed(_))),
            count(|state| matches!(state, State::Error(_))),
            count(|state| matches!(state, State::Skipped(_))),
        ),
    );
    for Test { class, name, state } in tests {
        let (class, name) = (escaped(class), escaped(name));
        let inner = match state {
            State::Passed(words) => format!("<system-out>{}</system-out>", escaped(words)),
            State::Skipped(words) => format!("<skipped message=\"{}\"/>", escaped(words)),
            State::Failed(words) => format!("<failure message=\"{}\"/>", escaped(words)),
            State::Error(words) => format!("<error message=\"{}\"/>", escaped(words)),
        };
        line(&mut text, format_args!("  <testcase classname=\"{class}\" name=\"{name}\">\n    {inner}\n  </testcase>"));
    }
    if !beside.is_empty() {
        line(&mut text, format_args!("  <system-err>{}</system-err>", escaped(&beside.join("\n"))));
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
