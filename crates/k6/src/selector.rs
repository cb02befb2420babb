//! What a threshold is about: `name{tag:value,other:value}`.

/// The name and the tags of a key; None if it has another form.
pub(crate) fn selector(key: &str) -> Option<(&str, Vec<(String, String)>)> {
    let Some((name, rest)) = key.split_once('{') else {
        return Some((key.trim(), Vec::new())).filter(|(name, _)| !name.is_empty() && !name.contains('}'));
    };
    let inner = rest.trim_end().strip_suffix('}')?;
    let unquoted = |text: &str| {
        let text = text.trim();
        let quoted = |sign: char| text.strip_prefix(sign).and_then(|rest| rest.strip_suffix(sign));
        quoted('\'').or_else(|| quoted('"')).unwrap_or(text).to_owned()
    };
    let mut tags = Vec::new();
    for pair in inner.split(',').filter(|pair| !pair.trim().is_empty()) {
        let (name, value) = pair.split_once(':')?;
        tags.push((unquoted(name), unquoted(value)));
    }
    Some((name.trim(), tags)).filter(|(name, _)| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_are_taken_apart() {
        let tags = vec![("name".to_owned(), "http://h/a".to_owned()), ("b".to_owned(), "c".to_owned())];
        assert_eq!(selector("http_reqs{name:http://h/a, b:'c'}"), Some(("http_reqs", tags)));
        assert_eq!(selector("checks"), Some(("checks", Vec::new())));
        assert_eq!((selector("a{b"), selector("{a:b}"), selector("a{b}"), selector("")), (None, None, None, None));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,60}") {
            if let Some((name, _)) = selector(&text) {
                prop_assert!(!name.is_empty());
            }
        }
    }
}
