//! Sound whose codec is swapped in the midst of its response moves between nodes, before that and after it.

use crate::stand::{CLIENT, PATIENCE, SERVICE, Stand};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// By how fast the client takes what it gets.
const POLICY: &str = "atom \"/*\" { variants full > small;\n\
    rule drop: during if avg bandwidth@client over 500ms < 400kbps then next down limit 9 per 60s;\n\
    rule back: during if avg bandwidth@client over 500ms > 800kbps then next up limit 9 per 60s; }\n";
/// Bytes a second.
const FAST: u64 = 200_000;
const SLOW: u64 = 20_000;
const AT_ONCE: u64 = 1_000_000_000;
const FRAMES: usize = 6_000;
/// Bytes of a frame, and the third byte of its head: at 192 and at 48 kbit/s, with 44.1 kHz.
const FULL: (usize, u8) = (626, 0xb0);
const SMALL: (usize, u8) = (156, 0x30);

/// MPEG-1 layer III of frames that need nothing of those before them, each with its number.
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

/// A client that takes what comes at a rate, which others set.
#[derive(Default)]
struct Listener {
    rate: AtomicU64,
    got: Mutex<Vec<u8>>,
    is_over: AtomicBool,
}

impl Listener {
    /// Begins in the client's namespace, from this port.
    fn start(stand: &Stand, port: u16) -> Arc<Self> {
        let listener = Arc::new(Self { rate: AtomicU64::new(FAST), ..Self::default() });
        let own = Arc::clone(&listener);
        let socket = stand.client.within(|| {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
            // A small window, so that the kernel does not take for the client what that has not asked for.
            socket.set_recv_buffer_size(6 << 10).expect("sets");
            let [own, service] = [format!("{CLIENT}:{port}"), format!("{SERVICE}:80")]
                .map(|address| address.parse::<SocketAddr>().expect("an address"));
            socket.bind(&own.into()).expect("binds");
            socket.connect(&service.into()).expect("connects");
            TcpStream::from(socket)
        });
        std::thread::spawn(move || own.listen(socket));
        listener
    }

    fn listen(&self, mut socket: TcpStream) {
        socket.set_read_timeout(Some(PATIENCE)).expect("sets");
        write!(socket, "GET /a.mp3 HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
        let head = until(&mut socket, "\r\n\r\n");
        assert!(head.contains("Transfer-Encoding: chunked"), "{head}");
        loop {
            let line = until(&mut socket, "\r\n");
            let mut left = usize::from_str_radix(line.trim(), 16).expect("a length");
            if left == 0 {
                return self.is_over.store(true, Ordering::Release);
            }
            let mut piece = Vec::new();
            while left > 0 {
                let mut some = vec![0; left.min(1_000)];
                socket.read_exact(&mut some).expect("more");
                std::thread::sleep(Duration::from_secs_f64(
                    some.len() as f64 / self.rate.load(Ordering::Relaxed) as f64,
                ));
                left -= some.len();
                piece.extend(some);
            }
            self.got.lock().expect("no panic").extend(piece);
            assert_eq!(until(&mut socket, "\r\n"), "\r\n");
        }
    }

    /// The variants of the frames that have come, in their order.
    fn frames(&self) -> Vec<(usize, u8)> {
        let got = self.got.lock().expect("no panic");
        let (mut at, mut frames) = (0, Vec::new());
        while at < got.len() {
            let variant = if got[at + 2] == FULL.1 { FULL } else { SMALL };
            frames.push(variant);
            at += variant.0;
        }
        frames
    }

    fn set(&self, rate: u64) {
        self.rate.store(rate, Ordering::Relaxed);
    }

    fn wait(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(Instant::now() < deadline, "{what}: {} frames", self.frames().len());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until so many more frames have come.
    fn wait_for_more(&self, frames: usize) {
        let before = self.frames().len();
        self.wait("more comes", |own| own.frames().len() >= before + frames);
    }
}

fn until(socket: &mut TcpStream, end: &str) -> String {
    let (mut text, mut byte) = (Vec::new(), [0]);
    while !text.ends_with(end.as_bytes()) {
        socket.read_exact(&mut byte).expect("more");
        text.push(byte[0]);
    }
    String::from_utf8(text).expect("text")
}

#[test]
fn sound_moves_before_and_after_its_codec_is_swapped() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    const PORT: u16 = 45_301;
    let (full, small) = (sound(FULL), sound(SMALL));
    let stand = Stand::ruled(&[("a.mp3", &full), ("a.small.mp3", &small)], POLICY);
    let client = Listener::start(&stand, PORT);
    client.wait_for_more(100);
    let shift = || {
        let from = stand.holder(PORT, 80);
        let moved = stand.shift(from, 3 - from, PORT, 80);
        assert!(moved.status.success(), "{}", String::from_utf8_lossy(&moved.stderr));
    };
    let last_is = |variant| move |own: &Listener| own.frames().last() == Some(&variant);
    shift();
    client.wait_for_more(200);
    assert!(client.frames().iter().all(|frame| *frame == FULL), "it was fast until now");
    client.set(SLOW);
    client.wait("the new node swaps", last_is(SMALL));
    shift();
    client.wait_for_more(100);
    client.set(FAST);
    client.wait("it has its way back", last_is(FULL));
    shift();
    client.wait_for_more(100);
    client.set(AT_ONCE);
    client.wait("it ends", |own| own.is_over.load(Ordering::Acquire));
    let frames = client.frames();
    assert_eq!(frames.len(), FRAMES);
    let mut expected = Vec::new();
    for (number, variant) in frames.iter().enumerate() {
        let file = if *variant == FULL { &full } else { &small };
        expected.extend_from_slice(&file[number * variant.0..(number + 1) * variant.0]);
    }
    assert!(*client.got.lock().expect("no panic") == expected, "each frame is the next one of its variant");
    let swaps: Vec<bool> = [1, 2].map(|node| !stand.metrics(node).contains("weir_swaps_total 0\n")).to_vec();
    assert_eq!(swaps, [true, true], "each node has swapped once at least");
}
