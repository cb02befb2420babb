//! Where `weir agent` hands transactions on, by option.

use anyhow::{Context, bail};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use url::Url;
use weir_agent::Asker;
use weir_agent::export::{Exports, Options, OtlpOptions};
use weir_agent::protocol::{AgentStatus, Answer, Ask};
use weir_report::count;

/// The largest file of header fields or of a key that is read, in bytes.
const MOST_FILE: u64 = 64 << 10;

/// Where transactions go beside the agent's own store.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Handing on")]
pub(super) struct ExportArgs {
    /// Send spans and metrics to this OpenTelemetry receiver (OTLP over HTTP), such as http://127.0.0.1:4318
    #[arg(long, value_name = "URL")]
    otlp: Option<Url>,

    /// Header field for the OpenTelemetry receiver, such as 'x-api-key: 123', or @FILE with one a line; may be repeated
    #[arg(long, value_name = "FIELD", requires = "otlp")]
    otlp_header: Vec<String>,

    /// Serve metrics to Prometheus at this address, at /metrics, such as 127.0.0.1:9464
    #[arg(long, value_name = "ADDRESS:PORT")]
    prometheus: Option<SocketAddr>,

    /// Send transactions whose traces began on other hosts to the agent of another host; may be repeated
    #[arg(long, value_name = "HOST:PORT", requires = "peer_key")]
    forward: Vec<String>,

    /// Accept such transactions from the agents of other hosts
    #[arg(long, value_name = "ADDRESS:PORT", requires = "peer_key")]
    accept: Option<SocketAddr>,

    /// File with the key that the agents of all hosts share
    #[arg(long, value_name = "FILE")]
    peer_key: Option<PathBuf>,
}

impl ExportArgs {
    /// Starts what was asked for, which may be nothing.
    pub(super) fn start(&self, host: &str) -> anyhow::Result<Arc<Exports>> {
        let exports = Exports::start(self.options()?, host)?;
        let report = exports.report();
        if let Some(address) = report.prometheus {
            eprintln!("metrics at http://{address}/metrics");
        }
        if let Some(accept) = report.accept {
            eprintln!("taking transactions of other hosts at {}", accept.address);
        }
        Ok(Arc::new(exports))
    }

    fn options(&self) -> anyhow::Result<Options> {
        let otlp = match &self.otlp {
            Some(endpoint) => Some(OtlpOptions { endpoint: endpoint.clone(), headers: self.headers()? }),
            None => None,
        };
        let key = self.peer_key.as_deref().map(key).transpose()?;
        let (prometheus, forward, accept) = (self.prometheus, self.forward.clone(), self.accept);
        Ok(Options { otlp, prometheus, forward, accept, key })
    }

    fn headers(&self) -> anyhow::Result<Vec<(String, String)>> {
        let mut headers = Vec::new();
        for given in &self.otlp_header {
            match given.strip_prefix('@') {
                Some(path) => {
                    let text = read(Path::new(path), "--otlp-header")?;
                    for line in text.lines().filter(|line| !line.trim().is_empty()) {
                        // A secret is not repeated in a message.
                        headers.push(header(line).with_context(|| format!("--otlp-header {given}"))?);
                    }
                }
                None => headers.push(header(given)?),
            }
        }
        Ok(headers)
    }
}

/// A header field.
fn header(line: &str) -> anyhow::Result<(String, String)> {
    let Some((name, value)) = line.split_once(':') else {
        bail!("a header field has a name, a colon and a value, such as 'x-api-key: 123'");
    };
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn read(path: &Path, option: &str) -> anyhow::Result<String> {
    let told = || format!("{option}: {} cannot be read", path.display());
    let length = fs::metadata(path).with_context(told)?.len();
    if length > MOST_FILE {
        bail!("{option}: {} is larger than {} KiB", path.display(), MOST_FILE >> 10);
    }
    weir_terminal::text_file::read(path, MOST_FILE).with_context(told)
}

/// The key in a file that only its owner may read.
fn key(path: &Path) -> anyhow::Result<Vec<u8>> {
    let text = read(path, "--peer-key")?;
    let mode = fs::metadata(path).map(|metadata| metadata.mode()).unwrap_or_default();
    if mode & 0o077 != 0 {
        bail!("--peer-key: others may read {0} (mode {1:o}); chmod 600 {0}", path.display(), mode & 0o777);
    }
    Ok(text.trim().as_bytes().to_vec())
}

/// From now on the metrics include the agent's own state.
pub(super) fn connect(exports: &Exports, asker: Asker) {
    exports.ask_for_health(Box::new(move || match asker.ask(Ask::Status) {
        Answer::Status(status) => *status,
        // It is about to end.
        _ => AgentStatus::default(),
    }));
}

/// Ends it, and says what could not be handed on.
pub(super) fn finish(exports: &Exports) {
    let report = exports.finish();
    if let Some(otlp) = &report.otlp {
        let lost = otlp.waiting + otlp.dropped + otlp.refused + otlp.given_up;
        if lost > 0 {
            let why = otlp.error.as_ref().map_or(String::new(), |why| format!(": {why}"));
            eprintln!("{} spans were sent, {} could not be{why}", count(otlp.sent), count(lost));
        }
    }
    for peer in report.forward {
        let lost = peer.dropped + peer.lost;
        if lost > 0 {
            let why = peer.error.map_or(String::new(), |why| format!(": {why}"));
            eprintln!("{} transactions did not reach {}{why}", count(lost), peer.address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn keys_are_for_their_owner_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        fs::write(&path, "0123456789abcdef0\n").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("set");
        let error = key(&path).expect_err("others may read it").to_string();
        assert!(error.contains("chmod 600"), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
        assert_eq!(key(&path).expect("a key"), b"0123456789abcdef0");
        let args = ExportArgs { forward: vec!["a:1".to_owned()], ..ExportArgs::default() };
        let error = Exports::start(args.options().expect("no file is named"), "h").expect_err("no key").to_string();
        assert!(error.contains("16 to 4096 bytes"), "{error}");
    }

    #[test]
    fn header_fields_come_from_the_line_or_from_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("fields");
        fs::write(&path, "x-api-key: 1:2\n\nx-tenant:a\n").expect("written");
        let otlp_header = vec!["a: b".to_owned(), format!("@{}", path.display())];
        let args = ExportArgs { otlp_header, ..ExportArgs::default() };
        let fields: Vec<String> =
            args.headers().expect("fields").into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(fields, ["a=b", "x-api-key=1:2", "x-tenant=a"]);
        fs::write(&path, "secret without a colon\n").expect("written");
        let error = format!("{:#}", args.headers().expect_err("it has none"));
        assert!(error.contains("colon") && !error.contains("secret"), "{error}");
    }
}
