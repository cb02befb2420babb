//! Functions fit on a screen: at most 70 lines, but for a list of those that are longer, which only shrinks.

use crate::architecture::{read, root, sources};
use std::path::PathBuf;

/// Lines of a function, its head and its end included.
const LINES_MAX: usize = 70;

/// It is one list: an arm or a line for each of many things.
const TABLE: &str = "a list";
/// It is on the way of every request, where a call more costs instructions that are counted.
const HOT: &str = "the hot path";
/// It is still to be taken apart.
const NOT_YET: &str = "not yet taken apart";

/// Functions that are longer, with their lines and why. A new one is taken apart; one that shrinks is entered anew.
const LONGER: &[(&str, &str, usize, &str)] = &[
    ("crates/cli/src/environment.rs", "in_words", 143, TABLE),
    ("crates/server/src/http1/connection.rs", "answer", 137, HOT),
    ("crates/timeline/src/join.rs", "push", 107, TABLE),
    ("crates/compat/src/httperf/arguments.rs", "take", 127, TABLE),
    ("crates/server/src/telemetry/admin/status.rs", "status", 92, TABLE),
    ("crates/policy-runtime/src/controller.rs", "show", 110, TABLE),
    ("crates/cli/src/serve.rs", "run", 85, NOT_YET),
    ("crates/report/src/html/evidence.rs", "section", 79, TABLE),
    ("crates/load/src/report/load.rs", "new", 73, TABLE),
    ("crates/advise/src/rules/accept_mutex.rs", "contended", 77, NOT_YET),
    ("crates/testkit/src/server/apache.rs", "configuration", 76, TABLE),
    ("crates/server/src/event_loop/driver.rs", "run", 72, HOT),
    ("crates/cli/src/load/find_max.rs", "found", 76, NOT_YET),
    ("crates/compat/src/httperf/setup.rs", "options", 76, TABLE),
    ("crates/advise/src/rules/php.rs", "pool", 76, NOT_YET),
    ("crates/load/src/http2/frames.rs", "whole", 75, TABLE),
    ("crates/advise/src/rules/cpu.rs", "noisy_neighbour", 75, NOT_YET),
    ("crates/advise/src/rules/connections.rs", "slow_client", 75, NOT_YET),
    ("crates/server/src/http/request.rs", "read_fields", 73, HOT),
    ("crates/server/src/telemetry/access_log/line.rs", "begin", 72, HOT),
    ("crates/cli/src/load/find_max.rs", "search", 72, NOT_YET),
    ("crates/compat/src/httperf/report.rs", "report", 71, TABLE),
];

/// The functions of a file that rustfmt has laid out, but for those of its tests, with their lines.
fn functions(text: &str) -> Vec<(String, usize)> {
    let program = text.split("\n#[cfg(test)]\n").next().unwrap_or_default();
    let lines: Vec<&str> = program.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let words: Vec<&str> =
            line.split_whitespace().take_while(|word| !word.contains('(') || word.starts_with("pub(")).collect();
        let begins = |word: &&str| {
            ["fn", "pub", "const", "async", "unsafe", "extern", "\"C\""].contains(word) || word.starts_with("pub(")
        };
        let Some(name) = line
            .split_once("fn ")
            .map(|(_, rest)| rest)
            .filter(|_| words.iter().take_while(|word| **word != "fn").all(begins))
        else {
            continue;
        };
        let is_one_line = line.ends_with('}') || line.ends_with(';');
        let end = format!("{indent}}}");
        let length = if is_one_line {
            Some(0)
        } else {
            lines[at..].iter().position(|line| *line == end || *line == format!("{indent});"))
        };
        let name = name.split(['(', '<']).next().unwrap_or_default();
        found.extend(length.map(|length| (name.to_owned(), length + 1)));
    }
    found
}

#[test]
fn functions_fit_on_a_screen() {
    let mut files: Vec<PathBuf> = Vec::new();
    for folder in ["crates", "bench", "studies"] {
        sources(&root().join(folder), &mut files);
    }
    let (mut wrong, mut longer) = (Vec::new(), 0);
    for file in files {
        let below = file.strip_prefix(root()).expect("below it").display().to_string();
        if !below.contains("/src/") {
            continue;
        }
        for (name, lines) in functions(&read(&file)) {
            let known = LONGER.iter().find(|(path, known, ..)| *path == below && *known == name);
            match known {
                Some((.., most, _)) if lines > LINES_MAX && lines == *most => longer += 1,
                Some((.., most, _)) if lines > LINES_MAX => {
                    wrong.push(format!("{below} {name}: {lines} lines, entered with {most}"));
                }
                None if lines > LINES_MAX => wrong.push(format!("{below} {name}: {lines} lines; take it apart")),
                _ => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(longer, LONGER.len(), "a function of the list is not longer than {LINES_MAX} lines any more, or gone");
}

#[test]
fn the_lines_of_functions_are_counted() {
    let text = "/// fn x(\nimpl A {\n    pub(crate) fn a(\n        b: u8,\n    ) -> u8 {\n        b\n    }\n\n    fn c() {}\n}\n\nconst fn d<T>() {\n    1\n}\n\n#[cfg(test)]\nmod tests {\n    fn e() {\n    }\n}\n";
    let found = functions(text);
    assert_eq!(found, [("a".to_owned(), 5), ("c".to_owned(), 1), ("d".to_owned(), 3)]);
}
