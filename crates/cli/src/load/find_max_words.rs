//! What a search for the highest rate found: for people, programs and pages.

use super::blocks::{blocks, top};
use super::found::{Answer, Found};
use super::screen::Colours;
use serde_json::{Value, json};
use std::fmt::Write;
use weir_measure::objective::Objective;
use weir_report::nanoseconds;
use weir_report::{Loaded, LoadedRate, count as grouped};

/// A rate with as many digits as tell something.
fn rate(per_s: f64) -> String {
    if per_s < 100.0 { format!("{per_s:.1}/s") } else { format!("{}/s", grouped(per_s.round() as u64)) }
}

/// The answer in a sentence.
fn sentence(found: &Found) -> String {
    match found.answer() {
        Answer::Found { rate_per_s, low_per_s, high_per_s } => format!(
            "{} is the highest rate that holds {} (95 %: {} to {})",
            rate(rate_per_s),
            found.slo,
            rate(low_per_s),
            rate(high_per_s)
        ),
        Answer::AtLeast(held) => format!(
            "{} was held at {}; the generator was the bottleneck beyond, so that the highest rate of the server is not \
             known",
            found.slo,
            rate(held)
        ),
        Answer::Above(tried) => format!("{} was still held at {}, the highest rate tried", found.slo, rate(tried)),
        Answer::Below(tried) => format!("{} was missed even at {}, the lowest rate tried", found.slo, rate(tried)),
        Answer::Unknown if found.generator_limited => {
            "nothing is known of the server: the generator was the bottleneck even at the lowest rate".to_owned()
        }
        Answer::Unknown => "nothing is known: no trial was over".to_owned(),
    }
}

/// How it was searched, in words.
fn manner(found: &Found) -> String {
    let ended = found.ended.map_or(String::new(), |why| format!("; {why}"));
    format!(
        "open Poisson loop, {} trials of {:.1} s in {:.0} s, up to {} connections{ended}",
        found.trials,
        found.times.trial.as_secs_f64(),
        found.duration.as_secs_f64(),
        found.connections
    )
}

/// The report for people.
pub(super) fn text(found: &Found, colours: Colours) -> String {
    let mut text = format!("{}\n{}\n\n  {}\n", colours.bold(&found.url), manner(found), colours.bold(&sentence(found)));
    // Writing to a string cannot fail.
    let _ = write_rest(&mut text, found, colours);
    text
}

fn write_rest(text: &mut String, found: &Found, colours: Colours) -> std::fmt::Result {
    if let Some(knee) = found.knee_per_s {
        writeln!(text, "  the curve bends at about {}: beyond, p99 rises steeply", rate(knee))?;
    }
    if !found.rates.is_empty() {
        writeln!(
            text,
            "\n  {:>12}{:>12}{:>10}{:>11}{:>11}{:>10}{:>8}",
            "wanted", "answered", "success", "p50", "p99", "missed", "trials"
        )?;
    }
    for at in &found.rates {
        let time = |ns: u64| if ns == 0 { "-".to_owned() } else { nanoseconds(ns as f64) };
        let line = format!(
            "  {:>12}{:>12}{:>8.2} %{:>11}{:>11}{:>8.2} %{:>8}{}",
            rate(at.rate_per_s),
            rate(at.achieved_per_s),
            at.success_rate() * 100.0,
            time(at.p50_ns),
            time(at.p99_ns),
            at.bad_share * 100.0,
            at.trials,
            others(at)
        );
        writeln!(text, "{}", if at.bad_share > found.objective.allowed() { colours.bad(&line) } else { line })?;
    }
    if !found.rates.is_empty() {
        writeln!(
            text,
            "  p50 and p99 are of successes ({}); answered are all responses; statuses are of whole trials",
            found.expected
        )?;
    }
    let times: Vec<_> = found.rates.iter().map(|at| (at.p99_ns > 0).then(|| (at.p99_ns as f64).ln())).collect();
    if times.len() > 2 {
        // By its logarithm: the largest would leave nothing of the others.
        let least = times.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        let above: Vec<_> = times.iter().map(|time| time.map(|time| time - least)).collect();
        writeln!(text, "\n  p99 against rate, logarithmic\n  {}", blocks(&above, top(&above)))?;
    }
    for warning in &found.warnings {
        writeln!(text, "  {} {warning}", colours.doubtful("warning:"))?;
    }
    Ok(())
}

