//! Decisions of a real server's rules under a real load, in runs whose recording could not see them: `--decisions` puts
//! them on the time line, each once, and says what it cannot.
// scripts/test: waits

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use support::planted::wait_for;
use support::served::Served;
use support::{alone, number, output, weir};
use tempfile::TempDir;
use weir_testkit::require;
use weir_tiles::RunTiles;

const RULES: &str = "\
atom \"/news/*\" {
    rule flash: during if rate@atom > 5rps then shed 25% until rate@atom < 1rps hold 100ms;
    rule greedy: during if rate@client > 20rps then shed 10% until rate@client < 2rps hold 100ms;
    rule seldom: every 100ms if rate@atom > 100000rps then alert \"never\";
}
";

/// A server with its rules, which writes down what they decide.
struct Site {
    folder: TempDir,
    served: Served,
}

impl Site {
    fn start() -> Self {
        let folder = TempDir::new().expect("a directory");
        std::fs::create_dir_all(folder.path().join("site/news")).expect("a directory");
        std::fs::write(folder.path().join("site/news/a.html"), "news").expect("a file");
        std::fs::write(folder.path().join("flood.policy"), RULES).expect("a file");
        let args = ["--tick", "50ms", "--policy", "flood.policy", "--decisions", "log.jsonl"];
        let served = Served::start(folder.path(), &args, "site");
        // It is there from the start, before anything is decided.
        wait_for(|| folder.path().join("log.jsonl").metadata().ok().filter(|found| found.len() > 0));
        Self { folder, served }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/news/a.html", self.served.port)
    }

    /// Ends the server, so that all of its file is written.
    fn end(&mut self) {
        self.served.signal(libc::SIGTERM);
        self.served.child.wait().expect("it ends");
    }
}

/// A run that a load alone has written, and what the server wrote down meanwhile: made once.
fn loaded() -> (&'static Path, &'static Path) {
    static MADE: OnceLock<(TempDir, PathBuf, PathBuf)> = OnceLock::new();
    let (_, run, log) = MADE.get_or_init(|| {
        let _turn = alone();
        let mut site = Site::start();
        let (run, log) = (site.path("run"), site.path("log.jsonl"));
        let said = output(&["load", "-q", "-c", "2", "-d", "1500ms", "--run", text(&run), &site.url()]);
        assert!(said.stderr.is_empty() || said.status.success(), "{}", words(&said));
        site.end();
        let Site { folder, .. } = site;
        (folder, run, log)
    });
    (run, log)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a readable path")
}

fn words(said: &Output) -> String {
    String::from_utf8_lossy(&said.stderr).into_owned()
}

/// A run's directory of a test's own.
fn copied(run: &Path, folder: &TempDir) -> PathBuf {
    let copy = folder.path().join("run");
    let status = Command::new("cp").arg("-r").arg(run).arg(&copy).status().expect("cp runs");
    assert!(status.success());
    copy
}

/// The report of a run, and what was said beside it.
fn explained(run: &Path, log: Option<&Path>) -> (Value, String) {
    let mut arguments = vec!["explain", "--json"];
    arguments.extend(log.map(|log| ["--decisions", text(log)]).into_iter().flatten());
    arguments.push(text(run));
    let said = output(&arguments);
    assert!(said.status.success(), "{}", words(&said));
    (serde_json::from_slice(&said.stdout).expect("JSON"), words(&said))
}

