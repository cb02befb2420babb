//! A host and its port, as the field Host, `:authority` and an absolute target have them (RFC 3986 section 3.2).
//!
//! A user in it is refused: RFC 9110 section 4.2.4 has servers treat one as an error, and RFC 9113 section 8.3.1
//! forbids it.

use std::net::Ipv6Addr;

/// The bytes of a registered name that stand for themselves: unreserved ones and sub-delimiters.
const OF_NAMES: [bool; 256] = {
    let mut of_names = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        of_names[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let others = b"-._~!$&'()*+,;=";
    let mut at = 0;
    while at < others.len() {
        of_names[others[at] as usize] = true;
        at += 1;
    }
    of_names
};
/// The largest port.
const LARGEST_PORT: &[u8] = b"65535";

/// Whether the value is a host and perhaps a port; it may be empty (RFC 9110 section 7.2), and a port alone is none.
#[inline(always)]
pub(crate) fn is_host(value: &[u8]) -> bool {
    match name_bytes(value) {
        bytes if bytes == value.len() => true,
        at if at > 0 && value[at] == b':' => is_port(&value[at + 1..]),
        at => is_rare_host(value, at),
    }
}

/// Bytes of the name at the beginning. It is looked at four bytes at a time, as every request has one.
#[inline(always)]
fn name_bytes(value: &[u8]) -> usize {
    let is_of_name = |&byte: &u8| OF_NAMES[usize::from(byte)];
    let fours = value.chunks_exact(4).take_while(|four| four.iter().fold(true, |all, byte| all & is_of_name(byte)));
    let whole = fours.count() * 4;
    whole + value[whole..].iter().take_while(|byte| is_of_name(byte)).count()
}

/// The same where the name has escapes, or stands in brackets.
#[cold]
fn is_rare_host(value: &[u8], at: usize) -> bool {
    let rest = match value[at] {
        b'[' if at == 0 => {
            let Some(end) = memchr::memchr(b']', value) else { return false };
            if !is_literal(&value[1..end]) {
                return false;
            }
            &value[end + 1..]
        }
        b'%' => {
            let end = memchr::memchr(b':', value).unwrap_or(value.len());
            if !is_escaped_name(&value[..end]) {
                return false;
            }
            &value[end..]
        }
        _ => return false,
    };
    match rest {
        [] => true,
        [b':', port @ ..] => is_port(port),
        _ => false,
    }
}

/// What may stand in brackets: an address of IPv6 without a zone, or one of a version to come.
fn is_literal(text: &[u8]) -> bool {
    if let [b'v' | b'V', future @ ..] = text {
        let Some(dot) = memchr::memchr(b'.', future) else { return false };
        let (version, address) = (&future[..dot], &future[dot + 1..]);
        return !version.is_empty()
            && version.iter().all(u8::is_ascii_hexdigit)
            && !address.is_empty()
            && address.iter().all(|&byte| OF_NAMES[usize::from(byte)] || byte == b':');
    }
    std::str::from_utf8(text).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

fn is_escaped_name(name: &[u8]) -> bool {
    let mut bytes = name.iter();
    while let Some(&byte) = bytes.next() {
        let is_good = match byte {
            b'%' => (0..2).all(|_| bytes.next().is_some_and(u8::is_ascii_hexdigit)),
            _ => OF_NAMES[usize::from(byte)],
        };
        if !is_good {
            return false;
        }
    }
    true
}

/// Digits up to 65535; nothing is the port of the scheme (RFC 3986 section 3.2.3).
#[inline]
fn is_port(digits: &[u8]) -> bool {
    match *digits {
        [a, b, c, d] => are_digits([a, b, c, d]),
        // Of two numbers with as many digits the larger one is the later one in order.
        [a, b, c, d, e] => are_digits([a, b, c, d, e]) && (a < LARGEST_PORT[0] || digits <= LARGEST_PORT),
        _ => digits.len() < LARGEST_PORT.len() && digits.iter().all(u8::is_ascii_digit),
    }
}

#[inline]
fn are_digits<const BYTES: usize>(bytes: [u8; BYTES]) -> bool {
    bytes.iter().fold(true, |all, byte| all & byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hosts_are_as_rfc_3986_has_them() {
        for good in [
            "",
            "a",
            "a.org",
            "a.org.",
            "a_b.org:80",
            "a.org:",
            "a.org:0",
            "a.org:65535",
            "a.org:00080",
            "a.org:59999",
            "a.org:8",
            "a.org:443",
            "127.0.0.1:8080",
            "256.1.1.1",
            "xn--bcher-kva.example",
            "b%C3%BCcher.example:80",
            "a!$&'()*+,;=~",
            "[::1]",
            "[::1]:8080",
            "[::1]:",
            "[2001:DB8::ffff:192.0.2.1]",
            "[v1.fe80::a+en1]:80",
        ] {
            assert!(is_host(good.as_bytes()), "{good}");
        }
        for bad in [
            ":80",
            ":",
            "[::1",
            "::1]",
            "a]b",
            "[]",
            "[12345]",
            "[123g::1]",
            "[::1]x",
            "[::1]80",
            "[::1%25eth0]",
            "[127.0.0.1]",
            "[v.a]",
            "[v1.]",
            "[vg.a]",
            "a:80a",
            "a:-1",
            "a:+1",
            "a:65536",
            "a:70000",
            "a:808a",
            "a:8 ",
            "a:8080:",
            "a:000080",
            "a:1:2",
            "::1",
            "a::80",
            "a:http",
            "a b",
            "a/b",
            "a?b",
            "a#b",
            "u@a",
            "u:p@a.org",
            "a\\b",
            "a%",
            "a%2",
            "a%zz:80",
            "a%41:8x",
            "a[::1]",
            "a<b",
            "\"a\"",
            "b\u{fc}cher",
        ] {
            assert!(!is_host(bad.as_bytes()), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_address_and_port_is_a_host(address in any::<[u16; 8]>(), port in any::<u16>()) {
            let address = Ipv6Addr::from(address);
            let (bare, whole) = (format!("[{address}]"), format!("[{address}]:{port}"));
            prop_assert!(is_host(bare.as_bytes()) && is_host(whole.as_bytes()));
            prop_assert!(!is_host(address.to_string().as_bytes()), "an address stands in brackets");
        }

        #[test]
        fn no_bytes_make_it_fail(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let is_good = is_host(&bytes);
            prop_assert!(!is_good || bytes.iter().all(u8::is_ascii_graphic));
        }
    }
}
