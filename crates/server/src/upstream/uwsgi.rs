//! uwsgi, the protocol of uWSGI: one request for each connection; the response is one of HTTP/1 or of CGI.

use super::gateway::script::{Scratch, Unsendable, find};
use super::gateway::settings::Gateway;
use super::gateway::variables::{self, Variables};
use super::message::{BodyFraming, Outgoing};
use std::io::Write as _;

/// Bytes of the head of a packet: a modifier, the size of the variables, another modifier.
const HEAD_BYTES: usize = 4;
/// Bytes of the variables of a request, as the protocol has 16 bits for their size.
const VARIABLES_BYTES_MAX: usize = 65_535;

/// Appends the head of a request; its body follows as it is. `spooled` is the length of a body that was held, for a client
/// that did not say it.
///
/// # Errors
///
/// [`Unsendable`] if the request goes to no program, and [`Unsendable::TooLarge`] if its variables have more than 65,535
/// bytes; nothing was written then.
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
    out.extend_from_slice(&[0; HEAD_BYTES]);
    let mut sized = Sized { out, name_at: 0, value_at: 0 };
    let written = variables::write(outgoing, gateway, &script, &mut sized);
    sized.begin();
    sized.out.extend_from_slice(b"CONTENT_LENGTH");
    sized.value();
    if length > 0 {
        // Memory takes any number of bytes.
        let _ = write!(sized.out, "{length}");
    }
    sized.end();
    let size = out.len() - start - HEAD_BYTES;
    if let Err(error) = written.and(if size > VARIABLES_BYTES_MAX { Err(Unsendable::TooLarge) } else { Ok(()) }) {
        out.truncate(start);
        return Err(error);
    }
    // It is at most the bound above.
    let [low, high] = (size as u16).to_le_bytes();
    out[start..start + HEAD_BYTES].copy_from_slice(&[0, low, high, 0]);
    Ok(if length > 0 { BodyFraming::Length(length) } else { BodyFraming::None })
}

/// Appends a piece of the body.
#[cfg(test)]
pub(crate) fn write_body(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(bytes);
}

/// Writes variables, each name and each value behind its size. A size that does not fit makes the whole too large.
struct Sized<'o> {
    out: &'o mut Vec<u8>,
    name_at: usize,
    value_at: usize,
}

impl Sized<'_> {
    /// Writes the size of what lies behind the room for it.
    fn say_size(&mut self, at: usize) {
        let size = (self.out.len() - at - 2) as u16;
        self.out[at..at + 2].copy_from_slice(&size.to_le_bytes());
    }
}

