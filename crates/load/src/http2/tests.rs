//! A connection is replaced before its stream numbers run out, and no request fails by it.

use crate::{Control, Options, Protocol, StopRule, Url};
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// Answers every request of a connection; gives how many there were, each on a stream of its own in ascending order.
fn serve(mut stream: TcpStream) -> usize {
    let mut preface = [0; 24];
    let mut head = [0; 9];
    let mut seen = HashSet::new();
    let mut highest = 0;
    // Settings without anything in them.
    if stream.read_exact(&mut preface).is_err() || stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).is_err() {
        return 0;
    }
    while stream.read_exact(&mut head).is_ok() {
        let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        if stream.read_exact(&mut payload).is_err() {
            break;
        }
        if head[3] == 1 {
            let number = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            assert!(seen.insert(number) && number > highest && number <= 1999, "stream {number} after {highest}");
            highest = number;
            // Its status is 200, and nothing follows.
            let answer = [0, 0, 1, 1, 5, head[5], head[6], head[7], head[8], 0x88];
            if stream.write_all(&answer).is_err() {
                break;
            }
        }
    }
    seen.len()
}

#[test]
fn a_connection_is_replaced_before_its_streams_end() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("its address").port();
    let server = std::thread::spawn(move || {
        let mut connections = Vec::new();
        for stream in listener.incoming().flatten() {
            // The last connection, which says nothing, ends the server.
            let mut first = [0; 1];
            if !matches!(stream.peek(&mut first), Ok(1)) {
                break;
            }
            connections.push(std::thread::spawn(move || serve(stream)));
        }
        connections.into_iter().map(|one| one.join().expect("nothing was asserted in vain")).collect::<Vec<_>>()
    });
    let mut options = Options::new(Url::parse(&format!("http://127.0.0.1:{port}/")).expect("a URL"));
    options.protocol = Protocol::Http2 { streams: 10 };
    options.connections = 1;
    options.stop = StopRule::Requests(5000);
    let report = crate::run(options, &Control::default()).expect("the run is made");
    drop(TcpStream::connect(("127.0.0.1", port)));
    let carried = server.join().expect("the server ends");
    assert_eq!((report.requests, report.failures(), report.reconnects), (5000, 0, 0), "{:?}", report.errors);
    assert_eq!(carried.iter().sum::<usize>(), 5000);
    // Each carries nearly as many as there are odd numbers below its last.
    assert!((6..=8).contains(&carried.len()), "{carried:?}");
}
