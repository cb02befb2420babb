//! Scenarios of TOML against a server: a shop with a login form, a cart and a search.

use crate::server::{Request, Server, answer};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_scenario::form::{Scenarios, ScopeKind, parse};
use weir_scenario::metrics::Shared;
use weir_scenario::play::{Players, Tallies, Tally, judge};
use weir_scenario::run::{Handle, Reaching, Report, RunPlan, run};

struct Played {
    report: Report,
    scenarios: Scenarios,
    tallies: Vec<Tally>,
    metrics: Shared,
}

impl Played {
    fn step(&self, name: &str) -> &Tally {
        self.of(ScopeKind::Step, name)
    }

    fn of(&self, kind: ScopeKind, name: &str) -> &Tally {
        let place = self.scenarios.scopes.iter().position(|scope| scope.kind == kind && scope.name == name);
        &self.tallies[place.unwrap_or_else(|| panic!("no {name}"))]
    }
}

fn play(server: &Server, text: &str, folder: &Path) -> Played {
    let scenarios = parse(text, folder, Some(&server.url("/"))).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
    let (metrics, tallies) = (Shared::default(), Tallies::new(scenarios.scopes.len()));
    let plan = RunPlan {
        scenarios: scenarios.list.iter().map(|(planned, _)| planned.clone()).collect(),
        setup: scenarios.setup.is_some(),
        teardown: scenarios.teardown.is_some(),
        setup_max: scenarios.around_max,
        teardown_max: scenarios.around_max,
        reaching: Reaching::default(),
        stop_grace: Duration::from_secs(1),
    };
    let players = Players::new(&scenarios, metrics.clone(), tallies.clone());
    let (report, _) = run(plan, Box::new(players), &metrics, &Arc::new(Handle::default())).expect("a run");
    let tallies = tallies.lock().clone();
    Played { report, scenarios, tallies, metrics }
}

