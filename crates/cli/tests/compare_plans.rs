//! `weir compare` by a plan, on real servers: what it shows, and that an end at any time loses no measurement.
// scripts/test: waits

mod support;

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::files::SmallDisk;
use support::planted::undisturbed;
use support::{alone, output, weir};
use weir_testkit::{Site, require};

#[test]
fn a_load_of_two_servers_is_a_comparison() {
    let _turn = alone();
    let site = Site::empty().expect("a site");
    site.write("index.html", b"hello").expect("a file");
    let port = weir_testkit::free_port();
    let (url, folder) = (format!("http://127.0.0.1:{port}/"), site.path().display().to_string());
    let server = format!("{} serve --listen 127.0.0.1:{port} --loops 1 {folder}", env!("CARGO_BIN_EXE_weir"));
    let compared =
        output(&["load", "--compare", &server, &server, "-d", "1s", "-c", "3", "--seed", "4", "--json", &url]);
    let said = String::from_utf8_lossy(&compared.stderr);
    let report: Value = serde_json::from_slice(&compared.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!((&report["format"], &report["seed"]), (&"weir-compare-4".into(), &4.into()), "{said}");
    assert!(report["cases"][0]["results"][0]["verdict"].is_string(), "{report:#}");
    for (arguments, words) in [
        (&["--compare", "http://a/", "b", &url][..], "started by turns"),
        (&["--compare", "a", "b", "--rate", "5", &url], "a comparison (--compare) has its own load"),
    ] {
        let refused = output(&[&["load"], arguments].concat());
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(2) && said.contains(words), "{arguments:?}: {said}");
    }
}

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
    kept_lines(results, "blocks.jsonl")
}

fn kept_lines(results: &Path, name: &str) -> usize {
    fs::read_to_string(results.join(name)).map_or(0, |text| text.matches('\n').count())
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
    // A second one may not go on in its folder meanwhile.
    let other = output(&["compare", "--resume", results.to_str().expect("a readable path")]);
    assert_eq!(other.status.code(), Some(2));
    let stderr = text(&other.stderr);
    assert!(stderr.contains(&format!("process {}", child.id())), "{stderr}");
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

/// Answers each request after taking a lock and computing for so many microseconds; a thread holds the lock for 2 of each
/// 3 ms if it is told to.
const SERVER: &str = r#"
#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long burn_ns;
static void *hoard(void *unused) {
    for (;;) {
        pthread_mutex_lock(&lock);
        usleep(2000);
        pthread_mutex_unlock(&lock);
        usleep(1000);
    }
    return unused;
}
static long used_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}
static void *serve(void *connection) {
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    int socket = (int)(long)connection;
    char request[4096];
    while (read(socket, request, sizeof request) > 0) {
        pthread_mutex_lock(&lock);
        pthread_mutex_unlock(&lock);
        for (long end = used_ns() + burn_ns; used_ns() < end;) {}
        if (write(socket, answer, sizeof answer - 1) < 0) break;
    }
    close(socket);
    return 0;
}
int main(int count, char **words) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(atoi(words[1])) };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 64)) return 1;
    burn_ns = atol(words[2]) * 1000;
    pthread_t thread;
    if (count > 3) pthread_create(&thread, 0, hoard, 0);
    for (;;) {
        long connection = accept(listener, 0, 0);
        if (connection >= 0 && pthread_create(&thread, 0, serve, (void *)connection) == 0) pthread_detach(thread);
    }
}
"#;

