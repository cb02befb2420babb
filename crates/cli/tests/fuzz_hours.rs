//! What is promised of fuzzing is what is on record: the sum of all runs, and which targets have none.
// scripts/test: waits

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(name: &str) -> String {
    fs::read_to_string(repository().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// PROMISES.md and the pages of docs/promises, without the generated page of figures.
fn promises() -> String {
    let files = fs::read_dir(repository().join("docs/promises")).expect("there are pages");
    let mut pages: Vec<PathBuf> = files.map(|file| file.expect("it can be listed").path()).collect();
    pages.retain(|page| page.file_name().is_some_and(|name| name != "figures.md"));
    pages.push(repository().join("PROMISES.md"));
    let text = |page: &PathBuf| fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    pages.iter().map(text).collect()
}

/// All targets that there are.
fn targets() -> BTreeSet<String> {
    let files = fs::read_dir(repository().join("fuzz/fuzz_targets")).expect("there are targets");
    let name = |file: std::io::Result<fs::DirEntry>| {
        let path = file.expect("it can be listed").path();
        let is_target = path.extension().is_some_and(|ending| ending == "rs");
        is_target.then(|| path.file_stem().expect("it has a name").to_str().expect("UTF-8").to_owned())
    };
    files.filter_map(name).collect()
}

/// (target, seconds, executions) of each row.
fn recorded() -> Vec<(String, u64, u64)> {
    let targets = targets();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let &[_, name, seconds, executions, ..] = &cells[..] else { return None };
        targets.contains(name).then(|| {
            let number = |text: &str| text.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
            (name.to_owned(), number(seconds), number(executions))
        })
    };
    read("fuzz/HOURS.md").lines().filter_map(row).collect()
}

/// A number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let is_first = |at: usize| at > 0 && (digits.len() - at).is_multiple_of(3);
    digits.char_indices().flat_map(|(at, digit)| is_first(at).then_some(',').into_iter().chain([digit])).collect()
}

#[test]
fn the_sum_that_is_promised_is_that_on_record() {
    let rows = recorded();
    let (seconds, executions) = rows.iter().fold((0, 0), |sum, row| (sum.0 + row.1, sum.1 + row.2));
    let hours = seconds as f64 / 3600.0;
    let promised =
        format!("{} targets of {}, {hours:.1} hours, {} executions", rows.len(), targets().len(), grouped(executions));
    assert_eq!(read("PROMISES.md").matches(&promised).count(), 1, "PROMISES.md should say: {promised}");
    let told = format!("{} targets have had {hours:.1} hours", rows.len());
    let hours = read("fuzz/HOURS.md");
    assert!(hours.contains(&told) && hours.contains(&format!("{executions} executions")), "fuzz/HOURS.md: {told}");
}

#[test]
fn a_promise_by_a_target_without_hours_says_so() {
    const WITHOUT: &str = "no hours guided by coverage are on record";
    let with: BTreeSet<String> = recorded().into_iter().map(|(name, ..)| name).collect();
    let targets = targets();
    let mut seen = 0;
    for line in promises().lines().filter(|line| line.starts_with('|') && line.contains("fuzz")) {
        let named: Vec<&str> = line.split('`').skip(1).step_by(2).filter(|word| targets.contains(*word)).collect();
        let is_without = named.iter().any(|name| !with.contains(*name));
        seen += usize::from(!named.is_empty());
        assert_eq!(is_without, line.contains(WITHOUT), "{named:?}: {line}");
    }
    assert!(seen > 5, "few rows name a target");
}
