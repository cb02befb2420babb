//! How figures went over the results of a history.

use super::compare_pieces::beside;
use super::escape::{escaped, unbroken};
use super::plot::{Axis, Line, Plot};
use super::tables::values;
use super::ticks::tick;
use crate::compared::{Compared, ComparedSeries};

/// The latest results of a plot.
const MOST_POINTS: usize = 400;

/// The section; nothing where there is no history.
pub(super) fn section(compared: &Compared) -> String {
    if compared.history_words.is_empty() {
        return String::new();
    }
    // What has shifted for the worse comes first, then what has shifted.
    let mut series: Vec<&ComparedSeries> = compared.history.iter().filter(|series| series.points.len() > 1).collect();
    series.sort_by_key(|series| match series.is_worse {
        Some(true) => 0,
        Some(false) => 1,
        None => 2,
    });
    let drawn: Vec<String> =
        series.into_iter().enumerate().map(|(number, series)| plot(series, &format!("history-{number}"))).collect();
    let words: String = compared.history_words.iter().map(|words| format!("<li>{}</li>", escaped(words))).collect();
    format!(
        "<section aria-labelledby=\"history-h\"><h2 id=\"history-h\">Since earlier results</h2>\
         <div class=\"card figure\"><ul class=\"told-history\">{words}</ul></div>{}</section>\n",
        beside(&drawn)
    )
}

fn plot(series: &ComparedSeries, id: &str) -> String {
    let from = series.points.len().saturating_sub(MOST_POINTS);
    let points = || series.points.iter().enumerate().skip(from).map(|(index, point)| ((index + 1) as f64, point));
    let values_of = || points().flat_map(|(_, point)| [point.value, point.level]);
    let y = if series.is_ratio {
        let (least, most) =
            values_of().fold((1.0_f64, 1.0_f64), |(least, most), value| (least.min(value), most.max(value)));
        Axis::ratios(least, most)
    } else {
        Axis::fitting(values_of(), tick)
    };
    // A level ends where the next one begins, without a line between them.
    let mut levels: Vec<(f64, Option<f64>)> = Vec::new();
    for (at, point) in points() {
        if point.begins {
            levels.push((at - 0.5, None));
        }
        levels.extend([(at - 0.4, Some(point.level)), (at + 0.4, Some(point.level))]);
    }
    let since = points().filter(|(_, point)| point.begins).map(|(at, _)| at).next_back();
    let markup = Plot {
        id,
        label: &format!("{} over results", series.name),
        x: Axis::numbers(series.points.len()),
        y,
        x_name: "result, from the oldest",
        lines: vec![
            Line {
                name: "result".to_owned(),
                look: "l0",
                points: points().map(|(at, point)| (at, Some(point.value))).collect(),
                dots: series.points.len() - from <= MOST_POINTS / 2,
            },
            Line { name: "level: the median between two shifts".to_owned(), look: "l5", points: levels, dots: false },
        ],
        band: since.map(|at| (at - 0.5, series.points.len() as f64 + 0.5)),
        levels: Vec::new(),
        limit: None,
        hints: points().map(|(at, point)| (at, format!("{}: {}", point.label, point.shown))).collect(),
    }
    .markup();
    let rows = points().map(|(at, point)| {
        let begins = if point.begins { "a new level begins" } else { "" };
        vec![format!("{at:.0}"), escaped(&point.label), unbroken(&point.shown), begins.to_owned()]
    });
    let table = values(&series.name, &["result", "when", "value", "shift"], rows);
    format!(
        "<div class=\"card figure\"><h4>{}</h4><p class=\"note\">{}</p>{markup}{table}</div>",
        escaped(&series.name),
        escaped(&series.words)
    )
}
