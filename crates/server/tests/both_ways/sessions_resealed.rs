//! Sessions over TLS that move in the middle of a response: the other server makes the records again that the client has
//! not got, to the byte.

use crate::harness::{Site, certificate};
use crate::sessions::{noise, pair, take};
use crate::sessions_copied::{VERSIONS, begun_secure, ends_whole_secure};
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;
use weir_server::{SessionSummary, TakeError, TakenSession, rewind_session};

const PATIENCE: Duration = Duration::from_secs(20);

/// All bytes that a server sends of a session over a connection of its own.
fn sent_by(site: &Site, session: &[u8]) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let mut other = TcpStream::connect(listener.local_addr().expect("one")).expect("connects");
    let (served, peer) = listener.accept().expect("accepts");
    site.control.adopt_session(session, served.into(), Vec::new(), peer).expect("is taken in");
    other.set_read_timeout(Some(PATIENCE)).expect("sets");
    let mut all = Vec::new();
    other.read_to_end(&mut all).expect("the connection closes behind the response");
    all
}

/// Takes a session as soon as the server is in the middle of its response.
fn taken_midway(site: &Site, client: &TcpStream) -> TakenSession {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        match take(site, client) {
            Ok(taken) => return taken,
            Err(TakeError::Ending) | Err(TakeError::TooLarge) if std::time::Instant::now() < deadline => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn records_that_the_client_has_not_got_are_made_again_to_the_byte() {
    let folder = tempfile::tempdir().expect("a directory");
    let files = certificate::make(folder.path(), "a", &["a"]);
    let content = noise(8 << 20);
    // Files in memory go out with their head, others behind it.
    for in_memory in [true, false] {
        let sites = pair(&[("x.bin", &content)], |options| {
            options.moves_sessions = true;
            options.certificates = vec![files.clone()];
            options.cached_file_bytes_max = if in_memory { 32 << 20 } else { 0 };
        });
        for version in VERSIONS {
            let mut client = begun_secure(&sites[0], &files.certificate, version, "Connection: close\r\n");
            let taken = taken_midway(&sites[0], &client.sock.socket);
            let (session, known) = (taken.session.clone(), taken.known_bytes);
            assert_eq!(SessionSummary::read(&session).expect("is read").known_bytes, known);
            assert!(known > 100_000, "{known} bytes of its records are known");
            // What follows what the kernel has, and what the client gets of both.
            let rest = sent_by(&sites[1], &session);
            let peer = client.sock.socket.local_addr().expect("one");
            sites[1].control.adopt_session(&taken.session, taken.fd, taken.relays, peer).expect("is taken in");
            ends_whole_secure(&mut client, &content);
            assert_eq!(client.read(&mut [0]).expect("the end is meant"), 0, "{version:?}");
            let all = &client.sock.received;
            let written = all.len() - rest.len();
            assert!(all.ends_with(&rest), "other records follow");
            for (from, len) in [(0, 1), (0, known), (7, 40_000), (known - 50_000, 50_000), (known - 1, 1)] {
                let made = sites[1].control.session_bytes(&session, from, len).expect("are made");
                let at = written - known as usize + from as usize;
                assert!(made == all[at..at + len as usize], "{len} bytes from {from} on, {version:?}");
            }
            assert!(sites[1].control.session_bytes(&session, known, 1).is_err(), "so many were not sealed");
            for unsent in [1, 16_400, 90_001, known] {
                let rewound = rewind_session(&session, unsent).expect("is known");
                assert_eq!(SessionSummary::read(&rewound).expect("is read").known_bytes, known - unsent);
                let again = sent_by(&sites[1], &rewound);
                assert!(again == all[written - unsent as usize..], "the last {unsent} bytes again, {version:?}");
                // What is taken out of it is no more than what is known.
                assert!(rewind_session(&rewound, known - unsent + 1).is_none());
            }
        }
    }
}
