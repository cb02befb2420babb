//! A connection of HTTP/2 against any bytes, and against an upstream that answers in any pieces.

use super::connection::{Asked, Connection};
use super::stream::{Expects, StreamFault};
use crate::http::frames::frame::{self, flag, kind};
use crate::upstream::message::Said;
use proptest::prelude::*;

const HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn open(connection: &mut Connection<u32>, count: u32) -> Vec<u32> {
    let ask = |user| {
        let expects = if user % 3 == 2 { Expects::HeadOnly } else { Expects::Response };
        let asked = Asked { head: HEAD, is_secure: false, has_body: user % 2 == 1, expects, user };
        connection.open(asked).expect("a head")
    };
    (0..count).map(ask).collect()
}

/// What all streams say, and how each ends.
fn told(connection: &mut Connection<u32>, ids: &[u32]) -> Vec<(String, Option<StreamFault>)> {
    let each = |id: &u32| {
        let (mut text, mut fault) = (String::new(), None);
        for _ in 0..1000 {
            let mut say = |said: Said<'_>| text.push_str(&format!("{said:?}"));
            match connection.take(*id, usize::MAX, &mut say) {
                Ok(true) if text.ends_with("End") => break,
                Ok(true) => {}
                Ok(false) => break,
                Err(why) => {
                    fault = Some(why);
                    break;
                }
            }
        }
        (text, fault)
    };
    ids.iter().map(each).collect()
}

fn literal(list: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in list {
        block.extend_from_slice(&[0, name.len() as u8]);
        block.extend_from_slice(name.as_bytes());
        block.push(value.len() as u8);
        block.extend_from_slice(value.as_bytes());
    }
    block
}

/// Frames that are often right.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let one = (0_u8..11, any::<u8>(), 0_u32..8, proptest::collection::vec(any::<u8>(), 0..40), 0_usize..6);
    let made = one.prop_map(|(kind, flags, stream, mut payload, choice)| {
        let blocks = [
            literal(&[(":status", "200"), ("a", "b")]),
            literal(&[(":status", "103")]),
            literal(&[(":status", "200"), ("content-length", "3")]),
            literal(&[("grpc-status", "0")]),
        ];
        let mut flags = flags;
        if kind == kind::HEADERS && choice < blocks.len() {
            payload.clone_from(&blocks[choice]);
            flags = flag::END_HEADERS | (flags & flag::END_STREAM);
        }
        if kind == kind::SETTINGS && choice > 0 {
            payload.truncate(0);
            flags = 0;
        }
        let mut out = Vec::new();
        frame::head(&mut out, payload.len(), kind, flags, if kind == kind::SETTINGS { 0 } else { stream });
        out.extend_from_slice(&payload);
        out
    });
    proptest::collection::vec(made, 0..12).prop_map(|frames| {
        let mut all = Vec::new();
        frame::settings(&mut all, &[]);
        all.extend(frames.into_iter().flatten());
        all
    })
}

/// Takes up bytes in pieces of these sizes; whether they were borne, and what the streams say.
fn received(bytes: &[u8], cuts: &[usize]) -> (bool, Vec<(String, Option<StreamFault>)>) {
    let mut connection = Connection::new(5);
    let ids = open(&mut connection, 4);
    let (mut rest, mut borne, mut at) = (bytes, true, 0);
    while !rest.is_empty() && borne {
        let cut = cuts.get(at % cuts.len().max(1)).copied().unwrap_or(rest.len()).clamp(1, rest.len());
        borne = connection.receive(&rest[..cut], 5).is_ok();
        (rest, at) = (&rest[cut..], at + 1);
    }
    assert!(connection.output().len() < 2 << 20);
    (borne, told(&mut connection, &ids))
}

