//! Scripts of our own, by k6 and by weir against the same servers: what they count is equal.

use crate::site::Site;
use crate::{counts, names, oracle, weir};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

/// Each script with its name, words of the command line, and the exit status that both have.
const SCRIPTS: [(&str, &str, &[&str], i32); 9] = [
    ("ws.js", include_str!("scripts/ws.js"), &["-i", "3", "-u", "2"], 0),
    ("ws_refused.js", include_str!("scripts/ws_refused.js"), &[], 0),
    ("ws_throws.js", include_str!("scripts/ws_throws.js"), &[], 0),
    ("websockets.js", include_str!("scripts/websockets.js"), &["-i", "2", "-u", "2"], 0),
    ("websockets_end.js", include_str!("scripts/websockets_end.js"), &[], 0),
    ("interrupted.js", include_str!("scripts/interrupted.js"), &[], 0),
    ("setup_timeout.js", include_str!("scripts/setup_timeout.js"), &[], 100),
    ("teardown_timeout.js", include_str!("scripts/teardown_timeout.js"), &[], 101),
    ("wildcards.js", include_str!("scripts/wildcards.js"), &[], 0),
];

fn run(program: &Path, (name, source): (&str, &str), words: &[&str], site: &Site, folder: &Path) -> Output {
    let (script, config) = (folder.join(name), folder.join("config.json"));
    std::fs::write(&script, source).unwrap();
    let hosts = json!({
        "*.weir.test:443": format!("127.0.0.1:{}", site.encrypted),
        "plain.weir.test": format!("127.0.0.1:{}", site.plain),
        "*.plain.test": format!("127.0.0.1:{}", site.plain),
    });
    std::fs::write(&config, json!({ "hosts": hosts }).to_string()).unwrap();
    // That of another run must not be taken for this one's.
    let _ = std::fs::remove_file(folder.join("summary.json"));
    Command::new(program)
        .current_dir(folder)
        .args(["run", "--quiet", "--insecure-skip-tls-verify", "--config", "config.json"])
        .args(["--summary-export", "summary.json", "--summary-trend-stats", "count"])
        .args(["-e", &format!("ECHO=ws://{}", site.echo.addr())])
        .args(["-e", &format!("SITE=127.0.0.1:{}", site.plain)])
        .args(words)
        .arg(script)
        .env("K6_NO_USAGE_REPORT", "true")
        .output()
        .unwrap()
}

fn summary(folder: &Path) -> Option<Value> {
    serde_json::from_str(&std::fs::read_to_string(folder.join("summary.json")).ok()?).ok()
}

/// How often each metric has a value, or its sum, but for those that count time and bytes.
fn values(summary: &Value) -> Value {
    let metrics = summary["metrics"].as_object().unwrap();
    let counted = metrics.iter().filter(|(name, _)| {
        // How often users are counted depends on the second; connections of HTTP are each program's own matter.
        !name.starts_with("vus") && !name.starts_with("data_") && !name.starts_with("iteration_duration")
    });
    let count = |metric: &Value| metric["count"].as_f64().or_else(|| metric["passes"].as_f64());
    counted.map(|(name, metric)| (name.clone(), json!(count(metric)))).collect::<serde_json::Map<_, _>>().into()
}

#[test]
fn scripts_count_the_same_in_both() {
    let Some((k6, _)) = oracle() else {
        eprintln!("skipped: k6 is built by scripts/test-k6");
        return;
    };
    let site = Site::start();
    let folder = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for (name, source, words, status) in SCRIPTS {
        let of = |program: &Path| {
            let output = run(program, (name, source), words, &site, folder.path());
            (output, summary(folder.path()))
        };
        let (theirs, ours) = (of(&k6), of(&weir()));
        let mut differ = |what: &str, theirs: &str, ours_told: &str| {
            if theirs != ours_told {
                let log = String::from_utf8_lossy(&ours.0.stderr);
                wrong.push(format!("{name}: {what}:\n  k6   {theirs}\n  weir {ours_told}\n{log}"));
            }
        };
        differ("exit status of k6", &format!("{:?}", theirs.0.status.code()), &format!("{:?}", Some(status)));
        differ("exit status", &format!("{:?}", theirs.0.status.code()), &format!("{:?}", ours.0.status.code()));
        if let (Some(theirs), Some(ours)) = (&theirs.1, &ours.1) {
            differ("metrics", &format!("{:?}", names(theirs)), &format!("{:?}", names(ours)));
            differ("counts", &counts(theirs).to_string(), &counts(ours).to_string());
            differ("values", &values(theirs).to_string(), &values(ours).to_string());
        }
        println!("{name}: status {:?}", ours.0.status.code());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// How often each metric was written with each set of tags; what is known of sums only has one value.
fn points(text: &str) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let name = line["metric"].as_str().unwrap();
        if name.starts_with("vus") || name.starts_with("data_") {
            continue;
        }
        let key = match line["type"].as_str() {
            Some("Metric") => format!("{name} is {} of {}", line["data"]["type"], line["data"]["contains"]),
            _ => {
                let mut tags = line["data"]["tags"].clone();
                // Its words are each program's own.
                if let Some(error) = tags.get_mut("error") {
                    *error = json!("some");
                }
                let value = &line["data"]["value"];
                let is_time = line["data"]["value"].as_f64().is_some_and(|value| value.fract() != 0.0);
                let is_timed = is_time || name.starts_with("http_req_") && name != "http_req_failed";
                format!("{name} {tags} {}", if is_timed { &Value::Null } else { value })
            }
        };
        *all.entry(key).or_default() += 1;
    }
    all
}

#[test]
fn values_one_by_one_are_the_same_in_both() {
    let Some((k6, _)) = oracle() else {
        eprintln!("skipped: k6 is built by scripts/test-k6");
        return;
    };
    let site = Site::start();
    let folder = tempfile::tempdir().unwrap();
    let script = ("outputs.js", include_str!("scripts/outputs.js"));
    let words = ["--out", "json=out.json", "--out", "csv=out.csv", "--tag", "run=x"];
    let mut written = Vec::new();
    for program in [k6, weir()] {
        let output = run(&program, script, &words, &site, folder.path());
        assert!(output.status.success(), "{output:?}");
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let rows: Vec<String> = read("out.csv").lines().map(str::to_owned).collect();
        written.push((points(&read("out.json")), rows[0].clone(), rows.len()));
    }
    let [theirs, ours] = &written[..] else { unreachable!("two programs") };
    let missing: Vec<_> = theirs.0.iter().filter(|(key, count)| ours.0.get(*key) != Some(count)).collect();
    let more: Vec<_> = ours.0.iter().filter(|(key, count)| theirs.0.get(*key) != Some(count)).collect();
    assert!(missing.is_empty() && more.is_empty(), "k6 has {missing:#?}\nweir has {more:#?}");
    assert_eq!(theirs.1, ours.1);
    // Bytes are told with each request, and not with each iteration.
    assert!(ours.2 >= theirs.2, "{} rows, and k6 has {}", ours.2, theirs.2);
}
