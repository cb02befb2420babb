//! Scripts on another host: a script server with TLS, asked by `weir serve`, and what becomes of peers that are not
//! believed or go away.

use super::support::planted::wait_for;
use super::support::served::Served;
use super::support::weir;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use weir_testkit::free_port;

const HELLO: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\n\
                     echo \"$SCRIPT_NAME|$PATH_INFO|$QUERY_STRING|$APP_ENV|$LD_BIND_NOW|$(cat)\"\necho 'a word for the log' >&2\n";
const STUCK: &str = "#!/bin/sh\nexec sleep 1000\n";
const LONG: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\nhead -c 3000000 /dev/zero\n";

/// Scripts in `bin`, a file beside it, and certificates: those of the script server and of the web server, and of a
/// stranger. `none.pem` is an authority of none of these.
pub(super) fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    fs::create_dir(folder.path().join("bin")).expect("creates");
    for (name, content) in
        [("bin/hello.sh", HELLO), ("bin/stuck.sh", STUCK), ("bin/long.sh", LONG), ("secret.sh", HELLO)]
    {
        let path = folder.path().join(name);
        fs::write(&path, content).expect("writes");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("sets");
    }
    let script = "set -e
        new='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
        for authority in ca none; do
            openssl req -x509 $new -days 2 -subj /CN=$authority -keyout $authority.key -out $authority.pem
        done
        for name in scripts web; do
            openssl req $new -subj /CN=$name -keyout $name.key -out $name.csr
            printf 'basicConstraints=CA:FALSE\\nsubjectAltName=DNS:%s.test' $name > $name.ext
            openssl x509 -req -in $name.csr -extfile $name.ext -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out $name.pem
        done
        openssl req $new -subj /CN=stranger -keyout stranger.key -out stranger.csr
        printf 'basicConstraints=CA:FALSE\\nsubjectAltName=DNS:web.test' > stranger.ext
        openssl x509 -req -in stranger.csr -extfile stranger.ext -CA none.pem -CAkey none.key -CAcreateserial -days 2 -out stranger.pem";
    let made = Command::new("sh").args(["-c", script]).current_dir(folder.path()).stderr(Stdio::null()).status();
    assert!(made.expect("openssl starts; `make deps` installs it").success());
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("sets");
    folder
}

/// A script server; it ends with the test.
pub(super) struct ScriptServer {
    pub(super) child: Child,
    pub(super) port: u16,
    pub(super) said: Receiver<String>,
}

impl ScriptServer {
    pub(super) fn start(folder: &Path, more: &str, of_cgi: &str) -> Self {
        let port = free_port();
        let text = format!(
            "listen = \"127.0.0.1:{port}\"\n{more}\n[[scripts]]\nprefix = \"/cgi-bin/\"\nroot = \"bin\"\ncgi = {{ workers = 2, {of_cgi} }}\n"
        );
        fs::write(folder.join("scripts.toml"), text).expect("writes");
        let mut child = weir()
            .args(["script-server", "scripts.toml"])
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let (sender, said) = channel();
        let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(sender.send(line))));
        let server = Self { child, port, said };
        server.says("listens on");
        server
    }

    /// With TLS and certificates wanted.
    pub(super) fn secure(folder: &Path, more: &str) -> Self {
        let tls = "certificate = \"scripts.pem\"\nkey = \"scripts.key\"\nca = \"ca.pem\"\n";
        Self::start(folder, &format!("{tls}{more}"), "slow = \"0 s\"")
    }

    /// The next line with such words in it.
    pub(super) fn says(&self, words: &str) -> String {
        loop {
            let line =
                self.said.recv_timeout(Duration::from_secs(20)).unwrap_or_else(|_| panic!("no word of {words:?}"));
            eprintln!("{line}");
            if line.contains(words) {
                return line;
            }
        }
    }

    /// Ends it; its report.
    pub(super) fn end(mut self) -> String {
        // SAFETY: the call takes no pointers.
        assert_eq!(unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGTERM) }, 0);
        let report = self.says("ended: ");
        assert!(self.child.wait().expect("it ends").success());
        report
    }
}

