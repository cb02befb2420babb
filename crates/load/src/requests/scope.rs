//! Some of a run's requests, by their method and URL: what a check or an objective is of.

use crate::requests::url::request_target;
use crate::{Request, Url, UrlError};
use std::fmt;
use std::str::FromStr;

/// The most scopes of a run: a bit of a number stands for each.
pub(crate) const SCOPES_MAX: usize = 64;

/// Some of a run's requests: `GET /cart`, `/items/*`, `http://host/path`.
///
/// Each `*` stands for any characters. Without a `?` the query of a request does not matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    method: Option<String>,
    /// Where all of it was given, its host; `None` for any.
    host: Option<Url>,
    /// Path, and query if it has one; begins with `/` or `*`.
    target: String,
}

/// Why a text names no requests.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// Nothing of it is a path or a URL.
    #[error("{given:?}: requests are named by [METHOD] /PATH or [METHOD] http://HOST/PATH, with * for any characters")]
    Form {
        /// What was given.
        given: String,
    },
    /// It begins with requests, and no colon ends them.
    #[error(
        "{given:?}: a colon and a space stand between the requests and what is asked of them, as in '{method}/cart: {example}'"
    )]
    NoColon {
        /// What was given.
        given: String,
        /// The method that was given, with a space.
        method: String,
        /// What could follow.
        example: &'static str,
    },
    /// The URL cannot be read.
    #[error(transparent)]
    Url(#[from] UrlError),
}

impl FromStr for Scope {
    type Err = ScopeError;

    fn from_str(text: &str) -> Result<Self, ScopeError> {
        let text = text.trim();
        let form = || ScopeError::Form { given: text.to_owned() };
        let (method, address) = match text.split_once(char::is_whitespace) {
            Some((method, address)) if is_method(method) => (Some(method.to_owned()), address.trim()),
            Some(_) => return Err(form()),
            None => (None, text),
        };
        if address.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
            return Err(form());
        }
        if address.starts_with('*') {
            return Ok(Self { method, host: None, target: address.to_owned() });
        }
        if address.starts_with('/') {
            return Ok(Self { method, host: None, target: request_target(address) });
        }
        if !address.contains("://") {
            return Err(form());
        }
        let url = Url::parse(address)?;
        Ok(Self { method, target: url.target.clone(), host: Some(url) })
    }
}

impl Scope {
    /// The requests that stand before `: `, if any do, and what is asked of them; `example` is told where the colon lacks.
    ///
    /// # Errors
    /// [`ScopeError`]: it begins like the name of requests, and is none.
    pub fn split<'t>(text: &'t str, example: &'static str) -> Result<(Option<Self>, &'t str), ScopeError> {
        let text = text.trim();
        let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let begins =
            |word: &str| word.starts_with(['/', '*']) || word.starts_with("http://") || word.starts_with("https://");
        let with_method = is_method(first) && begins(rest.trim_start());
        if !begins(first) && !with_method {
            return Ok((None, text));
        }
        let Some((scope, rest)) = text.split_once(": ") else {
            let method = if with_method { format!("{first} ") } else { String::new() };
            return Err(ScopeError::NoColon { given: text.to_owned(), method, example });
        };
        Ok((Some(scope.parse()?), rest.trim()))
    }

    /// Whether a request is one of them.
    #[must_use]
    pub fn contains(&self, url: &Url, request: &Request) -> bool {
        let target = match self.target.contains('?') {
            true => url.target.as_str(),
            false => url.target.split('?').next().unwrap_or_default(),
        };
        self.method.as_ref().is_none_or(|method| *method == request.method)
            && self.host.as_ref().is_none_or(|host| host.is_same_host(url))
            && matches(self.target.as_bytes(), target.as_bytes())
    }
}

impl fmt::Display for Scope {
    /// As it is written.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(method) = &self.method {
            write!(formatter, "{method} ")?;
        }
        match &self.host {
            Some(host) => write!(formatter, "{host}"),
            None => formatter.write_str(&self.target),
        }
    }
}

