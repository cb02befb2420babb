//! `weir import`: the written configuration answers as the server does that it is made from.

use crate::support;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::planted::wait_for;
use support::served::Served;
use weir_testkit::{free_port, require};

/// Files of the site, and what is in them.
const SITE: &[(&str, &str)] = &[
    ("index.html", "home"),
    ("a.txt", "a"),
    ("a b.txt", "space"),
    ("dir/index.html", "dir"),
    ("new/a.txt", "new a"),
    ("new/index.html", "new"),
    ("404.html", "not here"),
    ("alias/b.txt", "b"),
    ("style.css", "s{}"),
    ("STYLE2.css", "t{}"),
    ("raw/z.css", "z"),
    (".htpasswd", "x"),
    ("private/p.txt", "p"),
    ("private/.htaccess", "Require all denied\n"),
    ("near/n.txt", "n"),
    ("secret/s.txt", "s"),
    ("hidden/x", "h"),
    (".git/config", "g"),
    ("README", "r"),
    ("dir/README", "r"),
    ("_htx", "h"),
    ("x.bak", "b"),
    ("index.php", "<?php echo 'php ', $_SERVER['REQUEST_URI'], ' ', $_SERVER['QUERY_STRING'];"),
    ("script.php", "<?php echo 'script';"),
];
/// A user with a password, by bcrypt.
const USERS: &str = "bob:$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC\n";
const FIELDS: [&str; 4] = ["location", "cache-control", "x-frame-options", "x-static"];

/// A server with its workers: all end with the test.
struct Ended(Child);

impl Ended {
    fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn().expect("it starts"))
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        // SAFETY: only a signal is sent, to the group that the server began.
        unsafe { libc::kill(-(self.0.id() as i32), libc::SIGKILL) };
        let _ = self.0.wait();
    }
}

/// A folder with the site, and an application that answers with the request's first line.
struct Around {
    folder: tempfile::TempDir,
    app: u16,
    port: u16,
}

impl Around {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // Servers that drop root read it as well.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(folder.path(), open).expect("permissions");
        for (name, text) in SITE {
            let path = folder.path().join("site").join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        fs::create_dir(folder.path().join("snippets")).expect("a folder");
        fs::write(folder.path().join("snippets/one.conf"), "location /snippet { return 404; }\n").expect("a file");
        fs::write(folder.path().join("users"), USERS).expect("a file");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let app = listener.local_addr().expect("an address").port();
        std::thread::spawn(move || listener.incoming().flatten().for_each(answer));
        Self { folder, app, port: free_port() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// One of the files of `support/imports`, with its places filled in.
    fn filled(&self, name: &str) -> String {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/imports").join(name);
        let text = fs::read_to_string(&file).expect("the file");
        let root = self.path("site").display().to_string();
        text.replace("ROOT", &root).replace("PORT", &self.port.to_string()).replace("APP", &self.app.to_string())
    }

    /// Imports a file, serves what is written, and compares the answers of both.
    fn compare(&self, name: &str, file: &Path, more: &[&str], losses: usize) {
        let out = self.path("weir.toml");
        let (file, out_name) = (file.to_str().expect("text"), out.to_str().expect("text"));
        let output = support::output(&[&["import", file, "--out", out_name], more].concat());
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(i32::from(losses > 0)), "{stderr}");
        assert_eq!(stderr.lines().count(), losses + 1, "{stderr}");
        let served = Served::start(self.folder.path(), &[], &out);
        wait_for(|| TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok());
        let mut wrong = Vec::new();
        for line in self.filled(&format!("{name}.requests")).lines() {
            let (expected, found) = (ask(self.port, line), ask(served.port, line));
            if expected != found {
                wrong.push(format!("{line}\n  {expected:?}\n  {found:?}"));
            }
        }
        assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), fs::read_to_string(&out).expect("the file"));
    }
}

/// Says what was asked.
fn answer(mut stream: TcpStream) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
    let mut head = Vec::new();
    let mut bytes = [0; 4096];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut bytes) {
            Ok(count) if count > 0 => head.extend_from_slice(&bytes[..count]),
            _ => return,
        }
    }
    let head = String::from_utf8_lossy(&head);
    let body = format!("app: {}", head.lines().next().unwrap_or_default().replace("HTTP/1.0", "HTTP/1.1"));
    let length = body.len();
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
}

