//! The response parser is fed all that a network may do to a response.

use proptest::prelude::*;
use weir_load::response::{HEAD_BYTES_MAX, Parser};

/// What a response should be read as.
#[derive(Debug, Clone)]
struct Expected {
    bytes: Vec<u8>,
    status: u16,
    keep_alive: bool,
    until_close: bool,
    content: Vec<u8>,
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..300)
}

/// A body in chunks, with extensions and trailers now and then.
fn chunked() -> impl Strategy<Value = Vec<u8>> {
    let chunk = (proptest::collection::vec(any::<u8>(), 1..40), any::<bool>(), any::<bool>());
    (proptest::collection::vec(chunk, 0..6), 0usize..3).prop_map(|(chunks, trailers)| {
        let mut bytes = Vec::new();
        for (data, extended, upper) in chunks {
            let size = if upper { format!("{:X}", data.len()) } else { format!("{:03x}", data.len()) };
            bytes.extend_from_slice(format!("{size}{}\r\n", if extended { ";name=value" } else { "" }).as_bytes());
            bytes.extend_from_slice(&data);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n");
        for trailer in 0..trailers {
            bytes.extend_from_slice(format!("T{trailer}: x\r\n").as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes
    })
}

/// The content that chunks hold.
fn content_of(mut chunks: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    while let Some(end) = chunks.windows(2).position(|window| window == b"\r\n") {
        let line = std::str::from_utf8(&chunks[..end]).expect("a size");
        let size = usize::from_str_radix(line.split(';').next().unwrap_or_default(), 16).expect("a size");
        if size == 0 {
            break;
        }
        content.extend_from_slice(&chunks[end + 2..end + 2 + size]);
        chunks = &chunks[end + 2 + size + 2..];
    }
    content
}

fn response() -> impl Strategy<Value = Expected> {
    let framing = prop_oneof![
        3 => body().prop_map(|body| (format!("Content-Length: {}\r\n", body.len()), body.clone(), body, false)),
        3 => chunked().prop_map(|body| {
            let content = content_of(&body);
            ("Transfer-Encoding: gzip, chunked\r\n".to_owned(), body, content, false)
        }),
        1 => body().prop_map(|body| (String::new(), body.clone(), body, true)),
    ];
    let status =
        prop_oneof![4 => Just(200u16), 1 => 201u16..204, 1 => Just(204u16), 1 => Just(304u16), 1 => 400u16..999];
    (framing, status, any::<bool>(), 0usize..3, 0usize..4).prop_map(
        |((framing, body, content, until_close), status, close, interim, more)| {
            let mut bytes = "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n".repeat(interim).into_bytes();
            let close_line = if close { "Connection: foo, Close\r\n" } else { "" };
            let filler = "X-Filler: some value\r\n".repeat(more);
            bytes.extend_from_slice(
                format!("HTTP/1.1 {status} Any Reason\r\n{filler}{framing}{close_line}\r\n").as_bytes(),
            );
            let bodyless = status == 204 || status == 304;
            if !bodyless {
                bytes.extend_from_slice(&body);
            }
            let until_close = until_close && !bodyless;
            let content = if bodyless { Vec::new() } else { content };
            Expected { bytes, status, keep_alive: !close && !until_close, until_close, content }
        },
    )
}

/// Feeds pieces of the given lengths, over and over; returns the responses' (end, status, keep-alive) and whether
/// the end of the stream completed one more.
fn read(bytes: &[u8], pieces: &[usize]) -> (Vec<(usize, u16, bool)>, bool) {
    let mut parser = Parser::new(false);
    let (mut at, mut found) = (0, Vec::new());
    let mut lengths = pieces.iter().cycle();
    while at < bytes.len() {
        let end = bytes.len().min(at + lengths.next().expect("an endless cycle"));
        while at < end {
            let progress = parser.feed(&bytes[at..end]).expect("a valid response");
            at += progress.consumed;
            if progress.complete {
                found.push((at, parser.status(), parser.keep_alive()));
            } else {
                assert_eq!(at, end, "an unfinished response takes all there is");
            }
        }
    }
    (found, parser.end())
}

proptest! {
    #[test]
    fn any_split_reads_the_same(responses in proptest::collection::vec(response(), 1..5), pieces in proptest::collection::vec(1usize..100, 1..8)) {
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        let mut open_end = false;
        for response in responses {
            bytes.extend_from_slice(&response.bytes);
            if response.until_close {
                // Nothing can follow it.
                open_end = true;
                break;
            }
            expected.push((bytes.len(), response.status, response.keep_alive));
        }
        prop_assert_eq!(&read(&bytes, &[bytes.len().max(1)]), &(expected.clone(), open_end));
        prop_assert_eq!(&read(&bytes, &[1]), &(expected.clone(), open_end));
        prop_assert_eq!(&read(&bytes, &pieces), &(expected, open_end));
    }

    /// What checks look at: the lines of the head and the body without its framing, however it comes.
    #[test]
    fn any_split_gives_the_same_content(response in response(), piece in 1usize..100, tail in 1usize..9) {
        for pieces in [response.bytes.len().max(1), piece, tail, 1] {
            let mut parser = Parser::new(false);
            parser.keep_heads();
            let mut content = Vec::new();
            for chunk in response.bytes.chunks(pieces) {
                parser.feed_into(chunk, |piece| content.extend_from_slice(piece)).expect("a valid response");
            }
            prop_assert_eq!(&content, &response.content);
            let head = String::from_utf8_lossy(parser.head()).into_owned();
            prop_assert!(head.starts_with(&format!("HTTP/1.1 {} Any Reason\r\n", response.status)), "{}", head);
            prop_assert!(head.ends_with("\r\n\r\n") && !head.contains("Early Hints"), "{}", head);
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000), pieces in proptest::collection::vec(1usize..100, 1..8), head: bool) {
        let mut parser = Parser::new(head);
        for chunk in bytes.chunks(pieces[0]) {
            let mut rest = chunk;
            while !rest.is_empty() {
                match parser.feed(rest) {
                    Ok(progress) => {
                        prop_assert!(progress.consumed <= rest.len() && (progress.consumed > 0));
                        rest = &rest[progress.consumed..];
                    }
                    Err(_) => return Ok(()),
                }
            }
        }
        parser.end();
    }

    /// The same with a beginning that gets past the head.
    #[test]
    fn random_bodies_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..500), size in "[0-9a-f]{1,20}", split in 1usize..50) {
        let mut parser = Parser::new(false);
        let mut all = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        all.extend_from_slice(size.as_bytes());
        all.extend_from_slice(b"\r\n");
        all.extend_from_slice(&bytes);
        for chunk in all.chunks(split) {
            let Ok(progress) = parser.feed(chunk) else { break };
            if progress.complete { break; }
        }
    }
}

/// Pieces of responses as servers send them, fit and unfit.
fn odd_response() -> impl Strategy<Value = Vec<u8>> {
    let status = prop_oneof![
        6 => Just("HTTP/1.1 200 OK\r\n".to_owned()),
        1 => Just("\r\nHTTP/1.1 200 OK\n".to_owned()),
        1 => Just("HTTP/1.1 103 Early\r\n\r\nhttp/1.0  404\r\n".to_owned()),
        1 => "[A-Z]{0,5}/?[0-9.]{0,3} ?[0-9]{0,4}\r?\n",
        1 => Just("SSH-2.0-OpenSSH_9.2\r\n".to_owned()),
        1 => Just("\u{15}\u{3}\u{1}\0\u{2}\u{2}\u{46}".to_owned()),
    ];
    let line = prop_oneof![
        2 => Just("Content-Length: 5\r\n".to_owned()),
        1 => Just("Content-Length : 5\n".to_owned()),
        1 => Just("Content-Length: +5\r\n".to_owned()),
        2 => Just("Transfer-Encoding: chunked\r\n".to_owned()),
        1 => Just("Transfer-Encoding: identity\r\n".to_owned()),
        1 => Just(" folded\r\n".to_owned()),
        1 => Just("Connection: close\r\n".to_owned()),
        1 => "[ -~]{0,12}\r?\n",
    ];
    let body = prop_oneof![
        3 => Just("hello".to_owned()),
        2 => Just("5\r\nhello\r\n0\r\n\r\n".to_owned()),
        1 => Just(" 005 ;x\ny\r\r\nhello\n0\n\n".to_owned()),
        1 => "[0-9a-f;x \r\n]{0,16}",
    ];
    (status, proptest::collection::vec(line, 0..5), body, "\r?\n")
        .prop_map(|(status, lines, body, end)| (status + &lines.concat() + &end + &body).into_bytes())
}

/// The responses, the verdict in words, whether the end completes another, how far it had come, and what was odd.
type Verdict = (Vec<(usize, u16, bool, u64)>, Option<String>, bool, Vec<(String, u64)>);

fn verdict(bytes: &[u8], mut piece: impl FnMut() -> usize) -> Verdict {
    let mut parser = Parser::new(false);
    let (mut at, mut found, mut wrong) = (0, Vec::new(), None);
    'all: while at < bytes.len() {
        let end = bytes.len().min(at.saturating_add(piece().max(1)));
        while at < end {
            match parser.feed(&bytes[at..end]) {
                Ok(progress) => {
                    at += progress.consumed;
                    if progress.complete {
                        found.push((at, parser.status(), parser.keep_alive(), parser.body_bytes()));
                    }
                }
                Err(malformed) => {
                    wrong = Some(malformed.to_string());
                    break 'all;
                }
            }
        }
    }
    if wrong.is_none() {
        wrong = parser.judge_part().err().map(|malformed| malformed.to_string());
    }
    let completes = wrong.is_none() && parser.end();
    let odd = parser.odd_responses().map(|(oddity, count)| (oddity.words().to_owned(), count)).collect();
    (found, wrong, completes, odd)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// One verdict for the same bytes, however they are cut: in one piece, in every two pieces, in random ones.
    #[test]
    fn the_verdict_does_not_depend_on_the_pieces(
        responses in proptest::collection::vec(odd_response(), 1..4),
        pieces in proptest::collection::vec(1usize..40, 1..8),
    ) {
        let bytes = responses.concat();
        let whole = verdict(&bytes, || usize::MAX);
        for cut in 1..bytes.len() {
            let mut first = Some(cut);
            prop_assert_eq!(&verdict(&bytes, || first.take().unwrap_or(usize::MAX)), &whole, "cut at {}", cut);
        }
        prop_assert_eq!(&verdict(&bytes, || 1), &whole);
        let mut lengths = pieces.iter().cycle();
        prop_assert_eq!(&verdict(&bytes, || *lengths.next().expect("an endless cycle")), &whole);
    }
}

