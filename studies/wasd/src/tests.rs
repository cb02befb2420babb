//! That the study is whole: its plans, the paper's figures and the page fit together, and the page says what was measured.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weir_compare::{
    Block, BlockSlice, CommandLine, CpuSet, Defaults, Fairness, Latency, LoadDetails, LoadTool, Metric, Pinning, Plan,
    Results, Role, Schedule, Slice, read_plan,
};

use crate::layout::Layout;
use crate::measured::{Measured, Place, Quantity, digits};
use crate::page;
use crate::paper::Paper;
use crate::picture;
use crate::surroundings::Surroundings;

const PAPER: &str = include_str!("../paper.toml");
const PAGE: &str = include_str!("../page.toml");

pub(crate) fn study() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn layout() -> Layout {
    Layout::read(PAGE).expect("page.toml")
}

fn plans() -> BTreeMap<String, Plan> {
    plans_of(&layout())
}

/// The plans as `weir compare` reads them: a subject that does not exist would be refused.
pub(crate) fn plans_of(layout: &Layout) -> BTreeMap<String, Plan> {
    let defaults = Defaults {
        load: "weir load {url} -c {connections} -d {seconds} --json".parse::<CommandLine>().expect("a command"),
        pinning: Pinning { server: CpuSet::one(0).ok(), load: CpuSet::one(1).ok(), beside: None },
        seed: 1,
        weir: "weir".to_owned(),
    };
    let read = |name: &String| {
        let file = study().join("plans").join(format!("{name}.toml"));
        let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name.clone(), read_plan(&text, &file, &defaults).unwrap_or_else(|error| panic!("{error}")))
    };
    layout.plans.iter().map(read).collect()
}

/// What a slice of this subject in this block of this case is made to have measured; all differ.
fn slice(case: usize, subject: usize, block: usize) -> Slice {
    let rate = 1000.0 * (case + 1) as f64 + 100.0 * subject as f64 + block as f64;
    Slice {
        tool: LoadTool::Weir,
        requests: rate as u64,
        errors: u64::from(ERROR == (case, subject, block)),
        duration_s: 1.0,
        wall_s: 1.0,
        rate_per_s: rate,
        server_cpu_ns: 1,
        server_system_ns: None,
        generator_cpu_ns: 1,
        generator_cpu_share: 0.5,
        foreign_cpu_share: Some(0.25),
        cpu_ns_per_request: 1e9 / rate,
        bytes: Some(rate as u64 * 65_536),
        latency: Some(Latency { p50_ns: 1e5, p90_ns: 1.5e5, p99_ns: 2e5, max_ns: 3e5 }),
        memory: None,
        switches: None,
        involuntary_switches: None,
        details: LoadDetails { fairness: Some(shares(subject)), ..LoadDetails::default() },
    }
}

/// Where one request failed.
const ERROR: (usize, usize, usize) = (3, 5, 7);

/// What the clients got; less even for later subjects.
fn shares(subject: usize) -> Fairness {
    let least = 100 - subject as u64;
    Fairness {
        clients: 6,
        least_bytes: least,
        most_bytes: 100,
        least_requests: least,
        most_requests: 100,
        jain_bytes: 1.0,
        jain_requests: 1.0,
    }
}

fn measured(folder: &Path) -> Measured {
    measured_of(folder, &layout())
}

/// Results as an experiment writes them.
pub(crate) fn measured_of(folder: &Path, layout: &Layout) -> Measured {
    for (name, plan) in plans_of(layout) {
        let mut results = Results::create(&folder.join(&name), &plan).expect("a folder");
        let mut schedule = Schedule::new(&plan);
        for number in 0..plan.repetitions.blocks {
            for planned in schedule.round() {
                let of = |role: &Role| {
                    let subject = match role {
                        Role::Subject(subject) => *subject,
                        Role::Again => plan.cases[planned.case].baseline(),
                    };
                    BlockSlice { role: *role, slice: slice(planned.case, subject, number) }
                };
                let slices = planned.order.iter().map(of).collect();
                results.keep(&Block { case: planned.case, life: 0, slices, failed: Vec::new() }).expect("kept");
            }
        }
    }
    Measured::read(folder, &layout.plans).expect("the results")
}

#[test]
fn the_plans_can_be_carried_out_in_less_than_half_an_hour() {
    let plans = plans();
    let files = std::fs::read_dir(study().join("plans")).expect("the plans").flatten();
    let of_scripts = |file: &std::fs::DirEntry| file.file_name().to_string_lossy().starts_with("scripts-");
    let files = files.filter(|file| !of_scripts(file));
    let files = files.filter(|file| file.path().extension().is_some_and(|ending| ending == "toml")).count();
    assert_eq!(files, plans.len(), "a plan is not in page.toml");
    let budgets: f64 = plans.values().map(|plan| plan.repetitions.budget_s.expect("a budget")).sum();
    assert!(budgets <= 28.0 * 60.0, "{budgets} s");
    let mut planned_s = 0.0;
    for (name, plan) in &plans {
        let repetitions = &plan.repetitions;
        let subjects: usize = plan.cases.iter().map(|case| case.subjects().count()).sum();
        let slices = subjects * repetitions.blocks + plan.cases.len() * repetitions.aa_blocks;
        // Beside the load itself: two starts of the load command, and a rest before and after.
        let seconds = slices as f64 * (repetitions.block_s + repetitions.warm_up_s + 0.15);
        assert!(seconds < repetitions.budget_s.expect("a budget"), "{name}: {slices} slices need {seconds} s");
        planned_s += seconds;
        for case in &plan.cases {
            let is_closed = case.options.iter().any(|word| word == "--no-keepalive");
            assert_eq!(is_closed, name != "fairness", "{name}, {}", case.name);
        }
    }
    assert!((600.0..1620.0).contains(&planned_s), "{planned_s} s");
}

