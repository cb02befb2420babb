//! A file of requests, one a line: `[WEIGHT] [METHOD] URL-or-path [@BODYFILE]`.

use crate::requests::listed::{ListedRequest, REQUESTS_MAX};
use crate::{Request, RequestError, Url, UrlError};

/// The largest weight of a line.
const WEIGHT_MAX: u32 = 1_000_000_000;

/// What is wrong with a line of the file.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct UrlListError {
    /// The line, from 1; 0 for the file as a whole.
    pub line: usize,
    /// What is wrong with it.
    pub problem: UrlListProblem,
}

/// What can be wrong with a line.
#[derive(Debug, thiserror::Error)]
pub enum UrlListProblem {
    /// No line says what to ask.
    #[error("no request in it; write a URL or a path in each line, such as: 3 GET /index.html")]
    Empty,
    /// A weight that is 0 or too large.
    #[error("{given}: a weight lies between 1 and 1000000000; leave it out for 1")]
    Weight {
        /// What was given.
        given: String,
    },
    /// More words than a line has.
    #[error(
        "{given:?}: nothing belongs here; a line is [WEIGHT] [METHOD] URL-or-path [@BODYFILE], a space in a URL is %20"
    )]
    Surplus {
        /// The first word that is too much.
        given: String,
    },
    /// No URL in the line.
    #[error("no URL in it; write a URL or a path that begins with /, such as: 3 GET /index.html")]
    NoUrl,
    /// A word that is neither a method nor a URL.
    #[error("{given}: neither a URL (http://HOST/PATH) nor a path (/PATH)")]
    NotAUrl {
        /// The word.
        given: String,
    },
    /// A path, and no host to which it belongs.
    #[error(
        "{given}: a path needs a host: give the URL of its server on the command line, or write http://HOST{given}"
    )]
    NoHost {
        /// The path.
        given: String,
    },
    /// The URL cannot be loaded.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The request cannot be built.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The file of a body cannot be read.
    #[error("{file}: the body cannot be read ({cause}); write @ and the path of a file, relative to this one")]
    Body {
        /// The file.
        file: String,
        /// What the system said.
        cause: std::io::Error,
    },
    /// More lines than a run takes.
    #[error("there are more than 1000000 requests in the file; leave some out")]
    TooMany,
}

/// Reads a list of requests; each begins as `like`, and a path belongs to the host of `base`.
///
/// `read_body` gives the content of a file that a line names.
/// The second of the two is whether any line gives a weight: if none does, the requests are to be asked in turn.
///
/// # Errors
/// [`UrlListError`], with the line.
pub fn parse_url_list(
    text: &str,
    base: Option<&Url>,
    like: &Request,
    mut read_body: impl FnMut(&str) -> std::io::Result<Vec<u8>>,
) -> Result<(Vec<ListedRequest>, bool), UrlListError> {
    let (mut requests, mut weighted) = (Vec::new(), false);
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = |problem| UrlListError { line: index + 1, problem };
        let (listed, has_weight) = parse_line(line, base, like, &mut read_body).map_err(at)?;
        if requests.len() == REQUESTS_MAX {
            return Err(at(UrlListProblem::TooMany));
        }
        weighted |= has_weight;
        requests.push(listed);
    }
    if requests.is_empty() {
        Err(UrlListError { line: 0, problem: UrlListProblem::Empty })
    } else {
        Ok((requests, weighted))
    }
}

fn parse_line(
    line: &str,
    base: Option<&Url>,
    like: &Request,
    read_body: &mut impl FnMut(&str) -> std::io::Result<Vec<u8>>,
) -> Result<(ListedRequest, bool), UrlListProblem> {
    let mut words = line.split_whitespace().peekable();
    let weight = words.next_if(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
    let mut request = like.clone();
    if let Some(method) = words.next_if(|word| word.bytes().all(|byte| byte.is_ascii_uppercase())) {
        request.method = method.to_owned();
    }
    let address = words.next().ok_or(UrlListProblem::NoUrl)?;
    let url = match base {
        _ if address.contains("://") && !address.starts_with('/') => Url::parse(address)?,
        Some(base) if address.starts_with('/') => base.with_target(address),
        None if address.starts_with('/') => return Err(UrlListProblem::NoHost { given: address.to_owned() }),
        _ => return Err(UrlListProblem::NotAUrl { given: address.to_owned() }),
    };
    if let Some(file) = words.next_if(|word| word.starts_with('@')) {
        let file = &file[1..];
        request.body = read_body(file).map_err(|cause| UrlListProblem::Body { file: file.to_owned(), cause })?;
    }
    if let Some(surplus) = words.next() {
        return Err(UrlListProblem::Surplus { given: surplus.to_owned() });
    }
    request.bytes(&url, true)?;
    let has_weight = weight.is_some();
    let weight = match weight.map(|word| (word, word.parse::<u32>())) {
        None => 1,
        Some((_, Ok(weight))) if (1..=WEIGHT_MAX).contains(&weight) => weight,
        Some((word, _)) => return Err(UrlListProblem::Weight { given: word.to_owned() }),
    };
    Ok((ListedRequest { url, request, weight }, has_weight))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<(Vec<ListedRequest>, bool), String> {
        let base = Url::parse("http://h:81/base").expect("a URL");
        let read =
            |file: &str| if file == "body" { Ok(b"abc".to_vec()) } else { Err(std::io::ErrorKind::NotFound.into()) };
        parse_url_list(text, Some(&base), &Request::default(), read).map_err(|error| error.to_string())
    }

    #[test]
    fn a_line_is_a_request() {
        let (requests, weighted) =
            parse("# mix\n\n/a\n7 POST /b?c=d#e @body\r\n  HEAD https://other/x\n").expect("a good file");
        assert!(weighted);
        let told: Vec<_> = requests
            .iter()
            .map(|listed| {
                (listed.weight, listed.request.method.as_str(), listed.url.to_string(), listed.request.body.len())
            })
            .collect();
        assert_eq!(
            told,
            [
                (1, "GET", "http://h:81/a".to_owned(), 0),
                (7, "POST", "http://h:81/b?c=d".to_owned(), 3),
                (1, "HEAD", "https://other/x".to_owned(), 0)
            ]
        );
        assert!(!parse("/a\n/b").expect("a good file").1);
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, told) in [
            ("", "line 0: no request in it"),
            ("/a\n0 /b", "line 2: 0: a weight lies between"),
            ("99999999999 /b", "line 1: 99999999999: a weight"),
            ("3 GET", "line 1: no URL"),
            ("/a b", "line 1: \"b\": nothing belongs here"),
            ("example.org/x", "line 1: example.org/x: neither a URL"),
            ("ftp://h/", "line 1: ftp://: only http://"),
            ("#\nCONNECT /x", "line 2: \"CONNECT\": not a method"),
            ("POST /x @none", "line 1: none: the body cannot be read"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.starts_with(told), "{text:?}: {error}");
        }
        let error = parse_url_list("/a", None, &Request::default(), |_| Ok(Vec::new())).expect_err("no host");
        assert!(error.to_string().contains("http://HOST/a"), "{error}");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_with_its_line(text in "([0-9]{0,3} ?[A-Z]{0,4} ?[/a-z:@#\\PC]{0,12}\n){0,6}") {
            let lines = text.lines().count();
            match parse_url_list(&text, None, &Request::default(), |_| Ok(vec![0])) {
                Ok((requests, _)) => prop_assert!(!requests.is_empty() && requests.len() <= lines),
                Err(error) => prop_assert!(error.line <= lines && (error.line == 0) == matches!(error.problem, UrlListProblem::Empty)),
            }
        }
    }
}
