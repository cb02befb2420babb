//! What `weir load` says of success: first on its screen, in every output, in its exit status, and by an objective.

use crate::support;

use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::weir;

/// A server that answers each request with the status that `choose` gives for its number; 0 closes without an answer.
/// It ends with the test's process.
fn answering(choose: impl Fn(usize) -> u16 + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    let (choose, asked) = (Arc::new(choose), Arc::new(AtomicUsize::new(0)));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (choose, asked) = (Arc::clone(&choose), Arc::clone(&asked));
            std::thread::spawn(move || serve(stream, |number| choose(number), &asked));
        }
    });
    address
}

fn serve(mut stream: TcpStream, choose: impl Fn(usize) -> u16, asked: &AtomicUsize) {
    let (mut pending, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        pending.extend_from_slice(&buffer[..count]);
        while let Some(end) = pending.windows(4).position(|window| window == b"\r\n\r\n") {
            pending.drain(..end + 4);
            let status = choose(asked.fetch_add(1, Ordering::Relaxed));
            let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\nok");
            if status == 0 || stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn load(address: SocketAddr, arguments: &[&str]) -> Output {
    weir().args(["load", "-q"]).args(arguments).arg(format!("http://{address}/")).output().expect("it runs")
}

fn json_of(address: SocketAddr, arguments: &[&str]) -> (Value, Option<i32>) {
    let output = load(address, &[&["--json"], arguments].concat());
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (report, output.status.code())
}

fn text_of(address: SocketAddr, arguments: &[&str]) -> (String, Option<i32>) {
    let output = load(address, arguments);
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
}

const FEW: [&str; 4] = ["-n", "40", "-c", "1"];

#[test]
fn success_statuses_and_errors_stand_before_times() {
    let half = answering(|number| if number % 2 == 0 { 200 } else { 500 });
    let (text, code) = text_of(half, &FEW);
    let place = |word: &str| text.find(word).unwrap_or_else(|| panic!("{word}: {text}"));
    assert_eq!(code, Some(0), "some succeeded");
    let order =
        ["  success ", "  requests ", "  status ", "  errors ", "  of successes", "  latency ", "  other status"];
    assert!(order.map(place).is_sorted(), "{text}");
    assert!(text.contains("50.00 %   20 of 40 requests") && text.contains("200: 20, 500: 20"), "{text}");
    let (report, _) = json_of(half, &FEW);
    assert_eq!(
        (&report["success_rate"], &report["successes"], &report["unexpected"]),
        (&json!(0.5), &20.into(), &20.into())
    );
    for place in ["latency_ns", "latency_unexpected_ns"] {
        assert!(report[place]["p99"].is_u64(), "{place}: {report:#}");
    }
    let points = report["series"]["points"].as_array().expect("points");
    let sum = |name: &str| points.iter().filter_map(|point| point[name].as_u64()).sum::<u64>();
    assert_eq!((sum("requests"), sum("successes"), sum("unexpected")), (40, 20, 20));
}

#[test]
fn nothing_that_succeeds_is_no_success() {
    for (status, name) in [(404, "404: 40"), (503, "503: 40"), (0, "closed: 40")] {
        let server = answering(move |_| status);
        let (text, code) = text_of(server, &FEW);
        let first = text.lines().next().unwrap_or_default();
        assert!(first.starts_with("no request succeeded"), "{text}");
        assert!(text.contains(name) && !text.contains("  latency "), "{text}");
        assert_eq!(code, Some(1), "{status}");
        let (report, code) = json_of(server, &FEW);
        assert_eq!((&report["latency_ns"], &report["latency_curve_ns"], code), (&Value::Null, &Value::Null, Some(1)));
        assert_eq!((&report["success_rate"], &report["successes_per_s"]), (&json!(0.0), &json!(0.0)));
    }
}

#[test]
fn what_is_a_success_can_be_said() {
    let missing = answering(|_| 404);
    let (report, code) = json_of(missing, &[&FEW[..], &["--ok", "2xx,404"]].concat());
    assert_eq!((&report["ok"], &report["successes"], code), (&json!("200-299,404"), &40.into(), Some(0)));
    let redirecting = answering(|_| 302);
    assert_eq!(json_of(redirecting, &FEW).1, Some(0));
    assert_eq!(json_of(redirecting, &[&FEW[..], &["--ok", "200-299"]].concat()).1, Some(1));
    for wrong in ["", "ok", "399-200", "20x"] {
        let output = load(missing, &["--ok", wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("--ok"), "{output:?}");
    }
}

#[test]
fn an_objective_judges_a_run() {
    let good = answering(|_| 200);
    let (report, code) = json_of(good, &[&FEW[..], &["--slo", "p99<10s"]].concat());
    assert_eq!((&report["objective"]["met"], &report["objective"]["missed"], code), (&json!(true), &0.into(), Some(0)));
    let (text, code) = text_of(good, &[&FEW[..], &["--slo", "p50<1us"]].concat());
    assert_eq!(code, Some(3), "{text}");
    let place = |word: &str| text.find(word).unwrap_or_else(|| panic!("{word}: {text}"));
    assert!(place("objective  p50<1us missed") < place("  latency "), "{text}");
    // One in ten is refused at once: fast, and a miss of every objective.
    let refusing = answering(|number| if number % 10 == 9 { 503 } else { 200 });
    for (objective, met) in [("p95<10s", false), ("errors<5%", false), ("p85<10s", true), ("errors<11%", true)] {
        let (report, code) = json_of(refusing, &[&FEW[..], &["--slo", objective]].concat());
        assert_eq!(report["objective"]["met"], met, "{objective}: {report:#}");
        assert_eq!((&report["objective"]["requests"], &report["objective"]["missed"]), (&40.into(), &4.into()));
        assert_eq!(code, Some(if met { 0 } else { 3 }), "{objective}");
    }
    let nothing = answering(|_| 503);
    assert_eq!(json_of(nothing, &[&FEW[..], &["--slo", "errors<99%"]].concat()).1, Some(1), "nothing succeeded");
}

#[test]
fn files_tell_successes_and_others() {
    let half = answering(|number| if number % 2 == 0 { 200 } else { 500 });
    let folder = tempfile::tempdir().expect("a directory");
    let [csv, html, metrics] = ["a.csv", "a.html", "a.prom"].map(|name| folder.path().join(name));
    let [csv_name, html_name, metrics_name] = [&csv, &html, &metrics].map(|path| path.to_str().expect("text"));
    let outputs = ["--csv", csv_name, "--html", html_name, "--prometheus", metrics_name, "--slo", "errors<1%"];
    let (_, code) = json_of(half, &[&FEW[..], &outputs].concat());
    assert_eq!(code, Some(3));
    let read = |path| std::fs::read_to_string(path).expect("it was written");
    let table = read(&csv);
    let columns: Vec<_> = table.lines().next().unwrap_or_default().split(',').collect();
    let value = |name: &str| {
        let place = columns.iter().position(|column| *column == name).unwrap_or_else(|| panic!("{name}: {table}"));
        table.lines().nth(1).and_then(|line| line.split(',').nth(place)).unwrap_or_default().to_owned()
    };
    assert_eq!([value("requests"), value("successes"), value("unexpected")], ["40", "20", "20"]);
    assert_eq!(value("success_percent"), "50.0000");
    let page = read(&html);
    assert!(page.contains("successes a second") && page.contains("No success"), "the page tells both");
    assert!(page.contains("errors&lt;1% missed"), "and the objective");
    let metrics = read(&metrics);
    for line in ["weir_load_successes_total", "weir_load_unexpected_total", "weir_load_latency_seconds_count"] {
        let told = metrics.lines().find(|told| told.starts_with(line)).unwrap_or_else(|| panic!("{line}: {metrics}"));
        assert!(told.ends_with(" 20"), "{told}");
    }
}

#[test]
fn a_search_counts_refusals_as_missed() {
    // Two of three are refused: every rate misses the objective, and the report says by what.
    let server = answering(|number| if number % 3 == 0 { 200 } else { 503 });
    let arguments = ["--find-max", "--slo", "p90<20ms", "-d", "20s", "--from-rate", "50"];
    let (found, code) = json_of(server, &arguments);
    assert_eq!(code, Some(1), "{found:#}");
    assert!(found["highest"]["is"] == "below" || found["highest"]["is"] == "unknown", "{found:#}");
    let rates = found["rates"].as_array().expect("rates");
    // A trial at a low rate may have sent too little to tell.
    let at = rates.iter().max_by_key(|at| at["requests"].as_u64()).expect("a rate was tried");
    assert!(at["status"]["503"].as_u64().is_some_and(|count| count > 0), "{at:#}");
    assert!(at["success_rate"].as_f64().is_some_and(|share| share < 0.5), "{at:#}");
    assert!(at["missed_share"].as_f64().is_some_and(|share| share > 0.5), "{at:#}");
}
