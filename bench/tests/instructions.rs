//! What a transaction takes of the agent and a tick of the engine of rules, counted by callgrind and so independent of the
//! machine's mood.
// scripts/test: patient

use std::path::Path;
use std::process::Command;
use weir_testkit::require;

/// Instructions of the agent for a transaction of each shape, from the slots that it copies to the figures of its class:
/// 1,880 to 1,920 and 2,000 to 2,480 measured with Rust 1.95, as how many are the slowest so far, and so looked after, is
/// a matter of chance. What looks at processes and files cost is not among them.
const MOST_INSTRUCTIONS: [(&str, f64); 2] = [("calls", 2_150.0), ("pages", 2_800.0)];
/// Transactions of the shorter run, and how many more the longer one makes.
const FEW: u64 = 2_000;
const MORE: u64 = 10_000;

#[test]
fn a_transaction_takes_the_agent_no_more_instructions_than_before() {
    if require::program("valgrind").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (shape, most) in MOST_INSTRUCTIONS {
        let count = |transactions: u64| {
            let to = folder.path().join(format!("{shape}-{transactions}"));
            let words = ["intake", shape, &transactions.to_string()];
            counted("arm_agent::look", env!("CARGO_BIN_EXE_arm-agent"), &words, &to)
        };
        let each = (count(FEW + MORE) - count(FEW)) / MORE as f64;
        eprintln!("{shape}: {each:.0} instructions a transaction");
        assert!(each > 100.0 && each < most, "{shape}: {each:.0} instructions a transaction");
    }
}

/// Instructions of a tick: 1,000 rules, of which 300 are looked at for all atoms of a pattern, 300 for each of 1,000
/// sessions at each tick and 400 for each of 10,000 atoms every 5 s; 4,950,000 measured with Rust 1.95 (6,200,000
/// before rules at rest were looked at first). 680,000 of them ask memory for what the next looks read: of a tick that
/// finds the caches used by others they take half the time (bench/NOTES.md).
const TICK_MOST: f64 = 5_100_000.0;
/// Ticks until all windows are full, and how many more the longer run has.
const FILLING: u64 = 80;
const FULL: u64 = 40;

#[test]
fn a_tick_of_a_thousand_rules_takes_no_more_instructions_than_before() {
    if require::program("valgrind").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let count = |ticks: u64| {
        let to = folder.path().join(ticks.to_string());
        counted("adapt_tick::tick", env!("CARGO_BIN_EXE_adapt-tick"), &[&ticks.to_string()], &to)
    };
    let each = (count(FILLING + FULL) - count(FILLING)) / FULL as f64;
    eprintln!("{each:.0} instructions a tick");
    assert!(each > 100_000.0 && each < TICK_MOST, "{each:.0} instructions a tick");
}

/// Instructions of a program within a function, which callgrind writes to a file.
fn counted(within: &str, program: &str, words: &[&str], to: &Path) -> f64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "-q", &format!("--toggle-collect={within}")])
        .arg(format!("--callgrind-out-file={}", to.display()))
        .arg(program)
        .args(words)
        .output()
        .expect("valgrind starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    total(to)
}

fn total(path: &Path) -> f64 {
    let text = std::fs::read_to_string(path).expect("callgrind's file");
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
    total.and_then(|total| total.trim().parse::<f64>().ok()).expect("a total")
}
