//! A session is read as it was written, and no bytes from elsewhere are believed.

use super::*;
use crate::http::response::{Part, Variant};
use crate::policy::sessions::{AdoptError, SessionSummary};
use crate::tls::TlsSession;
use proptest::prelude::*;

fn pending(offset: u64) -> Pending {
    Pending {
        response: Response {
            head: b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
            resource: None,
            variant: Variant::Identity,
            parts: vec![Part { head_end: 19, start: 5, end: 1000 }],
            offset,
        },
        status: 200,
        head_bytes: 19,
        content: Some(ContentName { site: 1, path: b"/a.bin".to_vec(), digest: Digest([7; 32]), is_made: false }),
        line: LineText { text: b"a - \"GET /\" 200 \n".to_vec(), late: vec![(16, 0)], took_us: 77 },
        host: Some("a.example".to_owned()),
        far: None,
        swapped: None,
    }
}

/// Keys of AES-128, and the records of a response of 1,014 bytes, of which the first one holds the head.
fn copied_tls() -> TlsSession {
    let key = [&[0; 12][..], &32_u32.to_be_bytes(), &[7; 32]].concat();
    let places: Vec<u8> = [0_u64, 19, 1014, 0].iter().flat_map(|place| place.to_be_bytes()).collect();
    let all = [&[2, 0x13, 1][..], &key, &key, &[0], &[0; 16], &[1], &places, &[0; 8]];
    TlsSession(all.concat().into())
}

/// The same where the first record was sealed here, and the others are to follow.
fn resealed_tls() -> TlsSession {
    let key = |number: u64| [&[0; 4][..], &number.to_be_bytes(), &32_u32.to_be_bytes(), &[7; 32]].concat();
    let places: Vec<u8> = [0_u64, 19, 1014, 19].iter().flat_map(|place| place.to_be_bytes()).collect();
    let all = [&[2, 0x13, 1][..], &key(1), &key(0), &[0], &[0; 16], &[2], &places, &[0; 8]];
    TlsSession(all.concat().into())
}

fn session() -> Session {
    Session {
        peer: "[2001:db8::1]:5000".parse().expect("an address"),
        client: Some("192.0.2.1:99".parse().expect("an address")),
        ending: Ending::Lingers,
        wait: Wait::Room,
        left_ms: 1234,
        body_bytes: 17,
        saved: b"GET / HT".to_vec(),
        input: b"TP/1.1".to_vec(),
        output: Vec::new(),
        tls: None,
        responses: vec![pending(500), pending(0)],
        http2: None,
    }
}

/// A response that another server goes on making.
fn relayed() -> Pending {
    let far = Far { minor: 1, closes: true, ends_with_connection: false, sent_bytes: 77, framing_bytes: 12 };
    let response = Response::default();
    Pending { response, content: None, head_bytes: 60, far: Some(far), ..pending(0) }
}

/// Sound of which a piece has gone out in part, and more is to be made.
fn swapped() -> Pending {
    let place = StreamPlace {
        path: b"/a.mp3"[..].into(),
        name: "small full".into(),
        at: 400,
        frame: Some(12),
        is_over: false,
        released_bytes: 5000,
    };
    let response = Response { head: b"5\r\nhello\r\n".to_vec(), offset: 4, ..Response::default() };
    Pending { response, head_bytes: 60, swapped: Some(place), ..pending(0) }
}

fn swapped_session() -> Session {
    Session { responses: vec![swapped()], ..session() }
}

fn relayed_session() -> Session {
    Session { responses: vec![relayed()], body_bytes: 0, ..session() }
}

fn stream(id: u32) -> Stream {
    Stream {
        id,
        window: -5,
        is_held: id == 7,
        is_received: id != 7,
        body_expected: Some(9),
        body_bytes: 4,
        body_unacknowledged: 3,
        age_ms: 66,
    }
}

