//! `scripts/test` tries what failed once more, and says so; what fails again, or is more than chance, stays failed.
// scripts/test: waits

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// A package with unit tests and others, of which those fail that the environment names: `once` or at each try.
const MANIFEST: &str = "[package]\nname = \"trial\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n";
const TRIAL: &str = r#"
fn trial(name: &str) {
    let fails = |when: &str| std::env::var(when).is_ok_and(|names| names.split(' ').any(|one| one == name));
    assert!(!fails("FAIL"), "at each try");
    if fails("CRASH") {
        std::process::abort();
    }
    if fails("FAIL_ONCE") {
        let mark = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        // In one step: of two runs at the same time one finds it.
        assert!(std::fs::File::create_new(mark).is_err(), "the first time");
    }
    if let Some(policy) = std::env::var("POLICY").ok().filter(|_| name == "seven") {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        // proc_pid_stat(5): the policy is field 41; behind the name in parentheses stands field 3.
        assert_eq!(stat.rsplit(") ").next().unwrap().split(' ').nth(38), Some(&*policy));
    }
    if fails("MEET") {
        let other = if name == "one" { "seven" } else { "one" };
        let mark = |name: &str| std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name).with_extension("met");
        std::fs::write(mark(name), "").unwrap();
        let begun = std::time::Instant::now();
        while !mark(other).exists() {
            assert!(begun.elapsed().as_secs() < 60, "nothing stands beside");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}
"#;

fn tests(module: &str, names: &[&str]) -> String {
    let each = names.iter().map(|name| format!("    #[test]\n    fn {name}() {{ super::trial(\"{name}\") }}\n"));
    format!("{TRIAL}\nmod {module} {{\n{}}}\n", each.collect::<String>())
}

struct Trial(tempfile::TempDir);

impl Trial {
    /// A package whose smaller program begins so.
    fn new(how: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let place = |name: &str, text: &str| {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, text).expect("a file");
        };
        place("Cargo.toml", MANIFEST);
        place("src/lib.rs", &format!("#[cfg(test)]\nmod unit {{{}}}\n", tests("within", &["small"])));
        place(
            "tests/real.rs",
            &tests("servers", &["one", "two", "three", "four", "five", "six", "eight", "nine", "ten"]),
        );
        place("tests/other.rs", &(how.to_owned() + &tests("servers", &["seven"])));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/test");
        fs::create_dir(folder.path().join("scripts")).expect("a folder");
        fs::copy(script, folder.path().join("scripts/test")).expect("the script");
        // The collector is no part of this.
        place("scripts/otelcol", "");
        place("Makefile", "lint:\n\t@echo sources are checked; exit $$LINT\n");
        Self(folder)
    }

    /// Runs it; its output and the lines of its end.
    fn run(&self, fails: &[(&str, &str)]) -> (Output, Vec<String>) {
        self.run_with(&[], fails)
    }

    /// The same with options.
    fn run_with(&self, options: &[&str], fails: &[(&str, &str)]) -> (Output, Vec<String>) {
        // By its interpreter: the other test, should it fork while the copy is written, would keep it from being executed.
        let mut command = Command::new("python3");
        command.arg(self.0.path().join("scripts/test")).args(options);
        // Neither the build directory nor the choices of the Cargo that runs this test.
        command.env("CARGO_TARGET_DIR", self.0.path().join("target")).env("CARGO_TERM_COLOR", "never");
        let output = command.envs(fails.iter().copied()).output().expect("it starts");
        let end = fs::read_to_string(self.0.path().join("runs/test-summary")).expect("its end");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.ends_with(&format!("\n{end}")), "{said}");
        (output, end.lines().map(str::to_owned).collect())
    }
}

