//! Paths and addresses made of pieces of a request, as weir's routes write them.

use crate::files::join;

/// A piece of a path or an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    /// The decoded path.
    Path,
    /// The query with its question mark, if there is one.
    Query,
    /// The query without it.
    Args,
    Host,
    /// A group of the expression.
    Capture(usize),
}

impl Piece {
    fn name(&self) -> String {
        match self {
            Self::Text(text) => text.replace('$', "$$"),
            Self::Path => "${path}".to_owned(),
            Self::Query => "${query}".to_owned(),
            Self::Args => "${args}".to_owned(),
            Self::Host => "${host}".to_owned(),
            Self::Capture(number) => format!("${{{number}}}"),
        }
    }
}

/// Braces are only needed before letters and digits.
fn text_of(pieces: &[Piece]) -> String {
    let mut out = String::new();
    for (number, piece) in pieces.iter().enumerate() {
        let text = piece.name();
        let is_followed = match pieces.get(number + 1) {
            Some(Piece::Text(next)) => next.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_'),
            _ => false,
        };
        if is_followed || matches!(piece, Piece::Text(_)) {
            out.push_str(&text);
        } else {
            out.push_str(&text.replacen("${", "$", 1).replace('}', ""));
        }
    }
    out
}

/// Puts texts side by side into one, and leaves empty ones out.
pub(crate) fn tidy(pieces: &[Piece]) -> Vec<Piece> {
    let mut out: Vec<Piece> = Vec::new();
    for piece in pieces {
        match (out.last_mut(), piece) {
            (_, Piece::Text(text)) if text.is_empty() => {}
            (Some(Piece::Text(last)), Piece::Text(text)) => last.push_str(text),
            _ => out.push(piece.clone()),
        }
    }
    out
}

/// `?$args` at the end is the query.
fn with_query(mut pieces: Vec<Piece>) -> Vec<Piece> {
    if let [.., Piece::Text(text), Piece::Args] = pieces.as_mut_slice()
        && text.ends_with('?')
    {
        text.pop();
        pieces.pop();
        pieces.push(Piece::Query);
    }
    tidy(&pieces)
}

/// The address of a redirect; none if weir cannot write it.
pub(crate) fn address(pieces: &[Piece]) -> Option<String> {
    let pieces = with_query(tidy(pieces));
    let begins = match pieces.first()? {
        Piece::Text(text) => {
            (text.starts_with('/') && !text.starts_with("//"))
                || text.starts_with("http://")
                || text.starts_with("https://")
        }
        Piece::Path => true,
        _ => false,
    };
    // A path begins with a slash.
    if !begins || matches!(pieces.as_slice(), [Piece::Text(text), Piece::Path, ..] if text == "/") {
        return None;
    }
    if let Some(Piece::Text(first)) = pieces.first()
        && let Some((_, rest)) = first.split_once("://")
        && !rest.contains(['/', '?', '#'])
    {
        // What clients choose may not lengthen the name of the host.
        match pieces.get(1) {
            Some(Piece::Capture(_) | Piece::Args) => return None,
            None if rest.is_empty() => return None,
            Some(Piece::Path | Piece::Query) if rest.is_empty() => return None,
            Some(Piece::Host) if matches!(pieces.get(2), Some(Piece::Capture(_) | Piece::Args)) => {
                return None;
            }
            _ => {}
        }
    }
    let encoded: Vec<Piece> = pieces.into_iter().map(encoded).collect();
    Some(text_of(&encoded))
}

