//! A server that a test configures by itself.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::Command;

use super::certificate::Certificate;
use super::launch::Launch;
use super::running::RunningServer;
use super::start::StartError;

/// What a server is told where it starts.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The port on 127.0.0.1 at which it is to listen.
    pub port: u16,
    /// A directory of its own, which others may read.
    pub dir: &'a Path,
    /// The files that it is to serve.
    pub root: &'a Path,
}

/// How a server starts at a place; it is called again where the port was taken.
type Starts = Box<dyn Fn(Place<'_>) -> io::Result<Command>>;

/// Launches a server by a command that the test makes, once its configuration is written.
pub struct Program {
    starts: Starts,
    launch: Launch,
}

impl Program {
    /// It is ready as soon as it listens.
    pub fn new(starts: impl Fn(Place<'_>) -> io::Result<Command> + 'static) -> Self {
        Self { starts: Box::new(starts), launch: Launch { only_listens: true, ..Launch::default() } }
    }

    /// It answers HTTPS, with this certificate.
    pub fn tls(mut self, certificate: &Certificate) -> Self {
        self.launch.certificate = Some(certificate.clone());
        self
    }

    /// Starts it and waits until it listens.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(self) -> Result<RunningServer, StartError> {
        self.launch.start("output.log", |attempt| {
            (self.starts)(Place { port: attempt.port, dir: attempt.dir, root: attempt.root })
        })
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("launch", &self.launch).finish_non_exhaustive()
    }
}
