//! Whether B is faster than A, by pairs of times that were measured one right after the other.
//!
//! Each line of standard input has a time of A and a time of B, in the same unit. The program prints the median ratio
//! B/A, its 95 % confidence interval, and a verdict: differences below 2 % do not interest.
//!
//! `cargo run --release -p weir-measure --example is_it_faster < times.txt`

use std::io;
use weir_measure::comparison::{Bootstrap, Direction, PairedRatios, Verdict, verdict};

const SMALLEST_EFFECT: f64 = 0.02;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut ratios = PairedRatios::default();
    for (number, line) in (1..).zip(io::stdin().lines()) {
        let line = line?;
        let (a, b) = pair(&line).ok_or_else(|| format!("line {number} has no two numbers: {line}"))?;
        ratios.push(a, b).map_err(|error| format!("line {number}: {error}"))?;
    }
    let effect = ratios.snapshot(&Bootstrap::with_seed(1))?;
    let words = match verdict(&effect, None, SMALLEST_EFFECT, Direction::LowerIsBetter) {
        Verdict::Better => "B is faster",
        Verdict::Worse => "B is slower",
        Verdict::TheSame => "they are the same",
        Verdict::CannotTell => "the pairs do not decide it",
    };
    println!(
        "{words}: B takes {:.3} of the time of A ({:.3} to {:.3}, {} pairs)",
        effect.point, effect.interval.low, effect.interval.high, effect.blocks
    );
    Ok(())
}

fn pair(line: &str) -> Option<(f64, f64)> {
    let (a, b) = line.trim().split_once(char::is_whitespace)?;
    Some((a.parse().ok()?, b.trim().parse().ok()?))
}
