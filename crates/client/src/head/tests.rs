use super::*;
use proptest::prelude::*;

fn rewritten(head: &str) -> (String, Vec<Oddity>) {
    let mut out = Vec::new();
    let oddities = rewrite(head.as_bytes(), &mut out).unwrap_or_else(|error| panic!("{head:?}: {error}"));
    (String::from_utf8_lossy(&out).into_owned(), oddities.iter().collect())
}

fn refused(head: &str) -> String {
    rewrite(head.as_bytes(), &mut Vec::new()).expect_err(head).0
}

#[test]
fn what_clients_take_is_rewritten_and_told() {
    use Oddity::*;
    for (head, wanted, oddities) in [
        ("HTTP/1.1 200 OK\r\nA: b\r\n\r\n", "HTTP/1.1 200 OK\r\nA: b\r\n\r\n", &[][..]),
        // RFC 9112 5.2: each fold becomes blanks.
        (
            "HTTP/1.1 200 OK\r\nX: one\r\n two\r\n\tthree\r\nB: c\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX: one two three\r\nB: c\r\n\r\n",
            &[Folded],
        ),
        ("HTTP/1.1 200 OK\r\nA \t: b\r\n\r\n", "HTTP/1.1 200 OK\r\nA: b\r\n\r\n", &[BlankBeforeColon]),
        ("HTTP/1.1 200 OK\r\nstray\r\n more\r\n: x\r\nA: b\r\n\r\n", "HTTP/1.1 200 OK\r\nA: b\r\n\r\n", &[Stray]),
        ("HTTP/1.1 200 OK\r\n Length: 1\r\nA: b\r\n\r\n", "HTTP/1.1 200 OK\r\nA: b\r\n\r\n", &[Stray]),
        // A fold must not make a header of a line that is none.
        ("HTTP/1.1 200 OK\r\nContent-Length\r\n : 5\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", &[Stray]),
        ("HTTP/1.1 200 OK\nA: b\r\n\n", "HTTP/1.1 200 OK\r\nA: b\r\n\r\n", &[BareLineFeed]),
        ("\r\n\nHTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", &[LineBefore, BareLineFeed]),
        ("HTTP/1.1 200 OK\r\r\nA: b\r\r\n\r\r\n", "HTTP/1.1 200 OK\r\nA: b\r\n\r\n", &[BareReturn]),
        ("HTTP/1.1   200   OK\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", &[StatusBlanks]),
        ("HTTP/1.1 200\r\n\r\n", "HTTP/1.1 200 \r\n\r\n", &[]),
        ("HTTP/1.1 404Gone\r\n\r\n", "HTTP/1.1 404 Gone\r\n\r\n", &[StatusBlanks]),
        ("http/1.0 200 OK\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\n", &[Version]),
        ("HTTP/1.2 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", &[Version]),
        ("HTTP/2 200\r\n\r\n", "HTTP/1.1 200 \r\n\r\n", &[Version]),
        ("HTTP/1 200 OK\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\n", &[Version]),
        ("HTTP/1.1 200 OK\r\nX Y(1): b\r\n\r\n", "HTTP/1.1 200 OK\r\nX_Y_1_: b\r\n\r\n", &[Name]),
        ("HTTP/1.1 200 OK\r\nContent Length: 9\r\n\r\n", "HTTP/1.1 200 OK\r\nContent_Length: 9\r\n\r\n", &[Name]),
        ("HTTP/1.1 200 O\x07K\r\nA: b\0c\rd\r\n\r\n", "HTTP/1.1 200 O K\r\nA: b c d\r\n\r\n", &[Control, BareReturn]),
        ("HTTP/1.1 200 Gr\u{fc}n\r\nA: \u{fc}\r\n\r\n", "HTTP/1.1 200 Gr\u{fc}n\r\nA: \u{fc}\r\n\r\n", &[]),
    ] {
        assert_eq!(rewritten(head), (wanted.to_owned(), oddities.to_vec()), "{head:?}");
    }
}

