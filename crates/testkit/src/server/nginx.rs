//! nginx with a configuration of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Launch, RunningServer, StartError};

/// The server's program.
pub(crate) const PROGRAM: &str = "/usr/sbin/nginx";

/// Launches nginx: a master and one worker unless told otherwise, no access log.
#[derive(Debug, Clone)]
pub struct Nginx {
    workers: u32,
    keep_alive: bool,
    launch: Launch,
}

impl Default for Nginx {
    fn default() -> Self {
        Self::new()
    }
}

impl Nginx {
    /// One worker, connections kept open without a limit of requests.
    pub fn new() -> Self {
        Self { workers: 1, keep_alive: true, launch: Launch::default() }
    }

    /// The number of worker processes.
    pub fn workers(mut self, workers: u32) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// Whether connections stay open; they do unless told otherwise.
    pub fn keep_alive(mut self, keep_alive: bool) -> Self {
        self.keep_alive = keep_alive;
        self
    }

    /// The directory to serve instead of the sample.
    pub fn root(mut self, root: impl Into<PathBuf>) -> Self {
        self.launch.root = Some(root.into());
        self
    }

    /// Keeps all processes on one CPU.
    pub fn pin(mut self, cpu: usize) -> Self {
        self.launch.cpu = Some(cpu);
        self
    }

    /// Starts it and waits until it answers.
    pub fn start(self) -> Result<RunningServer, StartError> {
        self.launch.start("error.log", |attempt| {
            let file = attempt.dir.join("nginx.conf");
            fs::write(&file, self.configuration(attempt.port, attempt.dir, attempt.root))?;
            let mut command = Command::new(PROGRAM);
            command.arg("-p").arg(attempt.dir).arg("-c").arg(file);
            Ok(command)
        })
    }

    fn configuration(&self, port: u16, dir: &Path, root: &Path) -> String {
        let (dir, root, workers) = (dir.display(), root.display(), self.workers);
        // SAFETY: geteuid has no preconditions.
        let user = if unsafe { libc::geteuid() } == 0 {
            // The workers stay root, so that any directory of the caller can be served.
            "user root root;\n"
        } else {
            ""
        };
        let keep_alive_s = if self.keep_alive { 60 } else { 0 };
        format!(
            r#"{user}daemon off;
worker_processes {workers};
pid "{dir}/nginx.pid";
error_log "{dir}/error.log" warn;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  types {{ text/html html; text/css css; text/plain txt; image/svg+xml svg; }}
  default_type application/octet-stream;
  sendfile on;
  keepalive_timeout {keep_alive_s};
  keepalive_requests 1000000000;
  client_body_temp_path "{dir}/body";
  proxy_temp_path "{dir}/proxy";
  fastcgi_temp_path "{dir}/fastcgi";
  uwsgi_temp_path "{dir}/uwsgi";
  scgi_temp_path "{dir}/scgi";
  server {{
    listen 127.0.0.1:{port} backlog=1024;
    root "{root}";
  }}
}}
"#
        )
    }
}
