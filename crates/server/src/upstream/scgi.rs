//! SCGI: one request for each connection; its variables are a netstring, the response is one of CGI.

use super::gateway::script::{Scratch, Unsendable, find};
use super::gateway::settings::Gateway;
use super::gateway::variables::{self, Variables};
use super::message::{BodyFraming, Outgoing};
use std::io::Write as _;

/// Digits of the length of a netstring and its colon, at most.
const PREFIX_BYTES_MAX: usize = 21;

/// Appends the head of a request; its body follows as it is. `spooled` is the length of a body that was held, for a client
/// that did not say it.
///
/// # Errors
///
/// [`Unsendable`] if the request goes to no program; nothing was written then.
pub(crate) fn render(
    outgoing: &Outgoing<'_>,
    gateway: &Gateway,
    spooled: Option<u64>,
    exists: &mut impl FnMut(&[u8]) -> bool,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<BodyFraming, Unsendable> {
    let Some(length) = spooled.or(outgoing.head.body_bytes()) else { return Ok(BodyFraming::Unknown) };
    let script = find(outgoing.target, gateway, exists, scratch)?;
    let start = out.len();
    // The length of the netstring is known at its end: its digits move to the end of this room.
    out.extend_from_slice(&[0; PREFIX_BYTES_MAX]);
    let text_at = out.len();
    // This one is first. Memory takes any number of bytes.
    out.extend_from_slice(b"CONTENT_LENGTH\0");
    let _ = write!(out, "{length}");
    out.extend_from_slice(b"\0SCGI\x001\0");
    let mut netstring = Netstring { nuls: memchr::memchr_iter(0, &out[text_at..]).count(), out, start: 0 };
    let written = variables::write(outgoing, gateway, &script, &mut netstring);
    let nuls = netstring.nuls;
    let written = written.and_then(|()| {
        let is_plain = memchr::memchr_iter(0, &out[text_at..]).count() == nuls;
        if is_plain { Ok(()) } else { Err(Unsendable::Nul) }
    });
    if let Err(error) = written {
        out.truncate(start);
        return Err(error);
    }
    let mut prefix = [0; PREFIX_BYTES_MAX];
    let mut room = &mut prefix[..];
    // The room holds every number.
    let _ = write!(room, "{}:", out.len() - text_at);
    let used = PREFIX_BYTES_MAX - room.len();
    out.copy_within(text_at.., start + used);
    out.truncate(out.len() - (PREFIX_BYTES_MAX - used));
    out[start..start + used].copy_from_slice(&prefix[..used]);
    out.push(b',');
    Ok(if length > 0 { BodyFraming::Length(length) } else { BodyFraming::None })
}

/// Writes variables, each name and each value with a byte 0 behind it.
struct Netstring<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    /// Bytes 0 that were written here: there must be no others.
    nuls: usize,
}

impl Variables for Netstring<'_> {
    fn out(&mut self) -> &mut Vec<u8> {
        self.out
    }

    #[inline]
    fn begin(&mut self) {
        self.start = self.out.len();
    }

    #[inline]
    fn value(&mut self) {
        self.out.push(0);
    }

    #[inline]
    fn end(&mut self) {
        self.nuls += 2;
        self.out.push(0);
    }

    fn cancel(&mut self) {
        self.out.truncate(self.start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::gateway::variables::samples::{outgoing, request};

    fn rendered(head: &str, gateway: &Gateway, spooled: Option<u64>) -> (Result<BodyFraming, Unsendable>, Vec<u8>) {
        let request = request(head.as_bytes());
        let (mut scratch, mut out) = (Scratch::default(), b"before".to_vec());
        let framing = render(&outgoing(&request), gateway, spooled, &mut |_| true, &mut scratch, &mut out);
        (framing, out.strip_prefix(b"before").expect("what was there").to_vec())
    }

    #[test]
    fn a_request_is_a_netstring() {
        let gateway = Gateway::application("/srv".into(), String::new());
        let (framing, out) = rendered("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 27\r\n\r\n", &gateway, None);
        assert_eq!(framing, Ok(BodyFraming::Length(27)));
        let colon = out.iter().position(|byte| *byte == b':').expect("a colon");
        let length: usize = std::str::from_utf8(&out[..colon]).expect("digits").parse().expect("a number");
        assert_eq!((out.len(), out.last()), (colon + 1 + length + 1, Some(&b',')));
        let text = &out[colon + 1..out.len() - 1];
        assert!(text.starts_with(b"CONTENT_LENGTH\x0027\0SCGI\x001\0"));
        let words: Vec<&[u8]> = text[..text.len() - 1].split(|byte| *byte == 0).collect();
        assert!(words.len().is_multiple_of(2));
        assert!(words.chunks(2).any(|pair| pair == [&b"PATH_INFO"[..], b"/x"]));
    }

    #[test]
    fn bodies_are_said_first() {
        let gateway = Gateway::application("/srv".into(), String::new());
        let head = "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(rendered(head, &gateway, None), (Ok(BodyFraming::Unknown), Vec::new()));
        assert_eq!(rendered(head, &gateway, Some(3)).0, Ok(BodyFraming::Length(3)));
        let (framing, out) = rendered("GET /x HTTP/1.1\r\nHost: a\r\n\r\n", &gateway, None);
        assert_eq!(framing, Ok(BodyFraming::None));
        assert!(out.windows(18).any(|window| window == b":CONTENT_LENGTH\x000\0"));
    }

    #[test]
    fn a_byte_0_in_a_value_is_refused() {
        let mut gateway = Gateway::application("/srv".into(), String::new());
        gateway.params.push(("X".to_owned(), "a\0HTTPS\0on".to_owned()));
        assert_eq!(rendered("GET / HTTP/1.1\r\nHost: a\r\n\r\n", &gateway, None), (Err(Unsendable::Nul), Vec::new()));
    }
}
