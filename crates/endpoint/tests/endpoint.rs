//! The endpoint from outside: many clients, slow ones, ones that go, ones that send nonsense.
// scripts/test: serves

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_endpoint::{Answer, BodyError, Content, Endpoint, Limits, Request, StartError};

const PATIENCE: Duration = Duration::from_secs(10);

fn start(limits: Limits, handler: impl Fn(Request) -> Answer + Send + Sync + 'static) -> Endpoint {
    Endpoint::start("127.0.0.1:0", limits, Arc::new(handler)).expect("it starts")
}

/// What tells the request again.
fn echo(request: Request) -> Answer {
    let host = request.header("host").unwrap_or("no-host").to_owned();
    let body = match request.body {
        Ok(body) => String::from_utf8(body).expect("text"),
        Err(error) => return Answer::line(if error == BodyError::TooLarge { 413 } else { 400 }, &error.to_string()),
    };
    Answer::line(200, &format!("{} {} {host} {body}", request.method, request.target))
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a connection");
    stream
}

/// All that comes until the connection is closed.
fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// The next response of a connection that stays: its head and its body.
fn next(stream: &mut BufReader<TcpStream>) -> (String, Vec<u8>) {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut head).expect("a line") > 0, "{head:?}");
    }
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.expect("a length").parse().expect("a number")];
    stream.read_exact(&mut body).expect("the whole body");
    (head, body)
}

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn requests_and_answers_are_whole() {
    let endpoint = start(Limits::default(), echo);
    let address = endpoint.address();
    let get = ask(address, "GET /a?b=c HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert!(get.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 14\r\n"));
    assert!(get.ends_with("\r\n\r\nGET /a?b=c h \n"), "{get}");
    let sent = "POST /p HTTP/1.1\r\nHost: h\r\nConnection: close\r\n";
    let post = ask(address, &format!("{sent}Content-Length: 3\r\n\r\nabc"));
    assert!(post.ends_with("POST /p h abc\n"), "{post}");
    let chunked = ask(address, &format!("{sent}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"));
    assert!(chunked.ends_with("POST /p h abc\n"), "{chunked}");
    let expecting = ask(address, &format!("{sent}Expect: 100-continue\r\nContent-Length: 1\r\n\r\na"));
    assert!(expecting.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200"), "{expecting}");
    let head = ask(address, "HEAD / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert!(head.contains("Content-Length: 10\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(ask(address, "GET / HTTP/1.0\r\n\r\n").ends_with("GET / no-host \n"));
}

#[test]
fn what_is_too_large_or_no_http_is_told() {
    let endpoint = start(Limits { body_bytes: 1000, ..Limits::default() }, echo);
    let post = |body: &str| {
        let length = body.len();
        let head = format!("POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
        ask(endpoint.address(), &(head + body))
    };
    assert!(post(&"a".repeat(1000)).starts_with("HTTP/1.1 200"));
    assert!(post(&"a".repeat(1001)).starts_with("HTTP/1.1 413"));
    assert!(ask(endpoint.address(), "nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
    assert!(
        ask(endpoint.address(), "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").starts_with("HTTP/1.1 200")
    );
}

#[test]
fn who_sends_too_much_hears_so_although_it_still_sends() {
    let endpoint = start(Limits { body_bytes: 100_000, ..Limits::default() }, echo);
    let mut stream = connect(endpoint.address());
    let head = format!("POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", 30 << 20);
    stream.write_all(head.as_bytes()).expect("the head");
    for _ in 0..30 {
        stream.write_all(&vec![b'a'; 1 << 20]).expect("it is read past");
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[test]
fn who_says_no_more_than_its_request_gets_the_answer() {
    let endpoint = start(Limits::default(), |_| {
        std::thread::sleep(Duration::from_millis(200));
        Answer::line(200, "well")
    });
    let mut stream = connect(endpoint.address());
    stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").expect("a request");
    stream.shutdown(std::net::Shutdown::Write).expect("half of it");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.ends_with("well\n"), "{answer}");
}

/// Browsers open several connections at one moment and keep them, used or not: none of them takes a thread.
#[test]
fn connections_that_stay_hold_up_no_others() {
    let endpoint = start(Limits { handlers: 2, ..Limits::default() }, echo);
    let _idle: Vec<TcpStream> = (0..60).map(|_| connect(endpoint.address())).collect();
    let mut kept: Vec<BufReader<TcpStream>> = (0..60).map(|_| BufReader::new(connect(endpoint.address()))).collect();
    for _ in 0..3 {
        for stream in &mut kept {
            stream.get_mut().write_all(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n").expect("a request");
        }
        for stream in &mut kept {
            assert_eq!(next(stream).1, b"GET /x h \n");
        }
    }
}

#[test]
fn more_connections_wait_until_one_is_closed() {
    let endpoint = start(Limits { connections: 2, ..Limits::default() }, echo);
    let held: Vec<TcpStream> = (0..2).map(|_| connect(endpoint.address())).collect();
    let mut third = connect(endpoint.address());
    third.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("the kernel takes it");
    third.set_read_timeout(Some(Duration::from_millis(300))).expect("a connection");
    assert!(third.read(&mut [0; 1]).is_err(), "a third connection was served beside two");
    drop(held);
    third.set_read_timeout(Some(PATIENCE)).expect("a connection");
    let mut answer = String::new();
    third.read_to_string(&mut answer).expect("an answer");
    assert!(answer.ends_with("GET / no-host \n"), "{answer}");
}

#[test]
fn who_asks_for_nothing_is_sent_away() {
    let endpoint = start(Limits { head: Duration::from_millis(200), ..Limits::default() }, echo);
    let begin = Instant::now();
    let mut idle = connect(endpoint.address());
    let mut half = connect(endpoint.address());
    half.write_all(b"GET / HTTP/1.1\r\nHo").expect("half a request");
    for stream in [&mut idle, &mut half] {
        let mut told = String::new();
        stream.read_to_string(&mut told).expect("its end");
        assert!(!told.contains("200"), "{told}");
    }
    assert!(begin.elapsed() >= Duration::from_millis(200));
}

/// What a handler reads as the client takes it, and what it is told at the end.
struct Streamed {
    endpoint: Endpoint,
    ended: Arc<Mutex<Vec<Result<(), String>>>>,
}

fn streaming(length: Option<u64>, reader: fn() -> Box<dyn Read + Send>) -> Streamed {
    let ended = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&ended);
    let endpoint = start(Limits::default(), move |_| {
        let told = Arc::clone(&told);
        let done = move |end: io::Result<()>| told.lock().expect("a list").push(end.map_err(|error| error.to_string()));
        Answer {
            status: 200,
            headers: vec![("X-Name".to_owned(), "a".to_owned()), ("no name".to_owned(), "b".to_owned())],
            content: Content::Stream { reader: reader(), length, done: Box::new(done) },
        }
    });
    Streamed { endpoint, ended }
}

impl Streamed {
    fn end(&self) -> Result<(), String> {
        wait_until("the end is told", || !self.ended.lock().expect("a list").is_empty());
        self.ended.lock().expect("a list").remove(0)
    }
}

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

#[test]
fn a_body_is_streamed_with_and_without_a_length() {
    let reader: fn() -> Box<dyn Read + Send> = || Box::new(io::repeat(b'x').take(300_000));
    let known = streaming(Some(300_000), reader);
    let answer = ask(known.endpoint.address(), GET);
    assert!(answer.contains("X-Name: a\r\n") && !answer.contains("no name"), "{}", &answer[..200]);
    assert!(answer.contains("Content-Length: 300000\r\n") && answer.ends_with(&"x".repeat(300_000)));
    assert_eq!(known.end(), Ok(()));
    let unknown = streaming(None, reader);
    let answer = ask(unknown.endpoint.address(), GET);
    assert!(answer.contains("Transfer-Encoding: chunked\r\n") && answer.ends_with("\r\n0\r\n\r\n"));
    assert_eq!(unknown.end(), Ok(()));
}

/// Fails after what is before it, in one of two ways.
struct Broken(bool);

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        assert!(!self.0, "wanted");
        Err(io::Error::new(io::ErrorKind::ConnectionReset, "the source broke"))
    }
}

#[test]
fn a_body_that_breaks_off_does_not_look_whole() {
    let readers: [fn() -> Box<dyn Read + Send>; 2] = [
        || Box::new(io::Cursor::new(b"abc").chain(Broken(false))),
        || Box::new(io::Cursor::new(b"abc").chain(Broken(true))),
    ];
    for (length, panics) in [(None, false), (Some(10), false), (None, true), (Some(10), true)] {
        let streamed = streaming(length, readers[usize::from(panics)]);
        let mut stream = connect(streamed.endpoint.address());
        stream.write_all(GET.as_bytes()).expect("a request");
        let mut answer = Vec::new();
        // Reset or closed, before or behind what was read: the last chunk has not come, and ten bytes there are not.
        let _end = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(!answer.ends_with("0\r\n\r\n"), "{answer}");
        if !panics {
            assert_eq!(streamed.end(), Err("the source broke".to_owned()));
        }
    }
}

#[test]
fn a_client_that_goes_ends_the_reading() {
    let streamed = streaming(None, || Box::new(io::repeat(b'x')));
    let mut stream = connect(streamed.endpoint.address());
    stream.write_all(GET.as_bytes()).expect("a request");
    stream.read_exact(&mut [0; 1000]).expect("the begin");
    drop(stream);
    assert_eq!(streamed.end(), Err("the client went before the end".to_owned()));
}

#[test]
fn a_handler_that_panics_is_told_and_survived() {
    let endpoint = start(Limits::default(), |request| {
        assert!(request.target != "/panic", "wanted");
        Answer::line(200, "well")
    });
    assert!(ask(endpoint.address(), "GET /panic HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 500"));
    assert!(ask(endpoint.address(), "GET / HTTP/1.0\r\n\r\n").ends_with("well\n"));
}

#[test]
fn handlers_run_beside_each_other_up_to_their_bound() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (own, seen) = (Arc::clone(&now), Arc::clone(&most));
    let endpoint = start(Limits { handlers: 3, ..Limits::default() }, move |_| {
        seen.fetch_max(own.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(100));
        own.fetch_sub(1, Ordering::SeqCst);
        Answer::line(200, "well")
    });
    let clients: Vec<_> = (0..9)
        .map(|_| {
            let address = endpoint.address();
            std::thread::spawn(move || ask(address, "GET / HTTP/1.0\r\n\r\n"))
        })
        .collect();
    for client in clients {
        assert!(client.join().expect("an answer").ends_with("well\n"));
    }
    assert_eq!(most.load(Ordering::SeqCst), 3);
}

#[test]
fn a_stop_waits_for_an_answer_and_for_nothing_else() {
    let begun = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&begun);
    let mut endpoint = start(Limits::default(), move |_| {
        told.store(true, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(300));
        Answer::line(200, "well")
    });
    let address = endpoint.address();
    let idle = connect(address);
    let client = std::thread::spawn(move || ask(address, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
    wait_until("the request is under way", || begun.load(Ordering::SeqCst));
    let begin = Instant::now();
    endpoint.stop(PATIENCE);
    assert!(begin.elapsed() < PATIENCE / 2, "an idle connection holds the end up");
    assert!(client.join().expect("an answer").ends_with("well\n"));
    assert!(TcpStream::connect(address).is_err());
    drop(idle);
}

#[test]
fn a_stop_cuts_off_who_does_not_take_its_answer_and_says_so() {
    let mut streamed = streaming(None, || Box::new(io::repeat(b'x')));
    let mut stream = connect(streamed.endpoint.address());
    stream.write_all(GET.as_bytes()).expect("a request");
    stream.read_exact(&mut [0; 1000]).expect("the begin");
    let begin = Instant::now();
    streamed.endpoint.stop(Duration::from_millis(300));
    assert!(begin.elapsed() < PATIENCE / 2);
    // Before the stop is over, not some time later.
    let ended = streamed.ended.lock().expect("a list").clone();
    assert_eq!(ended, [Err("the client went before the end".to_owned())]);
}

#[test]
fn an_address_that_cannot_be_is_told() {
    let endpoint = start(Limits::default(), echo);
    let taken = Endpoint::start(&endpoint.address().to_string(), Limits::default(), Arc::new(echo));
    assert!(matches!(taken, Err(StartError::Listen { .. })));
    let nowhere = Endpoint::start("nowhere", Limits::default(), Arc::new(echo)).expect_err("no port");
    assert!(nowhere.to_string().contains("HOST:PORT"), "{nowhere}");
}
