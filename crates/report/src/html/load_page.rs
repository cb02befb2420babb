//! The page of a load: what its users felt, over time, spread, and against the rate.

use super::escape::{escaped, time};
use super::evidence::key_figure;
use super::plot::{Axis, Line, Plot};
use super::tables::values;
use super::ticks::tick;
use crate::loaded::{Loaded, LoadedPoint};
use crate::units::{bytes, count, decimal, figure, nanoseconds, percent};
use weir_measure::summary::Summary;

const STYLE: &str = concat!(include_str!("style.css"), include_str!("plot.css"));
const SCRIPT: &str = include_str!("plot.js");

/// A latency of a point, with its name and look.
type Shown = (&'static str, &'static str, fn(&Summary) -> u64);
/// The percentiles that are drawn over time.
const SHOWN: [Shown; 5] = [
    ("p50", "l0", |summary| summary.p50),
    ("p90", "l1", |summary| summary.p90),
    ("p99", "l2", |summary| summary.p99),
    ("p99.9", "l3", |summary| summary.p99_9),
    ("max", "l4", |summary| summary.max),
];

/// The whole document.
pub(super) fn page(loaded: &Loaded) -> String {
    let subject = escaped(&loaded.subject);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
         <title>{subject} loaded - weir</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header><p class=\"subject\">{}<span class=\"name\">{subject}</span></p><h1>{}</h1>\n{}{}</header>\n\
         <main>\n{}{}{}{}{}{}</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        super::page::LOGO,
        escaped(&headline(loaded)),
        figures(loaded),
        warnings(loaded),
        against_rate(loaded),
        over_time(loaded),
        curve(loaded),
        spread(loaded),
        failures_over_time(loaded),
        evidence(loaded),
    )
}

fn headline(loaded: &Loaded) -> String {
    if let Some(answer) = &loaded.answer {
        return answer.clone();
    }
    let Some(latency) = loaded.latency else { return "No request succeeded.".to_owned() };
    let objective = loaded.objective.as_ref().map_or(String::new(), |(words, _)| format!(" Objective {words}."));
    let share = match loaded.success_rate {
        Some(share) if share < 1.0 => format!(" ({} of the requests)", percent(share)),
        _ => String::new(),
    };
    format!(
        "{} successes a second{share}; half of them were answered within {}, 99 of 100 within {}.{objective}",
        figure(loaded.successes_per_s),
        nanoseconds(latency.p50 as f64),
        nanoseconds(latency.p99 as f64)
    )
}

fn failed(loaded: &Loaded) -> u64 {
    loaded.errors.iter().map(|(_, count)| count).sum()
}

fn figures(loaded: &Loaded) -> String {
    let whole = format!("{} requests in {}&nbsp;s", count(loaded.requests), decimal(loaded.duration_s, 1));
    let mut figures = Vec::new();
    if let Some(share) = loaded.success_rate {
        let successes = format!("{} of them, {}/s", count(loaded.successes), figure(loaded.successes_per_s));
        figures.push(key_figure("Success", &escaped(&percent(share)), &successes));
    }
    figures.push(key_figure("Throughput", &format!("{}/s", figure(loaded.rate_per_s)), &whole));
    if let Some(latency) = &loaded.latency {
        for (name, _, of) in SHOWN {
            figures.push(key_figure(name, &nanoseconds(of(latency) as f64), ""));
        }
    }
    let errors = failed(loaded);
    let unexpected = loaded.requests.saturating_sub(loaded.successes);
    if loaded.success_rate.is_some() {
        figures.push(key_figure("No success", &count(unexpected), "whole responses"));
    }
    let share = if errors > 0 { percent(errors as f64 / (errors + loaded.requests) as f64) } else { String::new() };
    figures.push(key_figure("Errors", &count(errors), &escaped(&share)));
    if loaded.dropped > 0 {
        figures.push(key_figure("Dropped", &count(loaded.dropped), "arrivals without room"));
    }
    if loaded.bytes > 0 {
        figures.push(key_figure("Received", &bytes(loaded.bytes), &format!("{}/s", bytes(loaded.bytes_per_s as u64))));
    }
    format!("<dl class=\"figures\">{}</dl>\n", figures.concat())
}