/// The same of HTTP/2, with all that it can have.
fn http2_session() -> Session {
    let http2 = Http2 {
        table: Table { bytes_max: 4000, entries: vec![(b"a-nameand value".to_vec(), 6), (Vec::new(), 0)] },
        has_preface: true,
        has_settings: true,
        continued: Some(Continued { stream: 9, flags: 1, depends_on: Some(3), block: b"\x82\x86".to_vec() }),
        next: 1,
        last: 7,
        abandoned: vec![1, 3],
        unsent: b"\0\x10\0\0\0\0\0\0\x05frames".to_vec(),
        carries_streams: true,
        control: b"\0\0\0\x04\x01\0\0\0\0".to_vec(),
        window: 12_345,
        stream_window: 65_536,
        table_bytes: 100,
        table_is_due: true,
        receive_window: 50_000,
        tokens: 900,
        goaway: GoawayState::Announced { left_ms: 450 },
        has_heard: true,
        is_new: true,
        owes_alt_svc: true,
        streams: vec![stream(5), stream(7)],
    };
    let http2 = Some(Box::new(http2));
    Session { ending: Ending::Stays, body_bytes: 0, input: Vec::new(), http2, ..session() }
}

#[test]
fn what_was_written_is_read_and_says_what_it_knows() {
    let session = session();
    let bytes = session.write();
    assert_eq!(Session::read(&bytes).expect("is read"), session);
    let summary = SessionSummary::read(&bytes).expect("is read");
    let bytes_to_go = 2 * (19 + 995) - 500;
    assert_eq!(
        summary,
        SessionSummary { version: PLAIN_VERSION, responses: 2, relays: 0, bytes_to_go, known_bytes: 500 }
    );
    let rewound = rewind_session(&bytes, 120).expect("is known");
    let summary = SessionSummary::read(&rewound).expect("is read");
    assert_eq!((summary.known_bytes, summary.bytes_to_go), (380, bytes_to_go + 120));
    assert!(rewind_session(&bytes, 501).is_none(), "so much of it was not sent");
    // What is still to be sent comes behind what the response has given away.
    let held = Session { output: b"rest".to_vec(), ..session };
    assert_eq!((held.known_bytes(), held.bytes_to_go()), (0, bytes_to_go + 4));
}

#[test]
fn a_session_goes_on_at_any_byte_of_its_one_response() {
    let one = Session { responses: vec![pending(500)], ..session() };
    for offset in [0, 18, 19, 500, 1013] {
        let placed = place_session(&one.write(), offset).expect("lies in the response");
        let expected = Session { responses: vec![pending(offset)], ..one.clone() };
        assert_eq!(Session::read(&placed).expect("is read"), expected);
    }
    let tls = Session { tls: Some(TlsSession(vec![1].into())), input: Vec::new(), ..one.clone() };
    let copied = Session { tls: Some(copied_tls()), input: Vec::new(), ..one.clone() };
    // Each record has 22 bytes beside its plaintext.
    for (offset, at) in [(0, 0), (40, 0), (41, 19), (1057, 19)] {
        let placed = Session::read(&place_session(&copied.write(), offset).expect("lies in its records"));
        assert_eq!(placed.expect("is read").responses[0].response.offset, at, "{offset}");
    }
    assert!(place_session(&copied.write(), 1058).is_none(), "behind its last record");
    let held = Session { output: b"rest".to_vec(), ..one.clone() };
    let none = Session { responses: Vec::new(), ..one.clone() };
    for (refused, offset) in [(&one, 1014), (&one, u64::MAX), (&session(), 5), (&tls, 5), (&held, 5), (&none, 0)] {
        assert!(place_session(&refused.write(), offset).is_none(), "{offset} of {refused:?}");
    }
    assert!(place_session(b"", 0).is_none());
}

