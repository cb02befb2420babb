//! Rules about a client's link at work in `weir serve`: sound goes on in another variant soon after the client has become
//! slower or faster, and of two clients behind networks of their own the slow one gets the small variant.
// scripts/test: waits, long

mod support;

use serde_json::Value;
use socket2::{Domain, Socket, Type};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::served::Served;
use support::{alone, output};
use weir_testkit::namespace::{Namespace, ip, tc};
use weir_testkit::require;

/// What a rate has to change by within this time.
const SOON: Duration = Duration::from_secs(2);
/// Bytes a second that the client takes.
const FAST: f64 = 200_000.0;
const SLOW: f64 = 20_000.0;

/// Has ffmpeg make sound.
fn make(folder: &Path, name: &str, options: &[&str]) {
    let source = "aevalsrc=0.3*sin(440*2*PI*t)+0.2*random(0)*sin(t):s=44100:c=stereo:d=240";
    let made = Command::new("ffmpeg")
        .args(["-v", "error", "-y", "-f", "lavfi", "-i", source])
        .args(options)
        .arg(folder.join(name))
        .status();
    assert!(made.expect("ffmpeg runs").success(), "{name}");
}

/// How many samples a decoder makes of a file, about which it has nothing to say.
fn samples(file: &Path) -> u64 {
    let decode = ["-f", "s16le", "-ac", "1", "-"];
    let run = Command::new("ffmpeg").args(["-v", "error", "-i"]).arg(file).args(decode).output().expect("ffmpeg runs");
    assert!(run.status.success() && run.stderr.is_empty(), "{}", String::from_utf8_lossy(&run.stderr));
    run.stdout.len() as u64 / 2
}

/// One of the counts that the server tells.
fn count(folder: &Path, name: &str) -> u64 {
    let mut stream = UnixStream::connect(folder.join("admin.sock")).expect("connects");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("writes");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("reads");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).expect("a count");
    line.parse::<f64>().expect("a number") as u64
}

/// A response in chunks, taken at a rate, and what it has brought.
struct Listener {
    stream: TcpStream,
    /// Bytes a second.
    rate: f64,
    next: Instant,
    /// What came of the present chunk, and how much there is of it, behind which two bytes end the line.
    got: Vec<u8>,
    left: usize,
}

impl Listener {
    fn ask(port: u16, path: &str) -> Self {
        // A small window, so that the kernel does not take for the client what that has not asked for, and segments of the
        // size that networks have, as a window opens by whole ones.
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.set_recv_buffer_size(6 << 10).expect("sets");
        socket.set_tcp_mss(1448).expect("sets");
        socket.connect(&SocketAddr::from(([127, 0, 0, 1], port)).into()).expect("connects");
        let mut stream: TcpStream = socket.into();
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
        let mut listener = Self { stream, rate: FAST, next: Instant::now(), got: Vec::new(), left: 0 };
        let head = listener.until(b"\r\n\r\n").to_ascii_lowercase();
        assert!(head.contains("transfer-encoding: chunked"), "{head}");
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

    /// Takes up to a thousand bytes when it is time for them. `false`: there are no more.
    fn take(&mut self) -> bool {
        if self.left == 0 {
            let line = self.until(b"\r\n");
            self.left = usize::from_str_radix(line.trim(), 16).expect("a length");
            if self.left == 0 {
                self.until(b"\r\n");
                return false;
            }
        }
        std::thread::sleep(self.next.saturating_duration_since(Instant::now()));
        let mut some = vec![0; self.left.min(1000)];
        self.stream.read_exact(&mut some).expect("more");
        self.next = self.next.max(Instant::now() - Duration::from_millis(50))
            + Duration::from_secs_f64(some.len() as f64 / self.rate);
        self.left -= some.len();
        self.got.extend(some);
        if self.left == 0 {
            assert_eq!(self.until(b"\r\n"), "\r\n");
        }
        true
    }

    /// Takes what comes at another rate until the server has gone on with another file so often; how long that took.
    fn until_swapped(&mut self, rate: f64, folder: &Path, swaps: u64) -> Duration {
        (self.rate, self.next) = (rate, Instant::now());
        let since = Instant::now();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let counting = scope.spawn(|| {
                while count(folder, "weir_swaps_total") < swaps && since.elapsed() < 10 * SOON {
                    std::thread::sleep(Duration::from_millis(20));
                }
                is_over.store(true, Ordering::Relaxed);
                since.elapsed()
            });
            while !is_over.load(Ordering::Relaxed) {
                assert!(self.take(), "it is over");
            }
            counting.join().expect("no panic")
        })
    }
}

