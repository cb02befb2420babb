//! The dashboard for Grafana: a real Prometheus fetches an agent's metrics and answers every query of every panel.

use crate::{transaction, until};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use url::Url;
use weir_agent::export::{Exports, Options};
use weir_agent::protocol::AgentStatus;
use weir_testkit::require;

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], weir_testkit::free_port()))
}

/// The content of an answer; `None` as long as no server answers.
fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer.split_once("\r\n\r\n")?.1.to_owned())
}

fn query(address: SocketAddr, query: &str) -> Option<Value> {
    let mut url = Url::parse("http://prometheus/api/v1/query").expect("a URL");
    url.query_pairs_mut().append_pair("query", query);
    serde_json::from_str(&get(address, &url.as_str()["http://prometheus".len()..])?).ok()
}

/// Every query of the dashboard, with its variables in place, by its panel's title.
fn queries() -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../native/grafana/weir-arm.json");
    let text = std::fs::read_to_string(path).expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("it is JSON");
    let panels = dashboard["panels"].as_array().expect("it has panels");
    let mut found = Vec::new();
    for panel in panels {
        let title = panel["title"].as_str().expect("a title");
        for target in panel["targets"].as_array().expect("a panel shows something") {
            let query = target["expr"].as_str().expect("a query");
            let query =
                query.replace("$__rate_interval", "4s").replace("$application", ".*").replace("$transaction", ".*");
            assert!(!query.contains('$'), "{title}: an unknown variable in {query}");
            found.push((title.to_owned(), query));
        }
    }
    found
}

#[test]
fn prometheus_fetches_the_metrics_and_answers_what_the_dashboard_asks() {
    if require::program("prometheus").is_none() || require::program("promtool").is_none() {
        return;
    }
    let options = Options {
        prometheus: Some(free()),
        otlp: Some(weir_agent::export::OtlpOptions {
            endpoint: "http://127.0.0.1:9".parse().expect("a URL"),
            headers: Vec::new(),
        }),
        ..Options::default()
    };
    let exports = Exports::start(options, "web1").expect("it starts");
    exports.ask_for_health(Box::new(|| AgentStatus { processes: 2, running: 5, cpu_ns: 7, ..AgentStatus::default() }));
    let metrics = exports.report().prometheus.expect("an address");
    exports.push(&transaction(0, None));
    // Prometheus's own check of the format.
    let text = get(metrics, "/metrics").expect("it answers");
    let check =
        Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut check = check.expect("promtool starts");
    check.stdin.take().expect("its input").write_all(text.as_bytes()).expect("it reads");
    let checked = check.wait_with_output().expect("it ends");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));

    let folder = tempfile::tempdir().expect("a folder");
    let configuration = format!(
        "global: {{ scrape_interval: 500ms, scrape_timeout: 500ms }}\nscrape_configs:\n- job_name: weir\n  static_configs: [{{ targets: ['{metrics}'] }}]\n"
    );
    std::fs::write(folder.path().join("prometheus.yml"), configuration).expect("written");
    let address = free();
    let started = Command::new("prometheus")
        .arg(format!("--config.file={}", folder.path().join("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
        .arg(format!("--web.listen-address={address}"))
        .args(["--log.level=error"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _running = Running(started.expect("Prometheus starts"));
    // Something goes on all the time, so that there are rates.
    let number = std::cell::Cell::new(1u32);
    let go_on = || {
        (0..6).for_each(|_| exports.push(&transaction(u64::from(number.replace(number.get() + 1)), None)));
    };
    for (title, expression) in queries() {
        let mut last = None;
        until(&format!("{title}: {expression}"), Duration::from_secs(30), || {
            go_on();
            last = query(address, &expression);
            let Some(answer) = &last else { return false };
            assert_eq!(answer["status"], "success", "{title}: {expression}: {answer}");
            let values = answer["data"]["result"].as_array().map(Vec::as_slice).unwrap_or_default();
            !values.is_empty() && values.iter().all(|value| value["value"][1] != "NaN")
        });
    }
    let failed =
        query(address, "sum(arm_transaction_duration_seconds_count{arm_status=\"failed\"})").expect("an answer");
    let failed: f64 = failed["data"]["result"][0]["value"][1].as_str().expect("a value").parse().expect("a number");
    assert!(failed > 0.0 && failed <= f64::from(number.get()) / 3.0 + 1.0, "{failed}");
}