#[test]
fn a_session_over_tls_goes_back_to_a_record_that_was_not_sent() {
    let one = Session { responses: vec![pending(19)], input: Vec::new(), ..session() };
    let sealed = Session { tls: Some(resealed_tls()), ..one };
    // One record, of 22 bytes beside its plaintext.
    assert_eq!(sealed.known_bytes(), 41);
    for bytes in [1, 40, 41] {
        let rewound = rewind_session(&sealed.write(), bytes).expect("is known");
        let rewound = Session::read(&rewound).expect("is read");
        assert_eq!((rewound.known_bytes(), rewound.responses[0].response.offset), (41 - bytes, 0), "{bytes}");
    }
    assert!(rewind_session(&sealed.write(), 42).is_none(), "so much was not sealed");
    let unlike = [vec![pending(20)], Vec::new(), vec![pending(19), pending(19)]];
    for responses in unlike {
        let other = Session { responses, ..sealed.clone() };
        assert_eq!(other.known_bytes(), 0, "these are the records of another response");
    }
}

/// The form does not change without another version: sessions move between two programs while one replaces the other.
#[test]
fn the_form_is_that_of_its_version() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/moved_session");
    let idle = Session { client: None, wait: Wait::Idle, saved: Vec::new(), input: Vec::new(), ..session() };
    let idle = Session { ending: Ending::Stays, body_bytes: 0, responses: Vec::new(), ..idle };
    let tls = Some(TlsSession(vec![1, 0x13, 1].into()));
    let secure = Session { input: Vec::new(), tls, ..session() };
    let http2 = ("http2", http2_session());
    let relayed = ("relayed", relayed_session());
    let copied = Session { input: Vec::new(), tls: Some(copied_tls()), responses: vec![pending(500)], ..session() };
    let swapped = ("swapped", swapped_session());
    let resealed = Session { tls: Some(resealed_tls()), responses: vec![pending(19)], ..copied.clone() };
    let of_tls = [("secure", secure), ("copied", copied), ("resealed", resealed)];
    let all = [("download", session()), ("idle", idle), http2, relayed, swapped].into_iter().chain(of_tls);
    for (name, session) in all {
        let path = folder.join(name);
        if std::env::var_os("WEIR_BLESS").is_some() {
            std::fs::create_dir_all(&folder).expect("a folder");
            std::fs::write(&path, session.write()).expect("writes");
        }
        let known = std::fs::read(&path).expect("a seed");
        assert_eq!((session.write().to_vec(), Session::read(&known).ok()), (known, Some(session)), "{name}");
    }
}

#[test]
fn no_cut_of_it_is_taken_for_a_session() {
    for bytes in [http2_session().write(), session().write(), relayed_session().write(), swapped_session().write()] {
        for end in 0..bytes.len() {
            assert!(Session::read(&bytes[..end]).is_err(), "{end}");
        }
    }
    let bytes = session().write();
    assert!(Session::read(&[bytes.as_slice(), b"x"].concat()).is_err());
    let other = [&[VERSION + 1], &bytes[1..]].concat();
    assert!(matches!(Session::read(&other), Err(AdoptError::Version { .. })));
}

#[test]
fn a_session_that_names_what_is_outside_or_cannot_be_is_refused() {
    let changed = |change: &dyn Fn(&mut Pending)| {
        let mut session = session();
        change(&mut session.responses[0]);
        Session::read(&session.write())
    };
    for path in ["/../secret", "/a/../../secret", "a.bin", "", "/a\0b"] {
        let named = |pending: &mut Pending| {
            pending.content.iter_mut().for_each(|content| content.path = path.as_bytes().to_vec());
        };
        assert!(matches!(changed(&named), Err(AdoptError::Path)), "{path:?}");
    }
    type Change = &'static dyn Fn(&mut Pending);
    let wrong: [(&str, Change); 8] = [
        ("parts without content", &|pending| pending.content = None),
        ("content without parts", &|pending| pending.response.parts.clear()),
        ("a range that ends before it begins", &|pending| pending.response.parts[0].end = 3),
        ("a range of no file", &|pending| pending.response.parts[0].end = u64::MAX),
        ("a finished response", &|pending| pending.response.offset = 19 + 995),
        ("no status", &|pending| pending.status = 7),
        ("two lines in one", &|pending| pending.line.text = b"a\nb\n".to_vec()),
        ("a place behind the line", &|pending| pending.line.late = vec![(17, 0)]),
    ];
    for (what, change) in wrong {
        assert!(matches!(changed(change), Err(AdoptError::Malformed { .. })), "{what}");
    }
    assert!(changed(&|_| {}).is_ok());
}