impl Drop for ScriptServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A web server that asks a script server with these settings of TLS and connections.
pub(super) fn web(folder: &Path, port: u16, settings: &str) -> Served {
    let text = format!(
        "[[host]]\n[[host.path]]\nprefix = \"/cgi-bin/\"\n[host.path.fastcgi]\nto = \"tls:127.0.0.1:{port}\"\nendings = []\n\
         retries = false\nhealth = false\nparams = {{ APP_ENV = \"test\", LD_BIND_NOW = \"1\" }}\n{settings}\n"
    );
    fs::write(folder.join("weir.toml"), text).expect("writes");
    Served::start(folder, &["--loops", "1"], "weir.toml")
}

pub(super) const TRUSTED: &str =
    "ca = \"ca.pem\"\nclient_certificate = \"web.pem\"\nclient_key = \"web.key\"\nserver_name = \"scripts.test\"\n";

/// Status and body of an answer, whose end is that of the connection.
pub(super) fn ask(served: &Served, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", served.port)).expect("connects");
    let length = body.len();
    let request = format!("{method} {path} HTTP/1.0\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).expect("asks");
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).expect("an answer");
    let reply = String::from_utf8_lossy(&reply).into_owned();
    let status = reply.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, reply.split_once("\r\n\r\n").expect("a head").1.to_owned())
}

/// Processes that run a script of the folder.
pub(super) fn running(folder: &Path) -> usize {
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    let folder = folder.join("bin");
    all.filter(|entry| fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == folder)).count()
}

#[test]
fn scripts_on_another_host_answer_and_connections_are_reused_or_not() {
    let folder = folder();
    let scripts = ScriptServer::secure(folder.path(), "names = [\"web.test\"]\naccept = [\"APP_ENV\"]\n");
    let one_each = web(folder.path(), scripts.port, TRUSTED);
    let told = "/cgi-bin/hello.sh|/a b|q=1|test||body\n".to_owned();
    for _ in 0..3 {
        assert_eq!(ask(&one_each, "POST", "/cgi-bin/hello.sh/a%20b?q=1", "body"), (200, told.clone()));
    }
    one_each.says("a word for the log");
    assert_eq!(ask(&one_each, "GET", "/cgi-bin/long.sh", "").1.len(), 3_000_000);
    for path in ["/cgi-bin/none.sh", "/cgi-bin/", "/cgi-bin/..%2fsecret.sh", "/cgi-bin/x/..%2f..%2fsecret.sh"] {
        let status = ask(&one_each, "GET", path, "").0;
        assert!(status == 404 || status == 400, "{path} {status}");
    }
    scripts.says("leads to no script below");
    one_each.says("leads to no script below");
    drop(one_each);
    let report = scripts.end();
    assert!(report.contains(" 4 answered") && report.contains("requests without a script"), "{report}");
    // Four answers took as many connections at least; now all share one.
    let scripts = ScriptServer::secure(folder.path(), "");
    let reused = web(folder.path(), scripts.port, &format!("{TRUSTED}connections = 1\nkeep = 1\n"));
    for _ in 0..5 {
        assert_eq!(ask(&reused, "POST", "/cgi-bin/hello.sh", "x"), (200, "/cgi-bin/hello.sh|||||x\n".to_owned()));
    }
    assert_eq!(ask(&reused, "GET", "/cgi-bin/none.sh", "").0, 404);
    drop(reused);
    let report = scripts.end();
    assert!(report.contains("ended: 1 connections, 6 requests, 5 answered"), "{report}");
}

