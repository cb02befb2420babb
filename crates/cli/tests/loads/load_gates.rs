//! `weir load` as a gate of a build: objectives of some requests, checks of responses, and what a build reads of them.

use crate::support;

use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Output;
use support::weir;
use weir_testkit::{RunningServer, WeirServe};

const CART: &str = r#"{ "ok": true, "items": [{ "id": 7 }] }"#;

/// A site with a page and some JSON, and a list that asks for both and for what is not there.
fn site(folder: &Path) -> RunningServer {
    let root = folder.join("site");
    fs::create_dir(&root).expect("a directory");
    fs::write(root.join("page.html"), "<h1>here</h1>").expect("a file");
    fs::write(root.join("cart.json"), CART).expect("a file");
    fs::write(folder.join("list"), "/page.html\n/cart.json?user=hidden\n/gone.html\n").expect("a file");
    fs::write(folder.join("good"), "/page.html\n/cart.json\n").expect("a file");
    let root = root.to_str().expect("text");
    WeirServe::new(env!("CARGO_BIN_EXE_weir")).root(root).start().expect("weir serve starts")
}

/// A load of 60 requests of a list; `arguments` say the rest.
fn load(folder: &Path, server: &RunningServer, list: &str, arguments: &[&str]) -> Output {
    weir()
        .current_dir(folder)
        .args(["load", "-q", "-n", "60", "-c", "2", "--urls", list])
        .args(arguments)
        .arg(server.url("/"))
        .output()
        .expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn objectives_are_of_all_requests_or_of_some() {
    let folder = tempfile::tempdir().expect("a directory");
    let server = site(folder.path());
    for protocol in [&[][..], &["--http2", "--streams", "3"]] {
        let slos = ["--slo", "GET /cart.json: p95<10s", "--slo", "errors<50%", "--slo", "/gone.html: errors<1%"];
        let told = load(folder.path(), &server, "list", &[&slos[..], protocol].concat());
        let screen = text(&told.stdout);
        assert_eq!(told.status.code(), Some(3), "{screen}");
        let first = screen.lines().next().unwrap_or_default();
        let reason = "objective missed: /gone.html: errors<1%: 100.00 % of 20 requests missed it, 1 % may";
        assert_eq!(first, reason, "{screen}");
        assert!(screen.contains("objective  GET /cart.json: p95<10s met: 0.00 % of 20 requests missed it"), "{screen}");
        assert!(screen.contains("objective  errors<50% met: 33.33 % of 60 requests"), "{screen}");
        let report = json_of(&load(folder.path(), &server, "list", &[&slos[..], protocol, &["--json"]].concat()));
        assert_eq!((&report["passed"], &report["objectives"][2]["missed"]), (&json!(false), &json!(20)));
        let [cart, gone] = [0, 1].map(|place| &report["scopes"][place]);
        assert_eq!((&cart["scope"], &cart["successes"]), (&json!("GET /cart.json"), &json!(20)));
        assert_eq!((&gone["unexpected"], &gone["latency_ns"]), (&json!(20), &Value::Null));
        // A scope of all requests is the whole, to the nanosecond.
        let all = ["--slo", "*: ttfb p50<10s", "--slo", "ttfb p50<10s", "--slo", "mean<1us", "--slo", "rate>1000000/s"];
        let told = load(folder.path(), &server, "list", &[&all[..], protocol, &["--json"]].concat());
        let report = json_of(&told);
        assert_eq!(report["scopes"][0]["latency_ns"], report["latency_ns"], "{report:#}");
        assert_eq!(report["scopes"][0]["first_byte_ns"], report["first_byte_ns"]);
        let met: Vec<_> = (0..4).map(|place| report["objectives"][place]["met"].clone()).collect();
        // A third of the requests has no time at all, but a median is left.
        assert_eq!((met, told.status.code()), (vec![json!(true), json!(true), json!(false), json!(false)], Some(3)));
    }
}

#[test]
fn responses_that_fail_a_check_are_no_successes() {
    let folder = tempfile::tempdir().expect("a directory");
    let server = site(folder.path());
    let good = [
        "status=200",
        "/cart.json: header content-type~json",
        "/cart.json: json .items[0].id=7",
        "/cart.json: body~\"ok\": true",
        "/page.html: body=<h1>here</h1>",
        "/page.html: size=13",
        "size<1kB",
        "header date",
    ];
    let digest = std::process::Command::new("sha256sum").arg(folder.path().join("site/page.html")).output();
    let digest = text(&digest.expect("sha256sum is there").stdout);
    let of_page = format!("/page.html: body=sha256:{}", digest.split(' ').next().unwrap_or_default());
    let schema = |name: &str, kind: &str| {
        let file = folder.path().join(name);
        let text = json!({ "properties": { "items": { "items": { "properties": { "id": { "type": kind } } } } } });
        fs::write(&file, text.to_string()).expect("a schema");
        format!("/cart.json: schema={}", file.display())
    };
    let (of_cart, of_another) = (schema("cart.schema.json", "integer"), schema("other.schema.json", "string"));
    for protocol in [&[][..], &["--http2", "--streams", "3"], &["--pipeline", "3"], &["--no-keepalive"]] {
        let checks = good.iter().copied().chain([of_page.as_str(), &of_cart]);
        let checks: Vec<&str> = checks.flat_map(|check| ["--check", check]).collect();
        let told = load(folder.path(), &server, "good", &[&checks[..], protocol].concat());
        assert_eq!(told.status.code(), Some(0), "{protocol:?}: {}", text(&told.stdout));
        let bad =
            ["--check", "/cart.json: json .items[0].id=8", "--check", "body~here", "--check", "status=200", "--json"];
        let bad = [&["--check", &of_another], &bad[..]].concat();
        let told = load(folder.path(), &server, "good", &[&bad[..], protocol].concat());
        let report = json_of(&told);
        assert_eq!((&report["successes"], &report["failed_checks"]), (&json!(30), &json!(30)), "{report:#}");
        let counted = |place: usize| {
            let check = &report["checks"][place];
            (check["responses"].as_u64(), check["failed"].as_u64(), check["example"].as_str().unwrap_or_default())
        };
        let differs = "GET /cart.json: /items/0/id: 7 is not of type \"string\"";
        assert_eq!(counted(0), (Some(30), Some(30), differs));
        assert_eq!(counted(1), (Some(30), Some(30), "GET /cart.json: 7"));
        assert_eq!(counted(2), (Some(60), Some(30), format!("GET /cart.json: {CART}").as_str()));
        assert_eq!(counted(3), (Some(60), Some(0), ""));
        assert_eq!((&report["status"], &report["unexpected"]), (&json!({ "200": 60 }), &json!(30)));
        assert_eq!((&report["passed"], told.status.code()), (&json!(false), Some(3)));
    }
}

#[test]
fn failed_checks_are_errors_which_an_objective_may_allow() {
    let folder = tempfile::tempdir().expect("a directory");
    let server = site(folder.path());
    let check = ["--check", "body~here"];
    let told = load(folder.path(), &server, "good", &check);
    let screen = text(&told.stdout);
    let first = "check missed: body~here: 30 of 60 responses are not so; such as GET /cart.json: ";
    assert!(screen.starts_with(first) && told.status.code() == Some(3), "{screen}");
    assert!(screen.contains("status     200: 60   (30 failed a check)"), "{screen}");
    assert!(screen.contains("success           50.00 %") || screen.contains("50.00 %   30 of 60"), "{screen}");
    for (slo, code) in [("errors<60%", 0), ("errors<40%", 3)] {
        let told = load(folder.path(), &server, "good", &[&check[..], &["--slo", slo]].concat());
        assert_eq!(told.status.code(), Some(code), "{}", text(&told.stdout));
        assert!(text(&told.stdout).contains(&format!("which {slo} judges")), "{}", text(&told.stdout));
    }
    let nothing = load(folder.path(), &server, "good", &["--check", "status=500", "--github"]);
    assert_eq!(nothing.status.code(), Some(1), "nothing succeeded");
    assert!(text(&nothing.stdout).starts_with("no request succeeded"), "{nothing:?}");
    assert!(text(&nothing.stderr).starts_with("::error title=weir load%3A "), "{nothing:?}");
}

#[test]
fn a_build_reads_what_was_missed() {
    let folder = tempfile::tempdir().expect("a directory");
    let server = site(folder.path());
    let files = ["--junit", "load.xml", "--markdown", "load.md", "--github", "--json"];
    let judged = ["--slo", "p50<10s", "--slo", "GET /gone.html: errors<1%", "--check", "/page.html: body~<h1>"];
    let told = load(folder.path(), &server, "list", &[&files[..], &judged].concat());
    assert_eq!(told.status.code(), Some(3), "{told:?}");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("it was written");
    let junit = read("load.xml");
    assert!(junit.contains("tests=\"4\" failures=\"1\" errors=\"0\" skipped=\"0\""), "{junit}");
    assert!(junit.contains("name=\"objective: GET /gone.html: errors&lt;1%\""), "{junit}");
    assert!(junit.contains("<failure message=\"100.00 % of 20 requests missed it, 1 % may\"/>"), "{junit}");
    assert!(junit.contains("name=\"check: /page.html: body~&lt;h1&gt;\""), "{junit}");
    let markdown = read("load.md");
    assert!(
        markdown.lines().nth(2).is_some_and(|line| line.starts_with("**Failed:** objective missed: ")),
        "{markdown}"
    );
    assert!(markdown.contains("| **missed** | GET /gone.html: errors&lt;1% | 100.00 % of 20"), "{markdown}");
    assert!(markdown.contains("| met | p50&lt;10s | "), "{markdown}");
    let said = text(&told.stderr);
    let error =
        "::error title=weir load%3A GET /gone.html%3A errors<1%25::GET /gone.html: errors<1%25 missed: 100.00 %25";
    assert!(said.lines().next().is_some_and(|line| line.starts_with(error)), "{said}");
    // What passes says so, and standard output stays JSON.
    assert_eq!(json_of(&told)["missed"].as_array().map(Vec::len), Some(1));
    let told = load(folder.path(), &server, "good", &[&files[..], &["--slo", "max<10s"]].concat());
    assert_eq!(told.status.code(), Some(0), "{told:?}");
    assert!(read("load.md").contains("**Passed.**") && read("load.xml").contains("failures=\"0\""));
    assert!(text(&told.stderr).starts_with("::notice title=weir load%3A "), "{told:?}");
    let unwritable = load(folder.path(), &server, "good", &["--junit", "none/load.xml"]);
    assert_eq!(unwritable.status.code(), Some(2), "{unwritable:?}");
}

#[test]
fn what_cannot_be_judged_is_refused_before_the_run() {
    let folder = tempfile::tempdir().expect("a directory");
    let server = site(folder.path());
    for (arguments, words) in [
        (
            &["--slo", "GET /card: p95<1s"][..],
            "no request of this run is GET /card; it asks GET /page.html, GET /cart.json",
        ),
        (&["--check", "POST /page.html: status=200"], "no request of this run is POST /page.html"),
        (&["--slo", "/page.html p95<1s"], "'/cart: p95<200ms'"),
        (&["--slo", "p95>1s"], "a time goes with <"),
        (&["--check", "size<big"], "a size goes with"),
        (&["--check", "schema=none.json"], "cannot read the schema none.json"),
        (&["--check", "body~["], "is no regular expression"),
        (&["--check", "status=200", "--io", "io_uring"], "io_uring"),
        (&["--find-max", "--slo", "p99<1s", "--slo", "errors<1%"], "give --slo once"),
        (&["--find-max", "--slo", "mean<1s"], "searches by a percentile or by errors"),
        (&["--find-max", "--junit", "x.xml"], "--junit: a search (--find-max) sets its rates"),
    ] {
        let told = weir()
            .current_dir(folder.path())
            .args(["load", "-q", "--urls", "good"])
            .args(arguments)
            .arg(server.url("/"))
            .output()
            .expect("it runs");
        assert_eq!(told.status.code(), Some(2), "{arguments:?}: {told:?}");
        assert!(text(&told.stderr).contains(words), "{arguments:?}: {}", text(&told.stderr));
    }
}

#[test]
fn an_earlier_run_is_compared_and_only_what_is_surely_worse_fails() {
    let folder = tempfile::tempdir().expect("a directory");
    let server = site(folder.path());
    let timed = |arguments: &[&str]| {
        let base = ["load", "-q", "--rate", "200", "-d", "600ms", "--interval", "100ms"];
        let url = server.url("/page.html");
        weir().current_dir(folder.path()).args(base).args(arguments).arg(url).output().expect("it runs")
    };
    let earlier = json_of(&timed(&["--run", "run", "--json"]));
    // The same run, once ten times as fast and once ten times as slow.
    for (name, factor) in [("fast.json", 0.1), ("slow.json", 10.0)] {
        let mut report = earlier.clone();
        for point in report["series"]["points"].as_array_mut().expect("points") {
            let p50 = point["latency_ns"]["p50"].as_f64().expect("a latency");
            point["latency_ns"]["p50"] = json!(p50 * factor);
        }
        fs::write(folder.path().join(name), report.to_string()).expect("a file");
    }
    let limit = ["--fail-on", "p50 worse than 100%"];
    let judged = |baseline: &[&str]| timed(&[&limit[..], baseline].concat());
    let told = judged(&["--baseline", "fast.json", "--junit", "load.xml"]);
    let screen = text(&told.stdout);
    assert_eq!(told.status.code(), Some(3), "{screen}");
    assert!(screen.starts_with("comparison missed: p50 worse than 100%: "), "{screen}");
    let told = judged(&["--baseline", "slow.json"]);
    let screen = text(&told.stdout);
    assert_eq!(told.status.code(), Some(0), "{screen}");
    assert!(screen.contains("compared   p50 worse than 100% met: ") && screen.contains("one earlier run"), "{screen}");
    // Earlier runs that differ a hundredfold say nothing; the run directory is one of them.
    let told =
        judged(&["--baseline", "fast.json", "--baseline", "slow.json", "--baseline", "run", "--junit", "load.xml"]);
    let screen = text(&told.stdout);
    assert_eq!(told.status.code(), Some(0), "{screen}");
    assert!(screen.contains("p50 worse than 100% cannot be told: "), "{screen}");
    assert!(fs::read_to_string(folder.path().join("load.xml")).expect("it was written").contains("skipped=\"1\""));
    let kept = fs::read_to_string(folder.path().join("run/load.json")).expect("it is kept");
    assert!(!kept.contains("page.html"), "a URL may hold secrets");
    fs::write(folder.path().join("none.json"), "{}").expect("a file");
    for (arguments, words) in [
        (&["--baseline", "fast.json", "-c", "3"][..], "it was made otherwise: connections was 10 and is 3 now"),
        (&["--baseline", "none.json"], "it has no connections"),
        (&["--baseline", "list"], "it is no JSON"),
        (&["--baseline", "site"], "weir load --run writes it"),
        (&["--fail-on", "p99 worse than 10%"], "--baseline"),
        (&["--baseline", "fast.json", "--fail-on", "errors worse than 1%"], "--slo 'errors<1%'"),
    ] {
        let told = timed(arguments);
        assert_eq!(told.status.code(), Some(2), "{arguments:?}: {told:?}");
        assert!(text(&told.stderr).contains(words), "{arguments:?}: {}", text(&told.stderr));
    }
}

/// A run that cannot be made is told to a build as well: files of an earlier run would say that it passed.
#[test]
fn a_run_that_cannot_be_made_fails_in_what_a_build_reads() {
    let folder = tempfile::tempdir().expect("a directory");
    let [junit, markdown] = ["load.xml", "load.md"].map(|name| folder.path().join(name));
    fs::write(&markdown, "**Passed.**").expect("a file");
    let url = format!("http://127.0.0.1:{}/", weir_testkit::free_port());
    let told = weir()
        .args(["load", "-q", "-n", "1", "--github", "--junit"])
        .args([&junit, Path::new("--markdown"), &markdown])
        .arg(&url)
        .output()
        .expect("it runs");
    assert_eq!(told.status.code(), Some(1), "{told:?}");
    assert!(text(&told.stderr).contains("::error title=weir load"), "{}", text(&told.stderr));
    let [junit, markdown] = [junit, markdown].map(|file| fs::read_to_string(file).expect("it was written"));
    assert!(junit.contains("errors=\"1\"") && junit.contains(&url), "{junit}");
    assert!(markdown.contains("**Failed:**") && !markdown.contains("Passed"), "{markdown}");
}
