//! Which tool printed an output, and what it says.
use super::counts::LoadCounts;
use super::{ab, h2load, hey, httperf, weir, wrk};

/// An output that none of the known tools prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the output is not that of weir load --json, wrk, ab, httperf, h2load or hey")]
pub struct LoadOutputError;

/// Reads the standard output of a load command, which may be any of the known tools.
///
/// # Errors
/// [`LoadOutputError`] when it is none of them, or cut off before the counts.
pub fn parse_load_output(output: &str) -> Result<LoadCounts, LoadOutputError> {
    // Each parser asks for a line that only its tool prints, so their order does not matter.
    [weir::parse, wrk::parse, ab::parse, httperf::parse, h2load::parse, hey::parse]
        .iter()
        .find_map(|parse| parse(output))
        .ok_or(LoadOutputError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_outputs_are_refused() {
        for output in ["", "curl: (7) Failed to connect", "{}", "{\"requests\": -1}", "[1]", "Requests/sec: 3"] {
            assert_eq!(parse_load_output(output), Err(LoadOutputError), "{output:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_output_breaks_a_parser(output in "(?s)(Requests/sec:|Total: |requests: |finished in |Complete requests:|[0-9. ]|\\PC|\n){0,40}") {
            let _counts_or_not = parse_load_output(&output);
        }
    }
}
