//! A place in a JSON value: `.items[0].id`.

use serde_json::Value;

/// The most steps of a path.
const STEPS_MAX: usize = 64;

/// The way to a place in a JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Name(String),
    Place(usize),
}

impl JsonPath {
    /// Reads a path at the begin of a text; gives what follows it. `None` where there is none.
    ///
    /// A name without quotes ends at the signs of paths and comparisons and at a blank.
    #[must_use]
    pub fn read(text: &str) -> Option<(Self, &str)> {
        let mut steps = Vec::new();
        let mut rest = text;
        if let Some(behind) = rest.strip_prefix('.')
            && !behind.starts_with(is_of_name)
        {
            // The whole, or a path that begins with a place.
            rest = behind;
            if !rest.is_empty() && !rest.starts_with(['[', '=', '!', '~', ' ', '\t']) {
                return None;
            }
        } else if !rest.starts_with(['.', '[']) {
            return None;
        }
        loop {
            if steps.len() > STEPS_MAX {
                return None;
            }
            if let Some(behind) = rest.strip_prefix('.') {
                let end = behind.find(|letter| !is_of_name(letter)).unwrap_or(behind.len());
                if end == 0 {
                    return None;
                }
                steps.push(Step::Name(behind[..end].to_owned()));
                rest = &behind[end..];
            } else if let Some(behind) = rest.strip_prefix("[\"") {
                // A name in quotes is a JSON string: its end is the first quote without a backslash before it.
                let end = end_of_string(behind)?;
                steps.push(Step::Name(serde_json::from_str(&rest[1..end + 3]).ok()?));
                rest = behind[end + 1..].strip_prefix(']')?;
            } else if let Some(behind) = rest.strip_prefix('[') {
                let (digits, after) = behind.split_once(']')?;
                if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                    return None;
                }
                steps.push(Step::Place(digits.parse().ok()?));
                rest = after;
            } else {
                return Some((Self(steps), rest));
            }
        }
    }

    /// What stands there, if anything does.
    #[must_use]
    pub fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.0.iter().try_fold(value, |value, step| match step {
            Step::Name(name) => value.get(name.as_str()),
            Step::Place(place) => value.get(*place),
        })
    }
}

/// Whether a letter may stand in a name without quotes.
fn is_of_name(letter: char) -> bool {
    !matches!(letter, '.' | '[' | ']' | '=' | '!' | '~' | '<' | '>' | '"') && !letter.is_whitespace()
}

/// Where a JSON string ends whose first quote stands before the text.
fn end_of_string(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().find_map(|(at, letter)| {
        let ends = letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        ends.then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn a_path_leads_to_its_place() {
        let value = json!({ "items": [{ "id": 7, "a b": { "]\"": true } }], "": 0 });
        for (text, behind, found) in [
            (".items[0].id", "", Some(json!(7))),
            (".items[0].id=7", "=7", Some(json!(7))),
            (".items[1]", "", None),
            (".items.id !~x", " !~x", None),
            ("[\"items\"][0][\"a b\"][\"]\\\"\"]", "", Some(json!(true))),
            (".[\"\"]", "", Some(json!(0))),
        ] {
            let (path, rest) = JsonPath::read(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((rest, path.of(&value).cloned()), (behind, found), "{text}");
        }
        let (whole, rest) = JsonPath::read(".").expect("the whole");
        assert_eq!((whole.of(&value), rest), (Some(&value), ""));
        for text in
            ["", "items", "..a", ".a..b", ".a.", "[x]", "[", "[-1]", "[\"a\"", "[\"a]", "[99999999999999999999999]"]
        {
            assert_eq!(JsonPath::read(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[.a\\[\\]0\"\\\\=~ ü]{0,12}") {
            if let Some((path, rest)) = JsonPath::read(&text) {
                prop_assert!(text.ends_with(rest));
                let _ = path.of(&json!({ "a": [0] }));
            }
        }
    }
}