#[test]
fn what_another_server_goes_on_making_has_a_version_of_its_own() {
    let session = relayed_session();
    let bytes = session.write();
    let summary = SessionSummary::read(&bytes).expect("is read");
    let wanted = SessionSummary { version: RELAYED_VERSION, responses: 1, relays: 1, bytes_to_go: 0, known_bytes: 0 };
    assert_eq!((Session::read(&bytes).expect("is read"), summary), (session.clone(), wanted));
    // A server that knows the version before says so.
    let as_before = [&[PLAIN_VERSION], &bytes[1..]].concat();
    assert!(matches!(Session::read(&as_before), Err(AdoptError::Malformed { .. })));
    assert!(place_session(&bytes, 0).is_none(), "no replica goes on with it");
    let plain = [&[RELAYED_VERSION], &Session { responses: Vec::new(), ..session.clone() }.write()[1..]].concat();
    assert!(matches!(Session::read(&plain), Err(AdoptError::Malformed { .. })), "nothing is made elsewhere");
    type Change = &'static dyn Fn(&mut Pending);
    let wrong: [(&str, Change); 4] = [
        ("bytes that are here", &|pending| pending.response.head = b"x".to_vec()),
        ("how far it came here", &|pending| pending.response.offset = 1),
        ("a version of HTTP", &|pending| pending.far.iter_mut().for_each(|far| far.minor = 3)),
        ("bytes of no response", &|pending| pending.far.iter_mut().for_each(|far| far.sent_bytes = u64::MAX)),
    ];
    for (what, change) in wrong {
        let mut session = session.clone();
        change(&mut session.responses[0]);
        assert!(matches!(Session::read(&session.write()), Err(AdoptError::Malformed { .. })), "{what}");
    }
    let many = Session { responses: (0..=RELAYS_MAX).map(|_| relayed()).collect(), ..session };
    assert!(Session::read(&many.write()).is_err());
    let preview = Session::preview(many.peer, Vec::new(), 3).write();
    assert_eq!(preview.first(), Some(&RELAYED_VERSION), "it is refused before the connection stops");
}

#[test]
fn sound_that_may_go_on_in_another_variant_has_a_version_of_its_own() {
    let session = swapped_session();
    let bytes = session.write();
    let summary = SessionSummary::read(&bytes).expect("is read");
    let wanted = SessionSummary { version: VERSION, responses: 1, relays: 0, bytes_to_go: 6, known_bytes: 4 };
    assert_eq!((Session::read(&bytes).expect("is read"), summary), (session.clone(), wanted));
    let as_before = [&[RELAYED_VERSION], &bytes[1..]].concat();
    assert!(matches!(Session::read(&as_before), Err(AdoptError::Malformed { .. })));
    assert!(place_session(&bytes, 0).is_none(), "no replica goes on with it");
    type Change = &'static dyn Fn(&mut Pending);
    let wrong: [(&str, Change); 7] = [
        ("no file", &|pending| pending.content = None),
        ("parts", &|pending| pending.response.parts = vec![Part { head_end: 0, start: 0, end: 1 }]),
        ("more than was made", &|pending| pending.response.offset = 11),
        ("more frames than bytes", &|pending| pending.swapped.iter_mut().for_each(|place| place.frame = Some(401))),
        ("a place in no file", &|pending| pending.swapped.iter_mut().for_each(|place| place.at = u64::MAX)),
        ("a head that is nowhere", &|pending| pending.swapped.iter_mut().for_each(|place| place.released_bytes = 59)),
        ("it is made elsewhere as well", &|pending| pending.far = relayed().far),
    ];
    for (what, change) in wrong {
        let mut session = session.clone();
        change(&mut session.responses[0]);
        assert!(matches!(Session::read(&session.write()), Err(AdoptError::Malformed { .. })), "{what}");
    }
    let mut outside = session.clone();
    outside.responses[0].swapped.iter_mut().for_each(|place| place.path = b"/../a"[..].into());
    assert!(matches!(Session::read(&outside.write()), Err(AdoptError::Path)));
    let second = Session { responses: vec![swapped(), swapped()], ..session.clone() };
    assert!(Session::read(&second.write()).is_err(), "two responses are under way at a time");
    let mut http2 = http2_session();
    http2.responses[0] = swapped();
    assert!(Session::read(&http2.write()).is_err(), "it is made in chunks, which HTTP/2 has not");
    let content = session.responses[0].content.clone().expect("a file");
    let seen = vec![(Variant::Identity, content, session.responses[0].swapped.clone())];
    let preview = Session::preview(session.peer, seen, 0).write();
    assert!(Session::read(&preview).is_ok());
    assert_eq!(preview.first(), Some(&VERSION), "an older server refuses it before the connection stops");
}

