//! Addresses of requests: the server apart from path and query.

use crate::model::text::Text;
use weir_load::Url;

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// The server, such as `http://host:8080`; none where only its values say it, or where it is relative.
    pub(crate) origin: Option<String>,
    /// What follows it, or all of it without one.
    pub(crate) rest: Text,
}

impl Address {
    /// Takes an address apart; a fragment is cut off.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(crate) fn parse(text: &Text) -> Result<Self, weir_load::UrlError> {
        let text = text.split_once('#').map_or_else(|| text.clone(), |(before, _)| before);
        let begin = text.begin();
        let scheme = begin.split_once("://").filter(|(scheme, _)| !scheme.contains(['/', '?']));
        let Some((scheme, behind)) = scheme else {
            if let Some(plain) = text.as_plain().filter(|plain| !plain.starts_with(['/', '?'])) {
                Url::parse(plain)?;
            }
            return Ok(Self { origin: None, rest: text });
        };
        let end = behind.find(['/', '?']).map(|at| scheme.len() + 3 + at);
        let Some(end) = end.or_else(|| (text.as_plain().is_some()).then_some(begin.len())) else {
            // A value is a part of the server's name.
            return Ok(Self { origin: None, rest: text });
        };
        let url = Url::parse(&begin[..end])?;
        let origin = url.to_string().trim_end_matches('/').to_owned();
        let rest = text.without_begin(end);
        let rest = match rest.begin() {
            begin if begin.starts_with('/') => rest,
            _ => {
                let mut with_slash = Text::plain("/");
                with_slash.append(&rest);
                with_slash
            }
        };
        Ok(Self { origin: Some(origin), rest })
    }

    /// Whether it stands behind a base: it is relative, and no value comes first.
    pub(crate) fn is_relative(&self) -> bool {
        self.origin.is_none() && self.rest.begin().starts_with(['/', '?'])
    }

    /// As a step writes it, behind this base.
    pub(crate) fn template(&self, base: Option<&str>) -> String {
        let rest = self.rest.template();
        match &self.origin {
            // Of several slashes at the begin a relative address would keep one.
            Some(origin) if base == Some(origin) && !rest.starts_with("//") => rest,
            Some(origin) => format!("{origin}{rest}"),
            None => rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_told_from_paths() {
        let parse = |text: &str| {
            let address = Address::parse(&Text::plain(text)).expect(text);
            (address.origin.unwrap_or_default(), address.rest.template())
        };
        assert_eq!(parse("http://h:81/a?b#c"), ("http://h:81".into(), "/a?b".into()));
        assert_eq!(parse("https://h?x=http://y"), ("https://h".into(), "/?x=http://y".into()));
        assert_eq!(parse("/a?next=http://y/"), (String::new(), "/a?next=http://y/".into()));
        let mut text = Text::plain("http://");
        text.push_value("host");
        text.push("/a");
        let address = Address::parse(&text).expect("an address");
        assert_eq!((address.origin.clone(), address.template(None).as_str()), (None, "http://${host}/a"));
        assert!(Address::parse(&Text::plain("ftp://h/")).is_err() && Address::parse(&Text::plain("h/a")).is_err());
    }
}