#[test]
fn peers_that_are_not_believed_get_no_script_and_both_logs_say_why() {
    let folder = folder();
    let scripts = ScriptServer::secure(folder.path(), "names = [\"web.test\"]\n");
    let of = |certificate: &str| {
        format!(
            "ca = \"ca.pem\"\nserver_name = \"scripts.test\"\nclient_certificate = \"{certificate}.pem\"\nclient_key = \"{certificate}.key\"\n"
        )
    };
    for (settings, of_web, of_scripts) in [
        (
            "ca = \"ca.pem\"\nserver_name = \"scripts.test\"\n".to_owned(),
            "it wants a client certificate",
            "it shows no certificate",
        ),
        (of("stranger"), "it wants a client certificate", "of an authority that `ca` does not hold"),
        // The certificate is good, and is not the one of a web server.
        (of("scripts"), "127.0.0.1", "its certificate is for none of `names`"),
        (
            TRUSTED.replace("ca.pem", "none.pem"),
            "of an authority that is not trusted",
            "it does not believe this server's certificate",
        ),
        (
            TRUSTED.replace("scripts.test", "other.test"),
            "not for the name other.test",
            "it does not believe this server's certificate",
        ),
    ] {
        let web = web(folder.path(), scripts.port, &settings);
        assert_eq!(ask(&web, "GET", "/cgi-bin/hello.sh", "").0, 502, "{settings}");
        web.says(of_web);
        scripts.says(of_scripts);
    }
    let report = scripts.end();
    assert!(report.contains("0 requests") && report.contains("5 connections without trust"), "{report}");
}

#[test]
fn a_script_ends_with_a_peer_that_goes_away_and_a_peer_learns_of_an_end() {
    let folder = folder();
    let scripts = ScriptServer::secure(folder.path(), "");
    let mut web = web(folder.path(), scripts.port, TRUSTED);
    let stuck = |web: &Served| {
        let mut stream = TcpStream::connect(("127.0.0.1", web.port)).expect("connects");
        stream.write_all(b"GET /cgi-bin/stuck.sh HTTP/1.1\r\nHost: a\r\n\r\n").expect("asks");
        wait_for(|| (running(folder.path()) == 1).then_some(()));
        stream
    };
    // The client of the web server goes away.
    drop(stuck(&web));
    wait_for(|| (running(folder.path()) == 0).then_some(()));
    scripts.says("its peer gave it up");
    // The web server itself is gone from one moment to the next.
    let _stream = stuck(&web);
    web.signal(libc::SIGKILL);
    web.child.wait().expect("it ends");
    wait_for(|| (running(folder.path()) == 0).then_some(()));
    scripts.says("its peer gave it up");
    // The script server is gone: the client learns of it by the status, and no script stays.
    let web = self::web(folder.path(), scripts.port, TRUSTED);
    let mut stream = stuck(&web);
    let mut scripts = scripts;
    scripts.child.kill().expect("it is there");
    scripts.child.wait().expect("it ends");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
    let mut head = [0; 12];
    stream.read_exact(&mut head).expect("an answer");
    assert_eq!(&head, b"HTTP/1.1 502");
    wait_for(|| (running(folder.path()) == 0).then_some(()));
}

/// A record of FastCGI.
fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = (content.len() as u16).to_be_bytes();
    [&[1, kind, 0, 1, high, low, 0, 0], content].concat()
}

/// A request as a peer writes it that says which file it wants.
pub(super) fn request(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut params = Vec::new();
    for (name, value) in pairs {
        params.extend([name.len() as u8, value.len() as u8]);
        params.extend(name.bytes().chain(value.bytes()));
    }
    [record(1, &[0, 1, 0, 0, 0, 0, 0, 0]), record(4, &params), record(4, b""), record(5, b"")].concat()
}

