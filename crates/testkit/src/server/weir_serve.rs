//! Our own server, as a program that the caller has built.

use std::path::PathBuf;
use std::process::Command;

use super::certificate::Certificate;
use super::launch::Launch;
use super::running::RunningServer;
use super::start::StartError;

/// Launches `weir serve`.
#[derive(Debug, Clone)]
pub struct WeirServe {
    program: PathBuf,
    args: Vec<String>,
    launch: Launch,
}

impl WeirServe {
    /// The program is given by its path: a test of the package that builds it knows it.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), args: Vec::new(), launch: Launch::default() }
    }

    /// Further arguments of `serve`, before the directory.
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// The directory to serve instead of the sample.
    pub fn root(mut self, root: impl Into<PathBuf>) -> Self {
        self.launch.root = Some(root.into());
        self
    }

    /// Answers HTTPS, with this certificate, which `args` name.
    pub fn tls(mut self, certificate: &Certificate) -> Self {
        self.launch.certificate = Some(certificate.clone());
        self
    }

    /// Keeps it on one CPU.
    pub fn pin(mut self, cpu: usize) -> Self {
        self.launch.cpu = Some(cpu);
        self
    }

    /// Starts it and waits until it answers.
    pub fn start(self) -> Result<RunningServer, StartError> {
        self.launch.start("output.log", |attempt| {
            let mut command = Command::new(&self.program);
            command.args(["serve", "--listen", &format!("127.0.0.1:{}", attempt.port)]);
            command.args(&self.args).arg(attempt.root).current_dir(attempt.dir);
            Ok(command)
        })
    }
}
