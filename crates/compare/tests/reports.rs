//! Verdicts, warnings and reports of outcomes made by hand: all are pure functions.
mod support;

use support::{command, plain_load, plan};
use weir_compare::{
    Block, BlockKind, CpuAccounting, LoadTool, Metric, Outcome, ServerSpec, Side, Slice, Subjects, json_report,
    terminal_report, verdicts, warnings,
};
use weir_measure::comparison::Verdict;

#[test]
fn helper() {
    support::play_role(|words| panic!("unknown role {words:?}"));
}

/// A slice of a second at 10,000 requests for factor 1.
fn slice(cpu_factor: f64, rate_factor: f64, generator_cpu_share: f64) -> Slice {
    Slice {
        tool: LoadTool::Wrk,
        requests: (10_000.0 * rate_factor) as u64,
        errors: 0,
        duration_s: 1.0,
        wall_s: 1.0,
        rate_per_s: 10_000.0 * rate_factor,
        server_cpu_ns: (50_000_000.0 * cpu_factor) as u64,
        generator_cpu_ns: (1e9 * generator_cpu_share) as u64,
        generator_cpu_share,
        foreign_cpu_share: Some(0.01),
        cpu_ns_per_request: 5_000.0 * cpu_factor,
    }
}

/// Ten blocks of these two and eight of A against itself, each swinging by up to 1 %.
fn outcome(a: Slice, b: Slice) -> Outcome {
    let server = |text: &str| ServerSpec { command: command(text), beside: None };
    let subjects = Subjects::Servers { a: server("old"), b: server("new 'x y'"), load: plain_load(), restart: false };
    let mut planned = plan(subjects, 8081, 8082);
    planned.pinning.server = "0".parse().ok();
    planned.pinning.load = "1".parse().ok();
    let swung = |slice: Slice, index: usize| {
        let swing = 1.0 + 0.002 * (index % 5) as f64;
        Slice { rate_per_s: slice.rate_per_s * swing, cpu_ns_per_request: slice.cpu_ns_per_request * swing, ..slice }
    };
    let block = |index: usize| {
        let (kind, b) = if index < 10 { (BlockKind::Ab, b) } else { (BlockKind::Aa, a) };
        Block { case: 0, kind, first: Side::A, a: swung(a, index), b: swung(b, index * 3) }
    };
    Outcome {
        plan: planned,
        accounting: CpuAccounting::ControlGroup,
        restarted: false,
        interrupted: false,
        blocks: (0..18).map(block).collect(),
    }
}

fn verdict_of(outcome: &Outcome, metric: Metric) -> Verdict {
    verdicts(outcome).into_iter().find(|judgement| judgement.metric == metric).expect("every metric is judged").verdict
}

#[test]
fn both_metrics_are_judged_in_their_own_direction() {
    let found = outcome(slice(1.0, 1.0, 0.5), slice(1.3, 1.3, 0.5));
    assert_eq!(verdict_of(&found, Metric::CpuNsPerRequest), Verdict::Worse);
    assert_eq!(verdict_of(&found, Metric::RatePerS), Verdict::Better);
    let found = outcome(slice(1.0, 1.0, 0.5), slice(1.01, 0.99, 0.5));
    assert_eq!(verdict_of(&found, Metric::CpuNsPerRequest), Verdict::TheSame);
    assert_eq!(verdict_of(&found, Metric::RatePerS), Verdict::TheSame);
    assert_eq!(warnings(&found), Vec::<String>::new());
}

