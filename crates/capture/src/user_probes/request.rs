//! What `--probe` asks for.

use super::error::ProbeError;
use std::str::FromStr;

/// A probe by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeRequest {
    /// A function's entry or return.
    Function {
        /// The file's path, or the name of one that the server maps.
        binary: String,
        /// The function, as the file names it.
        function: String,
        /// When it returns instead of when it is entered.
        is_return: bool,
    },
    /// A static probe.
    Static {
        /// The file's path, or the name of one that the server maps.
        binary: String,
        /// Who defines the probe.
        provider: String,
        /// Its name.
        name: String,
    },
}

impl FromStr for ProbeRequest {
    type Err = ProbeError;

    fn from_str(text: &str) -> Result<Self, ProbeError> {
        let wrong = |reason| ProbeError::Spelling { text: text.to_owned(), reason };
        if let Some(rest) = text.strip_prefix("usdt:") {
            // From the back: a path may hold colons, names do not.
            let mut pieces = rest.rsplitn(3, ':');
            let (Some(name), Some(provider), Some(binary)) = (pieces.next(), pieces.next(), pieces.next()) else {
                return Err(wrong("a static probe needs a file, a provider and a name"));
            };
            if [name, provider, binary].contains(&"") {
                return Err(wrong("a piece is empty"));
            }
            let (binary, provider, name) = (binary.to_owned(), provider.to_owned(), name.to_owned());
            return Ok(Self::Static { binary, provider, name });
        }
        let (rest, is_return) = text.strip_suffix(":ret").map_or((text, false), |rest| (rest, true));
        let (binary, function) = rest.rsplit_once(':').ok_or_else(|| wrong("there is no colon"))?;
        if binary.is_empty() || function.is_empty() {
            return Err(wrong("a piece is empty"));
        }
        Ok(Self::Function { binary: binary.to_owned(), function: function.to_owned(), is_return })
    }
}

impl ProbeRequest {
    /// The file's path or name.
    #[must_use]
    pub fn binary(&self) -> &str {
        match self {
            Self::Function { binary, .. } | Self::Static { binary, .. } => binary,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_three_forms_are_understood() {
        let function = |text: &str| match text.parse() {
            Ok(ProbeRequest::Function { binary, function, is_return }) => (binary, function, is_return),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(function("/bin/a:f"), ("/bin/a".to_owned(), "f".to_owned(), false));
        assert_eq!(function("nginx:f:ret"), ("nginx".to_owned(), "f".to_owned(), true));
        assert_eq!(function("/odd:path/a:f"), ("/odd:path/a".to_owned(), "f".to_owned(), false));
        let expected = ("postgres".to_owned(), "postgresql".to_owned(), "query__start".to_owned());
        let Ok(ProbeRequest::Static { binary, provider, name }) = "usdt:postgres:postgresql:query__start".parse()
        else {
            panic!("a static probe");
        };
        assert_eq!((binary, provider, name), expected);
    }

    #[test]
    fn half_a_probe_is_refused_with_the_spelling() {
        for text in ["", "nginx", ":f", "nginx:", "usdt:a:b", "usdt::a:b", "usdt:a:b:", ":ret"] {
            let error = text.parse::<ProbeRequest>().expect_err(text);
            assert!(error.to_string().contains("BINARY:FUNCTION"), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(text in ".{0,60}") {
            if let Ok(request) = text.parse::<ProbeRequest>() {
                prop_assert!(!request.binary().is_empty());
            }
        }
    }
}
