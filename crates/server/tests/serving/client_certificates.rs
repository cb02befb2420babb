//! Certificates of clients: asked for by host, wanted by path, told to upstreams and programs, and never another host's.

use crate::harness::{self, Site, certificate};
use crate::upstreams::scripted::tcp;
use std::path::Path;
use std::process::Command;
use weir_server::parse_configuration;
use weir_testkit::PhpFpm;

const TLS: &str = "[tls]\ncertificates = [{ certificate = \"site.pem\", key = \"site.key\" }]\n";

/// A site that speaks TLS for a.org and b.org, with this configuration of hosts.
fn site(hosts: &str) -> Site {
    let files: &[(&str, &[u8])] = &[("a.txt", b"open"), ("staff/b.txt", b"staff"), ("asked/c.txt", b"asked")];
    let text = format!("{TLS}{hosts}");
    Site::start(files, |options| {
        let (folder, listen, io) = (options.root.clone(), options.listen.clone(), options.io);
        certificate::make(&folder, "site", &["a.org", "b.org"]);
        certificate::make_clients(&folder);
        *options = parse_configuration(&text, &folder).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        (options.listen, options.loops, options.io, options.root) = (listen, 1, io, folder);
    })
}

const BY_PATH: &str = "[[host]]\nnames = [\"a.org\"]\nroot = \".\"\nclient_ca = \"clients.pem\"\nclient_crl = \"revoked.pem\"\n\
    [[host.path]]\nprefix = \"/staff\"\nclient_certificate = \"require\"\n\
    [[host.path]]\nprefix = \"/asked\"\nclient_certificate = \"ask\"\n\
    [[host]]\nnames = [\"b.org\"]\nroot = \".\"\n";