#[test]
fn a_throughput_that_the_generator_set_is_not_the_servers() {
    let throughput = |share_a, rate_b, share_b| {
        let found = outcome(slice(1.0, 1.0, share_a), slice(1.0, rate_b, share_b));
        assert!(warnings(&found).iter().any(|warning| warning.contains("load generator")));
        assert_eq!(verdict_of(&found, Metric::CpuNsPerRequest), Verdict::TheSame);
        verdict_of(&found, Metric::RatePerS)
    };
    assert_eq!(throughput(0.99, 1.0, 0.99), Verdict::CannotTell);
    // B could have done even more, A not.
    assert_eq!(throughput(0.5, 1.3, 0.99), Verdict::Better);
    assert_eq!(throughput(0.99, 0.7, 0.5), Verdict::Worse);
    // B could have done more than it was seen to.
    assert_eq!(throughput(0.5, 0.7, 0.99), Verdict::CannotTell);
}

#[test]
fn what_a_reader_must_know_is_said() {
    let warned = |change: fn(&mut Outcome), what: &str| {
        let mut found = outcome(slice(1.0, 1.0, 0.5), slice(1.0, 1.0, 0.5));
        change(&mut found);
        let all = warnings(&found);
        assert!(all.iter().any(|warning| warning.contains(what)), "{what}: {all:?}");
    };
    warned(|found| found.blocks[0].b.errors = 3, "3 errors");
    warned(
        |found| found.blocks.iter_mut().for_each(|block| block.a.foreign_cpu_share = Some(0.4)),
        "others used 20 % of the CPUs",
    );
    warned(|found| found.interrupted = true, "18 blocks were complete");
    warned(|found| found.accounting = CpuAccounting::ProcessTree, "process tree");
    warned(|found| found.plan.pinning.load = found.plan.pinning.server.clone(), "share a CPU");
    warned(|found| found.blocks.retain(|block| block.kind == BlockKind::Ab), "--aa");
    warned(|found| found.blocks.drain(..7).for_each(drop), "too few for a verdict");
    warned(
        |found| {
            for block in found.blocks.iter_mut().filter(|block| block.kind == BlockKind::Aa) {
                block.b.cpu_ns_per_request *= 1.2;
            }
        },
        "the second slice differs from the first by +20",
    );
}

#[test]
fn the_terminal_has_units_words_and_the_way_back() {
    let found = outcome(slice(1.0, 1.0, 0.5), slice(1.3, 0.99, 0.97));
    let text = terminal_report(&found, "weir compare --a old --seed 7", false);
    for part in [
        "5.02 us",
        "6.53 us",
        "10.0k/s",
        "worse: B takes 30.",
        "cannot tell: the load generator was the limit",
        "10 blocks of B against A, 8 of A against itself",
        "new 'x y' (CPU 0) at http://127.0.0.1:8082/",
        "control group",
        "again: weir compare --a old --seed 7",
        "warning: ",
    ] {
        assert!(text.contains(part), "{part:?} is missing from\n{text}");
    }
    assert!(!text.contains('\x1b'));
    assert!(text.lines().count() <= 24, "one screen:\n{text}");
    assert!(terminal_report(&found, "", true).contains("\x1b[31m"));
}

#[test]
fn json_has_the_same_and_every_raw_block() {
    let found = outcome(slice(1.0, 1.0, 0.5), slice(1.3, 1.0, 0.5));
    let report = json_report(&found, "weir compare").expect("numbers and texts");
    let cpu = &report["cases"][0]["results"][0];
    assert_eq!(cpu["metric"], "cpu_ns_per_request");
    assert_eq!(cpu["verdict"], "worse");
    assert_eq!(cpu["ratio"]["blocks"], 10);
    assert!(cpu["ratio"]["low"].as_f64() <= cpu["ratio"]["median"].as_f64());
    assert_eq!(report["blocks"].as_array().map(Vec::len), Some(18));
    assert_eq!(report["blocks"][0]["a"]["requests"], 10_000);
    assert_eq!(report["plan"]["subjects"]["kind"], "servers");
    // Every fact comes back, so that later versions can judge old outcomes anew.
    let facts = serde_json::to_string(&found).expect("numbers and texts");
    assert_eq!(serde_json::from_str::<Outcome>(&facts).expect("our own"), found);
}
