//! Percentiles of the numbers on standard input, each with its 95 % confidence interval.
//!
//! The interval lies between two of the numbers and holds for any distribution: of `n` independent numbers, as many lie
//! below a quantile as a binomial distribution says.
//!
//! `seq 1 1000 | cargo run --release -p weir-measure --example percentiles`

use std::io::{self, Read};
use weir_measure::binomial::upper_tail;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let mut numbers = Vec::new();
    for word in text.split_whitespace() {
        let number: f64 = word.parse().map_err(|error| format!("{word}: {error}"))?;
        if !number.is_finite() {
            return Err(format!("{word} is no finite number").into());
        }
        numbers.push(number);
    }
    numbers.sort_by(f64::total_cmp);
    if numbers.is_empty() {
        return Err("there are no numbers on standard input".into());
    }

    println!("{} numbers", numbers.len());
    for share in [0.5, 0.9, 0.95, 0.99, 0.999] {
        let rank = (share * numbers.len() as f64).ceil().max(1.0) as usize;
        let interval = match interval(&numbers, share) {
            (Some(low), Some(high)) => format!("{low} to {high}"),
            (Some(low), None) => format!("at least {low}: too few numbers for the other end"),
            (None, Some(high)) => format!("at most {high}: too few numbers for the other end"),
            (None, None) => "too few numbers for an interval".to_owned(),
        };
        println!("p{:<5} {:>12}   {interval}", share * 100.0, numbers[rank - 1]);
    }
    Ok(())
}

/// The ends between which a quantile lies with 95 %, if there are enough of the sorted numbers for each.
fn interval(numbers: &[f64], share: f64) -> (Option<f64>, Option<f64>) {
    const BEYOND_EACH_END: f64 = 0.025;
    let count = numbers.len() as u64;
    let ranks: Vec<u64> = (1..=count).collect();
    // The quantile is at or above the number of a rank if at least as many numbers lie at or below the quantile.
    let at_or_above = |rank: u64| upper_tail(rank, count, share);
    let low = ranks.partition_point(|rank| at_or_above(*rank) >= 1.0 - BEYOND_EACH_END);
    let high = ranks.partition_point(|rank| at_or_above(*rank) > BEYOND_EACH_END);
    (low.checked_sub(1).map(|index| numbers[index]), numbers.get(high).copied())
}
