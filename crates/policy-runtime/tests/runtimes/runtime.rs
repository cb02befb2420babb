//! The policy runtime as event loops and the system know it: shares that are refused, sessions, what is bounded.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::Ordering;
use std::time::Duration;
use weir_adapt::Policy;
use weir_adapt::forecast::Method;
use weir_policy_runtime::{PolicyRuntime, Ready, Setup};
use weir_server::{Counters, Link, Options, Question, Server, parse_configuration};

/// Tests take turns, as what was told goes to one place.
static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The counts of a server without requests.
fn counters() -> Counters {
    let folder = tempfile::tempdir().expect("a directory");
    let mut options = Options::new(folder.path());
    options.listen = vec!["127.0.0.1:0".parse().expect("an address")];
    Server::bind(options).expect("it binds").counters()
}

fn runtime(policy: &str) -> (PolicyRuntime, Ready) {
    runtime_that(false, policy)
}

/// One that writes down what rules are told, or none.
fn runtime_that(is_recorded: bool, policy: &str) -> (PolicyRuntime, Ready) {
    let (policy, _) = Policy::read("x.policy", policy).unwrap_or_else(|mistakes| panic!("{policy}\n{mistakes:#?}"));
    let setup = Setup {
        here: "n1".to_owned(),
        tick: Duration::from_secs(1),
        method: Method::default(),
        is_recorded,
        judge_every: Duration::ZERO,
        has_reserve: false,
    };
    let runtime = PolicyRuntime::new(policy, setup).expect("one node can do it");
    let ready = runtime.ready(counters(), None, None, |alert| told().push(alert.to_owned()));
    (runtime, ready)
}

/// What was told.
fn told() -> std::sync::MutexGuard<'static, Vec<String>> {
    static TOLD: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());
    TOLD.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn question(path: &str, connection: u64, bandwidth_bps: Option<f64>) -> Question<'_> {
    let client = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + connection as u32 % 5000));
    Question { path, client, connection, link: Link { bandwidth_bps, rtt_s: None }, remembered: 0, takes_lease: false }
}

fn environment(runtime: &PolicyRuntime) -> serde_json::Value {
    serde_json::from_str(&runtime.teller().json("/environment.json").expect("an answer")).expect("JSON")
}

#[test]
fn answers_may_be_stale_while_a_rule_says_so() {
    let _turn = alone();
    let (runtime, mut ready) = runtime(
        "atom \"/news/*\" { rule hot: during if rate@atom > 5rps then stale 30s until rate@atom < 1rps; }\n\
         atom \"/all/*\" { rule hot: during if rate@here < 100rps then stale 500ms hold 1s; }",
    );
    let adviser = runtime.adviser();
    let ask = |path: &str, count: u64| {
        let mut last = None;
        for number in 0..count {
            let advice = adviser.begin(&question(path, number, None));
            adviser.end(number, advice.ticket, 0, false);
            last = advice.stale_ms_max;
        }
        last
    };
    assert_eq!((ask("/news/a", 1000), ask("/news/b", 1), adviser.may_be_stale()), (None, None, false));
    ready.tick();
    ready.tick();
    assert!(adviser.may_be_stale());
    assert_eq!(ask("/news/b", 1), None, "it has no requests");
    assert_eq!(ask("/all/a", 1), Some(500), "all of the pattern");
    // It had no requests meanwhile, so the rule was released.
    assert_eq!(ask("/news/a", 1000), None);
    ready.tick();
    assert_eq!(ask("/news/a", 1000), Some(30_000));
}