#[test]
fn every_path_that_is_asked_for_is_made() {
    for (name, plan) in plans() {
        for target in plan.cases.iter().flat_map(|case| case.targets.iter().flatten()) {
            let path = target.url().splitn(4, '/').nth(3).expect("a path");
            let path = path.strip_prefix("fresh/").unwrap_or(path);
            let is_made = ["0.txt", "64k.txt", "3900k.txt"].contains(&path);
            assert!(is_made || study().join("site").join(path).is_file(), "{name}: {path}");
        }
    }
}

#[test]
fn every_table_of_the_paper_and_every_part_of_the_study_is_on_the_page() {
    let (paper, layout, plans) = (Paper::read(PAPER).expect("paper.toml"), layout(), plans());
    let tables = || layout.sections.iter().flat_map(|section| &section.tables);
    for theirs in &paper.tables {
        let ours = tables().find(|ours| ours.paper.as_ref() == Some(&theirs.id));
        let ours = ours.unwrap_or_else(|| panic!("{} is not on the page", theirs.id));
        assert_eq!(ours.rows.len(), theirs.rows.len(), "{}", theirs.id);
    }
    for plan in plans.keys() {
        assert!(tables().any(|ours| ours.plan == *plan), "what {plan} measures is not on the page");
    }
    for table in tables() {
        assert!(table.rows.iter().all(|row| row.subjects.len() == table.columns.len()), "{:?}", table.paper);
    }
}

#[test]
fn the_numbers_of_the_page_are_those_that_were_measured() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (paper, layout, measured) = (Paper::read(PAPER).expect("paper.toml"), layout(), measured(folder.path()));
    // Every place of the page exists in its plan: otherwise this fails.
    let compared = page::compare(&paper, &layout, &measured).expect("the comparisons");
    let surroundings = Surroundings::read("cpus: 2\nload average: files 0.5\nload average: end 1.5\n");
    let text = page::write(&paper, &layout, &measured, &surroundings, &compared, "page.svg").expect("the page");
    assert!(!text.contains("not measured | not measured") && !text.contains("too few blocks"), "{text}");
    assert!(text.contains("files 0.5, end 1.5") && text.contains("files 25 % (at most 25 %)"), "{text}");

    assert!(text.contains("files, 64 KB, 10, Apache prefork: 1 of 54066 requests failed"), "{text}");
    assert!(text.contains("the machine was busy") && text.contains("Of 45 ratios of today"), "{text}");
    assert_eq!(text.matches("requests failed").count(), 2, "in the files and in the scripts");

    // 12 blocks: the middle two are numbers 5 and 6. The uncached weir is subject 1.
    let row = text.lines().find(|line| line.starts_with("| 0K, 1 | 181 | 117 | 34 |")).expect("the row");
    let rate = (1105.0_f64 * 1106.0).sqrt();
    assert!(row.contains(&format!("| {} (", digits(rate))), "{row}");
    for section in &layout.sections {
        for table in &section.tables {
            for row in &table.rows {
                for column in 0..table.columns.len() {
                    let Some(place) = table.place(row, column).expect("a place") else { continue };
                    for quantity in &table.quantities {
                        let found = measured.value(&place, *quantity).expect("a place").expect("a value");
                        assert!(text.contains(&page::value(Some(&found), *quantity)), "{place:?}");
                    }
                }
            }
        }
    }
    // The same by the comparison's own means.
    let files = &measured.experiments["files"];
    let over = Place::read("files | 64 KB, 10 | nginx, cached").expect("a place");
    let under = Place::read("files | 64 KB, 10 | Apache event").expect("a place");
    let ours = measured.ratio(&over, &under, Quantity::Cpu).expect("places").expect("a ratio").estimate;
    let mut pairs = weir_measure::comparison::PairedRatios::default();
    for block in files.blocks.iter().filter(|block| block.case == 3) {
        let [over, under] =
            [2, 4].map(|subject| block.of(Role::Subject(subject)).and_then(|slice| Metric::CpuNsPerRequest.of(slice)));
        pairs.push(under.expect("measured"), over.expect("measured")).expect("a ratio");
    }
    let theirs = pairs.snapshot(&weir_measure::comparison::Bootstrap::with_seed(files.plan.seed)).expect("an estimate");
    assert_eq!(ours, theirs);
    let picture = picture::draw(&compared);
    assert!(
        compared.iter().flat_map(|claim| &claim.ours).all(|ours| picture.contains(&page::shown(ours.ratio.as_ref())))
    );
}

#[test]
fn what_was_not_measured_is_said() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (paper, layout) = (Paper::read(PAPER).expect("paper.toml"), layout());
    let measured = Measured::read(folder.path(), &layout.plans).expect("no results");
    let compared = page::compare(&paper, &layout, &measured).expect("the comparisons");
    let text =
        page::write(&paper, &layout, &measured, &Surroundings::default(), &compared, "page.svg").expect("the page");
    assert!(text.contains("| 0K, 1 | 181 | 117 | 34 | not measured |"), "{text}");
    assert!(!text.contains("held**") && picture::draw(&compared).contains("not measured"));
}

#[test]
fn digits_are_three() {
    assert_eq!(
        [0.123, 9.876, 12.34, 999.6, 12_345.6, 1_234_567.0].map(digits),
        ["0.12", "9.88", "12.3", "1,000", "12,346", "1,234,567"]
    );
}
