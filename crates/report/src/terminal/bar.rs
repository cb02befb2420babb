//! Stacked bars: the parts of the median and of the slowest 1 %.

use super::ink::{Ink, letter};
use super::text::Screen;
use crate::Explanation;
use crate::units::{nanoseconds, share};
use weir_measure::part::Part;

/// A bar is not drawn longer: the eye does not compare better.
const LONGEST: usize = 96;
/// Rows of the table of parts, which is the legend of the bars.
const MOST_ROWS: usize = 7;
/// A smaller share than this everywhere is not worth a row.
const WORTH_A_ROW: f64 = 0.005;

/// The bars and the parts that they tell apart; the other parts are drawn together.
pub(super) struct Bars {
    /// Parts that matter somewhere, in the order in which a response passes them.
    pub(super) rows: Vec<Part>,
}

impl Bars {
    /// Chooses what is told apart: the parts with the largest share of the median, the slowest or the mean.
    pub(super) fn of(explanation: &Explanation) -> Self {
        let columns = [&explanation.median_parts_ns, &explanation.slow_parts_ns, &explanation.parts_ns];
        let weight = |part: Part| {
            let shares = columns.iter().map(|parts| share(parts[part as usize], parts.iter().sum()));
            shares.fold(0.0, f64::max)
        };
        let mut rows: Vec<Part> = Part::ALL.into_iter().filter(|part| weight(*part) >= WORTH_A_ROW).collect();
        rows.sort_by(|a, b| weight(*b).total_cmp(&weight(*a)));
        rows.truncate(MOST_ROWS);
        rows.sort();
        Self { rows }
    }

    pub(super) fn write(&self, screen: &mut Screen, explanation: &Explanation) {
        let bars = [
            ("median", explanation.median_response_ns, &explanation.median_parts_ns),
            ("slowest 1 %", explanation.slow_response_ns, &explanation.slow_parts_ns),
        ];
        for (name, time_ns, parts) in bars {
            let label = format!("{name:<12}{:>8}  ", nanoseconds(time_ns));
            let length = (screen.width - label.len()).min(LONGEST);
            let bar = self.drawn(parts, length, screen.ink);
            screen.line(&format!("{label}{bar}"));
        }
    }

    fn drawn(&self, parts: &[f64; Part::COUNT], length: usize, ink: Ink) -> String {
        let mut sizes: Vec<f64> = self.rows.iter().map(|part| parts[*part as usize].max(0.0)).collect();
        let shown: f64 = sizes.iter().sum();
        sizes.push((parts.iter().sum::<f64>() - shown).max(0.0));
        let cells = cells(&sizes, length);
        let mut bar = String::new();
        for (part, cells) in self.rows.iter().zip(&cells) {
            bar.push_str(&if ink.colours {
                let name = if part.name().len() + 2 <= *cells { part.name() } else { "" };
                ink.on(*part, &format!("{name:^cells$}"))
            } else {
                letter(*part).to_string().repeat(*cells)
            });
        }
        bar.push_str(&ink.dim(&".".repeat(cells[self.rows.len()])));
        bar
    }
}

/// Shares `length` out in whole cells, by largest remainder, so that the cells of a bar add up to it.
fn cells(sizes: &[f64], length: usize) -> Vec<usize> {
    let total: f64 = sizes.iter().sum();
    let exact: Vec<f64> = sizes.iter().map(|size| share(*size, total) * length as f64).collect();
    let mut cells: Vec<usize> = exact.iter().map(|size| size.floor() as usize).collect();
    let mut by_remainder: Vec<usize> = (0..sizes.len()).filter(|index| exact[*index] > 0.0).collect();
    by_remainder.sort_by(|a, b| exact[*b].fract().total_cmp(&exact[*a].fract()));
    let missing = length.saturating_sub(cells.iter().sum());
    for index in by_remainder.into_iter().take(missing) {
        cells[index] += 1;
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_add_up() {
        assert_eq!(cells(&[1.0, 1.0, 1.0], 10), [4, 3, 3]);
        assert_eq!(cells(&[0.0, 5.0], 8), [0, 8]);
        assert_eq!(cells(&[0.0, 0.0], 8), [0, 0]);
        assert_eq!(cells(&[f64::NAN, 1.0], 8), [0, 0]);
    }
}
