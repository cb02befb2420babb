//! Names and addresses of hosts as people write them, in the form in which resolvers and servers know them.

use std::borrow::Cow;
use std::net::Ipv6Addr;

/// Why a text names no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Nothing stands where the name belongs.
    #[error("there is no host where one belongs")]
    Empty,
    /// What stands in brackets is no address.
    #[error(
        "[{given}]: only an IPv6 address stands in brackets, such as [::1], or [fe80::1%25eth0] with its interface"
    )]
    Brackets {
        /// What was given.
        given: String,
    },
    /// An IPv6 address without brackets.
    #[error("{given}: an IPv6 address stands in brackets, such as http://[::1]:8080/")]
    NoBrackets {
        /// What was given.
        given: String,
    },
    /// A character that no name has.
    #[error("{given:?}: no name of a host has {letter:?}")]
    Letter {
        /// What was given.
        given: String,
        /// The character.
        letter: char,
    },
    /// A `%` that does not begin the code of a byte of UTF-8.
    #[error("{given}: a % in a host's name is followed by the code of a byte of UTF-8")]
    Percent {
        /// What was given.
        given: String,
    },
    /// A name that IDNA does not allow.
    #[error("{given}: no name that can be written in ASCII (IDNA, UTS 46)")]
    International {
        /// What was given.
        given: String,
    },
}

/// The host that is written in brackets: an IPv6 address, with `%` and the name of its interface where it has one.
///
/// In a URL the sign before the interface is `%25` (RFC 6874 2); without is understood, too, as browsers and curl do.
///
/// # Errors
/// [`HostError::Brackets`].
pub fn bracketed(given: &str) -> Result<String, HostError> {
    let wrong = || HostError::Brackets { given: given.to_owned() };
    let (address, zone) = match given.split_once('%') {
        Some((address, zone)) => {
            (address, Some(zone.strip_prefix("25").filter(|zone| !zone.is_empty()).unwrap_or(zone)))
        }
        None => (given, None),
    };
    address.parse::<Ipv6Addr>().map_err(|_| wrong())?;
    match zone {
        None => Ok(address.to_owned()),
        // RFC 6874 2: ZoneID = 1*( unreserved / pct-encoded ); interfaces need no percent-encoding.
        Some(zone)
            if !zone.is_empty() && zone.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)) =>
        {
            Ok(format!("{address}%{zone}"))
        }
        Some(_) => Err(wrong()),
    }
}

/// The host that is written without brackets: a name, in its ASCII form (RFC 5890, UTS 46), or an IPv4 address.
///
/// # Errors
/// [`HostError`].
pub fn named(given: &str) -> Result<String, HostError> {
    let name = decoded(given)?;
    let odd = |letter: char| {
        letter.is_ascii() && (!letter.is_ascii_graphic() || "\"#%/:<>?@[\\]^`{|}".contains(letter))
            || letter.is_whitespace()
            || letter.is_control()
    };
    if let Some(letter) = name.chars().find(|letter| odd(*letter)) {
        return Err(HostError::Letter { given: given.to_owned(), letter });
    }
    let name = if name.is_ascii() {
        name.into_owned()
    } else {
        // What becomes a space, a slash and the like is refused as these themselves are.
        let name = idna::domain_to_ascii_cow(name.as_bytes(), idna::AsciiDenyList::URL);
        name.map_err(|_| HostError::International { given: given.to_owned() })?.into_owned()
    };
    // A name may have nothing but characters that its ASCII form leaves out.
    if name.trim_end_matches('.').is_empty() { Err(HostError::Empty) } else { Ok(name) }
}

/// A name with its percent-encoding undone (RFC 3986 3.2.2).
fn decoded(given: &str) -> Result<Cow<'_, str>, HostError> {
    if !given.contains('%') {
        return Ok(Cow::Borrowed(given));
    }
    let wrong = || HostError::Percent { given: given.to_owned() };
    let mut bytes = Vec::with_capacity(given.len());
    let mut rest = given.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let (high, low) = (digit().ok_or_else(wrong)?, digit().ok_or_else(wrong)?);
                (high << 4 | low) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| wrong())
}

