//! Sound switches to another variant in the middle of a response, and decoders read on without an error.

use crate::harness;

use harness::{Site, read_reply, wait_until};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_server::{Advice, Adviser, Link, Question};
use weir_testkit::require;

/// Begins with a variant, and wants another one when it is told to, or when the client takes less than so many bits a
/// second.
#[derive(Debug)]
struct Swapper {
    first: &'static str,
    then: Mutex<Option<&'static str>>,
    /// The client takes less: go on in `small`.
    below_bps: f64,
    swapped: Mutex<Option<(Instant, f64)>>,
}

impl Adviser for Swapper {
    fn governs(&self, path: &str) -> bool {
        !path.contains(".small.")
    }

    fn begin(&self, _question: &Question<'_>) -> Advice {
        Advice { variant: Some(self.first.into()), ..Advice::default() }
    }

    fn during(&self, _connection: u64, link: Link) -> Option<Arc<str>> {
        if let Some(then) = *self.then.lock().expect("no panic") {
            return Some(then.into());
        }
        let bps = link.bandwidth_bps.filter(|bps| *bps < self.below_bps)?;
        self.swapped.lock().expect("no panic").get_or_insert((Instant::now(), bps));
        Some("small".into())
    }

    fn end(&self, _connection: u64, _ticket: u64, _bytes: u64, _failed: bool) {}
}

fn swapper(first: &'static str, then: Option<&'static str>) -> Arc<Swapper> {
    Arc::new(Swapper { first, then: Mutex::new(then), below_bps: 0.0, swapped: Mutex::default() })
}

/// Has ffmpeg make sound of so many seconds.
fn make(folder: &Path, name: &str, seconds: u32, options: &[&str]) {
    let source = format!("aevalsrc=0.3*sin(440*2*PI*t)+0.2*random(0)*sin(t):s=44100:c=stereo:d={seconds}");
    let status = Command::new("ffmpeg")
        .args(["-v", "error", "-y", "-f", "lavfi", "-i", &source])
        .args(options)
        .arg(folder.join(name))
        .status()
        .expect("ffmpeg runs");
    assert!(status.success(), "{name}");
}

/// What a decoder makes of a file, which it has nothing to say about: samples of 16 bits of all channels together.
fn decoded(file: &Path) -> Vec<u8> {
    let run = Command::new("ffmpeg")
        .args(["-v", "error", "-i"])
        .arg(file)
        .args(["-f", "s16le", "-ac", "1", "-"])
        .output()
        .expect("ffmpeg runs");
    assert!(run.status.success() && run.stderr.is_empty(), "{}", String::from_utf8_lossy(&run.stderr));
    run.stdout
}

fn samples(file: &Path) -> u64 {
    decoded(file).len() as u64 / 2
}

/// Asks and reads the head; what comes is chunked.
fn ask(site: &Site, path: &str) -> TcpStream {
    let mut stream = connect(site);
    ask_in(&mut stream, path);
    stream
}

fn connect(site: &Site) -> TcpStream {
    // A small window, so that the kernel does not take for the client what that has not asked for.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(6 << 10).expect("sets");
    // Of the size that networks have: a window opens by whole segments.
    socket.set_tcp_mss(1448).expect("sets");
    socket.connect(&site.addr.into()).expect("connects");
    let stream: TcpStream = socket.into();
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
    stream
}

/// The same in a connection that there is.
fn ask_in(stream: &mut TcpStream, path: &str) {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("text").to_ascii_lowercase();
    assert!(head.contains("transfer-encoding: chunked") && !head.contains("content-length"), "{head}");
    assert!(head.contains("cache-control: no-store") && !head.contains("etag"), "{head}");
}

/// One chunk; none at the end.
fn chunk(stream: &mut impl Read) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\r\n") {
        stream.read_exact(&mut byte).expect("a line");
        line.push(byte[0]);
    }
    let len = usize::from_str_radix(std::str::from_utf8(&line).expect("text").trim(), 16).expect("a length");
    let mut bytes = vec![0; len + 2];
    stream.read_exact(&mut bytes).expect("a chunk");
    assert!(bytes.ends_with(b"\r\n"));
    bytes.truncate(len);
    (len > 0).then_some(bytes)
}

