//! Transaction classes: the method and a pattern of the path.

use std::collections::HashMap;

/// Rules that group paths into classes.
///
/// A rule is a pattern of a path: `*` stands for anything within a segment, `**` for anything.
/// The first rule that matches names the class; a path without a rule is its own class, its query cut off and segments
/// that are numbers or long hexadecimal ids replaced by `{id}`.
#[derive(Debug, Clone, Default)]
pub struct Grouping {
    rules: Vec<String>,
}

impl Grouping {
    /// Rules in the order in which they are tried.
    #[must_use]
    pub fn new(rules: Vec<String>) -> Self {
        Self { rules }
    }

    /// The class of a request's name, `METHOD target`.
    #[must_use]
    pub fn class(&self, name: &str) -> String {
        let (method, target) = name.split_once(' ').unwrap_or(("", name));
        let path = target.split(['?', '#']).next().unwrap_or(target);
        let pattern = match self.rules.iter().find(|rule| matches(rule.as_bytes(), path.as_bytes())) {
            Some(rule) => rule.clone(),
            None => path
                .split('/')
                .map(|segment| if is_id(segment) { "{id}" } else { segment })
                .collect::<Vec<_>>()
                .join("/"),
        };
        if method.is_empty() { pattern } else { format!("{method} {pattern}") }
    }
}

fn is_id(segment: &str) -> bool {
    let digits = segment.bytes().all(|byte| byte.is_ascii_digit());
    let hexadecimal = segment.len() >= 12 && segment.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    !segment.is_empty() && (digits || hexadecimal)
}

/// Whether a pattern matches a whole path; the time is linear in the product of their lengths, for any pattern.
fn matches(pattern: &[u8], path: &[u8]) -> bool {
    // reached[i]: the pattern so far can match the first i bytes of the path.
    let mut reached = vec![false; path.len() + 1];
    reached[0] = true;
    let mut rest = pattern;
    while let Some((&symbol, after)) = rest.split_first() {
        if symbol == b'*' {
            let across = after.first() == Some(&b'*');
            rest = if across { &after[1..] } else { after };
            for index in 0..path.len() {
                reached[index + 1] |= reached[index] && (across || path[index] != b'/');
            }
        } else {
            rest = after;
            for index in (0..path.len()).rev() {
                reached[index + 1] = reached[index] && path[index] == symbol;
            }
            reached[0] = false;
        }
    }
    reached[path.len()]
}

/// Class names by number, bounded: what comes after the bound is one class, `(other)`.
#[derive(Debug, Clone)]
pub struct Classes {
    grouping: Grouping,
    most: usize,
    names: Vec<String>,
    by_name: HashMap<String, u32>,
    by_request: HashMap<String, u32>,
}

impl Classes {
    /// At most `most` classes, and `(other)`.
    #[must_use]
    pub fn new(grouping: Grouping, most: usize) -> Self {
        Self { grouping, most, names: Vec::new(), by_name: HashMap::new(), by_request: HashMap::new() }
    }

    /// The number of a request's class.
    pub fn number(&mut self, request: &str) -> u32 {
        match self.by_request.get(request) {
            Some(number) => *number,
            None => self.number_with(request, ""),
        }
    }

    /// The number of the class of requests that something sets apart from others of their name: a suffix says what.
    pub fn number_with(&mut self, request: &str, suffix: &str) -> u32 {
        let mut name = self.grouping.class(request) + suffix;
        if !self.by_name.contains_key(&name) && self.names.len() >= self.most {
            "(other)".clone_into(&mut name);
        }
        let next = self.names.len() as u32;
        let number = *self.by_name.entry(name.clone()).or_insert(next);
        if number == next {
            self.names.push(name);
        }
        // The cache is bounded too: a crawl over a million paths must not fill the memory.
        if suffix.is_empty() && self.by_request.len() < 64 * self.most {
            self.by_request.insert(request.to_owned(), number);
        }
        number
    }

    /// The names, by number.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_grouped_by_rules_and_by_ids() {
        let grouping = Grouping::new(vec!["/shop/*/buy".to_owned(), "/static/**".to_owned()]);
        for (request, class) in [
            ("GET /shop/shoes/buy?size=42", "GET /shop/*/buy"),
            ("GET /shop/a/b/buy", "GET /shop/a/b/buy"),
            ("GET /static/css/main.css", "GET /static/**"),
            ("GET /user/4711/orders", "GET /user/{id}/orders"),
            ("GET /blob/deadbeef0123", "GET /blob/{id}"),
            ("GET /", "GET /"),
            ("POST /a#b", "POST /a"),
        ] {
            assert_eq!(grouping.class(request), class);
        }
    }

    #[test]
    fn patterns_match_whole_paths() {
        for (pattern, path, matching) in [
            ("/**", "/", true),
            ("*", "/", false),
            ("**", "", true),
            ("/a*c", "/abc", true),
            ("/a*c", "/ab/c", false),
            ("/a**c", "/ab/c", true),
            ("/a", "/ab", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), path.as_bytes()), matching, "{pattern} {path}");
        }
    }

    /// What a pattern means, told another way: by trying every length of a star.
    fn matches_slowly(pattern: &[u8], path: &[u8]) -> bool {
        let Some((&symbol, rest)) = pattern.split_first() else { return path.is_empty() };
        if symbol != b'*' {
            return path.first() == Some(&symbol) && matches_slowly(rest, &path[1..]);
        }
        let (across, rest) = rest.strip_prefix(b"*").map_or((false, rest), |rest| (true, rest));
        let lengths = (0..=path.len()).take_while(|length| across || !path[..*length].contains(&b'/'));
        lengths.into_iter().any(|length| matches_slowly(rest, &path[length..]))
    }

    proptest::proptest! {
        #[test]
        fn matching_agrees_with_its_meaning(pattern in "[/a*]{0,7}", path in "[/ab]{0,8}") {
            let (pattern, path) = (pattern.as_bytes(), path.as_bytes());
            proptest::prop_assert_eq!(matches(pattern, path), matches_slowly(pattern, path));
        }

        #[test]
        fn any_name_has_a_class_without_its_query(name in ".{0,60}") {
            let class = Grouping::default().class(&name);
            let method = name.split_once(' ').map_or("", |(method, _)| method);
            let path = if method.is_empty() { &class } else { &class[method.len() + 1..] };
            proptest::prop_assert!(!path.contains(['?', '#']), "{class}");
        }
    }

    #[test]
    fn a_name_that_is_met_again_keeps_its_number() {
        let mut classes = Classes::new(Grouping::default(), 2);
        let numbers: Vec<u32> = ["a", "b", "c", "d", "c", "b", "a"].iter().map(|path| classes.number(path)).collect();
        assert_eq!(numbers, [0, 1, 2, 2, 2, 1, 0]);
    }

    #[test]
    fn the_number_of_classes_is_bounded() {
        let mut classes = Classes::new(Grouping::default(), 3);
        for path in ["a", "b", "c", "d", "e", "a"] {
            classes.number(&format!("GET /{path}"));
        }
        assert_eq!(classes.names(), ["GET /a", "GET /b", "GET /c", "(other)"]);
    }
}
