//! Squid's native format: `TIME ELAPSED CLIENT RESULT/STATUS BYTES METHOD URL …`, with the time of the end and milliseconds.

use crate::entry::{checked_method, checked_target, status};
use crate::escape::Escapes;
use crate::time::since_1970;
use crate::{Entry, Reason};

/// Reads such a line; `None` where it is none.
pub(crate) fn parse(line: &str) -> Option<Result<Entry<'_>, Reason>> {
    // Most lines of other formats end here.
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    if !(9..=10).contains(&digits) || line.as_bytes().get(digits) != Some(&b'.') {
        return None;
    }
    let mut words = line.split_ascii_whitespace();
    let (time, took, _) = (words.next()?, words.next()?, words.next()?);
    let ((result, code), bytes) = (words.next()?.split_once('/')?, words.next()?);
    let (method, url) = (words.next()?, words.next()?);
    let (logged, took_ms) = (since_1970(time)?, took.parse::<i64>().ok()?);
    if !result.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_') {
        return None;
    }
    let request = checked_method(method).and_then(|method| Ok((method, checked_target(url, Escapes::None)?)));
    let request = match request {
        Ok(request) => request,
        // `NONE error:…` stands for a connection that brought no request.
        Err(_) if url.starts_with("error:") => return Some(Err(Reason::NoRequest)),
        Err(reason) => return Some(Err(reason)),
    };
    let mut entry = Entry::new(logged, Some(i128::from(took_ms) * 1_000_000), request);
    entry.status = status(code);
    entry.bytes = bytes.parse().ok();
    entry.is_size_unread = entry.bytes.is_none();
    Some(Ok(entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squid_is_read() {
        let line =
            "971211336.352    102 192.0.2.1 TCP_MISS/200 1234 GET http://h/a?b - HIER_DIRECT/192.0.2.2 text/html";
        let entry = parse(line).expect("it is one").expect("a request");
        assert_eq!((entry.second, entry.nanosecond, &*entry.target), (971_211_336, Some(250_000_000), "/a?b"));
        assert_eq!((entry.status, entry.bytes), (Some(200), Some(1234)));
        let of = |from: &str, to: &str| parse(&line.replace(from, to)).map(|said| said.map(|_| ()));
        assert_eq!(of("GET http://h/a?b", "CONNECT h:443"), Some(Err(Reason::Tunnel)));
        assert_eq!(of("GET http://h/a?b", "NONE error:invalid-request"), Some(Err(Reason::NoRequest)));
        assert_eq!(of("TCP_MISS/200", "-"), None);
    }
}
