//! Requests of HTTP/1.1 that two readers may take apart differently, as they were published: "HTTP Desync Attacks"
//! (2019), "HTTP/2: The Sequel is Always Worse" (2021), "Browser-Powered Desync Attacks" (2022), "HTTP/1.1 must die"
//! (2025), the lists of http-garden, and what servers had to mend since.

/// Bytes of a client and what an upstream may see of them.
pub(super) struct Vector {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
    pub(super) seen: Seen,
    pub(super) is_head: bool,
}

/// How many requests an upstream may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// None: the server refuses it.
    Nothing,
    /// At most so many: the standard leaves a choice.
    Most(usize),
    /// So many.
    Exactly(usize),
}

/// A request that a vector hides, or that follows it: it ends the connection.
fn marked(number: usize) -> String {
    format!("GET /marked{number} HTTP/1.1\r\nHost: a.org\r\nConnection: close\r\n\r\n")
}

/// All of them; each has targets of its own, by its number.
pub(super) fn all() -> Vec<Vector> {
    let mut list = List(Vec::new());
    list.framing();
    list.chunks();
    list.lines();
    list.bodies();
    list.connections();
    list.0
}

struct List(Vec<Vector>);

impl List {
    fn push(&mut self, name: &str, bytes: impl FnOnce(usize, &str) -> Vec<u8>, seen: Seen) {
        let number = self.0.len();
        let bytes = bytes(number, &marked(number));
        let is_head = bytes.starts_with(b"HEAD");
        self.0.push(Vector { name: name.to_owned(), bytes, seen, is_head });
    }

    /// A POST with these fields, a body that ends at once if it is in chunks, and the marked request.
    fn fields(&mut self, name: &str, fields: &[u8], seen: Seen) {
        let bytes = |number, marked: &str| {
            let head = format!("POST /v{number} HTTP/1.1\r\nHost: a.org\r\n");
            [head.as_bytes(), fields, b"\r\n\r\n0\r\n\r\n", marked.as_bytes()].concat()
        };
        self.push(name, bytes, seen);
    }