fn decisions(report: &Value) -> Vec<(f64, String)> {
    // Where there are none, there is no list.
    report["decisions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| (number(one, "/at_s"), one["text"].as_str().expect("a text").to_owned()))
        .collect()
}

/// What a file has: the time in milliseconds since 1970, rule, and what became of it.
fn written(log: &Path) -> Vec<(f64, String, String)> {
    let lines = std::fs::read_to_string(log).expect("the file");
    let lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let decided = lines.filter_map(|line| line.get("decided").cloned());
    let name = |value: &Value| value.as_str().expect("a name").to_owned();
    decided.map(|one| (number(&one, "/at_ms"), name(&one["rule"]), name(&one["outcome"]["kind"]))).collect()
}

/// When a run began: by the time of day, milliseconds since 1970, and by its own clock, nanoseconds.
fn began(run: &Path) -> (f64, f64) {
    let manifest = std::fs::read_to_string(run.join("manifest.jsonl")).expect("a manifest");
    let first: Value = serde_json::from_str(manifest.lines().next().expect("a line")).expect("JSON");
    (number(&first, "/realtime_ns") / 1e6, number(&first, "/monotonic_ns"))
}

fn of_the_view(run: &Path) -> Value {
    let tiles = RunTiles::open(run, |_| false, &mut |_| true).expect("the run is read");
    serde_json::from_slice(tiles.whole_json()).expect("JSON")
}

/// The file with another first line.
fn with_header(log: &Path, folder: &TempDir, change: impl FnOnce(&mut Value)) -> PathBuf {
    let lines = std::fs::read_to_string(log).expect("the file");
    let (first, rest) = lines.split_once('\n').expect("lines");
    // Its first field stays the first, which is what the file is known by.
    let mut header: Value = serde_json::from_str(first).expect("JSON");
    change(&mut header);
    let fields = header.as_object().expect("fields").iter().filter(|(name, _)| *name != "format");
    let fields: String = fields.map(|(name, value)| format!(",\"{name}\":{value}")).collect();
    let changed = folder.path().join("changed.jsonl");
    std::fs::write(&changed, format!("{{\"format\":\"weir-readings\"{fields}}}\n{rest}")).expect("a file");
    changed
}

/// A run that only a load has written holds no decisions of the server; with the server's file it gets all of them, at
/// their times, and keeps them.
#[test]
fn a_run_of_a_load_alone_has_what_the_server_wrote_down() {
    let (run, log) = loaded();
    let folder = TempDir::new().expect("a directory");
    let run = copied(run, &folder);
    assert_eq!(decisions(&explained(&run, None).0), [], "the run holds none");
    let (report, said) = explained(&run, Some(log));
    let found = decisions(&report);
    let fired =
        found.iter().find(|(_, text)| text.starts_with("flash (flood.policy:2) for /news/a.html fired: shed 25%"));
    let (fired_s, fired) = fired.unwrap_or_else(|| panic!("{found:#?}"));
    assert!(fired.contains("; rate@atom > 5rps: "), "it cites its reading: {fired}");
    let (_, greedy) = found.iter().find(|(_, text)| text.starts_with("greedy")).expect("a decision for the client");
    assert!(greedy.contains(" client h") && !greedy.contains("127.0.0.1"), "a run has no addresses: {greedy}");
    assert!(
        said.contains(&format!("{} decisions of {} are on the run's time line", found.len(), log.display())),
        "{said}"
    );
    // The file has the time of day, and so has the manifest: another way than by the header.
    let (began_ms, _) = began(&run);
    let (fired_ms, ..) =
        written(log).into_iter().find(|(_, rule, kind)| rule == "flash" && kind == "fired").expect("it fired");
    let expected_s = (fired_ms - began_ms) / 1e3;
    assert!((fired_s - expected_s).abs() < 0.1, "at {fired_s}, in the file at {expected_s}");
    let ended_ms = began_ms + 1e3 * number(&report, "/duration_s");
    let within = written(log).into_iter().filter(|(at_ms, ..)| *at_ms > began_ms - 1.0 && *at_ms < ended_ms - 50.0);
    assert!(found.len() >= within.count(), "all of the run's time: {found:#?}");
    // Again: it has them.
    let (report, said) = explained(&run, Some(log));
    assert_eq!(decisions(&report), found);
    assert!(said.contains(&format!("the run has all {} decisions", found.len())), "{said}");
    assert_eq!(decisions(&explained(&run, None).0), found, "they stay");
    let whole = of_the_view(&run);
    let marks = whole["remarks"].as_array().expect("remarks");
    assert_eq!(marks.len(), found.len());
    assert!(marks.iter().zip(&found).all(|(mark, (_, text))| mark["text"] == **text), "{marks:#?}");
    assert_eq!(number(&report, "/requests"), number(&explained(run_of_the_load(), None).0, "/requests"));
}

fn run_of_the_load() -> &'static Path {
    loaded().0
}

