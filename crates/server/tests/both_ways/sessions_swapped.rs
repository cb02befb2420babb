//! Sound that may go on in another variant moves between two servers, before and after it does.

use crate::harness;
use crate::sessions::{shift, take};
use harness::{Site, wait_until};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_server::{AdoptError, Advice, Adviser, Link, Question, SessionSummary};

/// Frames of a variant, each with its number in it.
const FRAMES: usize = 4_000;
/// Bytes of a frame, and the third byte of its head: at 192 and at 48 kbit/s, with 44.1 kHz.
const FULL: (usize, u8) = (626, 0xb0);
const SMALL: (usize, u8) = (156, 0x30);

/// MPEG-1 layer III of frames that need nothing of those before them.
fn sound((bytes, head): (usize, u8)) -> Vec<u8> {
    let frame = |number: usize| {
        let mut frame: Vec<u8> = (0..bytes).map(|at| (at * 7 + number * 13) as u8 & 0x7f).collect();
        frame[..36].fill(0);
        frame[..4].copy_from_slice(&[0xff, 0xfb, head, 0x00]);
        frame[36..38].copy_from_slice(&[(number >> 7) as u8, number as u8 & 0x7f]);
        frame
    };
    (0..FRAMES).flat_map(frame).collect()
}

/// Wants a variant for all who listen, and counts what it is asked.
#[derive(Debug, Default)]
struct Wants {
    now: Mutex<Option<&'static str>>,
    begun: AtomicU64,
    ended: AtomicU64,
    failed: AtomicU64,
}

impl Wants {
    fn set(&self, name: &'static str) {
        *self.now.lock().expect("no panic") = Some(name);
    }
}

impl Adviser for Wants {
    fn governs(&self, path: &str) -> bool {
        path == "/a.mp3"
    }

    fn begin(&self, _question: &Question<'_>) -> Advice {
        let ticket = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        Advice { variant: Some("full".into()), ticket, ..Advice::default() }
    }

    fn during(&self, _connection: u64, _link: Link) -> Option<Arc<str>> {
        self.now.lock().expect("no panic").map(Arc::from)
    }

    fn end(&self, _connection: u64, ticket: u64, _bytes: u64, failed: bool) {
        assert!(ticket > 0, "it is the ticket of an advice");
        self.ended.fetch_add(1, Ordering::SeqCst);
        self.failed.fetch_add(failed.into(), Ordering::SeqCst);
    }
}

/// A client that takes little at a time.
struct Listener {
    stream: TcpStream,
    got: Vec<u8>,
    is_over: bool,
}

impl Listener {
    fn ask(addr: SocketAddr) -> Self {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
        socket.set_recv_buffer_size(6 << 10).expect("sets");
        // Of the size that networks have: a window opens by whole segments.
        socket.set_tcp_mss(1448).expect("sets");
        socket.connect(&addr.into()).expect("connects");
        let mut stream: TcpStream = socket.into();
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
        stream.write_all(b"GET /a.mp3 HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
        let mut listener = Self { stream, got: Vec::new(), is_over: false };
        let head = listener.until(b"\r\n\r\n");
        assert!(head.contains("Transfer-Encoding: chunked"), "{head}");
        listener
    }

    fn until(&mut self, end: &[u8]) -> String {
        let (mut text, mut byte) = (Vec::new(), [0]);
        while !text.ends_with(end) {
            self.stream.read_exact(&mut byte).expect("more");
            text.push(byte[0]);
        }
        String::from_utf8(text).expect("text")
    }

    /// Takes so many pieces, if there are so many.
    fn take(&mut self, pieces: usize) {
        for _ in 0..pieces {
            if self.is_over {
                return;
            }
            let line = self.until(b"\r\n");
            let len = usize::from_str_radix(line.trim(), 16).expect("a length");
            let mut piece = vec![0; len];
            self.stream.read_exact(&mut piece).expect("a piece");
            assert_eq!(self.until(b"\r\n"), "\r\n");
            self.got.extend(piece);
            self.is_over = len == 0;
        }
    }

    /// Takes pieces until this ends them, with pauses in which the adviser is asked.
    fn take_until(&mut self, of: (usize, u8)) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.frames().last().copied() != Some(of) {
            assert!(!self.is_over && Instant::now() < deadline, "{:?}", self.frames().last());
            std::thread::sleep(Duration::from_millis(20));
            self.take(1);
        }
    }

    /// The variants of the frames that have come, each of which is the next one of its variant, to the byte.
    fn frames(&self) -> Vec<(usize, u8)> {
        let (mut at, mut of) = (0, Vec::new());
        while at < self.got.len() {
            let variant = if self.got[at + 2] == FULL.1 { FULL } else { SMALL };
            of.push(variant);
            at += variant.0;
        }
        assert_eq!(at, self.got.len(), "whole frames");
        of
    }

