//! What became of the tests: as text like the original's, as JSON, and for continuous integration as JUnit's XML.

use crate::runner::Outcome;
use crate::suite::Terse;
use std::fmt::Write;

/// A file's tests and what became of them.
#[derive(Debug, Clone, Copy)]
pub struct Ran<'o> {
    /// The file's name.
    pub file: &'o str,
    /// What became of its tests.
    pub outcomes: &'o [Outcome],
    /// What of the file was not run.
    pub left_out: &'o [LeftOut],
}

/// Parts of a file that are not run, for one reason.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct LeftOut {
    /// How many.
    pub count: usize,
    /// The reason, in words.
    #[serde(rename = "why")]
    pub words: String,
}

/// Checks that failed and succeeded, of all tests.
#[must_use]
pub fn totals(outcomes: &[Outcome]) -> (usize, usize) {
    let sum = |ok| outcomes.iter().map(|outcome| outcome.count(ok)).sum();
    (sum(false), sum(true))
}

/// The text: a table, a block for each test, the totals.
#[must_use]
pub fn text(outcomes: &[Outcome]) -> String {
    let mut out = String::from("Failed  Succeeded  Test Name\n");
    for outcome in outcomes {
        let name = outcome.name.as_deref().filter(|name| !name.is_empty()).unwrap_or("*** no name ***");
        let (failed, succeeded) = (outcome.count(false).to_string(), outcome.count(true).to_string());
        let line = format!(" {}     {} {}", centred(&failed, 6), centred(&succeeded, 6), left(name, 54));
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out.push_str("\n\n");
    for outcome in outcomes {
        block(outcome, &mut out);
    }
    let (failed, succeeded) = totals(outcomes);
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(out, "Total web tests failed: {failed}  succeeded: {succeeded}");
    out
}

fn block(outcome: &Outcome, out: &mut String) {
    let (terse, failed) = (outcome.show.terse, outcome.count(false));
    if terse == Terse::Summary {
        return;
    }
    let name = outcome.name.as_deref().unwrap_or("N/A");
    let _ = writeln!(out, "Test Name: {name}\nURL: {}\n", outcome.address.as_deref().unwrap_or("N/A"));
    for group in &outcome.groups {
        let shown = group.results.iter().filter(|result| terse == Terse::No || !result.ok);
        let mut titled = false;
        for result in shown {
            if !titled {
                let _ = writeln!(out, "  {}", left(&group.title.to_uppercase(), 70).trim_end());
                titled = true;
            }
            let verdict = if result.ok { "SUCCEED" } else { "FAIL" };
            let _ = writeln!(out, "    {}  {verdict}", left(&result.comment, 59));
        }
    }
    if !outcome.tolerated.is_empty() {
        let _ = writeln!(out, "\n  TOLERATED\n    {}", outcome.tolerated.join(", "));
    }
    if let Some(error) = &outcome.error {
        let _ = writeln!(out, "\n  NO RESPONSE\n    {error}");
    }
    if let Some(step) = &outcome.step
        && (terse == Terse::No || failed > 0)
    {
        let fields = |out: &mut String, fields: &[(String, String)]| {
            for (name, value) in fields {
                let _ = writeln!(out, "{}: {value}", title_case(name));
            }
        };
        if outcome.show.headers {
            let _ = writeln!(out, "\n  REQUEST HEADERS:\n{} {}", step.method, step.address);
            fields(out, &step.sent);
            let _ = writeln!(out, "\n  RESPONSE HEADERS:\n{} {}", step.version, step.status_line());
            fields(out, &step.received);
            out.push('\n');
        }
        if outcome.show.cookies {
            let named = |fields: &[(String, String)], name: &str| -> String {
                let found = fields.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name));
                let lines: String = found.map(|(_, value)| format!("    {value}\n")).collect();
                if lines.is_empty() { "    *** none ***\n".to_owned() } else { lines }
            };
            let _ = write!(out, "\n  SENT COOKIE(S)\n{}", named(&step.sent, "cookie"));
            let _ = write!(out, "  RECEIVED COOKIE(S)\n{}", named(&step.received, "set-cookie"));
        }
        if outcome.show.html {
            let _ = writeln!(out, "\n  PAGE CONTENT:\n{}", String::from_utf8_lossy(&step.content));
        }
    }
    out.push_str("\n\n");
}

/// `content-type` as `Content-Type`.
fn title_case(name: &str) -> String {
    let part = |part: &str| {
        let mut letters = part.chars();
        letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
    };
    name.split('-').map(part).collect::<Vec<_>>().join("-")
}

/// The first line of a text, as much as fits, and spaces.
fn left(text: &str, width: usize) -> String {
    let text: String = text.lines().next().unwrap_or_default().chars().take(width).collect();
    let text: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    format!("{text:width$}")
}

fn centred(text: &str, width: usize) -> String {
    let before = width.saturating_sub(text.len()) / 2;
    format!("{:before$}{text:rest$}", "", rest = width - before)
}

