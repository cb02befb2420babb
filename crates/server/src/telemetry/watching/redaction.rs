//! What of a request and a response may be told: no credentials, and nothing that may be one.
//!
//! Values are told of fields that are known to hold no secret; of all others the name and the number of bytes are told,
//! so that a field of an application's own (X-Api-Key) needs no list. Addresses are told without user, query, fragment
//! and parameters of segments, as all of these carry tokens.

use std::fmt::Write as _;

/// Bytes of a text that are told.
const TEXT_BYTES_MAX: usize = 512;

/// Fields whose values are told, in lower case and in order. Cookies and credentials are not among them.
const PLAIN: &[&str] = &[
    ":method",
    ":protocol",
    ":scheme",
    "accept",
    "accept-ch",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "age",
    "allow",
    "alt-svc",
    "cache-control",
    "cache-status",
    "connection",
    "content-encoding",
    "content-language",
    "content-length",
    "content-range",
    "content-type",
    "date",
    "dnt",
    "expect",
    "expires",
    "if-modified-since",
    "if-unmodified-since",
    "keep-alive",
    "last-modified",
    "max-forwards",
    "pragma",
    "priority",
    "range",
    "retry-after",
    "server",
    "strict-transport-security",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "upgrade-insecure-requests",
    "user-agent",
    "vary",
    "via",
    "x-content-type-options",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-frame-options",
];

/// Fields whose value is an address, of which the path is told.
const ADDRESSES: &[&str] = &[":authority", ":path", "content-location", "host", "location", "origin", "referer"];

/// What is told of a field's value.
pub(super) fn value_shown(name: &str, value: &[u8]) -> String {
    let lower = name.to_ascii_lowercase();
    if PLAIN.binary_search(&lower.as_str()).is_ok() {
        return text_shown(value);
    }
    if ADDRESSES.contains(&lower.as_str()) {
        return address_shown(value);
    }
    match value.len() {
        1 => "(1 byte hidden)".to_owned(),
        bytes => format!("({bytes} bytes hidden)"),
    }
}

/// A text without what a terminal would obey: each byte that is no printable character is written as `\x1b` or
/// `\u{202e}`, and a backslash twice.
pub(crate) fn text_shown(text: &[u8]) -> String {
    let told = &text[..text.len().min(TEXT_BYTES_MAX)];
    let mut out = String::with_capacity(told.len());
    for chunk in told.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\\' => out.push_str("\\\\"),
                ' '..='~' => out.push(letter),
                // Writing to memory does not fail, here and below.
                _ if is_unseen(letter) && (letter as u32) < 0x100 => {
                    let _ = write!(out, "\\x{:02x}", letter as u32);
                }
                _ if is_unseen(letter) => {
                    let _ = write!(out, "\\u{{{:x}}}", letter as u32);
                }
                _ => out.push(letter),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    if told.len() < text.len() {
        let _ = write!(out, "... ({} bytes)", text.len());
    }
    out
}

