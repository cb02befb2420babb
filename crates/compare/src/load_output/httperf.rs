//! httperf.
use super::counts::{LoadCounts, LoadDetails, LoadTool};
use super::text::{after, counted, labelled, leading};

pub(super) fn parse(output: &str) -> Option<LoadCounts> {
    let totals = after(output, "Total:").filter(|line| line.contains("test-duration"))?;
    let duration = totals.split_once("test-duration").and_then(|(_, text)| leading(text.trim_start()));
    let statuses = after(output, "Reply status:").unwrap_or_default();
    // The first of two lines that begin so has the total.
    let failures = after(output, "Errors:").and_then(|line| labelled(line, "total")).unwrap_or(0);
    let kinds = ["client-timo", "socket-timo", "connrefused", "connreset", "fd-unavail", "addrunavail", "ftab-full"];
    let count_of =
        |kind: &str| output.lines().filter(|line| line.starts_with("Errors:")).find_map(|line| labelled(line, kind));
    let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"].map(|class| (class, labelled(statuses, class).unwrap_or(0)));
    Some(LoadCounts {
        tool: LoadTool::Httperf,
        requests: labelled(totals, "replies")?,
        errors: failures + ["4xx", "5xx"].iter().filter_map(|class| labelled(statuses, class)).sum::<u64>(),
        duration_s: duration.filter(|seconds| *seconds > 0.0),
        bytes: None,
        latency: None,
        details: LoadDetails {
            failures: counted(kinds.map(|kind| (kind, count_of(kind).unwrap_or(0)))),
            statuses: counted(classes),
            ..LoadDetails::default()
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read() {
        let output = "httperf --hog --client=0/1 --server=127.0.0.1 --port=8081 --uri=/\n\
            Maximum connect burst length: 1\n\n\
            Total: connections 10 requests 1000 replies 990 test-duration 1.250 s\n\n\
            Connection rate: 8.0 conn/s (125.0 ms/conn, <=10 concurrent connections)\n\
            Reply status: 1xx=0 2xx=980 3xx=0 4xx=7 5xx=3\n\n\
            CPU time [s]: user 0.30 system 0.90 (user 24.0% system 72.0% total 96.0%)\n\
            Net I/O: 80.0 KB/s (0.7*10^6 bps)\n\n\
            Errors: total 10 client-timo 4 socket-timo 0 connrefused 6 connreset 0\n\
            Errors: fd-unavail 0 addrunavail 0 ftab-full 0 other 0\n";
        let expected = LoadCounts {
            tool: LoadTool::Httperf,
            requests: 990,
            errors: 20,
            duration_s: Some(1.25),
            bytes: None,
            latency: None,
            details: LoadDetails {
                failures: counted([("client-timo", 4), ("connrefused", 6)]),
                statuses: counted([("2xx", 980), ("4xx", 7), ("5xx", 3)]),
                ..LoadDetails::default()
            },
        };
        assert_eq!(parse(output), Some(expected));
    }
}
