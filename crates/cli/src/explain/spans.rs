//! Requests as spans for other tools, and spans of other tools beside ours.

use anyhow::Context;
use std::path::Path;
use std::time::Duration;
use weir_explain::spans::{Beside, Sample, otlp};
use weir_load::Url;
use weir_report::{Explanation, nanoseconds, percent};
use weir_terminal::whole_file::write_whole;

/// Where a receiver takes traces over HTTP.
const TRACES: &str = "/v1/traces";
/// Requests that are sent to a receiver at a time: with their parts some hundred spans each.
const AT_A_TIME: usize = 50;
/// How long a receiver may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Hands the sampled requests on, to a receiver or into a file.
pub(super) fn hand_on(to: &str, explanation: &Explanation, sample: &Sample) -> anyhow::Result<()> {
    let words = format!(
        "{} of {} requests as spans: the {} slowest, and {} of the others",
        sample.requests.len(),
        sample.of,
        sample.requests.iter().filter(|one| one.slow).count(),
        sample.requests.iter().filter(|one| !one.slow).count(),
    );
    if sample.requests.is_empty() {
        anyhow::bail!("no request can be handed on as spans: the run tells no real time (recordings of the kernel do)");
    }
    if !to.starts_with("http://") && !to.starts_with("https://") {
        let body = format!("{}\n", otlp(explanation, sample));
        write_whole(Path::new(to), &body).with_context(|| format!("--otlp: cannot write {to}"))?;
        eprintln!("weir explain: {to}: {words}");
        return Ok(());
    }
    let url = receiver(to)?;
    for requests in sample.requests.chunks(AT_A_TIME) {
        let some = Sample { requests: requests.to_vec(), ..sample.clone() };
        let body = otlp(explanation, &some).to_string();
        crate::webhook::post_json(&url, body.as_bytes(), PATIENCE)
            .with_context(|| format!("the receiver of spans at {to}"))?;
    }
    eprintln!("weir explain: {to}: {words}");
    Ok(())
}

/// Where a receiver takes spans: without a path in its URL at the one that OTLP says.
///
/// # Errors
/// It is no URL of http or https.
pub(crate) fn receiver(to: &str) -> anyhow::Result<Url> {
    let given = Url::parse(to).with_context(|| format!("--otlp {to}"))?;
    Ok(if given.target == "/" { given.with_target(TRACES) } else { given })
}

/// Spans of existing instrumentation beside our parts, for a terminal.
pub(super) fn words(beside: &Beside) -> String {
    let mut lines = vec![format!(
        "\nspans: {} given; {} requests without one, {} of which several may be",
        beside.spans, beside.requests_without_span, beside.ambiguous
    )];
    for (name, class) in &beside.classes {
        lines.push(format!(
            "{name}: {} requests; the span takes {} of {}: {} before it, {} after it",
            class.requests,
            nanoseconds(class.span_ns),
            nanoseconds(class.response_ns),
            nanoseconds(class.before_ns),
            nanoseconds(class.after_ns),
        ));
        let mut parts: Vec<_> = class.parts_ns.iter().collect();
        parts.sort_by(|one, other| other.1.total_cmp(one.1));
        let parts = parts.iter().take(4);
        let parts: Vec<String> =
            parts.map(|(part, ns)| format!("{part} {}", percent(**ns / class.span_ns.max(1.0)))).collect();
        lines.push(format!("  within it: {}", parts.join(", ")));
    }
    lines.join("\n") + "\n"
}