    /// All frames have come once and in their order, each of one of the variants.
    fn has_all(&self, full: &[u8], small: &[u8]) {
        let frames = self.frames();
        let mut expected = Vec::new();
        for (number, variant) in frames.iter().enumerate() {
            let file = if *variant == FULL { full } else { small };
            expected.extend_from_slice(&file[number * variant.0..(number + 1) * variant.0]);
        }
        assert_eq!(frames.len(), FRAMES);
        assert!(self.got == expected, "{} bytes", self.got.len());
    }
}

fn sites(wants: [Option<&Arc<Wants>>; 2], files: &[(&str, &[u8])]) -> [Site; 2] {
    wants.map(|wants| {
        Site::start(files, |options| options.adviser = wants.map(|wants| Arc::clone(wants) as Arc<dyn Adviser>))
    })
}

#[test]
fn sound_moves_before_and_after_it_goes_on_in_another_variant() {
    let (full, small) = (sound(FULL), sound(SMALL));
    let wants = [Arc::<Wants>::default(), Arc::default()];
    let [first, second] = sites([Some(&wants[0]), Some(&wants[1])], &[("a.mp3", &full), ("a.small.mp3", &small)]);
    let mut client = Listener::ask(first.addr);
    client.take(20);
    shift(&first, &second, &client.stream);
    client.take(20);
    assert!(client.frames().iter().all(|frame| *frame == FULL));
    wants[1].set("small");
    client.take_until(SMALL);
    shift(&second, &first, &client.stream);
    client.take(20);
    assert_eq!(client.frames().last(), Some(&SMALL), "where nothing was decided anew, it goes on as it was");
    wants[0].set("full");
    client.take_until(FULL);
    // To and fro, at any place of a piece.
    for sites in [[&first, &second], [&second, &first]].iter().cycle().take(10) {
        shift(sites[0], sites[1], &client.stream);
        client.take(3);
    }
    wants[1].set("full");
    client.take(usize::MAX);
    client.has_all(&full, &small);
    // The connection is as before.
    shift(&first, &second, &client.stream);
    client.stream.write_all(b"GET /a.small.mp3 HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    assert!(harness::read_reply(&mut client.stream, false).body == small);
    wait_until(|| wants.iter().all(|wants| wants.begun.load(Ordering::SeqCst) == wants.ended.load(Ordering::SeqCst)));
    assert!(wants.iter().all(|wants| wants.failed.load(Ordering::SeqCst) == 0), "{wants:?}");
    let [first, second] = [first, second].map(Site::stop);
    // The second one swaps as its own wish was for the small one when the sound came back.
    assert!(first.swaps >= 1 && second.swaps >= 1, "{} {}", first.swaps, second.swaps);
    assert_eq!((first.requests, second.requests), (1, 1), "each is counted where it ended");
}

#[test]
fn what_is_not_swapped_is_the_file_wherever_it_is_sent_from() {
    let (full, small) = (sound(FULL), sound(SMALL));
    // The second server has no rules, and the rules of the first want nothing while the sound is there.
    let wants = Arc::<Wants>::default();
    let sites = sites([Some(&wants), None], &[("a.mp3", &full), ("a.small.mp3", &small)]);
    let mut client = Listener::ask(sites[0].addr);
    for number in 0..20 {
        client.take(1 + number % 3);
        shift(&sites[number % 2], &sites[(number + 1) % 2], &client.stream);
    }
    shift(&sites[0], &sites[1], &client.stream);
    wants.set("small");
    client.take(usize::MAX);
    assert!(client.got == full, "{} bytes", client.got.len());
    assert_eq!(sites.map(Site::stop).map(|counts| counts.swaps), [0, 0]);
}

#[test]
fn sound_that_is_another_one_at_the_other_server_stays() {
    let (full, small) = (sound(FULL), sound(SMALL));
    let wants = Arc::<Wants>::default();
    let rules = |options: &mut weir_server::Options| options.adviser = Some(Arc::clone(&wants) as Arc<dyn Adviser>);
    let first = Site::start(&[("a.mp3", &full), ("a.small.mp3", &small)], rules);
    let mut other = small.clone();
    other[5000] ^= 1;
    let second = Site::start(&[("a.mp3", &full), ("a.small.mp3", &other)], rules);
    let mut client = Listener::ask(first.addr);
    wants.set("small");
    client.take_until(SMALL);
    let taken = take(&first, &client.stream).expect("is given away");
    assert_eq!(SessionSummary::read(&taken.session).expect("is read").version, 3);
    let refused = second.control.session_bytes(&taken.session, 0, 0).expect_err("is refused");
    // It is the file of the variant that is sent, not the one that was asked for.
    assert!(matches!(&refused, AdoptError::OtherContent { path, .. } if path == "/a.small.mp3"), "{refused}");
    first.control.give_session_back(taken);
    client.take(usize::MAX);
    client.has_all(&full, &small);
}
