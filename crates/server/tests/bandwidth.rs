//! Two clients side by side, behind networks of their own: the slow one gets the small variant, the fast one the large
//! one.
// scripts/test: waits

mod harness;

use harness::{Reply, read_reply};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_server::{Advice, Adviser, Link, Options, Question, Server};
use weir_testkit::namespace::{Namespace, ip, tc};
use weir_testkit::require;

/// Tells a server to stop, even if the test panics before.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Has clients below a bandwidth get the small variant; where it is not known, what the rule has for that.
#[derive(Debug, Default)]
struct Fit {
    seen: Mutex<Vec<(IpAddr, Option<f64>)>>,
}

impl Adviser for Fit {
    fn governs(&self, _path: &str) -> bool {
        true
    }

    fn begin(&self, question: &Question<'_>) -> Advice {
        let bps = question.link.bandwidth_bps;
        self.seen.lock().expect("no panic").push((question.client, bps));
        let variant = if bps.is_some_and(|bps| bps < 1e6) { "small" } else { "full" };
        Advice { variant: Some(variant.into()), ..Advice::default() }
    }

    fn during(&self, _connection: u64, _link: Link) -> Option<Arc<str>> {
        None
    }

    fn end(&self, _connection: u64, _ticket: u64, _bytes: u64, _failed: bool) {}
}

fn get(addr: SocketAddr) -> Reply {
    let mut stream = TcpStream::connect_timeout(&addr, Duration::from_secs(10)).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("sets");
    stream.write_all(b"GET /film.mp4 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sends");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("receives");
    Reply::parse(&bytes).0
}

/// Bits a second that the filter lets through.
const SLOW_BPS: f64 = 400_000.0;

#[test]
fn a_slow_client_gets_the_small_variant_and_a_fast_one_beside_it_the_large_one() {
    // SAFETY: the call takes nothing.
    let is_root = unsafe { libc::geteuid() } == 0;
    let may = require::or_skip(is_root, "needs root, to make network namespaces");
    if may.is_none() || require::program("ip").is_none() || require::program("tc").is_none() {
        return;
    }
    let (servers, slow, fast) = (Namespace::new("servers"), Namespace::new("slow"), Namespace::new("fast"));
    for (clients, name, net) in [(&slow, "slow", "10.9.3"), (&fast, "fast", "10.9.4")] {
        let (near, far) = (format!("{name}0"), format!("{name}1"));
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
            ip(&["-n", namespace, "address", "add", &format!("{net}.{}/24", host + 100), "dev", device]);
            ip(&["-n", namespace, "link", "set", device, "up"]);
            ip(&["-n", namespace, "link", "set", device, "gso_max_segs", "1"]);
        }
    }
    let rate = format!("{SLOW_BPS:.0}bit");
    let filter = ["root", "tbf", "rate", &rate, "burst", "3200", "limit", "30000"];
    tc(&[&["-n", servers.name(), "qdisc", "add", "dev", "slow0"][..], &filter].concat());

    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("film.mp4"), vec![b'f'; 150_000]).expect("writes");
    std::fs::write(directory.path().join("film.small.mp4"), vec![b's'; 20_000]).expect("writes");
    let fit = Arc::new(Fit::default());
    let adviser: Arc<dyn Adviser> = fit.clone();
    let mut options = Options::new(directory.path());
    options.listen = vec!["0.0.0.0:8080".parse().expect("an address")];
    options.loops = 1;
    options.adviser = Some(adviser);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Else what fails here would wait for the server for ever.
        let _stops = StopAtEnd(&stop);
        let server = servers.within(|| Server::bind(options).expect("binds"));
        let thread = scope.spawn(|| servers.within(|| server.run(&stop).expect("ends well")));
        let fetch = |stream: &mut TcpStream| {
            stream.write_all(b"GET /film.mp4 HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
            let reply = read_reply(stream, false);
            // A look is due then.
            std::thread::sleep(Duration::from_millis(150));
            reply
        };
        let addr = |net: &str| SocketAddr::from((net.parse::<std::net::Ipv4Addr>().expect("an address"), 8080));
        let (of_slow, of_fast) = std::thread::scope(|both| {
            let of_slow = both.spawn(|| slow.within(|| [get(addr("10.9.3.1")), get(addr("10.9.3.1"))]));
            let of_fast = fast.within(|| {
                let mut stream = TcpStream::connect(addr("10.9.4.1")).expect("connects");
                [(); 3].map(|()| fetch(&mut stream))
            });
            (of_slow.join().expect("no panic"), of_fast)
        });
        let first = |reply: &Reply| reply.body[0];
        assert_eq!(first(&of_slow[0]), b'f', "of a new client of a new network nothing is known");
        assert_eq!(first(&of_slow[1]), b's');
        assert!(of_fast.iter().all(|reply| first(reply) == b'f'));
        // Another address of the same network is expected to be as slow.
        ip(&["-n", slow.name(), "route", "replace", "10.9.3.0/24", "dev", "slow1", "src", "10.9.3.102"]);
        assert_eq!(slow.within(|| first(&get(addr("10.9.3.1")))), b's');
        // The filter goes, and with it what made the client slow: small files show it, too.
        tc(&["-n", servers.name(), "qdisc", "del", "dev", "slow0", "root"]);
        let back = slow.within(|| {
            let mut stream = TcpStream::connect(addr("10.9.3.1")).expect("connects");
            [(); 2].map(|()| fetch(&mut stream))
        });
        assert_eq!((first(&back[0]), first(&back[1])), (b's', b'f'), "it has its way back");
        let seen = fit.seen.lock().expect("no panic").clone();
        let of = |client: &str| {
            let client: IpAddr = client.parse().expect("an address");
            seen.iter().filter(move |(of, _)| *of == client).map(|(_, bps)| *bps).collect::<Vec<_>>()
        };
        assert_eq!(of("10.9.3.2")[0], None);
        // Content comes at less than what the filter lets through of frames, and half the truth is told by far.
        let known = of("10.9.3.2")[1].expect("known by then");
        assert!((SLOW_BPS / 2.0..SLOW_BPS * 1.5).contains(&known), "{known}");
        assert!(of("10.9.3.102")[0].is_some_and(|bps| bps == known || (SLOW_BPS / 2.0..SLOW_BPS * 1.5).contains(&bps)));
        assert!(of("10.9.4.2")[1..].iter().all(|bps| bps.is_some_and(|bps| bps > 1e7)), "{seen:?}");
        stop.store(true, Ordering::Relaxed);
        thread.join().expect("no panic");
    });
}

