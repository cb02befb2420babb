//! Clients that are slow on purpose, as slowhttptest makes them: they are let go, and others are served meanwhile.

mod harness;

use harness::{Site, certificate};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn healthy_clients_are_served_while_slow_ones_hold_on() {
    let large = vec![7; 200_000];
    let certificates = tempfile::tempdir().expect("a directory");
    let site = Site::start(&[("a.txt", b"hello"), ("large.bin", &large)], |options| {
        options.limits.connections_max = 400;
        options.timeouts.head = Duration::from_secs(1);
        options.timeouts.body = Duration::from_secs(1);
        options.timeouts.stall = Duration::from_secs(1);
        options.certificates = vec![certificate::make(certificates.path(), "a", &["a"])];
        options.listen_clear = vec!["127.0.0.1:0".parse().expect("an address")];
    });
    let clear = site.addrs[1];
    for (kind, url) in [
        // Heads that never end, bodies that never come, ranges without number, responses that nobody reads.
        ("-H", format!("http://{clear}/a.txt")),
        ("-B", format!("http://{clear}/a.txt")),
        ("-R", format!("http://{clear}/large.bin")),
        ("-X", format!("http://{clear}/large.bin")),
        ("-H", format!("https://{}/a.txt", site.addr)),
    ] {
        let before = site.counters.read();
        let mut slow = Command::new("timeout")
            .args(["60", "slowhttptest", kind, "-c", "150", "-r", "150", "-i", "1", "-l", "4", "-p", "3"])
            .args(["-k", "3", "-w", "100", "-y", "200", "-n", "1", "-z", "10", "-x", "10", "-u", &url])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("slowhttptest starts; `make deps` installs it");
        harness::wait_until(|| site.counters.read().connections >= before.connections + 150);
        let (mut worst, mut asked) = (Duration::ZERO, 0);
        // Some give up at once, as nobody waits for their bodies.
        while slow.try_wait().expect("is ours").is_none() || asked < 10 {
            let start = Instant::now();
            let mut stream = harness::connect(clear);
            std::io::Write::write_all(&mut stream, b"GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                .expect("sends");
            assert!(harness::read_to_end(&mut stream).ends_with(b"\r\n\r\nhello"), "{kind}");
            worst = worst.max(start.elapsed());
            asked += 1;
            std::thread::sleep(Duration::from_millis(20));
        }
        // What they can do is keep the server a little busy, not keep others waiting for their timeouts.
        assert!(worst < Duration::from_secs(5), "{kind}: {asked} requests, the worst took {worst:?}");
        let counts = site.counters.read();
        assert_eq!(counts.connections_refused, before.connections_refused, "{kind}");
        if kind == "-H" {
            assert!(
                counts.timeouts + counts.connections_broken > before.timeouts + before.connections_broken,
                "{kind}: {counts:?}"
            );
        }
    }
}
