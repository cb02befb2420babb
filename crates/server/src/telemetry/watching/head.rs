//! The heads of requests and responses, as they are told.

use super::redaction::{address_shown, text_shown, value_shown};
use super::seen::HeadSeen;
use crate::http::request::Request;

/// Fields that are told of a head.
const FIELDS_MAX: usize = 64;
/// Bytes of a path that filters look at.
const PATH_BYTES_MAX: usize = 1024;

/// The head of a request; `path` is decoded, or none where it cannot be read.
pub(super) fn of_request(request: &Request<'_>, name: &[u8], path: Option<&[u8]>) -> HeadSeen {
    let mut fields = Vec::new();
    let mut left = 0;
    for (name, value) in request.fields() {
        // The request line of HTTP/2 and HTTP/3 is told as that of HTTP/1.
        match name {
            ":method" | ":path" | ":scheme" | ":authority" => {}
            _ if fields.len() == FIELDS_MAX => left += 1,
            _ => fields.push((text_shown(name.as_bytes()), value_shown(name, value))),
        }
    }
    let path = path.unwrap_or(request.target.as_bytes());
    HeadSeen {
        method: text_shown(request.method_text.as_bytes()),
        target: address_shown(request.target.as_bytes()),
        host: address_shown(request.host.unwrap_or_default()),
        fields,
        fields_left: left,
        path: path[..path.len().min(PATH_BYTES_MAX)].to_vec(),
        name: name[..name.len().min(PATH_BYTES_MAX)].to_vec(),
    }
}

/// What is still known of the head of a request that began before.
pub(super) fn of_noted(method: &str, target: &str) -> HeadSeen {
    let path = target.split('?').next().unwrap_or_default().as_bytes();
    HeadSeen {
        method: text_shown(method.as_bytes()),
        target: address_shown(target.as_bytes()),
        path: path[..path.len().min(PATH_BYTES_MAX)].to_vec(),
        ..HeadSeen::default()
    }
}

/// The fields of a response's head in the form of HTTP/1, and how many are not told.
pub(super) fn of_response(head: &[u8]) -> (Vec<(String, String)>, usize) {
    let mut fields = Vec::new();
    let mut left = 0;
    for line in head.split(|byte| *byte == b'\n').skip(1) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            break;
        }
        let Some(at) = line.iter().position(|byte| *byte == b':') else { continue };
        if fields.len() == FIELDS_MAX {
            left += 1;
            continue;
        }
        let name = text_shown(&line[..at]);
        let value = value_shown(&name, line[at + 1..].trim_ascii());
        fields.push((name, value));
    }
    (fields, left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_of_a_response_are_told_and_its_cookie_is_not() {
        let head =
            b"HTTP/1.1 200 OK\r\nServer: weir\r\nset-COOKIE: a=s3cret\r\nLocation: /x?t=s3cret\r\n\r\nbody: s3cret";
        let (fields, left) = of_response(head);
        let told = format!("{fields:?}");
        assert_eq!((fields.len(), left), (3, 0));
        assert!(told.contains("weir") && !told.contains("s3cret") && !told.contains("body"), "{told}");
    }

    proptest! {
        #[test]
        fn a_cookie_in_any_place_of_any_head_is_hidden(
            before in proptest::collection::vec("[A-Za-z-]{1,10}: [ -~]{0,10}", 0..80), end in "\r?\n",
        ) {
            let mut head = format!("HTTP/1.1 200 OK{end}");
            before.iter().for_each(|line| head += &format!("{line}{end}"));
            head += &format!("Set-Cookie: s3cretW0rd{end}{end}");
            let (fields, left) = of_response(head.as_bytes());
            let told = format!("{fields:?}");
            prop_assert!(!told.contains("s3cretW0rd"));
            prop_assert_eq!(fields.len() + left, before.len() + 1);
        }
    }
}
