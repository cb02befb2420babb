//! The tests of nginx's `if` as conditions of routes.

use crate::condition::Condition;
use crate::document::{inline, list, quoted};
use crate::patterns;

/// What a test of `if` says of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Test {
    /// One of these holds.
    Any(Vec<Condition>),
    /// No file is there; with true a directory counts as well.
    NoFile(bool),
}

/// Reads the test of an `if`, for requests of which a condition holds already; none if weir has no such condition.
pub(crate) fn read(arguments: &[String], base: &Condition) -> Option<Test> {
    let text = arguments.join(" ");
    let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?.trim();
    let (variable, rest) = inner.split_once(char::is_whitespace).unwrap_or((inner, ""));
    let (operator, value) = rest.trim().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
    let value = value.trim().trim_matches('"');
    if let "!-f" | "!-e" = variable {
        return (operator == "$request_filename").then_some(Test::NoFile(variable == "!-e"));
    }
    if variable.starts_with('-') || variable.starts_with('!') {
        return None;
    }
    let name = variable.strip_prefix('$')?;
    if operator.starts_with('~') || operator.starts_with("!~") {
        return by_expression(name, operator, value, base);
    }
    match (operator, name) {
        ("=" | "!=", _) => equal(name, operator == "=", value, base),
        ("", "query_string" | "args") => None,
        ("", "is_args") => None,
        ("", _) => of_value(name, "true".to_owned(), base).map(|condition| Test::Any(vec![condition])),
        _ => None,
    }
}

fn equal(name: &str, is_equal: bool, value: &str, base: &Condition) -> Option<Test> {
    let one = |key: &str, value: String| {
        let condition = if is_equal { base.with_key(key, value) } else { base.without(key, value) };
        Some(Test::Any(vec![condition]))
    };
    match name {
        "request_method" => one("method", list(&[value])),
        "host" | "http_host" if !value.contains(['*', '?']) => one("host", list(&[value])),
        "scheme" if ["http", "https"].contains(&value) => one("scheme", quoted(value)),
        "https" => match value {
            "on" => one("scheme", quoted("https")),
            "" => one("scheme", quoted("http")),
            _ => None,
        },
        "remote_addr" => one("address", list(&[crate::access::Network::read(value)?.text()])),
        "uri" | "document_uri" if value.starts_with('/') => {
            let expression = format!("^{}$", patterns::literal(value));
            Some(Test::Any(vec![if is_equal {
                base.with_regex(&expression)
            } else {
                base.without("regex", quoted(&expression))
            }]))
        }
        _ if value.contains(['*', '?']) => None,
        // An empty value is none.
        _ if value.is_empty() => {
            let wanted = if is_equal { "false" } else { "true" };
            of_value(name, wanted.to_owned(), base).map(|condition| Test::Any(vec![condition]))
        }
        _ => {
            let condition = of_value(name, quoted(value), &Condition::default())?;
            let (key, value) = condition.keys.first()?.clone();
            one(&key, value)
        }
    }
}

/// A field, cookie or argument of the request.
fn of_value(name: &str, value: String, base: &Condition) -> Option<Condition> {
    let (key, name) = if let Some(name) = name.strip_prefix("cookie_") {
        ("cookie", name.to_owned())
    } else if let Some(name) = name.strip_prefix("arg_") {
        ("query", name.to_owned())
    } else {
        ("header", name.strip_prefix("http_")?.replace('_', "-"))
    };
    if name.is_empty() {
        return None;
    }
    Some(base.with_key(key, inline(std::iter::once((name, value)))))
}

fn by_expression(name: &str, operator: &str, value: &str, base: &Condition) -> Option<Test> {
    let is_caseless = operator.ends_with('*');
    let is_not = operator.starts_with('!');
    if let "uri" | "document_uri" | "request_uri" = name {
        // The target has the query as well, which paths have not.
        if name == "request_uri" && (value.contains("\\?") || value.contains('=') || value.contains('%')) {
            return None;
        }
        let expression = patterns::expression(value, is_caseless)?;
        return Some(Test::Any(vec![if is_not {
            base.without("regex", quoted(&expression))
        } else {
            base.with_regex(&expression)
        }]));
    }
    let has_letters = value.contains(|letter: char| letter.is_ascii_alphabetic());
    let globs = patterns::value_globs(value)?;
    let conditions: Option<Vec<(String, String)>> = match name {
        "request_method" => {
            let is_plain = globs.iter().all(|glob| !glob.contains('*'));
            let methods = list(&globs);
            return is_plain.then(|| {
                Test::Any(vec![if is_not { base.without("method", methods) } else { base.with_key("method", methods) }])
            });
        }
        "host" | "http_host" => Some(globs.iter().map(|glob| ("host".to_owned(), list(&[glob]))).collect()),
        _ if is_caseless && has_letters => None,
        _ => {
            let of = |glob: &String| of_value(name, quoted(glob), &Condition::default())?.keys.pop();
            globs.iter().map(of).collect()
        }
    };
    let conditions = conditions?;
    if conditions.len() > 16 {
        return None;
    }
    if is_not {
        let all = conditions.into_iter().fold(base.clone(), |own, (key, value)| own.without(&key, value));
        return Some(Test::Any(vec![all]));
    }
    Some(Test::Any(conditions.into_iter().map(|(key, value)| base.with_key(&key, value)).collect()))
}