/// Controls, and what changes the direction or the place of what is written (Unicode's Cf, as far as it does that).
fn is_unseen(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// An address or the target of a request, without user, query, fragment and parameters.
pub(crate) fn address_shown(address: &[u8]) -> String {
    let (path, rest) = cut(address);
    let without_user = match path.windows(3).position(|part| part == b"://") {
        Some(at) => {
            let (scheme, rest) = path.split_at(at + 3);
            [scheme, behind_user(rest)].concat()
        }
        None if path.starts_with(b"/") && !path.starts_with(b"//") => path.to_vec(),
        None => behind_user(path).to_vec(),
    };
    let hidden = if rest.is_empty() { "" } else { "(hidden)" };
    let sign = rest.first().map_or(String::new(), |sign| char::from(*sign).to_string());
    text_shown(&without_user) + &sign + hidden
}

/// A path, decoded or not, without a query or what may be one once it is decoded.
pub(crate) fn path_shown(path: &[u8]) -> String {
    address_shown(path)
}

/// What stands before the first `?`, `#` or `;`, also where these are encoded, and what begins with it.
fn cut(address: &[u8]) -> (&[u8], &[u8]) {
    let is_sign = |at: usize| {
        matches!(address[at], b'?' | b'#' | b';')
            || address
                .get(at..at + 3)
                .is_some_and(|code| [b"%3f", b"%23", b"%3b"].iter().any(|sign| code.eq_ignore_ascii_case(*sign)))
    };
    address.split_at((0..address.len()).find(|at| is_sign(*at)).unwrap_or(address.len()))
}

/// An authority, and what stands behind it, without `user:password@`.
fn behind_user(text: &[u8]) -> &[u8] {
    let slashes = text.iter().take_while(|byte| **byte == b'/').count();
    let end = text[slashes..].iter().position(|byte| *byte == b'/').map_or(text.len(), |at| slashes + at);
    let coded = text[..end].windows(3).rposition(|code| code == b"%40").map(|at| at + 3);
    let plain = text[..end].iter().rposition(|byte| *byte == b'@').map(|at| at + 1);
    &text[coded.max(plain).unwrap_or(0)..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECRET: &str = "s3cr3tW0rd";

    fn spelt(name: &str, upper: u64) -> String {
        let each = |(at, letter): (usize, char)| {
            if upper >> (at % 64) & 1 == 1 { letter.to_ascii_uppercase() } else { letter }
        };
        name.chars().enumerate().map(each).collect()
    }

    #[test]
    fn the_list_is_in_order_and_holds_no_credentials() {
        assert!(PLAIN.is_sorted());
        for secret in ["authorization", "proxy-authorization", "cookie", "set-cookie", "authentication-info"] {
            assert!(!PLAIN.contains(&secret) && !ADDRESSES.contains(&secret), "{secret}");
        }
    }

    #[test]
    fn examples_are_shown_as_they_are_to_be() {
        for (address, shown) in [
            ("/a/b?token=1", "/a/b?(hidden)"),
            ("/a;jsessionid=1/b", "/a;(hidden)"),
            ("/a%3ftoken=1", "/a%(hidden)"),
            ("https://me:pw@host/x", "https://host/x"),
            ("me:pw@host:80", "host:80"),
            ("/users/@me", "/users/@me"),
        ] {
            assert_eq!(address_shown(address.as_bytes()), shown);
        }
        assert_eq!(text_shown(b"a\x1b[31m\xff\xe2\x80\xae\\"), "a\\x1b[31m\\xff\\u{202e}\\\\");
        assert_eq!(value_shown("COOKIE", b"a=b"), "(3 bytes hidden)");
    }

    proptest! {
        #[test]
        fn no_credential_goes_out_however_its_field_is_spelt(
            which in 0..8_usize, upper: u64, before in "[ -~]{0,20}", behind in "[ -~]{0,20}",
        ) {
            let name = ["authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "x-auth-token",
                "www-authenticate", "sec-websocket-key"][which];
            let value = format!("{before}{SECRET}{behind}");
            prop_assert!(!value_shown(&spelt(name, upper), value.as_bytes()).contains(SECRET));
        }

        #[test]
        fn a_field_that_is_not_known_is_hidden(name in "[a-z]{1,12}(-[a-z]{1,8})?", upper: u64) {
            prop_assume!(PLAIN.binary_search(&name.as_str()).is_err() && !ADDRESSES.contains(&name.as_str()));
            prop_assert!(!value_shown(&spelt(&name, upper), SECRET.as_bytes()).contains(SECRET));
        }

        #[test]
        fn no_token_of_an_address_goes_out(
            sign in 0..8_usize, path in "(/[a-z@]{0,5}){1,4}", name in "[a-z]{0,8}", behind in "[ -~]{0,12}",
            with_authority: bool,
        ) {
            let sign = ["?", "#", ";", "%3f", "%3F", "%23", "%3b", "%3B"][sign];
            let authority = if with_authority { format!("http://{SECRET}:{SECRET}@host") } else { String::new() };
            let address = format!("{authority}{path}{sign}{name}={SECRET}{behind}");
            for field in ["Referer", "Location", ":path", "Content-Location"] {
                let shown = value_shown(field, address.as_bytes());
                prop_assert!(!shown.contains(SECRET), "{}", shown);
            }
        }

        #[test]
        fn what_is_shown_has_nothing_that_a_terminal_obeys(text in proptest::collection::vec(any::<u8>(), 0..80), words: String) {
            for shown in [text_shown(&text), address_shown(&text), text_shown(words.as_bytes()), value_shown("Host", words.as_bytes())] {
                prop_assert!(!shown.chars().any(is_unseen), "{:?}", shown);
            }
        }
    }
}
