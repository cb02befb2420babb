//! A file of sessions in the format of httperf's `--wsesslog`.

use crate::sessions::session::{BURST_MAX, Session, Think};
use crate::{ListedRequest, Request, RequestError, Url, UrlError};
use std::collections::HashMap;
use std::time::Duration;

/// The most sessions of a file.
const SESSIONS_MAX: usize = 1_000_000;
/// The longest pause that a file may ask for, in seconds: a year.
const THINK_S_MAX: f64 = 366.0 * 86_400.0;

/// What is wrong with a line of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct SessionListError {
    /// The line, from 1; 0 for the file as a whole.
    pub line: usize,
    /// What is wrong with it.
    pub problem: SessionListProblem,
}

/// What can be wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionListProblem {
    /// No line says what to ask.
    #[error("no session in it; write a path in each line and an empty line between sessions")]
    Empty,
    /// An indented line with nothing before it in its session.
    #[error("an indented line belongs to the request above it, and there is none; take the spaces in front away")]
    NoBurst,
    /// More requests than go out together.
    #[error("more than 1024 requests in one burst; begin another with a line that is not indented")]
    LongBurst,
    /// A word that is none of those that a line has.
    #[error("{given:?}: only method=, think= and contents= stand behind the path")]
    Unknown {
        /// The word.
        given: String,
    },
    /// A think time that is none.
    #[error("think={given}: a time in seconds, such as think=2.5")]
    Think {
        /// What was given.
        given: String,
    },
    /// The quote behind `contents=` that is not closed.
    #[error("the text behind contents= has no end; write contents='text' or contents=\"text\"")]
    OpenQuote,
    /// Neither a path nor a URL.
    #[error("{given}: neither a path (/PATH) nor a URL (http://HOST/PATH)")]
    NotAUrl {
        /// What was given.
        given: String,
    },
    /// A path, and no host to which it belongs.
    #[error("{given}: a path needs a host: give the URL of its server on the command line")]
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
    /// More sessions or requests than a run takes.
    #[error("there are more than 1000000 sessions or different requests in the file; leave some out")]
    TooMany,
}

/// A line as it was read.
struct Line<'t> {
    address: &'t str,
    method: Option<&'t str>,
    think: Option<Think>,
    body: Vec<u8>,
}

/// Reads sessions: a line is a request, `URI [method=M] [think=SECONDS] [contents='TEXT']`.
///
/// An empty line ends a session; a line that is not indented begins a burst, indented ones belong to it and go out
/// together when its first request is answered. A think time is the pause after the burst, `think` where none is given.
/// Each request begins as `like`, and a path belongs to the host of `base`.
///
/// # Errors
/// [`SessionListError`], with the line.
pub fn parse_sessions(
    text: &str,
    base: Option<&Url>,
    like: &Request,
    think: Think,
) -> Result<(Vec<ListedRequest>, Vec<Session>), SessionListError> {
    let (mut requests, mut sessions) = (Vec::<ListedRequest>::new(), Vec::new());
    let mut known: HashMap<(String, String, Vec<u8>), u32> = HashMap::new();
    // The bursts of the session that is read: the first request, those behind it, the pause.
    let mut bursts: Vec<(u32, Vec<u32>, Think)> = Vec::new();
    for (number, line) in joined_lines(text) {
        let at = |problem| SessionListError { line: number, problem };
        if line.trim().is_empty() {
            finish(&mut bursts, &mut sessions);
            continue;
        }
        if line.trim_start().starts_with('#') {
            continue;
        }
        let indented = line.starts_with([' ', '\t']);
        let read = parse_line(line.trim()).map_err(at)?;
        let url = address(read.address, base).map_err(at)?;
        let method = read.method.unwrap_or(&like.method).to_owned();
        let next = requests.len() as u32;
        let place = match known.entry((method.clone(), url.to_string(), read.body.clone())) {
            std::collections::hash_map::Entry::Occupied(place) => *place.get(),
            std::collections::hash_map::Entry::Vacant(place) => {
                let request = Request { method, body: read.body, ..like.clone() };
                request.bytes(&url, true).map_err(|error| at(error.into()))?;
                requests.push(ListedRequest { url, request, weight: 1 });
                *place.insert(next)
            }
        };
        if requests.len() > SESSIONS_MAX || sessions.len() >= SESSIONS_MAX {
            return Err(at(SessionListProblem::TooMany));
        }
        if indented {
            let Some((_, rest, pause)) = bursts.last_mut() else { return Err(at(SessionListProblem::NoBurst)) };
            if rest.len() == BURST_MAX {
                return Err(at(SessionListProblem::LongBurst));
            }
            rest.push(place);
            *pause = read.think.unwrap_or(*pause);
        } else {
            bursts.push((place, Vec::new(), read.think.unwrap_or(think)));
        }
    }
    finish(&mut bursts, &mut sessions);
    let empty = SessionListError { line: 0, problem: SessionListProblem::Empty };
    if sessions.is_empty() { Err(empty) } else { Ok((requests, sessions)) }
}

