//! Connections that become tunnels (RFC 9110 section 7.8).

use super::scripted::{Client, Seen, proxy, receive_long, send_long, site, tcp, timed};
use crate::harness::wait_until;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use weir_server::Timeouts;

const ASK: &str = "GET /chat HTTP/1.1\r\nHost: a.org\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
const SWITCH: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\nX-A: b\r\n\r\nfirst";

/// Becomes a tunnel where it is asked to, and sends back what comes through it; `bye` ends it.
pub(super) fn echoing() -> (SocketAddr, Seen) {
    tcp(|_, mut peer| {
        while let Some(head) = peer.head() {
            if !head.contains("Upgrade: echo\r\n") {
                peer.answer("no tunnel");
                continue;
            }
            assert!(head.contains("Connection: upgrade\r\n"), "{head}");
            peer.say(SWITCH);
            loop {
                let some = peer.some();
                if some.is_empty() || some.ends_with(b"bye") {
                    peer.say(b"end");
                    return peer.end();
                }
                if !peer.say(&some) {
                    return;
                }
            }
        }
    })
}

/// Begins a tunnel with these bytes behind the head.
fn open(client: &mut Client, behind: &str) {
    client.send(format!("{ASK}{behind}"));
    let head = client.until("\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    let lower = head.to_ascii_lowercase();
    assert!(lower.contains("connection: upgrade\r\n") && lower.contains("upgrade: echo\r\n"), "{head}");
    assert!(head.contains("X-A: b\r\n") && !lower.contains("transfer-encoding"), "{head}");
}

#[test]
fn bytes_pass_in_both_directions_also_those_that_came_with_the_heads() {
    let (addr, seen) = echoing();
    let site = proxy(addr, "");
    // As the first request of its connection, and as one that comes over the ring where there is one.
    for requests in 0..4 {
        let mut client = Client::new(site.addr);
        for _ in 0..requests {
            assert_eq!(client.get("/").text(), "no tunnel");
            std::thread::sleep(Duration::from_millis(20));
        }
        open(&mut client, "second");
        client.until("firstsecond");
        for number in 0..20 {
            client.send(format!("<{number}>"));
            client.until(&format!("<{number}>"));
        }
        client.stream.shutdown(Shutdown::Write).expect("ends");
        assert_eq!(client.rest(), (b"end".to_vec(), false), "what comes behind its end still comes");
    }
    wait_until(|| seen.open() == 0);
    let counts = site.stop();
    assert_eq!((counts.applications_failed, counts.connections_broken), (0, 0), "{counts:?}");
}

#[test]
fn the_end_of_the_upstream_ends_the_tunnel() {
    let (addr, seen) = echoing();
    let site = proxy(addr, "");
    let mut client = Client::new(site.addr);
    open(&mut client, "");
    client.send("bye");
    assert_eq!(client.rest(), (b"firstend".to_vec(), false));
    wait_until(|| seen.open() == 0);
    // A client that goes away takes the connection with the upstream along.
    let mut client = Client::new(site.addr);
    open(&mut client, "x");
    client.until("x");
    drop(client);
    wait_until(|| seen.open() == 0);
    assert_eq!(site.stop().applications_failed, 0);
}

#[test]
fn much_passes_through_a_tunnel_in_both_directions_at_once() {
    const BYTES: usize = 8 << 20;
    let (addr, _) = echoing();
    let site = proxy(addr, "");
    let mut client = Client::new(site.addr);
    open(&mut client, "");
    client.until("first");
    let mut writer = client.stream.try_clone().expect("a second handle");
    let thread = std::thread::spawn(move || {
        send_long(&mut writer, BYTES);
        writer.shutdown(Shutdown::Write).expect("ends");
    });
    receive_long(&mut client.stream, BYTES, 1 << 20);
    assert_eq!(client.rest(), (b"end".to_vec(), false));
    thread.join().expect("no panic");
}

#[test]
fn a_refused_upgrade_is_a_response_as_any_other_and_the_connection_stays() {
    for status in ["200 OK", "403 Forbidden", "426 Upgrade Required"] {
        let (addr, seen) = tcp(move |_, mut peer| {
            while peer.head().is_some() {
                peer.say(format!("HTTP/1.1 {status}\r\nContent-Length: 3\r\n\r\nno!").as_bytes());
            }
        });
        let site = proxy(addr, "");
        let mut client = Client::new(site.addr);
        for _ in 0..2 {
            // What is behind the head is the next request then.
            client.send(format!("{ASK}{ASK}"));
            for _ in 0..2 {
                let reply = client.reply();
                assert_eq!((reply.status.to_string(), &*reply.text()), (status[..3].to_owned(), "no!"));
            }
        }
        assert_eq!((seen.accepted(), site.stop().applications_failed), (1, 0));
    }
}

#[test]
fn a_tunnel_without_a_byte_has_the_time_of_a_tunnel_and_no_other() {
    let (addr, seen) = echoing();
    let short = "head = \"1 s\", body = \"1 s\", send = \"1 s\", tunnel = \"3 s\"";
    let site = proxy(addr, &format!(", timeouts = {{ {short} }}"));
    let mut client = Client::new(site.addr);
    open(&mut client, "");
    client.until("first");
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(2200));
        client.send("still there");
        client.until("still there");
    }
    let ((rest, _), time) = timed(|| client.rest());
    assert!(rest.is_empty() && time > Duration::from_millis(2800) && time < Duration::from_secs(8), "{time:?}");
    wait_until(|| seen.open() == 0);
}

