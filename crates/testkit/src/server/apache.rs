//! Debian's Apache with a configuration of its own.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::backend::RunningBackend;
use super::certificate::Certificate;
use super::launch::Launch;
use super::running::RunningServer;
use super::start::{StartError, UNPRIVILEGED, closed_to_others, is_root};

/// The server's program: Debian's, unless WEIR_TEST_APACHE names where another one was installed.
pub(crate) fn program() -> PathBuf {
    other().map_or_else(|| PathBuf::from("/usr/sbin/apache2"), |prefix| prefix.join("bin/httpd"))
}

/// Where its modules are.
pub(crate) fn modules() -> PathBuf {
    other().map_or_else(|| PathBuf::from("/usr/lib/apache2/modules"), |prefix| prefix.join("modules"))
}

fn other() -> Option<PathBuf> {
    std::env::var_os("WEIR_TEST_APACHE").map(PathBuf::from)
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Model {
    Prefork,
    Worker,
    Event,
}

/// How Apache runs CGI scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cgi {
    /// The process of the request forks (mod_cgi), as is usual for prefork.
    Direct,
    /// A daemon forks (mod_cgid), as is usual for event.
    Daemon,
}

/// Launches Apache: all of its configuration is ours, none of /etc/apache2 is read.
#[derive(Debug, Clone)]
pub struct Apache {
    model: Model,
    workers: u32,
    processes: u32,
    keep_alive: bool,
    modules: Vec<&'static str>,
    cgi: Option<Cgi>,
    directives: Vec<String>,
    /// Files of ours with the place that they take.
    in_place_of: Vec<(PathBuf, &'static str)>,
    environment: Vec<(&'static str, PathBuf)>,
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

    /// Threads of which each keeps a connection; 128 of them in two processes unless told otherwise.
    pub fn worker() -> Self {
        Self::new(Model::Worker)
    }

    fn new(model: Model) -> Self {
        Self {
            model,
            workers: 128,
            processes: 2,
            keep_alive: true,
            modules: vec!["authz_core", "dir", "mime"],
            cgi: None,
            directives: Vec::new(),
            in_place_of: Vec::new(),
            environment: Vec::new(),
            launch: Launch::default(),
        }
    }

    /// How many requests can be handled at once: processes for prefork, threads for worker and event. All of
    /// them run from the start.
    pub fn workers(mut self, workers: u32) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// Over how many processes the models of threads spread them.
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

    /// Hands pages that end in `.php` to php-fpm (mod_proxy_fcgi), with a new connection for each
    /// request, as Apache does by itself.
    pub fn php_fpm(self, php: &RunningBackend) -> Self {
        let address = match (&php.socket, php.port) {
            (Some(socket), _) => format!("proxy:unix:{}|fcgi://php", socket.display()),
            (None, port) => format!("proxy:fcgi://127.0.0.1:{}", port.unwrap_or_default()),
        };
        let handler = format!("<FilesMatch \"\\.php$\">\n  SetHandler \"{address}\"\n</FilesMatch>");
        self.module("proxy").module("proxy_fcgi").directive(&handler)
    }

    /// Runs files that end in `.cgi` as programs.
    pub fn cgi(mut self, cgi: Cgi) -> Self {
        self.cgi = Some(cgi);
        self.module("env").module(match cgi {
            Cgi::Direct => "cgi",
            Cgi::Daemon => "cgid",
        })
    }

    /// Hands requests below a path to another server, such as `http://127.0.0.1:8080/`, over
    /// connections that are kept.
    pub fn proxy(self, path: &str, url: &str) -> Self {
        self.module("proxy").module("proxy_http").directive(&format!("ProxyPass \"{path}\" \"{url}\""))
    }

    /// Answers HTTPS instead of HTTP, with a cache of sessions.
    pub fn tls(self, certificate: &Certificate) -> Self {
        self.module("socache_shmcb").encrypted(certificate, "SSLSessionCache shmcb:sessions(512000)")
    }

    /// The same without cache and tickets: every connection pays for a whole handshake.
    pub fn tls_without_sessions(self, certificate: &Certificate) -> Self {
        self.encrypted(certificate, "SSLSessionCache none\nSSLSessionTickets Off")
    }

    fn encrypted(mut self, certificate: &Certificate, sessions: &str) -> Self {
        self.launch.certificate = Some(certificate.clone());
        let (file, key) = (certificate.certificate(), certificate.key());
        let files = format!(
            "SSLEngine on\nSSLCertificateFile \"{}\"\nSSLCertificateKeyFile \"{}\"",
            file.display(),
            key.display()
        );
        self.module("ssl").directive(&files).directive(sessions)
    }

    /// Listens on so many ports besides: with more than one, Apache's processes take turns at
    /// accepting, by a mutex. The result says which (`more_ports`).
    pub fn more_ports(mut self, count: usize) -> Self {
        self.launch.more_ports = count;
        self
    }

    /// Logs each request into a file of the caller's, which Apache opens as root.
    pub fn custom_log(self, file: &Path) -> Self {
        let line = format!(r#"CustomLog "{}" "%h %l %u %t \"%r\" %>s %b""#, file.display());
        // Debian has mod_log_config built in.
        self.directive(&line)
    }

    /// Loads a module of Debian's, such as `rewrite`.
    pub fn module(mut self, name: &'static str) -> Self {
        if !self.modules.contains(&name) {
            self.modules.push(name);
        }
        self
    }

    /// Gives it, and what it starts, this file as /etc/resolv.conf, by a view of the file system of its
    /// own: no other program's name server changes. It takes root.
    pub fn resolver(mut self, file: &Path) -> Self {
        self.in_place_of.push((file.to_owned(), "/etc/resolv.conf"));
        self
    }

    /// Gives it this file as /etc/hosts in the same way.
    pub fn hosts(mut self, file: &Path) -> Self {
        self.in_place_of.push((file.to_owned(), "/etc/hosts"));
        self
    }

    /// Sets a variable of its environment, such as where it looks for libraries.
    pub fn environment(mut self, name: &'static str, value: &Path) -> Self {
        self.environment.push((name, value.to_owned()));
        self
    }

    /// Lines at the end of the configuration, such as `Mutex sysvsem mpm-accept`.
    pub fn directive(mut self, lines: &str) -> Self {
        self.directives.push(lines.to_owned());
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
            let mut text = self.configuration(attempt.port, attempt.dir, attempt.root);
            for port in attempt.more_ports {
                // Writing to a String cannot fail.
                let _ = writeln!(text, "Listen 127.0.0.1:{port}");
            }
            fs::write(&file, text)?;
            let mut command = with_files(&self.in_place_of);
            command.arg("-DFOREGROUND").arg("-f").arg(file);
            command.envs(self.environment.iter().map(|(name, value)| (name, value)));
            Ok(command)
        })
    }

    fn configuration(&self, port: u16, dir: &Path, root: &Path) -> String {
        let (dir, root) = (dir.display(), root.display());
        let model = match self.model {
            Model::Prefork => "prefork",
            Model::Worker => "worker",
            Model::Event => "event",
        };
        let folder = modules();
        let folder = folder.display();
        let load = |name: &&str| format!("LoadModule {name}_module {folder}/mod_{name}.so\n");
        let modules: String = self.modules.iter().map(load).collect();
        let options = if self.cgi.is_some() { "ExecCGI" } else { "None" };
        let mut text = format!(
            r#"ServerRoot "{dir}"
ServerName 127.0.0.1
Listen 127.0.0.1:{port}
ListenBacklog 1024
PidFile "{dir}/apache.pid"
DefaultRuntimeDir "{dir}"
ErrorLog "{dir}/error.log"
LoadModule mpm_{model}_module {folder}/mod_mpm_{model}.so
{modules}TypesConfig /dev/null
AddType text/html .html
AddType text/css .css
AddType text/plain .txt
AddType image/svg+xml .svg
DirectoryIndex index.html
DocumentRoot "{root}"
<Directory "/">
  Options {options}
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
            // Writing to a String cannot fail.
            let _ = writeln!(text, "User #{UNPRIVILEGED}\nGroup #{UNPRIVILEGED}");
        }
        text.push_str(if self.keep_alive { "KeepAlive On\n" } else { "KeepAlive Off\n" });
        // All workers from the start and never fewer: a number that changes under load would be a
        // second thing that the test measures.
        if self.cgi.is_some() {
            text.push_str("AddHandler cgi-script .cgi\n");
        }
        if self.cgi == Some(Cgi::Daemon) {
            let _ = writeln!(text, "ScriptSock \"{dir}/cgid.sock\"");
        }
        let (servers, workers) = match self.model {
            Model::Prefork => {
                let n = self.workers;
                let _ = write!(text, "MinSpareServers {n}\nMaxSpareServers {n}\n");
                (n, n)
            }
            Model::Worker | Model::Event => {
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
        for lines in &self.directives {
            let _ = writeln!(text, "{lines}");
        }
        text
    }
}

/// Each program takes the place of the one before, so that the server is the process that was started.
fn with_files(in_place_of: &[(PathBuf, &'static str)]) -> Command {
    if in_place_of.is_empty() {
        return Command::new(program());
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c"]);
    let mount = r#"mount --bind "$1" "$2" || exit; shift 2; "#.repeat(in_place_of.len());
    command.arg(format!(r#"{mount}exec "$@""#)).arg("sh");
    for (file, place) in in_place_of {
        command.arg(file).arg(place);
    }
    command.arg(program());
    command
}
