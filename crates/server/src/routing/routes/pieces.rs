//! Texts with places for what a request has: `/new/$1`, `https://$host$path`.

use super::path_test::{CAPTURES_MAX, Captured, PathTest};
use thiserror::Error;

/// A piece of such a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    /// The path as it is now.
    Path,
    /// What the route took out of the path, by its number.
    Capture(usize),
    /// The query with its question mark, if there is one.
    Query,
    /// The query without it.
    Args,
    /// The name of the host, without a port.
    Host,
}

/// What the places stand for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Values<'v> {
    pub(crate) path: &'v [u8],
    pub(crate) query: &'v [u8],
    pub(crate) host: &'v [u8],
    pub(crate) captured: Captured<'v>,
}

impl<'v> Values<'v> {
    /// What a piece stands for.
    pub(crate) fn of(&self, piece: &'v Piece) -> &'v [u8] {
        match piece {
            Piece::Text(text) => text.as_bytes(),
            Piece::Path => self.path,
            Piece::Capture(number) => self.captured.piece(*number),
            Piece::Query => self.query,
            Piece::Args => self.query.strip_prefix(b"?").unwrap_or(self.query),
            Piece::Host => self.host,
        }
    }
}

/// Why a text with places cannot be used. Each says what would be right.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum BadTemplate {
    /// A place that stands for nothing.
    #[error("`${0}` stands for nothing: there are $path, $query, $args, $host, $1 to $9 and the names of captures")]
    Unknown(String),
    /// A piece that the route does not take out of the path.
    #[error("`${0}` is not taken from the path: the route has {1}")]
    NoCapture(usize, String),
    /// It begins as no path does.
    #[error("a path begins with / or with $path")]
    NoPath,
    /// A query where a path is.
    #[error("$query and $args belong behind a question mark")]
    QueryInPath,
    /// It begins as no address does.
    #[error("an address begins with /, $path, http:// or https://")]
    NoAddress,
    /// It leads to another host without saying so.
    #[error("what begins with // leads to another host; write https:// if that is meant")]
    OtherHost,
    /// A client could choose the host.
    #[error("what clients choose may not be a part of the host's name; write a slash in front of it")]
    OpenHost,
    /// It is not as paths are written here.
    #[error("write the path decoded, with single slashes and without . and .. and control characters")]
    NotPlain,
    /// It is not as addresses are written.
    #[error("an address has no spaces and no letters beyond ASCII: write them as %20 and so on")]
    NotEncoded,
}

/// Takes a text apart. `$$` is a dollar sign.
pub(crate) fn read(text: &str, path: Option<&PathTest>) -> Result<Vec<Piece>, BadTemplate> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        plain.push_str(before);
        if let Some(behind) = after.strip_prefix('$') {
            plain.push('$');
            rest = behind;
            continue;
        }
        let (name, behind) = name_of(after);
        let piece = piece(name, path)?;
        if !plain.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut plain)));
        }
        pieces.push(piece);
        rest = behind;
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    Ok(pieces)
}

/// The name of a place and what stands behind it: one digit, letters, or anything within braces.
fn name_of(after: &str) -> (&str, &str) {
    if let Some((name, behind)) = after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
        return (name, behind);
    }
    if after.starts_with(|letter: char| letter.is_ascii_digit()) {
        return after.split_at(1);
    }
    let end = after.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(after.len());
    after.split_at(end)
}

fn piece(name: &str, path: Option<&PathTest>) -> Result<Piece, BadTemplate> {
    if let Ok(number) = name.parse::<usize>() {
        let has = path.map_or(0, PathTest::pieces);
        if (1..=CAPTURES_MAX.min(has)).contains(&number) {
            return Ok(Piece::Capture(number));
        }
        let what = match has {
            0 => "none: give it a prefix, a glob with *, or a regex with groups".to_owned(),
            _ => format!("$1 to ${}", has.min(CAPTURES_MAX)),
        };
        return Err(BadTemplate::NoCapture(number, what));
    }
    if let Some(number) = path.and_then(|path| path.named(name)) {
        return Ok(Piece::Capture(number));
    }
    match name {
        "path" => Ok(Piece::Path),
        "query" => Ok(Piece::Query),
        "args" => Ok(Piece::Args),
        "host" => Ok(Piece::Host),
        _ => Err(BadTemplate::Unknown(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_taken_apart() {
        let text = |text: &str| Piece::Text(text.to_owned());
        let regex = PathTest::regex("(?<user>a)(b)").expect("well-formed");
        for (given, expected) in [
            ("/a", vec![text("/a")]),
            ("/$1x$2", vec![text("/"), Piece::Capture(1), text("x"), Piece::Capture(2)]),
            ("/$user/${user}s", vec![text("/"), Piece::Capture(1), text("/"), Piece::Capture(1), text("s")]),
            ("$path?$args", vec![Piece::Path, text("?"), Piece::Args]),
            ("/$$1", vec![text("/$1")]),
            ("/$10", vec![text("/"), Piece::Capture(1), text("0")]),
        ] {
            assert_eq!(read(given, Some(&regex)), Ok(expected), "{given}");
        }
        assert!(matches!(read("/$3", Some(&regex)), Err(BadTemplate::NoCapture(3, _))));
        assert!(matches!(read("/$0", Some(&regex)), Err(BadTemplate::NoCapture(0, _))));
        assert!(matches!(read("/$rest", Some(&regex)), Err(BadTemplate::Unknown(_))));
        assert!(matches!(read("/$", None), Err(BadTemplate::Unknown(_))));
        assert!(matches!(read("/$1", None), Err(BadTemplate::NoCapture(1, _))));
    }
}