/// Decisions that the server's probe has recorded stand there once, and only the missing ones are added.
#[test]
fn what_the_probe_has_told_is_not_told_again() {
    if require::socket_tracepoints().is_none() {
        return;
    }
    let _turn = alone();
    let mut site = Site::start();
    let (run, log, port) = (site.path("run"), site.path("log.jsonl"), site.served.port.to_string());
    let url = site.url();
    let recorded =
        ["explain", "--json", "--load", &url, "--port", &port, "-c", "2", "-d", "1500ms", "--run", text(&run)];
    // As it is recorded, with a file that grows: a tick that is not over at the run's end is waited for.
    let said = output(&[&recorded[..], &["--decisions", text(&log)]].concat());
    assert!(said.status.success(), "{}", words(&said));
    let report: Value = serde_json::from_slice(&said.stdout).expect("JSON");
    site.end();
    let found = decisions(&report);
    let count = |rule: &str| found.iter().filter(|(_, text)| text.starts_with(rule)).count();
    let (began_ms, began_ns) = began(&run);
    let whole = of_the_view(&run);
    let ended_ms = began_ms + (number(&whole, "/origin_ns") + number(&whole, "/duration_ns") - began_ns) / 1e6;
    for rule in ["flash", "greedy", "seldom"] {
        let within = |slack_ms: f64| {
            let all = written(&log).into_iter().filter(|(_, name, _)| name == rule);
            all.filter(|(at_ms, ..)| *at_ms > began_ms - slack_ms && *at_ms < ended_ms + slack_ms).count()
        };
        assert!((within(-60.0)..=within(60.0)).contains(&count(rule)), "{rule}: {found:#?}\n{}", words(&said));
    }
    assert!(count("flash") > 0 && count("greedy") > 0, "{found:#?}");
    // A run of which a part was told by probes: of the others each is added once.
    let (report, said) = explained(&run, Some(&log));
    assert_eq!(decisions(&report), found, "{said}");
    assert!(said.contains(&format!("the run has all {} decisions", found.len())), "{said}");
}

/// On the lowest rung, without rights, while another program loads the server.
#[test]
fn a_recording_from_proc_alone_has_them_too() {
    let _turn = alone();
    let site = Site::start();
    let (run, log, port) = (site.path("run"), site.path("log.jsonl"), site.served.port.to_string());
    let mut record = weir();
    record.args(["record", "--rung", "proc", "--port", &port, "-d", "2s", "--run", text(&run)]);
    record.args(["--decisions", text(&log)]).stdout(Stdio::null()).stderr(Stdio::piped());
    let record = record.spawn().expect("it starts");
    wait_for(|| run.join("manifest.jsonl").exists().then_some(()));
    // It is no part of the run.
    let loaded = output(&["load", "-q", "--rate", "100", "-d", "500ms", &site.url()]);
    assert!(!loaded.stdout.is_empty(), "{}", words(&loaded));
    let said = record.wait_with_output().expect("it ends");
    assert!(said.status.success(), "{}", words(&said));
    assert!(words(&said).contains("are on the run's time line"), "{}", words(&said));
    let whole = of_the_view(&run);
    let marks = whole["remarks"].as_array().expect("remarks");
    let is_fired = |mark: &&Value| mark["text"].as_str().is_some_and(|text| text.contains(" fired: shed"));
    assert!(marks.iter().any(|mark| is_fired(&mark)), "{marks:#?}");
    assert!(marks.iter().all(|mark| number(mark, "/at_ns") < number(&whole, "/duration_ns")));
}

/// The decisions of a file without its clock, as earlier versions wrote it, or from another start of a host, are placed
/// by the time of day, and the report says so.
#[test]
fn without_the_hosts_clock_the_time_of_day_counts_and_it_is_told() {
    let (run, log) = loaded();
    let folder = TempDir::new().expect("a directory");
    let exact = decisions(&explained(&copied(run, &folder), Some(log)).0);
    let untold: fn(&mut Value) =
        |header| drop(header.as_object_mut().expect("fields").remove("clock").expect("a clock"));
    let elsewhere: fn(&mut Value) = |header| header["clock"]["boot_id"] = "another".into();
    for (change, why) in [(untold, "does not say how its times stand to the host's clock"), (elsewhere, "another host")]
    {
        let folder = TempDir::new().expect("a directory");
        let (report, said) = explained(&copied(run, &folder), Some(&with_header(log, &folder, change)));
        let found = decisions(&report);
        assert!(found.len().abs_diff(exact.len()) <= 1, "{found:#?}\n{exact:#?}");
        let firsts =
            [&exact, &found].map(|all| all.iter().find(|(_, text)| text.contains("fired: shed")).expect("one").0);
        assert!((firsts[0] - firsts[1]).abs() < 0.1, "{firsts:?}");
        let warnings = report["warnings"].to_string();
        assert!(warnings.contains(why) && warnings.contains("changed.jsonl:1: "), "{warnings}");
        assert!(said.contains(why), "{said}");
    }
}