/// What curl gets: the body and the status behind it, of each address in turn, over connections that it keeps.
fn curl(site: &Site, client: Option<&str>, words: &[&str], addresses: &[&str]) -> String {
    let port = site.addr.port();
    let folder = site.directory.path();
    let mut command = Command::new("timeout");
    command.args(["60", "curl", "-sSk", "-w", " %{http_code} %{num_connects}\n"]).args(words);
    for name in ["a.org", "b.org"] {
        command.args(["--resolve", &format!("{name}:{port}:127.0.0.1")]);
    }
    if let Some(client) = client {
        let [certificate, key] = ["pem", "key"].map(|ending| folder.join(format!("{client}.{ending}")));
        command.arg("--cert").arg(certificate).arg("--key").arg(key);
    }
    command.args(addresses.iter().map(|address| address.replace(".org/", &format!(".org:{port}/"))));
    let output = command.output().expect("curl starts; `make deps` installs it");
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_path_that_requires_a_certificate_is_closed_without_a_good_one() {
    let site = site(BY_PATH);
    for version in [&["--http1.1", "--tls-max", "1.2"][..], &["--http1.1"], &["--http2"]] {
        let get = |client, path: &str| curl(&site, client, version, &[&format!("https://a.org{path}")]);
        for client in [None, Some("client"), Some("stranger"), Some("left")] {
            assert!(get(client, "/a.txt").starts_with("open 200"), "{version:?} {client:?}");
            assert!(get(client, "/asked/c.txt").starts_with("asked 200"), "{version:?} {client:?}");
        }
        assert!(get(Some("client"), "/staff/b.txt").starts_with("staff 200"), "{version:?}");
        for (client, why) in
            [(None, "has shown none"), (Some("stranger"), "is not good"), (Some("left"), "is not good")]
        {
            let told = get(client, "/staff/b.txt");
            assert!(told.contains(" 403 ") && told.contains(why) && !told.contains("staff"), "{version:?} {told}");
            // The slash of a directory is told to no one else.
            assert!(get(client, "/staff").contains(" 403 "), "{version:?}");
        }
    }
}

#[test]
fn a_connection_of_another_host_is_misdirected() {
    let site = site(BY_PATH);
    for version in ["--http1.1", "--http2"] {
        // curl keeps to one host's connection only if it is told so.
        let other = |client, first: &str, host: &str, path: &str| {
            let host = format!("Host: {host}");
            curl(&site, client, &[version, "-H", &host], &[&format!("https://{first}{path}")])
        };
        let asked = "for another host";
        let told = other(Some("client"), "a.org", "b.org", "/a.txt");
        assert!(told.contains(" 421 ") && told.contains(asked), "{version} {told}");
        let told = other(Some("client"), "b.org", "a.org", "/staff/b.txt");
        assert!(told.contains(" 421 ") && !told.contains("staff"), "{version} {told}");
        assert!(other(None, "b.org", "a.org", "/staff/b.txt").contains(" 421 "), "{version}");
        assert!(other(None, "b.org", "a.org", "/asked/c.txt").contains(" 421 "), "{version}");
        // What needs none is for all.
        assert!(other(None, "b.org", "a.org", "/a.txt").starts_with("open 200"), "{version}");
        assert!(other(None, "a.org", "b.org", "/a.txt").starts_with("open 200"), "{version}");
    }
}

/// A session that was begun without a certificate, or for another host, brings none.
#[test]
fn a_resumed_session_has_the_certificate_that_it_began_with() {
    let site = site(BY_PATH);
    let folder = site.directory.path();
    let s_client = |name: &str, client: Option<&str>, version: &str, session: [&str; 2]| {
        let mut command = Command::new("timeout");
        command.args(["60", "openssl", "s_client", "-ign_eof", "-connect", &site.addr.to_string()]);
        command.args(["-servername", name, version, session[0]]).arg(folder.join(session[1]));
        if let Some(client) = client {
            command.arg("-cert").arg(folder.join(format!("{client}.pem")));
            command.arg("-key").arg(folder.join(format!("{client}.key")));
        }
        ask_by(command, "/staff/b.txt", "a.org")
    };
    for version in ["-tls1_2", "-tls1_3"] {
        let first = s_client("a.org", Some("client"), version, ["-sess_out", "session"]);
        assert!(first.contains("200 OK") && first.contains("New, "), "{version} {first}");
        let again = s_client("a.org", None, version, ["-sess_in", "session"]);
        assert!(again.contains("200 OK") && again.contains("Reused, "), "{version} {again}");
        // The ticket of one host is none of another.
        let other = s_client("b.org", None, version, ["-sess_in", "session"]);
        assert!(other.contains(" 421 ") && !other.contains("Reused, "), "{version} {other}");
        s_client("b.org", None, version, ["-sess_out", "session"]);
        let other = s_client("a.org", None, version, ["-sess_in", "session"]);
        assert!(other.contains(" 403 ") && !other.contains("Reused, "), "{version} {other}");
    }
}

/// Has a client of TLS ask for a path, and returns what it says.
fn ask_by(mut client: Command, path: &str, host: &str) -> String {
    use std::io::Write as _;
    use std::process::Stdio;
    client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut client = client.spawn().expect("openssl starts; `make deps` installs it");
    let mut input = client.stdin.take().expect("piped");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    input.write_all(request.as_bytes()).expect("it reads");
    let output = client.wait_with_output().expect("it ends");
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn an_upstream_is_told_by_fields_that_no_client_can_send() {
    let (addr, _) = tcp(|_, mut peer| {
        while let Some(asked) = peer.request() {
            if !peer.answer(&asked.head) {
                return;
            }
        }
    });
    let site = site(&format!(
        "[[host]]\nnames = [\"a.org\"]\nproxy = \"http://{addr}\"\nclient_ca = \"clients.pem\"\nclient_certificate = \"ask\"\n\
         client_certificate_fields = {{ X-Verify = \"verify\", X-Subject = \"subject\", X-Issuer = \"issuer\", \
         X-Print = \"fingerprint\", Client-Cert = \"certificate\" }}\n\
         [[host.path]]\nprefix = \"/not\"\nclient_certificate = \"none\"\n"
    ));
    let forged =
        ["X-Verify: SUCCESS", "x-subject: CN=root", "X_Verify: SUCCESS", "X-Issuer: me", "Client-Cert: :QQ==:"];
    for version in ["--http1.1", "--http2"] {
        let words: Vec<&str> = forged.iter().flat_map(|field| ["-H", field]).chain([version]).collect();
        let get =
            |client, path: &str| curl(&site, client, &words, &[&format!("https://a.org{path}")]).to_ascii_lowercase();
        let told = get(Some("client"), "/");
        let print = fingerprint(site.directory.path());
        for line in ["x-verify: success\r\n", "x-issuer: cn=clients\r\n", &format!("x-print: {print}\r\n")] {
            assert!(told.contains(line), "{version} {line} {told}");
        }
        assert!(told.contains("x-subject: cn=ada client,o=a\\, b,c=de\r\n"), "{version} {told}");
        assert!(told.contains("client-cert: :mii") && told.matches("client-cert").count() == 1, "{version} {told}");
        for (client, path, expected) in [
            (None, "/", "x-verify: none\r\n"),
            (Some("stranger"), "/", "x-verify: failed:"),
            (Some("client"), "/not/", "x-verify: none\r\n"),
        ] {
            let told = get(client, path);
            assert!(told.contains(expected) && told.matches("verify").count() == 1, "{version} {client:?} {told}");
            let is_silent = ["x-subject", "x-issuer", "x-print", "client-cert"].iter().all(|name| !told.contains(name));
            assert!(is_silent && !told.contains("x_verify"), "{version} {client:?} {told}");
        }
    }
}

fn fingerprint(folder: &Path) -> String {
    let mut command = Command::new("openssl");
    command.args(["x509", "-noout", "-fingerprint", "-sha256", "-in"]).arg(folder.join("client.pem"));
    let output = command.output().expect("openssl starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split('=').nth(1).unwrap_or_default().trim().replace(':', "").to_ascii_lowercase()
}

#[test]
fn a_program_is_told_by_variables_and_the_log_has_the_name() {
    let Ok(fpm) = PhpFpm::new().start() else {
        println!("skipped: php-fpm is not installed; `make deps` installs it");
        return;
    };
    let socket = fpm.socket.as_ref().expect("a socket").display().to_string();
    let site = site(&format!(
        "[log]\nfile = \"log\"\nformat = \"common\"\n[[host]]\nroot = \".\"\nclient_ca = \"clients.pem\"\n\
         client_certificate = \"ask\"\n[[host.path]]\nglob = \"**.php\"\nfastcgi = \"unix:{socket}\"\n"
    ));
    site.write(
        "a.php",
        b"<?php foreach (['VERIFY', 'S_DN', 'I_DN', 'M_SERIAL', 'FINGERPRINT', 'CERT'] as $name) {\
          echo $name, '=', $_SERVER[\"SSL_CLIENT_$name\"] ?? '-', \"\\n\"; }",
    );
    for (client, lines) in [
        (Some("client"), &["VERIFY=SUCCESS\n", "S_DN=CN=Ada client,", "CERT=-----BEGIN CERTIFICATE-----\nMII"][..]),
        (Some("stranger"), &["VERIFY=FAILED:", "S_DN=-\n", "CERT=-\n"]),
        (None, &["VERIFY=NONE\n", "S_DN=-\n", "CERT=-\n"]),
    ] {
        let told = curl(&site, client, &["-H", "SSL_CLIENT_VERIFY: SUCCESS"], &["https://a.org/a.php"]);
        assert!(lines.iter().all(|line| told.contains(line)), "{client:?} {told}");
        // Its length is not said, so that it is held before the program gets it.
        let words = ["-H", "Transfer-Encoding: chunked", "--http1.1", "-d", "body"];
        let told = curl(&site, client, &words, &["https://a.org/a.php"]);
        assert!(told.contains(lines[0]), "{client:?} {told}");
    }
    let log = site.directory.path().join("log");
    harness::wait_until(|| std::fs::read_to_string(&log).is_ok_and(|text| text.lines().count() == 6));
    let text = std::fs::read_to_string(&log).expect("a log");
    assert_eq!(text.matches(" - \"Ada client\" [").count() + text.matches(" - Ada client [").count(), 2, "{text}");
}

/// A reload asks where nothing was asked, and what was revoked meanwhile is closed within connections, too.
#[test]
fn a_reload_asks_anew() {
    let site = site("[[host]]\nnames = [\"a.org\"]\nroot = \".\"\n");
    assert!(curl(&site, None, &[], &["https://a.org/staff/b.txt"]).starts_with("staff 200"));
    let text = format!("{TLS}{BY_PATH}");
    let options = parse_configuration(&text, site.directory.path()).expect("is without mistakes");
    site.reloader.reload(options);
    harness::wait_until(|| curl(&site, None, &[], &["https://a.org/staff/b.txt"]).contains(" 403 "));
    harness::wait_until(|| curl(&site, Some("client"), &[], &["https://a.org/staff/b.txt"]).starts_with("staff 200"));
}

#[test]
fn what_has_no_effect_is_refused() {
    let folder = tempfile::tempdir().expect("a directory");
    certificate::make(folder.path(), "site", &["a.org"]);
    certificate::make_clients(folder.path());
    std::fs::write(folder.path().join("empty.pem"), "").expect("writes");
    let (ca, ask) = ("client_ca = \"clients.pem\"\n", "client_certificate = \"ask\"\n");
    let (root, proxy) = ("[[host]]\nroot = \".\"\n", "[[host]]\nproxy = \"http://127.0.0.1:9\"\n");
    let field = |field: &str| format!("{TLS}{proxy}{ca}{ask}client_certificate_fields = {{ {field} }}");
    for (text, expected) in [
        (format!("{TLS}{root}{ask}"), "does not say who issues"),
        (format!("{TLS}{root}{ca}"), "no table of the host wants"),
        (format!("{root}{ca}{ask}"), "over TLS"),
        (format!("{TLS}{root}client_certificate = \"yes\""), "\"yes\" is nothing that can be wanted"),
        (format!("{TLS}{root}{ask}client_ca = \"empty.pem\""), "holds no certificate"),
        (format!("{TLS}{root}{ask}client_ca = \"none.pem\""), "none.pem"),
        (format!("{TLS}{root}{ca}{ask}client_crl = \"clients.pem\""), "no list of revoked certificates"),
        (format!("{TLS}{root}{ca}{ask}client_certificate_fields = {{ X = \"verify\" }}"), "no upstream is told"),
        (field("Host = \"verify\""), "Host says something else"),
        (field("Content-Length = \"verify\""), "Content-Length says"),
        (field("X = \"all\""), "\"all\" is nothing that is told"),
        (field(""), "no field is named"),
    ] {
        let told = parse_configuration(&text, folder.path()).err().unwrap_or_default();
        assert!(told.len() == 1 && told[0].what.contains(expected), "{text}\n{told:#?}");
    }
}
