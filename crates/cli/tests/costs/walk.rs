//! The way of a request for a cached file, and that of a kernel event, counted: which modules of ours they run code of.
//!
//! callgrind counts what each function takes; of two runs the difference is what one request, or one event, takes. A
//! module is a file of sources. The release profile has no debug information, so a function's module comes from its
//! symbol: what the compiler inlines counts for the module that it is inlined into. So the lists are those of the
//! machine's code; a reader passes some more modules, of which ARCHITECTURE.md tells.

use crate::serve_cost::{Asked, SMALL, Way, through};
use crate::support::{alone, served::Served};

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use weir_testkit::counts::by_function;
use weir_testkit::require;

/// Requests of the shorter run, and how many more the longer one has.
const FEW: u64 = 200;
const MORE: u64 = 2_000;
/// Instructions a request from which on a module is on its way: what is done once in a second takes less.
const LEAST: f64 = 1.0;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// The file of sources that a symbol such as `weir_server::http1::connection::Connection::answer` comes from.
fn module_of(symbol: &str) -> Option<String> {
    // The type of `<TYPE as TRAIT>::method` says where that stands, nearly always.
    let path = symbol.trim_start_matches(['<', '&', '*']).trim_start_matches("mut ");
    let path = path.split([' ', '<', '>', ',']).next().unwrap_or_default();
    let mut words = path.split("::");
    let name = words.next().unwrap_or_default();
    let folder = if name == "weir" { "cli".to_owned() } else { name.strip_prefix("weir_")?.replace('_', "-") };
    let source = format!("crates/{folder}/src");
    let (mut at, mut found) = (source.clone(), None);
    for word in words {
        at = format!("{at}/{word}");
        let files = [format!("{at}.rs"), format!("{at}/mod.rs")];
        match files.into_iter().find(|file| root().join(file).is_file()) {
            Some(file) => found = Some(file),
            None => break,
        }
    }
    found.or_else(|| {
        ["lib.rs", "main.rs"]
            .map(|name| format!("{source}/{name}"))
            .into_iter()
            .find(|file| root().join(file).is_file())
    })
}

/// The modules that take more in the longer run, with what they take for each of `more`.
fn modules(shorter: &str, longer: &str, more: f64) -> BTreeMap<String, f64> {
    let mut taken: BTreeMap<String, f64> = BTreeMap::new();
    for (text, sign) in [(longer, 1.0), (shorter, -1.0)] {
        for (function, cost) in by_function(text) {
            if let Some(module) = module_of(&function) {
                *taken.entry(module).or_default() += sign * cost as f64 / more;
            }
        }
    }
    taken.retain(|_, each| *each >= LEAST);
    taken
}

/// Holds what was counted against a section of ARCHITECTURE.md: it names each module, and says how many there are at
/// most, as in "runs code of 13 modules".
fn is_told(heading: &str, found: &BTreeMap<String, f64>) {
    for (module, each) in found {
        eprintln!("{heading}: {each:8.1} {module}");
    }
    let faults = faults(heading, found);
    assert!(faults.is_empty(), "{faults:?}");
}

/// What that section does not say of what was counted.
fn faults(heading: &str, found: &BTreeMap<String, f64>) -> Vec<String> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the document");
    let section = text.split("\n## ").find(|section| section.starts_with(heading)).expect("the section");
    let named: Vec<&str> = section.split('`').skip(1).step_by(2).filter(|word| word.ends_with(".rs")).collect();
    let is_named = |module: &str| named.iter().any(|name| module == *name || module.ends_with(&format!("/{name}")));
    let untold: Vec<&String> = found.keys().filter(|module| !is_named(module)).collect();
    let mut faults = Vec::new();
    if !untold.is_empty() {
        faults.push(format!("ARCHITECTURE.md, {heading}: also passed, and to be named there: {untold:?}"));
    }
    let stated = section.split("runs code of ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok());
    let stated = stated.expect("the number of modules");
    if found.len() > stated {
        faults.push(format!("{heading}: {} modules are passed, {stated} are stated: {found:?}", found.len()));
    }
    faults
}

