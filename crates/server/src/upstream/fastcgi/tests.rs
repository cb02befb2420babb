//! Debian's php-fpm is asked over a blocking socket.

use super::request::{abort, end_body, render, write_body};
use super::response::FastCgiResponse;
use crate::upstream::gateway::response::Wants;
use crate::upstream::gateway::script::Scratch;
use crate::upstream::gateway::settings::Gateway;
use crate::upstream::gateway::variables::samples::{outgoing, request};
use crate::upstream::message::{BodyFraming, HandOver, Instead, ResponseHead, Said};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use weir_testkit::{PhpFpm, RunningBackend, require};

const ECHO: &str = r#"<?php
header('X-Echo: one');
header('X-Echo: two', false);
header('Content-Type: text/plain');
http_response_code(201);
error_log('a line for the log');
foreach (['SCRIPT_NAME', 'SCRIPT_FILENAME', 'PATH_INFO', 'QUERY_STRING', 'REQUEST_METHOD', 'CONTENT_TYPE',
    'CONTENT_LENGTH', 'REMOTE_ADDR', 'SERVER_NAME', 'HTTP_X_TEST', 'HTTP_PROXY', 'HTTP_COOKIE'] as $name)
    echo $name, '=', $_SERVER[$name] ?? '-', "\n";
echo file_get_contents('php://input');
"#;
const LARGE: &str = "<?php header('Content-Length: ' . (3 << 20)); echo str_repeat('0123456789abcdef', 3 << 16);";
const MEASURED: &str =
    "<?php echo strlen(file_get_contents('php://input')), ' ', md5(file_get_contents('php://input'));";
const AWAY: &str = "<?php header('Location: /there'); header('X-Sent: 1');";
const ACCEL: &str = "<?php header('X-Accel-Redirect: /hidden/file'); header('Content-Type: a/b'); echo 'unused';";
const SLOW: &str =
    "<?php ignore_user_abort(false); while (true) { echo str_repeat('x', 10000); flush(); usleep(1000); }";

/// php-fpm with one process, and its pages.
struct Php {
    server: RunningBackend,
    pages: weir_testkit::Site,
}

/// One response.
#[derive(Debug, Default)]
struct Answer {
    head: Option<ResponseHead>,
    instead: Option<Instead>,
    body: Vec<u8>,
    log: Vec<u8>,
}

impl Answer {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Php {
    fn start() -> Option<Self> {
        require::php_fpm()?;
        let pages = weir_testkit::Site::empty().expect("a directory");
        for (name, page) in
            [("echo", ECHO), ("large", LARGE), ("measured", MEASURED), ("away", AWAY), ("accel", ACCEL), ("slow", SLOW)]
        {
            pages.write(&format!("{name}.php"), page.as_bytes()).expect("is written");
        }
        pages.write("picture.jpg", b"<?php echo 'must not run';").expect("is written");
        let server = PhpFpm::new().processes(1).start().expect("php-fpm starts");
        Some(Self { server, pages })
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.server.socket.as_ref().expect("a socket")).expect("connects");
        stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).expect("has a time-out");
        stream
    }

    fn gateway(&self) -> Gateway {
        Gateway::php(self.pages.path().to_owned())
    }

    /// The bytes of a request; its body is written in pieces.
    fn request(&self, head: &str, body: &[u8], spooled: Option<u64>) -> Vec<u8> {
        let request = request(head.as_bytes());
        let (mut scratch, mut out) = (Scratch::default(), Vec::new());
        let root = self.pages.path();
        let exists = &mut |path: &[u8]| root.join(String::from_utf8_lossy(path).as_ref()).is_file();
        let framing = render(&outgoing(&request), &self.gateway(), spooled, exists, &mut scratch, &mut out);
        if framing.expect("is sent") == BodyFraming::Framed {
            body.chunks(50_000).for_each(|piece| write_body(piece, &mut out));
            end_body(&mut out);
        }
        out
    }
}

/// Reads a response in pieces of so many bytes.
fn answer(stream: &mut UnixStream, piece: usize, wants: Wants) -> (Answer, FastCgiResponse) {
    let (mut response, mut answer, mut is_ended) = (FastCgiResponse::new(wants), Answer::default(), false);
    let mut room = vec![0; piece];
    while !is_ended {
        let bytes = stream.read(&mut room).expect("reads");
        assert!(bytes > 0, "it ends early: {answer:?}");
        let read = response.read(&room[..bytes], &mut |part| match part {
            Said::Head(head) => answer.head = Some(head),
            Said::Instead(instead) => answer.instead = Some(instead),
            Said::Body(bytes) => answer.body.extend_from_slice(bytes),
            Said::Log(bytes) => answer.log.extend_from_slice(bytes),
            Said::End => is_ended = true,
            other => panic!("{other:?}"),
        });
        assert_eq!(read, Ok(bytes));
    }
    (answer, response)
}