/// Makes a session of the bursts that were read.
fn finish(bursts: &mut Vec<(u32, Vec<u32>, Think)>, sessions: &mut Vec<Session>) {
    if bursts.is_empty() {
        return;
    }
    let mut session = Session::new();
    for (first, rest, think) in bursts.drain(..) {
        session = session.burst(&[first]);
        if !rest.is_empty() {
            session = session.burst(&rest);
        }
        session = session.think(think);
    }
    sessions.push(session);
}

/// Lines with the number of their first, from 1; a line that ends with a backslash goes on in the next.
fn joined_lines(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut lines = text.lines().enumerate();
    std::iter::from_fn(move || {
        let (index, line) = lines.next()?;
        let mut whole = line.to_owned();
        while whole.ends_with('\\')
            && let Some((_, more)) = lines.next()
        {
            whole.pop();
            // Within a text this is the line's end that it stands for; between words it is a space.
            whole.push('\n');
            whole.push_str(more);
        }
        Some((index + 1, whole))
    })
}

fn address(given: &str, base: Option<&Url>) -> Result<Url, SessionListProblem> {
    match base {
        _ if given.contains("://") && !given.starts_with('/') => Ok(Url::parse(given)?),
        Some(base) if given.starts_with('/') => Ok(base.with_target(given)),
        None if given.starts_with('/') => Err(SessionListProblem::NoHost { given: given.to_owned() }),
        _ => Err(SessionListProblem::NotAUrl { given: given.to_owned() }),
    }
}

fn parse_line(line: &str) -> Result<Line<'_>, SessionListProblem> {
    let (address, mut rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let mut read = Line { address, method: None, think: None, body: Vec::new() };
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Ok(read);
        }
        if let Some(text) = rest.strip_prefix("contents=") {
            let quote = text.chars().next().filter(|quote| ['\'', '"'].contains(quote));
            let quote = quote.ok_or(SessionListProblem::OpenQuote)?;
            let (body, after) = quoted(&text[1..], quote).ok_or(SessionListProblem::OpenQuote)?;
            (read.body, rest) = (body, after);
            continue;
        }
        let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        if let Some(method) = word.strip_prefix("method=") {
            read.method = Some(method);
        } else if let Some(given) = word.strip_prefix("think=") {
            let wrong = || SessionListProblem::Think { given: given.to_owned() };
            let seconds = given.parse::<f64>().map_err(|_| wrong())?;
            if !(0.0..=THINK_S_MAX).contains(&seconds) {
                return Err(wrong());
            }
            read.think = Some(match Duration::from_secs_f64(seconds) {
                Duration::ZERO => Think::None,
                time => Think::Fixed(time),
            });
        } else {
            return Err(SessionListProblem::Unknown { given: word.to_owned() });
        }
        rest = after;
    }
}