#[test]
fn a_head_has_one_bound_in_any_pieces() {
    let head = |bytes: usize| {
        let rest = "HTTP/1.1 200 OK\r\nX: \r\nContent-Length: 0\r\n\r\n".len();
        format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 0\r\n\r\n", "x".repeat(bytes - rest)).into_bytes()
    };
    for piece in [usize::MAX, 100_000, 4096] {
        let longest = verdict(&head(HEAD_BYTES_MAX), || piece);
        assert_eq!((longest.0.len(), longest.1), (1, None));
        let (none, wrong, ..) = verdict(&head(HEAD_BYTES_MAX + 1), || piece);
        assert_eq!(
            (none.len(), wrong.as_deref()),
            (0, Some("not an HTTP/1 response: its head is longer than 262144 bytes"))
        );
    }
    // Lines have no bound of their own.
    for lines in [127, 128, 129, 200, 201, 5000] {
        let many = format!("HTTP/1.1 200 OK\r\n{}Content-Length: 0\r\n\r\n", "X: y\r\n".repeat(lines)).into_bytes();
        assert_eq!(verdict(&many, || usize::MAX).0.len(), 1, "{lines}");
        assert_eq!(verdict(&many, || 1000).0.len(), 1, "{lines}");
    }
}

#[test]
fn what_is_wrong_is_said_in_words() {
    for (bytes, words) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", "two lengths, 5 and 6"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\n", "two lengths, 5 and 6"),
        ("HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n", "not a number of bytes: `+5`"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", "chunked twice"),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n", "switches protocols (101)"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello!", "a chunk is longer than its size"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\n", "size is too large"),
        ("SSH-2.0-OpenSSH_9.2\r\n", "this port speaks SSH"),
        ("\u{15}\u{3}\u{3}\0\u{2}\u{2}\u{46}", "alert of TLS (protocol_version, 70)"),
        ("hello", "begins with `hello`"),
    ] {
        let (_, wrong, ..) = verdict(bytes.as_bytes(), || usize::MAX);
        assert!(wrong.as_ref().is_some_and(|wrong| wrong.contains(words)), "{bytes:?}: {wrong:?}");
    }
}