    /// Two fields that say where a body ends.
    fn framing(&mut self) {
        for (name, fields) in [
            ("CL.TE", "Content-Length: 5\r\nTransfer-Encoding: chunked"),
            ("TE.CL", "Transfer-Encoding: chunked\r\nContent-Length: 5"),
            ("CL.TE, all of the rest", "Content-Length: 100\r\nTransfer-Encoding: chunked"),
            ("CL.0", "Content-Length: 0\r\nTransfer-Encoding: chunked"),
            ("a length beside a coding that is gone", "Content-Length: 5\r\nTransfer-Encoding: identity"),
            ("two lengths", "Content-Length: 5\r\nContent-Length: 0"),
            ("two lengths, the other order", "Content-Length: 0\r\nContent-Length: 5"),
            ("two lengths, one in small letters", "Content-Length: 5\r\ncontent-length: 50"),
            ("lengths in a list", "Content-Length: 5, 50"),
            ("lengths in a list, empty members", "Content-Length: 5,,"),
            ("a length with a plus", "Content-Length: +5"),
            ("a length with a minus", "Content-Length: -5"),
            ("a length of minus 0", "Content-Length: -0"),
            ("a hexadecimal length", "Content-Length: 0x5"),
            ("a length with an exponent", "Content-Length: 5e0"),
            ("a length with an underscore", "Content-Length: 0_5"),
            ("a length with a fraction", "Content-Length: 5.0"),
            ("a length with a blank within", "Content-Length: 5 0"),
            ("a length and a null", "Content-Length: 5\0"),
            ("a length and a vertical tab", "Content-Length: \x0b5"),
            ("a length in quotes", "Content-Length: \"5\""),
            ("a length without digits", "Content-Length:"),
            ("a length of other digits", "Content-Length: \u{ff15}"),
            ("a length beyond 64 bits", "Content-Length: 18446744073709551621"),
            ("a length beyond 32 bits of another sign", "Content-Length: 99999999999999999999999999"),
            ("a blank before the colon", "Content-Length : 5"),
            ("a tab before the colon", "Content-Length\t: 5"),
            ("TE.TE, a blank before the colon", "Transfer-Encoding : chunked"),
            ("TE.TE, a tab before the colon", "Transfer-Encoding\t: chunked"),
            ("TE.TE, a vertical tab", "Transfer-Encoding: \x0bchunked"),
            ("TE.TE, a form feed", "Transfer-Encoding: chunked\x0c"),
            ("TE.TE, a null", "Transfer-Encoding: chunked\0"),
            ("TE.TE, a null before", "Transfer-Encoding: \0chunked"),
            ("TE.TE, quotes", "Transfer-Encoding: \"chunked\""),
            ("TE.TE, apostrophes", "Transfer-Encoding: 'chunked'"),
            ("TE.TE, an unknown coding", "Transfer-Encoding: xchunked"),
            ("TE.TE, cut", "Transfer-Encoding: chunke"),
            ("TE.TE, two lines, an unknown one", "Transfer-Encoding: chunked\r\nTransfer-Encoding: x"),
            ("TE.TE, two lines, the unknown one first", "Transfer-Encoding: x\r\nTransfer-Encoding: chunked"),
            ("TE.TE, two lines of the same", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
            ("TE.TE, chunked first", "Transfer-Encoding: chunked, identity"),
            ("TE.TE, identity first", "Transfer-Encoding: identity, chunked"),
            ("TE.TE, gzip first", "Transfer-Encoding: gzip, chunked"),
            ("TE.TE, an empty member", "Transfer-Encoding: , chunked"),
            ("TE.TE, a member behind", "Transfer-Encoding: chunked,"),
            ("TE.TE, a parameter", "Transfer-Encoding: chunked;q=0.5"),
            ("TE.TE, a semicolon", "Transfer-Encoding: chunked;"),
            ("TE.TE, nothing", "Transfer-Encoding:"),
            ("TE.TE, identity", "Transfer-Encoding: identity"),
            ("TE.TE, a letter beyond ASCII", "Transfer-Encoding: ch\u{fc}nked"),
            ("TE.TE, a dotless letter", "Transfer-Encod\u{131}ng: chunked"),
            ("TE.TE, a kelvin sign", "Transfer-Encoding: chun\u{212a}ed"),
            ("TE.TE, folded", "Transfer-Encoding:\r\n chunked"),
            ("TE.TE, folded by a tab", "Transfer-Encoding:\r\n\tchunked"),
            ("TE.TE, folded behind another", "X: y\r\n Transfer-Encoding: chunked"),
            ("TE.TE, a blank before the name", " Transfer-Encoding: chunked"),
            ("TE.TE, a carriage return before the name", "X: y\r\n\rTransfer-Encoding: chunked"),
            ("TE.TE, behind a bare carriage return", "X: y\rTransfer-Encoding: chunked"),
            ("TE.TE, two carriage returns", "X: y\r\r\nTransfer-Encoding: chunked"),
            ("TE.TE, a null in the name", "Transfer-\0Encoding: chunked"),
            ("TE.TE, a colon before", ":Transfer-Encoding: chunked"),
            ("TE.TE, two colons", "Transfer-Encoding:: chunked"),
            ("a line without a colon", "Transfer-Encoding chunked"),
            ("a length folded", "Content-Length:\r\n 5"),
            ("a name in quotes", "\"Transfer-Encoding\": chunked"),
            ("a name with a slash", "Transfer/Encoding: chunked\r\nContent-Length : 5"),
            ("a name of parentheses", "(Content-Length): 5"),
        ] {
            self.fields(name, fields.as_bytes(), Seen::Nothing);
        }
        self.alike();
    }

    /// Names and values that only look as if they framed a message, and those that do in an odd way.
    fn alike(&mut self) {
        // The body has the five bytes `0 CR LF CR LF`; without a length it has none, and these begin a request.
        for (name, fields, seen) in [
            ("the same length twice", "Content-Length: 5\r\nContent-Length: 5", Seen::Most(2)),
            ("the same length in a list", "Content-Length: 5, 5", Seen::Most(2)),
            ("zeros before a length", "Content-Length: 0005", Seen::Most(2)),
            ("a length with blanks around", "Content-Length: \t 5 \t", Seen::Exactly(2)),
            ("a length in capitals", "CONTENT-LENGTH: 5", Seen::Exactly(2)),
            ("chunked in capitals", "TRANSFER-ENCODING: CHUNKED", Seen::Exactly(2)),
            ("chunked without a blank", "Transfer-Encoding:chunked", Seen::Exactly(2)),
            ("chunked behind tabs", "Transfer-Encoding: \t chunked \t", Seen::Exactly(2)),
            ("chunked behind a line feed", "X: y\nTransfer-Encoding: chunked", Seen::Most(2)),
            ("a length behind a line feed", "X: y\nContent-Length: 5", Seen::Most(2)),
            ("an underscore", "Transfer_Encoding: chunked", Seen::Most(1)),
            ("an underscore in a length", "Content_Length: 5", Seen::Most(1)),
            ("another name", "X-Transfer-Encoding: chunked", Seen::Most(1)),
            ("a name that is cut", "Content-Lengt: 5", Seen::Most(1)),
            ("the length of the connection", "Connection: content-length\r\nContent-Length: 5", Seen::Most(2)),
            (
                "the coding of the connection",
                "Connection: transfer-encoding\r\nTransfer-Encoding: chunked",
                Seen::Most(2),
            ),
            ("the length in Keep-Alive", "Keep-Alive: content-length\r\nContent-Length: 5", Seen::Most(2)),
            ("TE chunked", "TE: chunked\r\nContent-Length: 5", Seen::Most(2)),
            ("a trailer that is told", "Trailer: Content-Length\r\nTransfer-Encoding: chunked", Seen::Most(2)),
        ] {
            self.fields(name, fields.as_bytes(), seen);
        }
        self.fields("bytes beyond ASCII", b"X: \xff\xfe\r\nContent-Length: 5", Seen::Most(2));
        self.fields("a byte of 0x85", b"X: y\x85Transfer-Encoding: chunked\r\nContent-Length: 5", Seen::Most(2));
        self.fields("a blank of 0xa0", b"Transfer-Encoding:\xa0chunked", Seen::Nothing);
        self.fields("a blank of 0xa0 before a length", b"Content-Length:\xa05", Seen::Nothing);
    }

    /// A POST in chunks with this body, then the marked request. A body in doubt may have begun to go out.
    fn body(&mut self, name: &str, body: impl Fn(&str) -> Vec<u8>, seen: Seen) {
        let bytes = |number, marked: &str| {
            let head = format!("POST /v{number} HTTP/1.1\r\nHost: a.org\r\nTransfer-Encoding: chunked\r\n\r\n");
            [head.as_bytes(), &body(marked), marked.as_bytes()].concat()
        };
        self.push(name, bytes, seen);
    }

    fn chunks(&mut self) {
        for (name, body) in [
            ("a chunk without a size", "\r\n\r\n"),
            ("a size with a plus", "+0\r\n\r\n"),
            ("a size with a minus", "-0\r\n\r\n"),
            ("a size with a prefix", "0x0\r\n\r\n"),
            ("a size with an underscore", "0_0\r\n\r\n"),
            ("a size beyond 64 bits", "10000000000000000\r\n\r\n"),
            ("a size beyond 64 bits that is 5", "10000000000000005\r\nabcde\r\n0\r\n\r\n"),
            ("a size beyond 128 bits", "100000000000000000000000000000005\r\nabcde\r\n0\r\n\r\n"),
            ("a size of minus 1", "ffffffffffffffff\r\nabcde\r\n0\r\n\r\n"),
            ("a size of another base", "5g\r\nabcde\r\n0\r\n\r\n"),
            ("a size and a null", "0\0\r\n\r\n"),
            ("a size behind a blank", " 0\r\n\r\n"),
            ("a size line with a line feed", "0\n\r\n"),
            ("a size line with a carriage return", "0\r\r\n\r\n"),
            ("a size line that ends with a carriage return and a letter", "0\rX\r\n\r\n"),
            ("two sizes", "0 5\r\n\r\n"),
            ("more data than said", "1\r\nabc\r\n0\r\n\r\n"),
            ("data that end with a line feed", "1\r\na\n0\r\n\r\n"),
            ("data that end with a carriage return", "1\r\na\r0\r\n\r\n"),
            ("data that end with other bytes", "1\r\naXX0\r\n\r\n"),
            ("an extension with a line feed", "0;a\nb\r\n\r\n"),
            ("an extension with a carriage return", "0;a\rb\r\n\r\n"),
            ("an extension with a null", "0;a\0\r\n\r\n"),
            ("an extension that ends with a line feed", "5;\nabcde\r\n0\r\n\r\n"),
            ("no extension, a line feed", "5;a=\"\n\"\r\nabcde\r\n0\r\n\r\n"),
            ("a trailer with a carriage return", "0\r\nA: b\rC: d\r\n\r\n"),
            ("a trailer with a null", "0\r\nA: b\0\r\n\r\n"),
            ("a line feed in place of the end", "0\r\n\n"),
        ] {
            // The upstream may have seen a head, and no end.
            self.body(name, |_| body.as_bytes().to_vec(), Seen::Nothing);
        }
        // Trailers may be thrown away unread (RFC 9112 section 7.1.2).
        for (name, body) in [
            ("a trailer without a colon", "0\r\nA\r\n\r\n"),
            ("a trailer with a blank before the colon", "0\r\nA : b\r\n\r\n"),
            ("a trailer that is folded", "0\r\nA: b\r\n c\r\n\r\n"),
        ] {
            self.body(name, |_| body.as_bytes().to_vec(), Seen::Most(2));
        }
        // A line that ends with a line feed alone: the standard lets it pass in fields only.
        self.body("trailers that end with line feeds", |_| b"0\r\nA: b\n\n".to_vec(), Seen::Most(1));
        let long = |marked: &str, size: &str| format!("{size}\r\n{marked}\r\n0\r\n\r\n").into_bytes();
        self.body("a request within a chunk", |marked| long(marked, &format!("{:x}", marked.len())), Seen::Exactly(2));
        self.body("zeros before a size", |marked| long(marked, &format!("{:010x}", marked.len())), Seen::Exactly(2));
        self.body("a size in capitals", |marked| long(marked, &format!("{:X}", marked.len())), Seen::Exactly(2));
        self.body("a blank behind a size", |marked| long(marked, &format!("{:x} ", marked.len())), Seen::Most(2));
        self.body("an extension", |marked| long(marked, &format!("{:x};a=b", marked.len())), Seen::Exactly(2));
        self.body(
            "an extension in quotes",
            |marked| long(marked, &format!("{:x};a=\"b;c\"", marked.len())),
            Seen::Most(2),
        );
        self.body(
            "an extension of 9000 bytes",
            |marked| long(marked, &format!("{:x};{}", marked.len(), "a".repeat(9000))),
            Seen::Most(2),
        );
        self.body(
            "trailers that frame",
            |_| b"0\r\nContent-Length: 40\r\nTransfer-Encoding: x\r\n\r\n".to_vec(),
            Seen::Most(2),
        );
        self.body(
            "trailers of the connection",
            |_| b"0\r\nHost: b.org\r\nConnection: x\r\n\r\n".to_vec(),
            Seen::Most(2),
        );
        self.body("trailers", |_| b"2\r\nab\r\n0\r\nX-Sum: 1\r\n\r\n".to_vec(), Seen::Exactly(2));
    }

    /// A head of this text (`N` is its number), then the marked request.
    fn head(&mut self, name: &str, head: &str, seen: Seen) {
        let bytes = |number: usize, marked: &str| {
            format!("{}\r\n\r\n{marked}", head.replace("/vN", &format!("/v{number}"))).into_bytes()
        };
        self.push(name, bytes, seen);
    }

    /// Request lines, hosts and names of fields.
    fn lines(&mut self) {
        for (name, head) in [
            ("a blank in the target", "GET /vN x HTTP/1.1\r\nHost: a.org"),
            ("a tab in the target", "GET /vN\tx HTTP/1.1\r\nHost: a.org"),
            ("a carriage return in the target", "GET /vN\rx HTTP/1.1\r\nHost: a.org"),
            ("a null in the target", "GET /vN\0 HTTP/1.1\r\nHost: a.org"),
            ("two request lines", "GET /vN HTTP/1.1 GET /vN HTTP/1.1\r\nHost: a.org"),
            ("no version", "GET /vN\r\nHost: a.org"),
            ("a version in small letters", "GET /vN http/1.1\r\nHost: a.org"),
            ("another version", "GET /vN HTTP/1.10\r\nHost: a.org"),
            ("a version of 3 digits", "GET /vN HTTP/11.1\r\nHost: a.org"),
            ("HTTP/2 in HTTP/1", "GET /vN HTTP/2.0\r\nHost: a.org"),
            ("a version that is no number", "GET /vN HTTP/1.a\r\nHost: a.org"),
            ("no slash", "GET vN HTTP/1.1\r\nHost: a.org"),
            ("an asterisk", "GET * HTTP/1.1\r\nHost: a.org"),
            ("an authority", "GET a.org:80 HTTP/1.1\r\nHost: a.org"),
            ("CONNECT with a body", "CONNECT a.org:80 HTTP/1.1\r\nHost: a.org:80\r\nContent-Length: 10"),
            ("a scheme that is none of HTTP", "GET ftp://a.org/vN HTTP/1.1\r\nHost: a.org"),
            ("a user in the target", "GET http://x@a.org/vN HTTP/1.1\r\nHost: a.org"),
            ("no host", "GET /vN HTTP/1.1\r\nX: y"),
            ("two hosts", "GET /vN HTTP/1.1\r\nHost: a.org\r\nHost: b.org"),
            ("two hosts, the same", "GET /vN HTTP/1.1\r\nHost: a.org\r\nHost: a.org"),
            ("two hosts, one with a blank before the colon", "GET /vN HTTP/1.1\r\nHost: a.org\r\nHost : b.org"),
            ("two hosts, one with a blank before the name", "GET /vN HTTP/1.1\r\n Host: a.org\r\nHost: b.org"),
            ("a host with a path", "GET /vN HTTP/1.1\r\nHost: a.org/x"),
            ("a host with a blank", "GET /vN HTTP/1.1\r\nHost: a.org b.org"),
            ("a host with a user", "GET /vN HTTP/1.1\r\nHost: x@a.org"),
            ("a null in a name", "GET /vN HTTP/1.1\r\nHost: a.org\r\nX\0: y"),
            ("a null in a value", "GET /vN HTTP/1.1\r\nHost: a.org\r\nX: y\0z"),
            ("a blank in a name", "GET /vN HTTP/1.1\r\nHost: a.org\r\nX y: z"),
            ("a folded field", "GET /vN HTTP/1.1\r\nHost: a.org\r\nX: y\r\n z"),
            ("a folded first field", "GET /vN HTTP/1.1\r\n Host: a.org"),
            ("a bare carriage return in a value", "GET /vN HTTP/1.1\r\nHost: a.org\r\nX: y\rz"),
            ("an empty name", "GET /vN HTTP/1.1\r\nHost: a.org\r\n: y"),
            ("a line of blanks", "GET /vN HTTP/1.1\r\nHost: a.org\r\n \r\nX: y"),
        ] {
            self.head(name, head, Seen::Nothing);
        }
        for (name, head, seen) in [
            ("a fragment", "GET /vN#x HTTP/1.1\r\nHost: a.org", Seen::Most(1)),
            ("CONNECT", "CONNECT a.org:80 HTTP/1.1\r\nHost: a.org:80", Seen::Most(1)),
            ("an empty line before", "\r\nGET /vN HTTP/1.1\r\nHost: a.org", Seen::Most(2)),
            ("an empty line of a line feed before", "\nGET /vN HTTP/1.1\r\nHost: a.org", Seen::Most(2)),
            ("an absolute target", "GET http://a.org/vN HTTP/1.1\r\nHost: a.org", Seen::Exactly(2)),
            ("an absolute target of another host", "GET http://a.org/vN HTTP/1.1\r\nHost: b.org", Seen::Exactly(2)),
            ("a path that looks absolute", "GET /http://b.org/vN HTTP/1.1\r\nHost: a.org", Seen::Most(2)),
            ("two slashes", "GET //b.org/vN HTTP/1.1\r\nHost: a.org", Seen::Most(2)),
            ("dots", "GET /x/../vN HTTP/1.1\r\nHost: a.org", Seen::Most(2)),
            ("line ends in the target, encoded", "GET /vN%0d%0aX:%20y HTTP/1.1\r\nHost: a.org", Seen::Most(2)),
            ("a blank in the target, encoded", "GET /vN%20HTTP/1.1%0d%0a HTTP/1.1\r\nHost: a.org", Seen::Most(2)),
            ("a question mark and a blank, encoded", "GET /vN?a=%20HTTP/1.1 HTTP/1.1\r\nHost: a.org", Seen::Most(2)),
            ("a higher minor version", "GET /vN HTTP/1.2\r\nHost: a.org", Seen::Most(2)),
            ("an unknown method", "PURGE /vN HTTP/1.1\r\nHost: a.org", Seen::Most(2)),
            ("a method in small letters", "get /vN HTTP/1.1\r\nHost: a.org", Seen::Most(2)),
            ("OPTIONS of all", "OPTIONS * HTTP/1.1\r\nHost: a.org", Seen::Most(2)),
            ("TRACE", "TRACE /vN HTTP/1.1\r\nHost: a.org", Seen::Most(2)),
            ("line feeds for line ends", "GET /vN HTTP/1.1\nHost: a.org\nX: y", Seen::Most(2)),
            ("a host with a comma", "GET /vN HTTP/1.1\r\nHost: a.org,b.org", Seen::Most(2)),
            ("a host of IPv6", "GET /vN HTTP/1.1\r\nHost: [::1]:80", Seen::Most(2)),
        ] {
            self.head(name, head, seen);
        }
    }

    /// Bodies of methods that seldom have one, and lengths that do not fit.
    fn bodies(&mut self) {
        for method in ["GET", "HEAD", "DELETE", "OPTIONS", "TRACE", "PUT", "PATCH", "PROPFIND"] {
            let seen = if method == "TRACE" { Seen::Most(2) } else { Seen::Exactly(1) };
            self.push(
                &format!("0.CL, {method} with a request as its body"),
                |number, marked| {
                    let length = marked.len();
                    format!("{method} /v{number} HTTP/1.1\r\nHost: a.org\r\nContent-Length: {length}\r\n\r\n{marked}")
                        .into()
                },
                seen,
            );
            self.push(
                &format!("{method} with chunks"),
                |number, marked| {
                    let length = marked.len();
                    let head =
                        format!("{method} /v{number} HTTP/1.1\r\nHost: a.org\r\nTransfer-Encoding: chunked\r\n\r\n");
                    format!("{head}{length:x}\r\n{marked}\r\n0\r\n\r\n").into()
                },
                seen,
            );
        }
        self.push(
            "a length that ends within the next request",
            |number, marked| {
                format!("POST /v{number} HTTP/1.1\r\nHost: a.org\r\nContent-Length: 10\r\n\r\n{marked}").into()
            },
            Seen::Most(1),
        );
        self.push(
            "a length that is too long",
            |number, marked| {
                format!("POST /v{number} HTTP/1.1\r\nHost: a.org\r\nContent-Length: 9999\r\n\r\n{marked}").into()
            },
            Seen::Nothing,
        );
        self.push(
            "no body, and one comes",
            |number, marked| {
                format!("POST /v{number} HTTP/1.1\r\nHost: a.org\r\nContent-Length: 0\r\n\r\n{marked}").into()
            },
            Seen::Exactly(2),
        );
        self.push(
            "no length",
            |number, marked| format!("POST /v{number} HTTP/1.1\r\nHost: a.org\r\n\r\n{marked}").into(),
            Seen::Exactly(2),
        );
        for (name, fields, seen) in [
            ("chunks of HTTP/1.0", "Connection: keep-alive\r\nTransfer-Encoding: chunked", Seen::Nothing),
            ("a length of HTTP/1.0", "Connection: keep-alive\r\nContent-Length: 5", Seen::Exactly(2)),
        ] {
            self.push(
                name,
                |number, marked| {
                    format!("POST /v{number} HTTP/1.0\r\nHost: a.org\r\n{fields}\r\n\r\n0\r\n\r\n{marked}").into()
                },
                seen,
            );
        }
    }

    /// Upgrades, expectations and fields of the connection.
    fn connections(&mut self) {
        for (name, fields, seen) in [
            (
                "an upgrade to WebSocket with a body",
                "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
              Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nContent-Length: 5",
                Seen::Most(2),
            ),
            (
                "an upgrade of a wrong version",
                "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 777\r\n\
              Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nContent-Length: 5",
                Seen::Most(2),
            ),
            (
                "an upgrade to h2c",
                "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\
              Content-Length: 5",
                Seen::Most(2),
            ),
            ("an upgrade without Connection", "Upgrade: h2c\r\nContent-Length: 5", Seen::Most(2)),
            ("an upgrade to TLS", "Connection: Upgrade\r\nUpgrade: TLS/1.0\r\nContent-Length: 5", Seen::Most(2)),
            ("Expect", "Expect: 100-continue\r\nContent-Length: 5", Seen::Exactly(2)),
            ("Expect in chunks", "Expect: 100-continue\r\nTransfer-Encoding: chunked", Seen::Exactly(2)),
            ("Expect in capitals", "Expect: 100-CONTINUE\r\nContent-Length: 5", Seen::Most(2)),
            ("Expect of something else", "Expect: y 100-continue\r\nContent-Length: 5", Seen::Most(2)),
            ("Expect without a value", "Expect:\r\nContent-Length: 5", Seen::Most(2)),
            ("Expect twice", "Expect: 100-continue\r\nExpect: 100-continue\r\nContent-Length: 5", Seen::Most(2)),
            ("Expect behind a line feed", "Expect: \n100-continue\r\nContent-Length: 5", Seen::Most(2)),
            ("Host among the connection's", "Connection: host\r\nContent-Length: 5", Seen::Most(2)),
            ("Proxy-Connection", "Proxy-Connection: close\r\nContent-Length: 5", Seen::Most(2)),
            ("Max-Forwards", "Max-Forwards: 0\r\nContent-Length: 5", Seen::Most(2)),
            ("another method by a field", "X-HTTP-Method-Override: HEAD\r\nContent-Length: 5", Seen::Exactly(2)),
            (
                "another target by a field",
                "X-Original-URL: /marked\r\nX-Rewrite-URL: /marked\r\nContent-Length: 5",
                Seen::Exactly(2),
            ),
            ("parts of several ranges", "Range: bytes=0-0,1-1\r\nContent-Length: 5", Seen::Most(2)),
        ] {
            self.fields(name, fields.as_bytes(), seen);
        }
        self.push(
            "Expect, and no body but a request",
            |number, marked| {
                format!("GET /v{number} HTTP/1.1\r\nHost: a.org\r\nExpect: 100-continue\r\n\r\n{marked}").into()
            },
            Seen::Most(2),
        );
        self.push(
            "three requests",
            |number, marked| {
                let one = format!("GET /v{number} HTTP/1.1\r\nHost: a.org\r\n\r\n");
                format!("{one}{one}{marked}").into()
            },
            Seen::Exactly(3),
        );
        self.push(
            "Connection: close, and more",
            |number, marked| {
                format!("GET /v{number} HTTP/1.1\r\nHost: a.org\r\nConnection: close\r\n\r\n{marked}").into()
            },
            Seen::Exactly(1),
        );
        self.push(
            "HEAD and a request",
            |number, marked| format!("HEAD /v{number} HTTP/1.1\r\nHost: a.org\r\n\r\n{marked}").into(),
            Seen::Exactly(2),
        );
    }
}