/// A text until its closing quote, `\n`, `\\` and quotes behind a backslash as what they stand for, and what follows.
fn quoted(text: &str, quote: char) -> Option<(Vec<u8>, &str)> {
    let mut body = String::new();
    let mut symbols = text.char_indices();
    while let Some((at, symbol)) = symbols.next() {
        match symbol {
            _ if symbol == quote => return Some((body.into_bytes(), &text[at + 1..])),
            '\\' => match symbols.next()?.1 {
                'n' => body.push('\n'),
                'r' => body.push('\r'),
                't' => body.push('\t'),
                other => body.push(other),
            },
            _ => body.push(symbol),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<(Vec<ListedRequest>, Vec<Session>), String> {
        let base = Url::parse("http://h/").expect("a URL");
        parse_sessions(text, Some(&base), &Request::default(), Think::Fixed(Duration::from_secs(1)))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn bursts_and_pauses_are_read() {
        let text = "# session 1\n/foo.html think=2.5\n\t/pict1.gif\n  /pict2.gif\n\
                    /foo2.html method=POST contents='it''s'\n\n\n# 2\n/foo.html\n/put method=PUT contents=\"a\\nb\\\n c\\\"\" think=0\n";
        let error = parse(text).expect_err("a second quote");
        assert!(error.starts_with("line 5: \"'s'\": only method="), "{error}");
        let (requests, sessions) = parse(&text.replace("'it''s'", "\"it's\"")).expect("a good file");
        let told: Vec<_> =
            requests.iter().map(|listed| (listed.request.method.as_str(), listed.url.target.as_str())).collect();
        assert_eq!(
            told,
            [
                ("GET", "/foo.html"),
                ("GET", "/pict1.gif"),
                ("GET", "/pict2.gif"),
                ("POST", "/foo2.html"),
                ("PUT", "/put")
            ]
        );
        assert_eq!(
            (requests[3].request.body.as_slice(), requests[4].request.body.as_slice()),
            (&b"it's"[..], &b"a\nb\n c\""[..])
        );
        let seconds = |seconds| Think::Fixed(Duration::from_secs_f64(seconds));
        assert_eq!(
            sessions,
            [
                Session::new().burst(&[0]).burst(&[1, 2]).think(seconds(2.5)).burst(&[3]).think(seconds(1.0)),
                Session::new().burst(&[0]).think(seconds(1.0)).burst(&[4]),
            ]
        );
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, told) in [
            ("# nothing\n\n", "line 0: no session"),
            ("/a\n\n  /b", "line 3: an indented line"),
            ("/a metod=GET", "line 1: \"metod=GET\": only method="),
            ("/a think=long", "line 1: think=long: a time in seconds"),
            ("/a think=-1", "line 1: think=-1"),
            ("/a contents='x", "line 1: the text behind contents="),
            ("/a\\\n\nb method=X", "line 3: b: neither a path"),
            ("foo.html", "line 1: foo.html: neither a path"),
            ("/a method=CONNECT", "line 1: \"CONNECT\": not a method"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.starts_with(told), "{text:?}: {error}");
        }
        let long = format!("/a\n{}", " /b\n".repeat(BURST_MAX + 1));
        assert!(parse(&long).expect_err("long").starts_with("line 1026: more than 1024"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_with_its_line(text in "((/|\t/| |#)?[a-z=.'\"0-9\\\\]{0,8}( think=| method=| contents='a'|\n)?){0,12}") {
            let lines = text.lines().count();
            match parse(&text) {
                Ok((requests, sessions)) => {
                    prop_assert!(!sessions.is_empty() && sessions.iter().all(|session| session.requests() > 0));
                    prop_assert!(requests.len() <= lines);
                }
                Err(error) => prop_assert!(error.starts_with("line "), "{}", error),
            }
        }
    }
}