/// Takes a thousand bytes, then nothing for 50 ms.
struct Slowly<'a>(&'a mut TcpStream);

impl Read for Slowly<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if out.len() > 2 {
            std::thread::sleep(Duration::from_millis(50));
        }
        let most = out.len().min(1000);
        self.0.read(&mut out[..most])
    }
}

fn rest(stream: &mut TcpStream) -> Vec<u8> {
    std::iter::from_fn(|| chunk(stream)).flatten().collect()
}

const MP3: [(&str, &[&str]); 2] = [
    ("a.mp3", &["-c:a", "libmp3lame", "-b:a", "192k", "-metadata", "title=hello"]),
    ("a.small.mp3", &["-c:a", "libmp3lame", "-b:a", "48k"]),
];
const AAC: [(&str, &[&str]); 2] =
    [("a.aac", &["-c:a", "aac", "-b:a", "160k"]), ("a.small.aac", &["-c:a", "aac", "-b:a", "48k"])];

#[test]
fn without_a_swap_it_is_the_file_to_the_byte() {
    if require::program("ffmpeg").is_none() {
        return;
    }
    let site = start(swapper("full", None));
    for (name, options) in [MP3[0], AAC[0], ("v.mp3", &["-c:a", "libmp3lame", "-q:a", "4"][..])] {
        make(site.directory.path(), name, 5, options);
        let file = std::fs::read(site.directory.path().join(name)).expect("reads");
        let mut stream = ask(&site, &format!("/{name}"));
        assert!(rest(&mut stream) == file, "{name}");
        // A range is of the file as ever, and another client version gets the length as ever.
        let reply = site.exchange(format!("GET /{name} HTTP/1.0\r\n\r\n").as_bytes());
        assert!(reply.ends_with(&file) && String::from_utf8_lossy(&reply[..300]).contains("Content-Length"));
    }
    site.write("b.mp3", b"no sound at all");
    assert_eq!(site.get("/b.mp3").field("content-length"), Some("15"));
    assert_eq!(site.counters.read().swaps, 0);
}

#[test]
fn sound_that_was_swapped_is_decoded_without_a_word_and_lasts_as_long() {
    if require::program("ffmpeg").is_none() {
        return;
    }
    for (files, frame) in [(MP3, 1152), (AAC, 1024)] {
        for (first, then) in [("full", "small"), ("small", "full")] {
            let told = swapper(first, None);
            let site = start(told.clone());
            for (name, options) in files {
                make(site.directory.path(), name, 40, options);
            }
            let path = site.directory.path().join(files[0].0);
            let expected = samples(&path);
            let mut stream = ask(&site, &format!("/{}", files[0].0));
            let mut got = Vec::new();
            // Some way into it, at another place each time.
            for _ in 0..10 {
                got.extend(chunk(&mut stream).expect("more"));
            }
            *told.then.lock().expect("no panic") = Some(then);
            std::thread::sleep(Duration::from_millis(150));
            got.extend(rest(&mut stream));
            assert_eq!(site.counters.read().swaps, 1, "{path:?} {first}");
            let received = site.directory.path().join(if frame == 1152 { "got.mp3" } else { "got.aac" });
            std::fs::write(&received, &got).expect("writes");
            let sizes = files.map(|(name, _)| std::fs::metadata(path.with_file_name(name)).expect("there").len());
            assert!((sizes[1]..sizes[0]).contains(&(got.len() as u64)), "{} of {sizes:?}", got.len());
            let lasts = samples(&received);
            assert!(lasts.abs_diff(expected) <= frame, "{lasts} samples in place of {expected}: {path:?} {first}");
            if frame == 1152 {
                // It is the first variant to the sample, then the other one; between them lie the frame that leads over
                // and what decoders blend. AAC's noise is drawn anew in each decoding.
                let [full, small] = files.map(|(name, _)| decoded(&path.with_file_name(name)));
                let (before, after) = if first == "full" { (full, small) } else { (small, full) };
                let got = decoded(&received);
                let same = got.iter().zip(&before).take_while(|(a, b)| a == b).count();
                // At the same places, as the last frame may be cut at another one.
                let differs = |at: &usize| got.get(*at) != after.get(*at);
                let same_again = (0..got.len().min(after.len())).rev().find(differs).map_or(0, |at| at + 1);
                let between = same_again.saturating_sub(same) as u64 / 2;
                assert!(same > 0 && same_again < got.len() - 100_000 && between <= 4 * frame, "{same} {same_again}");
            }
        }
    }
}

