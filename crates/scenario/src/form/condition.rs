//! When something is done: `status = 200`, `${role} = admin`, `${count} > 3`, `${token}`.

use crate::form::template::{Template, Values};
use regex::{Regex, RegexBuilder};

/// The most memory of a regular expression, in bytes.
pub(crate) const REGEX_BYTES_MAX: usize = 1 << 20;

/// When something is done.
#[derive(Debug, Clone)]
pub struct Condition {
    left: Side,
    test: Test,
}

#[derive(Debug, Clone)]
enum Side {
    /// The status of the answer before; 0 without one.
    Status,
    Text(Template),
}

#[derive(Debug, Clone)]
enum Test {
    /// It is not empty.
    Present,
    Is(Template),
    IsNot(Template),
    Matches(Regex),
    MatchesNot(Regex),
    Below(Template),
    AtMost(Template),
    Above(Template),
    AtLeast(Template),
}

/// Reads a regular expression, within its bound.
pub(crate) fn regex(text: &str) -> Option<Regex> {
    RegexBuilder::new(text).size_limit(REGEX_BYTES_MAX).build().ok()
}

impl Condition {
    /// Reads a condition.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        // A sign within a place for a value is part of its name, which has none: so the first one counts.
        let at = text.find(['=', '!', '~', '<', '>']);
        let (left, rest) = text.split_at(at.unwrap_or(text.len()));
        let left = match left.trim() {
            "" => return None,
            "status" => Side::Status,
            other => Side::Text(Template::parse(other).ok()?),
        };
        let template = |text: &str| Template::parse(text.trim()).ok();
        let test = if rest.is_empty() {
            Test::Present
        } else if let Some(other) = rest.strip_prefix("!=") {
            Test::IsNot(template(other)?)
        } else if let Some(pattern) = rest.strip_prefix("!~") {
            Test::MatchesNot(regex(pattern.trim())?)
        } else if let Some(pattern) = rest.strip_prefix('~') {
            Test::Matches(regex(pattern.trim())?)
        } else if let Some(other) = rest.strip_prefix("<=") {
            Test::AtMost(template(other)?)
        } else if let Some(other) = rest.strip_prefix(">=") {
            Test::AtLeast(template(other)?)
        } else if let Some(other) = rest.strip_prefix('<') {
            Test::Below(template(other)?)
        } else if let Some(other) = rest.strip_prefix('>') {
            Test::Above(template(other)?)
        } else {
            Test::Is(template(rest.strip_prefix('=')?.trim_start_matches('='))?)
        };
        Some(Self { left, test })
    }

    /// The names that it needs.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let left = match &self.left {
            Side::Text(template) => Some(template),
            Side::Status => None,
        };
        let right = match &self.test {
            Test::Is(other) | Test::IsNot(other) | Test::Below(other) => Some(other),
            Test::AtMost(other) | Test::Above(other) | Test::AtLeast(other) => Some(other),
            Test::Present | Test::Matches(_) | Test::MatchesNot(_) => None,
        };
        left.into_iter().chain(right).flat_map(Template::names)
    }

    /// Whether it holds; numbers are compared as such, and what is none is not below or above anything.
    #[must_use]
    pub fn holds(&self, values: &Values, status: u16) -> bool {
        let left = match &self.left {
            Side::Status => status.to_string(),
            Side::Text(template) => template.fill(values),
        };
        let compared = |right: &Template| {
            let number = |text: &str| text.trim().parse::<f64>().ok();
            number(&left).zip(number(&right.fill(values)))
        };
        match &self.test {
            Test::Present => !left.is_empty() && left != "0",
            Test::Is(right) => left == right.fill(values),
            Test::IsNot(right) => left != right.fill(values),
            Test::Matches(pattern) => pattern.is_match(&left),
            Test::MatchesNot(pattern) => !pattern.is_match(&left),
            Test::Below(right) => compared(right).is_some_and(|(left, right)| left < right),
            Test::AtMost(right) => compared(right).is_some_and(|(left, right)| left <= right),
            Test::Above(right) => compared(right).is_some_and(|(left, right)| left > right),
            Test::AtLeast(right) => compared(right).is_some_and(|(left, right)| left >= right),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn conditions_hold_as_they_say() {
        let values = Values::from([("n".to_owned(), "10".to_owned()), ("role".to_owned(), "admin".to_owned())]);
        for (text, holds) in [
            ("status = 200", true),
            ("status != 200", false),
            ("status >= 300", false),
            ("${n} > 9", true),
            ("${n} < 9", false),
            ("${role} = admin", true),
            ("${role} ~ ^ad", true),
            ("${role} !~ ^ad", false),
            ("${none}", false),
            ("${role}", true),
            ("${role} > 3", false),
        ] {
            let condition = Condition::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(condition.holds(&values, 200), holds, "{text}");
        }
        for text in ["", "= 3", "${x", "a ~ (", "a ! b"] {
            assert!(Condition::parse(text).is_none(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a${}=!~<> 0-9(]{0,12}") {
            if let Some(condition) = Condition::parse(&text) {
                let _ = condition.holds(&Values::new(), 0);
            }
        }
    }
}
