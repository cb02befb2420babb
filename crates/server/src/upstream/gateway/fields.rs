//! Which fields of a request become variables, and by which names (RFC 3875 section 4.1.18).

/// The field as a variable: capital letters, and an underscore for the hyphen. 0 stands for bytes that keep a field from
/// becoming one: with names of letters, digits and hyphens alone, two fields never become the same variable.
const OF_VARIABLE: [u8; 256] = {
    let mut of_variable = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        let ascii = byte as u8;
        if ascii.is_ascii_alphanumeric() {
            of_variable[byte] = ascii.to_ascii_uppercase();
        }
        byte += 1;
    }
    of_variable[b'-' as usize] = b'_';
    of_variable
};

/// What becomes of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// A variable; this joins the values of several lines.
    Variable { joint: &'static [u8] },
    /// CONTENT_TYPE.
    ContentType,
    /// None.
    Left,
}

/// What becomes of a field by its name. `Proxy` is left away, as programs take HTTP_PROXY for a setting of their own
/// ("httpoxy"); what belongs to the connection means nothing behind it, and `Host` and the length of the body are said by
/// the server. Authorization is left away where the server has checked the password.
pub(crate) fn use_of(name: &str, is_authorized: bool) -> Use {
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    let is_left = match name.len() {
        2 => is("te"),
        4 => is("host"),
        5 => is("proxy"),
        6 if is("cookie") => return Use::Variable { joint: b"; " },
        6 => is("expect"),
        7 => is("trailer") || is("upgrade"),
        10 => is("connection") || is("keep-alive"),
        12 if is("content-type") => return Use::ContentType,
        13 => is_authorized && is("authorization"),
        14 => is("content-length"),
        16 => is("proxy-connection"),
        17 => is("transfer-encoding"),
        19 => is("proxy-authorization"),
        _ => false,
    };
    if is_left { Use::Left } else { Use::Variable { joint: b", " } }
}

/// Appends the name of the variable that a field becomes, without `HTTP_`; `false` if it becomes none.
pub(crate) fn push_name(name: &str, out: &mut Vec<u8>) -> bool {
    let mut is_fit = true;
    out.extend(name.bytes().map(|byte| {
        let byte = OF_VARIABLE[usize::from(byte)];
        is_fit &= byte != 0;
        byte
    }));
    is_fit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_letters_digits_and_hyphens_become_variables() {
        let name_of = |name: &str| {
            let mut out = Vec::new();
            push_name(name, &mut out).then(|| String::from_utf8(out).expect("ASCII"))
        };
        assert_eq!(name_of("x-Request-Id2").as_deref(), Some("X_REQUEST_ID2"));
        for bad in ["x_request", "a.b", "a b", ":path", "a\u{fc}", "a!"] {
            assert_eq!(name_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn fields_of_the_connection_and_the_proxy_are_left() {
        for name in ["Proxy", "PROXY", "te", "Host", "Connection", "Content-Length", "Transfer-Encoding"] {
            assert_eq!(use_of(name, false), Use::Left, "{name}");
        }
        assert_eq!(use_of("Authorization", false), Use::Variable { joint: b", " });
        assert_eq!(use_of("Authorization", true), Use::Left);
        assert_eq!(use_of("cookie", false), Use::Variable { joint: b"; " });
        assert_eq!(use_of("Content-Type", false), Use::ContentType);
        assert_eq!(use_of("Proxy-Status", false), Use::Variable { joint: b", " });
    }
}
