//! Paths behind as many as are followed one by one: they are counted, and take the places of those that are quiet.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;
use weir_adapt::Policy;
use weir_adapt::forecast::Method;
use weir_policy_runtime::{PolicyRuntime, Ready, Setup};
use weir_server::{Link, Options, Question, Server};

fn runtime(policy: &str) -> (PolicyRuntime, Ready) {
    let folder = tempfile::tempdir().expect("a directory");
    let mut options = Options::new(folder.path());
    options.listen = vec!["127.0.0.1:0".parse().expect("an address")];
    let counters = Server::bind(options).expect("it binds").counters();
    let (policy, _) = Policy::read("x.policy", policy).unwrap_or_else(|mistakes| panic!("{policy}\n{mistakes:#?}"));
    let setup = Setup {
        here: "n1".to_owned(),
        tick: Duration::from_secs(1),
        method: Method::default(),
        is_recorded: false,
        judge_every: Duration::ZERO,
        has_reserve: false,
    };
    let runtime = PolicyRuntime::new(policy, setup).expect("one node can do it");
    let ready = runtime.ready(counters, None, None, |_| ());
    (runtime, ready)
}

fn question(path: &str, connection: u64) -> Question<'_> {
    let client = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + connection as u32 % 5000));
    Question { path, client, connection, link: Link::default(), remembered: 0, takes_lease: false }
}

fn environment(runtime: &PolicyRuntime) -> serde_json::Value {
    serde_json::from_str(&runtime.teller().json("/environment.json").expect("an answer")).expect("JSON")
}

#[test]
fn a_path_behind_all_that_are_followed_is_among_the_most_asked_at_once_and_followed_when_others_are_quiet() {
    let (runtime, mut ready) = runtime(
        "atom \"/hot/*\" { rule flash: during if rate@atom > 50rps then shed 10% until rate@atom < 1rps; }\n\
         atom \"/**\" { rule never: during if rate@atom > 1000000000000rps then shed 5% until rate@atom < 1rps; }",
    );
    let adviser = runtime.adviser();
    let ask = |path: &str, count: u64| {
        for number in 0..count {
            let advice = adviser.begin(&question(path, number));
            adviser.end(number, advice.ticket, 0, false);
        }
    };
    (0..16_600).for_each(|number| ask(&format!("/f/{number}"), 1));
    ask("/hot/a", 300);
    ready.tick();
    let shown = environment(&runtime);
    assert_eq!(
        (&shown["popular"][0]["text"], &shown["popular"][0]["count"]),
        (&"/hot/a".into(), &300.into()),
        "{shown}"
    );
    assert_eq!((shown["work"]["atoms"].as_u64(), shown["in_force"].as_array().map(Vec::len)), (Some(16_384), Some(0)));
    let mut ticks = 0;
    while environment(&runtime)["in_force"].as_array().is_some_and(Vec::is_empty) {
        ask("/hot/a", 300);
        ready.tick();
        ticks += 1;
        assert!(ticks < 20, "{}", environment(&runtime));
    }
    let shown = environment(&runtime);
    assert!(shown["in_force"][0]["subject"].as_str().is_some_and(|subject| subject.contains("/hot/a")), "{shown}");
    // What is asked for all the time keeps its place, however many others come, and each of them finds one in the end.
    for round in 0..300 {
        ask("/hot/a", 300);
        (0..300).for_each(|number| ask(&format!("/g/{round}/{number}"), 1));
        ready.tick();
    }
    let shown = environment(&runtime);
    assert_eq!(shown["in_force"].as_array().map(Vec::len), Some(1), "{shown}");
    assert_eq!(shown["passed_over"]["atoms_refused"], 0, "the rules have forgotten those that are quiet: {shown}");
    assert!(shown["work"]["atoms"].as_u64() <= Some(16_384), "{shown}");
}
