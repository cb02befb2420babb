//! hey.
use super::counts::{LoadCounts, LoadDetails, LoadTool};
use super::text::{after, counted, leading};

pub(super) fn parse(output: &str) -> Option<LoadCounts> {
    let duration = after(output, "Total:").filter(|line| line.contains("secs")).and_then(leading);
    let (_, distribution) = output.split_once("Status code distribution:")?;
    let (statuses, failures) = distribution.split_once("Error distribution:").unwrap_or((distribution, ""));
    // `[200] 1987 responses` for each status, `[13] Get "http://...": ...` for each error.
    let bracketed = |line: &str| -> Option<(u64, String)> {
        let (number, rest) = line.trim().strip_prefix('[')?.split_once(']')?;
        Some((number.trim().parse().ok()?, rest.trim().to_owned()))
    };
    let answers: Vec<(u64, u64)> = statuses
        .lines()
        .filter_map(bracketed)
        .filter_map(|(status, rest)| Some((status, leading(rest.strip_suffix("responses")?)?)))
        .collect();
    let failed: u64 = failures.lines().filter_map(bracketed).map(|(count, _)| count).sum();
    let bad: u64 = answers.iter().filter(|(status, _)| *status >= 400).map(|(_, count)| count).sum();
    Some(LoadCounts {
        tool: LoadTool::Hey,
        requests: answers.iter().map(|(_, count)| count).sum(),
        errors: failed + bad,
        duration_s: duration.filter(|seconds| *seconds > 0.0),
        bytes: None,
        latency: None,
        details: LoadDetails {
            failures: counted([("error", failed)]),
            statuses: answers.iter().map(|(status, count)| (status.to_string(), *count)).collect(),
            ..LoadDetails::default()
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read() {
        let output = "\nSummary:\n  Total:\t1.2679 secs\n  Slowest:\t0.0581 secs\n  Requests/sec:\t1577.4\n\n\
            Response time histogram:\n  0.001 [1]\t|\n  0.012 [1890]\t|\n\n\
            Details (average, fastest, slowest):\n  DNS+dialup:\t0.0001 secs, 0.0000 secs, 0.0581 secs\n\n\
            Status code distribution:\n  [200]\t1950 responses\n  [503]\t37 responses\n\n\
            Error distribution:\n  [13]\tGet \"http://127.0.0.1:8081/\": connection refused\n";
        let expected = LoadCounts {
            tool: LoadTool::Hey,
            requests: 1987,
            errors: 50,
            duration_s: Some(1.2679),
            bytes: None,
            latency: None,
            details: LoadDetails {
                failures: counted([("error", 13)]),
                statuses: counted([("200", 1950), ("503", 37)]),
                ..LoadDetails::default()
            },
        };
        assert_eq!(parse(output), Some(expected));
    }
}
