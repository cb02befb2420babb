//! Whose fault the slow requests are, as far as the generator can say it of itself.

use serde_json::{Value, json};
use weir_load::{LoadReport, Slowest};
use weir_report::nanoseconds;

/// From this share of the slowest requests' time on the generator is named first.
const OWN_MOSTLY: f64 = 0.5;
/// From this share on it is named at all.
const OWN_PARTLY: f64 = 0.1;

/// Whose fault it is, in one sentence; nothing where no request succeeded.
pub(crate) fn words(report: &LoadReport) -> Option<String> {
    let slowest = report.slowest?;
    let time = |ns: f64| nanoseconds(ns).trim().to_owned();
    let unread = match slowest.unread_ns {
        Some(unread_ns) => format!("unread {} (within {})", time(unread_ns), time(slowest.tick_ns as f64)),
        None => "unread unknown".to_owned(),
    };
    let known = match slowest.known {
        known if known < slowest.requests => format!("; known of {known} of {}", slowest.requests),
        _ => String::new(),
    };
    Some(format!(
        "{}: {:.1} % of the slowest 1 % ({}) is the generator's own: late {}, {unread}{known}",
        culprit(report, &slowest),
        slowest.own_share() * 100.0,
        time(slowest.latency_ns),
        time(slowest.late_ns),
    ))
}

/// Who took most of the slowest requests' time.
fn culprit(report: &LoadReport, slowest: &Slowest) -> &'static str {
    let share = slowest.own_share();
    if share < OWN_MOSTLY && slowest.unread_ns.is_none() && report.generator.bottleneck {
        return "not known, as the generator lacked CPU";
    }
    culprit_by_share(share)
}

/// Who took most of the time, where this share of it is the generator's own.
pub(crate) fn culprit_by_share(share: f64) -> &'static str {
    if share >= OWN_MOSTLY {
        "the generator"
    } else if share >= OWN_PARTLY {
        "the server or network, and the generator"
    } else {
        "the server or network"
    }
}

/// CPU time of the generator for each whole response and failure, in nanoseconds.
pub(super) fn cpu_ns_per_request(report: &LoadReport) -> f64 {
    report.generator.cpu_ns as f64 / (report.requests + report.failures()).max(1) as f64
}

/// The same for programs; null where no request succeeded.
pub(crate) fn as_json(report: &LoadReport) -> Value {
    report.slowest.map_or(Value::Null, |slowest| {
        json!({
            "culprit": culprit(report, &slowest),
            "requests": slowest.requests,
            "known": slowest.known,
            "latency_ns": slowest.latency_ns,
            "own_share": slowest.own_share(),
            "own_ns": slowest.own_ns(),
            "late_ns": slowest.late_ns,
            "unread_ns": slowest.unread_ns,
            "unread_known": slowest.unread_known,
            "tick_ns": slowest.tick_ns,
            "cpu_ns_per_request": cpu_ns_per_request(report),
        })
    })
}