#[test]
fn loops_refuse_the_share_together_and_let_others_pass() {
    let _turn = alone();
    let (runtime, mut ready) =
        runtime("atom \"/news/*\" { rule hot: during if rate@atom > 5rps then shed 10% until rate@atom < 1rps; }");
    let adviser = runtime.adviser();
    assert!(adviser.governs("/news/a") && !adviser.governs("/other"));
    assert!(!adviser.asks_hints("/news/a"), "whose link it is does not matter");
    let ask = |count: u64| {
        let refused = (0..count).filter(|number| {
            let advice = adviser.begin(&question("/news/a", *number, None));
            adviser.end(*number, advice.ticket, 0, advice.refuse_retry_after_s.is_some());
            assert!(advice.refuse_retry_after_s.is_none_or(|seconds| (2..10).contains(&seconds)));
            advice.refuse_retry_after_s.is_some()
        });
        refused.count()
    };
    assert_eq!(ask(1000), 0);
    ready.tick();
    let refused: usize = std::thread::scope(|scope| {
        let loops: Vec<_> = (0..2).map(|_| scope.spawn(|| ask(5000))).collect();
        loops.into_iter().map(|one| one.join().expect("no panic")).sum()
    });
    assert!((997..=1003).contains(&refused), "{refused} of 10,000");
    ready.tick();
    let shown = environment(&runtime);
    assert_eq!((shown["refused"].as_u64(), shown["work"]["atoms"].as_u64()), (Some(refused as u64), Some(1)));
    assert_eq!(shown["dropped"]["books"]["undecided"], 0, "{shown}");
    // What was refused has not failed, and nothing is under way any more.
    assert_eq!(shown["in_force"].as_array().map(Vec::len), Some(1));
    ready.tick();
    assert_eq!(environment(&runtime)["in_force"].as_array().map(Vec::len), Some(0), "no requests come any more");
    assert_eq!(ask(1000), 0);
}

/// Asks so often by that client (10.0.0.N); how many were refused.
fn ask_by(runtime: &PolicyRuntime, path: &str, client: u32, count: u64) -> usize {
    let adviser = runtime.adviser();
    let asked = (0..count).filter(|number| {
        let question =
            Question { client: IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + client)), ..question(path, *number, None) };
        let advice = adviser.begin(&question);
        adviser.end(*number, advice.ticket, 0, false);
        advice.refuse_retry_after_s.is_some()
    });
    asked.count()
}

#[test]
fn a_client_that_asks_for_too_much_loses_its_share_over_all_loops_and_others_nothing() {
    let _turn = alone();
    let (runtime, mut ready) = runtime_that(
        true,
        "atom \"/a/*\" { rule greedy: during if rate@client > 500rps then shed 80% until rate@client < 100rps; }\n\
         atom \"/b/*\" { rule hot: during if rate@atom > 1000krps then alert \"hot\" hold 1s; }",
    );
    let ask = |path, client, count| ask_by(&runtime, path, client, count);
    // One request of a tick of some microseconds would be very many a second.
    let tick = |ready: &mut Ready| {
        std::thread::sleep(Duration::from_millis(50));
        ready.tick();
    };
    assert_eq!((ask("/a/x", 7, 5000), ask("/a/x", 8, 1)), (0, 0));
    tick(&mut ready);
    let shown = environment(&runtime);
    assert_eq!(shown["in_force"][0]["subject"], "/a/* client 10.0.0.7", "{shown}");
    let refused: usize = std::thread::scope(|scope| {
        let loops: Vec<_> = (0..2).map(|_| scope.spawn(|| ask_by(&runtime, "/a/y", 7, 5000))).collect();
        loops.into_iter().map(|one| one.join().expect("no panic")).sum()
    });
    assert!((7997..=8003).contains(&refused), "{refused} of 10,000");
    // What other rules are for, and who else asks, knows nothing of it.
    assert_eq!((ask("/b/x", 7, 100), ask("/a/x", 8, 1)), (0, 0));
    tick(&mut ready);
    let shown = environment(&runtime);
    let of = |name: &str| {
        let readings = shown["readings"].as_array().expect("readings");
        readings.iter().find(|reading| reading["of"] == name).and_then(|reading| reading["value"].as_f64())
    };
    let (greedy, modest) = (of("client 10.0.0.7").expect("a reading"), of("client 10.0.0.8").expect("a reading"));
    assert!((greedy / modest - 10_100.0).abs() < 1e-3, "what is refused counts, too: {greedy} and {modest}");
    assert_eq!((&shown["work"]["clients"], &shown["dropped"]["evicted"]), (&2.into(), &0.into()));
    assert!(
        runtime.teller().metrics().contains("weir_reading{resource=\"rate\",unit=\"rps\",of=\"client 10.0.0.7\"} ")
    );
    // No requests come any more.
    tick(&mut ready);
    assert_eq!(environment(&runtime)["in_force"].as_array().map(Vec::len), Some(0));
    assert_eq!(ask("/a/x", 7, 100), 0);
}