/// Files of other times, in several pieces, and cut ones.
#[test]
fn a_file_of_another_time_one_in_pieces_and_a_cut_one_are_told() {
    let (run, log) = loaded();
    let folder = TempDir::new().expect("a directory");
    let exact = decisions(&explained(&copied(run, &folder), Some(log)).0);
    let folder = TempDir::new().expect("a directory");
    let earlier = with_header(log, &folder, |header| header["clock"]["monotonic_ns"] = 1.into());
    let (report, said) = explained(&copied(run, &folder), Some(&earlier));
    assert_eq!(decisions(&report), []);
    assert!(said.contains("falls within the run: it ends ") && said.contains(" s before the run begins"), "{said}");
    let folder = TempDir::new().expect("a directory");
    let run_of_own = copied(run, &folder);
    let (at_end, first) = (folder.path().join("log.jsonl"), folder.path().join("log.jsonl.1"));
    let lines = std::fs::read_to_string(log).expect("the file");
    let (header, rest) = lines.split_once('\n').expect("lines");
    // Behind the first decision for a client, and cut in the last line.
    let begin = rest.find("\"rule\":\"greedy\"").expect("a decision");
    let at = begin + rest[begin..].find('\n').expect("a line's end") + 1;
    std::fs::write(&first, format!("{header}\n{}", &rest[..at])).expect("a file");
    let continued = header.replace("\"valid_ms\"", "\"continues\":true,\"valid_ms\"");
    std::fs::write(&at_end, format!("{continued}\n{}", &rest[at..rest.len() - 9])).expect("a file");
    let (report, said) = explained(&run_of_own, Some(&at_end));
    assert_eq!(decisions(&report).len(), exact.len());
    assert!(said.contains("log.jsonl: its last line was cut"), "{said}");
}

#[test]
fn what_is_no_such_file_is_refused_with_a_remedy_and_the_run_stays_as_it_was() {
    let (run, log) = loaded();
    let folder = TempDir::new().expect("a directory");
    let run = copied(run, &folder);
    let lines = std::fs::read_to_string(log).expect("the file");
    let (first, rest) = lines.split_once('\n').expect("lines");
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("a file");
        path
    };
    let cases = [
        (folder.path().join("none.jsonl"), vec!["none.jsonl: No such file"]),
        (
            file("access.log", "127.0.0.1 - - [x] \"GET / HTTP/1.1\" 200 5\n"),
            vec!["access.log:1: this line is no header"],
        ),
        (file("empty.jsonl", ""), vec!["empty.jsonl:1: the file has no whole line"]),
        (
            file("wrong.jsonl", &format!("{first}\n{{\"at_ms\":1,\"tock\":true}}\n{rest}")),
            vec!["wrong.jsonl:2: ", "tock"],
        ),
    ];
    for (path, expected) in cases {
        for command in [&["explain"][..], &["view"], &["record", "--port", "1"]] {
            let is_late = path.ends_with("wrong.jsonl") && command[0] == "record";
            if is_late {
                continue;
            }
            let run_as_said: &[&str] = if command[0] == "record" { &[] } else { &[text(&run)] };
            let said = output(&[command, &["--decisions", text(&path)], run_as_said].concat());
            assert_eq!(said.status.code(), Some(1), "{command:?} {}: {}", path.display(), words(&said));
            let words = words(&said);
            assert!(expected.iter().all(|part| words.contains(part)), "{words}");
            assert!(words.contains("`weir serve --decisions FILE` writes"), "{words}");
        }
    }
    assert!(
        !std::fs::read_to_string(run.join("manifest.jsonl")).expect("a manifest").contains("\"source\":\"decisions\"")
    );
    let said = output(&["record", "--always", "--port", "1", "--decisions", text(log)]);
    assert_eq!(said.status.code(), Some(2), "{}", words(&said));
}
