//! That the page on scripts is whole: its plans can be carried out, each script that they ask for is made of something,
//! and the page has each of their columns.
use std::collections::{BTreeMap, BTreeSet};

use crate::layout::Layout;
use crate::page;
use crate::paper::Paper;
use crate::picture;
use crate::surroundings::Surroundings;
use crate::tests::{measured_of, plans_of, study};

const PAPER: &str = include_str!("../paper.toml");
const PAGE: &str = include_str!("../scripts.toml");
const TABLE: &str = include_str!("../scripts/table");

fn layout() -> Layout {
    Layout::read(PAGE).expect("scripts.toml")
}

/// What is served, and what it is made of and how.
fn table() -> BTreeMap<&'static str, (&'static str, &'static str)> {
    let rows = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let row = |line: &'static str| {
        let parts: Vec<&str> = line.split(" | ").collect();
        let [file, source, how] = parts[..] else { panic!("{line:?} is no row: FILE | SOURCE | HOW") };
        (file, (source, how))
    };
    rows.map(row).collect()
}

#[test]
fn the_plans_can_be_carried_out_in_twenty_minutes() {
    let plans = plans_of(&layout());
    let files = std::fs::read_dir(study().join("plans")).expect("the plans").flatten();
    let files: BTreeSet<String> = files
        .filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".toml")?.to_owned()))
        .filter(|name| name.starts_with("scripts-"))
        .collect();
    assert_eq!(files, plans.keys().cloned().collect(), "the plans and those of scripts.toml");
    let mut budget_s = 0.0;
    for (name, plan) in &plans {
        let repetitions = &plan.repetitions;
        let own_budget_s = repetitions.budget_s.expect("a budget");
        budget_s += own_budget_s;
        let subjects: usize = plan.cases.iter().map(|case| case.subjects().count()).sum();
        let slices = subjects * repetitions.blocks + plan.cases.len() * repetitions.aa_blocks;
        // Beside the load itself: two starts of the load command, and a rest before and after.
        let seconds = slices as f64 * (repetitions.block_s + repetitions.warm_up_s + 0.15);
        assert!(seconds < own_budget_s, "{name}: {slices} slices need {seconds} s");
        // The chance of so many blocks is below 5 % after it is corrected for all comparisons of the page.
        assert!(repetitions.blocks >= 12, "{name}");
        // Each server has one CPU with all of its processes, and the load another one.
        let pinned = |cpus: &Option<weir_compare::CpuSet>| cpus.as_ref().map(|cpus| cpus.numbers().len());
        assert_eq!((pinned(&plan.pinning.server), pinned(&plan.pinning.load)), (Some(1), Some(1)), "{name}");
        for case in &plan.cases {
            assert!(case.options.iter().any(|word| word == "--no-keepalive"), "{name}, {}", case.name);
        }
    }
    assert!(budget_s <= 20.0 * 60.0, "{budget_s} s");
}

#[test]
fn each_script_that_is_asked_for_is_made_of_something() {
    let table = table();
    let mut asked = BTreeSet::new();
    for (name, plan) in plans_of(&layout()) {
        for target in plan.cases.iter().flat_map(|case| case.targets.iter().flatten()) {
            let path = target.url().splitn(4, '/').nth(3).expect("a path").to_owned();
            // What stands below remote/ is the same file, behind the script server.
            let path = path.strip_prefix("remote/").or_else(|| path.strip_prefix("fresh/")).unwrap_or(&path).to_owned();
            assert!(table.contains_key(path.as_str()), "{name} asks for {path}, which scripts/table does not make");
            asked.insert(path);
        }
        for (file, text) in plan.servers.iter().flat_map(|server| &server.files) {
            let is_read = !file.ends_with(".toml") || toml::from_str::<toml::Table>(text).is_ok();
            assert!(is_read, "{name}: {file} is no TOML: {text}");
        }
    }
    for (file, (source, how)) in &table {
        assert!(study().join(source).is_file(), "{file} is made of {source}, which does not exist");
        assert!(*how == "copy" || how.starts_with("cc -"), "{file}: {how}");
        let is_used = asked.contains(*file) || file.starts_with("lib/") || file.starts_with("bin/");
        assert!(is_used, "no plan asks for {file}");
    }
}

#[test]
fn the_page_has_each_column_and_the_paper_s_tables_on_scripts() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (paper, mut layout) = (Paper::read(PAPER).expect("paper.toml"), layout());
    let measured = measured_of(folder.path(), &layout);
    let sections = layout.sections.len();
    layout.keep_measured(&measured);
    assert_eq!(layout.sections.len(), sections, "a part of the page is left out although all is measured");

    // Each place of the page exists in its plan: otherwise this fails.
    let compared = page::compare(&paper, &layout, &measured).expect("the comparisons");
    let text =
        page::write(&paper, &layout, &measured, &Surroundings::default(), &compared, "page.svg").expect("the page");
    assert!(!text.contains("not measured") && !text.contains("too few blocks"), "{text}");
    assert!(text.contains("**reached**") && text.contains("**missed**"), "{text}");
    assert!(picture::draw(&compared).contains("Wanted: CGI in C"));

    let tables: Vec<_> = layout.sections.iter().flat_map(|section| &section.tables).collect();
    for id in ["scripts", "face-to-face", "persistent"] {
        let ours = tables.iter().find(|ours| ours.paper.as_deref() == Some(id));
        let rows = paper.table(id).expect("the paper's").rows.len();
        assert_eq!(ours.map(|ours| ours.rows.len()), Some(rows), "{id}");
    }
    for (name, plan) in plans_of(&layout) {
        let shown: BTreeSet<&str> = tables
            .iter()
            .filter(|table| table.plan == name)
            .flat_map(|table| table.rows.iter().flat_map(|row| row.subjects.iter().map(String::as_str)))
            .collect();
        for subject in &plan.subjects {
            assert!(shown.contains(subject.name.as_str()), "{name}: {} is not on the page", subject.name);
        }
    }
    assert!(tables.iter().all(|table| table.rows.iter().all(|row| row.subjects.len() == table.columns.len())));
}

#[test]
fn what_needs_results_is_left_out_without_them() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (paper, mut layout) = (Paper::read(PAPER).expect("paper.toml"), layout());
    let measured = crate::measured::Measured::read(folder.path(), &layout.plans).expect("no results");
    layout.keep_measured(&measured);
    let compared = page::compare(&paper, &layout, &measured).expect("the comparisons");
    let text =
        page::write(&paper, &layout, &measured, &Surroundings::default(), &compared, "page.svg").expect("the page");
    assert!(!text.contains("another host\n") && text.contains("| 0KB, 1 | 32 | 400 | 387 |"), "{text}");
    assert!(!text.contains("**reached**") && text.contains("not measured"), "{text}");
}