/// Not half a megabyte later: what is made lies with the client, or nearly.
#[test]
fn a_later_request_of_a_connection_is_swapped_as_soon() {
    if require::program("ffmpeg").is_none() {
        return;
    }
    let told = swapper("full", None);
    let site = start(told.clone());
    for (name, options) in MP3 {
        make(site.directory.path(), name, 40, options);
    }
    std::fs::write(site.directory.path().join("a.txt"), "hello").expect("writes");
    let mut stream = connect(&site);
    // By io_uring, where there is one, from the second request on.
    for _ in 0..3 {
        write!(stream, "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
        assert_eq!(read_reply(&mut stream, false).body, b"hello");
    }
    ask_in(&mut stream, "/a.mp3");
    let mut got = chunk(&mut stream).expect("more").len();
    *told.then.lock().expect("no panic") = Some("small");
    std::thread::sleep(Duration::from_millis(150));
    got += rest(&mut stream).len();
    // 960 KB are the whole, and 240 KB the small one.
    assert_eq!(site.counters.read().swaps, 1);
    assert!(got < 400_000, "{got}");
}

#[test]
fn another_format_is_not_gone_on_with() {
    if require::program("ffmpeg").is_none() {
        return;
    }
    let site = start(swapper("full", Some("small")));
    make(site.directory.path(), "a.mp3", 60, MP3[0].1);
    make(site.directory.path(), "a.small.mp3", 60, &["-c:a", "libmp3lame", "-b:a", "48k", "-ac", "1"]);
    let file = std::fs::read(site.directory.path().join("a.mp3")).expect("reads");
    let mut stream = ask(&site, "/a.mp3");
    let mut got = chunk(&mut stream).expect("more");
    std::thread::sleep(Duration::from_millis(150));
    got.extend(rest(&mut stream));
    assert!(got == file);
    let counts = site.counters.read();
    assert_eq!((counts.swaps, counts.swaps_refused), (0, 1));
}

/// The client takes megabytes a second, and from the middle on 20 KB.
#[test]
fn a_client_that_becomes_slow_gets_the_small_variant_within_two_seconds() {
    if require::program("ffmpeg").is_none() {
        return;
    }
    let told =
        Arc::new(Swapper { first: "full", then: Mutex::default(), below_bps: 400_000.0, swapped: Mutex::default() });
    let site = start(told.clone());
    for (name, options) in MP3 {
        make(site.directory.path(), name, 120, options);
    }
    let expected = samples(&site.directory.path().join("a.mp3"));
    let mut stream = ask(&site, "/a.mp3");
    let mut got = Vec::new();
    while got.len() < 700_000 {
        got.extend(chunk(&mut stream).expect("more"));
        std::thread::sleep(Duration::from_millis(4));
    }
    assert!(told.swapped.lock().expect("no panic").is_none(), "it was fast until now");
    let slow_since = Instant::now();
    while site.counters.read().swaps == 0 {
        assert!(slow_since.elapsed() < Duration::from_secs(20), "{:?}", told.swapped);
        got.extend(chunk(&mut Slowly(&mut stream)).expect("more"));
    }
    let (at, bps) = told.swapped.lock().expect("no panic").expect("the adviser asked for a swap");
    let after = at.duration_since(slow_since);
    eprintln!("told after {after:?} at {bps:.0} bit/s; swapped after {:?}", slow_since.elapsed());
    assert!(slow_since.elapsed() < Duration::from_secs(2), "{:?}", slow_since.elapsed());
    got.extend(rest(&mut stream));
    let received = site.directory.path().join("got.mp3");
    std::fs::write(&received, &got).expect("writes");
    assert!(samples(&received).abs_diff(expected) <= 1152);
    wait_until(|| site.counters.read().requests == 1);
}

fn start(told: Arc<Swapper>) -> Site {
    Site::start(&[], |options| options.adviser = Some(told))
}
