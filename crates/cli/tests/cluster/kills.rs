//! Nodes that lose their power again and again under many downloads: `make soak-kills`. Whether each response has a replica
//! by then depends on how busy the machine is, so this is no part of `make test`; `crashes.rs` is.

use crate::stand::{self, PATIENCE, SERVICE, Stand};
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

/// How many times.
const KILLS: &str = "WEIR_SOAK_KILLS";
const KILLS_USUAL: u32 = 200;
const CLIENTS: usize = 50;
const NODES: usize = 3;
const CONTENT_BYTES: u32 = 6 << 20;
/// The link to the clients has so much for each, in Mbit/s: a download takes some six seconds.
const SHARE_MBIT: usize = 8;
/// A response that is older has a replica: 20 ms until it is due, and what a busy machine takes to send it.
const YOUNG: Duration = Duration::from_millis(70);
const FIRST_PORT: u16 = 20_000;
const PORTS: u16 = 40_000;

/// A download that failed.
struct Broken {
    begun: Instant,
    /// When the client had sent its request: by then it had connected, and TLS was agreed on. Else when it failed.
    asked: Instant,
    /// What curl said.
    why: String,
}

/// What the clients saw.
#[derive(Default)]
struct Seen {
    is_over: AtomicBool,
    next: AtomicU16,
    downloads: Mutex<u64>,
    broken: Mutex<Vec<Broken>>,
    kills: Mutex<Vec<Instant>>,
}

impl Seen {
    /// Failures of downloads which were old enough for a replica when a node was killed, or far from any kill.
    fn inexcusable(&self) -> Vec<String> {
        let kills = self.kills.lock().expect("whole");
        let broken = self.broken.lock().expect("whole");
        let is_young = |it: &Broken| kills.iter().any(|kill| it.begun <= *kill && *kill < it.asked + YOUNG);
        broken.iter().filter(|it| !is_young(it)).map(|it| it.why.clone()).collect()
    }
}

/// One download after the other, every second client over TLS.
fn client(stand: &RwLock<Stand>, number: usize, content: &[u8], seen: &Seen) {
    let scheme = ["http", "https"][number % 2];
    let url = format!("{scheme}://{SERVICE}/large.bin");
    while !seen.is_over.load(Ordering::Relaxed) {
        let port = FIRST_PORT + seen.next.fetch_add(1, Ordering::Relaxed) % PORTS;
        let at = stand.read().expect("whole");
        let got = at.path(&format!("got-{number}"));
        let asked = ["-w", "%{time_total} %{time_pretransfer}"];
        let options = ["--http1.1", "--max-time", "60", "-o", got.to_str().expect("is text"), &url];
        let (begun, curl) = (Instant::now(), at.curl(port, &[asked.as_slice(), &options].concat()));
        drop(at);
        let output = curl.wait_with_output().expect("is ours");
        let asked = asked_at(Instant::now(), &String::from_utf8_lossy(&output.stdout));
        let received = fs::read(&got).unwrap_or_default();
        let _ = fs::remove_file(&got);
        if output.status.success() {
            assert!(received == content, "{scheme}: {} bytes, which are others", received.len());
            *seen.downloads.lock().expect("whole") += 1;
        } else {
            assert!(content.starts_with(&received), "{scheme}: other bytes came before it broke");
            let why = format!(
                "{scheme} of port {port} after {:.1?}, asked after {:.1?}, with {} bytes: {}",
                begun.elapsed(),
                asked - begun,
                received.len(),
                String::from_utf8_lossy(&output.stderr).trim_end()
            );
            seen.broken.lock().expect("whole").push(Broken { begun, asked, why });
        }
    }
}

/// When a client asked that has just ended: by what curl says, which begins to count once it runs.
fn asked_at(ended: Instant, told: &str) -> Instant {
    let numbers = told.split(' ').map(|number| number.parse().expect("curl says seconds"));
    let [total_s, asked_s]: [f64; 2] = numbers.collect::<Vec<f64>>().try_into().expect("both times");
    // Zero where it did not come so far.
    if asked_s == 0.0 { ended } else { ended - Duration::from_secs_f64(total_s - asked_s) }
}

