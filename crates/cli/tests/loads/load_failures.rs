//! Every way in which a request can fail has a name of its own in what the command says, for people and for programs.
//!
//! What keeps the very first connection from being made ends the command in words; the names are for what happens to
//! single requests of a run.

use crate::support;

use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::Stdio;
use std::time::Duration;
use support::{alone, output, weir};
use weir_testkit::{Certificate, Faulty, Nginx, WeirServe, require};

/// Connections that are served well before a server begins to fail.
const GOOD: usize = 10;

/// A load as JSON.
fn json_of(arguments: &[&str]) -> Value {
    let output = output(&[&["load", "-q", "--json"], arguments].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// A load as text.
fn text_of(arguments: &[&str]) -> String {
    String::from_utf8_lossy(&output(&[&["load", "-q"], arguments].concat()).stdout).into_owned()
}

/// What the text says of errors.
fn errors_line(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix("  errors ")).unwrap_or_else(|| panic!("{text}")).trim()
}

#[test]
fn each_failure_of_a_server_has_its_name() {
    let _turn = alone();
    for (kind, name) in [
        // Several times: it may come before the connection is seen to be made, and after.
        ("reset", "reset"),
        ("reset", "reset"),
        ("reset", "reset"),
        ("reset", "reset"),
        ("reset", "reset"),
        ("garbage", "malformed"),
        ("close-in-body", "short_body"),
        ("truncated-chunked", "short_body"),
        ("never", "timeout"),
        ("long-length", "timeout"),
    ] {
        let server = Faulty::new("misbehave").args([kind]).start().expect("it starts");
        let arguments = ["-n", "4", "-c", "2", "--timeout", "200ms", &server.url("/")];
        let value = json_of(&arguments);
        assert_eq!((&value["errors"], &value["requests"]), (&json!({ name: 4 }), &json!(0)), "{kind}: {value:#}");
        let text = text_of(&arguments);
        assert_eq!(errors_line(&text), format!("{name}: 4"), "{kind}");
        assert!(text.contains("no request succeeded"), "{text}");
    }
}

/// Serves so many connections well, then goes on with the listener, whose address no other test uses.
fn serving(
    serve: impl Fn(TcpStream) + Send + 'static,
    then: impl FnOnce(TcpListener) + Send + 'static,
) -> (SocketAddr, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    let server = std::thread::spawn(move || {
        for _ in 0..GOOD {
            let (stream, _) = listener.accept().expect("a connection");
            serve(stream);
        }
        then(listener);
    });
    (address, server)
}

fn answer(mut stream: TcpStream) {
    let _read = stream.read(&mut [0; 1000]).expect("a request");
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").expect("an answer");
}

#[test]
fn a_server_that_is_gone_refuses() {
    let _turn = alone();
    for json in [true, false] {
        let (address, server) = serving(answer, drop);
        let url = format!("http://{address}/");
        let arguments = ["-n", "40", "-c", "1", "--no-keepalive", &url];
        if json {
            let value = json_of(&arguments);
            assert!(value["errors"]["refused"].as_u64() >= Some(20), "{value:#}");
            // A connection that the kernel took before the listener was gone is reset.
            let reset = value["errors"]["reset"].as_u64().unwrap_or(0);
            let kinds = value["errors"].as_object().map_or(0, serde_json::Map::len);
            assert!(reset <= 1 && kinds as u64 == 1 + reset, "{value:#}");
        } else {
            let text = text_of(&arguments);
            let errors = errors_line(&text);
            assert!(errors.starts_with("refused: ") || errors.starts_with("reset: 1, refused: "), "{text}");
        }
        server.join().expect("it served");
        let closed = output(&["load", "-q", "--json", "-n", "4", &url]);
        let told = String::from_utf8_lossy(&closed.stderr);
        let value: Value = serde_json::from_slice(&closed.stdout).expect("JSON of what stopped it");
        assert_eq!((&value["error"]["name"], &value["requests"]), (&"refused".into(), &0.into()), "{value:#}");
        assert!(value["error"]["words"].as_str().is_some_and(|words| told.contains(words)), "{value:#}");
        assert!(closed.status.code() == Some(1) && told.contains("refused") && told.contains("ss -ltn"), "{told}");
    }
}

#[test]
fn a_server_that_accepts_no_more_is_a_connect_timeout() {
    let _turn = alone();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    let server = std::thread::spawn(move || {
        for number in 1..=GOOD {
            let (stream, _) = listener.accept().expect("a connection");
            if number == GOOD {
                // Before the client has its answer, and asks for the next connection.
                // SAFETY: the call takes numbers only; a listener may be told anew how many connections it keeps.
                assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
            }
            answer(stream);
        }
        let _either = stopped.recv_timeout(Duration::from_secs(30));
    });
    let value =
        json_of(&["-n", "14", "-c", "4", "--no-keepalive", "--timeout", "300ms", &format!("http://{address}/")]);
    drop(stop);
    server.join().expect("it served");
    // The kernel keeps one connection for it, which then waits for its answer.
    assert!(value["errors"]["connect_timeout"].as_u64() >= Some(1), "{value:#}");
    let known = ["connect_timeout", "timeout"];
    assert!(value["errors"].as_object().is_some_and(|all| all.keys().all(|name| known.contains(&name.as_str()))));
}

/// Passes bytes on in both directions until one side ends.
fn pass_on(stream: TcpStream, to: SocketAddr) {
    let server = TcpStream::connect(to).expect("it is there");
    for one in [&stream, &server] {
        one.set_nodelay(true).expect("a socket");
    }
    let (mut stream_in, mut server_out) = (stream.try_clone().expect("a descriptor"), server.try_clone().expect("one"));
    std::thread::spawn(move || {
        // A connection that ends badly is the client's affair.
        let _ = std::io::copy(&mut stream_in, &mut server_out);
        let _ = server_out.shutdown(std::net::Shutdown::Write);
    });
    let (mut server_in, mut stream_out) = (server, stream);
    let _ = std::io::copy(&mut server_in, &mut stream_out);
    let _ = stream_out.shutdown(std::net::Shutdown::Both);
}

#[test]
fn tls_that_fails_has_its_name_and_its_reason() {
    let _turn = alone();
    let plain = WeirServe::new(env!("CARGO_BIN_EXE_weir")).start().expect("it starts");
    let spoken = output(&["load", "-q", "-n", "4", &plain.url("/").replace("http:", "https:")]);
    let told = String::from_utf8_lossy(&spoken.stderr);
    assert!(spoken.status.code() == Some(1) && told.contains("TLS") && told.contains("http://"), "{told}");
    if require::nginx().is_none() {
        return;
    }
    let certificate = Certificate::self_signed().expect("a certificate");
    let nginx = Nginx::new().tls(&certificate).start().expect("it starts");
    let to: SocketAddr = ([127, 0, 0, 1], nginx.port).into();
    let unknown = output(&["load", "-q", "-n", "4", &nginx.url("/")]);
    let told = String::from_utf8_lossy(&unknown.stderr);
    assert!(unknown.status.code() == Some(1) && told.contains("certificate"), "{told}");
    for json in [true, false] {
        // First it is nginx, then a server that does not speak TLS.
        let (address, server) = serving(
            move |stream| pass_on(stream, to),
            |listener| {
                listener.set_nonblocking(true).expect("a socket");
                for _ in 0..500 {
                    if let Ok((stream, _)) = listener.accept() {
                        stream.set_nonblocking(false).expect("a socket");
                        answer(stream);
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
            },
        );
        let url = format!("https://{address}/1k.txt");
        let arguments = ["-n", "20", "-c", "1", "--no-keepalive", "--insecure", "--timeout", "5s", &url];
        if json {
            let value = json_of(&arguments);
            assert!(value["errors"]["tls"].as_u64() >= Some(5), "{value:#}");
            assert!(value["errors"].as_object().is_some_and(|errors| errors.len() == 1), "{value:#}");
            assert!(value["reasons"][0]["error"] == "tls" && value["reasons"][0]["words"].is_string(), "{value:#}");
        } else {
            let text = text_of(&arguments);
            assert!(errors_line(&text).starts_with("tls: ") && text.contains(" tls: "), "{text}");
        }
        server.join().expect("it served");
    }
}

/// Sets how many descriptors another process may have, and returns how many it could have before.
fn limit_descriptors(process: u32, most: u64) -> u64 {
    let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let process = process as libc::pid_t;
    // SAFETY: `before` is a valid place for the result, and nothing is set.
    assert_eq!(unsafe { libc::prlimit(process, libc::RLIMIT_NOFILE, std::ptr::null(), &raw mut before) }, 0);
    let wanted = libc::rlimit { rlim_cur: most, ..before };
    // SAFETY: `wanted` outlives the call, and stays within the hard limit; no result is asked for.
    let set = unsafe { libc::prlimit(process, libc::RLIMIT_NOFILE, &raw const wanted, std::ptr::null_mut()) };
    assert_eq!(set, 0, "a child's limit may be set");
    before.rlim_cur
}

#[test]
fn descriptors_that_run_out_are_this_hosts_fault() {
    let _turn = alone();
    let server = WeirServe::new(env!("CARGO_BIN_EXE_weir")).start().expect("it starts");
    let few = output(&["load", "-q", "-n", "4", "-c", "2000000000", &server.url("/")]);
    let told = String::from_utf8_lossy(&few.stderr);
    assert!(few.status.code() != Some(0) && told.contains("connections"), "{told}");
    for json in [true, false] {
        let mut command = weir();
        command.args(["load", "-q", "-d", "2500ms", "-c", "10", "--no-keepalive"]).arg(server.url("/1k.txt"));
        if json {
            command.arg("--json");
        }
        let load = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        // Its connections are there, and then it asks for a while.
        let open = || std::fs::read_dir(format!("/proc/{}/fd", load.id())).map_or(0, Iterator::count);
        let begun = std::time::Instant::now();
        while open() < 10 {
            assert!(begun.elapsed() < Duration::from_secs(20), "it opens no connections");
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(400));
        // Open descriptors stay, but for a while the process gets no new one.
        let most = limit_descriptors(load.id(), 3);
        std::thread::sleep(Duration::from_millis(300));
        limit_descriptors(load.id(), most);
        let output = load.wait_with_output().expect("it ends");
        if json {
            let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            assert!(value["errors"]["no_descriptors"].as_u64() > Some(0), "{value:#}");
            assert!(value["requests"].as_u64() > Some(100), "{value:#}");
        } else {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(errors_line(&text).contains("no_descriptors: ") && text.contains("ulimit -n"), "{text}");
        }
    }
}
