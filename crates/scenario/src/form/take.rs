//! What is taken of an answer: `json .items[0].id`, `css input[name=csrf] @value`, `regex id=(\d+)`, `header location`,
//! `cookie sid`, `status`, `url`.

use crate::behaviour::Answer;
use crate::form::condition::regex;
use crate::form::css::Css;
use regex::Regex;
use weir_load::JsonPath;

/// What is taken of an answer.
#[derive(Debug, Clone)]
pub enum Take {
    /// What stands at a place of the body, which is JSON.
    Json(JsonPath),
    /// The first group of a regular expression on the body, or the whole, if it has none.
    Regex(Regex),
    /// Of the first element that a selector selects.
    Css(Css),
    /// A header's first value.
    Header(String),
    /// The value of a cookie that the answer sets.
    Cookie(String),
    /// The status.
    Status,
    /// The address that answered, redirects followed.
    Url,
}

impl Take {
    /// Reads it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim();
        let name = || (!rest.is_empty() && !rest.contains(char::is_whitespace)).then(|| rest.to_owned());
        match word {
            "json" => {
                let (path, behind) = JsonPath::read(rest)?;
                behind.trim().is_empty().then_some(Self::Json(path))
            }
            "regex" if !rest.is_empty() => regex(rest).map(Self::Regex),
            "css" => Css::parse(rest).map(Self::Css),
            "header" => name().map(Self::Header),
            "cookie" => name().map(Self::Cookie),
            "status" if rest.is_empty() => Some(Self::Status),
            "url" if rest.is_empty() => Some(Self::Url),
            _ => None,
        }
    }

    /// What is taken; `None` where nothing fits.
    #[must_use]
    pub fn of(&self, answer: &Answer, body: &str, json: &mut Option<Option<serde_json::Value>>) -> Option<String> {
        match self {
            Self::Json(path) => {
                let value = json.get_or_insert_with(|| serde_json::from_str(body).ok()).as_ref()?;
                match path.of(value)? {
                    serde_json::Value::String(text) => Some(text.clone()),
                    serde_json::Value::Null => None,
                    other => Some(other.to_string()),
                }
            }
            Self::Regex(pattern) => {
                let found = pattern.captures(body)?;
                found.get(1).or_else(|| found.get(0)).map(|found| found.as_str().to_owned())
            }
            Self::Css(css) => css.first(body),
            Self::Header(name) => answer.header(name).map(str::to_owned),
            Self::Cookie(name) => {
                let set = answer.headers.values("set-cookie");
                let mut pairs = set.filter_map(|value| value.split(';').next()?.split_once('='));
                pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
            }
            Self::Status => Some(answer.status().to_string()),
            Self::Url => Some(answer.url.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_taken_is_refused() {
        for text in ["json .a.b", "regex a(.)", "css a@href", "header location", "cookie sid", "status", "url"] {
            assert!(Take::parse(text).is_some(), "{text}");
        }
        for text in
            ["", "json", "json a", "regex", "regex (", "css", "header", "header a b", "cookie", "status 3", "xpath //a"]
        {
            assert!(Take::parse(text).is_none(), "{text}");
        }
    }
}
