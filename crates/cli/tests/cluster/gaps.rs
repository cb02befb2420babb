//! How long a client waits while its session moves, beside one whose session stays: `make measure-moves`. It is no part of
//! `make test`: its figures are those of an idle machine.

use crate::stand::{PATIENCE, SERVICE, Stand};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How many moves of each kind of session.
const MOVES: &str = "WEIR_MEASURE_MOVES";
const MOVES_USUAL: usize = 200;
/// Clients read so much a second.
const BYTES_PER_S: f64 = 25e6;
const PIECE_BYTES: usize = 16 << 10;
/// A response that lasts longer than all moves is not needed: the client asks again over the same connection.
const CONTENT_BYTES: u32 = 64 << 20;
/// A session moves again no sooner.
const REST: Duration = Duration::from_millis(550);
/// A wait of a client counts to the move that it begins within.
const WITHIN: Duration = Duration::from_millis(100);

/// When a client waited for bytes, and for how long.
type Waits = Vec<(Instant, Duration)>;

/// Reads responses at the rate until told otherwise.
fn read_on(mut stream: TcpStream, is_over: &AtomicBool, waits: &Mutex<Waits>) {
    let request = format!("GET /large.bin HTTP/1.1\r\nHost: {SERVICE}\r\n\r\n");
    let mut piece = vec![0; PIECE_BYTES];
    let (begun, mut read) = (Instant::now(), 0);
    while !is_over.load(Ordering::Relaxed) {
        stream.write_all(request.as_bytes()).expect("asks");
        // The head is some hundred bytes, so that this much is surely of this response.
        let (mut left, mut is_first) = (CONTENT_BYTES as usize, true);
        while left > 0 {
            let asked = Instant::now();
            let wanted = left.min(PIECE_BYTES);
            let count = stream.read(&mut piece[..wanted]).expect("reads");
            assert!(count > 0, "the connection ends in the middle");
            if !is_first {
                waits.lock().expect("whole").push((asked, asked.elapsed()));
            }
            let head = if is_first {
                piece[..count].windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4
            } else {
                0
            };
            (left, read, is_first) = (left + head - count, read + count, false);
            let due = Duration::from_secs_f64(read as f64 / BYTES_PER_S);
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
        }
    }
}

fn percentiles_ms(mut of: Vec<f64>) -> String {
    of.sort_by(f64::total_cmp);
    let at = |percent: usize| of[(of.len() * percent).div_ceil(100).max(1) - 1];
    format!("{:.2} ms (p50), {:.2} ms (p99), {:.2} ms at most", at(50), at(99), at(100))
}

/// The longest wait of a client that began within so much of each of these times.
fn longest_at(waits: &Waits, times: &[Instant]) -> Vec<f64> {
    let near = |at: &Instant, when: &Instant| *when + Duration::from_millis(5) >= *at && *when <= *at + WITHIN;
    let longest = |at: &Instant| waits.iter().filter(|(when, _)| near(at, when)).map(|(_, wait)| *wait).max();
    times.iter().filter_map(longest).map(|wait| wait.as_secs_f64() * 1e3).collect()
}

/// Two clients read at the rate; the session of one moves.
fn moves_of_a_reader(stand: &Stand, moves: usize) {
    let service: SocketAddr = format!("{SERVICE}:80").parse().expect("an address");
    let streams =
        [(); 2].map(|()| stand.client.within(|| TcpStream::connect_timeout(&service, PATIENCE).expect("connects")));
    let port = streams[0].local_addr().expect("bound").port();
    let is_over = AtomicBool::new(false);
    let waits = [const { Mutex::new(Vec::new()) }; 2];
    let (mut freezes, mut times) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        for (stream, waits) in streams.into_iter().zip(&waits) {
            let is_over = &is_over;
            scope.spawn(move || read_on(stream, is_over, waits));
        }
        let mut at = stand.holder(port, 80);
        let deadline = Instant::now() + PATIENCE + REST * 4 * u32::try_from(moves).expect("some");
        while times.len() < moves && Instant::now() < deadline {
            std::thread::sleep(REST);
            let (begun, to) = (Instant::now(), at % stand.nodes.len() + 1);
            let output = stand.shift(at, to, port, 80);
            if output.status.success() {
                at = to;
                freezes.push(crate::soak::freeze_ms(&String::from_utf8_lossy(&output.stdout)));
                times.push(begun);
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let [moved, stayed] = waits.map(|waits| waits.into_inner().expect("whole"));
    assert_eq!(times.len(), moves, "moves of HTTP/1.1 in the clear");
    eprintln!("{moves} moves of HTTP/1.1 in the clear, while its client reads {} MB/s:", BYTES_PER_S / 1e6);
    eprintln!("  the session stood still for {}", percentiles_ms(freezes));
    eprintln!("  its client's longest wait at a move: {}", percentiles_ms(longest_at(&moved, &times)));
    eprintln!("  at the same times one that stays waited: {}", percentiles_ms(longest_at(&stayed, &times)));
}

/// A client of another kind reads at the rate, and its session moves.
fn moves_of_curl(stand: &Stand, what: &str, (options, service_port, first_port): (&[&str], u16, u16), moves: usize) {
    let scheme = if service_port == 443 { "https" } else { "http" };
    let url = format!("{scheme}://{SERVICE}/large.bin");
    let rate = (BYTES_PER_S as u64).to_string();
    let mut freezes = Vec::new();
    for port in first_port..first_port + 1_000 {
        if freezes.len() >= moves {
            break;
        }
        let mut client = stand.curl(port, &[options, &["--limit-rate", &rate, "-o", "/dev/null", &url]].concat());
        client.stdout.take();
        let mut at = stand.holder(port, service_port);
        while client.try_wait().expect("is ours").is_none() {
            std::thread::sleep(REST);
            let to = at % stand.nodes.len() + 1;
            let output = stand.shift(at, to, port, service_port);
            if output.status.success() {
                at = to;
                freezes.push(crate::soak::freeze_ms(&String::from_utf8_lossy(&output.stdout)));
            }
        }
        assert!(client.wait().expect("is ours").success(), "{what}: a download broke");
    }
    eprintln!("{} moves of {what} at the same rate:", freezes.len());
    eprintln!("  the session stood still for {}", percentiles_ms(freezes));
}

#[test]
#[ignore = "make measure-moves runs it"]
fn moves_are_measured_on_an_idle_machine() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    let asked = std::env::var(MOVES).ok().map(|moves| moves.parse().expect("WEIR_MEASURE_MOVES is a number of moves"));
    let moves = asked.unwrap_or(MOVES_USUAL);
    let content: Vec<u8> = (0..CONTENT_BYTES).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let stand = Stand::new(2, &[("large.bin", &content)]);
    moves_of_a_reader(&stand, moves);
    moves_of_curl(&stand, "HTTP/1.1 over TLS 1.3", (&["--http1.1"], 443, 30_000), moves);
    moves_of_curl(&stand, "HTTP/2 over TLS 1.3", (&["--http2"], 443, 35_000), moves);
}