fn warnings(loaded: &Loaded) -> String {
    if loaded.warnings.is_empty() {
        return String::new();
    }
    let items: String = loaded.warnings.iter().map(|warning| format!("<li>{}</li>", escaped(warning))).collect();
    format!(
        "<aside class=\"warnings\" aria-label=\"Warnings\"><h2>Before trusting the figures</h2><ul>{items}</ul></aside>\n"
    )
}

/// A section with a heading around what it shows.
fn section(id: &str, title: &str, body: &str) -> String {
    format!(
        "<section aria-labelledby=\"{id}-h\"><h2 id=\"{id}-h\">{title}</h2><div class=\"card figure\">{body}</div></section>\n"
    )
}

fn middle(point: &LoadedPoint) -> f64 {
    point.begin_s + point.length_s / 2.0
}

fn seconds(at: f64) -> String {
    // Round ticks have no more than two decimals that tell something.
    let text = format!("{at:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn time_axis(loaded: &Loaded) -> Axis {
    Axis::linear(loaded.points.last().map_or(1.0, |point| point.begin_s + point.length_s), seconds)
}

fn over_time(loaded: &Loaded) -> String {
    if loaded.points.len() < 2 {
        return String::new();
    }
    let latency = latency_plot(loaded).markup() + &time_series(loaded);
    section("over-time", "Latency over time", &latency)
        + &section("throughput", "Responses a second over time", &rate_plot(loaded).markup())
}

fn rate(point: &LoadedPoint) -> f64 {
    point.requests as f64 / point.length_s
}

/// What a pointer shows at a point.
fn hint(point: &LoadedPoint) -> (f64, String) {
    let times = point.latency.map_or("nothing was answered".to_owned(), |latency| {
        SHOWN.map(|(name, _, of)| format!("{name} {}", nanoseconds(of(&latency) as f64))).join(", ")
    });
    (middle(point), format!("{} s: {}/s; {times}", seconds(point.begin_s), figure(rate(point))))
}

fn latency_plot(loaded: &Loaded) -> Plot<'_> {
    let latencies = loaded.points.iter().filter_map(|point| point.latency);
    let lines = SHOWN
        .into_iter()
        .map(|(name, look, of)| {
            let value = |point: &LoadedPoint| (middle(point), point.latency.map(|latency| of(&latency) as f64));
            Line { name: name.to_owned(), look, points: loaded.points.iter().map(value).collect(), dots: false }
        })
        .collect();
    Plot {
        id: "latency",
        label: "Latency over time",
        x: time_axis(loaded),
        y: Axis::fitting(latencies.flat_map(|latency| [latency.p50 as f64, latency.max as f64]), tick),
        x_name: "seconds from the start",
        lines,
        band: None,
        levels: Vec::new(),
        limit: loaded.limit_ns.map(|limit| limit as f64),
        hints: loaded.points.iter().map(hint).collect(),
    }
}

fn rate_plot(loaded: &Loaded) -> Plot<'_> {
    let rates = loaded.points.iter().map(|point| (middle(point), Some(rate(point)))).collect();
    Plot {
        id: "rate",
        label: "Responses a second over time",
        x: time_axis(loaded),
        y: Axis::linear(loaded.points.iter().map(rate).fold(0.0, f64::max), |at| format!("{}/s", figure(at))),
        x_name: "seconds from the start",
        lines: vec![Line { name: "responses a second".to_owned(), look: "l5", points: rates, dots: false }],
        band: None,
        levels: Vec::new(),
        limit: None,
        hints: loaded.points.iter().map(hint).collect(),
    }
}