/// Decisions that were recorded, and those of a replay that are others; rules with how often they fired in it.
fn replayed(folder: &Path) -> Value {
    let paths = ["swap.policy", "log.jsonl"].map(|name| folder.join(name).display().to_string());
    let said = output(&["replay", "--json", &paths[0], &paths[1]]).stdout;
    let said = String::from_utf8_lossy(&said).into_owned();
    let last: Value = serde_json::from_str(said.lines().next_back().expect("a summary")).expect("JSON");
    assert_eq!((&last["recorded"]["others"], &last["recorded"]["lines_lost"]), (&0.into(), &0.into()), "{last}");
    last
}

/// A watch of all requests for sound, and its lines; it has begun.
fn watch(folder: &Path, requests: usize) -> (Child, BufReader<ChildStdout>) {
    let admin = format!("unix:{}", folder.join("admin.sock").display());
    let options = ["watch", "--admin", &admin, "--json", "--show", "rules", "-n", &requests.to_string(), "path=/a.*"];
    let mut child = support::weir().args(options).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped"));
    let mut begin = String::new();
    lines.read_line(&mut begin).expect("reads");
    // Loops learn of the watcher a moment later.
    std::thread::sleep(Duration::from_millis(200));
    (child, lines)
}

/// Each swap is told with its time, and the rules that decided.
fn is_told(line: &str) {
    let told: Value = serde_json::from_str(line).expect("JSON");
    let rules = &told["rules"];
    let swapped: Vec<&str> =
        rules["swapped"].as_array().into_iter().flatten().filter_map(|one| one["variant"].as_str()).collect();
    assert_eq!(swapped, ["small", "full"], "{told:#}");
    let at_us = |number: usize| rules["swapped"][number]["at_us"].as_u64().expect("a time");
    assert!(1_500_000 <= at_us(0) && at_us(0) < at_us(1) && at_us(1) <= told["whole_us"].as_u64().expect("a time"));
    let decided: Vec<&str> =
        rules["decided"].as_array().into_iter().flatten().filter_map(|one| one["rule"].as_str()).collect();
    assert_eq!((decided, &rules["undetermined"]), (vec!["drop", "back"], &Value::Null), "{told:#}");
}

/// Between two ticks: of a link that changes the rules are told when it is read.
#[test]
fn sound_is_swapped_within_two_seconds_when_the_client_becomes_slower_and_when_it_becomes_faster() {
    if require::program("ffmpeg").is_none() {
        return;
    }
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    fs::create_dir(folder.join("site")).expect("creates");
    let policy = "atom \"/*\" { variants full > small;\n\
        rule drop: during if avg bandwidth@client over 500ms < 400kbps then next down limit 9 per 60s;\n\
        rule back: during if avg bandwidth@client over 500ms > 800kbps then next up limit 9 per 60s; }\n";
    fs::write(folder.join("swap.policy"), policy).expect("writes");
    let args = ["--policy", "swap.policy", "--tick", "10s", "--decisions", "log.jsonl", "--admin", "unix:admin.sock"];
    let mut served = Served::start(folder, &args, "site");
    let (mut watcher, mut watched) = watch(folder, 2);
    let mp3 = ["-c:a", "libmp3lame", "-b:a"];
    let aac = ["-c:a", "aac", "-b:a"];
    for (number, (ending, codec, frame)) in (0..).zip([("mp3", mp3, 1152), ("aac", aac, 1024)]) {
        let plain = folder.join("site").join(format!("a.{ending}"));
        make(&folder.join("site"), &format!("a.{ending}"), &[&codec[..], &["192k"]].concat());
        make(&folder.join("site"), &format!("a.small.{ending}"), &[&codec[..], &["48k"]].concat());
        let before = 2 * number;
        let mut listener = Listener::ask(served.port, &format!("/a.{ending}"));
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(1500) {
            assert!(listener.take());
        }
        assert_eq!(count(folder, "weir_swaps_total"), before, "it was fast until now");
        let slower = listener.until_swapped(SLOW, folder, before + 1);
        let faster = listener.until_swapped(FAST, folder, before + 2);
        eprintln!("{ending}: in the small one after {slower:?}, in the full one after {faster:?}");
        assert!(slower < SOON && faster < SOON, "{ending}: {slower:?} and {faster:?}");
        listener.rate = 1e9;
        while listener.take() {}
        let mut line = String::new();
        watched.read_line(&mut line).expect("reads");
        is_told(&line);
        let received = folder.join(format!("got.{ending}"));
        fs::write(&received, &listener.got).expect("writes");
        let (lasts, expected) = (samples(&received), samples(&plain));
        assert!(lasts.abs_diff(expected) <= frame, "{lasts} samples in place of {expected}: {ending}");
    }
    assert!(watcher.wait().expect("it ends").success());
    served.signal(libc::SIGTERM);
    assert!(served.child.wait().expect("it ends").success());
    let last = replayed(folder);
    for rule in ["drop", "back"] {
        let of = last["rules"].as_array().expect("rules").iter().find(|one| one["name"] == rule).expect("the rule");
        assert_eq!(of["fired"], 2, "{last}");
    }
    let log = fs::read_to_string(folder.join("log.jsonl")).expect("a recording");
    let looks = log.lines().filter(|line| line.contains("\"look\":")).count();
    assert!(looks > 20, "{looks} looks");
}

