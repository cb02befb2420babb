//! The environment in the text format of Prometheus.

use crate::environment::{Environment, ForecastNow, LinksOf, MethodNow, Shares, WaitNow};
use weir_exposition::{Families, Kind};

/// All families.
pub(crate) fn text(environment: &Environment) -> String {
    let mut out = Families::new();
    readings(&mut out, environment);
    forecasts(&mut out, environment);
    clients(&mut out, environment);
    dropped(&mut out, environment);
    controller(&mut out, environment);
    out.into_text()
}

/// Readings, waits and decisions.
fn readings(out: &mut Families, now: &Environment) {
    let name = "weir_reading";
    let help = "Readings that rules go by, of the node, the most asked atoms and the clients that ask for most.";
    out.begin(name, Kind::Gauge, help);
    for reading in &now.readings {
        let labels = [("resource", &*reading.resource), ("unit", &*reading.unit), ("of", &*reading.of)];
        out.sample(name, &labels, reading.value);
    }
    let mut waits = |name: &str, help: &str, value: fn(&WaitNow) -> f64| {
        let samples: Vec<(&str, f64)> = now.waits.iter().map(|wait| (&*wait.part, value(wait))).collect();
        out.by(name, Kind::Gauge, help, "part", &samples);
    };
    let help = "The mean wait of a request since the tick before, by part of a response.";
    waits("weir_wait_seconds", help, |wait| wait.wait_s);
    let help = "How many requests waited on average since the tick before, by part of a response.";
    waits("weir_waiting", help, |wait| wait.queue);
    let name = "weir_decisions_total";
    out.begin(name, Kind::Counter, "Decisions by rule and outcome.");
    for (rule, outcomes) in &now.decided {
        for (outcome, count) in outcomes {
            out.sample(name, &[("rule", rule), ("outcome", outcome)], *count as f64);
        }
    }
}

/// Forecasts, and how well each method makes them.
fn forecasts(out: &mut Families, now: &Environment) {
    let of = |forecast: &ForecastNow| forecast.atom.clone().unwrap_or_else(|| now.here.clone());
    let name = "weir_forecast";
    out.begin(name, Kind::Gauge, "Forecasts that rules go by, of nodes and of the most asked atoms.");
    for forecast in &now.forecasts {
        if let Some(value) = forecast.value {
            out.sample(name, &[("metric", &forecast.metric), ("of", &of(forecast))], value);
        }
    }
    let mut by_method = |name: &str, kind: Kind, help: &str, value: fn(&MethodNow) -> Option<f64>| {
        out.begin(name, kind, help);
        for forecast in &now.forecasts {
            let of = of(forecast);
            for method in &forecast.methods {
                let Some(value) = value(method) else { continue };
                let chosen = method.is_chosen.to_string();
                let of_method = [("method", &*method.method), ("chosen", &*chosen)];
                let labels = [[("metric", &*forecast.metric), ("of", &*of)], of_method].concat();
                out.sample(name, &labels, value);
            }
        }
    };
    let help = "Forecasts by each method, in the unit of the metric.";
    by_method("weir_forecast_by_method", Kind::Gauge, help, |method| method.value);
    let help = "How well each method fits the past (R2; 1 is all of it).";
    by_method("weir_forecast_fit", Kind::Gauge, help, |method| method.fit);
    let help = "The mean size of each method's errors so far.";
    by_method("weir_forecast_error", Kind::Gauge, help, |method| method.error);
    let help = "Forecasts whose time has come, by method.";
    by_method("weir_forecasts_judged_total", Kind::Counter, help, |method| Some(method.judged as f64));
}

