//! When advice that is leased ends, and where there is none.

use std::time::{Duration, Instant};
use weir_adapt::Policy;
use weir_adapt::forecast::Method;

use weir_policy_runtime::{PolicyRuntime, Ready, Setup};
use weir_server::{Link, Options, Question, Server};

const VARIANTS: &str = "atom \"/v/*\" { variants full > small;\n\
    rule fit: at start if bandwidth@client < 100kbps then use small else use full; }\n";

fn runtime(policy: &str) -> (PolicyRuntime, Ready) {
    let (policy, _) = Policy::read("x.policy", policy).expect("no mistakes");
    let setup = Setup {
        here: "n1".to_owned(),
        tick: Duration::from_secs(1),
        method: Method::default(),
        is_recorded: false,
        judge_every: Duration::from_secs(60),
        has_reserve: false,
    };
    let runtime = PolicyRuntime::new(policy, setup).expect("one node can do it");
    let folder = tempfile::tempdir().expect("a directory");
    let mut options = Options::new(folder.path());
    options.listen = vec!["127.0.0.1:0".parse().expect("an address")];
    let counters = Server::bind(options).expect("it binds").counters();
    let ready = runtime.ready(counters, None, None, |_| {});
    (runtime, ready)
}

/// One of the same connection, which may keep a lease.
fn question(path: &str, remembered: u64, bandwidth_bps: Option<f64>) -> Question<'_> {
    let client = std::net::IpAddr::from([192, 0, 2, 7]);
    let link = Link { bandwidth_bps, rtt_s: None };
    Question { path, client, connection: 7, link, remembered, takes_lease: true }
}

/// Without waiting for a tick.
#[test]
fn a_lease_ends_with_its_rules() {
    let (runtime, ready) = runtime(VARIANTS);
    let adviser = runtime.adviser();
    let mut known = 0;
    let lease = (0..3).filter_map(|_| {
        let advice = adviser.begin(&question("/v/film", known, Some(900e3)));
        known = advice.remember;
        adviser.end(7, advice.ticket, 1, false);
        advice.lease
    });
    let lease = lease.last().expect("a lease");
    assert!(lease.begin());
    lease.end(false);
    // Its first tick comes a second after it begins.
    let running = ready.start().expect("a thread");
    let (policy, _) = Policy::read("x.policy", &VARIANTS.replace("100kbps", "1Mbps")).expect("no mistakes");
    let before = adviser.edition();
    running.replace(policy).expect("one node can do it");
    while adviser.edition() == before {
        std::thread::yield_now();
    }
    let until = Instant::now() + Duration::from_millis(400);
    while lease.begin() {
        lease.end(false);
        assert!(Instant::now() < until, "it holds, and its rules do not any more");
    }
    running.stop();
}

/// Of a share that is refused each request has its own answer.
#[test]
fn there_is_no_lease_where_a_share_is_refused() {
    let (runtime, mut ready) = runtime("atom \"/n/*\" { rule hot: during if rate@atom > 1rps then shed 50% hold 1h; }");
    let adviser = runtime.adviser();
    let mut known = 0;
    let mut ask = || {
        let advice = adviser.begin(&question("/n/page", known, None));
        known = advice.remember;
        adviser.end(7, advice.ticket, 1, false);
        (advice.refuse_retry_after_s.is_some(), advice.lease.is_some())
    };
    assert_eq!((0..100).filter(|_| ask().0).count(), 0);
    assert!(ask().1, "nothing is refused yet");
    ready.tick();
    let answers: Vec<_> = (0..100).map(|_| ask()).collect();
    let refused = answers.iter().filter(|(is_refused, _)| *is_refused).count();
    assert!((49..=51).contains(&refused), "{refused} of 100");
    assert!(answers.iter().all(|(_, is_leased)| !is_leased));
}
