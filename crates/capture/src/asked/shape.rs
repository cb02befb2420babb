//! Names of questions without values.

/// The longest shape, bytes.
const SHAPE_BYTES_MAX: usize = 400;
/// Segments of a path from this many hexadecimal digits on are an id.
const HEX_ID_BYTES: usize = 8;

/// A word that a protocol itself defines: letters, digits and underscores, in capitals; `None` for anything else, which
/// may be a value.
pub(super) fn word(bytes: &[u8]) -> Option<String> {
    let is_word = !bytes.is_empty()
        && bytes.len() <= 32
        && bytes[0].is_ascii_alphabetic()
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'));
    is_word.then(|| String::from_utf8_lossy(bytes).to_ascii_uppercase())
}

/// A path without its query, ids in it replaced.
pub(super) fn path(path: &str) -> String {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let named = path.split('/').map(|segment| if is_id(segment) { ":id" } else { segment });
    let mut text = named.collect::<Vec<_>>().join("/");
    text.retain(|symbol| !symbol.is_control());
    bounded(text)
}

fn is_id(segment: &str) -> bool {
    let hex = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    let digits = segment.bytes().any(|byte| byte.is_ascii_digit());
    digits
        && (segment.bytes().all(|byte| byte.is_ascii_digit())
            || segment.len() >= HEX_ID_BYTES && segment.bytes().all(hex))
}

/// A text on one line, cut where it is too long.
pub(super) fn bounded(mut text: String) -> String {
    text.retain(|symbol| symbol != '\t' && symbol != '\n' && symbol != '\r');
    if text.len() > SHAPE_BYTES_MAX {
        let end = (0..=SHAPE_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_queries_are_left_out_of_paths() {
        assert_eq!(path("/a/17/b?token=x"), "/a/:id/b");
        assert_eq!(path("/users/550e8400-e29b-41d4-a716-446655440000#x"), "/users/:id");
        assert_eq!(path("/v2/decade/2024a"), "/v2/decade/2024a");
        assert_eq!(path(&"x".repeat(1000)).len(), SHAPE_BYTES_MAX + '…'.len_utf8());
    }

    #[test]
    fn words_are_the_protocols_own() {
        assert_eq!(word(b"hgetall").as_deref(), Some("HGETALL"));
        assert_eq!(word(b"FT.SEARCH").as_deref(), Some("FT.SEARCH"));
        assert_eq!((word(b"a secret"), word(b""), word(b"17")), (None, None, None));
    }
}
