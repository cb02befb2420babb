//! A replay of a server's recording shows what other rules would have done, also during a run that was recorded
//! meanwhile.
// scripts/test: waits

mod support;

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Duration;
use support::planted::wait_for;
use support::served::Served;
use support::{alone, output, weir};

/// Reads the rate of an atom alone.
const AT_WORK: &str =
    "atom \"/**\" { rule quiet: during if rate@atom > 1000000rps then shed 5% until rate@atom < 1rps; }\n";
/// Reads nothing of that, but other things of the node and of atoms.
const OTHERS: &str = "atom \"/**\" {\n\
    rule node: during if rate@here > 40rps and cpu@here > 0.1% and mem@here > 1MB\n\
        then alert \"many\" until rate@here < 10rps;\n\
    rule atoms: during if wait@atom < 3000s and active@atom < 1000000jobs and errors@atom < 1rps and rate@atom > 40rps\n\
        then shed 5% until rate@atom < 10rps;\n}\n";

/// The summary of a replay of the other rules.
fn replayed(folder: &Path, args: &[&str]) -> Value {
    let mut command = weir();
    let replayed = command.current_dir(folder).args(["replay", "--json", "others.policy"]).args(args).output();
    let replayed = replayed.expect("it starts");
    let said = String::from_utf8_lossy(&replayed.stdout).into_owned();
    assert!(replayed.status.success(), "{said}{}", String::from_utf8_lossy(&replayed.stderr));
    serde_json::from_str(said.lines().next_back().expect("a summary")).expect("JSON")
}

fn fired(summary: &Value, rule: &str) -> u64 {
    let mut of = summary["rules"].as_array().into_iter().flatten().filter(|one| one["name"] == rule);
    of.next().and_then(|one| one["fired"].as_u64()).unwrap_or_else(|| panic!("{rule}: {summary}"))
}

#[test]
fn rules_that_read_other_things_than_those_at_work_are_replayed_also_for_a_runs_time() {
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    fs::create_dir(folder.join("site")).expect("creates");
    fs::write(folder.join("site/a.txt"), "a").expect("writes");
    fs::write(folder.join("work.policy"), AT_WORK).expect("writes");
    fs::write(folder.join("others.policy"), OTHERS).expect("writes");
    let args = ["--policy", "work.policy", "--tick", "100ms", "--admin", "unix:admin.sock", "--decisions", "log.jsonl"];
    let mut served = Served::start(folder, &args, "site");
    let url = format!("http://127.0.0.1:{}/a.txt", served.port);
    let load = |args: &[&str]| {
        let done = weir().current_dir(folder).args(["load", "-q", &url]).args(args).output().expect("it starts");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    // A flood before the run is none of it.
    load(&["-c", "2", "-d", "1s"]);
    let admin = format!("unix:{}", folder.join("admin.sock").display());
    let rate = |shown: &Value| {
        let mut of = shown["readings"].as_array().into_iter().flatten().filter(|one| one["resource"] == "rate");
        of.next().and_then(|one| one["value"].as_f64())
    };
    wait_for(|| {
        let shown: Value = serde_json::from_slice(&output(&["env", "--json", &admin]).stdout).ok()?;
        (rate(&shown) == Some(0.0)).then_some(())
    });
    std::thread::sleep(Duration::from_millis(500));
    load(&["-c", "1", "-d", "2s", "--rate", "2", "--run", "calm"]);
    load(&["-c", "2", "-d", "2s", "--run", "flood"]);
    std::thread::sleep(Duration::from_secs(1));
    served.signal(libc::SIGTERM);
    assert!(served.child.wait().expect("it ends").success());
    let all = replayed(folder, &["log.jsonl"]);
    let (calm, flood) = (
        replayed(folder, &["calm", "--decisions", "log.jsonl"]),
        replayed(folder, &["flood", "--decisions", "log.jsonl"]),
    );
    for rule in ["node", "atoms"] {
        let counts = [&all, &calm, &flood].map(|summary| fired(summary, rule));
        assert_eq!(counts, [2, 0, 1], "{rule}: {all}");
    }
    let refused = |args: &[&str]| {
        let refused = weir().current_dir(folder).args(["replay", "others.policy"]).args(args).output().expect("starts");
        assert!(!refused.status.success());
        String::from_utf8_lossy(&refused.stderr).into_owned()
    };
    assert!(refused(&["flood"]).contains("--decisions FILE"));
    assert!(refused(&["flood", "calm", "--decisions", "log.jsonl"]).contains("one run"));
}
