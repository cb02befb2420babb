//! Activity as a picture of bars and lines for a terminal, and as a table for programs.

use crate::table::Table;
use chrono::DateTime;
use std::fmt::Write as _;
use std::io::IsTerminal;
use weir_report::{clean, count, nanoseconds};
use weir_server::{Figures, ShownActivity};

/// Rows of the picture of requests.
const ROWS: usize = 6;
/// Columns of the numbers before the bars.
const GUTTER: usize = 12;
/// Eighths of a character's height.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Marks that are told in words below the picture: the last ones.
const MARKS_TOLD: usize = 12;
/// Columns from one time on the axis to the next, at least.
const TICK: usize = 14;

/// Whether a person sees it.
pub(super) fn is_wanted() -> bool {
    std::io::stdout().is_terminal()
}

/// Steps that fit into so many columns.
pub(super) fn steps(columns: usize) -> u32 {
    // A terminal's width fits.
    columns.saturating_sub(GUTTER).max(10) as u32
}

/// Figures of a minute, from those of a step.
pub(super) fn each_minute(count: u64, shown: &ShownActivity) -> f64 {
    count as f64 * 60.0 / shown.step_s as f64
}

pub(super) fn picture(shown: &ShownActivity, hours: u32) -> String {
    let steps = &shown.steps;
    let total = sum(steps);
    let mut out = format!(
        "the last {hours} h, {} a column, times in UTC: {} requests, {} sent, {} of 4xx, {} of 5xx\n\n",
        span(shown.step_s),
        count(total.requests),
        bytes(total.sent_bytes as f64),
        count(total.client_errors),
        count(total.server_errors)
    );
    out += &tall("requests/min", steps, |figures| each_minute(figures.requests, shown), number);
    out += &low("bytes/min", steps, |figures| each_minute(figures.sent_bytes, shown), bytes);
    out += &low("errors 5xx", steps, |figures| each_minute(figures.server_errors, shown), number);
    if total.timed > 0 {
        out += &low("p99", steps, |figures| f64::from(figures.p99_us) * 1e3, nanoseconds);
    }
    out += &marks_line(shown);
    out += &axis(shown);
    for mark in shown.marks.iter().rev().take(MARKS_TOLD).rev() {
        let (letter, word) = mark.kind.letter_and_word();
        // Writing to memory does not fail.
        let _ = writeln!(out, "{letter} {} {word}: {}", clock(mark.unix_ms / 1000, shown), clean(&mark.words));
    }
    if shown.marks.len() > MARKS_TOLD {
        let _ = writeln!(out, "and {} marks before these: --json has all", shown.marks.len() - MARKS_TOLD);
    }
    out
}

/// A table of the same: a row for each step in which a server ran.
pub(super) fn table(shown: &ShownActivity) -> String {
    let mut table = Table::new(["from (UTC)", "up", "requests/min", "bytes/min", "4xx", "5xx", "p99", "open", "marks"]);
    for figures in &shown.steps {
        let until_s = figures.begin_unix_s + shown.step_s;
        let is_within = |unix_ms: u64| (figures.begin_unix_s..until_s).contains(&(unix_ms / 1000));
        let marks: Vec<&str> = shown
            .marks
            .iter()
            .filter(|mark| is_within(mark.unix_ms))
            .map(|mark| mark.kind.letter_and_word().1)
            .collect();
        if figures.up_s == 0 && marks.is_empty() {
            continue;
        }
        let p99 = if figures.timed > 0 { nanoseconds(f64::from(figures.p99_us) * 1e3) } else { "-".to_owned() };
        table.push([
            clock(figures.begin_unix_s, shown),
            span(figures.up_s.into()),
            number(each_minute(figures.requests, shown)),
            bytes(each_minute(figures.sent_bytes, shown)),
            count(figures.client_errors),
            count(figures.server_errors),
            p99,
            count(figures.open_peak.into()),
            marks.join(","),
        ]);
    }
    if table.is_empty() {
        return "no server ran in that time\n".to_owned();
    }
    table.lines(usize::MAX / 2).join("\n") + "\n"
}

/// All steps together.
pub(super) fn sum(steps: &[Figures]) -> Figures {
    steps.iter().fold(Figures::default(), |mut sum, figures| {
        sum.add(figures);
        sum
    })
}

/// Bars of several rows.
fn tall(name: &str, steps: &[Figures], value: impl Fn(&Figures) -> f64, shown: fn(f64) -> String) -> String {
    let values: Vec<f64> = steps.iter().map(value).collect();
    let most = values.iter().copied().fold(0.0, f64::max);
    let mut out = format!("{name}\n");
    for row in (0..ROWS).rev() {
        let label = if row == ROWS - 1 { shown(most) } else { String::new() };
        let _ = write!(out, "{label:>width$} ", width = GUTTER - 1);
        out.extend(values.iter().zip(steps).map(|(value, figures)| {
            let eighths = if most > 0.0 { (value / most * (ROWS * 8) as f64).ceil() as usize } else { 0 };
            let bar = BARS[eighths.saturating_sub(row * 8).min(8)];
            // The bottom row tells a server without requests from none.
            if row == 0 && bar == ' ' && figures.up_s > 0 { '_' } else { bar }
        }));
        out = out.trim_end_matches(' ').to_owned() + "\n";
    }
    out
}

