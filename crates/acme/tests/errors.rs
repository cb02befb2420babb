//! The manager against an authority of a script, on this machine: what it does with errors.
// scripts/test: waits

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_acme::{Answers, ChallengeCertificate, ChallengeKind, HostState, Manager, Settings};

/// What is answered: the status, fields of the head, the body.
struct Reply(u16, String, Vec<u8>);

impl Reply {
    fn json(status: u16, body: &Value) -> Self {
        Self(status, String::new(), body.to_string().into_bytes())
    }

    fn problem(status: u16, word: &str, detail: &str) -> Self {
        let kind = format!("urn:ietf:params:acme:error:{word}");
        Self::json(status, &json!({ "type": kind, "detail": detail }))
    }

    fn with(mut self, field: &str) -> Self {
        self.1 += field;
        self.1 += "\r\n";
        self
    }
}

/// A request: its path, the protected head and the payload of its JWS.
struct Request {
    path: String,
    head: Value,
    payload: Value,
}

type Script = dyn FnMut(&Request, &str) -> Option<Reply> + Send;

/// An authority that answers as a script says, and where the script says nothing as one that has no complaint.
struct Authority {
    base: String,
    /// How often each path was asked for.
    asked: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Authority {
    fn start(script: impl FnMut(&Request, &str) -> Option<Reply> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let base = format!("http://{}", listener.local_addr().expect("bound"));
        let asked = Arc::new(Mutex::new(BTreeMap::new()));
        let (of_thread, counted) = (base.clone(), Arc::clone(&asked));
        std::thread::spawn(move || {
            let mut script: Box<Script> = Box::new(script);
            for (number, socket) in listener.incoming().flatten().enumerate() {
                let _ = serve(&socket, number, &of_thread, &mut *script, &counted);
            }
        });
        Self { base, asked }
    }

    fn asked(&self, path: &str) -> u32 {
        self.asked.lock().expect("not poisoned").get(path).copied().unwrap_or(0)
    }

    fn manager(&self, storage: &Path) -> Manager {
        Manager::new(Settings {
            directory: format!("{}/dir", self.base),
            contact: vec!["mailto:a@example.test".to_owned()],
            storage: storage.to_owned(),
            ca: None,
            challenges: vec![ChallengeKind::Http01, ChallengeKind::TlsAlpn01],
            external_account: None,
        })
    }
}

fn serve(
    socket: &TcpStream,
    number: usize,
    base: &str,
    script: &mut Script,
    asked: &Mutex<BTreeMap<String, u32>>,
) -> io::Result<()> {
    let mut reader = BufReader::new(socket);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut len = 0;
    loop {
        let mut field = String::new();
        reader.read_line(&mut field)?;
        if field == "\r\n" || field.is_empty() {
            break;
        }
        if let Some(value) = field.to_ascii_lowercase().strip_prefix("content-length:") {
            len = value.trim().parse().expect("a number");
        }
    }
    let mut body = vec![0; len];
    reader.read_exact(&mut body)?;
    let jws: Value = serde_json::from_slice(&body).unwrap_or_default();
    let part = |name: &str| -> Value {
        let bytes = URL_SAFE_NO_PAD.decode(jws[name].as_str().unwrap_or_default()).expect("base64url");
        serde_json::from_slice(&bytes).unwrap_or_default()
    };
    let request = Request { head: part("protected"), payload: part("payload"), path: path.clone() };
    *asked.lock().expect("not poisoned").entry(path).or_default() += 1;
    let Reply(status, fields, body) = script(&request, base).unwrap_or_else(|| usual(&request.path, base));
    let shown = if method == "HEAD" { &[][..] } else { &body };
    let head = format!(
        "HTTP/1.1 {status} X\r\nReplay-Nonce: nonce-{number}\r\n{fields}Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut socket = socket;
    socket.write_all(&[head.as_bytes(), shown].concat())
}

fn usual(path: &str, base: &str) -> Reply {
    let order = |status: &str| json!({ "status": status, "authorizations": [format!("{base}/authz")], "finalize": format!("{base}/finalize") });
    match path {
        "/dir" => Reply::json(
            200,
            &json!({ "newNonce": format!("{base}/nonce"), "newAccount": format!("{base}/account"),
                "newOrder": format!("{base}/new-order") }),
        ),
        "/nonce" => Reply(200, String::new(), Vec::new()),
        "/account" => Reply::json(201, &json!({ "status": "valid" })).with(&format!("Location: {base}/account/1")),
        "/new-order" => Reply::json(201, &order("pending")).with(&format!("Location: {base}/order")),
        "/order" => Reply::json(200, &order("ready")),
        "/authz" => Reply::json(
            200,
            &json!({ "status": "pending", "challenges": [
                { "type": "http-01", "url": format!("{base}/chall"), "token": "token-1", "status": "pending" },
                { "type": "tls-alpn-01", "url": format!("{base}/chall"), "token": "token-2", "status": "pending" } ] }),
        ),
        _ => Reply::json(200, &json!({})),
    }
}

/// Remembers what it is asked for.
#[derive(Default)]
struct Seen {
    placed: Vec<String>,
    removed: Vec<String>,
    told: Vec<String>,
}

impl Answers for Seen {
    fn answer_http01(&mut self, token: &str, key_authorization: &str) -> io::Result<()> {
        assert!(key_authorization.starts_with(&format!("{token}.")));
        self.placed.push(format!("http {token}"));
        Ok(())
    }

    fn remove_http01(&mut self, token: &str) {
        self.removed.push(format!("http {token}"));
    }

    fn answer_tls_alpn01(&mut self, name: &str, certificate: &ChallengeCertificate) -> io::Result<()> {
        assert!(!certificate.certificate.is_empty());
        self.placed.push(format!("tls {name}"));
        Ok(())
    }

    fn remove_tls_alpn01(&mut self, name: &str) {
        self.removed.push(format!("tls {name}"));
    }

    fn install(&mut self, _names: &[&str], _file: &Path) {
        panic!("nothing was issued");
    }

    fn tell(&mut self, what: &str) {
        self.told.push(what.to_owned());
    }
}

const NAME: &str = "a.example.test";
const NOW: i64 = 1_800_000_000;

/// A turn for one name; the manager, what it asked for, and how long it wants to wait.
fn turn(authority: &Authority, storage: &Path, now: i64) -> (Manager, Seen, Duration) {
    let (mut manager, mut seen) = (authority.manager(storage), Seen::default());
    manager.set_hosts(&[NAME.to_owned()], &mut seen);
    manager.turn(now, &mut seen);
    let wait = manager.turn(now + 1, &mut seen);
    (manager, seen, wait)
}

#[test]
fn rate_limits_are_told_in_the_authoritys_words_and_waited_for() {
    let authority = Authority::start(|request, _| {
        let refused = || Reply::problem(429, "rateLimited", "too many certificates for example.test");
        (request.path == "/new-order").then(|| refused().with("Retry-After: 7200"))
    });
    let folder = tempfile::tempdir().expect("a directory");
    let (manager, seen, wait) = turn(&authority, folder.path(), NOW);
    let status = &manager.status(NOW)[0];
    let error = status.last_error.as_deref().expect("it failed");
    assert!(error.contains("too many certificates for example.test (rateLimited)"), "{error}");
    assert_eq!((status.state, status.failures), (HostState::Wanted, 1));
    assert_eq!(status.next_attempt_unix_s, NOW + 7200);
    assert!(seen.told[0].contains("the next attempt is in 2 h"), "{:?}", seen.told);
    assert_eq!(wait, Duration::from_secs(3600), "it sleeps for an hour at most");
    assert_eq!(authority.asked("/new-order"), 1);
}

#[test]
fn a_nonce_that_is_refused_is_replaced_and_never_sent_twice() {
    let mut nonces = Vec::new();
    let mut refusals = 0;
    let authority = Authority::start(move |request, _| {
        let nonce = request.head["nonce"].as_str()?.to_owned();
        assert!(!nonces.contains(&nonce), "{nonce} was sent before");
        nonces.push(nonce);
        refusals += 1;
        match request.path.as_str() {
            "/account" if refusals <= 3 => Some(Reply::problem(400, "badNonce", "that nonce is not known")),
            "/new-order" => Some(Reply::problem(403, "rejectedIdentifier", "not this one")),
            _ => None,
        }
    });
    let folder = tempfile::tempdir().expect("a directory");
    let (manager, ..) = turn(&authority, folder.path(), NOW);
    assert_eq!(authority.asked("/account"), 4);
    assert!(manager.status(NOW)[0].last_error.as_deref().is_some_and(|error| error.contains("rejectedIdentifier")));
}

#[test]
fn nonces_that_are_always_refused_come_to_an_end() {
    let authority = Authority::start(|request, _| {
        (request.path == "/account").then(|| Reply::problem(400, "badNonce", "that nonce is not known"))
    });
    let folder = tempfile::tempdir().expect("a directory");
    let (manager, ..) = turn(&authority, folder.path(), NOW);
    assert_eq!(authority.asked("/account"), 8);
    assert!(manager.status(NOW)[0].last_error.as_deref().is_some_and(|error| error.contains("badNonce")));
}

#[test]
fn an_answer_that_the_authority_does_not_find_is_removed_and_the_other_way_comes_next() {
    // The second look at the authorization finds it invalid.
    let mut looks = 0;
    let authority = Authority::start(move |request, base| {
        if request.path == "/chall" {
            assert_eq!(request.payload, json!({}), "the challenge is begun (RFC 8555 section 7.5.1)");
        }
        if request.path != "/authz" {
            return None;
        }
        looks += 1;
        let status = if looks % 2 == 0 { "invalid" } else { "pending" };
        let error = json!({ "type": "urn:ietf:params:acme:error:connection", "detail": "cannot connect" });
        let url = format!("{base}/chall");
        let challenge = |kind: &str, token: &str| json!({ "type": kind, "url": url, "token": token, "error": error });
        let challenges = [challenge("http-01", "token-1"), challenge("tls-alpn-01", "token-2")];
        Some(Reply::json(200, &json!({ "status": status, "challenges": challenges })))
    });
    let folder = tempfile::tempdir().expect("a directory");
    let (manager, seen, wait) = turn(&authority, folder.path(), NOW);
    assert_eq!((&seen.placed, &seen.removed), (&vec!["http token-1".to_owned()], &vec!["http token-1".to_owned()]));
    let error = manager.status(NOW)[0].last_error.clone().expect("it failed");
    assert!(error.contains("could not check a.example.test by http-01: cannot connect (connection)"), "{error}");
    assert!((58..=66).contains(&wait.as_secs()), "a minute: {wait:?}");
    drop(manager);
    // A restart asks for nothing before its time.
    let before = authority.asked("/new-order");
    let (manager, seen, _) = turn(&authority, folder.path(), NOW + 30);
    assert_eq!((authority.asked("/new-order"), seen.placed.len()), (before, 0));
    assert_eq!(manager.status(NOW + 30)[0].last_error.as_deref(), Some(&*error), "it is remembered");
    drop(manager);
    let (manager, seen, wait) = turn(&authority, folder.path(), NOW + 70);
    assert_eq!(seen.placed, ["tls a.example.test"]);
    assert_eq!((seen.removed.as_slice(), manager.status(NOW)[0].failures), (&["tls a.example.test".to_owned()][..], 2));
    assert!((118..=132).contains(&wait.as_secs()), "two minutes: {wait:?}");
}

#[test]
fn a_chain_that_is_none_is_not_kept() {
    let authority = Authority::start(|request, base| match request.path.as_str() {
        "/authz" => Some(Reply::json(200, &json!({ "status": "valid" }))),
        "/order" => {
            let certificate = format!("{base}/certificate");
            let order = json!({ "status": "valid", "finalize": "", "certificate": certificate });
            Some(Reply::json(200, &order))
        }
        "/certificate" => Some(Reply(200, String::new(), b"-----BEGIN CERTIFICATE-----\nAAAA\n".to_vec())),
        _ => None,
    });
    let folder = tempfile::tempdir().expect("a directory");
    let (manager, ..) = turn(&authority, folder.path(), NOW);
    let error = manager.status(NOW)[0].last_error.clone().expect("it failed");
    assert!(error.contains("cannot be used"), "{error}");
    assert!(!weir_acme::certificate_file(folder.path(), NAME).exists());
}

#[test]
fn challenges_that_may_not_be_used_are_named() {
    let authority = Authority::start(|request, base| {
        let url = format!("{base}/chall");
        let challenges = json!([{ "type": "dns-01", "url": url, "token": "t" },
            { "type": "http-01", "url": url, "token": "../../etc/passwd" }]);
        (request.path == "/authz").then(|| Reply::json(200, &json!({ "status": "pending", "challenges": challenges })))
    });
    let folder = tempfile::tempdir().expect("a directory");
    let (manager, seen, _) = turn(&authority, folder.path(), NOW);
    let error = manager.status(NOW)[0].last_error.clone().expect("it failed");
    assert!(error.contains("offers dns-01, http-01 for a.example.test"), "{error}");
    assert!(seen.placed.is_empty());
}

#[test]
fn what_is_no_directory_stops_all_names_for_a_while() {
    for (body, wanted) in [(b"<html>".to_vec(), "not in ACME"), (vec![b' '; 300 << 10], "more than 262144 bytes")] {
        let authority = Authority::start(move |_, _| Some(Reply(200, String::new(), body.clone())));
        let folder = tempfile::tempdir().expect("a directory");
        let (mut manager, mut seen) = (authority.manager(folder.path()), Seen::default());
        manager.set_hosts(&[NAME.to_owned(), "b.example.test".to_owned()], &mut seen);
        manager.turn(NOW, &mut seen);
        manager.turn(NOW + 1, &mut seen);
        let status = manager.status(NOW);
        let errors: Vec<&str> = status.iter().filter_map(|host| host.last_error.as_deref()).collect();
        assert!(errors.len() == 1 && errors[0].contains(wanted), "{errors:?}");
        assert!(status.iter().all(|host| host.failures == 0), "it is not the names' fault");
        assert!(status.iter().all(|host| host.next_attempt_unix_s >= NOW + 60), "{status:?}");
        assert_eq!(authority.asked("/dir"), 1);
    }
}

#[test]
fn an_authority_that_is_not_there_is_told() {
    let authority = Authority { base: "http://127.0.0.1:9".to_owned(), asked: Arc::default() };
    let folder = tempfile::tempdir().expect("a directory");
    let (_, seen, wait) = turn(&authority, folder.path(), NOW);
    assert!(seen.told[0].contains("cannot reach http://127.0.0.1:9/dir"), "{:?}", seen.told);
    assert!((58..=66).contains(&wait.as_secs()), "{wait:?}");
}

#[test]
fn urls_of_the_authority_lead_nowhere_else() {
    let authority = Authority::start(|request, _| {
        let directory =
            json!({ "newNonce": "http://10.0.0.1/", "newAccount": "http://10.0.0.1/", "newOrder": "file:///" });
        (request.path == "/dir").then(|| Reply::json(200, &directory))
    });
    let folder = tempfile::tempdir().expect("a directory");
    let (_, seen, _) = turn(&authority, folder.path(), NOW);
    assert!(seen.told[0].contains("http://10.0.0.1/ is no URL for ACME"), "{:?}", seen.told);
}

#[test]
fn a_second_process_waits_and_says_so_once() {
    let authority = Authority::start(|_, _| Some(Reply::problem(500, "serverInternal", "later")));
    let folder = tempfile::tempdir().expect("a directory");
    let (_first, ..) = turn(&authority, folder.path(), NOW);
    let before = authority.asked("/dir");
    let (_, seen, wait) = turn(&authority, folder.path(), NOW + 1000);
    assert_eq!((authority.asked("/dir"), wait), (before, Duration::from_secs(5)));
    assert!(seen.told.len() == 1 && seen.told[0].contains("another process"), "{:?}", seen.told);
}
