//! Histories: what is kept and read, what is told apart, and that nothing in a folder can do harm.
use crate::support;

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use support::{command, plain_load, plan};
use weir_compare::{
    Block, BlockSlice, CpuAccounting, Ending, History, Host, KeptResult, LoadDetails, LoadTool, Metric, Outcome, Pair,
    Role, Slice, Trends, junit_report, verdicts,
};

const DAY_S: u64 = 86_400;

fn slice(cpu_ns_per_request: f64) -> Slice {
    Slice {
        tool: LoadTool::Wrk,
        requests: 10_000,
        errors: 0,
        duration_s: 1.0,
        wall_s: 1.0,
        rate_per_s: 10_000.0,
        server_cpu_ns: (cpu_ns_per_request * 1e4) as u64,
        server_system_ns: None,
        generator_cpu_ns: 500_000_000,
        generator_cpu_share: 0.5,
        foreign_cpu_share: None,
        cpu_ns_per_request,
        bytes: None,
        latency: None,
        memory: None,
        switches: None,
        involuntary_switches: None,
        details: LoadDetails::default(),
    }
}

/// Six blocks in which B takes `ratio` times the CPU time of A.
fn outcome(ratio: f64) -> Outcome {
    let pair = Pair::of_servers(command("old"), command("new"), &plain_load());
    let block = |index: usize| {
        let cpu = 5_000.0 * (1.0 + 0.001 * index as f64);
        let slice = |role, cpu| BlockSlice { role, slice: slice(cpu) };
        let slices = vec![slice(Role::Subject(0), cpu), slice(Role::Subject(1), cpu * ratio)];
        Block { case: 0, life: 0, slices, failed: Vec::new() }
    };
    Outcome {
        plan: plan(pair, 8081, 8082),
        accounting: CpuAccounting::ControlGroup,
        restarted: false,
        ending: Ending::Done,
        blocks: (0..6).map(block).collect(),
        observed: Vec::new(),
        unobserved: None,
    }
}

fn host() -> Host {
    Host { processor: "P".to_owned(), cpus: 2, memory_bytes: 1, kernel: "Linux 6".to_owned() }
}

fn result(ratio: f64, day: u64) -> KeptResult {
    let outcome = outcome(ratio);
    KeptResult::of(&outcome, &verdicts(&outcome), &host(), day * DAY_S, &format!("commit/{day}"))
}

/// A little more or less than `level`, never twice the same.
fn near(level: f64, day: u64) -> f64 {
    level * (1.0 + 0.002 * (day * 37 % 101) as f64 / 101.0)
}

/// Results of so many days, of which those from `shifted` on are worse by 6 %.
fn kept(folder: &Path, days: u64, shifted: u64) {
    for day in 0..days {
        result(near(if day < shifted { 1.05 } else { 1.113 }, day), day).keep(folder).expect("it is kept");
    }
}

/// What is told of one result more.
fn trends(folder: &Path, now: &KeptResult) -> Trends {
    let mut history = History::read(folder, now).expect("the folder");
    assert!(history.add(now.clone()));
    history.trends(now, 0.02)
}