/// A shop: what it was asked is kept.
fn shop() -> (Server, Arc<Mutex<Vec<Request>>>) {
    let asked: Arc<Mutex<Vec<Request>>> = Arc::default();
    let seen = Arc::clone(&asked);
    let server = Server::start(move |request| {
        seen.lock().expect("no panic").push(request.clone());
        let has_session = request.header("cookie").is_some_and(|cookies| cookies.contains("sid="));
        match (request.method.as_str(), request.target.split('?').next().unwrap_or_default()) {
            ("GET", "/login") => answer("200 OK", &[], "<form><input name=csrf value='t&amp;1'></form>"),
            ("POST", "/login") if request.body.contains("csrf=t%261") => {
                answer("302 Found", &["Set-Cookie: sid=7; Path=/", "Location: /"], "")
            }
            ("POST", "/login") => answer("403 Forbidden", &[], "no token"),
            ("GET", "/") if has_session => answer("200 OK", &[], "Welcome"),
            ("GET", "/search") => answer("200 OK", &[], r#"{"items": [{"id": 31}, {"id": 32}], "count": 2}"#),
            ("POST", "/graphql") if request.body.contains("broken") => {
                answer("200 OK", &[], r#"{"errors": [{"message": "no such field"}]}"#)
            }
            ("POST", "/graphql") => answer("200 OK", &[], r#"{"data": {"me": {"name": "ann"}}}"#),
            _ => answer("404 Not Found", &[], "nothing here"),
        }
    });
    (server, asked)
}

#[test]
fn users_log_in_search_and_think() {
    let folder = tempfile::tempdir().expect("a directory");
    std::fs::write(folder.path().join("users.csv"), "name,word\nann,a b\nbob,c&d\n").expect("a file");
    let (server, asked) = shop();
    let text = r#"
        slo = ["step log in: errors<1%", "group account: p99<5s", "tag kind=read: errors<1%", "p60<5s"]
        [vars]
        shop = "7"
        [data.users]
        file = "users.csv"
        order = "unique"
        [setup]
        steps = [{ get = "/search", take = { first = "json .items[0].id" } }]
        [[scenario]]
        name = "buyers"
        users = 2
        iterations_each = 3
        [[scenario.steps]]
        group = "account"
        steps = [
          { name = "form", get = "/login", take = { token = "css form input[name=csrf] @value" } },
          { name = "log in", post = "/login", form = { csrf = "${token}", user = "${users.name}", word = "${users.word}" }, expect = ["status=200", "body~Welcome"] },
        ]
        [[scenario.steps]]
        name = "search"
        get = "/search"
        query = { q = "${users.word}", shop = "${shop}", first = "${first}" }
        check = ["status=200", "json .count=2", "json .count=3"]
        take = { id = "json .items[1].id" }
        tags = { kind = "read" }
        think = "10ms..20ms"
        [[scenario.steps]]
        if = "${id} = 32"
        repeat = 2
        name = "item"
        get = "/nothing/${id}"
        [[scenario.steps]]
        if = "status = 200"
        get = "/never"
        else = [{ name = "me", url = "/graphql", graphql = "query($n: Int) { me(n: $n) { name } }", variables = { n = 3 } }]
    "#;
    let played = play(&server, text, folder.path());
    let counts = &played.report.scenarios[0];
    assert_eq!((counts.finished, counts.failed, counts.users_max), (6, 0, 2), "{:?}", played.report.causes);
    for (name, requests, failed) in [("form", 6, 0), ("log in", 6, 0), ("search", 6, 6), ("item", 12, 12), ("me", 6, 0)]
    {
        assert_eq!((played.step(name).requests, played.step(name).failed), (requests, failed), "{name}");
    }
    assert_eq!(played.step("GET /never").requests, 0);
    assert_eq!(played.of(ScopeKind::Group, "account").requests, 12);
    let checks = played.metrics.lock().checks.list().to_vec();
    let of_three = checks.iter().find(|check| check.name.contains("count=3")).expect("it is counted");
    assert_eq!((of_three.passes, of_three.fails, of_three.first.as_deref()), (0, 6, Some("2")));
    let judged: Vec<_> = played
        .scenarios
        .slos
        .iter()
        .map(|slo| judge(slo, &played.tallies[slo.scope], played.report.duration))
        .collect();
    assert_eq!(judged.iter().map(|judged| judged.is_met).collect::<Vec<_>>(), [true, true, false, false], "{judged:?}");
    let asked = asked.lock().expect("no panic");
    let searches: Vec<_> =
        asked.iter().filter(|request| request.target.contains("?q=")).map(|r| r.target.as_str()).collect();
    let of =
        |word: &str| searches.iter().filter(|target| **target == format!("/search?q={word}&shop=7&first=31")).count();
    assert_eq!((searches.len(), of("a%20b"), of("c%26d")), (6, 3, 3), "{searches:?}");
    let graphql = asked.iter().find(|request| request.target == "/graphql").expect("it was asked");
    assert!(graphql.body.contains(r#""variables":{"n":3}"#), "{}", graphql.body);
}

#[test]
fn what_is_expected_ends_the_iteration_in_words() {
    let (server, _) = shop();
    let text = r#"
        [[scenario]]
        users = 1
        iterations = 2
        [[scenario.steps]]
        name = "ask"
        url = "/graphql"
        graphql = "{ broken }"
        [[scenario.steps]]
        get = "/never"
    "#;
    let played = play(&server, text, Path::new("."));
    assert_eq!(played.report.scenarios[0].failed, 2);
    assert_eq!(&*played.report.causes[0].words, "ask (line 5): GraphQL error: no such field");
    assert_eq!(played.step("GET /never").requests, 0);
}

#[test]
fn choices_go_by_weight_and_data_end_a_scenario() {
    let folder = tempfile::tempdir().expect("a directory");
    let rows: String = (0..400).map(|number| format!("{{\"n\": {number}}},")).collect();
    std::fs::write(folder.path().join("n.json"), format!("[{}]", rows.trim_end_matches(','))).expect("a file");
    let (server, asked) = shop();
    let text = r#"
        [data.d]
        file = "n.json"
        end = "stop"
        [[scenario]]
        users = 4
        duration = "30s"
        keep = ["connections"]
        [[scenario.steps]]
        choose = [
          { weight = 3, steps = [{ name = "often", get = "/search?n=${d.n}" }] },
          { steps = [{ name = "rare", get = "/search?n=${d.n}" }] },
        ]
    "#;
    let played = play(&server, text, folder.path());
    assert!(played.report.duration < Duration::from_secs(20), "{:?}", played.report.duration);
    let (often, rare) = (played.step("often").requests, played.step("rare").requests);
    assert_eq!(often + rare, 400);
    // Three of four, within four deviations of sqrt(400 * 3/16) = 8.7.
    assert!((265..=335).contains(&often), "{often}");
    let mut asked: Vec<_> = asked.lock().expect("no panic").iter().map(|request| request.target.clone()).collect();
    asked.sort();
    asked.dedup();
    assert_eq!(asked.len(), 400, "each row once");
}

/// Lines of a wrong file, and what is told of each: line, column, remedy.
#[test]
fn mistakes_are_told_with_their_places() {
    let text = "base = \"localhost\"\n\
        [[scenario]]\n\
        usres = 5\n\
        users = 1\n\
        duration = \"1x\"\n\
        [[scenario.steps]]\n\
        get = \"/${tokn}\"\n\
        check = [\"stauts=200\"]\n\
        take = { token = \"xpath //a\" }\n\
        think = \"soon\"\n\
        if = \"a ~ (\"\n";
    let mistakes = parse(text, Path::new("."), None).expect_err("it is wrong");
    let told: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    for begin in [
        "1:8: base = \"localhost\"; localhost: the URL has no scheme",
        "3:1: a scenario has no key \"usres\"; users is meant?",
        "5:12: duration = \"1x\" is no time; write",
        "7:7: no step, data or table gives a value for ${tokn}; ${token} is meant?",
        "8:10: check \"stauts=200\"; \"stauts=200\" is no check; write status=200",
        "9:18: \"xpath //a\" says nothing that can be taken of an answer; write",
        "10:9: think = \"soon\" is no time to think; write",
        "11:6: if = \"a ~ (\" is no condition; write",
    ] {
        assert!(told.iter().any(|line| line.starts_with(begin)), "{begin}\n{told:#?}");
    }
}

#[test]
fn wrong_data_names_its_row() {
    let folder = tempfile::tempdir().expect("a directory");
    std::fs::write(folder.path().join("d.csv"), "a,b\n1,2\n3\n").expect("a file");
    let text =
        "[data.d]\nfile = \"d.csv\"\n[[scenario]]\nusers = 1\niterations = 1\n[[scenario.steps]]\nget = \"/${d.a}\"\n";
    let mistakes = parse(text, folder.path(), None).expect_err("it is wrong");
    assert!(mistakes.iter().any(|m| m.to_string().starts_with("2:8: d.csv: row 2 has 1 fields")), "{mistakes:#?}");
}
