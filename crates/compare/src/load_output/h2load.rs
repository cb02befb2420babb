//! h2load, with HTTP/2 or `--h1`.
use super::counts::{LoadCounts, LoadDetails, LoadTool};
use super::text::{after, before, counted};

pub(super) fn parse(output: &str) -> Option<LoadCounts> {
    let finished = after(output, "finished in ")?;
    let requests = after(output, "requests:")?;
    let failed = before(requests, "failed")?;
    // `done` counts the errored ones too: what was answered is what succeeded or had a bad status.
    let errored = before(requests, "errored").unwrap_or(0);
    let statuses = after(output, "status codes:").unwrap_or_default();
    let statuses = ["2xx", "3xx", "4xx", "5xx"].map(|class| (class, before(statuses, class).unwrap_or(0)));
    let timeouts = before(requests, "timeout").unwrap_or(0);
    Some(LoadCounts {
        tool: LoadTool::H2load,
        requests: before(requests, "succeeded")? + failed.saturating_sub(errored),
        errors: failed,
        duration_s: duration(finished.split(',').next()?),
        bytes: None,
        latency: None,
        details: LoadDetails {
            failures: counted([("errored", errored.saturating_sub(timeouts)), ("timeout", timeouts)]),
            statuses: counted(statuses),
            ..LoadDetails::default()
        },
    })
}

/// `1.00s`, `141.50ms` or `70us`.
fn duration(text: &str) -> Option<f64> {
    let units = [("ms", 1e-3), ("us", 1e-6), ("s", 1.0)];
    let (number, scale) = units.iter().find_map(|(unit, scale)| Some((text.trim().strip_suffix(unit)?, scale)))?;
    number.parse::<f64>().ok().map(|number| number * scale).filter(|seconds| *seconds > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read() {
        let output = "starting benchmark...\nApplication protocol: http/1.1\nprogress: 100% done\n\n\
            finished in 141.50ms, 3533.64 req/s, 6.92MB/s\n\
            requests: 500 total, 500 started, 500 done, 480 succeeded, 20 failed, 5 errored, 0 timeout\n\
            status codes: 480 2xx, 0 3xx, 15 4xx, 0 5xx\n";
        let counts = parse(output).expect("h2load's output");
        assert_eq!((counts.tool, counts.requests, counts.errors), (LoadTool::H2load, 495, 20));
        assert_eq!(counts.details.failures, counted([("errored", 5)]));
        assert_eq!(counts.details.statuses, counted([("2xx", 480), ("4xx", 15)]));
        assert!((counts.duration_s.expect("a duration") - 0.1415).abs() < 1e-9);
        assert_eq!((duration("1.00s"), duration("5 minutes")), (Some(1.0), None));
    }
}
