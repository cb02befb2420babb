//! A window as JSON.

use super::order::Order;
use super::screen::{per_second, remarks};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_record::live::{LiveWindow, ServerNow};

/// The window in one line, with its end.
pub(super) fn line(window: &LiveWindow, order: &Order, interval: Duration) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let cost = &window.cost;
    let told = json!({
        "schema": "weir-top/1",
        "version": weir_terminal::VERSION,
        "unix_s": now.as_secs_f64(),
        "interval_s": interval.as_secs_f64(),
        "watched_s": window.watched.as_secs_f64(),
        "ended_early": window.is_short,
        "rung": window.rung,
        "servers": order.of(window).into_iter().map(|one| server(one, window)).collect::<Vec<Value>>(),
        "other_responses": window.others,
        "hidden_sockets": window.hidden,
        "missed_intervals": window.missed,
        "observer_cost": {
            "cpu_share": cost.own_share(),
            "probes_cpu_share_max": cost.probes_share_max(),
            "events": cost.events,
            "lost": cost.lost,
        },
        "warnings": remarks(window),
    });
    format!("{told}\n")
}

fn server(one: &ServerNow, window: &LiveWindow) -> Value {
    let figures = &one.figures;
    let time = |which: fn(&weir_measure::summary::Summary) -> u64| figures.response_ns.as_ref().map(which);
    json!({
        "name": one.listener.program,
        "pid": one.listener.root,
        "ports": one.listener.ports(),
        "processes": one.listener.pids.len(),
        "responses": figures.responses(),
        "rate_per_s": per_second(figures.responses(), window),
        "p50_ns": time(|summary| summary.p50),
        "p99_ns": time(|summary| summary.p99),
        "max_ns": time(|summary| summary.max),
        "unanswered": figures.unanswered,
        "status_5xx": (figures.with_status > 0).then_some(figures.failed),
        "cut": figures.cut,
        "unjoinable": figures.unjoinable,
        "causes": figures.causes,
    })
}
