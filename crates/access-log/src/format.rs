//! Finds out in which format a line is written.

use crate::{Entry, Reason, escape, json, text};

impl<'a> Entry<'a> {
    /// Reads a line of any form but the W3C's, which needs the lines above: see [`crate::Requests`].
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(line: &'a [u8]) -> Result<Self, Reason> {
        if line.first() == Some(&b'{') {
            return json::parse(line, 0);
        }
        match std::str::from_utf8(line) {
            Ok(text) => of_text(text),
            Err(_) => of_text(&escape::with_escapes(line)).map(Entry::into_owned),
        }
    }
}

fn of_text(line: &str) -> Result<Entry<'_>, Reason> {
    // An object behind what syslog, journald or a container's runtime puts in front, or within a list.
    if line.trim_end_matches([',', ']']).ends_with('}')
        && let Some(begin) = line.find("{\"").or_else(|| line.find("{ \""))
        && let said = json::parse(&line.as_bytes()[begin..], 0)
        && !said.as_ref().is_err_and(|reason| *reason == Reason::NotJson)
    {
        return said;
    }
    text::parse(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::checked_method;
    use proptest::prelude::*;

    const COMBINED: &str =
        r#"::1 - - [10/Oct/2000:13:55:36 -0700] "GET /a?x=\"y\" HTTP/1.1" 200 2326 "http://a/" "Agent \"1\"""#;

    #[test]
    fn a_line_is_a_request() {
        let entry = Entry::parse(COMBINED.as_bytes()).expect("a request");
        assert_eq!((entry.second, entry.nanosecond), (971_211_336, None));
        assert_eq!((&*entry.method, &*entry.target), ("GET", "/a?x=%22y%22"));
        assert_eq!((entry.status, entry.bytes), (Some(200), Some(2326)));
        let bare = COMBINED.replace("200 2326", "304 -");
        let bare = Entry::parse(bare.as_bytes()).expect("a request");
        assert_eq!((bare.status, bare.bytes), (Some(304), None));
        for (from, to, problem) in [
            ("GET /a", "-", "method"),
            ("GET /a?x=\\\"y\\\" HTTP/1.1", "-", "no request"),
            ("GET", "get", "method"),
            ("/a?", "a?", "begin with /"),
            ("Oct", "Okt", "its time"),
            ("[", "", "HOST IDENT"),
        ] {
            let line = COMBINED.replacen(from, to, 1);
            let said = Entry::parse(line.as_bytes()).expect_err(from).words();
            assert!(said.contains(problem), "{line}: {said}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused(mut line in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..120, object: bool) {
            if object {
                line.insert(0, b'{');
            }
            let _ = Entry::parse(&line);
            let known = [&COMBINED.as_bytes()[..cut.min(COMBINED.len())], &line].concat();
            if let Ok(entry) = Entry::parse(&known) {
                prop_assert!(entry.target.starts_with('/') && entry.target.bytes().all(|byte| byte.is_ascii_graphic()));
                prop_assert!(checked_method(&entry.method).is_ok());
            }
        }
    }
}