impl Variables for Sized<'_> {
    fn out(&mut self) -> &mut Vec<u8> {
        self.out
    }

    #[inline]
    fn begin(&mut self) {
        self.name_at = self.out.len();
        self.out.extend_from_slice(&[0; 2]);
    }

    #[inline]
    fn value(&mut self) {
        self.say_size(self.name_at);
        self.value_at = self.out.len();
        self.out.extend_from_slice(&[0; 2]);
    }

    #[inline]
    fn end(&mut self) {
        self.say_size(self.value_at);
    }

    fn cancel(&mut self) {
        self.out.truncate(self.name_at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::gateway::response::{ClosingResponse, Wants};
    use crate::upstream::gateway::variables::samples::{outgoing, request};
    use crate::upstream::message::Said;
    use crate::upstream::{fastcgi, scgi};
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;
    use weir_testkit::{Uwsgi, require};

    fn rendered(head: &str, spooled: Option<u64>) -> (Result<BodyFraming, Unsendable>, Vec<u8>) {
        let request = request(head.as_bytes());
        let gateway = Gateway::application("/srv".into(), String::new());
        let (mut scratch, mut out) = (Scratch::default(), b"before".to_vec());
        let framing = render(&outgoing(&request), &gateway, spooled, &mut |_| true, &mut scratch, &mut out);
        (framing, out.strip_prefix(b"before").expect("what was there").to_vec())
    }

    fn pairs(mut bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let mut text = || {
                let size = usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
                let text = bytes[2..2 + size].to_vec();
                bytes = &bytes[2 + size..];
                text
            };
            found.push((text(), text()));
        }
        found
    }

    #[test]
    fn a_request_is_a_packet_of_variables() {
        let (framing, out) = rendered("POST /x?y HTTP/1.1\r\nHost: a\r\nContent-Length: 27\r\n\r\n", None);
        assert_eq!(framing, Ok(BodyFraming::Length(27)));
        assert_eq!((out[0], out[3]), (0, 0));
        assert_eq!(usize::from(u16::from_le_bytes([out[1], out[2]])), out.len() - 4);
        let pairs = pairs(&out[4..]);
        for (name, value) in [("CONTENT_LENGTH", "27"), ("PATH_INFO", "/x"), ("QUERY_STRING", "y"), ("HTTP_HOST", "a")]
        {
            assert!(pairs.contains(&(name.into(), value.into())), "{name}");
        }
        let chunked = "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(rendered(chunked, None), (Ok(BodyFraming::Unknown), Vec::new()));
        assert_eq!(rendered(chunked, Some(3)).0, Ok(BodyFraming::Length(3)));
        assert_eq!(rendered("GET / HTTP/1.1\r\nHost: a\r\n\r\n", None).0, Ok(BodyFraming::None));
    }

    #[test]
    fn variables_beyond_16_bits_are_refused() {
        let gateway_of = |bytes: usize| {
            let mut gateway = Gateway::application("/srv".into(), String::new());
            gateway.params.push(("X".to_owned(), "x".repeat(bytes)));
            gateway
        };
        let request = request(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let size = |bytes: usize| {
            let (mut scratch, mut out) = (Scratch::default(), Vec::new());
            render(&outgoing(&request), &gateway_of(bytes), None, &mut |_| true, &mut scratch, &mut out)
                .map(|_| out.len())
        };
        let empty = size(0).expect("it fits");
        let room = HEAD_BYTES + VARIABLES_BYTES_MAX - empty;
        assert_eq!(size(room), Ok(HEAD_BYTES + VARIABLES_BYTES_MAX));
        assert_eq!(size(room + 1), Err(Unsendable::TooLarge));
        assert_eq!(size(140_000), Err(Unsendable::TooLarge));
    }

    /// A program that says back what it got.
    const ECHO: &str = r#"
import sys
def application(environ, start_response):
    body = environ['wsgi.input'].read()
    if environ['PATH_INFO'].endswith('/away'):
        start_response('302 Found', [('Location', '/there')])
        return []
    names = ['REQUEST_METHOD', 'SCRIPT_NAME', 'PATH_INFO', 'QUERY_STRING', 'CONTENT_TYPE', 'CONTENT_LENGTH',
        'REMOTE_ADDR', 'SERVER_NAME', 'SERVER_PORT', 'HTTP_HOST', 'HTTP_X_TEST', 'HTTP_PROXY']
    text = ''.join('%s=%s\n' % (name, environ.get(name, '-')) for name in names)
    answer = text.encode() + body
    start_response('201 Created', [('Content-Type', 'text/plain'), ('Content-Length', str(len(answer)))])
    return [answer]
"#;

    const POST: &str = "POST /app/a%20b?q=1 HTTP/1.1\r\nHost: example.org:81\r\nContent-Type: text/x\r\n\
        Content-Length: 6\r\nX-Test: 1\r\nx-test: 2\r\nProxy: evil\r\n\r\n";
    const ANSWER: &str = "REQUEST_METHOD=POST\nSCRIPT_NAME=/app\nPATH_INFO=/a b\nQUERY_STRING=q=1\nCONTENT_TYPE=text/x\n\
        CONTENT_LENGTH=6\nREMOTE_ADDR=192.0.2.1\nSERVER_NAME=example.org\nSERVER_PORT=8080\nHTTP_HOST=example.org:81\n\
        HTTP_X_TEST=1, 2\nHTTP_PROXY=-\nabcdef";

    /// Sends a request and reads the response in pieces of a few bytes.
    fn exchange(
        socket: &std::path::Path,
        request: &[u8],
        mut read: impl FnMut(&[u8], &mut dyn FnMut(Said<'_>)),
    ) -> (u16, String, String) {
        let mut stream = UnixStream::connect(socket).expect("connects");
        stream.write_all(request).expect("sends");
        let (mut status, mut fields, mut body, mut is_ended) = (0, String::new(), Vec::new(), false);
        let mut said = |part: Said<'_>| match part {
            Said::Head(head) => {
                (status, fields) = (head.status, String::from_utf8(head.fields).expect("text"));
            }
            Said::Body(bytes) => body.extend_from_slice(bytes),
            Said::End => is_ended = true,
            other => panic!("{other:?}"),
        };
        let mut buffer = [0; 7];
        loop {
            match stream.read(&mut buffer).expect("reads") {
                0 => break,
                bytes => read(&buffer[..bytes], &mut said),
            }
        }
        read(&[], &mut said);
        assert!(is_ended, "the response has no end");
        (status, fields, String::from_utf8(body).expect("text"))
    }

    type Render = fn(&Outgoing<'_>, &Gateway, Option<u64>, &mut Vec<u8>) -> Result<BodyFraming, Unsendable>;

    #[test]
    fn uwsgi_answers_uwsgi_and_scgi() {
        if require::program("uwsgi_python3").is_none() {
            return;
        }
        let running = Uwsgi::new(ECHO).start().expect("uWSGI starts");
        let gateway = Gateway::application("/srv".into(), "/app".to_owned());
        let over_uwsgi: Render =
            |outgoing, gateway, held, out| render(outgoing, gateway, held, &mut |_| true, &mut Scratch::default(), out);
        let over_scgi: Render = |outgoing, gateway, held, out| {
            scgi::render(outgoing, gateway, held, &mut |_| true, &mut Scratch::default(), out)
        };
        for (socket, render) in [("uwsgi.sock", over_uwsgi), ("scgi.sock", over_scgi)] {
            let socket = running.dir().join("data").join(socket);
            let ask = |head: &str, body: &[u8]| {
                let request = request(head.as_bytes());
                let mut out = Vec::new();
                let framing = render(&outgoing(&request), &gateway, None, &mut out).expect("is sent");
                assert_eq!(framing == BodyFraming::None, body.is_empty());
                write_body(body, &mut out);
                let mut response = ClosingResponse::new(Wants::All);
                exchange(&socket, &out, |bytes, mut said| {
                    if bytes.is_empty() {
                        response.end_of_input(&mut said).expect("a whole response");
                    } else {
                        assert_eq!(response.read(bytes, &mut said), Ok(bytes.len()));
                    }
                })
            };
            let (status, fields, body) = ask(POST, b"abcdef");
            assert_eq!((status, body.as_str()), (201, ANSWER), "{socket:?}");
            assert_eq!(fields, "Content-Type: text/plain\r\n");
            let (status, fields, body) = ask("GET /app/away HTTP/1.1\r\nHost: a\r\n\r\n", b"");
            assert_eq!((status, fields.as_str(), body.as_str()), (302, "Location: /there\r\n", ""));
        }
    }

    #[test]
    fn uwsgi_answers_fastcgi() {
        if require::program("uwsgi_python3").is_none() {
            return;
        }
        let running = Uwsgi::new(ECHO).start().expect("uWSGI starts");
        let gateway = Gateway::application("/srv".into(), "/app".to_owned());
        let request = request(POST.as_bytes());
        let (mut scratch, mut out) = (Scratch::default(), Vec::new());
        let outgoing = outgoing(&request);
        fastcgi::request::render(&outgoing, &gateway, None, &mut |_| true, &mut scratch, &mut out).expect("is sent");
        fastcgi::request::write_body(b"abc", &mut out);
        fastcgi::request::write_body(b"def", &mut out);
        fastcgi::request::end_body(&mut out);
        let mut response = fastcgi::response::FastCgiResponse::new(Wants::All);
        let socket = running.dir().join("data/fastcgi.sock");
        let (status, _, body) = exchange(&socket, &out, |bytes, mut said| {
            if bytes.is_empty() {
                response.end_of_input(&mut said).expect("a whole response");
            } else {
                assert_eq!(response.read(bytes, &mut said), Ok(bytes.len()));
            }
        });
        assert_eq!((status, body.as_str()), (201, ANSWER));
    }
}
