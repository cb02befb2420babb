//! Service times: as given, or as runs of weir measured them.

use super::options::Options;
use anyhow::{Context, bail};
use serde_json::Value;
use std::path::Path;
use weir_plan::{Measured, Service};
use weir_report::nanoseconds;
use weir_terminal::text_file;

/// The largest report that is read, in bytes.
const REPORT_BYTES_MAX: u64 = 256 << 20;

/// A run with more than this share of error responses does not measure the site's own work.
const ERRORS_SHARE_MAX: f64 = 0.01;

/// The service times, and where they come from.
pub(super) fn of(options: &Options) -> anyhow::Result<(Service, String)> {
    let (mut service, origin) = match options.service {
        Some(fixed) => {
            let per_byte_ns = options.bandwidth.map_or(0.0, |bytes_per_s| 1e9 / bytes_per_s);
            (Service::new(fixed.as_nanos() as f64, per_byte_ns), "given")
        }
        None => {
            let runs = options
                .measured
                .iter()
                .map(|file| run(file).with_context(|| format!("--measured: {}", file.display())));
            let runs = runs.collect::<anyhow::Result<Vec<_>>>()?;
            (Service::measured(&runs).context("--measured")?, "measured")
        }
    };
    if !service.per_byte_ns.is_finite() {
        bail!("--bandwidth: a rate is above 0");
    }
    for (kind, time) in &options.service_of {
        if service.of_kind_ns[*kind as usize].is_some() {
            bail!("--service-of: {} has two times; leave one of them out", kind.name());
        }
        service.of_kind_ns[*kind as usize] = Some(time.as_nanos() as f64);
    }
    service.variation = options.variation;
    let bytes =
        if service.per_byte_ns > 0.0 { format!(" and {:.3} ns a byte", service.per_byte_ns) } else { String::new() };
    let kinds: String = options
        .service_of
        .iter()
        .map(|(kind, time)| format!(", {} {}", kind.name(), nanoseconds(time.as_nanos() as f64)))
        .collect();
    let words = format!("{} a request{bytes}{kinds}, {origin}", nanoseconds(service.fixed_ns));
    Ok((service, words))
}

/// What a report tells: the latency of a load of one connection, in which nothing waits for another request, or the CPU
/// time of an explained server.
fn run(file: &Path) -> anyhow::Result<Measured> {
    let length = file.metadata().context("cannot read it")?.len();
    if length > REPORT_BYTES_MAX {
        bail!("it is larger than a report is");
    }
    let text = text_file::read(file, REPORT_BYTES_MAX)?;
    measured(&serde_json::from_str(&text).context("it is no JSON")?)
}

fn measured(report: &Value) -> anyhow::Result<Measured> {
    let number = |path: &str| report.pointer(path).and_then(Value::as_f64);
    let (Some(requests), Some(bytes)) = (number("/requests"), number("/bytes")) else {
        bail!("it is no report of weir load --json or weir explain --json");
    };
    if requests < 1.0 {
        bail!("no request was answered in it");
    }
    served(report)?;
    let mean_ns = match (number("/server_cpu/used_ns_per_request"), number("/latency_uncorrected_ns/mean")) {
        (Some(used_ns), _) if used_ns > 0.0 => used_ns,
        (None, Some(mean_ns)) => {
            let at_once = number("/connections").unwrap_or(1.0) * number("/streams").unwrap_or(1.0);
            if at_once != 1.0 {
                bail!("it had {at_once} requests at once, which waited for each other: load with -c 1");
            }
            mean_ns
        }
        _ => bail!("it tells no time of a request"),
    };
    Ok(Measured { requests: requests as u64, mean_ns, bytes: bytes / requests })
}

/// Refuses a run whose responses were errors: they take another time than what was asked for.
fn served(report: &Value) -> anyhow::Result<()> {
    let Some(statuses) = report.get("status").and_then(Value::as_object) else { return Ok(()) };
    let count = |is: fn(u16) -> bool| -> u64 {
        let of = statuses.iter().filter(|(status, _)| status.parse().is_ok_and(is));
        of.filter_map(|(_, count)| count.as_u64()).sum()
    };
    let (all, errors) = (count(|_| true), count(|status| status >= 400));
    if errors as f64 > ERRORS_SHARE_MAX * all as f64 {
        let most =
            statuses.iter().filter(|(status, _)| status.as_str() >= "400").max_by_key(|(_, count)| count.as_u64());
        let most = most.map_or("", |(status, _)| status);
        bail!(
            "{errors} of its {all} responses are errors (most of them {most}), which take another time than what the site \
             serves: load a URL that is answered with 200"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reports_tell_service_times() {
        let load = json!({"requests": 10, "bytes": 5000, "connections": 1, "streams": null, "latency_uncorrected_ns": {"mean": 7000.5}});
        assert_eq!(measured(&load).expect("a report"), Measured { requests: 10, mean_ns: 7000.5, bytes: 500.0 });
        let explained = json!({"requests": 10, "bytes": 5000, "server_cpu": {"used_ns_per_request": 300.0}});
        assert!((measured(&explained).expect("a report").mean_ns - 300.0).abs() < 1e-9);
        let said = |report: &Value| measured(report).expect_err("it is refused").to_string();
        let mut many = load.clone();
        many["connections"] = json!(10);
        assert!(said(&many).contains("-c 1"));
        let answered = |statuses: Value| {
            let mut report = load.clone();
            report["status"] = statuses;
            report
        };
        assert!(said(&answered(json!({"404": 10}))).contains("10 of its 10 responses are errors (most of them 404)"));
        assert!(said(&answered(json!({"200": 5, "503": 4, "404": 1}))).contains("503"));
        assert!(measured(&answered(json!({"200": 999, "304": 500, "404": 1}))).is_ok());
        assert!(said(&json!({})).contains("no report"));
        assert!(said(&json!({"requests": 0, "bytes": 0})).contains("no request"));
        assert!(said(&json!({"requests": 1, "bytes": 0})).contains("no time"));
    }
}
