//! Copies of live connections, with which another server goes on where the client has what the first one has sent.

use crate::harness::{Site, connect};
use crate::sessions::{begun, ends_whole, noise, pair};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use weir_server::{Options, SessionCopies, SessionCopy, TlsKeys, place_session};

const PATIENCE: Duration = Duration::from_secs(20);

/// Looks as a node process does, until something is found.
fn look(site: &Site, found: impl Fn(&SessionCopies) -> bool) -> SessionCopies {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let copies = site.control.copy_sessions(false, TlsKeys::Copied);
        if found(&copies) {
            return copies;
        }
        assert!(Instant::now() < deadline, "{copies:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn copy_of(site: &Site, client: &TcpStream) -> SessionCopy {
    let mut copies = look(site, |found| !found.copies.is_empty()).copies;
    assert_eq!(copies.len(), 1);
    let copy = copies.remove(0);
    assert_eq!((copy.peer, copy.local), (client.local_addr().expect("one"), client.peer_addr().expect("one")));
    copy
}

#[test]
fn a_long_response_is_copied_once_and_goes_on_elsewhere_at_any_byte() {
    let content = noise(24 << 20);
    let sites = pair(&[("x.bin", &content)], |options: &mut Options| options.moves_sessions = true);
    let mut client = begun(&sites[0]);
    let copy = copy_of(&sites[0], &client);
    let head_bytes = copy.response_bytes - content.len() as u64;
    // The response is the first one of the connection.
    assert_eq!((copy.facts.written, copy.facts.has_unread), (copy.offset, false));
    assert!(copy.facts.acknowledged <= copy.facts.written && copy.offset < copy.response_bytes);
    assert!(copy.facts.received > 30, "the request's bytes: {}", copy.facts.received);
    let again = sites[0].control.copy_sessions(false, TlsKeys::Copied);
    assert!(again.copies.is_empty() && again.ended.is_empty(), "{again:?}");
    assert_eq!(sites[0].control.copy_sessions(true, TlsKeys::Copied).copies.len(), 1, "for another node");
    // Another server makes the same bytes, from before the place of the copy and behind it.
    for offset in [0, 7, head_bytes + 5, copy.offset, copy.response_bytes - 3] {
        let placed = place_session(&copy.session, offset).expect("lies in the response");
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let mut other = TcpStream::connect(listener.local_addr().expect("one")).expect("connects");
        let (served, peer) = listener.accept().expect("accepts");
        sites[1].control.adopt_session(&placed, served.into(), peer).expect("is taken in");
        other.set_read_timeout(Some(PATIENCE)).expect("sets");
        let mut rest = vec![0; (copy.response_bytes - offset) as usize];
        other.read_exact(&mut rest).expect("goes on");
        let body = rest.len().min(content.len());
        assert!(rest[rest.len() - body..] == content[content.len() - body..], "from byte {offset} on");
        if offset == 0 {
            assert!(rest.starts_with(b"HTTP/1.1 200 OK\r\n"));
        }
    }
    assert!(place_session(&copy.session, copy.response_bytes).is_none(), "nothing is left there");
    // At its own server it was never stopped; its end is told once the client has all of it.
    ends_whole(&mut client, &content);
    let ended = look(&sites[0], |found| !found.ended.is_empty()).ended;
    assert_eq!(ended, [(copy.peer, copy.local)]);
    assert!(sites[0].control.copy_sessions(true, TlsKeys::Copied).copies.is_empty());
}

#[test]
fn a_next_response_over_the_same_connection_is_copied_anew() {
    let (content, other) = (noise(24 << 20), noise(23 << 20));
    let sites = pair(&[("x.bin", &content), ("y.bin", &other)], |options| options.moves_sessions = true);
    let mut client = begun(&sites[0]);
    let first = copy_of(&sites[0], &client);
    ends_whole(&mut client, &content);
    client.write_all(b"GET /y.bin HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    client.read_exact(&mut [0]).expect("it has begun");
    let found = look(&sites[0], |found| !found.copies.is_empty());
    let second = &found.copies[0];
    assert_eq!(second.facts.written - second.offset, first.response_bytes, "behind the first one");
    assert!(second.facts.cookie == first.facts.cookie && second.facts.received > first.facts.received);
    ends_whole(&mut client, &other);
}

#[test]
fn what_cannot_be_copied_is_counted_by_its_reason() {
    let content = noise(24 << 20);
    let site = Site::start(&[("x.bin", &content)], |options| options.moves_sessions = true);
    let mut pipelined = connect(site.addr);
    let request = b"GET /x.bin HTTP/1.1\r\nHost: a\r\n\r\n";
    pipelined.write_all(&[&request[..], request].concat()).expect("sends");
    pipelined.read_exact(&mut [0]).expect("it has begun");
    let found = look(&site, |found| !found.left_out.is_empty());
    let reasons: Vec<_> = found.left_out.iter().map(|(why, count)| (*why, *count)).collect();
    assert_eq!(reasons, [("further requests wait behind the response", 1)]);
    assert!(found.copies.is_empty());
    drop(pipelined);
    let mut http2 = connect(site.addr);
    let window = [&b"\0\0\x06\x04\0\0\0\0\0"[..], b"\0\x04", &(1_u32 << 24).to_be_bytes()].concat();
    // RFC 7541, appendix A: GET, the path by its name, an authority, http.
    let block = [&b"\x82\x86\x04\x06/x.bin\x41\x01a"[..]].concat();
    let head = [&[0, 0, block.len() as u8, 1, 5, 0, 0, 0, 1][..], &block].concat();
    let all = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &window, &head].concat();
    http2.write_all(&all).expect("sends");
    http2.read_exact(&mut [0]).expect("it has begun");
    look(&site, |found| found.left_out.contains_key("HTTP/2"));
}