fn connect(address: &str) -> TcpStream {
    let address: SocketAddr = format!("{address}:8080").parse().expect("an address");
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(10)).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
    stream
}

/// What the content of the film begins with.
fn fetch(stream: &mut TcpStream) -> u8 {
    stream.write_all(b"GET /film.mp4 HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("text").to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
    let mut body = vec![0; length.parse().expect("a number")];
    stream.read_exact(&mut body).expect("the content");
    // Another look at the link is due then.
    std::thread::sleep(Duration::from_millis(150));
    body[0]
}

/// Bits a second that the filter lets through.
const FILTER_BPS: u32 = 400_000;

#[test]
fn of_two_clients_the_slow_one_gets_the_small_variant_and_the_fast_one_the_large_one_by_a_policy() {
    // SAFETY: the call takes nothing.
    let is_root = unsafe { libc::geteuid() } == 0;
    let may = require::or_skip(is_root, "needs root, to make network namespaces");
    if may.is_none() || require::program("ip").is_none() || require::program("tc").is_none() {
        return;
    }
    let _turn = alone();
    let (slow, fast) = (Namespace::new("fit-slow"), Namespace::new("fit-fast"));
    let servers = Namespace::new("fit-servers");
    for (clients, name, net) in [(&slow, "slow", "10.9.5"), (&fast, "fast", "10.9.6")] {
        let (near, far) = (format!("{name}0"), format!("{name}1"));
        let link = ["link", "add", &near, "type", "veth", "peer", "name", &far, "netns", clients.name()];
        ip(&[&["-n", servers.name()], &link[..]].concat());
        for (namespace, device, host) in [(servers.name(), &near, 1), (clients.name(), &far, 2)] {
            ip(&["-n", namespace, "address", "add", &format!("{net}.{host}/24"), "dev", device]);
            ip(&["-n", namespace, "link", "set", device, "up"]);
            ip(&["-n", namespace, "link", "set", device, "gso_max_segs", "1"]);
        }
    }
    let rate = format!("{FILTER_BPS}bit");
    let filter = ["root", "tbf", "rate", &rate, "burst", "3200", "limit", "30000"];
    tc(&[&["-n", servers.name(), "qdisc", "add", "dev", "slow0"][..], &filter].concat());
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    fs::create_dir(folder.join("site")).expect("creates");
    fs::write(folder.join("site/film.mp4"), vec![b'f'; 150_000]).expect("writes");
    fs::write(folder.join("site/film.small.mp4"), vec![b's'; 20_000]).expect("writes");
    let policy = "atom \"/*\" { variants full > small;\n\
        rule fit: at start if bandwidth@client < 1Mbps then use small else use full; }\n";
    fs::write(folder.join("swap.policy"), policy).expect("writes");
    let args = ["--policy", "swap.policy", "--decisions", "log.jsonl", "--listen", "0.0.0.0:8080"];
    let mut served = servers.within(|| Served::start(folder, &args, "site"));
    let first = |address: &str| fetch(&mut connect(address));
    let (of_slow, of_fast) = std::thread::scope(|both| {
        let of_slow = both.spawn(|| slow.within(|| [first("10.9.5.1"), first("10.9.5.1")]));
        let of_fast = both.spawn(|| fast.within(|| [first("10.9.6.1"), first("10.9.6.1")]));
        (of_slow.join().expect("no panic"), of_fast.join().expect("no panic"))
    });
    assert_eq!(of_slow, [b'f', b's'], "of a new client of a new network nothing is known");
    assert_eq!(of_fast, [b'f', b'f']);
    // The filter goes, and with it what made the client slow: small files show it, too.
    tc(&["-n", servers.name(), "qdisc", "del", "dev", "slow0", "root"]);
    let back = slow.within(|| {
        let mut stream = connect("10.9.5.1");
        [(); 2].map(|()| fetch(&mut stream))
    });
    assert_eq!(back, [b's', b'f'], "it has its way back");
    served.signal(libc::SIGTERM);
    assert!(served.child.wait().expect("it ends").success());
    let last = replayed(folder);
    assert!(last["rules"][0]["fired"].as_u64() >= Some(1), "{last}");
}
