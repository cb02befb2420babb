//! As much of HTTP/1.1 as a test's client sends.

/// A request head longer than this is refused.
const HEAD_LIMIT: usize = 64 << 10;

/// A request whose body has been skipped.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) keep_alive: bool,
    pub(crate) body_length: u64,
    /// HTTP/1.0 clients must be told that the connection stays open.
    is_http_1_0: bool,
}

/// What was received is no request.
#[derive(Debug, PartialEq)]
pub(crate) struct Malformed;

/// Bytes received on a connection, cut into requests.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    /// The request whose body is still to come, with the length that is missing.
    unfinished: Option<(Request, u64)>,
}

impl Inbox {
    /// Takes in what a read gave.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next request that has arrived with its whole body.
    pub(crate) fn take(&mut self) -> Result<Option<Request>, Malformed> {
        if self.unfinished.is_none() {
            self.unfinished = self.take_head()?.map(|request| {
                let length = request.body_length;
                (request, length)
            });
        }
        let Some((_, missing)) = &mut self.unfinished else { return Ok(None) };
        let here = self.bytes.len().min(usize::try_from(*missing).unwrap_or(usize::MAX));
        self.bytes.drain(..here);
        *missing -= here as u64;
        if *missing > 0 {
            return Ok(None);
        }
        Ok(self.unfinished.take().map(|(request, _)| request))
    }

    /// The next request as soon as its head has arrived; the body stays where it is.
    pub(crate) fn take_head(&mut self) -> Result<Option<Request>, Malformed> {
        let Some(end) = self.bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            return if self.bytes.len() > HEAD_LIMIT { Err(Malformed) } else { Ok(None) };
        };
        let request = parse(&self.bytes[..end])?;
        self.bytes.drain(..end + 4);
        Ok(Some(request))
    }
}

fn parse(head: &[u8]) -> Result<Request, Malformed> {
    let head = std::str::from_utf8(head).map_err(|_| Malformed)?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next().ok_or(Malformed)?.split(' ');
    let (Some(method), Some(path), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Malformed);
    };
    let is_http_1_0 = match version {
        "HTTP/1.1" => false,
        "HTTP/1.0" => true,
        _ => return Err(Malformed),
    };
    let mut keep_alive = !is_http_1_0;
    let mut body_length = 0;
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(Malformed)?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            body_length = value.parse().map_err(|_| Malformed)?;
        } else if name.eq_ignore_ascii_case("connection") {
            keep_alive = if is_http_1_0 {
                value.eq_ignore_ascii_case("keep-alive")
            } else {
                !value.eq_ignore_ascii_case("close")
            };
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(Malformed);
        }
    }
    let (method, path) = (method.to_owned(), path.to_owned());
    Ok(Request { method, path, keep_alive, body_length, is_http_1_0 })
}

/// The answer to a request, the same few bytes for every path.
pub(crate) fn ok(request: &Request) -> Vec<u8> {
    answer(request, "200 OK", "ok\n")
}

/// An answer with a status of its own.
pub(crate) fn answer(request: &Request, status: &str, body: &str) -> Vec<u8> {
    let connection = match (request.keep_alive, request.is_http_1_0) {
        (true, false) => "",
        (true, true) => "Connection: keep-alive\r\n",
        (false, _) => "Connection: close\r\n",
    };
    let length = body.len();
    let body = if request.method == "HEAD" { "" } else { body };
    format!(
        "HTTP/1.1 {status}\r\nServer: weir-faulty\r\nContent-Type: text/plain\r\n\
         Content-Length: {length}\r\n{connection}\r\n{body}"
    )
    .into_bytes()
}

/// The answer to what is no request; the connection closes after it.
pub(crate) const BAD_REQUEST: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;
    use weir_testkit::seeded::Choice;

    const STREAM: &[u8] = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n\
        POST /b HTTP/1.1\r\ncontent-length: 5\r\n\r\n12345\
        HEAD /c HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n\
        GET /d HTTP/1.1\r\nConnection: close\r\n\r\n";

    #[test]
    fn requests_are_the_same_however_the_stream_is_cut() {
        let mut choice = Choice::from_environment();
        for _ in 0..200 {
            let mut inbox = Inbox::default();
            let mut seen = Vec::new();
            let mut rest = STREAM;
            while !rest.is_empty() {
                let length = 1 + choice.below(rest.len() as u64) as usize;
                inbox.push(&rest[..length]);
                rest = &rest[length..];
                while let Some(request) = inbox.take().unwrap() {
                    seen.push((request.path, request.keep_alive));
                }
            }
            let expected = [("/a", true), ("/b", true), ("/c", true), ("/d", false)];
            assert!(seen.iter().map(|(path, open)| (path.as_str(), *open)).eq(expected));
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for bytes in [
            "nonsense\r\n\r\n",
            "GET /a b HTTP/1.1\r\n\r\n",
            "GET / HTTP/2.0\r\n\r\n",
            "GET / HTTP/1.1\r\nno colon\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        ] {
            let mut inbox = Inbox::default();
            inbox.push(bytes.as_bytes());
            assert_eq!(inbox.take(), Err(Malformed), "{bytes}");
        }
        let mut inbox = Inbox::default();
        inbox.push(&[b'a'; HEAD_LIMIT + 1]);
        assert_eq!(inbox.take(), Err(Malformed));
    }
}
