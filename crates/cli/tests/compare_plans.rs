//! `weir compare` by a plan, on real servers: what it shows, and that whatever ends it costs nothing that was measured.

mod support;

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::files::SmallDisk;
use support::{alone, output, weir};

/// Two servers of one site, and a plan of theirs with short slices.
struct Planned {
    folder: tempfile::TempDir,
    ports: [u16; 2],
}

impl Planned {
    fn of(blocks: usize) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let site = folder.path().join("site");
        fs::create_dir(&site).and_then(|()| fs::write(site.join("index.html"), "hello")).expect("a site");
        // Held together, so that they differ.
        let listeners = [0, 0].map(|port| TcpListener::bind(("127.0.0.1", port)).expect("a free port"));
        let ports = listeners.map(|listener| listener.local_addr().expect("bound").port());
        let subject = |name: &str, port: u16| {
            let program = env!("CARGO_BIN_EXE_weir");
            format!(
                "[[subject]]\nname = \"{name}\"\ncommand = \"{program} serve --listen 127.0.0.1:{port} --loops 1 {{plan}}/site\"\nurl = \"http://127.0.0.1:{port}\"\n"
            )
        };
        let text = format!(
            "seed = 3\n[repeat]\nblocks = {blocks}\nagain = 1\nslice = \"100ms\"\nwarm_up = 0\n{}{}[[case]]\nname = \"page\"\npath = \"/index.html\"\n[[case]]\nname = \"closing\"\npath = \"/index.html\"\nload = \"--no-keepalive\"\n",
            subject("old", ports[0]),
            subject("new", ports[1])
        );
        fs::write(folder.path().join("plan.toml"), text).expect("a plan");
        Self { folder, ports }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts it with a folder for its results and waits until so many blocks are kept.
    fn started(&self, results: &Path, blocks: usize) -> Child {
        let mut command = weir();
        command.arg("compare").arg(self.path("plan.toml")).arg("--results").arg(results);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        eventually("blocks are kept", || kept(results) >= blocks);
        child
    }

    fn is_silent(&self) -> bool {
        self.ports.iter().all(|port| TcpStream::connect(("127.0.0.1", *port)).is_err())
    }
}

fn kept(results: &Path) -> usize {
    fs::read_to_string(results.join("blocks.jsonl")).map_or(0, |text| text.matches('\n').count())
}

fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Goes on with it as JSON, up to so many blocks.
fn resumed(results: &Path, blocks: &str) -> Value {
    let results = results.to_str().expect("a readable path");
    let output = output(&["compare", "--resume", results, "--blocks", blocks, "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn an_interrupted_plan_reports_and_goes_on() {
    let _turn = alone();
    let planned = Planned::of(400);
    let results = planned.path("found");
    let child = planned.started(&results, 3);
    // SAFETY: a signal to our own child, which was not waited for.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
    let ended = child.wait_with_output().expect("our child");
    let (stdout, stderr) = (text(&ended.stdout), text(&ended.stderr));
    assert!(ended.status.success(), "{stderr}");
    for part in ["page: ", "closing: ", "CPU per request", "it was interrupted", "too few for a verdict"] {
        assert!(stdout.contains(part), "{part:?} is missing from\n{stdout}");
    }
    assert!(stderr.contains(&format!("--resume {}", results.display())), "{stderr}");
    assert!(planned.is_silent(), "its servers are ended");
    let before = kept(&results);
    let report = resumed(&results, "6");
    assert_eq!(report["ending"], "done");
    let blocks = report["blocks"].as_array().expect("blocks");
    assert!(blocks.len() >= 12.max(before), "{}", blocks.len());
    assert_eq!(kept(&results), blocks.len());
    assert_eq!(report["cases"][1]["results"][0]["baseline"], "old");
    // A second experiment does not go into its folder, and a changed one is not its continuation.
    let folder = results.to_str().expect("a readable path");
    let plan = planned.path("plan.toml");
    for arguments in [
        &["compare", plan.to_str().expect("readable"), "--results", folder][..],
        &["compare", "--resume", folder, "--seed", "4"],
    ] {
        assert_eq!(output(arguments).status.code(), Some(2), "{arguments:?}");
    }
    assert_eq!(kept(&results), blocks.len());
}

#[test]
fn what_a_killed_experiment_measured_is_not_lost() {
    let _turn = alone();
    let planned = Planned::of(400);
    let results = planned.path("found");
    let mut child = planned.started(&results, 2);
    child.kill().expect("it runs");
    assert_eq!(child.wait().expect("our child").signal(), Some(libc::SIGKILL));
    eventually("its servers are ended", || planned.is_silent());
    let before = kept(&results);
    assert!(before >= 2);
    let report = resumed(&results, "4");
    assert!(report["blocks"].as_array().is_some_and(|blocks| blocks.len() >= 8.max(before)), "{report}");
}

#[test]
fn a_full_disk_and_a_report_that_cannot_be_written_cost_no_result() {
    let _turn = alone();
    let planned = Planned::of(2);
    let plan = planned.path("plan.toml");
    let plan = plan.to_str().expect("a readable path");
    let unwritable = planned.path("none/report.xml");
    let told = output(&["compare", plan, "--markdown", "--junit", unwritable.to_str().expect("readable")]);
    assert_eq!(told.status.code(), Some(1));
    assert!(text(&told.stdout).contains("| CPU per request |"), "{}", text(&told.stdout));
    assert!(text(&told.stderr).contains("none/report.xml"), "{}", text(&told.stderr));

    let Some(disk) = SmallDisk::mount(1) else { return };
    let results = disk.path().join("found");
    let child = planned.started(&results, 0);
    eventually("the plan is kept", || results.join("blocks.jsonl").exists());
    // As much as there is room for; the plan has it already.
    let _full = fs::write(disk.path().join("filler"), vec![1; 2 << 20]);
    let ended = child.wait_with_output().expect("our child");
    let (stdout, stderr) = (text(&ended.stdout), text(&ended.stderr));
    assert_eq!(ended.status.code(), Some(1), "{stderr}");
    assert!(stdout.contains("it failed after 1 blocks") && stdout.contains("No space left"), "{stdout}");
    assert!(stdout.contains("CPU per request"), "{stdout}");
    assert!(planned.is_silent());
}

#[test]
fn a_plan_that_is_wrong_starts_nothing_and_says_where() {
    let planned = Planned::of(2);
    let plan = planned.path("plan.toml");
    let written = fs::read_to_string(&plan).expect("ours");
    fs::write(&plan, written.replace("again = 1", "again = \"often\"")).expect("ours");
    let told = output(&["compare", plan.to_str().expect("readable")]);
    let stderr = text(&told.stderr);
    assert_eq!(told.status.code(), Some(2));
    assert!(stderr.contains("plan.toml") && stderr.contains("line 4") && told.stdout.is_empty(), "{stderr}");
    let told = output(&["compare", "/nonexistent/plan.toml"]);
    assert_eq!(told.status.code(), Some(2));
    assert!(text(&told.stderr).contains("/nonexistent/plan.toml"));
}

#[test]
fn a_history_tells_a_lasting_shift_and_a_page_comes_of_results_that_are_there() {
    let _turn = alone();
    let planned = Planned::of(2);
    let [plan, results, history, page] = ["plan.toml", "found", "history", "page.html"]
        .map(|name| planned.path(name).to_str().expect("readable").to_owned());
    let told = output(&[
        "compare",
        &plan,
        "--results",
        &results,
        "--history",
        &history,
        "--label",
        "first <one>",
        "--html",
        &page,
    ]);
    assert_eq!(told.status.code(), Some(0), "{}", text(&told.stderr));
    assert!(text(&told.stdout).contains("history: 1 result; a shift can be found from "), "{}", text(&told.stdout));
    let written = fs::read_to_string(&page).expect("the page");
    assert!(
        written.contains("Ratios block by block") && written.contains(">page</h2>") && written.contains("plan.toml")
    );
    assert!(!written.contains("first <one>") && written.contains("first &lt;one&gt;"), "what is ours is escaped, too");
    let kept_files = || -> Vec<PathBuf> {
        fs::read_dir(&history).expect("the history").map(|entry| entry.expect("an entry").path()).collect()
    };
    let [first] = kept_files().try_into().expect("one result");
    assert!(first.to_string_lossy().ends_with("-first__one_.json"), "{}", first.display());
    // The same result is not kept twice, and nothing is started for it.
    let again =
        || output(&["compare", "--results-of", &results, "--history", &history, "--label", "first <one>", "--json"]);
    let report: Value = serde_json::from_slice(&again().stdout).expect("JSON");
    assert_eq!((report["history"]["results"].as_u64(), kept_files().len()), (Some(1), 1));
    assert!(report["machine"]["cpus"].as_u64() > Some(0) && report["history"]["is_worse"] == false);
    // Before it forty results of half the ratios, just before it nine like it: its level is new, and it lasts.
    let made: Value = serde_json::from_slice(&fs::read(&first).expect("the result")).expect("JSON");
    for number in 0..49_u32 {
        let mut other = made.clone();
        other["at_s"] = made["at_s"].as_u64().map(|at_s| at_s - 10_000 + u64::from(number)).into();
        let factor = if number < 40 { 0.5 } else { 1.0 } * (1.0 + 1e-4 * f64::from(number * 37 % 50));
        for figure in other["figures"].as_array_mut().expect("figures") {
            figure["value"] = figure["value"].as_f64().map(|value| value * factor).into();
        }
        fs::write(Path::new(&history).join(format!("made-{number:02}.json")), other.to_string()).expect("a file");
    }
    fs::write(Path::new(&history).join("0-damaged.json"), "{").expect("a file");
    let told = again();
    let report: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    assert_eq!(told.status.code(), Some(4), "{}", report["history"]);
    assert_eq!((report["history"]["results"].as_u64(), &report["history"]["is_worse"]), (Some(50), &Value::Bool(true)));
    let told = output(&["compare", "--results-of", &results, "--history", &history, "--accept-shift", "--html", &page]);
    assert_eq!(told.status.code(), Some(0), "it is accepted: {}", text(&told.stderr));
    let stdout = text(&told.stdout);
    for part in ["CPU per request, new over old: worse by ", "; accepted", "passed over: ", "0-damaged.json"] {
        assert!(stdout.contains(part), "{part:?} is missing from\n{stdout}");
    }
    assert!(fs::read_to_string(&page).expect("the page").contains("a new level begins"));
    for arguments in
        [&["compare", "--results-of", history.as_str()][..], &["compare", plan.as_str(), "--history", page.as_str()]]
    {
        assert_eq!(output(arguments).status.code(), Some(2), "{arguments:?}");
    }

    // Without room the report is there all the same, and of the result nothing.
    let Some(disk) = SmallDisk::mount(1) else { return };
    let _full = fs::write(disk.path().join("filler"), vec![1; 2 << 20]);
    let full = disk.path().join("history");
    let told = output(&["compare", "--results-of", &results, "--history", full.to_str().expect("readable")]);
    assert_eq!(told.status.code(), Some(1));
    assert!(
        text(&told.stdout).contains("CPU per request") && text(&told.stderr).contains("history"),
        "{}",
        text(&told.stderr)
    );
    let left = fs::read_dir(&full).map_or(0, Iterator::count);
    assert_eq!(left, 0, "{}", text(&told.stderr));
}