/// Whether a word is a method as scopes have it: capitals only, so that it is told from everything else.
fn is_method(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// Whether a text is as a pattern says, in which `*` stands for any characters.
///
/// It goes back to the last star only, so it takes at most the product of both lengths in time.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut in_pattern) = (0, 0);
    // The place behind the last star, and how far the text goes that it stands for.
    let mut star: Option<(usize, usize)> = None;
    while at < text.len() {
        match pattern.get(in_pattern) {
            Some(b'*') => {
                in_pattern += 1;
                star = Some((in_pattern, at));
            }
            Some(byte) if *byte == text[at] => {
                in_pattern += 1;
                at += 1;
            }
            _ => {
                let Some((behind, until)) = star else { return false };
                star = Some((behind, until + 1));
                (in_pattern, at) = (behind, until + 1);
            }
        }
    }
    pattern[in_pattern..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scope(text: &str) -> Scope {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn contains(text: &str, method: &str, url: &str) -> bool {
        let request = Request { method: method.to_owned(), ..Request::default() };
        scope(text).contains(&Url::parse(url).expect("a URL"), &request)
    }

    #[test]
    fn requests_are_named_by_method_and_path() {
        for (text, method, url, is_one) in [
            ("GET /cart", "GET", "http://h/cart", true),
            ("GET /cart", "POST", "http://h/cart", false),
            ("/cart", "POST", "http://h/cart", true),
            ("/cart", "GET", "http://h/cart?id=7", true),
            ("/cart?id=7", "GET", "http://h/cart?id=7", true),
            ("/cart?id=7", "GET", "http://h/cart", false),
            ("/cart", "GET", "http://h/cart/", false),
            ("/items/*", "GET", "http://h/items/7/x", true),
            ("/items/*/x", "GET", "http://h/items/7/y", false),
            ("*.css", "GET", "http://h/a/b.css?v=1", true),
            ("http://h:81/cart", "GET", "http://h:81/cart", true),
            ("http://h:81/cart", "GET", "http://h/cart", false),
            ("PUT http://h/*", "PUT", "http://h/", true),
        ] {
            assert_eq!(contains(text, method, url), is_one, "{text} and {method} {url}");
            assert_eq!(scope(&scope(text).to_string()), scope(text), "{text}");
        }
        for text in ["", "cart", "get /cart", "GET cart", "/a b", "GET", "ftp://h/"] {
            assert!(text.parse::<Scope>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_stands_before_the_colon_is_told_from_what_is_asked() {
        let split = |text| Scope::split(text, "p95<200ms");
        assert_eq!(split("p99<50ms"), Ok((None, "p99<50ms")));
        assert_eq!(split("header content-type: x"), Ok((None, "header content-type: x")));
        assert_eq!(split("GET /a:b: p95<1s"), Ok((Some(scope("GET /a:b")), "p95<1s")));
        assert_eq!(split("http://h:81/x: body~a: b"), Ok((Some(scope("http://h:81/x")), "body~a: b")));
        let told = split("GET /cart p95<200ms").expect_err("no colon").to_string();
        assert!(told.contains("'GET /cart: p95<200ms'"), "{told}");
        assert!(split("/cart /x: p95<1s").is_err());
    }

    proptest! {
        #[test]
        fn a_pattern_matches_as_its_pieces_say(pattern in "[ab*]{0,8}", text in "[ab]{0,10}") {
            // By definition: a star is nothing, or one character and again a star.
            fn by_definition(pattern: &[u8], text: &[u8]) -> bool {
                match (pattern.first(), text.first()) {
                    (None, None) => true,
                    (Some(b'*'), first) => {
                        by_definition(&pattern[1..], text) || first.is_some() && by_definition(pattern, &text[1..])
                    }
                    (Some(one), Some(other)) => one == other && by_definition(&pattern[1..], &text[1..]),
                    _ => false,
                }
            }
            prop_assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), by_definition(pattern.as_bytes(), text.as_bytes()));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "([A-Z]{0,4} ?)?[/a-z:*?. ]{0,12}(: )?\\PC{0,6}") {
            if let Ok((Some(scope), _)) = Scope::split(&text, "x") {
                prop_assert_eq!(scope.to_string().parse::<Scope>(), Ok(scope));
            }
        }
    }
}