#[test]
fn what_leaves_the_end_in_doubt_is_refused_in_words() {
    for (head, words) in [
        ("HTTP/1.1 20 OK\r\n\r\n", "three digits: `HTTP/1.1 20 OK`"),
        ("HTTP/1.1 2000 OK\r\n\r\n", "more than three digits"),
        ("HTTP/1.1 099 OK\r\n\r\n", "below 100"),
        ("HTTP/1.1\r\n\r\n", "no blank"),
        ("HTTP/x 200 OK\r\n\r\n", "no version"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\0\r\n\r\n", "a control character in its Content-Length: ` 5\\x00`"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\x0b\r\n\r\n", "a control character"),
        ("SSH-2.0-x\r\n\r\n", "SSH"),
    ] {
        let found = refused(head);
        assert!(found.contains(words), "{head:?}: {found}");
    }
}

/// Pieces of heads, fit and unfit, in any order.
fn head() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just("\r\n".to_owned()),
        Just("\n".to_owned()),
        Just("\r".to_owned()),
        Just("Content-Length: 5\r\n".to_owned()),
        Just(" folded\r\n".to_owned()),
        Just("Transfer-Encoding : chunked\r\n".to_owned()),
        "[a-zA-Z :\\-\u{e4}\t\0]{0,12}",
        "[A-Z][a-z]{1,8}: ?[ -~]{0,12}\r?\n",
    ];
    let status = prop_oneof![4 => Just("HTTP/1.1 200 OK\r\n".to_owned()), 1 => "\n?(HTTP|http)/[0-9.]{0,3} {0,2}[0-9]{0,4} ?[a-z]{0,3}\r?\n"];
    (status, proptest::collection::vec(piece, 0..12))
        .prop_map(|(status, pieces)| (status + &pieces.concat()).into_bytes())
}

/// What a strict parser reads: status, minor version, headers.
type Read = (u16, u8, Vec<(String, Vec<u8>)>);

fn strictly(head: &[u8]) -> Option<(usize, Read)> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut headers);
    let Ok(httparse::Status::Complete(length)) = response.parse(head) else { return None };
    let headers = response.headers.iter().map(|header| (header.name.to_owned(), header.value.to_vec())).collect();
    Some((length, (response.code?, response.version?, headers)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn pieces_make_no_difference_to_the_end(bytes in head(), cuts in proptest::collection::vec(1usize..9, 1..6)) {
        let whole = EndOfHead::default().find(&bytes);
        let (mut end, mut at) = (EndOfHead::default(), 0);
        let mut found = None;
        for cut in cuts.iter().cycle() {
            at = (at + cut).min(bytes.len());
            found = end.find(&bytes[..at]);
            if found.is_some() || at == bytes.len() {
                break;
            }
        }
        prop_assert_eq!(found, whole);
    }

    #[test]
    fn a_strict_parser_can_read_what_was_rewritten(bytes in head()) {
        if let Some(end) = EndOfHead::default().find(&bytes) {
            let mut out = Vec::new();
            if rewrite(&bytes[..end], &mut out).is_ok() {
                let read = strictly(&out);
                prop_assert!(read.is_some_and(|(length, _)| length == out.len()), "{:?}", String::from_utf8_lossy(&out));
            }
        }
    }

    #[test]
    fn what_a_strict_parser_reads_stays_what_it_is(bytes in head()) {
        if let Some((length, read)) = strictly(&bytes) {
            prop_assert_eq!(EndOfHead::default().find(&bytes), Some(length));
            let mut out = Vec::new();
            // A status below 100 is the one thing that is looked at more strictly.
            if rewrite(&bytes[..length], &mut out).is_ok() {
                prop_assert_eq!(strictly(&out).map(|(_, again)| again), Some(read));
            } else {
                prop_assert!(read.0 < 100);
            }
        }
    }

    #[test]
    fn a_verdict_does_not_change_with_what_follows(bytes in proptest::collection::vec(any::<u8>(), 0..40), http: bool) {
        let bytes = if http { [b"HTTP/1.1 2", &bytes[..]].concat() } else { bytes };
        let whole = judge(&bytes, false);
        for length in 0..bytes.len() {
            if let Err(early) = judge(&bytes[..length], false) {
                prop_assert_eq!(Err(early), whole.clone());
            }
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = rewrite(&[b"HTTP/1.1 200 OK\r\n", &bytes[..]].concat(), &mut Vec::new());
        let _ = rewrite(&bytes, &mut Vec::new());
    }
}