#[test]
fn php_answers_over_a_kept_connection() {
    let Some(php) = Php::start() else { return };
    let mut stream = php.connect();
    let head = "POST /echo.php/x%20y?q=1 HTTP/1.1\r\nHost: example.org\r\nContent-Type: text/x\r\nContent-Length: 6\r\n\
        X-Test: 1\r\nX_Test: 3\r\nx-test: 2\r\nCookie: a=1\r\nCookie: b=2\r\nProxy: evil\r\n\r\n";
    // The first response is read byte by byte, the second from one buffer.
    for piece in [1, 65_536] {
        stream.write_all(&php.request(head, b"abcdef", None)).expect("sends");
        let (answer, response) = answer(&mut stream, piece, Wants::All);
        let expected = format!(
            "SCRIPT_NAME=/echo.php\nSCRIPT_FILENAME={}/echo.php\nPATH_INFO=/x y\nQUERY_STRING=q=1\nREQUEST_METHOD=POST\n\
             CONTENT_TYPE=text/x\nCONTENT_LENGTH=6\nREMOTE_ADDR=192.0.2.1\nSERVER_NAME=example.org\n\
             HTTP_X_TEST=1, 2\nHTTP_PROXY=-\nHTTP_COOKIE=a=1; b=2\nabcdef",
            php.pages.path().display()
        );
        assert_eq!(answer.text(), expected);
        assert!(String::from_utf8_lossy(&answer.log).contains("a line for the log"), "{answer:?}");
        let head = answer.head.expect("a head");
        let fields = String::from_utf8(head.fields).expect("text");
        assert_eq!(head.status, 201);
        assert!(fields.contains("X-Echo: one\r\nX-Echo: two\r\n") && fields.contains("Content-type: text/plain"));
        assert!(!fields.contains("Status"), "{fields}");
        assert!(response.keeps() && response.app_status() == 0);
    }
}

#[test]
fn php_takes_and_gives_large_bodies() {
    let Some(php) = Php::start() else { return };
    let mut stream = php.connect();
    stream.write_all(&php.request("GET /large.php HTTP/1.1\r\nHost: a\r\n\r\n", b"", None)).expect("sends");
    let (large, response) = answer(&mut stream, 10_007, Wants::All);
    assert_eq!((large.body.len(), large.head.expect("a head").length), (3 << 20, Some(3 << 20)));
    assert!(large.body.ends_with(b"89abcdef") && response.keeps());
    let body: Vec<u8> = (0..1_000_003_u32).map(|at| at as u8).collect();
    let head = "POST /measured.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(&php.request(head, &body, Some(body.len() as u64))).expect("sends");
    let (measured, _) = answer(&mut stream, 4096, Wants::All);
    assert!(measured.text().starts_with("1000003 "), "{}", measured.text());
    stream.write_all(&php.request("HEAD /echo.php HTTP/1.1\r\nHost: a\r\n\r\n", b"", None)).expect("sends");
    let (headless, response) = answer(&mut stream, 4096, Wants::Head);
    assert!(headless.body.is_empty() && headless.head.is_some() && response.keeps());
}

#[test]
fn php_redirects_and_hands_over() {
    let Some(php) = Php::start() else { return };
    let mut stream = php.connect();
    // PHP says the status of a redirect itself, so this one goes to the client.
    stream.write_all(&php.request("GET /away.php HTTP/1.1\r\nHost: a\r\n\r\n", b"", None)).expect("sends");
    let (away, _) = answer(&mut stream, 4096, Wants::All);
    assert_eq!(away.head.expect("a head").status, 302);
    stream.write_all(&php.request("GET /accel.php HTTP/1.1\r\nHost: a\r\n\r\n", b"", None)).expect("sends");
    let (accel, response) = answer(&mut stream, 4096, Wants::All);
    let Some(Instead::HandOver { to, head }) = accel.instead else { panic!("{accel:?}") };
    assert_eq!((to, accel.body.len(), response.keeps()), (HandOver::Path(b"/hidden/file".to_vec()), 0, true));
    assert!(head.fields.windows(16).any(|window| window.eq_ignore_ascii_case(b"content-type: a/")));
}

#[test]
fn php_gives_up_a_request() {
    let Some(php) = Php::start() else { return };
    let mut stream = php.connect();
    stream.write_all(&php.request("GET /slow.php HTTP/1.1\r\nHost: a\r\n\r\n", b"", None)).expect("sends");
    let mut some = [0; 1000];
    stream.read_exact(&mut some).expect("it has begun");
    let mut out = Vec::new();
    abort(&mut out);
    stream.write_all(&out).expect("sends");
    drop(stream);
    // php-fpm has one process: it answers again once it has given up the first request.
    let mut stream = php.connect();
    stream.write_all(&php.request("GET /echo.php HTTP/1.1\r\nHost: a\r\n\r\n", b"", None)).expect("sends");
    assert!(answer(&mut stream, 4096, Wants::All).0.text().starts_with("SCRIPT_NAME=/echo.php\n"));
}