#[test]
fn streams_that_cannot_be_are_refused() {
    let bytes_to_go = 2 * (19 + 995) - 500 + 15 + 9;
    let (session, bytes) = (http2_session(), http2_session().write());
    assert_eq!(Session::read(&bytes).expect("is read"), session);
    assert_eq!((session.known_bytes(), session.bytes_to_go()), (0, bytes_to_go), "of frames nothing is known");
    // Each stream has gone as far as its own turns had it go.
    let changed = |change: &dyn Fn(&mut Session, &mut Http2)| {
        let mut session = http2_session();
        let mut http2 = session.http2.take().expect("is there");
        change(&mut session, &mut http2);
        Session::read(&Session { http2: Some(http2), ..session }.write())
    };
    assert!(changed(&|session, _| session.responses[1].response.offset = 600).is_ok());
    type Change = &'static dyn Fn(&mut Session, &mut Http2);
    let wrong: [(&str, Change); 15] = [
        ("a stream without a response", &|session, _| drop(session.responses.pop())),
        ("a response without a stream", &|_, http2| http2.streams.truncate(http2.streams.len() - 1)),
        ("streams of one number", &|_, http2| http2.streams[1].id = 5),
        ("a stream that was not begun", &|_, http2| http2.last = 5),
        ("a stream of the server's", &|_, http2| http2.streams[0].id = 4),
        ("a stream that waits for what has come", &|_, http2| http2.streams[1].is_received = true),
        ("a part of a head", &|session, _| session.responses[0].response.offset = 7),
        ("a window too large", &|_, http2| http2.window = 1 << 31),
        ("more than the client may send", &|_, http2| http2.receive_window = 65_536),
        ("more than a window of a body", &|_, http2| http2.streams[0].body_unacknowledged = 65_536),
        ("a table beyond its bound", &|_, http2| http2.table.bytes_max = 60),
        ("a bound beyond the bound", &|_, http2| http2.table.bytes_max = 4097),
        ("a value behind its entry", &|_, http2| http2.table.entries[0].1 = 16),
        ("too many that were ended", &|_, http2| http2.abandoned = vec![1; ABANDONED_MAX + 1]),
        ("a body of HTTP/1", &|session, _| session.body_bytes = 1),
    ];
    for (what, change) in wrong {
        assert!(matches!(changed(change), Err(AdoptError::Malformed { .. })), "{what}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_read_as_they_were_written(
        at in 0_usize..1000,
        byte in any::<u8>(),
        other in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        for mut bytes in [session().write(), http2_session().write(), relayed_session().write(), swapped_session().write()] {
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Ok(read) = Session::read(&bytes) {
                prop_assert_eq!(read.write(), bytes);
                let _ = (read.known_bytes(), read.bytes_to_go());
            }
        }
        let _ = Session::read(&other);
        let _ = Session::read(&[&[VERSION, HTTP1], other.as_slice()].concat());
        let _ = Session::read(&[&[VERSION, HTTP2], other.as_slice()].concat());
    }
}
