//! What a transaction takes of the agent, counted by callgrind and so independent of the machine's mood.

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
            let output = Command::new("valgrind")
                .args(["--tool=callgrind", "-q", "--toggle-collect=arm_agent::look"])
                .arg(format!("--callgrind-out-file={}", to.display()))
                .arg(env!("CARGO_BIN_EXE_arm-agent"))
                .args(["intake", shape, &transactions.to_string()])
                .output()
                .expect("valgrind starts");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let text = std::fs::read_to_string(&to).expect("callgrind's file");
            let total = text.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
            total.and_then(|total| total.trim().parse::<f64>().ok()).expect("a total")
        };
        let each = (count(FEW + MORE) - count(FEW)) / MORE as f64;
        eprintln!("{shape}: {each:.0} instructions a transaction");
        assert!(each > 100.0 && each < most, "{shape}: {each:.0} instructions a transaction");
    }
}
