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
    }
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
    }
}

#[test]
fn what_was_written_is_read_and_says_what_it_knows() {
    let session = session();
    let bytes = session.write();
    assert_eq!(Session::read(&bytes).expect("is read"), session);
    let summary = SessionSummary::read(&bytes).expect("is read");
    let bytes_to_go = 2 * (19 + 995) - 500;
    assert_eq!(summary, SessionSummary { version: VERSION, responses: 2, bytes_to_go, known_bytes: 500 });
    let rewound = rewind_session(&bytes, 120).expect("is known");
    let summary = SessionSummary::read(&rewound).expect("is read");
    assert_eq!((summary.known_bytes, summary.bytes_to_go), (380, bytes_to_go + 120));
    assert!(rewind_session(&bytes, 501).is_none(), "so much of it was not sent");
    // What is still to be sent comes behind what the response has given away.
    let held = Session { output: b"rest".to_vec(), ..session };
    assert_eq!((held.known_bytes(), held.bytes_to_go()), (0, bytes_to_go + 4));
}

/// The form does not change without another version: sessions move between two programs while one replaces the other.
#[test]
fn the_form_is_that_of_its_version() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/moved_session");
    let idle = Session { client: None, wait: Wait::Idle, saved: Vec::new(), input: Vec::new(), ..session() };
    let idle = Session { ending: Ending::Stays, body_bytes: 0, responses: Vec::new(), ..idle };
    let tls = Some(TlsSession(vec![1, 0x13, 1].into()));
    let secure = Session { input: Vec::new(), tls, ..session() };
    for (name, session) in [("download", session()), ("idle", idle), ("secure", secure)] {
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
    let bytes = session().write();
    for end in 0..bytes.len() {
        assert!(Session::read(&bytes[..end]).is_err(), "{end}");
    }
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

proptest! {
    #[test]
    fn any_bytes_are_refused_or_read_as_they_were_written(
        at in 0_usize..400,
        byte in any::<u8>(),
        other in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut bytes = session().write();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(read) = Session::read(&bytes) {
            prop_assert_eq!(read.write(), bytes);
            let _ = (read.known_bytes(), read.bytes_to_go());
        }
        let _ = Session::read(&other);
        let _ = Session::read(&[&[VERSION, HTTP1], other.as_slice()].concat());
    }
}
