//! Debian's Apache with a configuration of its own.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Launch, RunningServer, StartError, closed_to_others};

/// The server's program.
pub(crate) const PROGRAM: &str = "/usr/sbin/apache2";
/// Where Debian keeps its modules.
pub(crate) const MODULES: &str = "/usr/lib/apache2/modules";

#[derive(Debug, Clone, Copy, PartialEq)]
enum Model {
    Prefork,
    Event,
}

/// Launches Apache: all of its configuration is ours, none of /etc/apache2 is read.
#[derive(Debug, Clone)]
pub struct Apache {
    model: Model,
    workers: u32,
    processes: u32,
    keep_alive: bool,
    launch: Launch,
}

impl Apache {
    /// A process for each connection; 128 of them unless told otherwise.
    pub fn prefork() -> Self {
        Self::new(Model::Prefork)
    }

    /// Threads behind an event loop; 128 of them in two processes unless told otherwise.
    pub fn event() -> Self {
        Self::new(Model::Event)
    }

    fn new(model: Model) -> Self {
        Self { model, workers: 128, processes: 2, keep_alive: true, launch: Launch::default() }
    }

    /// How many requests can be handled at once: processes for prefork, threads for event. All of
    /// them run from the start.
    pub fn workers(mut self, workers: u32) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// Over how many processes the event model spreads its threads.
    pub fn processes(mut self, processes: u32) -> Self {
        self.processes = processes.max(1);
        self
    }

    /// Whether connections stay open, then without a limit of requests; they do unless told.
    pub fn keep_alive(mut self, keep_alive: bool) -> Self {
        self.keep_alive = keep_alive;
        self
    }

    /// The directory to serve instead of the sample. As root, Apache reads it as user 65534.
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
        if is_root()
            && let Some(path) = self.launch.root.as_deref().and_then(closed_to_others)
        {
            return Err(StartError::Unreadable { path });
        }
        self.launch.start("error.log", |attempt| {
            let file = attempt.dir.join("apache.conf");
            fs::write(&file, self.configuration(attempt.port, attempt.dir, attempt.root))?;
            let mut command = Command::new(PROGRAM);
            command.arg("-DFOREGROUND").arg("-f").arg(file);
            Ok(command)
        })
    }

    fn configuration(&self, port: u16, dir: &Path, root: &Path) -> String {
        let (dir, root) = (dir.display(), root.display());
        let model = match self.model {
            Model::Prefork => "prefork",
            Model::Event => "event",
        };
        let mut text = format!(
            r#"ServerRoot "{dir}"
ServerName 127.0.0.1
Listen 127.0.0.1:{port}
ListenBacklog 1024
PidFile "{dir}/apache.pid"
DefaultRuntimeDir "{dir}"
ErrorLog "{dir}/error.log"
LoadModule mpm_{model}_module {MODULES}/mod_mpm_{model}.so
LoadModule authz_core_module {MODULES}/mod_authz_core.so
LoadModule dir_module {MODULES}/mod_dir.so
LoadModule mime_module {MODULES}/mod_mime.so
TypesConfig /dev/null
AddType text/html .html
AddType text/css .css
AddType text/plain .txt
AddType image/svg+xml .svg
DirectoryIndex index.html
DocumentRoot "{root}"
<Directory "/">
  Options None
  AllowOverride None
  Require all granted
</Directory>
MaxKeepAliveRequests 0
KeepAliveTimeout 60
MaxConnectionsPerChild 0
"#
        );
        if is_root() {
            // Apache refuses to handle requests as root.
            text.push_str("User #65534\nGroup #65534\n");
        }
        text.push_str(if self.keep_alive { "KeepAlive On\n" } else { "KeepAlive Off\n" });
        // All workers from the start and never fewer: a number that changes under load would be a
        // second thing that the test measures.
        let (servers, workers) = match self.model {
            Model::Prefork => {
                let n = self.workers;
                // Writing to a String cannot fail.
                let _ = write!(text, "MinSpareServers {n}\nMaxSpareServers {n}\n");
                (n, n)
            }
            Model::Event => {
                let threads = self.workers.div_ceil(self.processes);
                let all = threads * self.processes;
                let _ = write!(
                    text,
                    "ThreadLimit {threads}\nThreadsPerChild {threads}\n\
                     MinSpareThreads {threads}\nMaxSpareThreads {}\n",
                    all + threads
                );
                (self.processes, all)
            }
        };
        let _ = write!(text, "ServerLimit {servers}\nStartServers {servers}\nMaxRequestWorkers {workers}\n");
        text
    }
}

fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() == 0 }
}
