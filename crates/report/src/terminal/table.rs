//! The table of the parts that matter, which is also the legend of the bars.

use super::ink::Ink;
use super::text::Screen;
use crate::Explanation;
use crate::units::{nanoseconds, percent, share};
use weir_measure::part::Part;

/// A difference below this share is rounding and not a row.
const WORTH_A_ROW: f64 = 0.0005;

/// Writes it with a row for each of `parts`, and one for the others together.
pub(super) fn write(screen: &mut Screen, explanation: &Explanation, parts: &[Part]) {
    let ink = screen.ink;
    let columns = [&explanation.median_parts_ns, &explanation.slow_parts_ns, &explanation.parts_ns];
    let totals = columns.map(|column| column.iter().sum::<f64>());
    let times = |of: &dyn Fn(&[f64; Part::COUNT]) -> f64| columns.map(of);
    let header = format!("  {:<18}{:>9}{:>13}{:>9}{:>7}", "part", "median", "slowest 1 %", "mean", "share");
    // Words are shown where all of them fit.
    let room = screen.width.saturating_sub(header.len() + 2);
    let with_words = parts.iter().all(|part| part.words().len() <= room);

    screen.blank();
    screen.line(&ink.dim(&header));
    for part in parts {
        let row = times(&|column| column[*part as usize]);
        let words = if with_words { ink.dim(part.words()) } else { String::new() };
        screen.line(&format!("{} {}  {words}", ink.swatch(*part), figures(part.name(), row, totals, ink)));
    }
    let others =
        times(&|column| column.iter().sum::<f64>() - parts.iter().map(|part| column[*part as usize]).sum::<f64>());
    if others.iter().zip(totals).any(|(other, total)| share(*other, total) >= WORTH_A_ROW) {
        screen.line(&format!(". {}", figures("others", others.map(|ns| ns.max(0.0)), totals, ink)));
    }
}

/// Name, median, slowest, mean and the mean's share; what is at least half of its column stands out.
fn figures(name: &str, row: [f64; 3], totals: [f64; 3], ink: Ink) -> String {
    let [median, slow, mean] = [0, 1, 2].map(|index| {
        let width = [9, 13, 9][index];
        let figure = format!("{:>width$}", nanoseconds(row[index]));
        if share(row[index], totals[index]) >= 0.5 { ink.bold(&figure) } else { figure }
    });
    format!("{name:<18}{median}{slow}{mean}{:>7}", percent(share(row[2], totals[2])))
}
