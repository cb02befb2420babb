//! What a reader has to know before believing an outcome: a pure function of it.
use weir_measure::comparison::{BLOCKS_FOR_A_VERDICT, Bootstrap, PairedRatios, Verdict, median};

use crate::accounting::CpuAccounting;
use crate::outcome::{Block, Outcome, Slice};
use crate::plan::Measured;
use crate::schedule::{BlockKind, Side};
use crate::verdict::{GENERATOR_LIMIT, Metric, generator_was_limit, verdicts};

/// Above this part of the CPUs used by others, in the median, the reader is told.
const FOREIGN_LIMIT: f64 = 0.05;

/// The warnings about an outcome, each a sentence; none when all is well.
#[must_use]
pub fn warnings(outcome: &Outcome) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, case) in outcome.plan.cases.iter().enumerate() {
        let of_case = if outcome.plan.cases.len() > 1 { format!("{}: ", case.name) } else { String::new() };
        warnings.extend(about_case(outcome, index).into_iter().map(|warning| of_case.clone() + &warning));
    }
    let pinning = &outcome.plan.pinning;
    if let (Some(server), Some(load)) = (&pinning.server, &pinning.load)
        && server.numbers().iter().any(|cpu| load.numbers().contains(cpu))
    {
        warnings.push(format!(
            "server (CPU {server}) and load (CPU {load}) share a CPU: throughput is what they leave each other; \
             give them different ones with --server-cpu and --load-cpu"
        ));
    }
    if outcome.accounting == CpuAccounting::ProcessTree {
        warnings.push(
            "no control group of its own could be made or it was not wanted: CPU time is that of the process \
             tree, in which children that nobody waits for are missing"
                .to_owned(),
        );
    }
    if outcome.interrupted {
        let done = outcome.blocks.len();
        warnings.push(format!("it was interrupted: {done} blocks were complete, the report is of those"));
    }
    warnings
}

fn about_case(outcome: &Outcome, case: usize) -> Vec<String> {
    let mut warnings = Vec::new();
    let blocks: Vec<&Block> = outcome.blocks_of(case, BlockKind::Ab).collect();
    let aa_blocks = outcome.blocks_of(case, BlockKind::Aa).count();
    if blocks.len() < BLOCKS_FOR_A_VERDICT {
        let count = blocks.len();
        warnings.push(format!("{count} blocks are too few for a verdict; at least {BLOCKS_FOR_A_VERDICT} are needed"));
    }
    if aa_blocks < BLOCKS_FOR_A_VERDICT {
        warnings.push(format!(
            "the noise floor rests on {aa_blocks} blocks of A against itself; at least {BLOCKS_FOR_A_VERDICT} tell \
             something (--aa)"
        ));
    }
    for judgement in verdicts(outcome).into_iter().filter(|judgement| judgement.case == case) {
        if let (Some(ratio), Verdict::CannotTell) = (judgement.ratio, judgement.verdict)
            && ratio.blocks < blocks.len()
        {
            warnings.push(format!("{} could not be measured in every block; use longer ones", judgement.metric.name()));
        }
    }
    let foreign: Vec<f64> = SIDES
        .iter()
        .filter(|(side, _)| outcome.plan.beside(*side).is_none())
        .flat_map(|(_, slice)| blocks.iter().filter_map(|block| slice(block).foreign_cpu_share))
        .collect();
    if let Some(share) = median(&foreign).filter(|share| *share > FOREIGN_LIMIT) {
        warnings.push(format!(
            "others used {:.0} % of the CPUs of server and load meanwhile: they make the noise; repeat it when the \
             machine is quiet",
            share * 100.0
        ));
    }
    for (metric, effect) in order_effects(outcome, case) {
        warnings.push(format!(
            "in blocks of A against itself the second slice differs from the first by {:+.1} % in {}: what the one \
             leaves behind reaches the other; allow a longer --warm-up",
            (effect - 1.0) * 100.0,
            metric.name()
        ));
    }
    if outcome.plan.measured() == Measured::Server {
        for (side, slice) in SIDES {
            if generator_was_limit(&blocks, slice) {
                warnings.push(format!(
                    "the load generator used more than {:.0} % of its CPU with {side:?}: the throughput is its own, \
                     compare the CPU per request; or give it more CPUs (--load-cpu), or the server less",
                    GENERATOR_LIMIT * 100.0
                ));
            }
        }
    }
    for (side, slice) in SIDES {
        let requests: u64 = blocks.iter().map(|block| slice(block).requests).sum();
        let errors: u64 = blocks.iter().map(|block| slice(block).errors).sum();
        if errors > 0 {
            warnings.push(format!(
                "{errors} errors or error statuses and {requests} answers with {side:?}: make sure that both do the same work"
            ));
        }
    }
    warnings
}

type OfSide = fn(&Block) -> Slice;

const SIDES: [(Side, OfSide); 2] = [(Side::A, |block| block.a), (Side::B, |block| block.b)];

/// The part of its CPUs that the generator used with A and with B: medians.
pub(crate) fn generator_shares(outcome: &Outcome, case: usize) -> [Option<f64>; 2] {
    SIDES.map(|(_, slice)| {
        let shares: Vec<f64> =
            outcome.blocks_of(case, BlockKind::Ab).map(|block| slice(block).generator_cpu_share).collect();
        median(&shares)
    })
}

/// Metrics in which the second slice of a block differs from the first, with the median ratio,
/// where that is clear and large enough to interest. The order is drawn, so the verdict is not
/// biased by it, but the noise is larger than need be.
fn order_effects(outcome: &Outcome, case: usize) -> Vec<(Metric, f64)> {
    let interesting = 1.0 + outcome.plan.smallest_effect;
    let effect = |metric: Metric| {
        let mut ratios = PairedRatios::default();
        for block in outcome.blocks_of(case, BlockKind::Aa) {
            let (first, second) = if block.first == Side::A { (&block.a, &block.b) } else { (&block.b, &block.a) };
            // Without a ratio there is no effect to be seen either.
            let _no_ratio = ratios.push(metric.of(first), metric.of(second));
        }
        let found = ratios.snapshot(&Bootstrap::with_seed(outcome.plan.seed)).ok()?;
        let is_large = found.point.max(1.0 / found.point) >= interesting;
        let is_clear = found.blocks >= BLOCKS_FOR_A_VERDICT && !found.interval.contains(1.0);
        (is_large && is_clear).then_some((metric, found.point))
    };
    Metric::ALL.into_iter().filter_map(effect).collect()
}