#[test]
fn what_failed_is_tried_once_more_and_named() {
    let trial = Trial::new("");
    let (output, end) = trial.run(&[]);
    assert!(output.status.success() && end == ["11 passed, 0 failed, 0 skipped"], "{output:?}");

    let (output, end) = trial.run(&[("FAIL_ONCE", "two seven")]);
    let expected = ["second try: servers::seven", "second try: servers::two", "11 passed, 0 failed, 0 skipped"];
    assert!(output.status.success() && end == expected, "{end:?} {output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("test result: FAILED. 8 passed; 1 failed") && said.contains("the first time"), "{said}");

    // Unit tests as well: those of threads and sockets meet the same moments.
    let (output, end) = trial.run(&[("FAIL_ONCE", "small one")]);
    let expected = ["second try: unit::within::small", "second try: servers::one", "11 passed, 0 failed, 0 skipped"];
    assert!(output.status.success() && end == expected, "{end:?} {output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("SECOND TRY PASSED: unit::within::small FAILED BEFORE"), "{said}");

    let (output, end) = trial.run(&[("FAIL", "two"), ("FAIL_ONCE", "five")]);
    let expected = ["second try: servers::five", "10 passed, 1 failed, 0 skipped"];
    assert!(output.status.code() == Some(101) && end == expected, "{end:?} {output:?}");
}

#[test]
fn what_cannot_be_chance_is_not_tried_again() {
    let trial = Trial::new("");
    for (fails, expected) in [
        // More than eight, of which each would pass.
        (("FAIL_ONCE", "one two three four five six eight nine ten"), "2 passed, 9 failed, 0 skipped"),
        // At its second try as well.
        (("FAIL", "small"), "10 passed, 1 failed, 0 skipped"),
        // Its program counts no tests.
        (("CRASH", "seven"), "10 passed, 1 failed, 0 skipped"),
    ] {
        let (output, end) = trial.run(&[fails]);
        assert!(output.status.code() == Some(101) && end == [expected], "{fails:?}: {end:?} {output:?}");
        assert!(!String::from_utf8_lossy(&output.stdout).contains("SECOND TRY PASSED"), "{output:?}");
    }
}

#[test]
fn lints_run_beside_tests_and_fail_the_run() {
    let trial = Trial::new("");
    let (output, end) = trial.run_with(&["--lint"], &[("LINT", "0")]);
    assert!(output.status.success() && end == ["11 passed, 0 failed, 0 skipped"], "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("sources are checked"), "{output:?}");
    let (output, end) = trial.run_with(&["--lint"], &[("LINT", "1")]);
    assert!(output.status.code() == Some(101) && end == ["11 passed, 1 failed, 0 skipped"], "{output:?}");
}

#[test]
fn a_program_says_how_it_may_run() {
    let trial = Trial::new("// scripts/test: serves, also by epoll, 2 threads\n");
    let (output, end) = trial.run(&[]);
    assert!(output.status.success() && end == ["12 passed, 0 failed, 0 skipped"], "{output:?}");
    // It fails at one of its two runs and passes when that one is tried again.
    let (output, end) = trial.run(&[("FAIL_ONCE", "seven")]);
    let expected = ["second try: servers::seven", "12 passed, 0 failed, 0 skipped"];
    assert!(output.status.success() && end == expected, "{end:?} {output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("SECOND TRY PASSED"), "{output:?}");

    let trial = Trial::new("// scripts/test: servs\n");
    let mut command = Command::new("python3");
    command.arg(trial.0.path().join("scripts/test")).env("CARGO_TARGET_DIR", trial.0.path().join("target"));
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("knows no word `servs`"), "{output:?}");
}

/// With the kernel's word for the policy, as in sched(7): 2 is SCHED_RR and 5 is SCHED_IDLE.
#[test]
fn a_program_has_the_priority_that_it_asks_for() {
    let trial = Trial::new("// scripts/test: patient\n");
    // Beside the one that says nothing.
    let (output, end) = trial.run(&[("POLICY", "5"), ("MEET", "one seven")]);
    assert!(output.status.success() && end == ["11 passed, 0 failed, 0 skipped"], "{output:?}");
    // It does not need it to pass: tried again it runs alone.
    let (output, end) = trial.run(&[("POLICY", "0")]);
    let expected = ["second try: servers::seven", "11 passed, 0 failed, 0 skipped"];
    assert!(output.status.success() && end == expected, "{end:?} {output:?}");

    let may = Command::new("chrt").args(["--rr", "1", "true"]).status().is_ok_and(|status| status.success());
    let (output, end) = Trial::new("// scripts/test: punctual\n").run(&[("POLICY", if may { "2" } else { "0" })]);
    assert!(output.status.success() && end == ["11 passed, 0 failed, 0 skipped"], "{output:?}");
}