#[test]
fn clients_that_are_shown_are_few_and_those_without_an_address_are_none() {
    let _turn = alone();
    let (runtime, mut ready) = runtime(
        "atom \"/**\" { rule greedy: during if rate@client > 1000krps then shed 80% until rate@client < 100krps; }",
    );
    for client in 1..=300 {
        ask_by(&runtime, "/x", client, u64::from(client));
    }
    let adviser = runtime.adviser();
    let (client, link) = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), Link::default());
    for connection in 0..5000 {
        adviser.begin(&Question { path: "/x", client, connection, link, remembered: 0, takes_lease: false });
    }
    ready.tick();
    let shown = environment(&runtime);
    let named = shown["readings"].as_array().expect("readings").iter().filter_map(|one| one["of"].as_str());
    let named: Vec<_> = named.filter_map(|of| of.strip_prefix("client 10.0.")).collect();
    assert_eq!(named, ["1.44", "1.43", "1.42", "1.41", "1.40", "1.39", "1.38", "1.37", "1.36", "1.35"]);
    assert_eq!(shown["work"]["clients"], 300);
}

#[test]
fn a_session_begins_by_what_its_client_asked_for_before() {
    let _turn = alone();
    let (runtime, mut ready) = runtime(
        "atom \"/v/*\" { variants full > small; rule fit: at start if rate@client > 500rps then use small else use full; }",
    );
    let begin = |client: u32| {
        let question =
            Question { client: IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + client)), ..question("/v/x", 1, None) };
        let advice = runtime.adviser().begin(&question);
        runtime.adviser().end(1, advice.ticket, 0, false);
        advice.variant.as_deref().map(str::to_owned)
    };
    assert_eq!(begin(7).as_deref(), Some("full"), "nothing is known of it");
    ask_by(&runtime, "/v/x", 7, 5000);
    ready.tick();
    assert_eq!((begin(7).as_deref(), begin(8).as_deref()), (Some("small full"), Some("full")));
}

