//! The user name that a client gives by the Basic scheme (RFC 7617). The password has not been checked here.

/// Bytes of a name that are kept: as many as ARM's names have.
const NAME_MOST: usize = 127;

/// Hands the user's name over, if the header has one; what is longer than a name may be is cut at a character.
pub(crate) fn of(authorization: Option<&[u8]>, told: impl FnOnce(&[u8])) {
    let Some((scheme, digits)) = authorization.and_then(|value| value.split_at_checked(6)) else { return };
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return;
    }
    let mut name = [0; NAME_MOST];
    let Some(bytes) = decoded(digits.trim_ascii(), &mut name) else { return };
    let name = &name[..bytes];
    let name = match std::str::from_utf8(name) {
        Ok(_) => name,
        Err(error) if error.error_len().is_none() => &name[..error.valid_up_to()],
        Err(_) => return,
    };
    if !name.is_empty() && !name.iter().any(u8::is_ascii_control) {
        told(name);
    }
}

/// What stands before the colon of the decoded text, as far as there is room; `None` = it is no base64, or has no
/// colon.
fn decoded(digits: &[u8], into: &mut [u8]) -> Option<usize> {
    let (mut word, mut bits, mut bytes) = (0_u32, 0, 0);
    for digit in digits {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        word = word << 6 | u32::from(value);
        bits += 6;
        if bits < 8 {
            continue;
        }
        bits -= 8;
        // The upper bits are of bytes that are out already.
        let byte = (word >> bits) as u8;
        if byte == b':' {
            return Some(bytes);
        }
        if bytes < into.len() {
            into[bytes] = byte;
            bytes += 1;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn user(value: &str) -> Option<String> {
        let mut found = None;
        of(Some(value.as_bytes()), |name| found = Some(String::from_utf8(name.to_vec()).expect("UTF-8")));
        found
    }

    #[test]
    fn it_is_what_stands_before_the_colon() {
        // RFC 7617's own examples.
        assert_eq!(user("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==").as_deref(), Some("Aladdin"));
        assert_eq!(user("basic  dGVzdDoxMjPCow==").as_deref(), Some("test"));
        for none in ["", "Basic", "Basic ", "Basic !", "Bearer QWxhZGRpbjpv", "Basic QWxhZGRpbg==", "Basic Om9ubHk="] {
            assert_eq!(user(none), None, "{none}");
        }
        // 150 letters, of which a name has room for 127; and bytes that are no text.
        let long = "YWFh".repeat(50) + "OmI=";
        assert_eq!(user(&format!("Basic {long}")).map(|name| name.len()), Some(NAME_MOST));
        assert_eq!(user("Basic /////zpi"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(value in proptest::collection::vec(any::<u8>(), 0..300)) {
            of(Some(&value), |name| assert!(std::str::from_utf8(name).is_ok_and(|name| name.len() <= NAME_MOST)));
            let basic = [b"Basic ", &value[..]].concat();
            of(Some(&basic), |name| assert!(!name.is_empty()));
        }
    }
}
