//! Matchers of Caddy as conditions of routes, and placeholders as pieces of a request.

use crate::access::Network;
use crate::condition::Condition;
use crate::directive::Directive;
use crate::document::{inline, list, quoted};
use crate::patterns;
use crate::templates::{Piece, tidy};
use std::collections::BTreeMap;

/// Conditions that one matcher may become.
const ALTERNATIVES_MAX: usize = 32;

/// Conditions of which one is enough; none if weir cannot say it.
pub(crate) type Matcher = Option<Vec<Condition>>;

/// A path as Caddy matches it: a kind of weir and its text.
pub(crate) fn path(text: &str) -> Option<(&'static str, String)> {
    let is_plain = !text.contains("//") && !text.contains(['%', '?', '{']) && !text.contains(char::is_control);
    if !is_plain || text.split('/').any(|segment| segment == "." || segment == "..") {
        return None;
    }
    if text == "*" || text == "/*" {
        return Some(("prefix", "/".to_owned()));
    }
    let stars = text.matches('*').count();
    if let (1, Some(bare)) = (stars, text.strip_suffix('*')) {
        return Some(if bare.ends_with('/') { ("prefix", bare.to_owned()) } else { ("glob", format!("{bare}**")) });
    }
    if let (1, Some(bare)) = (stars, text.strip_prefix('*')) {
        return Some(("glob", format!("**{bare}")));
    }
    if stars == 2 && text.starts_with('*') && text.ends_with('*') {
        return Some(("glob", format!("**{}**", text.trim_matches('*'))));
    }
    if !text.starts_with('/') {
        return None;
    }
    Some(if stars > 0 { ("glob", text.to_owned()) } else { ("exact", text.to_owned()) })
}

/// The matchers of a site by their names.
pub(crate) fn named(directives: &[Directive]) -> BTreeMap<String, Matcher> {
    let mut named = BTreeMap::new();
    for directive in directives.iter().filter(|directive| directive.name.starts_with('@')) {
        directive.told();
        directive.children().iter().for_each(tell_all);
        let inline_one;
        let tests: Vec<&Directive> = match directive.arguments.split_first() {
            Some((name, rest)) => {
                let block = directive.block.clone();
                inline_one = Directive::new(name.clone(), rest.to_vec(), block, directive.place.clone());
                vec![&inline_one]
            }
            None => directive.children().iter().collect(),
        };
        named.insert(directive.name.clone(), all(&tests));
    }
    named
}

fn tell_all(directive: &Directive) {
    directive.told();
    directive.children().iter().for_each(tell_all);
}

/// All tests must hold.
fn all(tests: &[&Directive]) -> Matcher {
    let mut found = vec![Condition::default()];
    for test in tests {
        let own = one(test)?;
        let mut next = Vec::new();
        for condition in &found {
            for other in &own {
                next.push(joined(condition, other));
            }
        }
        if next.len() > ALTERNATIVES_MAX || next.is_empty() {
            return None;
        }
        found = next;
    }
    Some(found)
}

/// Both hold.
pub(crate) fn joined(first: &Condition, second: &Condition) -> Condition {
    let mut out = match &second.path {
        Some((kind, text)) => first.with_path(kind, text),
        None => first.clone(),
    };
    for (key, value) in &second.keys {
        out = out.with_key(key, value.clone());
    }
    out.not.extend(second.not.iter().cloned());
    out
}