/// Statuses and errors at a rate where not all succeeded.
fn others(at: &LoadedRate) -> String {
    if at.successes == at.requests {
        return String::new();
    }
    let items = at.status.iter().chain(&at.errors).map(|(name, count)| format!("{name}: {}", grouped(*count)));
    format!("  {}", items.collect::<Vec<_>>().join(", "))
}

/// The report for programs.
pub(super) fn json(found: &Found) -> Value {
    let highest = match found.answer() {
        Answer::Found { rate_per_s, low_per_s, high_per_s } => {
            json!({ "is": "found", "rate_per_s": rate_per_s, "low_per_s": low_per_s, "high_per_s": high_per_s })
        }
        Answer::AtLeast(rate) => json!({ "is": "at_least", "rate_per_s": rate }),
        Answer::Above(rate) => json!({ "is": "above", "rate_per_s": rate }),
        Answer::Below(rate) => json!({ "is": "below", "rate_per_s": rate }),
        Answer::Unknown => json!({ "is": "unknown" }),
    };
    let counts = |counts: &[(String, u64)]| Value::from_iter(counts.iter().cloned());
    // Where nothing succeeded there is no time of a success.
    let known = |ns: u64| (ns > 0).then_some(ns);
    let rates: Vec<_> = found
        .rates
        .iter()
        .map(|at| {
            json!({
                "rate_wanted_per_s": at.rate_per_s,
                "rate_per_s": at.achieved_per_s,
                "successes_per_s": at.successes_per_s,
                "requests": at.requests,
                "successes": at.successes,
                "success_rate": at.success_rate(),
                "status": counts(&at.status),
                "errors": counts(&at.errors),
                "p50_ns": known(at.p50_ns),
                "p99_ns": known(at.p99_ns),
                "missed_share": at.bad_share,
                "trials": at.trials,
            })
        })
        .collect();
    json!({
        "schema": "weir-find-max/1",
        "version": weir_terminal::VERSION,
        "url": found.url,
        "objective": found.slo,
        "ok": found.expected.to_string(),
        "highest": highest,
        "confidence": 0.95,
        "knee_per_s": found.knee_per_s,
        "generator_limited": found.generator_limited,
        "trials_again": found.again,
        "trials": found.trials,
        "trial_s": found.times.trial.as_secs_f64(),
        "duration_s": found.duration.as_secs_f64(),
        "ended_early": found.ended,
        "rates": rates,
        "warnings": found.warnings,
    })
}

/// The curve, a line for each rate.
pub(super) fn csv(found: &Found) -> String {
    let mut text = String::from(
        "rate_wanted_per_s,rate_per_s,p50_ms,p99_ms,missed_percent,trials,successes_per_s,success_percent\n",
    );
    let time_ms = |ns: u64| if ns == 0 { String::new() } else { format!("{:.6}", ns as f64 / 1e6) };
    for at in &found.rates {
        text.push_str(&format!(
            "{:.3},{:.3},{},{},{:.4},{},{:.3},{:.4}\n",
            at.rate_per_s,
            at.achieved_per_s,
            time_ms(at.p50_ns),
            time_ms(at.p99_ns),
            at.bad_share * 100.0,
            at.trials,
            at.successes_per_s,
            at.success_rate() * 100.0
        ));
    }
    text
}

/// What the page shows.
pub(super) fn page(found: &Found) -> Loaded {
    let duration_s = found.duration.as_secs_f64();
    let bend = found.knee_per_s.map_or(String::new(), |knee| format!("; the curve bends at about {}", rate(knee)));
    Loaded {
        subject: found.url.clone(),
        manner: manner(found),
        interrupted: found.ended.is_some(),
        duration_s,
        requests: found.requests,
        successes: found.rates.iter().map(|at| at.successes).sum(),
        rate_per_s: found.requests as f64 / duration_s.max(1e-9),
        rates: found.rates.clone(),
        answer: Some(format!("{}{bend}.", sentence(found))),
        found: match found.answer() {
            Answer::Found { rate_per_s, low_per_s, high_per_s } => Some((rate_per_s, low_per_s, high_per_s)),
            _ => None,
        },
        limit_ns: match found.objective {
            Objective::Latency { limit_ns, .. } => Some(limit_ns),
            Objective::Errors { .. } => None,
        },
        generator: if found.generator_limited { "it was the bottleneck" } else { "it was not the limit" }.to_owned(),
        warnings: found.warnings.clone(),
        ..Loaded::default()
    }
}
