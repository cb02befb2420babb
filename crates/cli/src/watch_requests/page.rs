//! A watch as lines for a page: requests with what `weir watch` prints of their categories.

use super::connection::{Lines, Next, USUAL_BUDGET, target};
use super::text;
use crate::admin_client::AdminAddress;
use serde_json::{Value, json};
use std::io::{self, Read};
use std::time::{Duration, Instant};
use weir_server::{RequestFilter, WatchCategories};

/// An empty line tells whether the page is still there, when nothing else has come for so long.
const SILENCE: Duration = Duration::from_secs(1);
/// What a page gets of a request, beside its categories in words.
const OF_REQUEST: [&str; 8] = ["type", "number", "at_unix_us", "session", "method", "target", "status", "whole_us"];

/// Begins to watch.
pub(crate) fn of_page(
    admin: &AdminAddress,
    filter: &RequestFilter,
    show: WatchCategories,
) -> anyhow::Result<Box<dyn Read + Send>> {
    let lines = Lines::open(admin, &target(filter, show, USUAL_BUDGET), &|| false)?;
    Ok(Box::new(Page { lines, waiting: Vec::new(), given: 0, has_ended: false }))
}

struct Page {
    lines: Lines,
    /// A line that was not read to its end.
    waiting: Vec<u8>,
    given: usize,
    has_ended: bool,
}

impl Page {
    /// The next line for the page.
    fn line(&mut self) -> String {
        let since = Instant::now();
        match self.lines.next(&|| since.elapsed() >= SILENCE) {
            Ok(Next::Line(line)) => match serde_json::from_str(&line) {
                Ok(line) => of_line(&line).to_string(),
                Err(_) => self.ended("the server sent what is no line of a watch"),
            },
            Ok(Next::Stopped) => String::new(),
            Ok(Next::Gone) => self.ended("the server went away"),
            Err(error) => self.ended(&format!("{error:#}")),
        }
    }

    fn ended(&mut self, why: &str) -> String {
        self.has_ended = true;
        json!({ "type": "gone", "why": why }).to_string()
    }
}

impl Read for Page {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.given == self.waiting.len() {
            if self.has_ended {
                return Ok(0);
            }
            self.waiting = (self.line() + "\n").into_bytes();
            self.given = 0;
        }
        let length = (&self.waiting[self.given..]).read(into)?;
        self.given += length;
        Ok(length)
    }
}

/// A line as it is, but of a request only what the page shows.
fn of_line(line: &Value) -> Value {
    if line["type"] != "request" {
        return line.clone();
    }
    let mut told: Value = OF_REQUEST.iter().map(|name| ((*name).to_owned(), line[*name].clone())).collect();
    told["told"] = json!(text::categories(line));
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_gets_the_words_of_the_command() {
        let line = json!({ "type": "request", "number": 3, "status": 200, "target": "/a", "head": { "fields": [] },
            "arm": { "told": false }, "later": 1 });
        let told = of_line(&line);
        assert_eq!((&told["number"], &told["target"], &told["later"]), (&json!(3), &json!("/a"), &Value::Null));
        assert_eq!(told["told"], json!([["head", [" "]], ["arm", ["not told"]]]));
        let left = json!({ "type": "left", "left_out": 2 });
        assert_eq!(of_line(&left), left);
    }
}