#[test]
fn a_request_for_a_cached_file_passes_the_modules_that_are_listed() {
    let _turn = alone();
    if require::program("valgrind").and_then(|()| require::program("openssl")).is_none() {
        return;
    }
    let by = ["valgrind", "--tool=callgrind", "-q", "--callgrind-out-file={}"];
    for io in ["epoll", "auto"] {
        let way = Way { name: "kept", io, ..SMALL };
        let count = |requests| through(&by, &way, &Asked { file: way.file, connections: 1, requests });
        let found = modules(&count(FEW), &count(FEW + MORE), MORE as f64);
        is_told("The way of a served request", &found);
        assert!(found.len() > 5, "{io}: symbols are missing: {found:?}");
    }
}

/// Requests of a longer recording beyond those of the shorter one, each of some four events: what the collector does once
/// in a second is little beside them.
const MORE_RECORDED: u64 = 8_000;
/// How long a recording lasts, whatever is asked meanwhile: looks at the rings are as many in both.
const RECORDED: Duration = Duration::from_secs(5);
/// What runs for each task that begins, of any process.
const OF_BEGINNINGS: [&str; 2] = ["crates/capture/src/task_names.rs", "crates/wire/src/record.rs"];
/// Instructions an event; on a busy machine these took 16.
const OF_BEGINNINGS_MOST: f64 = 50.0;

#[test]
fn a_kernel_event_passes_the_modules_of_the_collector_that_are_listed() {
    let _turn = alone();
    if require::program("valgrind").and_then(|()| require::root_and_bpf()).is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(folder.path().join("site")).expect("a directory");
    std::fs::write(folder.path().join("site/a.txt"), "hello").expect("a file");
    let served = Served::start(folder.path(), &["--loops", "1"], "site");
    let heading = "The way of a kernel event";
    let look = |name: &str| {
        let mut seen = Vec::new();
        // Where others begin many processes during the shorter recording only, it has more events than the longer one.
        for round in 0..4 {
            let [(few, shorter), (many, longer)] = [FEW, FEW + MORE_RECORDED]
                .map(|requests| recorded(folder.path(), &format!("{name}-{round}"), served.port, requests));
            if many > few + MORE_RECORDED {
                return modules(&shorter, &longer, (many - few) as f64);
            }
            seen.push((few, many));
        }
        panic!("events of the shorter and the longer recording: {seen:?}");
    };
    let mut found = look("first");
    if !faults(heading, &found).is_empty() {
        // Other processes that begin, end or connect during the longer recording run code of the collector as well. Each
        // event of the load passes its modules in every look.
        let again = look("second");
        found.retain(|module, _| again.contains_key(module));
    }
    // Where other processes begin all the time, both looks name their tasks; no event of the load takes so much there.
    found.retain(|module, each| !OF_BEGINNINGS.contains(&module.as_str()) || *each >= OF_BEGINNINGS_MOST);
    is_told(heading, &found);
}

/// How many events a recording under callgrind has while so many requests are made, and what callgrind wrote.
fn recorded(folder: &Path, look: &str, port: u16, requests: u64) -> (u64, String) {
    let [run, found] = ["run", "found"].map(|what| folder.join(format!("{look}-{what}-{requests}")));
    let mut recorder = Command::new("valgrind")
        .args(["--tool=callgrind", "-q", &format!("--callgrind-out-file={}", found.display())])
        .args([env!("CARGO_BIN_EXE_weir"), "record", "--port", &port.to_string(), "--run"])
        .arg(&run)
        .env("WEIR_LOG", "weir_capture=debug")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("valgrind starts");
    let mut said = BufReader::new(recorder.stderr.take().expect("piped")).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("source attached")), "the probes are not attached");
    let begun = Instant::now();
    let load = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["load", &format!("http://127.0.0.1:{port}/a.txt"), "-q", "-c", "1", "-n", &requests.to_string()])
        .stdout(Stdio::null())
        .status();
    assert!(load.expect("the command starts").success());
    std::thread::sleep(RECORDED.saturating_sub(begun.elapsed()));
    // SAFETY: the call takes no pointers.
    assert_eq!(unsafe { libc::kill(recorder.id().cast_signed(), libc::SIGINT) }, 0);
    // "recorded 25294 events (0.8 MB, 0 lost) in run; ..."
    let events = |line: String| line.split("recorded ").nth(1)?.split(' ').next()?.parse().ok();
    let mut told = String::new();
    recorder.stdout.take().expect("piped").read_to_string(&mut told).expect("text");
    let events = said.chain(told.lines().map(str::to_owned)).find_map(events).expect("how many events there are");
    assert!(recorder.wait().expect("it ends").success());
    (events, std::fs::read_to_string(found).expect("what callgrind wrote"))
}
