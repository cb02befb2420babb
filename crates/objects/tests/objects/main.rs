//! The framework beside a second implementation of it, on recorded runs of real servers and on generated ones.
// scripts/test: serves

mod by_hand;
mod generated;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_objects::{Framework, Report, Table};
use weir_testkit::require;
use weir_trace::{RunReader, Sourced};
use weir_wire::client::ClientRequest;

/// Recorded runs that the tests of the timeline have, too.
const RUNS: [&str; 4] =
    ["apache_event_new_connections", "apache_prefork_keep_alive", "nginx_keep_alive", "nginx_pipelined"];

fn golden(run: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../timeline/tests/golden").join(run)
}

/// nginx before php-fpm, whose page writes to a disk and waits for it.
fn with_php() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/nginx_php_fpm")
}

fn text_of<'a>(sourced: &'a Sourced<'_>) -> Option<&'a str> {
    let request = ClientRequest::read(&sourced.record, sourced.payload);
    sourced.name(request.map_or(sourced.record.b as u32, |request| request.name)).map(|text| &**text)
}

fn report(run: &Path) -> Report {
    let reader = RunReader::open(run).expect("a run");
    let mut framework = Framework::new(Table::ours());
    reader.merge().each(|sourced| {
        framework.push(&sourced.record, sourced.payload, text_of(&sourced));
        true
    });
    framework.finish()
}

/// Compares runs with the second implementation; what it says.
fn compare(runs: &[PathBuf]) -> String {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new("python3");
    command.arg("-B").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/independent/framework.py"));
    for (index, run) in runs.iter().enumerate() {
        let report = report(run);
        assert_eq!(report.counts.unbalanced_ns, 0, "{}", run.display());
        let file = folder.path().join(format!("{index}.json"));
        std::fs::write(&file, serde_json::to_string(&report).expect("JSON")).expect("a file");
        command.arg(run).arg(file);
    }
    let output = command.output().expect("python3 is there");
    let words = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{words}");
    words
}

#[test]
fn both_implementations_say_the_same_of_real_servers() {
    if require::program("python3").is_none() {
        return;
    }
    let mut runs = RUNS.map(golden).to_vec();
    runs.push(with_php());
    let words = compare(&runs);
    assert!(words.contains(" 0 differ"), "{words}");
}

#[test]
fn transactions_of_a_real_server_are_found_and_add_up() {
    for run in RUNS {
        let report = report(&golden(run));
        let finished: u64 = report.classes.iter().map(|class| class.finished).sum();
        let told: u64 = report.classes.iter().map(|class| class.client_told).sum();
        assert!(finished > 10 && told == finished, "{run}: {finished} transactions, {told} told by the client");
        // What a disk did was not recorded in these runs.
        let disk = report.interactions.iter().find(|one| one.name == "disk").expect("the table has disks");
        assert_eq!(disk.requests, None, "{run}");
    }
}

/// Sums over the interactions of a run, one by one, are those that the report has of its objects.
fn interactions_add_up(run: &Path) -> u64 {
    let reader = RunReader::open(run).expect("a run");
    let table = Table::ours();
    let names: Vec<String> = table.interactions().iter().map(|one| one.name.clone()).collect();
    let mut framework = Framework::with_occurrences(table);
    let (mut told, mut all) = (Vec::new(), Vec::new());
    reader.merge().each(|sourced| {
        framework.push(&sourced.record, sourced.payload, text_of(&sourced));
        framework.take_occurrences(&mut told);
        all.append(&mut told);
        true
    });
    framework.pause();
    framework.take_occurrences(&mut told);
    all.append(&mut told);
    let mut sums = BTreeMap::<_, (u64, u64)>::new();
    for one in &all {
        let (requested, accepted, finished) = (one.requested_ns, one.accepted_ns, one.finished_ns);
        assert!(requested.is_none_or(|at| accepted.is_none_or(|accepted| at <= accepted)), "{one:?}");
        assert!(accepted.is_none_or(|at| finished.is_none_or(|finished| at <= finished)), "{one:?}");
        let own = sums.entry((names[usize::from(one.interaction)].clone(), one.object)).or_default();
        *own = (own.0 + one.used_ns().unwrap_or(0), own.1 + one.waited_ns().unwrap_or(0));
    }
    let by_itself = report(run);
    let with = framework.finish();
    let json = |report: &Report| serde_json::to_string(report).expect("JSON");
    assert_eq!(json(&with), json(&by_itself), "{}: to keep interactions changes no sum", run.display());
    for object in &with.objects {
        let told = sums.get(&(object.interaction.clone(), object.id)).copied().unwrap_or_default();
        let own = (object.used_ns.unwrap_or(0), object.waited_ns.map_or(told.1, |ns| ns));
        assert_eq!(told, own, "{}: {} of {}", run.display(), object.name, object.interaction);
    }
    all.len() as u64
}

#[test]
fn each_interaction_by_itself_adds_up_to_what_is_told_of_its_object() {
    for run in RUNS.map(golden).iter().chain([&with_php()]) {
        assert!(interactions_add_up(run) > 100, "{}", run.display());
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    for seed in 20..26 {
        assert!(interactions_add_up(&generated::run(&folder.path().join(seed.to_string()), seed)) > 100, "seed {seed}");
    }
}

#[test]
fn both_implementations_say_the_same_of_generated_runs() {
    if require::program("python3").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let runs: Vec<PathBuf> = (0..10).map(|seed| generated::run(&folder.path().join(seed.to_string()), seed)).collect();
    compare(&runs);
}

#[test]
fn a_server_behind_a_server_works_for_the_transaction() {
    let report = report(&with_php());
    let class = report.classes.iter().find(|class| class.name.contains("/page.php")).expect("the page");
    assert_eq!((class.finished, class.client_told), (12, 12));
    let used = |interaction: &str, part: &[&str]| -> u64 {
        let uses = class.uses.iter().filter(|one| one.interaction == interaction && one.part == part);
        uses.filter_map(|one| one.used_ns).sum()
    };
    let (front, back) = (used("cpu", &["nginx"]), used("cpu", &["nginx", "php-fpm8.2"]));
    assert!(front > 0 && back > front, "{front} {back}");
    assert!(used("conversation", &["nginx", "php-fpm8.2"]) > back, "it also slept");
    let teams = report.teams.iter().map(|team| (team.name.as_str(), team.accepts)).collect::<Vec<_>>();
    assert_eq!(teams, [("nginx", 12), ("php-fpm8.2", 12)]);
    // The disk's time for the page and the background is its own time.
    let disks = report.objects.iter().filter(|one| one.class == "disk").filter_map(|one| one.used_ns);
    let uses = report.classes.iter().flat_map(|class| &class.uses).filter(|one| one.class == "disk");
    assert_eq!(disks.sum::<u64>(), uses.filter_map(|one| one.used_ns).sum::<u64>());
}
