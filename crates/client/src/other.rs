//! What else than a response of HTTP/1 came, by its first bytes.

/// So many bytes tell what a stream is that is not HTTP.
pub const TELLING_BYTES: usize = 16;
/// A TLS alert in the clear: the head of its record, its level, its number (RFC 8446 5.1 and 6).
const ALERT_BYTES: usize = 7;

/// What came instead of a response, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unlike(pub String);

impl Unlike {
    /// What these bytes are that do not begin as a response of HTTP/1 does; `None` while more of them would tell more.
    ///
    /// The answer depends only on the first bytes, so it is the same in any pieces they come. `is_all` says that no
    /// more follow.
    #[must_use]
    pub fn of(bytes: &[u8], is_all: bool) -> Option<Self> {
        if bytes.first() == Some(&21) && bytes.get(1).is_none_or(|major| *major == 3) {
            let whole = bytes.len() >= ALERT_BYTES;
            let alert = bytes.get(6).map(|number| format!(" ({}, {number})", alert_name(*number)));
            return (whole || is_all).then(|| {
                Self(format!(
                    "it answered with an alert of TLS{}: this port speaks TLS, not HTTP; ask with https://",
                    alert.unwrap_or_default()
                ))
            });
        }
        let line = bytes.iter().take(TELLING_BYTES).position(|byte| *byte == b'\n');
        if line.is_none() && bytes.len() < TELLING_BYTES && !is_all {
            return None;
        }
        let begin = &bytes[..line.unwrap_or(bytes.len().min(TELLING_BYTES))];
        // The head of a SETTINGS frame on stream 0: length, kind, flags, stream (RFC 9113 4.1).
        let settings = begin.len() >= 9 && begin[..2] == [0, 0] && begin[3] == 4 && begin[5..9] == [0; 4];
        Some(Self(if settings {
            "it speaks HTTP/2 from the first byte, not HTTP/1; ask with --http2".to_owned()
        } else if begin.starts_with(b"SSH-") {
            "this port speaks SSH, not HTTP".to_owned()
        } else {
            format!("it is not HTTP: it begins with `{}`", shown(begin))
        }))
    }
}

/// Bytes as text in which everything can be seen.
#[must_use]
pub fn shown(bytes: &[u8]) -> String {
    bytes.trim_ascii_end().escape_ascii().to_string()
}

/// The name of an alert (RFC 8446 6).
fn alert_name(number: u8) -> &'static str {
    match number {
        0 => "close_notify",
        10 => "unexpected_message",
        20 => "bad_record_mac",
        22 => "record_overflow",
        40 => "handshake_failure",
        47 => "illegal_parameter",
        50 => "decode_error",
        70 => "protocol_version",
        71 => "insufficient_security",
        80 => "internal_error",
        112 => "unrecognized_name",
        _ => "no name",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_tell_what_speaks() {
        for (bytes, words) in [
            (&b"\x15\x03\x01\x00\x02\x02\x46"[..], "alert of TLS (protocol_version, 70)"),
            (b"SSH-2.0-OpenSSH_9.2\r\n", "SSH"),
            (b"220 mail.example ESMTP\r\n", "begins with `220 mail.example`"),
            (b"-ERR\r\n", "begins with `-ERR`"),
            (b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64\x00", "HTTP/2"),
            (b"\x4a\x00\x00\x00\x0a8.0.36", "begins with `J\\x00\\x00\\x00`"),
        ] {
            let found = Unlike::of(bytes, false).expect("enough to tell").0;
            assert!(found.contains(words), "{found}");
            // In any pieces: once it is told, nothing that follows changes it.
            for length in 0..bytes.len() {
                assert!(Unlike::of(&bytes[..length], false).is_none_or(|early| early.0 == found), "{found}: {length}");
            }
        }
        assert_eq!(Unlike::of(b"hello", false), None);
        assert!(Unlike::of(b"hello", true).expect("all there is").0.contains("`hello`"));
    }
}