/// Letters that an address has not are written by their bytes.
fn encoded(piece: Piece) -> Piece {
    let Piece::Text(text) = piece else { return piece };
    let mut out = String::new();
    for byte in text.bytes() {
        if (b'!'..=b'~').contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    Piece::Text(out)
}

/// The path that takes another one's place, perhaps with a query; none if weir cannot write it.
pub(crate) fn path(pieces: &[Piece]) -> Option<String> {
    let pieces = tidy(pieces);
    let (before, query) = split_query(&pieces);
    let before = plain_path(&before)?;
    let Some(query) = query else { return Some(before) };
    // `?$args` alone is the query that the request has, which stays.
    if query.as_slice() == [Piece::Args] {
        return Some(before);
    }
    let is_good = |piece: &Piece| match piece {
        Piece::Text(text) => text.bytes().all(|byte| (b'!'..=b'~').contains(&byte) && byte != b'#'),
        Piece::Query => false,
        _ => true,
    };
    query.iter().all(is_good).then(|| format!("{before}?{}", text_of(&query)))
}

/// The pieces before the first question mark, and those behind it.
fn split_query(pieces: &[Piece]) -> (Vec<Piece>, Option<Vec<Piece>>) {
    for (number, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Text(text) if text.contains('?') => {
                let (before, behind) = text.split_once('?').unwrap_or((text, ""));
                let mut first = pieces[..number].to_vec();
                first.push(Piece::Text(before.to_owned()));
                let mut second = vec![Piece::Text(behind.to_owned())];
                second.extend_from_slice(&pieces[number + 1..]);
                return (tidy(&first), Some(tidy(&second)));
            }
            // The request's query stays where none is said.
            Piece::Query if number + 1 == pieces.len() => return (pieces[..number].to_vec(), None),
            _ => {}
        }
    }
    (pieces.to_vec(), None)
}

/// Decoded, with single slashes.
fn plain_path(pieces: &[Piece]) -> Option<String> {
    let mut out: Vec<Piece> = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => {
                let mut text = decoded(text)?;
                while text.contains("//") {
                    text = text.replace("//", "/");
                }
                if out.is_empty() && !text.starts_with('/') {
                    return None;
                }
                out.push(Piece::Text(text));
            }
            Piece::Query | Piece::Args => return None,
            other => out.push(other.clone()),
        }
    }
    match out.as_slice() {
        // A slash before a path, which has its own.
        [Piece::Text(text), Piece::Path, ..] if text == "/" => drop(out.remove(0)),
        [] | [Piece::Query | Piece::Args | Piece::Host | Piece::Capture(_), ..] => return None,
        _ => {}
    }
    let text = text_of(&out);
    let is_plain = !text.contains('%')
        && !text.contains("//")
        && !text.contains(char::is_control)
        && text.split('/').all(|segment| segment != "." && segment != "..");
    is_plain.then_some(text)
}

fn decoded(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'%' {
            let hex = std::str::from_utf8(bytes.get(at + 1..at + 3)?).ok()?;
            out.push(u8::from_str_radix(hex, 16).ok()?);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8(out).ok()
}

/// The path of a file below a directory; none if it leads out of it.
pub(crate) fn file_below(root: &str, path: &str) -> Option<String> {
    let is_inside = path.split('/').all(|segment| segment != "..");
    is_inside.then(|| join(root, path.trim_start_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Piece {
        Piece::Text(text.to_owned())
    }

    #[test]
    fn addresses_and_paths_are_written() {
        for (pieces, expected) in [
            (vec![text("https://"), Piece::Host, Piece::Path, Piece::Query], Some("https://$host$path$query")),
            (vec![text("/a b?"), Piece::Args], Some("/a%20b$query")),
            (vec![text("/x/"), Piece::Capture(1), text("0")], Some("/x/${1}0")),
            (vec![text("https://a.org"), Piece::Capture(1)], None),
            (vec![text("/"), Piece::Path], None),
            (vec![Piece::Capture(1)], None),
        ] {
            assert_eq!(address(&pieces).as_deref(), expected, "{pieces:?}");
        }
        for (pieces, expected) in [
            (vec![text("/index.php?"), Piece::Args], Some("/index.php")),
            (vec![text("/index.php?q="), Piece::Path, text("&"), Piece::Args], Some("/index.php?q=$path&$args")),
            (vec![Piece::Path, text("/")], Some("$path/")),
            (vec![text("/a%20b//c")], Some("/a b/c")),
            (vec![text("/../x")], None),
            (vec![text("x")], None),
        ] {
            assert_eq!(path(&pieces).as_deref(), expected, "{pieces:?}");
        }
    }
}
