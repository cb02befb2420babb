//! The table of transaction classes, where there is more than one.

use super::text::{Screen, filled};
use crate::units::{count, nanoseconds, percent, share};
use crate::{Explanation, Transaction};
use weir_measure::part::Part;

/// Lines that a screen should not exceed; tables give way to it.
const SCREEN_LINES: usize = 40;
/// Most that are shown, and what a full screen still leaves room for.
const MOST: usize = 8;
const LEAST: usize = 3;
/// Columns of the figures behind the name: count, median, p99, largest part.
const FIGURES: usize = 10 + 9 + 9 + 2 + 22;

pub(super) fn write(screen: &mut Screen, explanation: &Explanation) {
    let classes = &explanation.transactions;
    if classes.len() < 2 {
        return;
    }
    let room = SCREEN_LINES.saturating_sub(screen.lines() + 2);
    let shown = room.clamp(LEAST, MOST).min(classes.len());
    let ink = screen.ink;
    let name_width = (screen.width - FIGURES).min(48);
    screen.blank();
    let left_out = match classes.len() - shown {
        0 => "transaction".to_owned(),
        more => format!("transaction ({more} more)"),
    };
    let name = filled(&left_out, name_width);
    screen.line(&ink.dim(&format!("{name}{:>10}{:>9}{:>9}  mostly", "requests", "p50", "p99")));
    for class in &classes[..shown] {
        let time = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| nanoseconds(ns as f64));
        let line = format!(
            "{}{:>10}{:>9}{:>9}  {}",
            filled(&class.name, name_width),
            count(class.count),
            time(class.response_ns.map(|times| times.p50)),
            time(class.response_ns.map(|times| times.p99)),
            mostly(class)
        );
        screen.line(&line);
    }
}

/// The largest part of a class's mean and its share.
fn mostly(class: &Transaction) -> String {
    let total: f64 = class.parts_ns.iter().sum();
    let largest =
        Part::ALL.into_iter().max_by(|a, b| class.parts_ns[*a as usize].total_cmp(&class.parts_ns[*b as usize]));
    match largest {
        Some(part) if total > 0.0 => {
            format!("{} {}", part.name(), percent(share(class.parts_ns[part as usize], total)))
        }
        _ => "-".to_owned(),
    }
}
