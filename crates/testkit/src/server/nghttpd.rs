//! nghttpd, nghttp2's server of HTTP/2.

use std::path::PathBuf;
use std::process::Command;

use super::certificate::Certificate;
use super::launch::Launch;
use super::running::RunningServer;
use super::start::StartError;

/// Launches nghttpd: HTTP/2 with prior knowledge, or agreed on in the TLS handshake.
#[derive(Debug, Clone)]
pub struct Nghttpd {
    args: Vec<String>,
    launch: Launch,
}

impl Default for Nghttpd {
    fn default() -> Self {
        Self::new()
    }
}

impl Nghttpd {
    /// One thread, not encrypted.
    pub fn new() -> Self {
        Self { args: Vec::new(), launch: Launch { only_listens: true, ..Launch::default() } }
    }

    /// Further arguments, such as `-m`, `1`.
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// The directory to serve instead of the sample.
    pub fn root(mut self, root: impl Into<PathBuf>) -> Self {
        self.launch.root = Some(root.into());
        self
    }

    /// Answers HTTPS instead of HTTP.
    pub fn tls(mut self, certificate: &Certificate) -> Self {
        self.launch.certificate = Some(certificate.clone());
        self
    }

    /// Starts it and waits until it listens.
    pub fn start(self) -> Result<RunningServer, StartError> {
        self.launch.start("output.log", |attempt| {
            let mut command = Command::new("nghttpd");
            command.args(&self.args).arg("-d").arg(attempt.root).args(["-a", "127.0.0.1"]);
            match &self.launch.certificate {
                None => command.arg("--no-tls").arg(attempt.port.to_string()),
                Some(made) => command.arg(attempt.port.to_string()).arg(made.key()).arg(made.certificate()),
            };
            Ok(command)
        })
    }
}
