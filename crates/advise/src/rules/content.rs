//! Large files that are copied through the server's memory.

use super::case::{Case, Draft};
use crate::configuration::ini;
use crate::finding::{Finding, Setting};
use crate::servers::Kind;
use weir_measure::part::Part;
use weir_measure::queueing::Saving;

/// Smaller responses gain nothing.
const LARGE_BYTES: f64 = 32.0 * 1024.0;
/// What reading a byte into memory and copying it to the socket costs beyond sending it from the page cache,
/// nanoseconds: memory bandwidths of 40, 7 and 2.5 GB/s.
const COPY_NS: (f64, f64, f64) = (0.025, 0.15, 0.4);

/// `sendfile off` and `EnableSendfile Off`.
pub(super) fn sendfile_off(case: &Case<'_>) -> Vec<Finding> {
    let observed = case.observed;
    let mean_bytes = observed.bytes as f64 / observed.requests.max(1) as f64;
    let is_tls = case.recorded.url.as_deref().unwrap_or(&observed.subject).starts_with("https://");
    // Encrypting reads the bytes in any case, and a page made by a program is no file.
    let is_made = case.servers.list.iter().any(|server| server.kind == Kind::PhpFpm);
    if mean_bytes < LARGE_BYTES || is_tls || is_made {
        return Vec::new();
    }
    let run_ns = observed.part_ns(Part::Run.name());
    let mut findings = Vec::new();
    for (number, server) in case.servers.list.iter().enumerate() {
        let (name, on, scope) = match server.kind {
            Kind::Nginx => ("sendfile", "on", vec!["http".to_owned()]),
            Kind::Apache => ("EnableSendfile", "On", Vec::new()),
            _ => continue,
        };
        let configuration = &server.configuration;
        let setting = match configuration.last(name) {
            Some(found) if ini::is_on(found.word()) => continue,
            Some(found) => Setting::of(number, configuration, &found, on),
            None => Setting::added(number, configuration, name, &scope, "off", on),
        };
        let queued = observed.part_ns(Part::WorkerQueue.name()) + observed.part_ns(Part::WaitCpu.name());
        // A worker that runs shorter also keeps others waiting for shorter.
        let amplified = 1.0 + queued / run_ns.max(1.0);
        let copied = |per_byte: f64| (mean_bytes * per_byte).min(0.7 * run_ns);
        let saving = Saving::of(copied(COPY_NS.0), copied(COPY_NS.1), copied(COPY_NS.2) * amplified.min(10.0));
        let effect = case.effect(
            saving,
            format!(
                "{:.0} KiB of each response are not copied through the server's memory, at 2.5 to 40 GB/s",
                mean_bytes / 1024.0
            ),
        );
        let facts = vec![format!(
            "{} reads files into its own memory and writes them from there ({name} is off)",
            server.label()
        )];
        let reasoning = format!(
            "responses have {:.0} KiB on average; the kernel can send them from its page cache",
            mean_bytes / 1024.0
        );
        let against = [
            "on network file systems and some FUSE file systems sendfile gives stale or wrong contents",
            "contents that filters change, such as compression, are copied in any case",
        ];
        let draft = Draft::new(
            "sendfile_off",
            "large files are copied through the server",
            vec![case.evidence(Part::Run, run_ns)],
            effect,
        );
        findings.push(draft.set(vec![setting], facts, reasoning, &against));
    }
    findings
}