#[test]
fn a_shift_for_the_worse_is_told_with_since_when_until_it_is_accepted() {
    let folder = tempfile::tempdir().expect("a directory");
    kept(folder.path(), 40, 31);
    let mut names: Vec<String> = fs::read_dir(folder.path())
        .expect("it")
        .map(|entry| entry.expect("it").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!((names.len(), names[31].as_str()), (40, "19700201T000000Z-commit_31.json"));
    let found = trends(folder.path(), &result(near(1.113, 40), 40));
    assert!(found.is_worse && found.results == 41 && found.damaged.is_empty());
    let ratio = &found.figures[0];
    assert_eq!(
        (ratio.metric, ratio.against.as_deref(), ratio.is_worse),
        (Metric::CpuNsPerRequest, Some("A"), Some(true))
    );
    assert_eq!(ratio.points.iter().position(|point| point.begins), Some(31));
    assert!(
        ratio.words.starts_with("worse by 6.0 % since 1970-02-01 00:00:00 commit/31 (10 results): 1.051 before, 1.114"),
        "{}",
        ratio.words
    );
    // The baseline's own cost has not shifted, B's has, and throughput never moves.
    let shifted: Vec<(&str, Metric)> = found
        .figures
        .iter()
        .filter(|trend| trend.is_worse.is_some())
        .map(|trend| (trend.subject.as_str(), trend.metric))
        .collect();
    assert_eq!(shifted, [("B", Metric::CpuNsPerRequest); 2]);
    let words = found.words();
    assert!(
        words[0] == "41 results" && words.last().is_some_and(|last| last == "2 other figures have not shifted"),
        "{words:?}"
    );
    assert!(found.markdown().contains("- CPU per request, B over A: worse by 6.0 %"), "{}", found.markdown());
    let junit = |found: &Trends| junit_report(&outcome(1.113), Some(found));
    let text = junit(&found);
    assert!(text.contains("tests=\"8\" failures=\"2\" errors=\"0\""), "{text}");
    for part in [
        "name=\"CPU per request, B over A: lasting shift\">\n    <failure message=\"worse by 6.0 % since 1970-02-01",
        "name=\"CPU per request of A: lasting shift\">\n    <system-out>has not shifted for good in 41 results</system-out>",
    ] {
        assert!(text.contains(part), "{part:?} is missing from\n{text}");
    }
    // Once its level is taken as the one that is to be, it is no failure; it is still told.
    let accepted = trends(folder.path(), &result(near(1.113, 40), 40).accepted(true));
    assert!(!accepted.is_worse && accepted.figures[0].words.ends_with("; accepted"), "{:?}", accepted.figures[0].words);
    let text = junit(&accepted);
    assert!(text.contains("failures=\"0\"") && text.contains("<system-out>worse by 6.0 %"), "{text}");
}

#[test]
fn an_outlier_and_what_gets_better_are_no_shift_for_the_worse() {
    let folder = tempfile::tempdir().expect("a directory");
    kept(folder.path(), 40, 99);
    assert_eq!(
        trends(folder.path(), &result(2.0, 40)).figures.iter().filter(|trend| trend.is_worse.is_some()).count(),
        0
    );
    for day in 40..50 {
        result(near(0.9, day), day).keep(folder.path()).expect("it is kept");
    }
    let better = trends(folder.path(), &result(near(0.9, 50), 50));
    assert!(!better.is_worse && better.figures[0].is_worse == Some(false), "{:?}", better.figures[0].words);
    let short = tempfile::tempdir().expect("a directory");
    let first = trends(&short.path().join("not/yet"), &result(1.0, 1));
    let text = junit_report(&outcome(1.0), Some(&first));
    assert!(text.contains(&format!("<skipped message=\"1 of at least {} results", first.fewest)), "{text}");
    assert_eq!(first.words(), [format!("1 result; a shift can be found from {} on", first.fewest)]);
}

#[test]
fn others_are_told_apart_and_damage_is_named_and_passed_over() {
    let folder = tempfile::tempdir().expect("a directory");
    kept(folder.path(), 5, 99);
    let mut other = outcome(1.0);
    other.plan.cases[0].connections = 7;
    let of = |outcome: &Outcome, host: &Host| KeptResult::of(outcome, &verdicts(outcome), host, 77, "");
    of(&other, &host()).keep(folder.path()).expect("it is kept");
    of(&outcome(1.0), &Host { cpus: 64, ..host() }).keep(folder.path()).expect("it is kept");
    // A, B and their commands are what is compared; another server is another history.
    let mut other = outcome(1.0);
    other.plan.servers[1].command = command("another");
    of(&other, &host()).keep(folder.path()).expect("it is kept, under a name of its own");
    let whole = serde_json::to_string(&result(1.0, 9)).expect("numbers and texts");
    let cut = &whole[..whole.len() / 2];
    let negative = whole.replacen("\"value\":", "\"value\":-", 1);
    for (name, text) in [
        ("1-cut.json", cut),
        ("2-empty.json", ""),
        ("3-other.json", "{\"format\": \"weir-compare-history-9\"}"),
        ("4-negative.json", negative.as_str()),
        ("5-a-list.json", "[1, 2]"),
    ] {
        fs::write(folder.path().join(name), text).expect("a file");
    }
    // Control characters in another person's file do not reach a terminal.
    let odd = whole.replacen("\"measured\":\"server\"", "\"measured\":\"\\u001b[31m\"", 1);
    assert_ne!(odd, whole);
    fs::write(folder.path().join("5b-odd.json"), odd).expect("a file");
    let labelled = whole.replacen("commit/9", "\\u001b]0;x\\u0007", 1);
    assert_eq!(KeptResult::parse(&labelled).expect("a result").label, "]0;x");
    fs::write(folder.path().join("6-bytes.json"), [0xff, 0xfe, 0]).expect("a file");
    fs::create_dir(folder.path().join("7-folder.json")).expect("a folder");
    fs::write(folder.path().join(".8-under-way.json"), cut).expect("a file");
    fs::write(folder.path().join("notes.txt"), "of no concern").expect("a file");
    let found = trends(folder.path(), &result(1.0, 6));
    assert_eq!((found.results, found.others, found.damaged.len()), (6, 3, 8), "{:?}", found.damaged);
    assert!(!found.text().contains('\u{1b}'), "{:?}", found.text());
    for (damaged, what) in found.damaged.iter().zip([
        "1-cut.json: ",
        "2-empty",
        "weir-compare-history-9",
        "no finite number above 0",
        "5-a-list",
        "5b-odd",
        "6-bytes",
        "it is no file",
    ]) {
        assert!(damaged.contains(what), "{damaged} lacks {what}");
    }
    assert!(found.words()[0].contains("3 of other plans or machines"), "{:?}", found.words());
    let text = junit_report(&outcome(1.0), Some(&found));
    assert!(text.contains("<system-err>") && text.contains("5-a-list.json: "), "{text}");
}

#[test]
fn a_result_is_kept_once_and_a_name_that_is_taken_costs_none() {
    let folder = tempfile::tempdir().expect("a directory");
    let (one, other) = (result(1.0, 3), result(1.1, 3));
    for found in [&one, &other] {
        found.keep(folder.path()).expect("it is kept");
    }
    assert_eq!(fs::read_dir(folder.path()).expect("it").count(), 2, "nothing is left beside");
    let mut history = History::read(folder.path(), &one).expect("the folder");
    assert!(history.results.contains(&one) && history.results.contains(&other));
    assert!(!history.add(one.clone()) && history.results.len() == 2);
    assert!(history.add(one.clone().accepted(true)) && history.results.len() == 2);
    assert_eq!(history.results.iter().filter(|result| result.accepted).count(), 1);
    let file = folder.path().join("file");
    fs::write(&file, "").expect("a file");
    assert!(one.keep(&file).is_err() && History::read(&file, &one).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn damaged_files_are_refused_without_a_panic(cut in 0.0..1.0_f64, place in 0.0..1.0_f64, with in any::<u8>()) {
        let whole = serde_json::to_string(&result(1.1, 5)).expect("numbers and texts");
        let mut bytes = whole.clone().into_bytes();
        let place = (place * bytes.len() as f64) as usize;
        bytes[place] = with;
        bytes.truncate(((cut * 2.0).min(1.0) * bytes.len() as f64) as usize);
        let read = KeptResult::parse(&String::from_utf8_lossy(&bytes));
        if let Ok(read) = read {
            // A changed digit or letter is none that can be seen; what is judged is sound all the same.
            prop_assert!(read.figures.iter().all(|figure| figure.value > 0.0 && figure.value.is_finite()));
            let history = History { results: vec![read.clone()], ..History::default() };
            prop_assert!(history.trends(&read, 0.02).figures.len() <= read.figures.len());
        }
        prop_assert_eq!(KeptResult::parse(&whole).ok(), Some(result(1.1, 5)));
    }

    #[test]
    fn any_text_is_refused_without_a_panic(text in "\\PC*") {
        prop_assert!(KeptResult::parse(&text).is_err());
    }
}
