//! Responses that two readers may take apart differently: a client never gets the bytes of one as another one, and what
//! an upstream has sent too much of is never the answer to the next request.

use super::relay;
use super::scripted::{Client, proxy, tcp};
use crate::harness::Site;

/// What an upstream would smuggle into the next answer.
const SPLIT: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nSPLIT";

/// Bytes of an upstream in answer to a request, and whether they can be an answer at all.
fn answers() -> Vec<(&'static str, Vec<u8>, bool)> {
    let long = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", SPLIT.len());
    let heads = [
        ("two lengths", "Content-Length: 0\r\nContent-Length: 50"),
        ("a length with a plus", "Content-Length: +0"),
        ("a negative length", "Content-Length: -1"),
        ("a hexadecimal length", "Content-Length: 0x0"),
        ("lengths in a list", "Content-Length: 0, 50"),
        ("a length beyond 64 bits", "Content-Length: 18446744073709551616"),
        ("a length and a null", "Content-Length: 0\0"),
        ("a name with a blank", "Content-Length : 0"),
        ("a name with a null", "Content\0-Length: 0"),
        ("no colon", "Content-Length 0"),
        ("a bare carriage return", "X: y\rContent-Length: 0"),
        ("a null in a value", "X: \0\r\nContent-Length: 0"),
        ("an unknown coding", "Transfer-Encoding: xchunked"),
        ("chunked twice", "Transfer-Encoding: chunked, chunked"),
        ("chunked before another", "Transfer-Encoding: chunked, identity"),
    ];
    let of_head = |(name, fields): (&'static str, &str)| {
        (name, format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n{SPLIT}").into_bytes(), false)
    };
    let mut all: Vec<_> = heads.into_iter().map(of_head).collect();
    for (name, body) in [
        ("a size with a plus", "+0\r\n\r\n"),
        ("a size with a prefix", "0x0\r\n\r\n"),
        ("a size beyond 64 bits", "10000000000000005\r\nabcde\r\n0\r\n\r\n"),
        ("a size line with a line feed", "0\n\r\n"),
        ("a size and a null", "0\0\r\n\r\n"),
        ("more data than said", "1\r\nabc\r\n0\r\n\r\n"),
        ("an extension with a line feed", "0;a\nb\r\n\r\n"),
        ("data that end with a line feed", "1\r\na\n0\r\n\r\n"),
    ] {
        let bytes = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}{SPLIT}");
        all.push((name, bytes.into_bytes(), false));
    }
    for (name, line) in [
        ("a status of four digits", "HTTP/1.1 2000 OK"),
        ("a status of two digits", "HTTP/1.1 20 OK"),
        ("a status that is no number", "HTTP/1.1 2x0 OK"),
        ("another version", "HTTP/2.0 200 OK"),
        ("no version", "200 OK"),
        ("an upgrade that was not asked for", "HTTP/1.1 101 Switching Protocols"),
    ] {
        all.push((name, format!("{line}\r\nContent-Length: 0\r\n\r\n{SPLIT}").into_bytes(), false));
    }
    all.push(("a second response", format!("{long}{SPLIT}{SPLIT}").into_bytes(), true));
    all.push((
        "a second response behind none",
        format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n{SPLIT}").into(),
        true,
    ));
    all.push(("a body behind 204", format!("HTTP/1.1 204 No Content\r\n\r\n{SPLIT}").into(), true));
    all.push(("a body behind 304", format!("HTTP/1.1 304 Not Modified\r\n\r\n{SPLIT}").into(), true));
    all.push(("a short body", b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nshort".to_vec(), false));
    all.push(("an early end in the head", b"HTTP/1.1 200 OK\r\nContent-Le".to_vec(), false));
    all.push((
        "an early end in chunks",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab".to_vec(),
        false,
    ));
    all
}

/// What a client gets over a connection of its own, and whether that is one whole response.
fn ask(site: &Site, target: &str) -> (Vec<relay::Message>, bool) {
    let mut client = Client::new(site.addr);
    client.ask(&format!("GET {target}"), "Connection: close\r\n", b"");
    let received = client.rest().0;
    let (replies, rest) = relay::responses(&received, &["GET"]);
    (replies, rest.is_empty())
}

#[test]
fn what_an_upstream_sends_is_one_answer_or_none() {
    let (addr, _) = tcp(|_, mut peer| {
        let answers = answers();
        while let Some(asked) = peer.request() {
            let number = asked.target().strip_prefix("/r").and_then(|number| number.parse::<usize>().ok());
            let Some((_, bytes, _)) = number.and_then(|number| answers.get(number)) else {
                if peer.answer(asked.target()) {
                    continue;
                }
                return;
            };
            let is_cut = !bytes.ends_with(b"SPLIT");
            if !peer.say(bytes) || is_cut {
                return;
            }
        }
    });
    let site = proxy(addr, ", connections = 1, retries = false, health = false");
    for (number, (name, _, is_answer)) in answers().iter().enumerate() {
        let (replies, is_whole) = ask(&site, &format!("/r{number}"));
        let is_refused = replies.first().is_none_or(|reply| reply.status() == 502);
        assert!(replies.len() <= 1, "{name}: {replies:?}");
        // What is broken off is no whole response, and the client can tell.
        assert!(if *is_answer { is_whole && !is_refused } else { is_refused || !is_whole }, "{name}: {replies:?}");
        let (replies, is_whole) = ask(&site, &format!("/after{number}"));
        let own = format!("/after{number}").into_bytes();
        assert!(is_whole && replies.len() == 1 && replies[0].body == own, "behind {name}: {replies:?}");
    }
}