#[test]
fn connections_and_requests_have_bounds_and_files_of_a_peer_are_not_believed() {
    let folder = folder();
    let scripts = ScriptServer::start(folder.path(), "connections = 3\n", "queue = 0");
    let open = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(("127.0.0.1", scripts.port)).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
        stream.write_all(bytes).expect("asks");
        stream
    };
    // The connections before it may take a moment to end, and hold their places until then.
    let answer = |bytes: &[u8]| {
        let mut reply = Vec::new();
        wait_for(|| {
            reply.clear();
            open(bytes).read_to_end(&mut reply).ok()
        });
        String::from_utf8_lossy(&reply).into_owned()
    };
    let secret = folder.path().join("secret.sh").to_string_lossy().into_owned();
    let asked = |name| {
        request(&[("SCRIPT_FILENAME", &secret), ("SCRIPT_NAME", name), ("LD_BIND_NOW", "1"), ("QUERY_STRING", "q")])
    };
    let told = answer(&asked("/cgi-bin/hello.sh"));
    assert!(told.contains("/cgi-bin/hello.sh||q|||"), "{told}");
    for name in ["/cgi-bin/../secret.sh", "/secret.sh", ""] {
        let told = answer(&asked(name));
        assert!(told.contains("Status: 40") && !told.contains("word for the log"), "{name} {told}");
    }
    // A connection that stays; the ones before it may take a moment to end, and hold its place until then.
    let stays = |bytes: &[u8]| {
        wait_for(|| {
            let mut stream = open(bytes);
            stream.set_read_timeout(Some(Duration::from_millis(300))).expect("sets");
            let error = stream.read(&mut [0]).err()?;
            (error.kind() == std::io::ErrorKind::WouldBlock).then_some(stream)
        })
    };
    let held = [stays(&asked("/cgi-bin/stuck.sh")), stays(&asked("/cgi-bin/stuck.sh"))];
    wait_for(|| (running(folder.path()) == 2).then_some(()));
    let told = answer(&asked("/cgi-bin/hello.sh"));
    assert!(told.contains("Status: 503"), "{told}");
    // A third connection that says nothing takes the last place.
    let silent = stays(b"");
    assert_eq!(open(b"").read(&mut [0]).unwrap_or(0), 0);
    scripts.says("there are as many as `connections` allows");
    drop((held, silent));
    wait_for(|| (running(folder.path()) == 0).then_some(()));
    let told = wait_for(|| {
        let mut reply = Vec::new();
        let _ = open(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").read_to_end(&mut reply);
        scripts.said.try_iter().find(|line| line.contains("no request of FastCGI"))
    });
    assert!(told.contains("connection from 127.0.0.1"), "{told}");
    let report = scripts.end();
    for words in ["1 requests without a place", "2 requests given up", "3 requests without a script"] {
        assert!(report.contains(words), "{words} {report}");
    }
}

#[test]
fn a_script_server_without_trust_or_with_mistakes_does_not_begin() {
    let folder = folder();
    let scripts = "[[scripts]]\nprefix = \"/cgi-bin/\"\nroot = \"bin\"\ncgi = true\n";
    let tls = |key: &str| {
        format!("listen = \"127.0.0.1:0\"\ncertificate = \"scripts.pem\"\nkey = \"{key}\"\nca = \"ca.pem\"\n{scripts}")
    };
    for (text, command, code, expected) in [
        (format!("listen = \"0.0.0.0:0\"\n{scripts}"), "script-server", 1, "could run the scripts"),
        (tls("web.key"), "script-server", 1, "cannot be used with its certificate"),
        (tls("none"), "script-server", 1, "none cannot be read"),
        (tls("scripts.key"), "check", 0, "script server without mistakes"),
        (tls("scripts.key").replace("cgi =", "cgl ="), "check", 1, "did you mean `cgi`?"),
    ] {
        fs::write(folder.path().join("s.toml"), text).expect("writes");
        let output = weir().args([command, "s.toml"]).current_dir(folder.path()).output().expect("it runs");
        let told = [output.stdout, output.stderr].concat();
        let told = String::from_utf8_lossy(&told);
        assert!(output.status.code() == Some(code) && told.contains(expected), "{told}");
    }
    fs::write(folder.path().join("s.toml"), tls("scripts.key")).expect("writes");
    let output =
        weir().args(["script-server", "--check", "s.toml"]).current_dir(folder.path()).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