/// The table of what the plots show.
fn time_series(loaded: &Loaded) -> String {
    let rows = loaded.points.iter().map(|point| {
        let mut row = vec![
            decimal(point.begin_s, 2),
            count(point.requests),
            figure(rate(point)),
            count(point.unexpected),
            count(point.failures),
            count(point.dropped),
        ];
        row.extend(SHOWN.map(|(_, _, of)| point.latency.map_or("-".to_owned(), |latency| time(of(&latency) as f64))));
        row
    });
    let columns =
        ["from (s)", "requests", "a second", "no success", "errors", "dropped", "p50", "p90", "p99", "p99.9", "max"];
    values("The time series", &columns, rows)
}

fn curve(loaded: &Loaded) -> String {
    if loaded.curve.len() < 2 {
        return String::new();
    }
    let slower = |share: f64| 1.0 / share.max(1e-12);
    let most = loaded.curve.iter().map(|(share, _)| slower(*share)).fold(2.0, f64::max);
    let name = |at: f64| match at {
        at if at <= 1.5 => "0 %".to_owned(),
        // 10 is 90 %, 100 is 99 %, and so on.
        at => {
            let decimals = (at.log10().round() as usize).saturating_sub(2);
            format!("{:.decimals$} %", 100.0 * (1.0 - 1.0 / at))
        }
    };
    let points: Vec<_> = loaded.curve.iter().map(|(share, ns)| (slower(*share), Some(*ns as f64))).collect();
    let percentile = |share: f64| {
        let decimals = ((1.0 / share.max(1e-12)).log10().ceil() as usize).saturating_sub(1).max(1);
        format!("{:.decimals$} %", 100.0 * (1.0 - share))
    };
    let hints = loaded
        .curve
        .iter()
        .map(|(share, ns)| (slower(*share), format!("{} within {}", percentile(*share), nanoseconds(*ns as f64))));
    let plot = Plot {
        id: "curve",
        label: "Percentiles of latency",
        x: Axis::decades(1.0, most, name),
        y: Axis::fitting(loaded.curve.iter().map(|(_, ns)| *ns as f64), tick),
        x_name: "share of the requests that were answered within the time",
        lines: vec![Line { name: "latency".to_owned(), look: "l2", points, dots: false }],
        band: None,
        levels: Vec::new(),
        limit: loaded.limit_ns.map(|limit| limit as f64),
        hints: hints.collect(),
    };
    let rows = loaded.curve.iter().map(|(share, ns)| vec![escaped(&percentile(*share)), time(*ns as f64)]);
    section("curve", "Percentiles", &(plot.markup() + &values("Percentiles", &["answered", "within"], rows)))
}

fn spread(loaded: &Loaded) -> String {
    let most = loaded.spread.iter().map(|(_, _, count)| *count).max().unwrap_or(0);
    if most == 0 {
        return String::new();
    }
    let whole: u64 = loaded.spread.iter().map(|(_, _, count)| count).sum();
    let bars: String = loaded
        .spread
        .iter()
        .map(|(from, to, requests)| {
            let height = super::escape::extent(*requests as f64 / most as f64);
            let (from, to) = (nanoseconds(*from as f64), nanoseconds(*to as f64));
            let hint =
                format!("{from} to {to}: {} requests, {}", count(*requests), percent(*requests as f64 / whole as f64));
            let none = if *requests == 0 { " data-none" } else { "" };
            format!("<span{none} style=\"height:{height}\" title=\"{}\"></span>", escaped(&hint))
        })
        .collect();
    let named = |index: usize, place: &str| {
        let edge = loaded.spread.get(index).map_or(0, |(from, to, _)| if index == 0 { *from } else { *to });
        format!("<i style=\"{place}\">{}</i>", escaped(&tick(edge as f64)))
    };
    let (middle, last) = ((loaded.spread.len() - 1) / 2, loaded.spread.len() - 1);
    let names =
        [named(0, "left:0"), named(middle, "left:50%;transform:translateX(-50%)"), named(last, "right:0")].concat();
    let rows = loaded.spread.iter().filter(|(_, _, requests)| *requests > 0).map(|(from, to, requests)| {
        let share = escaped(&percent(*requests as f64 / whole as f64));
        vec![time(*from as f64), time(*to as f64), count(*requests), share]
    });
    let body = format!(
        "<div class=\"hist\" role=\"img\" aria-label=\"Histogram of latencies; its values stand in the table below\">{bars}{names}</div>\
         <p class=\"x-name\">latency, in ranges of equal ratio</p>{}",
        values("Histogram of latencies", &["from", "to", "requests", "share"], rows)
    );
    section("spread", "How latencies are spread", &body)
}

