//! Debian's uWSGI with the plugin for Python 3.

use std::fs;
use std::os::unix::net::UnixStream;

use super::backend::{RunningBackend, unprivileged, with_data};
use super::start::{StartError, spawn, wait_until};

/// The program with the plugin's name, which it takes for an option.
const PROGRAM: &str = "uwsgi_python3";

/// Launches uWSGI with one process that answers uwsgi, SCGI and FastCGI over a Unix socket each.
#[derive(Debug, Clone)]
pub struct Uwsgi {
    program: String,
}

impl Uwsgi {
    /// Runs this text as a module of Python with a function `application` (PEP 3333).
    pub fn new(program: &str) -> Self {
        Self { program: program.to_owned() }
    }

    /// Starts it and waits until it takes connections. The sockets are `uwsgi.sock`, `scgi.sock` and `fastcgi.sock` in
    /// the folder `data` of its directory; [`RunningBackend::socket`] is the first.
    pub fn start(self) -> Result<RunningBackend, StartError> {
        let (own, data) = with_data()?;
        let module = data.join("program.py");
        fs::write(&module, &self.program).map_err(StartError::Prepare)?;
        let log = own.path().join("output.log");
        let mut command = unprivileged(PROGRAM, &data);
        let sockets = ["uwsgi.sock", "scgi.sock", "fastcgi.sock"].map(|name| data.join(name));
        for (option, socket) in ["--uwsgi-socket", "--scgi-socket", "--fastcgi-socket"].iter().zip(&sockets) {
            command.arg(option).arg(socket);
        }
        command.arg("--wsgi-file").arg(&module).args(["--chmod-socket=666", "--need-app", "--die-on-term"]);
        let mut process = spawn(command, &log, None, libc::SIGTERM)?;
        wait_until(&mut process, &[&log], || {
            // Sockets are bound before the program is loaded.
            let is_loaded = super::start::read_log(&log).contains("spawned uWSGI worker");
            let connects = sockets.iter().all(|socket| UnixStream::connect(socket).is_ok());
            (is_loaded && connects).then_some(())
        })?;
        let [socket, ..] = sockets;
        Ok(RunningBackend { socket: Some(socket), port: None, process, log, own })
    }
}
