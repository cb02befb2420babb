//! How a server is reached, on the command line: what is kept of it in a run, what cannot be joined, and wrong usage.

use crate::support;

use std::fs;
use std::process::Output;
use support::{alone, output};
use weir_testkit::{Nginx, require};

fn words(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // Lines are broken where the terminal ends.
    (text(&output.stdout) + &text(&output.stderr)).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn wrong_usage_is_2_and_says_how_it_is_meant() {
    for (arguments, expected) in [
        (&["--ciphers", "RC4-MD5", "https://127.0.0.1/"][..], "TLS_AES_128_GCM_SHA256"),
        (&["--cert", "/no/such.pem", "https://127.0.0.1/"], "/no/such.pem"),
        (&["--tls", "1.3", "http://127.0.0.1/"], "https://"),
        (&["--pin", "sha256:0", "https://127.0.0.1/"], "openssl"),
        (&["--unix", "/s", "-6", "http://h/"], "leave their options out"),
        (&["--proxy", "ftp://h", "http://h/"], "socks5h://"),
        (&["--proxy", "http://h", "--connect-to", "h:1", "http://h/"], "--connect-to needs https:// or SOCKS"),
        (&["--resolve", "h:80", "http://h/"], "HOST:PORT:ADDRESS"),
        (&["--source", "localhost", "http://h/"], "--source"),
    ] {
        let output = output(&[&["load", "-n", "1"], arguments].concat());
        let said = words(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    let explain = output(&["explain", "--load", "http://h/", "--unix", "/s", "--port", "80"]);
    assert_eq!(explain.status.code(), Some(2));
    assert!(words(&explain).contains("load it over TCP"), "{}", words(&explain));
}

#[test]
fn a_run_over_a_unix_socket_says_that_it_cannot_be_joined() {
    let _turn = alone();
    if require::nginx().is_none() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("nginx.sock");
    let _nginx = Nginx::new().directive(&format!("listen unix:{};", socket.display())).start().expect("nginx starts");
    let [socket, run] = [socket, directory.path().join("run")].map(|path| path.display().to_string());
    let load = output(&["load", "-n", "50", "-q", "--unix", &socket, "--run", &run, "http://localhost/1k.txt"]);
    assert!(load.status.success() && words(&load).contains("200: 50"), "{}", words(&load));
    let explained = output(&["explain", &run]);
    assert!(words(&explained).contains("Unix socket"), "{}", words(&explained));
}

#[test]
fn credentials_of_a_proxy_are_in_no_run_and_no_message() {
    let _turn = alone();
    if require::nginx().is_none() {
        return;
    }
    // It answers absolute URLs as its own: proxy enough for what is kept.
    let nginx = Nginx::new().start().expect("nginx starts");
    let directory = tempfile::tempdir().expect("a directory");
    let run = directory.path().join("run");
    let name = run.display().to_string();
    for proxy in [vec!["--proxy".to_owned()], vec![]] {
        let url = format!("http://me:hidden%40@127.0.0.1:{}", nginx.port);
        let given = if proxy.is_empty() { vec![format!("--proxy={url}")] } else { vec![proxy[0].clone(), url] };
        let given: Vec<&str> = given.iter().map(String::as_str).collect();
        let end = ["--run", &name, "http://localhost/1k.txt"];
        let load = output(&[&["load", "-n", "20"][..], &given, &end].concat());
        let said = words(&load);
        assert!(load.status.success() && said.contains("through the proxy http://127.0.0.1"), "{said}");
        assert!(!said.contains("hidden"), "{said}");
        for entry in fs::read_dir(&run).expect("the run").flatten() {
            let bytes = fs::read(entry.path()).unwrap_or_default();
            assert!(!bytes.windows(6).any(|window| window == b"hidden"), "{}", entry.path().display());
        }
        fs::remove_dir_all(&run).expect("it was made");
    }
    let refused = output(&["load", "-n", "1", "--proxy", "socks5://me:hidden@127.0.0.1:1", "http://localhost/"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(!words(&refused).contains("hidden") && words(&refused).contains("socks5://127.0.0.1:1"));
}