#[test]
fn who_takes_small_files_only_has_a_round_trip_by_address_and_network() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("film.mp4"), b"small").expect("writes");
    let mut options = Options::new(directory.path());
    options.listen = vec!["127.0.0.1:0".parse().expect("an address")];
    options.loops = 1;
    let adviser: Arc<dyn Adviser> = Arc::new(Fit::default());
    options.adviser = Some(adviser);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stops = StopAtEnd(&stop);
        let server = Server::bind(options).expect("binds");
        let (addr, insight) = (server.local_addrs()[0], server.insight());
        scope.spawn(|| server.run(&stop).expect("ends well"));
        (0..3).for_each(|_| drop(get(addr)));
        let [addresses, networks] = insight.expected(10);
        for (of, place) in [(&addresses, None), (&networks, Some("127.0.0.0/24"))] {
            let one = &of.freshest[0];
            assert!(one.rtt_s.is_some_and(|rtt_s| rtt_s > 0.0 && rtt_s < 0.2) && one.bandwidth_bps.is_none(), "{of:?}");
            assert!((of.kept, of.rtt_s.is_some(), of.bandwidth_bps) == (1, true, None), "{of:?}");
            assert!(place.is_none_or(|place| one.place == place), "{of:?}");
        }
        // Addresses are shown whole only if the log shows them whole.
        assert!(!addresses.freshest[0].place.contains("127"), "{addresses:?}");
        assert_eq!(insight.expected(10)[0].freshest[0].place, addresses.freshest[0].place, "a name stays");
    });
}

#[test]
fn content_that_is_wanted_is_described_and_digested_beside_the_loops() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("film.mp4"), b"abc").expect("writes");
    let mut options = Options::new(directory.path());
    options.listen = vec!["127.0.0.1:0".parse().expect("an address")];
    let mut log = weir_server::AccessLog::new(weir_server::LogTarget::File(directory.path().join("log")));
    log.addresses = true;
    options.access_log = Some(log);
    let adviser: Arc<dyn Adviser> = Arc::new(Fit::default());
    options.adviser = Some(adviser);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stops = StopAtEnd(&stop);
        let server = Server::bind(options).expect("binds");
        let (addr, insight) = (server.local_addrs()[0], server.insight());
        scope.spawn(|| server.run(&stop).expect("ends well"));
        drop(get(addr));
        assert_eq!(insight.described("/film.mp4"), None, "it was not asked for before");
        let described = |bytes: u64| {
            let begin = std::time::Instant::now();
            loop {
                insight.want(&["/film.mp4", "/other"]);
                drop(get(addr));
                let known = insight.described("/film.mp4").filter(|known| known.bytes == bytes);
                if let Some(digest) = known.and_then(|known| known.digest) {
                    return digest.to_string();
                }
                assert!(begin.elapsed() < Duration::from_secs(30), "{known:?}");
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        // From FIPS 180-4's examples.
        assert_eq!(described(3), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        // Other content is described anew; of no bytes the digest is known, too.
        std::fs::write(directory.path().join("film.mp4"), b"").expect("writes");
        assert_eq!(described(0), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(insight.described("/other"), None);
        insight.want(&[]);
        assert_eq!(insight.described("/film.mp4"), None, "what is not wanted is not kept");
        assert_eq!(insight.expected(10)[0].freshest[0].place, "127.0.0.1", "as in the log");
    });
}
