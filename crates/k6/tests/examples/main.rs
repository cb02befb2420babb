//! The examples that come with k6's own Go module, unchanged, by k6 and by weir against the same server: requests,
//! iterations, checks and the names of metrics are equal. `scripts/test-k6` builds k6 and runs this.
// scripts/test: waits

mod both;
mod site;

use serde_json::{Value, json};
use site::Site;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Each example, with words of the command line that make it short.
const EXAMPLES: [(&str, &[&str]); 27] = [
    ("base64.js", &[]),
    ("cookies.js", &["-i", "2"]),
    ("crypto.js", &[]),
    ("custom_metrics.js", &["-i", "3", "-u", "2"]),
    ("graphql.js", &[]),
    ("html_form_post.js", &["-i", "2"]),
    ("http_2.js", &[]),
    ("http_basic_auth.js", &["-i", "2"]),
    ("http_batch.js", &["-i", "2"]),
    ("http_digest_auth.js", &[]),
    ("http_get.js", &["-i", "4", "-u", "2"]),
    ("http_verbs.js", &["-i", "2"]),
    ("json.js", &[]),
    ("jwt.js", &[]),
    ("logging.js", &[]),
    ("ocsp.js", &[]),
    ("redirects.js", &[]),
    ("stages.js", &["-i", "4", "-u", "2"]),
    ("tagging.js", &["-i", "2"]),
    ("thresholds.js", &[]),
    ("thresholds_readme_example.js", &["-i", "1"]),
    ("timers.js", &[]),
    ("tls_skip_cert_verification.js", &[]),
    ("webcrypto/digest.js", &[]),
    ("webcrypto/getRandomValues.js", &[]),
    ("webcrypto/randomUUID.js", &[]),
    ("websocket.js", &[]),
];

/// k6, and the folder of its examples, where `scripts/test-k6` says them.
fn oracle() -> Option<(PathBuf, PathBuf)> {
    let of = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.exists());
    Some((of("WEIR_TEST_K6")?, of("WEIR_TEST_K6_EXAMPLES")?))
}

/// The example of this crate that runs scripts.
fn weir() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().and_then(Path::parent).unwrap().join("examples/script")
}

/// Runs a script; what it printed, and its summary.
fn run(program: &Path, script: &Path, words: &[&str], site: &Site, folder: &Path) -> (Output, Value, u64) {
    let hosts = |port: u16| format!("127.0.0.1:{port}");
    let mut names = serde_json::Map::new();
    for name in ["httpbin.org", "quickpizza.grafana.com", "api.github.com", "stackoverflow.com"] {
        names.insert(format!("{name}:80"), json!(hosts(site.plain)));
        names.insert(format!("{name}:443"), json!(hosts(site.encrypted)));
    }
    names.insert("echo.websocket.org:80".to_owned(), json!(site.echo.addr().to_string()));
    let config = folder.join("config.json");
    std::fs::write(&config, json!({ "hosts": names }).to_string()).unwrap();
    let summary = folder.join("summary.json");
    // That of another run must not be taken for this one's.
    let _ = std::fs::remove_file(&summary);
    let before = site.requests.load(std::sync::atomic::Ordering::Relaxed);
    let output = Command::new(program)
        .args(["run", "--quiet", "--insecure-skip-tls-verify", "--config"])
        .arg(&config)
        .arg("--summary-export")
        .arg(&summary)
        .args(words)
        .arg(script)
        .env("K6_NO_USAGE_REPORT", "true")
        .output()
        .unwrap();
    let requests = site.requests.load(std::sync::atomic::Ordering::Relaxed) - before;
    let text = std::fs::read_to_string(&summary).unwrap_or_else(|_| panic!("no summary: {output:?}"));
    (output, serde_json::from_str(&text).unwrap(), requests)
}

/// The names of metrics, but for those that need a second to be there.
fn names(summary: &Value) -> BTreeSet<String> {
    let all = summary["metrics"].as_object().unwrap().keys().filter(|name| !name.starts_with("vus"));
    all.cloned().collect()
}

/// What must be equal: counts, checks in their groups, thresholds.
fn counts(summary: &Value) -> Value {
    let metrics = &summary["metrics"];
    let thresholds: serde_json::Map<String, Value> = metrics
        .as_object()
        .unwrap()
        .iter()
        .filter_map(|(name, metric)| Some((name.clone(), metric.get("thresholds")?.clone())))
        .collect();
    json!({
        "requests": metrics["http_reqs"]["count"].as_f64(),
        "failed": metrics["http_req_failed"]["passes"].as_f64(),
        "iterations": metrics["iterations"]["count"].as_f64(),
        "checks": [metrics["checks"]["passes"].as_f64(), metrics["checks"]["fails"].as_f64()],
        "groups": whole(&summary["root_group"]),
        "thresholds": thresholds,
    })
}

/// Numbers of groups and checks as whole ones.
fn whole(group: &Value) -> Value {
    match group {
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(name, value)| (name.clone(), whole(value))).collect())
        }
        Value::Number(number) => json!(number.as_f64()),
        other => other.clone(),
    }
}

#[test]
fn examples_of_k6_do_the_same_in_both() {
    let Some((k6, examples)) = oracle() else {
        eprintln!("skipped: k6 is built by scripts/test-k6");
        return;
    };
    let site = Site::start();
    let folder = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for (name, words) in EXAMPLES {
        let script = examples.join(name);
        let theirs = run(&k6, &script, words, &site, folder.path());
        let ours = run(&weir(), &script, words, &site, folder.path());
        let mut differ = |what: &str, theirs: String, ours: String, log: &Output| {
            if theirs != ours {
                let log = String::from_utf8_lossy(&log.stderr).into_owned();
                wrong.push(format!("{name}: {what}:\n  k6   {theirs}\n  weir {ours}\n{log}"));
            }
        };
        differ("metrics", format!("{:?}", names(&theirs.1)), format!("{:?}", names(&ours.1)), &ours.0);
        differ("counts", counts(&theirs.1).to_string(), counts(&ours.1).to_string(), &ours.0);
        differ("requests at the server", theirs.2.to_string(), ours.2.to_string(), &ours.0);
        differ("exit status", format!("{:?}", theirs.0.status.code()), format!("{:?}", ours.0.status.code()), &ours.0);
        println!("{name}: {} requests, status {:?}", ours.2, ours.0.status.code());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
