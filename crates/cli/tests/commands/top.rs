//! `weir top`: servers with their rates and largest causes, keys, and what it leaves behind.

use crate::support;

use serde_json::Value;
use std::process::{Child, Stdio};
use std::time::Duration;
use support::terminal::Terminal;
use support::{alone, number, output, weir};
use weir_testkit::{Faulty, Nginx, RunningServer, Site, WeirServe, require};

/// Load for as long as it is kept.
struct Load(Child);

impl Load {
    fn of(url: &str, rate: &str) -> Self {
        let mut command = weir();
        command.args(["load", url, "--rate", rate, "-c", "4", "-d", "60s", "-q"]);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the load starts"))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn of_port(told: &Value, port: u16) -> Option<&Value> {
    let servers = told["servers"].as_array().expect("servers");
    servers.iter().find(|one| one["ports"].as_array().is_some_and(|ports| ports.contains(&port.into())))
}

fn serve(site: &Site) -> RunningServer {
    WeirServe::new(env!("CARGO_BIN_EXE_weir")).root(site.path()).start().expect("weir serve starts")
}

#[test]
fn each_server_has_its_rate_and_a_sleeping_one_is_named_with_its_cause() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let site = Site::sample().expect("a site");
    let (sleeping, quick) = (Faulty::new("sleep").start().expect("it starts"), serve(&site));
    // A proxy before the sleeping one: requests of one server to another count for both.
    let proxy = require::nginx().map(|()| Nginx::new().proxy("/", &sleeping.url("/")).start().expect("nginx starts"));
    let asked = proxy.as_ref().unwrap_or(&sleeping);
    let loads = [Load::of(&asked.url("/"), "40"), Load::of(&quick.url("/"), "200")];
    std::thread::sleep(Duration::from_millis(500));
    let told = output(&["top", "--json", "-n", "2", "--interval", "1s", "--sort", "p99"]);
    let stdout = String::from_utf8_lossy(&told.stdout);
    assert_eq!(told.status.code(), Some(0), "{told:?}");
    let lines: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 2, "{stdout}");
    let second = &lines[1];
    let (slow, fast) = (of_port(second, sleeping.port).expect("a row"), of_port(second, quick.port).expect("a row"));
    assert_eq!(slow["causes"][0]["part"], "wait_timer", "{slow:#}");
    assert!(number(slow, "/causes/0/share") > 0.5, "{slow:#}");
    // The load's rate; on a busy machine a window has a few more or less.
    assert!((20.0..60.0).contains(&number(slow, "/rate_per_s")), "{slow:#}");
    assert!((120.0..280.0).contains(&number(fast, "/rate_per_s")), "{fast:#}");
    assert!(number(fast, "/p50_ns") < number(slow, "/p50_ns"), "{second:#}");
    assert!(fast["status_5xx"].is_null() && number(fast, "/unanswered") == 0.0, "{fast:#}");
    assert!(number(second, "/observer_cost/cpu_share") > 0.0 && number(second, "/observer_cost/events") > 0.0);
    if let Some(proxy) = &proxy {
        let before = of_port(second, proxy.port).expect("a row");
        assert_eq!(
            (&before["name"], &before["causes"][0]["part"]),
            (&"nginx".into(), &"wait_timer".into()),
            "{before:#}"
        );
        assert!((20.0..60.0).contains(&number(before, "/rate_per_s")), "{before:#}");
    }
    // In text, with the cost in the last line.
    let once = output(&["top", "--once", "--interval", "500ms", "--sort", "p99"]);
    let text = String::from_utf8_lossy(&once.stdout);
    let row = text.lines().find(|line| line.contains(&format!(" {} ", sleeping.port))).expect("a row");
    assert!(row.starts_with("weir-faulty") && row.contains("% wait_timer"), "{text}");
    assert!(text.trim_end().lines().last().is_some_and(|last| last.starts_with("observing: ")), "{text}");
    drop(loads);
}

#[test]
fn keys_sort_choose_and_end_it_and_the_last_table_stays() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let sleeping = Faulty::new("sleep").start().expect("it starts");
    let load = Load::of(&sleeping.url("/"), "40");
    let mut terminal = Terminal::new(160, 40);
    let before = terminal.modes();
    let mut command = weir();
    command.args(["top", "--interval", "500ms"]).env("TMPDIR", folder.path());
    let mut top = terminal.start(command);
    let at = terminal.wait_for(0, |seen| seen.contains("wait_timer") && seen.contains("observing: "));
    assert_ne!(terminal.modes(), before, "single keys are read");
    terminal.press(b"pj");
    terminal.wait_for(at, |seen| seen.contains("> ") && seen.contains("more of it: weir explain --port "));
    terminal.press(b"q");
    let status = top.wait().expect("it ends");
    let seen = terminal.seen();
    assert_eq!(status.code(), Some(0), "{seen}");
    assert_eq!(terminal.modes(), before, "the modes of the terminal are those of before");
    let end = seen.rsplit("\x1b[J").next().expect("what was printed last");
    assert!(end.contains("SERVER") && end.trim_end().contains("observing: "), "the last table stays: {end:?}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("it is there").flatten().collect();
    assert!(left.is_empty(), "nothing is left behind: {left:?}");
    drop(load);
}

#[test]
fn without_rights_it_says_what_is_missing() {
    let told = output(&["top", "--once", "--rung", "proc"]);
    let said = String::from_utf8_lossy(&told.stderr);
    assert_eq!(told.status.code(), Some(1), "{said}");
    assert!(said.contains("follows no request"), "{said}");
    for (wrong, words) in [(["--interval", "10ms"], "500ms or longer"), (["-n", "0"], "0")] {
        let refused = output(&["top", wrong[0], wrong[1]]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    }
}