proptest! {
    #[test]
    fn any_bytes_are_borne_in_any_pieces_alike(
        bytes in prop_oneof![frames(), proptest::collection::vec(any::<u8>(), 0..300)],
        cuts in proptest::collection::vec(1_usize..40, 1..6),
    ) {
        prop_assert_eq!(received(&bytes, &[]), received(&bytes, &cuts));
    }

    #[test]
    fn bodies_go_out_whole_and_within_the_windows(
        body in 0_usize..200_000,
        first in 0_u32..100_000,
        opened in proptest::collection::vec(1_u32..60_000, 0..40),
        taken in proptest::collection::vec(1_usize..70_000, 1..8),
    ) {
        let mut connection = Connection::new(5);
        let asked = Asked { head: HEAD, is_secure: false, has_body: true, expects: Expects::Response, user: 1_u32 };
        let id = connection.open(asked).expect("a head");
        let mut settings = Vec::new();
        frame::settings(&mut settings, &[(4, first)]);
        connection.receive(&settings, 5).expect("settings");
        let (mut sent, mut window, mut of_all, mut socket) = (0, i64::from(first), 65_535_i64, 0);
        let (mut grants, content) = (opened.into_iter(), vec![0; body]);
        for step in 0..2000 {
            let now = connection.send(id, &content[sent..]);
            sent += now;
            window -= now as i64;
            of_all -= now as i64;
            prop_assert!(window >= 0 && of_all >= 0);
            let room = taken[step % taken.len()].min(connection.output().len());
            connection.sent(room);
            socket += room;
            if now == 0 && connection.output().is_empty() {
                let Some(grant) = grants.next() else { break };
                connection.take_told();
                for stream in [0, id] {
                    let mut update = Vec::new();
                    frame::number(&mut update, kind::WINDOW_UPDATE, stream, grant);
                    connection.receive(&update, 5).expect("an update");
                }
                window += i64::from(grant);
                of_all += i64::from(grant);
                prop_assert_eq!(connection.take_told(), if sent < body && window > 0 { vec![1] } else { vec![] });
            }
        }
        prop_assert!(sent == body || window.min(of_all) == 0 || grants.len() == 0, "{sent} of {body}, {window} {of_all}");
        prop_assert!(socket + connection.output().len() >= sent);
    }
}

#[test]
fn a_response_passes_with_its_trailers_and_gives_its_window_back() {
    let mut connection = Connection::new(5);
    let ids = open(&mut connection, 1);
    let mut bytes = Vec::new();
    frame::settings(&mut bytes, &[]);
    let head = literal(&[(":status", "200"), ("content-type", "a/b")]);
    frame::head(&mut bytes, head.len(), kind::HEADERS, flag::END_HEADERS, 1);
    bytes.extend_from_slice(&head);
    for _ in 0..3 {
        frame::head(&mut bytes, 16_384, kind::DATA, 0, 1);
        bytes.extend_from_slice(&[b'x'; 16_384]);
    }
    let trailers = literal(&[("grpc-status", "0")]);
    frame::head(&mut bytes, trailers.len(), kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1);
    bytes.extend_from_slice(&trailers);
    let cut = bytes.len() - 20;
    connection.receive(&bytes[..cut], 5).expect("frames");
    assert_eq!(connection.take_told(), [0]);
    let mut body = 0;
    let mut say = |said: Said<'_>| {
        if let Said::Body(content) = said {
            body += content.len();
        }
    };
    while connection.take(ids[0], 10_000, &mut say) == Ok(true) {}
    assert_eq!(body, 3 * 16_384);
    let before = connection.output().len();
    connection.receive(&bytes[cut..], 5).expect("frames");
    let told = told(&mut connection, &ids);
    assert!(told[0].0.contains("Trailers") && told[0].0.ends_with("End"), "{told:?}");
    assert!(connection.output().windows(4).any(|part| part == [0, 0, 4, kind::WINDOW_UPDATE]), "{before}");
    connection.close(ids[0]);
    assert_eq!(connection.streams(), 0);
}
