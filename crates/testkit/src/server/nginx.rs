//! nginx with a configuration of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::backend::RunningBackend;
use super::certificate::Certificate;
use super::launch::Launch;
use super::running::RunningServer;
use super::start::StartError;

/// The server's program.
pub(crate) const PROGRAM: &str = "/usr/sbin/nginx";

/// Launches nginx: a master and one worker unless told otherwise, no access log.
#[derive(Debug, Clone)]
pub struct Nginx {
    workers: u32,
    keep_alive: bool,
    http2: bool,
    directives: Vec<String>,
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
        Self { workers: 1, keep_alive: true, http2: false, directives: Vec::new(), launch: Launch::default() }
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

    /// Speaks HTTP/2: chosen in the handshake over TLS, and at once (nothing else) in the clear.
    pub fn http2(mut self) -> Self {
        self.http2 = true;
        self.launch.only_listens = true;
        self
    }

    /// The directory to serve instead of the sample.
    pub fn root(mut self, root: impl Into<PathBuf>) -> Self {
        self.launch.root = Some(root.into());
        self
    }

    /// Hands pages that end in `.php` to php-fpm (fastcgi_pass), with a new connection for each
    /// request, as nginx does by itself.
    pub fn php_fpm(self, php: &RunningBackend) -> Self {
        let address = match (&php.socket, php.port) {
            (Some(socket), _) => format!("unix:{}", socket.display()),
            (None, port) => format!("127.0.0.1:{}", port.unwrap_or_default()),
        };
        let names = [
            ("SCRIPT_FILENAME", "$document_root$fastcgi_script_name"),
            ("SCRIPT_NAME", "$fastcgi_script_name"),
            ("REQUEST_METHOD", "$request_method"),
            ("REQUEST_URI", "$request_uri"),
            ("QUERY_STRING", "$query_string"),
            ("CONTENT_TYPE", "$content_type"),
            ("CONTENT_LENGTH", "$content_length"),
            ("SERVER_PROTOCOL", "$server_protocol"),
        ];
        let parameters: String = names.map(|(name, value)| format!("      fastcgi_param {name} {value};\n")).concat();
        self.directive(&format!("location ~ \\.php$ {{\n      fastcgi_pass {address};\n{parameters}    }}"))
    }

    /// Hands requests below a path to another server, such as `http://127.0.0.1:8080/`.
    pub fn proxy(self, path: &str, url: &str) -> Self {
        self.directive(&format!("location {path} {{ proxy_pass {url}; }}"))
    }

    /// Answers HTTPS instead of HTTP, with a cache of sessions.
    pub fn tls(self, certificate: &Certificate) -> Self {
        self.encrypted(certificate, "ssl_session_cache shared:sessions:1m;")
    }

    /// The same without cache and tickets: every connection pays for a whole handshake.
    pub fn tls_without_sessions(self, certificate: &Certificate) -> Self {
        self.encrypted(certificate, "ssl_session_cache off;\n    ssl_session_tickets off;")
    }

    fn encrypted(mut self, certificate: &Certificate, sessions: &str) -> Self {
        self.launch.certificate = Some(certificate.clone());
        let (file, key) = (certificate.certificate(), certificate.key());
        self.directive(&format!(
            "ssl_certificate \"{}\";\n    ssl_certificate_key \"{}\";\n    {sessions}",
            file.display(),
            key.display()
        ))
    }

    /// Lines at the end of the `server` block, such as `access_log /tmp/access.log;`.
    pub fn directive(mut self, lines: &str) -> Self {
        self.directives.push(format!("    {lines}\n"));
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
        let (ssl, directives) = (if self.launch.certificate.is_some() { " ssl" } else { "" }, self.directives.concat());
        let http2 = if self.http2 { " http2" } else { "" };
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
  http2_max_concurrent_streams 256;
  client_body_temp_path "{dir}/body";
  proxy_temp_path "{dir}/proxy";
  fastcgi_temp_path "{dir}/fastcgi";
  uwsgi_temp_path "{dir}/uwsgi";
  scgi_temp_path "{dir}/scgi";
  server {{
    listen 127.0.0.1:{port} backlog=1024{ssl}{http2};
    root "{root}";
{directives}  }}
}}
"#
        )
    }
}
