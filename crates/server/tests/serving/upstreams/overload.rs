//! More requests than an upstream can answer: those that would have to wait for too long are refused at once, and those
//! whose clients have gone are not sent. Times hold closely.

use super::queues::{ask, told};
use super::scripted::{Client, SOON, proxy, site, tcp, timed};
use crate::harness::wait_until;
use socket2::{Domain, SockAddr, Socket, Type};
use std::time::{Duration, Instant};

/// How exactly a time has to hold at least once among some tries, on a machine that has other things to do.
const CLOSE: Duration = Duration::from_millis(30);

#[test]
fn a_request_that_would_have_to_wait_for_too_long_is_refused_at_once() {
    let (addr, seen, asked, release) = told();
    let site = proxy(addr, ", connections = 1, queue = 100, queue_wait = \"200 ms\"");
    let mut first = ask(&site, site.addr, "/first");
    asked.recv_timeout(SOON).expect("it is asked");
    let mut second = ask(&site, site.addr, "/second");
    // From here on it has waited for longer than requests may have to.
    std::thread::sleep(Duration::from_millis(250));
    let (refused, time) = timed(|| site.get("/third"));
    assert_eq!(refused.status, 503);
    assert!(refused.field("retry-after").is_some_and(|seconds| seconds.parse::<u32>().is_ok()), "{refused:?}");
    assert_eq!(refused.field("cache-control"), Some("no-store"));
    assert!(time < SOON, "{time:?}");
    for (client, target) in [(&mut first, "/first"), (&mut second, "/second")] {
        release.send(()).expect("it waits");
        assert_eq!(client.reply().text(), target, "what was let in is answered");
    }
    release.send(()).expect("it waits");
    assert_eq!(site.get("/later").text(), "/later", "there is no queue any more");
    site.stop();
    assert_eq!(seen.accepted(), 1);
}

#[test]
fn requests_whose_clients_have_gone_are_never_sent() {
    let (addr, _, asked, release) = told();
    let site = proxy(addr, ", connections = 1, queue = 100, queue_wait = false");
    let mut first = ask(&site, site.addr, "/first");
    assert_eq!(asked.recv_timeout(SOON).as_deref(), Ok("/first"));
    let gone: Vec<Client> = (0..8).map(|number| ask(&site, site.addr, &format!("/gone/{number}"))).collect();
    let mut last = ask(&site, site.addr, "/last");
    // The ends of the connections are there before the upstream answers, and are seen with that at the latest.
    drop(gone);
    release.send(()).expect("it waits");
    assert_eq!(first.reply().text(), "/first");
    assert_eq!(asked.recv_timeout(SOON).as_deref(), Ok("/last"));
    release.send(()).expect("it waits");
    assert_eq!(last.reply().text(), "/last");
    assert_eq!(site.stop().applications_cancelled, 8);
}

/// The least by which some tries were later than a time; none may be earlier.
fn lateness(expected: Duration, mut one: impl FnMut() -> Duration) -> Duration {
    let mut least = Duration::MAX;
    for _ in 0..20 {
        let took = one();
        // The loops' clock goes on in steps of some milliseconds.
        let early = expected.saturating_sub(took);
        assert!(early <= Duration::from_millis(11), "{early:?} too early");
        least = least.min(took.saturating_sub(expected));
        if least < CLOSE {
            break;
        }
    }
    least
}

#[test]
fn times_of_each_phase_hold_closely() {
    let time = Duration::from_millis(150);
    let (addr, _) = tcp(|_, mut peer| {
        let Some(head) = peer.head() else { return };
        if head.contains(" /body ") {
            peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome");
        }
        if head.contains(" /kept ") {
            peer.answer("kept");
        }
        peer.rest();
    });
    let times = ["head", "body", "queue", "idle"].map(|phase| format!("{phase} = \"150 ms\""));
    let settings = format!(
        ", connections = 1, queue = 9, queue_wait = false, retries = false, timeouts = {{ {} }}",
        times.join(", ")
    );
    let site = proxy(addr, &settings);
    let late = lateness(time, || timed(|| assert_eq!(site.get("/head").status, 504)).1);
    assert!(late < CLOSE, "head: {late:?}");
    let late = lateness(time, || {
        let mut client = Client::new(site.addr);
        client.ask("GET /body", "", b"");
        client.until("some");
        timed(|| client.rest()).1
    });
    assert!(late < CLOSE, "body: {late:?}");
    let slow = proxy(addr, &settings.replace("head = \"150 ms\"", "head = \"20 s\""));
    let late = lateness(time, || {
        let mut first = Client::new(slow.addr);
        first.ask("GET /head", "", b"");
        std::thread::sleep(Duration::from_millis(30));
        let took = timed(|| assert_eq!(slow.get("/queued").status, 503)).1;
        drop(first);
        wait_until(|| slow.counters.read().applications_cancelled > 0);
        took
    });
    assert!(late < CLOSE, "queue: {late:?}");
}

#[test]
fn a_kept_connection_is_closed_when_its_time_is_over() {
    let (addr, seen) = tcp(|_, mut peer| {
        peer.request();
        peer.answer("kept");
        peer.rest();
    });
    let site = proxy(addr, ", timeouts = { idle = \"150 ms\" }");
    let late = lateness(Duration::from_millis(150), || {
        let ended = seen.ended();
        assert_eq!(site.get("/").text(), "kept");
        let begun = Instant::now();
        while seen.ended() == ended {
            assert!(begun.elapsed() < SOON);
            std::thread::sleep(Duration::from_millis(1));
        }
        begun.elapsed()
    });
    assert!(late < CLOSE, "{late:?}");
}

#[test]
fn a_unix_socket_without_room_is_asked_again_soon() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("full.sock");
    let address = SockAddr::unix(&path).expect("an address");
    let listener = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
    listener.bind(&address).expect("binds");
    listener.listen(0).expect("listens");
    let site = site(&format!("proxy = \"unix:{}\"", path.display()), |_| {});
    let mut least = Duration::MAX;
    for _ in 0..20 {
        // The queue of the socket is full.
        let mut fillers = Vec::new();
        loop {
            let filler = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
            filler.set_nonblocking(true).expect("sets");
            if filler.connect(&address).is_err() {
                break;
            }
            fillers.push(filler);
        }
        let mut client = Client::new(site.addr);
        client.ask("GET /", "", b"");
        std::thread::sleep(Duration::from_millis(120));
        let begun = Instant::now();
        for _ in &fillers {
            listener.accept().expect("one that filled it");
        }
        let (mut socket, _) = listener.accept().expect("the server's");
        least = least.min(begun.elapsed());
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            std::io::Read::read_exact(&mut socket, &mut byte).expect("a request");
            head.push(byte[0]);
        }
        std::io::Write::write_all(&mut socket, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
            .expect("sends");
        assert_eq!(client.reply().text(), "ok");
        if least < Duration::from_millis(50) + CLOSE {
            break;
        }
    }
    assert!(least < Duration::from_millis(50) + CLOSE, "{least:?}");
}