fn one(test: &Directive) -> Matcher {
    let words = &test.arguments;
    let with = |key: &str, value: String| Condition::default().with_key(key, value);
    let field = |key: &str, name: &str, value: String| with(key, inline(std::iter::once((name.to_owned(), value))));
    Some(match test.name.as_str() {
        "path" => words
            .iter()
            .map(|word| path(word).map(|(kind, text)| Condition { path: Some((kind, text)), ..Condition::default() }))
            .collect::<Option<Vec<_>>>()?,
        "path_regexp" => {
            let expression = patterns::expression(words.last()?, false)?;
            vec![Condition { path: Some(("regex", expression)), ..Condition::default() }]
        }
        "method" => vec![with("method", list(&words.iter().map(|word| word.to_ascii_uppercase()).collect::<Vec<_>>()))],
        "host" => vec![with("host", list(words))],
        "protocol" if ["http", "https"].contains(&words.first()?.as_str()) => vec![with("scheme", quoted(&words[0]))],
        "remote_ip" | "client_ip" => {
            let mut networks = Vec::new();
            for word in words {
                if word == "forwarded" {
                    return None;
                }
                if word == "private_ranges" {
                    let private = ["192.168.0.0/16", "172.16.0.0/12", "10.0.0.0/8", "127.0.0.0/8", "fd00::/8", "::1"];
                    networks.extend(private.map(str::to_owned));
                } else {
                    networks.push(Network::read(word)?.text());
                }
            }
            vec![with("address", list(&networks))]
        }
        "header" => match words.as_slice() {
            [name] => match name.strip_prefix('!') {
                Some(name) => vec![field("header", name, "false".to_owned())],
                None => vec![field("header", name, "true".to_owned())],
            },
            [name, values @ ..] if values.iter().all(|value| !value.contains('?')) => {
                values.iter().map(|value| field("header", name, quoted(value))).collect()
            }
            _ => return None,
        },
        "query" => {
            let (name, value) = words.first()?.split_once('=')?;
            if words.len() > 1 || value.contains('?') {
                return None;
            }
            let value = if value == "*" { "true".to_owned() } else { quoted(value) };
            vec![field("query", name, value)]
        }
        "not" => negated(test)?,
        _ => return None,
    })
}

/// None of what a `not` has in it may hold.
fn negated(test: &Directive) -> Matcher {
    let inline_one;
    let tests: Vec<&Directive> = match test.arguments.split_first() {
        Some((name, rest)) => {
            inline_one = Directive::new(name.clone(), rest.to_vec(), test.block.clone(), test.place.clone());
            vec![&inline_one]
        }
        None => test.children().iter().collect(),
    };
    let mut out = Condition::default();
    for condition in all(&tests)? {
        let mut entries: Vec<(String, String)> =
            condition.path.iter().map(|(kind, text)| ((*kind).to_owned(), quoted(text))).collect();
        entries.extend(condition.keys.clone());
        if !condition.not.is_empty() || entries.is_empty() {
            return None;
        }
        out.not.push(inline(entries.into_iter()));
    }
    Some(vec![out])
}

/// A text with Caddy's placeholders; none if one of them stands for nothing in weir.
pub(crate) fn pieces(
    text: &str,
    scheme: Option<&str>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        pieces.push(Piece::Text(before.to_owned()));
        let (name, behind) = after.split_once('}')?;
        match name {
            "uri" | "http.request.uri" | "http.request.orig_uri" => pieces.extend([Piece::Path, Piece::Query]),
            "path" | "http.request.uri.path" | "http.request.orig_uri.path" => pieces.push(Piece::Path),
            "query" | "http.request.uri.query" => pieces.push(Piece::Args),
            "host" | "hostport" | "http.request.host" | "http.request.hostport" => pieces.push(Piece::Host),
            "scheme" | "http.request.scheme" => pieces.push(Piece::Text(scheme?.to_owned())),
            name => {
                if let Some(name) = name.strip_prefix("env.") {
                    pieces.push(Piece::Text(variable(name)?));
                } else {
                    let group = name.strip_prefix("re.").or_else(|| name.strip_prefix("http.regexp."))?;
                    let number = group.rsplit('.').next()?.parse::<usize>().ok()?;
                    pieces.push(match number {
                        0 => return None,
                        number => Piece::Capture(number),
                    });
                }
            }
        }
        rest = behind;
    }
    pieces.push(Piece::Text(rest.to_owned()));
    Some(tidy(&pieces))
}
