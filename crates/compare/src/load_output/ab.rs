//! ApacheBench.
use super::counts::{LoadCounts, LoadDetails, LoadTool};
use super::text::{after, counted, labelled, leading, seconds};

pub(super) fn parse(output: &str) -> Option<LoadCounts> {
    let requests = after(output, "Complete requests:").and_then(leading)?;
    // `Non-2xx responses` is printed only when there were some.
    let [failed, bad] = ["Failed requests:", "Non-2xx responses:"]
        .map(|label| after(output, label).and_then(leading::<u64>).unwrap_or(0));
    // `(Connect: 0, Receive: 0, Length: 3, Exceptions: 0)`, only when some failed.
    let kinds = after(output, "(Connect:").map(|kinds| format!("Connect: {kinds}")).unwrap_or_default();
    let kinds = ["Connect", "Receive", "Length", "Exceptions"]
        .map(|kind| (kind.to_lowercase(), labelled(&kinds, kind).unwrap_or(0)));
    Some(LoadCounts {
        tool: LoadTool::Ab,
        requests,
        errors: failed + bad,
        duration_s: seconds(requests, after(output, "Requests per second:").and_then(leading)),
        bytes: None,
        latency: None,
        details: LoadDetails {
            failures: counted(kinds),
            statuses: counted([("2xx", requests.saturating_sub(bad)), ("other", bad)]),
            ..LoadDetails::default()
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read() {
        let output = "Document Path:          /nope\nConcurrency Level:      2\n\
            Time taken for tests:   0.056 seconds\nComplete requests:      2000\nFailed requests:        3\n   \
            (Connect: 0, Receive: 0, Length: 3, Exceptions: 0)\nNon-2xx responses:      2000\n\
            Keep-Alive requests:    2000\nRequests per second:    35578.33 [#/sec] (mean)\n\
            Time per request:       0.056 [ms] (mean)\n";
        let counts = parse(output).expect("ab's output");
        assert_eq!((counts.tool, counts.requests, counts.errors), (LoadTool::Ab, 2000, 2003));
        assert_eq!(counts.details.failures, counted([("length", 3)]));
        assert_eq!(counts.details.statuses, counted([("other", 2000)]));
        assert!((counts.duration_s.expect("a rate") - 0.056_214).abs() < 1e-6);
    }
}
