//! Changes whose answer is lost, and over which others have written before they are tried again.

use crate::support::Members;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use weir_directory::{Directory, DirectoryError, Manifest, open_etcd};

/// What happens between a change whose answer is lost and the next try.
type Between = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// A way to etcd on which the answer to the first transaction after [`Lossy::loses`] is lost.
struct Lossy {
    directory: Box<dyn Directory>,
    between: Between,
}

impl Lossy {
    fn to(members: &Members) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut settings = members.settings.clone();
        let target = settings.endpoints[0].trim_start_matches("http://").to_owned();
        settings.endpoints = vec![format!("http://{}", listener.local_addr().expect("its address"))];
        let between = Between::default();
        let given = Arc::clone(&between);
        // Ends with the program of the tests: it has no more than a listening socket.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (target, between) = (target.clone(), Arc::clone(&given));
                thread::spawn(move || pass(client, &target, &between));
            }
        });
        Self { directory: open_etcd(&settings).expect("the settings"), between }
    }

    /// Loses the answer to the next transaction, and has this happen after it.
    fn loses(&self, between: impl FnOnce() + Send + 'static) {
        *self.between.lock().expect("whole") = Some(Box::new(between));
    }
}

/// Passes requests on, one after the other, until either end closes or an answer is lost.
fn pass(mut client: TcpStream, target: &str, between: &Between) {
    let Ok(mut server) = TcpStream::connect(target) else { return };
    while let Some(request) = message(&mut client) {
        server.write_all(&request).expect("etcd reads");
        let answer = message(&mut server).expect("etcd answers");
        if request.starts_with(b"POST /v3/kv/txn ")
            && let Some(act) = between.lock().expect("whole").take()
        {
            return act();
        }
        if client.write_all(&answer).is_err() {
            return;
        }
    }
}

/// A message of HTTP with a known length; none where the connection ends before.
fn message(from: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
            if bytes.len() >= head.len() + 4 + length.expect("a length") {
                return Some(bytes);
            }
        }
        match from.read(&mut piece) {
            Ok(read) if read > 0 => bytes.extend_from_slice(&piece[..read]),
            _ => return None,
        }
    }
}

fn is_unsure<T>(result: &Result<T, DirectoryError>) -> bool {
    matches!(result, Err(DirectoryError::Unsure { .. }))
}

#[test]
fn a_change_whose_answer_was_lost_is_no_conflict_where_another_stands_on_it() {
    if weir_testkit::require::program("etcd").is_none() {
        return;
    }
    let members = Members::start(1);
    let lossy = Lossy::to(&members);
    // Alone it finds out that it has been carried out.
    lossy.loses(|| {});
    assert_eq!(lossy.directory.put_policy("alone", "first", None).expect("is put"), 1);
    let other = members.open();
    lossy.loses(move || assert_eq!(other.put_policy("a", "second", Some(1)).expect("is put"), 2));
    let told = lossy.directory.put_policy("a", "first", None);
    assert!(is_unsure(&told), "{told:?}");

    // A version that another change has taken was not ours.
    assert_eq!(lossy.directory.put_policy("b", "first", None).expect("is put"), 1);
    let told = lossy.directory.put_policy("b", "second", None);
    assert!(matches!(told, Err(DirectoryError::Conflict { expected: 0, found: 1, .. })), "{told:?}");
}

#[test]
fn a_site_is_not_rolled_back_a_second_time_after_another_was_published() {
    if weir_testkit::require::program("etcd").is_none() {
        return;
    }
    let members = Members::start(1);
    let lossy = Lossy::to(&members);
    let manifest = Manifest::default();
    for version in 1..=2 {
        let expected = (version > 1).then(|| version - 1);
        assert_eq!(lossy.directory.publish("site", &manifest, expected).expect("is published"), version);
    }
    let other = members.open();
    lossy.loses(move || assert_eq!(other.publish("site", &Manifest::default(), Some(1)).expect("is published"), 3));
    let told = lossy.directory.roll_back("site", 1);
    assert!(is_unsure(&told), "{told:?}");
    let current = members.open().current("site").expect("etcd answers");
    assert_eq!(current.value().as_ref().expect("a version").version, 3, "what was published later stays");
}

#[test]
fn a_lock_that_was_got_and_lost_unknowingly_is_not_got_again() {
    if weir_testkit::require::program("etcd").is_none() {
        return;
    }
    let members = Members::start(1);
    let (lossy, time) = (Lossy::to(&members), Duration::from_secs(20));
    lossy.loses(|| {});
    assert!(lossy.directory.acquire("alone", "one", time).expect("etcd answers").is_some());
    let other = members.open();
    lossy.loses(move || {
        let held = other.holder("lock").expect("etcd answers").value().clone().expect("a holder");
        assert_eq!(held.holder, "one");
        assert!(other.take_over("lock", "two", time, held.epoch).expect("etcd answers").is_some());
    });
    let told = lossy.directory.acquire("lock", "one", time);
    assert!(is_unsure(&told), "{told:?}");
    let held = members.open().holder("lock").expect("etcd answers");
    assert_eq!(held.value().as_ref().expect("a holder").holder, "two");
}