/// Bars of one row, with the largest value in front.
fn low(name: &str, steps: &[Figures], value: impl Fn(&Figures) -> f64, shown: fn(f64) -> String) -> String {
    let values: Vec<f64> = steps.iter().map(value).collect();
    let most = values.iter().copied().fold(0.0, f64::max);
    let bar = |value: &f64| if most > 0.0 { BARS[((value / most * 8.0).ceil() as usize).min(8)] } else { ' ' };
    let line = format!("{:>width$} {}", shown(most), values.iter().map(bar).collect::<String>(), width = GUTTER - 1);
    format!("{name}\n{}\n", line.trim_end())
}

/// The letters of marks below the columns that they are of; several in one are the last one.
fn marks_line(shown: &ShownActivity) -> String {
    let mut line = vec![' '; shown.steps.len()];
    for mark in &shown.marks {
        let at = (mark.unix_ms / 1000).saturating_sub(shown.from_unix_s) / shown.step_s.max(1);
        if let Some(place) = usize::try_from(at).ok().and_then(|at| line.get_mut(at)) {
            *place = mark.kind.letter_and_word().0;
        }
    }
    let line: String = line.into_iter().collect();
    if line.trim().is_empty() {
        String::new()
    } else {
        format!("{:>width$} {}\n", "marks", line.trim_end(), width = GUTTER - 1)
    }
}

/// Times below the columns.
fn axis(shown: &ShownActivity) -> String {
    let mut line = " ".repeat(GUTTER);
    for (at, figures) in shown.steps.iter().enumerate().step_by(TICK) {
        let text = clock(figures.begin_unix_s, shown);
        if at + text.len() <= shown.steps.len() {
            let _ = write!(line, "{text:<TICK$}");
        }
    }
    line.trim_end().to_owned() + "\n"
}

/// The time (UTC), with the day where more than one is shown.
fn clock(unix_s: u64, shown: &ShownActivity) -> String {
    let is_long = shown.to_unix_s.saturating_sub(shown.from_unix_s) > 20 * 3600;
    let seconds = i64::try_from(unix_s).unwrap_or(i64::MAX);
    let Some(time) = DateTime::from_timestamp(seconds, 0) else { return String::new() };
    time.format(if is_long { "%m-%d %H:%M" } else { "%H:%M" }).to_string()
}

fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        _ if seconds.is_multiple_of(3600) => format!("{} h", seconds / 3600),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

fn number(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        ..10.0 => format!("{value:.1}"),
        ..1e6 => count(value.round() as u64),
        _ => format!("{:.1} M", value / 1e6),
    }
}

fn bytes(value: f64) -> String {
    weir_report::bytes(value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_server::{Mark, MarkKind};

    fn shown() -> ShownActivity {
        let step = |number: u64| Figures {
            begin_unix_s: 1_800_000_000 + number * 60,
            up_s: 60,
            requests: number * 100,
            sent_bytes: number * 5000,
            timed: number,
            p99_us: 1500,
            ..Figures::default()
        };
        let words = "release \u{1b}[31m".to_owned();
        let mark = Mark { number: 1, unix_ms: 1_800_000_130_000, kind: MarkKind::Deploy, words };
        let (from_unix_s, to_unix_s) = (1_800_000_000, 1_800_001_200);
        let steps = (0..20).map(step).collect();
        ShownActivity { from_unix_s, to_unix_s, step_s: 60, steps, marks: vec![mark], torn_records: 0 }
    }

    #[test]
    fn the_picture_has_bars_marks_and_times() {
        let text = picture(&shown(), 1);
        assert!(text.contains("19,000 requests") && text.contains("1,900 "), "{text}");
        let marks = text.lines().find(|line| line.trim_start().starts_with("marks")).expect("marks");
        assert_eq!(marks.find('D'), Some(GUTTER + 2), "{marks}");
        assert!(text.contains("deploy: release \u{fffd}[31m") && !text.contains('\u{1b}'), "{text}");
        let bottom = text.lines().nth(2 + ROWS).expect("a row");
        assert!(bottom.contains('_') && bottom.ends_with('█'), "{bottom}");
        assert!(text.lines().skip(2).all(|line| line.chars().count() <= GUTTER + 60), "{text}");
    }

    #[test]
    fn the_table_has_a_row_for_each_step() {
        let text = table(&shown());
        assert_eq!(text.lines().count(), 21, "{text}");
        assert!(text.contains("deploy") && text.contains("1.50 ms"), "{text}");
    }
}
