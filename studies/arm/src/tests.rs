//! That the study is whole: its plans can be read, every row of the paper has its subject, and the page says what was
//! measured.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weir_compare::{
    Block, BlockSlice, CommandLine, CpuSet, Defaults, Latency, LoadDetails, LoadTool, Pinning, Plan, Results, Role,
    Schedule, Slice, read_plan,
};

use crate::measured::{Measured, SwitchCost, Switched};
use crate::page::{self, Found};
use crate::paper::Paper;
use crate::responses::Responses;

const PLANS: [&str; 3] = ["pages", "agent", "files"];

fn study() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn paper() -> Paper {
    Paper::read(include_str!("../paper.toml")).expect("the paper")
}

/// The plans as `weir compare` reads them.
fn plans() -> BTreeMap<&'static str, Plan> {
    let defaults = Defaults {
        load: "weir load {url} -c {connections} -d {seconds} --json".parse::<CommandLine>().expect("a command"),
        pinning: Pinning { server: CpuSet::one(0).ok(), load: CpuSet::one(1).ok(), beside: None },
        seed: 1,
        weir: "weir".to_owned(),
    };
    let read = |name: &&'static str| {
        let file = study().join("plans").join(format!("{name}.toml"));
        let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        (*name, read_plan(&text, &file, &defaults).unwrap_or_else(|error| panic!("{error}")))
    };
    PLANS.iter().map(read).collect()
}

/// What a slice of this subject in this block is made to have measured: each subject takes 1 % more than the one before.
fn slice(subject: usize, block: usize) -> Slice {
    let cpu_ns = (1e6 + 1e4 * subject as f64) * (1.0 + block as f64 / 1e4);
    Slice {
        tool: LoadTool::Weir,
        requests: 100,
        errors: 0,
        duration_s: 1.0,
        wall_s: 1.0,
        rate_per_s: 100.0 + subject as f64,
        server_cpu_ns: 5_000_000,
        server_system_ns: None,
        generator_cpu_ns: 1,
        generator_cpu_share: 0.5,
        foreign_cpu_share: Some(0.25),
        cpu_ns_per_request: cpu_ns,
        bytes: None,
        latency: Some(Latency { p50_ns: 1e5, p90_ns: 1.5e5, p99_ns: 2e5, max_ns: 3e5 }),
        memory: None,
        switches: None,
        involuntary_switches: None,
        details: LoadDetails::default(),
    }
}

/// What `arm-cost` says of 60 pairs.
fn switch(off_ns: f64, ratio: f64) -> SwitchCost {
    let (low, high) = (ratio - 0.005, ratio + 0.005);
    let told = format!(
        "{{\"url\":\"/\",\"pairs\":60,\"off_ns\":{off_ns},\"on_ns\":1,\"ratio\":{ratio},\"low\":{low},\"high\":{high}}}"
    );
    serde_json::from_str(&told).expect("its line")
}

/// Results as an experiment writes them.
fn measured(folder: &Path) -> Measured {
    for (name, plan) in plans() {
        let mut results = Results::create(&folder.join(name), &plan).expect("a folder");
        let mut schedule = Schedule::new(&plan);
        for number in 0..plan.repetitions.blocks {
            for planned in schedule.round() {
                let of = |role: &Role| {
                    let subject = match role {
                        Role::Subject(subject) => *subject,
                        Role::Again => 0,
                    };
                    BlockSlice { role: *role, slice: slice(subject, number) }
                };
                let slices = planned.order.iter().map(of).collect();
                results.keep(&Block { case: planned.case, life: 0, slices, failed: Vec::new() }).expect("kept");
            }
        }
    }
    Measured::read(folder).expect("the results")
}