fn failures_over_time(loaded: &Loaded) -> String {
    let largest = |point: &LoadedPoint| point.failures.max(point.dropped).max(point.unexpected);
    let most = loaded.points.iter().map(largest).max().unwrap_or(0);
    if most == 0 || loaded.points.len() < 2 {
        return String::new();
    }
    let line = |name: &str, look, of: fn(&LoadedPoint) -> u64| {
        let points = loaded.points.iter().map(|point| (middle(point), Some(of(point) as f64))).collect();
        Line { name: name.to_owned(), look, points, dots: false }
    };
    let hint = |point: &LoadedPoint| {
        let text = format!(
            "{} s: {} no success, {} errors, {} dropped",
            seconds(point.begin_s),
            count(point.unexpected),
            count(point.failures),
            count(point.dropped)
        );
        (middle(point), text)
    };
    let plot = Plot {
        id: "errors",
        label: "Errors over time",
        x: time_axis(loaded),
        y: Axis::linear(most as f64, figure),
        x_name: "seconds from the start",
        lines: vec![
            line("no success", "l0", |point| point.unexpected),
            line("errors", "l2", |point| point.failures),
            line("dropped arrivals", "l4", |point| point.dropped),
        ],
        band: None,
        levels: Vec::new(),
        limit: None,
        hints: loaded.points.iter().map(hint).collect(),
    };
    section("failures", "Errors over time", &plot.markup())
}

fn against_rate(loaded: &Loaded) -> String {
    if loaded.rates.len() < 2 {
        return String::new();
    }
    let line = |name: &str, look, of: fn(&crate::LoadedRate) -> u64| {
        let value = |rate: &crate::LoadedRate| (rate.rate_per_s, Some(of(rate) as f64).filter(|ns| *ns > 0.0));
        Line { name: name.to_owned(), look, points: loaded.rates.iter().map(value).collect(), dots: true }
    };
    let times = loaded.rates.iter().flat_map(|rate| [rate.p50_ns as f64, rate.p99_ns as f64]);
    let most = loaded.rates.iter().map(|rate| rate.rate_per_s).fold(0.0, f64::max);
    let least = loaded.rates.iter().map(|rate| rate.rate_per_s).fold(f64::INFINITY, f64::min);
    let rate_name = |at: f64| format!("{}/s", figure(at));
    let axis =
        || if most > 20.0 * least { Axis::decades(least, most, rate_name) } else { Axis::linear(most, rate_name) };
    let hint = |rate: &crate::LoadedRate| {
        let text = format!(
            "{} wanted, {} answered a second, {} of them successes: p50 {}, p99 {}, {} missed the objective",
            figure(rate.rate_per_s),
            figure(rate.achieved_per_s),
            figure(rate.successes_per_s),
            nanoseconds(rate.p50_ns as f64),
            nanoseconds(rate.p99_ns as f64),
            percent(rate.bad_share)
        );
        (rate.rate_per_s, text)
    };
    let plot = Plot {
        id: "against-rate",
        label: "Latency against rate",
        x: axis(),
        y: Axis::fitting(times, tick),
        x_name: "arrivals a second",
        lines: vec![line("p50", "l0", |rate| rate.p50_ns), line("p99", "l2", |rate| rate.p99_ns)],
        band: loaded.found.map(|(_, low, high)| (low, high)),
        levels: Vec::new(),
        limit: loaded.limit_ns.map(|limit| limit as f64),
        hints: loaded.rates.iter().map(hint).collect(),
    };
    // Where nothing succeeded there is no time of a success.
    let known = |ns: u64| if ns == 0 { "-".to_owned() } else { time(ns as f64) };
    let rows = loaded.rates.iter().map(|rate| {
        vec![
            figure(rate.rate_per_s),
            figure(rate.achieved_per_s),
            escaped(&percent(rate.success_rate())),
            known(rate.p50_ns),
            known(rate.p99_ns),
            escaped(&percent(rate.bad_share)),
            count(u64::from(rate.trials)),
            escaped(&list(&rate.status)),
            escaped(&list(&rate.errors)),
        ]
    });
    let columns = ["wanted a second", "answered", "success", "p50", "p99", "missed", "trials", "statuses", "errors"];
    let note = match (loaded.found, loaded.limit_ns) {
        (Some(_), Some(_)) => {
            "<p class=\"note\">The dashed line is the objective's limit; the band is where the rate lies that just holds it.</p>"
        }
        (Some(_), None) => "<p class=\"note\">The band is where the rate lies that just holds the objective.</p>",
        _ => "",
    };
    section("rates", "Latency against rate", &(plot.markup() + note + &values("Rates", &columns, rows)))
}