#[test]
fn what_deployed_servers_send_is_taken_and_counted() {
    let count = |bytes: &str| {
        let (found, wrong, completes, odd) = verdict(bytes.as_bytes(), || usize::MAX);
        assert_eq!((found.len() + usize::from(completes), wrong), (1, None), "{bytes:?}");
        odd.into_iter().map(|(words, _)| words).collect::<Vec<_>>().join(", ")
    };
    let with = |lines: &str, body: &str| count(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n{body}"));
    assert_eq!(with("X: a\r\n b\r\nContent-Length: 5\r\n", "hello"), "folded header line");
    assert_eq!(with("Content-Length : 5\r\n", "hello"), "blank before a header's colon");
    assert_eq!(with("Content-Length: 5, 5\r\n", "hello"), "the same Content-Length twice");
    // RFC 9112 7: identity is no coding, so that the length counts.
    let identity = "Transfer-Encoding: identity\r\nContent-Length: 5\r\n";
    assert_eq!(with(identity, "hello"), "Transfer-Encoding without a coding");
    let both = "Transfer-Encoding: CHUNKED\r\nContent-Length: 3\r\n";
    assert_eq!(with(both, "5\r\nhello\r\n0\r\n\r\n"), "Content-Length beside Transfer-Encoding");
    let chunked = "Transfer-Encoding: chunked\r\n";
    assert_eq!(with(chunked, "5;a=b\r\nhello\r\n0\r\nT: x\r\n\r\n"), "");
    assert_eq!(with(chunked, "0000000000000000000005  \r\nhello\r\n0\r\n\r\n"), "odd bytes beside a chunk's size");
    assert_eq!(with(chunked, "5\nhello\r\n0\r\n\r\n"), "line that ends without a carriage return");
    // RFC 9112 6.3: without a body, no length is looked at.
    assert_eq!(count("HTTP/1.1 204 No\r\nContent-Length: five\r\n\r\n"), "");
}

#[test]
fn the_length_of_a_body_is_told() {
    let mut parser = Parser::new(false);
    let padding = format!("X-Long: {}\r\n", "x".repeat(2000));
    let plain = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_owned();
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n".to_owned();
    let long = format!("HTTP/1.1 200 OK\r\n{padding}Content-Length: 9\r\n\r\n123456789");
    let interim = format!("HTTP/1.1 103 Early Hints\r\n\r\n{plain}");
    // The same heads again are remembered, and others between them must not be taken for them.
    for (response, bytes) in
        [(&plain, 5), (&plain, 5), (&long, 9), (&plain, 5), (&chunked, 7), (&chunked, 7), (&interim, 5), (&plain, 5)]
    {
        for pieces in [response.len(), 7] {
            let parts = response.as_bytes().chunks(pieces);
            let last = parts.map(|part| parser.feed(part).expect("HTTP")).last().expect("a part");
            assert!(last.complete);
            assert_eq!(parser.body_bytes(), bytes, "{response:?} in pieces of {pieces}");
        }
    }
    for body in ["until the end", "", "again"] {
        parser.feed(format!("HTTP/1.1 200 OK\r\n\r\n{body}").as_bytes()).expect("HTTP");
        assert!(parser.end());
        assert_eq!(parser.body_bytes(), body.len() as u64);
    }
    parser.expect_head_only(true);
    parser.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").expect("HTTP");
    assert_eq!(parser.body_bytes(), 0);
}

#[test]
fn ambiguous_lengths_are_no_trap() {
    let one = |head: &str| {
        let mut parser = Parser::new(false);
        let bytes = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n");
        parser.feed(bytes.as_bytes()).map(|progress| (progress.complete, parser.keep_alive()))
    };
    assert_eq!(one("Content-Length: 0\r\nContent-Length: 0"), Ok((true, true)));
    assert_eq!(one("Content-Length: 0, 0"), Ok((true, true)));
    for wrong in [
        "Content-Length: 0\r\nContent-Length: 1",
        "Content-Length: -1",
        "Content-Length: +1",
        "Content-Length: ",
        "Content-Length: 99999999999999999999",
    ] {
        assert!(one(wrong).is_err(), "{wrong}");
    }
    // Both framings: the chunks count, and the connection is not used again.
    assert_eq!(one("Content-Length: 0\r\nTransfer-Encoding: chunked"), Ok((false, false)));
    // A coding that is not chunked last ends with the connection.
    assert_eq!(one("Transfer-Encoding: gzip"), Ok((false, false)));
}

#[test]
fn heads_and_lines_have_bounds() {
    let endless = |begin: &str, more: &str| {
        let mut parser = Parser::new(false);
        let mut result = parser.feed(begin.as_bytes());
        for _ in 0..3_000_000 / more.len() {
            if result.is_err() {
                return true;
            }
            result = parser.feed(more.as_bytes());
        }
        false
    };
    assert!(endless("HTTP/1.1 200 ", "long reason "));
    assert!(endless("HTTP/1.1 200 OK\r\n", "X: y\r\n"));
    assert!(endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;", "extension"));
    assert!(endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "T: x\r\n"));
    assert!(endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "00000000"));
}

#[test]
fn an_answer_switches_protocols_only_where_its_request_asks() {
    let (head, rest) = ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n", "\u{1}\u{2}");
    let mut parser = Parser::new(false);
    parser.expect_switch(true);
    let progress = parser.feed(format!("{head}{rest}").as_bytes()).expect("an answer");
    assert_eq!((progress.consumed, progress.complete, parser.status()), (head.len(), true, 101));
    // The next one is of a request that does not ask.
    parser.expect_switch(false);
    assert!(parser.feed(head.as_bytes()).is_err());
}