/// The host as it stands in a URL or a Host header: an IPv6 address in brackets and without its interface, which means
/// something on this machine only (RFC 6874 4).
#[must_use]
pub fn authority(host: &str) -> Cow<'_, str> {
    if host.contains(':') { format!("[{}]", without_zone(host)).into() } else { host.into() }
}

/// An address without its interface.
pub(crate) fn without_zone(host: &str) -> &str {
    host.split('%').next().unwrap_or(host)
}

/// Whether two names are the same to a resolver; a dot at the end only says that nothing is to be added.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    let plain = |name: &'_ str| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    plain(one) == plain(other)
}

/// The value of a Host header with its name in the ASCII form; what is no host stays as it is.
pub(crate) fn of_header(value: &str) -> String {
    let (name, port) = match value.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (name, Some(port)),
        _ => (value, None),
    };
    match (named(name), port) {
        (Ok(name), Some(port)) => format!("{name}:{port}"),
        (Ok(name), None) => name,
        (Err(_), _) => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_have_their_ascii_form() {
        for (given, name) in [
            ("b\u{fc}cher.example", "xn--bcher-kva.example"),
            ("B\u{dc}CHER.example", "xn--bcher-kva.example"),
            ("bu\u{308}cher.example", "xn--bcher-kva.example"),
            ("b%C3%BCcher.example", "xn--bcher-kva.example"),
            // UTS 46: not transitional, as browsers have it; the ideographic full stop is a dot.
            ("fa\u{df}.de", "xn--fa-hia.de"),
            ("\u{4f8b}\u{3048}\u{3002}\u{30c6}\u{30b9}\u{30c8}", "xn--r8jz45g.xn--zckzah"),
            ("ex%61mple.org", "example.org"),
            ("a_b.example.org.", "a_b.example.org."),
            ("127.0.0.1", "127.0.0.1"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ] {
            assert_eq!(named(given).as_deref(), Ok(name), "{given}");
        }
        for (given, told) in [
            ("", "no host"),
            (".", "no host"),
            ("\u{ad}", "no host"),
            ("a b", "' '"),
            ("a\\b", "'\\\\'"),
            ("a%2Fb", "'/'"),
            ("a%zz", "a % in a host's name"),
            ("a%ff", "a % in a host's name"),
            ("a\u{a0}b", "'\\u{a0}'"),
            ("xn--\u{fc}.example", "IDNA"),
            ("a\u{b4}b", "IDNA"),
            ("a\u{ff0f}b", "IDNA"),
        ] {
            let error = named(given).expect_err(given).to_string();
            assert!(error.contains(told), "{given}: {error}");
        }
    }

    #[test]
    fn addresses_have_their_interface() {
        for (given, host, told) in [
            ("::1", "::1", "[::1]"),
            ("fe80::1%25lo", "fe80::1%lo", "[fe80::1]"),
            ("fe80::1%lo", "fe80::1%lo", "[fe80::1]"),
            ("fe80::1%2", "fe80::1%2", "[fe80::1]"),
        ] {
            assert_eq!(bracketed(given).as_deref(), Ok(host));
            assert_eq!(authority(host), told);
        }
        for given in ["", "name", "::1%", "::1%25", "::1%2/x", "127.0.0.1", "::1 "] {
            // `%25` alone is the interface of number 25.
            assert_eq!(bracketed(given).is_ok(), given == "::1%25", "{given}");
        }
    }

    #[test]
    fn a_host_header_has_the_ascii_form() {
        assert_eq!(of_header("b\u{fc}cher.example:8080"), "xn--bcher-kva.example:8080");
        assert_eq!(of_header("b\u{fc}cher.example"), "xn--bcher-kva.example");
        assert_eq!(of_header("[::1]:80"), "[::1]:80");
    }

    proptest! {
        #[test]
        fn any_text_is_a_name_of_ascii_or_an_error(given in "\\PC{0,20}") {
            if let Ok(name) = named(&given) {
                prop_assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()));
            }
            let _either = bracketed(&given);
        }
    }
}