/// Counts by name.
fn list(items: &[(String, u64)]) -> String {
    let items: Vec<_> = items.iter().map(|(name, times)| format!("{name}: {}", count(*times))).collect();
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}

/// Times that are none of successes, in words; nothing where there is none.
fn of_others(times: Option<Summary>) -> String {
    let Some(times) = times else { return String::new() };
    let [p50, p99, max] = [times.p50, times.p99, times.max].map(|ns| nanoseconds(ns as f64));
    format!("{} of them: p50 {p50}, p99 {p99}, max {max}", count(times.count))
}

fn evidence(loaded: &Loaded) -> String {
    let took = loaded.took_s.map_or(String::new(), |took_s| {
        format!("; it took {} s until nothing was under way any more", decimal(took_s, 2))
    });
    let ended = if loaded.interrupted { "; ended by the user" } else { "" };
    let rows: String = [
        ("How it was loaded", format!("{}{ended}{took}", loaded.manner)),
        ("Status", list(&loaded.status)),
        ("Success is", format!("a whole response with a status of {}", loaded.expected)),
        ("Errors", list(&loaded.errors)),
        ("Times of what is no success", of_others(loaded.latency_unexpected)),
        ("Times until requests failed", of_others(loaded.latency_failed)),
        ("Objective", loaded.objective.as_ref().map_or(String::new(), |(words, _)| words.clone())),
        ("Generator", loaded.generator.clone()),
        ("At fault for the slowest", loaded.at_fault.clone()),
        ("Streams", loaded.streams.clone()),
        ("Slowest traces", loaded.slow_traces.join("; ")),
        (
            "Latency counts",
            "from the intended time of a request to the last byte of its response; it is that of successes".to_owned(),
        ),
    ]
    .iter()
    // A search tells statuses by rate.
    .filter(|(name, text)| !text.is_empty() && (!["Status", "Errors"].contains(name) || loaded.answer.is_none()))
    .map(|(name, text)| format!("<div><dt>{name}</dt><dd>{}</dd></div>", escaped(text)))
    .collect();
    format!(
        "<section aria-labelledby=\"evidence-h\"><h2 id=\"evidence-h\">What this rests on</h2><dl class=\"card evidence\">{rows}</dl></section>\n"
    )
}
