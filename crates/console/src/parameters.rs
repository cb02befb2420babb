//! The parameters behind a target's question mark.

use std::str::FromStr;

/// Parameters that a call may have.
const MOST: usize = 32;
/// Characters of a name that are told.
const MOST_NAME: usize = 40;
/// Bytes of a parameter's value; a name of a run or of a request may be long.
const MOST_BYTES: usize = 16 << 10;

/// Why parameters mean nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {wrong}; docs/reference/console-api.md says what the call takes")]
pub(crate) struct ParameterError {
    name: String,
    wrong: &'static str,
}

impl ParameterError {
    pub(crate) fn new(name: &str, wrong: &'static str) -> Self {
        Self { name: name.chars().take(MOST_NAME).collect(), wrong }
    }
}

/// Parameters by name, each at most once.
#[derive(Debug, Default)]
pub(crate) struct Parameters {
    all: Vec<(String, String)>,
}

impl Parameters {
    /// Reads `name=value&...` (WHATWG URL, application/x-www-form-urlencoded).
    pub(crate) fn of(query: &str) -> Result<Self, ParameterError> {
        let wrong = |name: &str, wrong| Err(ParameterError::new(name, wrong));
        let mut all: Vec<(String, String)> = Vec::new();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            if all.len() >= MOST {
                return wrong(&name, "is one parameter too many");
            }
            if value.len() > MOST_BYTES {
                return wrong(&name, "is longer than 16,384 bytes");
            }
            if value.contains('\0') {
                return wrong(&name, "holds a zero byte");
            }
            if all.iter().any(|(known, _)| *known == name) {
                return wrong(&name, "is given twice");
            }
            all.push((name.into_owned(), value.into_owned()));
        }
        Ok(Self { all })
    }

    /// A value; one that is empty is as none.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.all.iter().find(|(known, value)| known == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    /// A value that must be there.
    pub(crate) fn required(&self, name: &str) -> Result<&str, ParameterError> {
        self.text(name).ok_or_else(|| ParameterError::new(name, "is missing"))
    }

    /// A number.
    pub(crate) fn number<N: FromStr>(&self, name: &str) -> Result<Option<N>, ParameterError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(ParameterError::new(name, "is no number in its range")),
        }
    }

    /// Refuses parameters that the call does not know, so that none is without effect.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), ParameterError> {
        match self.all.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            Some((name, _)) => Err(ParameterError::new(name, "is no parameter of this call")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parameters_are_read_once_each() {
        let read = Parameters::of("run=a%2Fb+c&limit=7&class=").expect("parameters");
        assert_eq!((read.text("run"), read.number::<u32>("limit").expect("a number")), (Some("a/b c"), Some(7)));
        assert!(read.text("class").is_none() && read.required("class").is_err());
        assert!(read.only(&["run", "limit", "class"]).is_ok() && read.only(&["run"]).is_err());
        for query in ["a=1&a=2", "a=%00", "limit=-1"] {
            let read = Parameters::of(query).and_then(|read| read.number::<u32>("limit"));
            assert!(read.is_err(), "{query}");
        }
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_read(value in "[^\0]{1,40}") {
            let query: String = url::form_urlencoded::Serializer::new(String::new()).append_pair("v", &value).finish();
            let read = Parameters::of(&query).expect("a parameter");
            prop_assert_eq!(read.text("v"), Some(value.as_str()));
        }
    }
}