#[derive(serde::Serialize)]
struct Json<'o> {
    schema: &'static str,
    failed: usize,
    succeeded: usize,
    files: Vec<JsonFile<'o>>,
}

#[derive(serde::Serialize)]
struct JsonFile<'o> {
    file: &'o str,
    failed: usize,
    succeeded: usize,
    tests: Vec<JsonTest<'o>>,
    #[serde(skip_serializing_if = "<[LeftOut]>::is_empty")]
    left_out: &'o [LeftOut],
}

#[derive(serde::Serialize)]
struct JsonTest<'o> {
    name: Option<&'o str>,
    line: usize,
    url: Option<&'o str>,
    seconds: f64,
    passed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'o str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tolerated: &'o [&'static str],
    checks: Vec<JsonCheck<'o>>,
}

#[derive(serde::Serialize)]
struct JsonCheck<'o> {
    kind: &'o str,
    ok: bool,
    check: &'o str,
}

/// The same as one JSON object.
#[must_use]
pub fn json(ran: &[Ran<'_>]) -> String {
    let files: Vec<JsonFile<'_>> = ran
        .iter()
        .map(|Ran { file, outcomes, left_out }| {
            let (failed, succeeded) = totals(outcomes);
            JsonFile { file, failed, succeeded, tests: outcomes.iter().map(json_test).collect(), left_out }
        })
        .collect();
    let sum = |of: fn(&JsonFile<'_>) -> usize| files.iter().map(of).sum();
    let json = Json {
        schema: "weir-webtest/1",
        failed: sum(|file| file.failed),
        succeeded: sum(|file| file.succeeded),
        files,
    };
    let mut text = serde_json::to_string_pretty(&json).unwrap_or_else(|error| unreachable!("plain data: {error}"));
    text.push('\n');
    text
}

fn json_test(outcome: &Outcome) -> JsonTest<'_> {
    let mut checks = Vec::new();
    for group in &outcome.groups {
        for result in &group.results {
            checks.push(JsonCheck { kind: &group.title, ok: result.ok, check: &result.comment });
        }
    }
    JsonTest {
        name: outcome.name.as_deref(),
        line: outcome.line,
        url: outcome.address.as_deref(),
        seconds: outcome.seconds,
        passed: outcome.count(false) == 0,
        error: outcome.error.as_deref(),
        tolerated: &outcome.tolerated,
        checks,
    }
}

/// The same in the form that continuous integration reads: a suite for each file, a case for each test.
#[must_use]
pub fn junit(ran: &[Ran<'_>]) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for Ran { file, outcomes, left_out } in ran {
        let failing = outcomes.iter().filter(|outcome| outcome.count(false) > 0 && outcome.error.is_none()).count();
        let broken = outcomes.iter().filter(|outcome| outcome.error.is_some()).count();
        let seconds: f64 = outcomes.iter().map(|outcome| outcome.seconds).sum();
        let (suite, tests) = (escaped(file), outcomes.len());
        let _ = writeln!(
            out,
            "<testsuite name=\"{suite}\" tests=\"{tests}\" failures=\"{failing}\" errors=\"{broken}\" \
             time=\"{seconds:.6}\">",
        );
        for (index, outcome) in outcomes.iter().enumerate() {
            case(&suite, index, outcome, &mut out);
        }
        if !left_out.is_empty() {
            let lines: Vec<&str> = left_out.iter().map(|left_out| left_out.words.as_str()).collect();
            let _ = writeln!(out, "<system-err>{}</system-err>", escaped(&lines.join("\n")));
        }
        out.push_str("</testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

fn case(suite: &str, index: usize, outcome: &Outcome, out: &mut String) {
    let name = outcome.name.clone().unwrap_or_else(|| format!("test {}", index + 1));
    let (name, seconds) = (escaped(&name), outcome.seconds);
    let _ = writeln!(out, "<testcase classname=\"{suite}\" name=\"{name}\" time=\"{seconds:.6}\">");
    if let Some(error) = &outcome.error {
        let _ = writeln!(out, "<error message=\"{}\"/>", escaped(error));
    } else if outcome.count(false) > 0 {
        let mut lines = String::new();
        for group in &outcome.groups {
            for result in group.results.iter().filter(|result| !result.ok) {
                let _ = writeln!(lines, "{}: {}", group.title, result.comment);
            }
        }
        let count = outcome.count(false);
        let _ = writeln!(out, "<failure message=\"{count} checks failed\">{}</failure>", escaped(&lines));
    }
    out.push_str("</testcase>\n");
}

/// Text as XML has it; characters that XML cannot have become a replacement.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push('\t'),
            letter if letter < ' ' || matches!(letter, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_perls() {
        // What perl's formline gives for the original's two formats.
        assert_eq!(centred("1", 6), "  1   ");
        assert_eq!(centred("12", 6), "  12  ");
        assert_eq!(centred("123", 6), " 123  ");
        assert_eq!(left("abc\ndef", 5), "abc  ");
    }
}
