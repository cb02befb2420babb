//! Heads of responses as extensions write them, as heads of CGI responses.

/// Where the text behind the empty line begins, if the fields have their end.
pub(crate) fn end_of(fields: &[u8]) -> Option<usize> {
    let mut line = 0;
    while let Some(length) = fields[line..].iter().position(|&byte| byte == b'\n') {
        let next = line + length + 1;
        if matches!(&fields[line..next], b"\n" | b"\r\n") {
            return Some(next);
        }
        line = next;
    }
    None
}

/// Whether a text is a status such as `404 Not Found`: three digits, alone or before words on the same line.
pub(crate) fn is_status(text: &[u8]) -> bool {
    text.len() >= 3
        && text[..3].iter().all(u8::is_ascii_digit)
        && (b'1'..=b'5').contains(&text[0])
        && text.get(3).is_none_or(|&byte| byte == b' ')
        && text.iter().all(|&byte| byte >= b' ' && byte != 127)
}

/// Whether a text can be a URL in a field: it is not empty and has no control characters.
pub(crate) fn is_url(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&byte| byte > b' ' && byte != 127)
}

/// The status of a line such as `HTTP/1.1 404 Not Found`, and where the fields begin. `None` if the line has none.
pub(crate) fn status_of_line(head: &[u8]) -> Option<(&[u8], usize)> {
    let end = head.iter().position(|&byte| byte == b'\n')?;
    let line = head[..end].strip_suffix(b"\r").unwrap_or(&head[..end]);
    let status = line[line.iter().position(|&byte| byte == b' ')? + 1..].trim_ascii();
    is_status(status).then_some((status, end + 1))
}

/// The reason of a status that an extension gives as a number only.
pub(crate) fn reason(status: u32) -> &'static str {
    match status {
        200 => " OK",
        201 => " Created",
        204 => " No Content",
        302 => " Found",
        304 => " Not Modified",
        400 => " Bad Request",
        401 => " Unauthorized",
        403 => " Forbidden",
        404 => " Not Found",
        405 => " Method Not Allowed",
        500 => " Internal Server Error",
        501 => " Not Implemented",
        503 => " Service Unavailable",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_line_is_found() {
        assert_eq!(end_of(b"A: b\r\n\r\nbody"), Some(8));
        assert_eq!(end_of(b"A: b\n\nbody"), Some(6));
        assert_eq!(end_of(b"\r\nbody"), Some(2));
        assert_eq!(end_of(b"A: b\r\n"), None);
        assert_eq!(end_of(b""), None);
    }

    #[test]
    fn a_status_is_three_digits_and_words() {
        assert!(is_status(b"200") && is_status(b"404 Not Found"));
        for wrong in ["", "OK", "20", "2000", "200 OK\r\nSet-Cookie: a=b", "900 x", "abc"] {
            assert!(!is_status(wrong.as_bytes()), "{wrong}");
        }
        assert_eq!(status_of_line(b"HTTP/1.0 404 Not Found\r\nA: b"), Some((&b"404 Not Found"[..], 24)));
        assert_eq!(status_of_line(b"HTTP/1.0\r\n"), None);
    }
}
