//! The recipe for the OpenTelemetry collector, run as it stands in a real one: what comes out is what went in.

use crate::receiver::{Receiver, spans, within};
use crate::{transaction, until};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use weir_agent::export::{Exports, Options, OtlpOptions};

/// A collector: the one that scripts/otelcol has built, or one on the search path.
fn collector() -> Option<PathBuf> {
    let test = std::env::current_exe().ok()?;
    let target = test.ancestors().nth(3)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path)
        .flat_map(|folder| ["otelcol", "otelcol-contrib"].map(|name| folder.join(name)))
        .find(|file| file.is_file());
    let found = Some(target.join("otelcol/otelcol")).filter(|file| file.is_file()).or(installed);
    weir_testkit::require::or_skip(
        found.is_some(),
        "no OpenTelemetry collector (scripts/otelcol builds one, with Go)",
    )?;
    found
}

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn words(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// The points of a metric by their attributes: everything but their times.
fn points(bodies: &[Vec<u8>], name: &[u8], data: u32) -> Vec<String> {
    let metrics = bodies.iter().flat_map(|body| within(body, 1)).flat_map(|group| within(group, 2));
    let wanted = metrics.flat_map(|scope| within(scope, 2)).filter(|metric| within(metric, 1)[0] == name);
    let points = wanted.flat_map(|metric| within(within(metric, data)[0], 1));
    let mut told: Vec<String> = points
        .map(|point| {
            let mut attributes: Vec<String> =
                within(point, 9).iter().flat_map(|pair| [1, 2].map(|part| words(within(pair, part)[0]))).collect();
            attributes.sort();
            let [counts, bounds] = [6, 7].map(|field| words(within(point, field)[0]));
            format!("{attributes:?} {counts} {bounds}")
        })
        .collect();
    told.sort();
    told.dedup();
    told
}

#[test]
fn a_real_collector_understands_every_span_and_every_figure() {
    let Some(program) = collector() else { return };
    let (backend, direct) = (Receiver::start([]), Receiver::start([]));
    let listen = std::net::SocketAddr::from(([127, 0, 0, 1], weir_testkit::free_port()));
    let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../native/otelcol/weir.yaml");
    let started = Command::new(program)
        .args(["--config", &recipe.display().to_string()])
        .env("WEIR_OTLP_LISTEN", listen.to_string())
        .env("WEIR_OTLP_BACKEND", backend.url())
        .env("WEIR_OTLP_COMPRESSION", "none")
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn();
    let mut running = Running(started.expect("the collector starts"));
    until("the collector listens", Duration::from_secs(30), || {
        assert!(running.0.try_wait().expect("its state").is_none(), "the collector has ended: its words stand above");
        TcpStream::connect(listen).is_ok()
    });
    let send = |url: String| {
        let otlp = Some(OtlpOptions { endpoint: url.parse().expect("a URL"), headers: Vec::new() });
        let exports = Exports::start(Options { otlp, ..Options::default() }, "web1").expect("it starts");
        let root = transaction(0, None);
        (1..60).for_each(|number| exports.push(&transaction(number, Some(&root))));
        exports.push(&root);
        exports.finish().otlp.expect("there is a receiver")
    };
    for report in [send(direct.url()), send(format!("http://{listen}"))] {
        assert_eq!((report.sent, report.failures, report.metrics_sent > 0), (60, 0, true), "{report:?}");
    }
    until("all has come out", Duration::from_secs(20), || {
        spans(&backend.bodies("/v1/traces")).len() == 60 && !backend.bodies("/v1/metrics").is_empty()
    });
    // The collector reads each field and writes it anew: what it would not have understood would be missing.
    let came = spans(&backend.bodies("/v1/traces"));
    for (id, sent) in spans(&direct.bodies("/v1/traces")) {
        assert_eq!(came.get(&id), Some(&sent));
    }
    let durations = |of: &Receiver| points(&of.bodies("/v1/metrics"), b"arm.transaction.duration", 9);
    assert_eq!(durations(&backend), durations(&direct));
    assert_eq!(durations(&direct).len(), 6, "two names that ended in three ways");
}