#[test]
fn a_client_that_takes_no_output_is_heard_all_the_same() {
    const BYTES: usize = 12 << 20;
    let (heard, all) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (own_heard, own_all) = (Arc::clone(&heard), Arc::clone(&all));
    let (addr, seen) = tcp(move |_, peer| {
        let (mut reader, mut writer) = peer.both_ways_of_a_tunnel(SWITCH);
        // It says more than all buffers hold, and hears meanwhile.
        let says = std::thread::spawn(move || send_long(&mut writer, BYTES));
        let mut block = vec![0; 64 << 10];
        while own_heard.load(Ordering::Relaxed) < BYTES {
            let count = std::io::Read::read(&mut reader, &mut block).expect("hears");
            assert!(count > 0, "it ends early");
            own_heard.fetch_add(count, Ordering::Relaxed);
        }
        own_all.store(true, Ordering::Relaxed);
        says.join().expect("no panic");
    });
    let site = site(&format!("proxy = \"http://{addr}\""), |options| {
        // While it says something it is not one that has stalled.
        options.timeouts = Timeouts { stall: Duration::from_secs(2), ..Timeouts::default() };
    });
    let mut client = Client::new(site.addr);
    open(&mut client, "");
    client.until("first");
    for _ in 0..6 {
        send_long(&mut client.stream, BYTES / 6);
        std::thread::sleep(Duration::from_millis(500));
    }
    wait_until(|| all.load(Ordering::Relaxed));
    assert_eq!(heard.load(Ordering::Relaxed), BYTES);
    // What was held back meanwhile comes, to the byte.
    receive_long(&mut client.stream, BYTES, usize::MAX);
    assert_eq!(client.rest(), (Vec::new(), false));
    wait_until(|| seen.open() == 0);
}

#[test]
fn no_time_of_http_ends_a_tunnel() {
    let (addr, seen) = echoing();
    let second = Duration::from_secs(1);
    let site = site(&format!("proxy = {{ to = \"http://{addr}\", timeouts = {{ idle = \"1 s\" }} }}"), |options| {
        options.timeouts = Timeouts {
            head: second,
            idle: second,
            body: second,
            stall: second,
            application: second,
            ..Timeouts::default()
        };
    });
    let mut client = Client::new(site.addr);
    open(&mut client, "");
    client.until("first");
    for number in 0..2 {
        std::thread::sleep(Duration::from_millis(2600));
        client.send(format!("<{number}>"));
        client.until(&format!("<{number}>"));
    }
    drop(client);
    wait_until(|| seen.open() == 0);
    assert_eq!(site.stop().timeouts, 0);
}

#[test]
fn tunnels_stay_while_the_configuration_is_replaced() {
    let (addr, seen) = echoing();
    let site = proxy(addr, "");
    let mut client = Client::new(site.addr);
    open(&mut client, "");
    client.until("first");
    let other = super::scripted::telling().0;
    for number in 0..5 {
        let upstream = if number % 2 == 0 { other } else { addr };
        let text = format!("[[host]]\nproxy = \"http://{upstream}\"\n");
        let mut options = weir_server::parse_configuration(&text, site.directory.path()).expect("a configuration");
        options.listen = vec![site.addr.into()];
        site.reloader.reload(options);
        wait_until(|| site.get("/").text().contains("GET") == (number % 2 == 0));
        client.send(format!("<{number}>"));
        client.until(&format!("<{number}>"));
    }
    client.send("bye");
    assert_eq!(client.rest(), (b"end".to_vec(), false));
    wait_until(|| seen.open() <= 1);
}

#[test]
fn a_server_that_stops_lets_a_tunnel_go_on_until_its_time_to_stop_is_over() {
    let (addr, seen) = echoing();
    let site = site(&format!("proxy = \"http://{addr}\""), |options| {
        options.timeouts = Timeouts { stop: Duration::from_secs(2), ..Timeouts::default() };
    });
    let (mut ends, mut stays) = (Client::new(site.addr), Client::new(site.addr));
    open(&mut ends, "");
    open(&mut stays, "");
    site.begin_stop();
    std::thread::sleep(Duration::from_millis(500));
    for client in [&mut ends, &mut stays] {
        client.send("still");
        client.until("firststill");
    }
    ends.send("bye");
    assert_eq!(ends.rest().0, b"end");
    let (_, time) = timed(|| stays.rest());
    assert!(time < Duration::from_secs(5), "{time:?}");
    let counts = site.stop();
    assert_eq!(counts.stop_aborted, 1, "{counts:?}");
    wait_until(|| seen.open() == 0);
}

#[test]
fn a_stop_ends_at_once_where_no_tunnel_is_open() {
    let (addr, seen) = echoing();
    let site = proxy(addr, "");
    assert_eq!(site.get("/").text(), "no tunnel");
    let (_, time) = timed(|| site.stop());
    assert!(time < Duration::from_secs(5), "{time:?}");
    wait_until(|| seen.open() == 0);
}
