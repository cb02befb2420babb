//! What following ten thousand atoms and a thousand sessions takes, in a program of its own, whose allocator counts.
// scripts/test: waits

use std::alloc::{GlobalAlloc, Layout, System};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use weir_adapt::Policy;
use weir_adapt::forecast::Method;
use weir_policy_runtime::{PolicyRuntime, Setup};
use weir_server::{Link, Options, Question, Server};

/// The system's allocator, which knows how much is in use.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps to the contract of this function, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: likewise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

fn question(path: &str, connection: u64) -> Question<'_> {
    let client = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + connection as u32 % 5000));
    let link = Link { bandwidth_bps: Some(900e3), rtt_s: None };
    Question { path, client, connection, link, remembered: 0, takes_lease: false }
}

#[test]
fn ten_thousand_atoms_and_a_thousand_sessions_take_less_than_20_mb() {
    let before = IN_USE.load(Ordering::Relaxed);
    let mut policy = String::from("atom \"/**\" { variants full > small;\n");
    policy += "rule fit: at start if bandwidth@client < 100kbps then use small else use full;\n";
    policy += "rule drop: during if avg bandwidth@client over 4s < 80kbps then next down limit 3 per 60s;\n";
    policy +=
        "rule hot: every 5s if rate@atom predicted in 30s fit >= 0.8 > 500rps then shed 5% until rate@atom < 200rps; }";
    let (policy, _) = Policy::read("x.policy", &policy).unwrap_or_else(|mistakes| panic!("{policy}\n{mistakes:#?}"));
    let setup = Setup {
        here: "n1".to_owned(),
        tick: Duration::from_secs(1),
        method: Method::default(),
        is_recorded: false,
        judge_every: Duration::ZERO,
        has_reserve: false,
    };
    let folder = tempfile::tempdir().expect("a directory");
    let mut options = Options::new(folder.path());
    options.listen = vec!["127.0.0.1:0".parse().expect("an address")];
    let counters = Server::bind(options).expect("it binds").counters();
    let runtime = PolicyRuntime::new(policy, setup).expect("one node can do it");
    let mut ready = runtime.ready(counters, None, None, |_| ());
    let adviser = runtime.adviser();
    let begin = |path: &str, number: u64| (number, adviser.begin(&question(path, number)).ticket);
    let end = |(number, ticket)| adviser.end(number, ticket, 100, false);
    for _ in 0..20 {
        let page = |number| format!("/folder/page-{number}.html");
        // A thousand go on, the others are over.
        let going_on: Vec<_> = (0..1000).map(|number| begin(&page(number), 10_000 + number)).collect();
        (1000..10_000).for_each(|number| end(begin(&page(number), 10_000 + number)));
        ready.tick();
        going_on.into_iter().for_each(end);
        let going_on: Vec<_> = (0..1000).map(|number| begin(&page(1), 30_000 + number)).collect();
        ready.tick();
        let told = runtime.teller().json("/environment.json").expect("an answer");
        let shown: serde_json::Value = serde_json::from_str(&told).expect("JSON");
        assert_eq!((&shown["work"]["atoms"], &shown["work"]["sessions"]), (&10_000.into(), &1000.into()));
        going_on.into_iter().for_each(end);
    }
    let taken = IN_USE.load(Ordering::Relaxed) - before;
    println!("{taken} bytes");
    assert!(taken < 20_000_000, "{taken} bytes");
}