/// What matters of an answer: status, fields, and the body of a success or of a page of one's own.
fn ask(port: u16, request: &str) -> (u16, BTreeMap<String, String>, String) {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
    let head = format!("{request} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("it takes the request");
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
    let fields = head.lines().skip(1).filter_map(|line| {
        let (name, value) = line.split_once(": ")?;
        let name = name.to_ascii_lowercase();
        let own = format!("http://127.0.0.1:{port}");
        let value = value.strip_prefix(&own).or_else(|| value.strip_prefix("http://127.0.0.1")).unwrap_or(value);
        FIELDS.contains(&name.as_str()).then(|| (name, value.to_owned()))
    });
    let has_body = status == 200 || body.contains("not here");
    // A body in pieces ends with their lengths, which are no content.
    let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = match body.split_once("\r\n").filter(|_| is_chunked) {
        Some((_, rest)) => rest.split("\r\n").next().unwrap_or_default(),
        None => body,
    };
    (status, fields.collect(), if has_body { body.to_owned() } else { String::new() })
}

#[test]
fn a_site_of_nginx_answers_alike() {
    if require::nginx().is_none() {
        return;
    }
    let around = Around::new();
    let folder = around.folder.path().display();
    let temporary =
        ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|of| format!("{of}_temp_path {folder}/{of};"));
    let text = format!(
        "events {{}}\npid {folder}/pid;\nhttp {{\naccess_log off;\ninclude /etc/nginx/mime.types;\n{}\n{}\n}}\n",
        temporary.concat(),
        around.filled("nginx.conf")
    );
    let file = around.path("nginx.conf");
    fs::write(&file, text).expect("a file");
    let mut command = Command::new("nginx");
    command.arg("-e").arg(around.path("errors")).arg("-c").arg(&file).args(["-g", "daemon off;"]);
    let _nginx = Ended::start(&mut command);
    // Bodies of requests have no bound of weir's.
    around.compare("nginx.conf", &file, &[], 1);
}

#[test]
fn a_site_of_caddy_answers_alike() {
    if require::program("caddy").is_none() {
        return;
    }
    let around = Around::new();
    let file = around.path("Caddyfile");
    fs::write(&file, around.filled("Caddyfile")).expect("a file");
    let mut command = Command::new("caddy");
    command.args(["run", "--adapter", "caddyfile", "--config"]).arg(&file).env("HOME", around.folder.path());
    let _caddy = Ended::start(&mut command);
    around.compare("Caddyfile", &file, &[], 1);
}

#[test]
fn an_htaccess_answers_alike() {
    if require::apache().is_none() || require::php_fpm().is_none() {
        return;
    }
    let mut around = Around::new();
    let file = around.path("site/.htaccess");
    fs::write(&file, around.filled("htaccess")).expect("a file");
    let php = weir_testkit::PhpFpm::new().start().expect("php-fpm starts");
    let root = around.path("site");
    let apache = weir_testkit::Apache::event().root(&root).php_fpm(&php);
    let apache = ["rewrite", "headers", "expires", "alias", "access_compat", "authz_host", "dir", "mime"]
        .into_iter()
        .fold(apache, weir_testkit::Apache::module);
    let allowed =
        format!("<Directory \"{}\">\nAllowOverride All\nOptions FollowSymLinks\n</Directory>", root.display());
    let apache = apache.directive(&allowed).start().expect("Apache starts");
    around.port = apache.port;
    let address = match (&php.socket, php.port) {
        (Some(socket), _) => format!("unix:{}", socket.display()),
        (None, Some(port)) => format!("127.0.0.1:{port}"),
        (None, None) => panic!("php-fpm listens nowhere"),
    };
    around.compare("htaccess", &file, &["--php", &address], 0);
}

#[test]
fn what_cannot_be_read_or_written_is_exit_status_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, out) = (folder.path().join("x.conf"), folder.path().join("weir.toml"));
    let (name, out) = (file.to_str().expect("text"), out.to_str().expect("text"));
    for (text, words) in [
        ("server {\n", "x.conf:1:8: the block is not closed"),
        ("hello\n", "add --from nginx, caddy or htaccess"),
        ("events { }\n", "there is no site in it"),
    ] {
        fs::write(&file, text).expect("a file");
        let output = support::output(&["import", name, "--out", out]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains(words), "{stderr}");
        assert!(!Path::new(out).exists(), "{stderr}");
    }
    fs::write(&file, "server { return 404; }\n").expect("a file");
    assert_eq!(support::output(&["import", name, "--out", out]).status.code(), Some(0));
    let again = support::output(&["import", name, "--out", out]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("add --force"), "{again:?}");
    assert_eq!(again.status.code(), Some(2));
    assert_eq!(support::output(&["import", name, "--out", out, "--force"]).status.code(), Some(0));
    let unfit = support::output(&["import", name, "--php", "127.0.0.1:1", "--out", "-"]);
    assert!(String::from_utf8_lossy(&unfit.stderr).contains("are for .htaccess"), "{unfit:?}");
}
