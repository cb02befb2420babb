//! Connections that are handed over: one request each, however much was read of it, and clients that are slow.
// scripts/test: serves

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_endpoint::{Answer, Content, Handed, Handler, Handover, Limits, Request, Socket};

const PATIENCE: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(300);

fn start(limits: Limits) -> Handover {
    Handover::start(limits).expect("it starts")
}

fn echo() -> Handler {
    Arc::new(|request: Request| match request.body {
        Ok(body) => Answer::line(200, &format!("{} {}", request.target, String::from_utf8_lossy(&body))),
        Err(error) => Answer::line(400, &error.to_string()),
    })
}

/// A client's end, and the other one.
fn pair() -> (UnixStream, Socket) {
    let (client, served) = UnixStream::pair().expect("two ends");
    client.set_read_timeout(Some(PATIENCE)).expect("ours");
    served.set_nonblocking(true).expect("ours");
    (client, Socket::Unix(served))
}

fn hand(handover: &Handover, read: &str, handler: Handler) -> Option<UnixStream> {
    let (client, socket) = pair();
    handover.take(Handed { socket, read: read.into(), handler }).ok().map(|()| client)
}

fn all(client: &mut impl Read) -> String {
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn one_request_is_answered_wherever_it_was_cut() {
    let handover = start(Limits::default());
    let request = "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";
    for cut in [0, 1, 20, request.len() - 2, request.len()] {
        let mut client = hand(&handover, &request[..cut], echo()).expect("room");
        client.write_all(&request.as_bytes()[cut..]).expect("a request");
        let answer = all(&mut client);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\n/a abc\n"), "{cut}: {answer}");
        assert!(answer.contains("Connection: close\r\n"), "{answer}");
    }
    // The second one was not looked at by who handed the connection over.
    let twice = "GET /one HTTP/1.1\r\nHost: h\r\n\r\nGET /two HTTP/1.1\r\nHost: h\r\n\r\n";
    let answer = all(&mut hand(&handover, twice, echo()).expect("room"));
    assert!(answer.contains("/one") && !answer.contains("/two"), "{answer}");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut client = TcpStream::connect(listener.local_addr().expect("its address")).expect("connects");
    let (served, _) = listener.accept().expect("a client");
    served.set_nonblocking(true).expect("ours");
    let read = b"GET /tcp HTTP/1.1\r\nHost: h\r\n\r\n".to_vec();
    handover.take(Handed { socket: Socket::Tcp(served), read, handler: echo() }).expect("room");
    assert!(all(&mut client).ends_with("/tcp \n"));
}

#[test]
fn connections_are_bounded_and_come_back_when_there_are_too_many_or_it_has_ended() {
    let handover = start(Limits { connections: 2, ..Limits::default() });
    let mut open: Vec<_> = (0..2).map(|_| hand(&handover, "GET / HTTP/1.1\r\n", echo()).expect("room")).collect();
    let (mut client, socket) = pair();
    let back = handover.take(Handed { socket, read: b"x".to_vec(), handler: echo() }).expect_err("no room");
    assert_eq!(back.read, b"x");
    drop(back);
    assert_eq!(client.read(&mut [0]).expect("its end"), 0);
    let mut first = open.pop().expect("a client");
    first.write_all(b"Host: h\r\n\r\n").expect("the rest");
    assert!(all(&mut first).ends_with("/ \n"));
    let deadline = Instant::now() + PATIENCE;
    while hand(&handover, "GET / HTTP/1.1\r\n", echo()).is_none() {
        assert!(Instant::now() < deadline, "the place is not free again");
        std::thread::sleep(Duration::from_millis(5));
    }
    handover.stop(Duration::ZERO);
    assert!(hand(&handover, "GET / HTTP/1.1\r\n", echo()).is_none());
    assert_eq!(open[0].read(&mut [0; 9]).expect("it is closed"), 0);
}

#[test]
fn a_client_that_sends_or_takes_nothing_is_cut_off() {
    let handover = start(Limits { head: SHORT, ..Limits::default() });
    let begin = Instant::now();
    let mut silent = hand(&handover, "GET / HTTP/1.1\r\n", echo()).expect("room");
    let _end = silent.read_to_end(&mut Vec::new());
    let mut slow = hand(&handover, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\na", echo()).expect("room");
    assert!(all(&mut slow).contains("broke off"));
    let (told, ended) = std::sync::mpsc::channel();
    let endless: Handler = Arc::new(move |_| {
        let told = told.clone();
        let done = Box::new(move |end: io::Result<()>| {
            // The test may be over by then.
            let _gone = told.send(end.is_err());
        });
        let content = Content::Stream { reader: Box::new(io::repeat(b'x')), length: None, done };
        Answer { status: 200, headers: Vec::new(), content }
    });
    let mut deaf = hand(&handover, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", endless).expect("room");
    deaf.read_exact(&mut [0; 100]).expect("the begin");
    assert!(ended.recv_timeout(PATIENCE).expect("its end"), "the stream broke off");
    assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
}
