//! What the wire carries to a slow client, beside a client whose network is limited by a token-bucket filter.
//!
//! Two network namespaces are joined by two pairs of virtual Ethernet devices. Over the first a client of ours reads by a
//! limit of its own; over the second any client reads as fast as it can, and `tc tbf` limits what the device sends. The
//! servers note how much was acknowledged at which time.
// scripts/test: punctual

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_load::{Control, Options, StopRule, Url};
use weir_testkit::namespace::{Namespace, ip, tc};

const BYTES_PER_S: f64 = 3360.0;
/// Content of a segment of Ethernet with timestamps, and the bytes of its frame, as the filter counts them.
const SEGMENT_BYTES: f64 = 1448.0;
const FRAME_BYTES: f64 = 1514.0;
const RUN: Duration = Duration::from_secs(12);

/// Bytes that the other side of a connection has acknowledged.
fn acknowledged(stream: &TcpStream) -> u64 {
    let mut info = [0u64; 32];
    let mut length = size_of_val(&info) as libc::socklen_t;
    // SAFETY: `info` and `length` outlive the call, and the length is that of `info`.
    let result = unsafe {
        let value = info.as_mut_ptr().cast();
        libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, value, &raw mut length)
    };
    assert!(result == 0 && length >= 128, "{}", std::io::Error::last_os_error());
    // tcpi_bytes_acked lies at 120 (linux/tcp.h); it counts the SYN, too.
    info[15].saturating_sub(1)
}

/// Answers one request with more than can come, and notes what was acknowledged when: (seconds from the first, bytes).
fn serve(listener: &TcpListener, over: &AtomicBool) -> Vec<(f64, f64)> {
    let (mut stream, _) = listener.accept().expect("a client");
    assert!(stream.read(&mut [0; 4096]).expect("a request") > 0);
    stream.set_nonblocking(true).expect("a socket");
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
    stream.write_all(head).expect("room");
    let (mut begin, mut noted, content) = (None, Vec::new(), [b'x'; 4096]);
    while !over.load(Ordering::Relaxed) {
        // Full, or the client has gone.
        let _ = stream.write(&content);
        let bytes = acknowledged(&stream);
        if bytes > 0 {
            let begin = *begin.get_or_insert_with(Instant::now);
            noted.push((begin.elapsed().as_secs_f64(), bytes as f64));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    noted
}

/// What was acknowledged at a time.
fn at(noted: &[(f64, f64)], time_s: f64) -> f64 {
    noted[noted.partition_point(|(noted_s, _)| *noted_s <= time_s).saturating_sub(1)].1
}

#[test]
fn the_wire_carries_what_a_token_bucket_lets_through() {
    // SAFETY: the call takes nothing.
    let is_root = unsafe { libc::geteuid() } == 0;
    let may = weir_testkit::require::or_skip(is_root, "needs root, to make network namespaces");
    if may.is_none() || weir_testkit::require::program("ip").is_none() || weir_testkit::require::program("tc").is_none()
    {
        return;
    }
    let (servers, clients) = (Namespace::new("servers"), Namespace::new("clients"));
    for (pair, net) in [("ours", "10.9.1"), ("tbf", "10.9.2")] {
        let (near, far) = (format!("{pair}0"), format!("{pair}1"));
        ip(&[
            "-n",
            servers.name(),
            "link",
            "add",
            &near,
            "type",
            "veth",
            "peer",
            "name",
            &far,
            "netns",
            clients.name(),
        ]);
        for (namespace, device, host) in [(servers.name(), &near, 1), (clients.name(), &far, 2)] {
            ip(&["-n", namespace, "address", "add", &format!("{net}.{host}/24"), "dev", device]);
            ip(&["-n", namespace, "link", "set", device, "up"]);
            // Segments are to be those of the wire, as the filter sees them.
            ip(&["-n", namespace, "link", "set", device, "gso_max_segs", "1"]);
        }
    }
    // The content is to come at the limit, so the frames come at more.
    let rate = format!("{:.0}bit", BYTES_PER_S * 8.0 * FRAME_BYTES / SEGMENT_BYTES);
    let filter = ["root", "tbf", "rate", &rate, "burst", "1600", "limit", "1000000"];
    tc(&[&["-n", servers.name(), "qdisc", "add", "dev", "tbf0"][..], &filter].concat());

    let over = AtomicBool::new(false);
    let control = Control::default();
    let listeners = servers.within(|| {
        ["10.9.1.1:80", "10.9.2.1:80"].map(|address| TcpListener::bind(address).expect("an address of its own"))
    });
    let [ours, reference] = std::thread::scope(|scope| {
        let noted = listeners.each_ref().map(|listener| scope.spawn(|| serve(listener, &over)));
        scope.spawn(|| {
            clients.within(|| {
                let mut stream = TcpStream::connect("10.9.2.1:80").expect("a server");
                stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("room");
                stream.set_read_timeout(Some(Duration::from_secs(3))).expect("a time above 0");
                let mut buffer = [0; 65536];
                let mut is_open = true;
                while is_open && !over.load(Ordering::Relaxed) {
                    is_open = stream.read(&mut buffer).is_ok_and(|count| count > 0);
                }
            });
        });
        scope.spawn(|| {
            let mut options = Options::new(Url::parse("http://10.9.1.1/").expect("a URL"));
            options.connections = 1;
            options.stop = StopRule::Duration(RUN);
            options.slow.link.read_bytes_per_s = Some(BYTES_PER_S);
            clients.within(|| weir_load::run(options, &control).map(drop)).expect("a run");
        });
        std::thread::sleep(RUN);
        over.store(true, Ordering::Relaxed);
        control.stop();
        noted.map(|thread| thread.join().expect("no panic"))
    });

    let link = weir_load::Link { read_bytes_per_s: Some(BYTES_PER_S), ..weir_load::Link::default() };
    let (kernel, own) = link.receive_buffers().expect("it is limited");
    let bound = (kernel + own) as f64 + SEGMENT_BYTES;
    let times = || (1..110).map(|step| f64::from(step) / 10.0);
    let above = times().map(|time_s| at(&ours, time_s) - BYTES_PER_S * time_s);
    let apart = times().map(|time_s| at(&ours, time_s) - at(&reference, time_s));
    let range = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(value), most.max(value)))
    };
    let (above, apart) = (range(&mut above.into_iter()), range(&mut apart.into_iter()));
    println!(
        "acknowledged beyond {BYTES_PER_S} B/s: {:.0} to {:.0} bytes; beside the token bucket: {:.0} to {:.0} bytes; bound \
         {bound} bytes; after 10.9 s {:.0} and {:.0}",
        above.0,
        above.1,
        apart.0,
        apart.1,
        at(&ours, 10.9),
        at(&reference, 10.9)
    );
    assert!(above.0 > -SEGMENT_BYTES && above.1 <= bound, "{above:?}, bound {bound}");
    assert!(apart.0.abs().max(apart.1.abs()) <= bound, "{apart:?}, bound {bound}");
}