#[test]
fn a_planted_cause_is_named_by_the_verdict() {
    let _turn = undisturbed();
    if require::root_and_bpf().and_then(|()| require::program("cc")).is_none() {
        return;
    }
    let site = Site::empty().expect("a folder");
    site.compile("server", SERVER, &["-pthread".to_owned()]).expect("the server is compiled");
    let Planned { folder, ports: [a, b] } = Planned::of(1);
    let (server, found) = (site.path().join("server"), folder.path().join("found"));
    let subject = |name: &str, port: u16, planted: &str| {
        let command = format!("{} {port} {planted}", server.display());
        format!("[[subject]]\nname = \"{name}\"\ncommand = \"{command}\"\nurl = \"http://127.0.0.1:{port}/\"\n")
    };
    let planned = format!(
        "seed = 5\nparts = 3\n[repeat]\nblocks = 8\nslice = \"100ms\"\nwarm_up = 0\nstarts = 1\n{}{}[[case]]\nname = \"one\"\nconnections = 1\n",
        subject("plain", a, "20"),
        subject("planted", b, "320 lock")
    );
    let plan = folder.path().join("plan.toml");
    fs::write(&plan, planned).expect("a plan");
    let [plan, found] = [&plan, &found].map(|path| path.to_str().expect("readable"));
    let told = output(&["compare", plan, "--results", found, "--fail-if-worse"]);
    let (stdout, stderr) = (text(&told.stdout), text(&told.stderr));
    assert_eq!(told.status.code(), Some(3), "it is worse: {stdout}{stderr}");
    let report = output(&["compare", "--results-of", found, "--json"]);
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    let case = &report["cases"][0];
    let results = case["results"].as_array().expect("results");
    for metric in ["p50_ns", "cpu_ns_per_request"] {
        let result = results.iter().find(|result| result["metric"] == metric).expect("it is judged");
        assert_eq!(result["verdict"], "worse", "{result}");
    }
    // Both causes by name, the lock first, each about as large as it was planted: two thirds of the requests find the lock
    // held, for a millisecond in the mean.
    let response = &case["reasons"][0]["response"];
    let parts = response["parts"].as_array().expect("parts");
    let difference_ns = |name: &str| {
        let part = parts.iter().find(|part| part["part"] == name).unwrap_or_else(|| panic!("no {name} in {response}"));
        part["difference_ns"].as_f64().expect("a number")
    };
    let (lock_ns, run_ns) = (difference_ns("wait_lock"), difference_ns("run"));
    assert!((300e3..3e6).contains(&lock_ns) && (250e3..500e3).contains(&run_ns), "{response}");
    assert_eq!(parts[0]["part"], "wait_lock", "{response}");
    assert!(stdout.contains("planted's response is ") && stdout.contains(" longer for a lock, "), "{stdout}");
    assert_eq!(kept_lines(Path::new(found), "observed.jsonl"), 6, "they are in the folder");
}

#[test]
fn ready_made_servers_are_compared_by_their_names_over_tls() {
    let _turn = alone();
    if require::nginx().and_then(|()| require::program("openssl")).is_none() {
        return;
    }
    let told = output(&[
        "compare",
        "--a",
        "nginx",
        "--b",
        "weir",
        "--tls",
        "--path",
        "/1k.txt",
        "--blocks",
        "2",
        "--block-seconds",
        "0.1",
        "--warm-up",
        "0",
        "--no-parts",
        "--json",
    ]);
    assert!(told.status.success(), "{}", text(&told.stderr));
    let report: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    assert_eq!(report["blocks"].as_array().map(Vec::len), Some(2));
    for slice in report["blocks"]
        .as_array()
        .expect("blocks")
        .iter()
        .flat_map(|block| block["slices"].as_array().expect("slices"))
    {
        assert!(slice["requests"].as_u64() > Some(0) && slice["errors"] == 0, "{slice}");
        assert!(
            slice["bytes"]
                .as_u64()
                .zip(slice["requests"].as_u64())
                .is_some_and(|(bytes, requests)| bytes > requests * 1024)
        );
    }
    let url = report["plan"]["cases"][0]["targets"][0].as_str().expect("a URL");
    assert!(url.starts_with("https://127.0.0.1:") && url.ends_with("/1k.txt"), "{url}");
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
    assert!(stdout.contains("it failed after 1 block") && stdout.contains("No space left"), "{stdout}");
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

    // Without room on the disk the report is written all the same, and nothing of the result is kept.
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