fn replicas(stand: &Stand, node: usize, field: &str) -> u64 {
    let folder = stand.path(&format!("n{node}"));
    let json = stand::weir(&["cluster", "status", folder.to_str().expect("is text"), "--json"], None);
    let json: serde_json::Value = serde_json::from_str(&json).expect("is JSON");
    json["status"]["replicas"][field].as_u64().unwrap_or_else(|| panic!("{field} in {json}"))
}

/// Kills nodes in turn; how many sessions were taken over, and for how long the longest was held at each kill.
fn kill_all(stand: &RwLock<Stand>, kills: u32, clients: usize, seen: &Seen) -> (u64, Vec<u64>) {
    let (mut taken_over, mut held_us) = (0, Vec::new());
    let sum = |nodes: &[usize], field: &str| -> u64 {
        let at = stand.read().expect("whole");
        nodes.iter().map(|node| replicas(&at, *node, field)).sum()
    };
    for kill in 0..kills {
        let node = kill as usize % NODES + 1;
        let others: Vec<usize> = (1..=NODES).filter(|other| *other != node).collect();
        // All but a few are old enough, and some of them are here.
        wait_until("there are no replicas", seen, || sum(&[1, 2, 3], "kept") >= clients as u64 * 8 / 10);
        let before = sum(&others, "taken_over");
        let down = format!("node n{node} is down");
        let said = || stand.read().expect("whole").said("director").matches(&down).count();
        let earlier = said();

        seen.kills.lock().expect("whole").push(Instant::now());
        stand.write().expect("whole").power_off_node(node);
        wait_until("the director does not notice", seen, || said() > earlier);
        std::thread::sleep(Duration::from_millis(500));

        taken_over += sum(&others, "taken_over") - before;
        held_us.extend(others.iter().map(|other| sum(&[*other], "longest_us")).max());
        stand.write().expect("whole").power_on_node(node);
        let told = said_of_losses(&stand.read().expect("whole"));
        assert_eq!(seen.inexcusable(), Vec::<String>::new(), "at kill {}; {told}", kill + 1);
    }
    (taken_over, held_us)
}

/// The events of sessions that no node went on with, and of those that ended elsewhere.
fn said_of_losses(stand: &Stand) -> String {
    let events = (1..=NODES).map(|node| {
        let text = fs::read_to_string(stand.path(&format!("n{node}/events.jsonl"))).unwrap_or_default();
        let lost = text.lines().filter(|line| line.contains("\"not_taken_over\"") || line.contains("\"discarded\""));
        lost.map(|line| format!("n{node}: {line}\n")).collect::<String>()
    });
    events.collect()
}

fn wait_until(what: &str, seen: &Seen, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}; broken: {:?}", seen.inexcusable());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
#[ignore = "make soak-kills runs it"]
fn nodes_lose_their_power_again_and_again_and_kills_break_no_download() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    let asked = std::env::var(KILLS).ok().map(|kills| kills.parse().expect("WEIR_SOAK_KILLS is a number of kills"));
    let (kills, clients) = (asked.unwrap_or(KILLS_USUAL), CLIENTS);
    let content: Vec<u8> = (0..CONTENT_BYTES).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let stand = RwLock::new(Stand::new(NODES, &[("large.bin", &content)]));
    stand.read().expect("whole").slow_client(&format!("{}mbit", clients * SHARE_MBIT));
    let (seen, begun) = (Seen::default(), Instant::now());
    let (taken_over, mut held_us) = std::thread::scope(|scope| {
        for number in 0..clients {
            let (stand, content, seen) = (&stand, &content, &seen);
            scope.spawn(move || client(stand, number, content, seen));
        }
        // Where this fails, too, the clients end.
        let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| kill_all(&stand, kills, clients, &seen)));
        seen.is_over.store(true, Ordering::Relaxed);
        killed.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let told = said_of_losses(&stand.read().expect("whole"));
    assert_eq!(seen.inexcusable(), Vec::<String>::new(), "{told}");
    held_us.sort_unstable();
    let young = seen.broken.lock().expect("whole").len();
    eprintln!(
        "{kills} kills in {:.0?}: {taken_over} sessions were taken over, {} downloads are right to the byte, {young} broke \
         that were younger than {YOUNG:?}; the longest hold behind the detection {} us in the middle, {} us at most",
        begun.elapsed(),
        seen.downloads.lock().expect("whole"),
        held_us[held_us.len() / 2],
        held_us[held_us.len() - 1]
    );
    assert!(taken_over >= u64::from(kills), "{taken_over}");
}
