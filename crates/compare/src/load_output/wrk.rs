//! wrk, and wrk2 which prints the same lines.
use super::counts::{LoadCounts, LoadDetails, LoadTool};
use super::text::{after, counted, labelled, leading, seconds};

pub(super) fn parse(output: &str) -> Option<LoadCounts> {
    let line = output.lines().map(str::trim).find(|line| line.contains(" requests in "))?;
    let requests = leading(line)?;
    // Seldom and only when it happened: `Socket errors: connect 0, read 12, write 0, timeout 3`.
    let sockets = after(output, "Socket errors:").unwrap_or_default();
    let kinds = ["connect", "read", "write", "timeout"].map(|kind| (kind, labelled(sockets, kind).unwrap_or(0)));
    let socket_errors: u64 = kinds.iter().map(|(_, count)| count).sum();
    let statuses = after(output, "Non-2xx or 3xx responses:").and_then(leading).unwrap_or(0);
    Some(LoadCounts {
        tool: LoadTool::Wrk,
        requests,
        errors: socket_errors + statuses,
        duration_s: seconds(requests, after(output, "Requests/sec:").and_then(leading)),
        bytes: None,
        latency: None,
        details: LoadDetails {
            failures: counted(kinds),
            statuses: counted([("2xx", requests.saturating_sub(statuses)), ("other", statuses)]),
            ..LoadDetails::default()
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read() {
        let output = "Running 1s test @ http://127.0.0.1:8081/nope\n  1 threads and 2 connections\n  \
            Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency    64.61us   41.89us   1.62ms   99.27%\n    \
            Req/Sec    28.01k     3.80k   36.96k    81.82%\n  30576 requests in 1.10s, 8.98MB read\n  \
            Socket errors: connect 1, read 2, write 3, timeout 4\n  Non-2xx or 3xx responses: 30576\n\
            Requests/sec:  27806.58\nTransfer/sec:      8.17MB\n";
        let counts = parse(output).expect("wrk's output");
        assert_eq!((counts.requests, counts.errors), (30_576, 30_586));
        assert!((counts.duration_s.expect("a rate") - 1.0996).abs() < 1e-4);
        let kinds = [("connect", 1), ("read", 2), ("write", 3), ("timeout", 4)];
        assert_eq!(counts.details.failures, counted(kinds));
        assert_eq!(counts.details.statuses, counted([("other", 30_576)]));
        let clean = parse("  0 requests in 1.00s, 0.00B read\nRequests/sec:      0.00\n").expect("wrk's output");
        assert_eq!((clean.requests, clean.errors, clean.duration_s), (0, 0, None));
    }
}
