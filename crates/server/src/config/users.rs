//! Files of users: a line NAME:HASH for each, as `htpasswd` writes them.

use super::table::Value;
use crate::config::plain_file::{FileError, read_file};
use crate::routing::auth::hash_problem;
use std::collections::HashMap;

const FILE_BYTES_MAX: u64 = 8 << 20;

/// The users of a file with their hashes; none if it has mistakes.
pub(super) fn read(value: &Value<'_, '_>) -> Option<HashMap<String, String>> {
    let path = value.path()?;
    let wrong = |line: usize, what: &str, remedy: &str| {
        let place = if line == 0 { String::new() } else { format!(":{line}") };
        value.wrong(format!("{}{place}: {what}", path.display()), remedy);
    };
    let text = read_file(&path, FILE_BYTES_MAX)
        .and_then(|bytes| String::from_utf8(bytes).map_err(|_| FileError::NoText))
        .map_err(|what| wrong(0, &what.to_string(), "give a file with a line NAME:HASH for each user"))
        .ok()?;
    let mut users = HashMap::new();
    let mut is_good = true;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let problem = match line.split_once(':') {
            None => Some("is no line NAME:HASH"),
            Some(("", _)) => Some("has no name"),
            Some((_, hash)) => hash_problem(hash),
        };
        if let Some(problem) = problem {
            // What is in the line is nothing for a log.
            wrong(number + 1, &format!("the line {problem}"), "mend that line");
            is_good = false;
        } else if let Some((name, hash)) = line.split_once(':')
            && users.insert(name.to_owned(), hash.to_owned()).is_some()
        {
            wrong(number + 1, &format!("{name} is there twice"), "keep one of them");
            is_good = false;
        }
    }
    if users.is_empty() && is_good {
        wrong(0, "there is no user in it", "add a line NAME:HASH; `htpasswd -nB NAME` makes one");
        is_good = false;
    }
    is_good.then_some(users)
}