/// What clients ask for, and what is expected of their links.
fn clients(out: &mut Families, now: &Environment) {
    let rates = now.popular.iter().filter_map(|one| Some((&*one.text, one.rate_per_s?)));
    let rates: Vec<(&str, f64)> = rates.collect();
    let help = "Requests a second for the most asked atoms.";
    out.by("weir_atom_requests_per_second", Kind::Gauge, help, "path", &rates);
    let places = [("address", &now.links.addresses), ("network", &now.links.networks)];
    let kept = places.map(|(of, links)| (of, links.kept as f64));
    let help = "Addresses and networks of which something is kept.";
    out.by("weir_link_expectations", Kind::Gauge, help, "of", &kept);
    let mut by_share = |name: &str, help: &str, shares: fn(&LinksOf) -> Option<Shares>| {
        out.begin(name, Kind::Gauge, help);
        for (of, links) in places {
            let Some(Shares { p10, p50, p90 }) = shares(links) else { continue };
            for (share, value) in [("0.1", p10), ("0.5", p50), ("0.9", p90)] {
                out.sample(name, &[("of", of), ("share", share)], value);
            }
        }
    };
    let help = "Bandwidths that are expected of clients: what such a share of them is not above.";
    by_share("weir_link_bandwidth_bits_per_second", help, |links| links.bandwidth_bps);
    let help = "Round trips that are expected of clients, likewise.";
    by_share("weir_link_rtt_seconds", help, |links| links.rtt_s);
}

/// What there was no room for, and what cannot be kept or told.
fn dropped(out: &mut Families, now: &Environment) {
    let dropped = &now.dropped;
    let reasons = [
        ("paths", dropped.loop_stats.paths),
        ("connections", dropped.loop_stats.connections),
        ("clients", dropped.loop_stats.clients),
        ("undecided", dropped.loop_stats.undecided),
        ("lines", dropped.lines),
        ("errands", dropped.persister_pipe),
        ("records", dropped.records),
        ("alerts", dropped.alerts),
        ("decisions", dropped.decisions),
        ("clients_evicted", dropped.evicted),
        ("atoms", now.passed_over.atoms_refused),
        ("sessions", now.passed_over.sessions_refused),
    ];
    let reasons = reasons.map(|(what, count)| (what, count as f64));
    let help = "What there was no room for, and what was not kept or told.";
    out.by("weir_adapt_dropped_total", Kind::Counter, help, "what", &reasons);
    let failing = ["recording", "environment", "webhook", "clerk"].map(|what| {
        let is_failing = dropped.failing.iter().any(|failing| failing.what == what);
        (what, u8::from(is_failing))
    });
    out.by("weir_adapt_failing", Kind::Gauge, "What cannot be kept or told at the moment.", "what", &failing);
}

/// The controller itself, and what the requests were.
fn controller(out: &mut Families, now: &Environment) {
    let help = "Requests refused because rules said so.";
    out.one("weir_adapt_refused_total", Kind::Counter, help, now.refused as f64);
    for (name, kind, help, value) in [
        ("weir_adapt_sessions", Kind::Gauge, "Sessions that the rules know.", now.work.sessions as f64),
        ("weir_adapt_clients", Kind::Gauge, "Clients that are followed one by one.", now.work.clients as f64),
        ("weir_adapt_atoms", Kind::Gauge, "Atoms that are followed one by one.", now.work.atoms as f64),
        ("weir_adapt_ticks_total", Kind::Counter, "Ticks of the controller.", now.work.ticks as f64),
    ] {
        out.one(name, kind, help, value);
    }
    let seconds = now.work.rules_us_last as f64 / 1e6;
    out.one("weir_adapt_rules_seconds", Kind::Gauge, "How long the last look at the rules took.", seconds);
    let is_refused = u8::from(now.policy.refused.is_some());
    out.one("weir_adapt_policy_refused", Kind::Gauge, "Whether the last policy was refused.", is_refused);
    let kinds = ["calm", "flash_crowd", "attack", "unclear"].map(|kind| (kind, u8::from(now.crowd.kind == kind)));
    out.by("weir_crowd", Kind::Gauge, "What the requests of the last interval were.", "kind", &kinds);
}