#[test]
fn an_atom_whose_requests_wait_is_told_from_its_neighbour() {
    let _turn = alone();
    let (runtime, mut ready) = runtime(
        "atom \"/**\" { rule slow: during if wait@atom > 100ms then shed 50% until wait@atom < 10ms; }\n\
         atom \"/q/*\" { rule long: during if queue@atom > 1000jobs then shed 50% hold 1s; }",
    );
    let ask = |path, waited_ns| {
        let advice = runtime.adviser().begin(&question(path, 1, None));
        runtime.adviser().waited(advice.ticket, waited_ns);
        runtime.adviser().end(1, advice.ticket, 0, false);
    };
    let in_force = |ready: &mut Ready| {
        ready.tick();
        let shown = environment(&runtime);
        let rules = shown["in_force"].as_array().expect("a list").clone();
        rules.iter().map(|rule| rule["subject"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    // The mean of all that came.
    (0..3).for_each(|_| ask("/a", 0));
    ask("/a", 360_000_000);
    (0..3).for_each(|_| ask("/b", 0));
    ask("/b", 480_000_000);
    ask("/c", 0);
    assert_eq!(in_force(&mut ready), ["/b"]);
    // An atom without requests gets no new reading: its rule stays in force until the atom counts as quiet.
    ask("/a", 90_000_000);
    assert_eq!(in_force(&mut ready), ["/b"]);
    ask("/b", 9_000_000);
    assert_eq!(in_force(&mut ready), Vec::<String>::new());
    ask("/b", 480_000_000);
    assert_eq!(in_force(&mut ready), ["/b"]);
    for _ in 0..4 {
        in_force(&mut ready);
    }
    assert_eq!(in_force(&mut ready), Vec::<String>::new());
    // Requests of a tick of some microseconds are very many a second; a second of each is long.
    (0..100).for_each(|_| ask("/q/a", 60_000_000_000));
    (0..100).for_each(|_| ask("/q/b", 0));
    assert_eq!(in_force(&mut ready), ["/q/a"]);
}

#[test]
fn a_session_gets_the_variant_that_fits_and_another_when_its_link_changes() {
    let _turn = alone();
    let policy = "atom \"/v/*\" { variants whole > half > small;\n\
        rule fit: at start if bandwidth@client < 100kbps then use half else use whole;\n\
        rule drop: during if bandwidth@client < 50kbps then next down; }\n";
    let (runtime, mut ready) = runtime(policy);
    let adviser = runtime.adviser();
    assert_eq!(["/v/film", "/w/film"].map(|path| adviser.asks_hints(path)), [true, false]);
    let begin = |connection, bandwidth| adviser.begin(&question("/v/film", connection, bandwidth));
    let begun = [begin(1, Some(80e3)), begin(2, Some(900e3)), begin(3, None)];
    // With each name come those that stand in for it; the best one is the file itself. Of a new client nothing is known.
    assert_eq!(
        begun.each_ref().map(|advice| advice.variant.as_deref()),
        [Some("half full"), Some("full"), Some("full")]
    );
    // The decision comes without a tick.
    let link = |bandwidth_bps| Link { bandwidth_bps: Some(bandwidth_bps), rtt_s: None };
    assert_eq!(adviser.during(2, link(900e3)), None);
    assert_eq!(adviser.during(1, link(40e3)).as_deref(), Some("small half full"));
    ready.tick();
    assert_eq!(
        (adviser.during(1, link(40e3)), adviser.during(2, link(900e3))),
        (None, None),
        "said once, and only to its connection"
    );
    assert_eq!(environment(&runtime)["work"]["sessions"], 3);
    (1..=3).zip(begun).for_each(|(connection, advice)| adviser.end(connection, advice.ticket, 5, false));
    ready.tick();
    assert_eq!(environment(&runtime)["work"]["sessions"], 0);
}

#[test]
fn rules_that_read_no_link_are_looked_at_when_there_is_a_tick() {
    let _turn = alone();
    let (runtime, mut ready) = runtime(
        "atom \"/v/*\" { variants full > small; rule calm: during if rate@here < 100rps then use small; }\n\
         atom \"/w/*\" { variants full > small; rule fit: at start if rate@here > 100rps then use small; }",
    );
    let adviser = runtime.adviser();
    assert!(!["/v/film", "/w/film"].iter().any(|path| adviser.asks_hints(path)), "whose link it is does not matter");
    let begun = adviser.begin(&question("/v/film", 1, Some(40e3)));
    let link = Link { bandwidth_bps: Some(40e3), rtt_s: None };
    assert_eq!(adviser.during(1, link), None);
    // The first rate is that of a moment.
    (0..2).for_each(|_| ready.tick());
    assert_eq!(adviser.during(1, link).as_deref(), Some("small full"));
    adviser.end(1, begun.ticket, 5, false);
}

#[test]
fn a_session_is_looked_at_as_often_as_its_link_is_read() {
    let _turn = alone();
    let policy = "atom \"/v/*\" { variants full > small;\n\
        rule drop: during if bandwidth@client < 100kbps then use small;\n\
        rule back: during if bandwidth@client > 200kbps then use full; }\n";
    let (runtime, _ready) = runtime(policy);
    let adviser = runtime.adviser();
    let begun = adviser.begin(&question("/v/film", 1, Some(900e3)));
    let link = |bandwidth_bps| Link { bandwidth_bps: Some(bandwidth_bps), rtt_s: None };
    assert_eq!(adviser.during(1, link(40e3)).as_deref(), Some("small full"));
    // Several responses of one connection ask, each for itself.
    assert_eq!(adviser.during(1, link(900e3)), None, "it is no other reading");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(adviser.during(1, link(900e3)).as_deref(), Some("full"));
    adviser.end(1, begun.ticket, 5, false);
}

const VARIANTS: &str = "atom \"/v/*\" { variants full > small;\n\
    rule fit: at start if bandwidth@client < 100kbps then use small else use full; }\n";

#[test]
fn what_there_is_no_room_to_follow_is_no_session() {
    let _turn = alone();
    let (runtime, mut ready) = runtime(VARIANTS);
    let adviser = runtime.adviser();
    let begin = |number| adviser.begin(&question("/v/film", number, Some(50e3)));
    let begun: Vec<u64> = (0..65_536).map(|number| begin(number).ticket).collect();
    let one_too_many = begin(70_000);
    assert_eq!(one_too_many.variant, None);
    adviser.end(70_000, one_too_many.ticket, 1, false);
    adviser.end(0, begun[0], 1, false);
    let last = begin(70_001);
    assert_eq!(last.variant.as_deref(), Some("small full"));
    ready.tick();
    let shown = environment(&runtime);
    assert_eq!((&shown["work"]["sessions"], &shown["dropped"]["books"]["connections"]), (&65_536.into(), &1.into()));
    (1..65_536).for_each(|number| adviser.end(number, begun[number as usize], 1, false));
    adviser.end(70_001, last.ticket, 1, false);
    ready.tick();
    assert_eq!(environment(&runtime)["work"]["sessions"], 0);
}

#[test]
fn equal_sessions_without_a_decision_ask_the_rules_once_a_tick() {
    let _turn = alone();
    [false, true].into_iter().for_each(equal_sessions);
}

fn equal_sessions(is_recorded: bool) {
    let (runtime, mut ready) = runtime_that(is_recorded, VARIANTS);
    let adviser = runtime.adviser();
    let begin = |number, bandwidth_bps| adviser.begin(&question("/v/film", number, bandwidth_bps)).variant;
    let sessions = |ready: &mut Ready| {
        ready.tick();
        environment(&runtime)["work"]["sessions"].as_u64()
    };
    // A tick shows what began before it.
    (0..100).for_each(|number| assert_eq!(begin(number, Some(900e3)).as_deref(), Some("full")));
    assert_eq!(sessions(&mut ready), Some(1), "the first one was decided, the others like it");
    (100..200).for_each(|number| assert_eq!(begin(number, Some(700e3)).as_deref(), Some("full")));
    assert_eq!(sessions(&mut ready), Some(2), "in another tick it may be otherwise");
    (200..300).for_each(|number| assert_eq!(begin(number, Some(99e3)).as_deref(), Some("small full")));
    assert_eq!(sessions(&mut ready), Some(102), "what is decided is decided for each");
    (300..400).for_each(|number| assert_eq!(begin(number, None).as_deref(), Some("full")));
    assert_eq!(sessions(&mut ready), Some(104), "that nothing is known is told once");
    // Other rules say otherwise.
    let running = ready.start().expect("a thread");
    let (policy, _) = Policy::read("x.policy", &VARIANTS.replace("100kbps", "800kbps")).expect("no mistakes");
    let before = adviser.edition();
    running.replace(policy).expect("one node can do it");
    while adviser.edition() == before {
        std::thread::yield_now();
    }
    assert_eq!(begin(500, Some(700e3)).as_deref(), Some("small full"));
    running.stop();
}

#[test]
fn a_connection_that_asks_again_is_answered_by_what_holds_then() {
    let _turn = alone();
    [false, true].into_iter().for_each(again);
}

fn again(is_recorded: bool) {
    let policy = format!("{VARIANTS} atom \"/n/*\" {{ rule hot: during if rate@atom > 1rps then shed 100% hold 1h; }}");
    let (runtime, mut ready) = runtime_that(is_recorded, &policy);
    let adviser = runtime.adviser();
    let remembered = std::cell::RefCell::new(std::collections::HashMap::new());
    let ask = |path: &'static str, bandwidth_bps| {
        let known = remembered.borrow().get(path).copied().unwrap_or(0);
        let advice = adviser.begin(&Question { remembered: known, ..question(path, 7, bandwidth_bps) });
        remembered.borrow_mut().insert(path, advice.remember);
        adviser.end(7, advice.ticket, 1, false);
        (advice.variant.as_deref().map(str::to_owned), advice.refuse_retry_after_s.is_some())
    };
    let tick = |ready: &mut Ready| {
        ready.tick();
        let crowd = environment(&runtime)["crowd"].clone();
        (crowd["requests"].as_u64(), crowd["clients"].as_f64().map(f64::round))
    };
    let (full, small) = ((Some("full".to_owned()), false), (Some("small full".to_owned()), false));
    for _ in 0..3 {
        (0..5).for_each(|_| assert_eq!(ask("/v/film", Some(900e3)), full));
        assert_eq!(ask("/v/other", Some(900e3)), full);
        (0..2).for_each(|_| assert_eq!(ask("/v/film", Some(50e3)), small, "its link is another one"));
        assert_eq!((ask("/v/film", Some(900e3)), ask("/v/film", None)), (full.clone(), full.clone()));
        assert_eq!(tick(&mut ready), (Some(10), Some(1.0)), "each request, and its client once");
    }
    (0..100).for_each(|_| assert_eq!(ask("/n/page", None), (None, false)));
    tick(&mut ready);
    assert_eq!(ask("/n/page", None), (None, true), "from this tick on");
    assert_eq!(ask("/v/film", Some(900e3)), full);
    // Other rules see it otherwise at once.
    let running = ready.start().expect("a thread");
    let (policy, _) = Policy::read("x.policy", &VARIANTS.replace("100kbps", "1Mbps")).expect("no mistakes");
    let before = adviser.edition();
    running.replace(policy).expect("one node can do it");
    while adviser.edition() == before {
        std::thread::yield_now();
    }
    assert_eq!(ask("/v/film", Some(900e3)), small);
    running.stop();
    assert_eq!(environment(&runtime)["work"]["sessions"], 0);
}

#[test]
fn a_lease_ends_with_its_tick_and_what_it_was_for_counts_like_any_request() {
    let _turn = alone();
    [false, true].into_iter().for_each(leased);
}

fn leased(is_recorded: bool) {
    let policy = VARIANTS.replace(
        "rule fit",
        "rule busy: during if active@atom > 4jobs then alert \"busy\" until active@atom < 3jobs;\n\
         rule broken: during if errors@atom > 20% then alert \"broken\" until errors@atom < 10%; rule fit",
    );
    let (runtime, mut ready) = runtime_that(is_recorded, &policy);
    let adviser = runtime.adviser();
    let mut known = 0;
    let mut ask = |path, takes_lease| {
        let question = Question { remembered: known, takes_lease, ..question(path, 7, Some(900e3)) };
        let advice = adviser.begin(&question);
        known = advice.remember;
        adviser.end(7, advice.ticket, 1, false);
        assert_eq!(advice.variant.as_deref(), Some("full"));
        advice.lease
    };
    let tick = |ready: &mut Ready| {
        ready.tick();
        let shown = environment(&runtime);
        let in_force = shown["in_force"].as_array().expect("rules").iter();
        let rules = in_force.map(|rule| rule["rule"].as_str().expect("a name").to_owned()).collect::<Vec<_>>();
        (shown["crowd"]["requests"].as_u64(), shown["crowd"]["clients"].as_f64().map(f64::round), rules)
    };
    let none = Vec::<String>::new;
    assert!(ask("/v/film", true).is_none(), "it is not known yet who asks again");
    assert!(ask("/v/film", false).is_none(), "the server would keep no lease");
    let lease = ask("/v/film", true).expect("a lease");
    assert!((0..5).all(|_| lease.begin()));
    assert_eq!(tick(&mut ready), (Some(8), Some(1.0), vec!["busy".to_owned()]), "five are under way");
    assert!(!lease.begin(), "there was a tick");
    (0..3).for_each(|_| lease.end(true));
    assert_eq!(tick(&mut ready), (Some(0), Some(0.0), vec!["broken".to_owned()]));
    (0..2).for_each(|_| lease.end(false));
    tick(&mut ready);
    for _ in 0..3 {
        // Of the first one the rules are asked, the second one goes by what they said.
        (0..2).for_each(|_| assert!(ask("/v/film", true).is_none()));
        let lease = ask("/v/film", true).expect("a lease");
        (0..100).for_each(|_| {
            assert!(lease.begin());
            lease.end(false);
        });
        assert_eq!(tick(&mut ready), (Some(103), Some(1.0), none()));
    }
}

#[test]
fn no_session_that_begins_while_rules_change_is_left_over() {
    let _turn = alone();
    let (runtime, ready) = runtime(VARIANTS);
    let adviser = runtime.adviser();
    let running = ready.start().expect("a thread");
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for first in [0, 1_000_000] {
            let (adviser, is_over) = (&adviser, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let all = first..first + 500;
                    let begin = |number| adviser.begin(&question("/v/film", number, Some(50e3))).ticket;
                    let begun: Vec<u64> = all.clone().map(begin).collect();
                    all.zip(begun).for_each(|(number, ticket)| adviser.end(number, ticket, 1, false));
                }
            });
        }
        for _ in 0..100 {
            let before = adviser.edition();
            let (policy, _) = Policy::read("x.policy", VARIANTS).expect("no mistakes");
            running.replace(policy).expect("one node can do it");
            while adviser.edition() == before {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    // An end that found its statistics locked is told with the loop's next call or at the next tick; then no session is left.
    running.stop();
    assert_eq!(environment(&runtime)["work"]["sessions"], 0);
}

#[test]
fn a_flash_crowd_is_told_from_an_attack_without_any_rule() {
    let _turn = alone();
    let (runtime, mut ready) = runtime("atom \"/**\" { rule hot: every 1h if cpu > 99% then alert \"hot\"; }");
    let adviser = runtime.adviser();
    let mut ask = |count: u32, client: &dyn Fn(u32) -> u32, path: &dyn Fn(u32) -> String| {
        for number in 0..count {
            let client = IpAddr::V4(Ipv4Addr::from_bits(client(number)));
            let path = path(number);
            let (connection, link) = (u64::from(number), Link::default());
            let advice =
                adviser.begin(&Question { path: &path, client, connection, link, remembered: 0, takes_lease: false });
            adviser.end(u64::from(number), advice.ticket, 1, false);
        }
        told().clear();
        ready.tick();
        let shown = environment(&runtime);
        (shown["crowd"]["kind"].as_str().unwrap_or_default().to_owned(), told().clone())
    };
    // A day: 300 clients of 30 networks, who ask for 200 pages.
    let day = |number: u32| 0x0a00_0000 + (number % 30) * 256 + number % 300 / 30;
    let pages = |number: u32| format!("/{}", number % 200);
    (0..2).for_each(|_| assert_eq!(ask(600, &day, &pages), ("calm".to_owned(), Vec::new())));
    // Ten times the clients, of networks that are known, want one page.
    let crowd = |number: u32| 0x0a00_0000 + (number % 30) * 256 + number % 6000 / 30;
    let (kind, alerts) = ask(6000, &crowd, &|_| "/1".to_owned());
    assert_eq!(kind, "flash_crowd");
    assert!(
        alerts.len() == 1 && alerts[0].contains("a flash crowd: ") && alerts[0].contains("times the clients"),
        "{alerts:?}"
    );
    let (kind, alerts) = ask(6000, &crowd, &|_| "/1".to_owned());
    assert_eq!((kind.as_str(), alerts.len()), ("flash_crowd", 0), "it is told once");
    // As many clients as ever, of unknown networks, ask for everything.
    let (kind, alerts) = ask(6000, &|number| 0x5000_0000 + number % 300 * 256, &pages);
    assert_eq!((kind.as_str(), alerts.len()), ("attack", 1), "{alerts:?}");
}

#[test]
fn upstreams_are_nodes_for_rules_by_their_names() {
    let _turn = alone();
    told().clear();
    let folder = tempfile::tempdir().expect("a directory");
    let text = "[[host]]\nproxy = { to = \"http://127.0.0.1:9\", name = \"php\" }\n";
    let mut options = parse_configuration(text, folder.path()).expect("no mistake");
    options.listen = vec!["127.0.0.1:0".parse().expect("an address")];
    assert_eq!(options.upstream_names(), ["php"]);
    let server = Server::bind(options).expect("it binds");
    let rules = "pool apps = { php, other };
        atom \"/**\" {
            rule quiet: during if queue@php < 5jobs and active@php < 5jobs then alert \"it is quiet\" hold 60s;
            rule late: during if wait@php < 9s then alert \"it was read twice\" hold 60s;
            rule none: during if queue@other < 5jobs then alert \"there is none\" hold 60s;
        }";
    let (_runtime, ready) = runtime(rules);
    let mut ready = ready.with_insight(server.insight());
    ready.tick();
    assert!(told().iter().any(|alert| alert.contains("it is quiet")), "{:?}", told());
    ready.tick();
    assert!(told().iter().any(|alert| alert.contains("it was read twice")), "{:?}", told());
    assert!(!told().iter().any(|alert| alert.contains("there is none")), "{:?}", told());
}