#[test]
fn the_plans_take_less_than_half_an_hour_and_have_every_row_of_the_paper() {
    let plans = plans();
    let files = std::fs::read_dir(study().join("plans")).expect("the plans").flatten();
    let files = files.filter(|file| file.path().extension().is_some_and(|ending| ending == "toml")).count();
    assert_eq!(files, plans.len(), "a plan is not measured");
    let budgets: f64 = plans.values().map(|plan| plan.repetitions.budget_s.expect("a budget")).sum();
    let run = std::fs::read_to_string(study().join("run")).expect("the script");
    let pairs: Vec<f64> =
        run.lines().filter_map(|line| line.strip_prefix("switched ")?.rsplit_once(' ')?.1.parse().ok()).collect();
    assert_eq!(pairs.len(), 3, "{pairs:?}");
    // Two slices of 60 ms with 80 ms before each, and what it takes to ask the agent.
    let switched_s = pairs.iter().sum::<f64>() * 0.33;
    // Two minutes for the responses, two for the databases and all else.
    assert!(budgets + switched_s <= 25.0 * 60.0, "{budgets} s and {switched_s} s");
    for (name, plan) in &plans {
        let repetitions = &plan.repetitions;
        let slices = plan.subjects.len() * repetitions.blocks + repetitions.aa_blocks;
        let seconds = slices as f64 * (repetitions.block_s + repetitions.warm_up_s + 0.15);
        assert!(seconds < repetitions.budget_s.expect("a budget"), "{name}: {slices} slices need {seconds} s");
        assert_eq!(plan.subjects[0].name, "baseline", "{name}");
    }
    for row in paper().overhead {
        for plan in ["pages", "agent"] {
            assert!(plans[plan].subjects.iter().any(|subject| subject.name == row.ours), "{plan}: {}", row.ours);
        }
    }
}

#[test]
fn every_page_that_is_asked_for_is_there() {
    for (name, plan) in plans() {
        let targets = plan.cases.iter().flat_map(|case| case.targets.iter().flatten());
        let targets = targets.map(|target| target.url().to_owned());
        // The agents' subjects load an Apache that is none of theirs.
        let loads = plan.subjects.iter().flat_map(|subject| subject.load.arguments().to_vec());
        let urls = targets.chain(loads).filter(|word| word.starts_with("http://"));
        let mut pages = 0;
        for path in urls.filter_map(|url| url.splitn(4, '/').nth(3).map(str::to_owned)) {
            assert!(path == "1k.txt" || study().join("site").join(&path).is_file(), "{name}: {path}");
            pages += 1;
        }
        assert_eq!(pages, plan.subjects.len(), "{name}");
    }
}

#[test]
fn the_numbers_of_the_page_are_those_that_were_measured() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (paper, mut measured) = (paper(), measured(folder.path()));
    let open = Responses {
        client_ms: 20.0,
        pages: 500,
        queued_ms: 0.5,
        way_back_ms: 0.04,
        first_byte_ms: Some(10.0),
        apache_ms: Some(19.0),
        note_ms: Some(19.2),
        mod_arm_ms: Some(19.4),
        phparm_ms: Some(15.0),
    };
    measured.switched = Switched { file: Some(switch(20e3, 1.01)), page: Some(switch(3e5, 1.02)), phparm: None };
    let surroundings = "cpus: 2\nversion: Apache 7\nversion: PHP 9\n";
    let found = Found {
        paper: &paper,
        measured: &measured,
        open: Some(&open),
        congested: None,
        adminer: Some("the tree\n"),
        surroundings,
    };
    let text = page::write(&found);
    for words in [
        "| mod_arm on | 7.319 ms (+22.1 %) | 0.552 ms (+1803.4 %) | 123 (-20.6 %) | 1.021 ms (+2.00 %, +2.00 to +2.00) |",
        "Apache 7; PHP 9",
        "pages: 24 blocks of 1 s",
        "in half of the slices others took 25 % of the CPUs or more",
        "| mod_arm and what was captured before and behind it | - | 19.94 ms (0.3 % off) | not measured |",
        "| phparm | 14.31 ms (68 % off) | 15.00 ms (25.0 % off) | not measured |",
        "at most +1 % CPU time for a page | +2.00 %, +1.50 to +2.50 | **not reached** |",
        "| a small file, mod_arm | 60 | 20.00 us | +1.00 % (+0.50 to +1.50) | +0.20 us (+0.10 to +0.30) |",
        "mod_arm on: at most +0.4 us for a small file | +0.20 us (+0.10 to +0.30) | **reached** |",
        "phparm: at most +1 us a transaction | not measured |",
        "within 1 % of the client's mean (open) | 0.30 % off | **reached** |",
        "at most 1 % of a CPU at 10,000 pages/s | 0.50 % at 102 pages/s | cannot tell |",
        "```\nthe tree\n```",
        "open: 500 pages, of which 0.50 ms each",
    ] {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
}

#[test]
fn what_was_not_measured_is_said() {
    let paper = paper();
    let measured = Measured::default();
    let text = page::write(&Found {
        paper: &paper,
        measured: &measured,
        open: None,
        congested: None,
        adminer: None,
        surroundings: "",
    });
    assert!(
        text.contains("| Baseline | 5.994 ms | 0.029 ms | 155 | not measured | not measured | not measured |"),
        "{text}"
    );
    assert!(!text.contains("reached**"), "{text}");
}
