//! Tables of paths and the fields that they set, where the file that answers has another path than the request.

use crate::harness;

use harness::Site;
use weir_server::{Mistake, Options, parse_configuration};

const USERS: &[u8] = b"anna:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n";
/// Of anna, with "secret".
const ANNA: &str = "Authorization: Basic YW5uYTpzZWNyZXQ=\r\n";

fn serve(files: &[(&str, &[u8])], text: &str) -> Site {
    Site::start(files, |options| {
        let (folder, listen) = (options.root.clone(), options.listen.clone());
        *options = parse_configuration(text, &folder).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        options.listen = listen;
        options.loops = 1;
    })
}

const FILES: &[(&str, &[u8])] = &[
    ("users", USERS),
    ("page.html", b"own page"),
    ("site/index.php", b"<?php secret"),
    ("site/admin/index.html", b"for some"),
    ("site/gone/index.html", b"gone"),
    ("site/moved/index.html", b"moved"),
    ("site/home/index.html", b"home"),
    ("site/near/index.html", b"near"),
    ("site/often/index.html", b"often"),
    ("site/list/a.txt", b"a"),
    ("site/secret/x", b"x"),
    ("site/page.shtml", b"[<!--#include virtual=\"/admin/\" -->|<!--#include virtual=\"/home/\" -->]"),
    ("docs/index.html", b"docs"),
];

const TEXT: &str = r#"
    [[host]]
    root = "site"
    index = ["index.php", "index.html"]
    error_pages = { 410 = "page.html" }
    [[host.path]]
    glob = "**.php"
    status = 404
    [[host.path]]
    exact = "/admin/index.html"
    auth = { realm = "A", users = "users" }
    [[host.path]]
    exact = "/gone/index.html"
    status = 410
    [[host.path]]
    exact = "/moved/index.html"
    redirect = "/elsewhere$query"
    [[host.path]]
    exact = "/home/index.html"
    redirect = "/home/"
    [[host.path]]
    exact = "/near/index.html"
    allow = ["10.0.0.0/8"]
    [[host.path]]
    exact = "/often/index.html"
    rate = { requests = 1, per = "1 h", burst = 2 }
    [[host.path]]
    prefix = "/docs/"
    root = "docs"
    [[host.path]]
    prefix = "/secret/"
    status = 404
    [[host.path]]
    glob = "**.html"
    set_headers = { X-Kind = "page", Cache-Control = "max-age=60" }
"#;

#[test]
fn what_stands_for_a_directory_has_the_tables_of_its_own_path() {
    let site = serve(FILES, TEXT);
    for target in ["/", "//", "/.", "/?x", "/%2e"] {
        let reply = site.get(target);
        assert!(reply.status == 404 || reply.status == 400, "{target} {}", reply.status);
        assert!(!reply.text().contains("secret"), "{target}");
    }
    for (method, fields) in [
        ("GET", "Range: bytes=0-3\r\n"),
        ("GET", "If-None-Match: *\r\n"),
        ("GET", "If-Modified-Since: Thu, 31 Dec 2037 23:55:55 GMT\r\n"),
        ("HEAD", ""),
    ] {
        assert_eq!(site.ask(method, "/", fields).status, 404, "{method} {fields}");
        assert_eq!(site.ask(method, "/admin/", fields).status, 401, "{method} {fields}");
    }
    assert_eq!(site.get("/admin/").field("www-authenticate"), Some("Basic realm=\"A\", charset=\"UTF-8\""));
    let inside = site.ask("GET", "/admin/", ANNA);
    assert_eq!((inside.status, inside.text().as_str()), (200, "for some"));
    let gone = site.get("/gone/");
    assert_eq!((gone.status, gone.text().as_str()), (410, "own page"));
    assert_eq!(site.get("/near/").status, 403);
    assert_eq!([(); 3].map(|()| site.get("/often/").status), [200, 200, 429]);
    assert_eq!(site.get("/moved/?a").field("location"), Some("/elsewhere?a"));
    // What leads from the file to its directory would lead in a circle.
    let home = site.get("/home/");
    assert_eq!((home.status, home.text().as_str(), home.field("x-kind")), (200, "home", Some("page")));
    let docs = site.get("/docs/");
    assert_eq!((docs.text().as_str(), docs.field("cache-control")), ("docs", Some("max-age=60")));
    // No file stands for this one, so that none is judged.
    assert_eq!((site.get("/list/").status, site.get("/list/").field("x-kind")), (200, None));
    // A redirect does not tell of a directory of which nothing is told otherwise.
    assert_eq!((site.get("/secret").status, site.get("/secret/x").status, site.get("/none").status), (404, 404, 404));
    assert_eq!(site.get("/list").status, 301);
    // A part that the client may not have.
    let page = site.get("/page.shtml").text();
    assert!(page.starts_with("[[an error") && page.ends_with("|home]"), "{page}");
    let page = site.ask("GET", "/page.shtml", ANNA).text();
    assert_eq!(page, "[for some|home]");
}

#[test]
fn a_directory_that_asks_for_a_password_is_not_told_of_by_its_redirect() {
    let text =
        "[[host]]\nroot = \"site\"\n[[host.path]]\nprefix = \"/admin/\"\nauth = { realm = \"A\", users = \"users\" }";
    let site = serve(FILES, text);
    assert_eq!((site.get("/admin").status, site.get("/admin/").status), (401, 401));
    let inside = site.ask("GET", "/admin", ANNA);
    assert_eq!((inside.status, inside.field("location")), (301, Some("/admin/")));
}

#[test]
fn a_compressed_neighbour_is_not_sent_to_whom_its_tables_keep_out() {
    let files: &[(&str, &[u8])] = &[
        ("site/a.txt", b"plain"),
        ("site/a.txt.gz", b"coded"),
        ("site/b.txt", b"plain"),
        ("site/b.txt.gz", b"coded"),
        ("users", USERS),
    ];
    let text = "[[host]]\nroot = \"site\"\n[[host.path]]\nexact = \"/a.txt.gz\"\nauth = { users = \"users\" }";
    let site = serve(files, text);
    let ask = |target: &str| site.ask("GET", target, "Accept-Encoding: gzip\r\n");
    let (closed, open) = (ask("/a.txt"), ask("/b.txt"));
    assert_eq!((closed.text().as_str(), closed.field("content-encoding")), ("plain", None));
    assert_eq!((open.text().as_str(), open.field("content-encoding")), ("coded", Some("gzip")));
    assert_eq!(ask("/a.txt.gz").status, 401);
}

#[test]
fn no_table_is_about_the_server_as_a_whole() {
    let text = "[[host]]\nnames = [\"a\"]\nredirect = \"/x\"\nallow = [\"10.0.0.0/8\"]\nauth = { users = \"users\" }";
    let site = serve(FILES, text);
    for (target, expected) in [("*", 204), ("http://a", 204), ("http://a/", 403), ("/", 403)] {
        let reply = site.ask("OPTIONS", target, "");
        assert_eq!(reply.status, expected, "{target}");
        assert_eq!(reply.field("allow").is_some(), expected == 204, "{target}");
    }
    assert_eq!(site.ask("GET", "*", "").status, 400);
}

#[test]
fn errors_have_no_life_and_no_field_of_another_content() {
    let site = serve(
        FILES,
        r#"
        [[host]]
        root = "site"
        set_headers = { X-Frame-Options = "DENY", Vary = "Origin" }
        [[host.path]]
        prefix = "/list"
        set_headers = { Cache-Control = "public, max-age=31536000, immutable", Expires = "Thu, 31 Dec 2037 23:55:55 GMT", X-List = "1" }
        [[host.path]]
        exact = "/list/short"
        set_error_headers = { Cache-Control = "max-age=5" }
        [[host.path]]
        exact = "/list/down"
        status = 503
        set_headers = { Retry-After = "600", Cache-Control = "max-age=7" }
        "#,
    );
    let of = |target: &str| {
        let reply = site.get(target);
        let field = |name: &str| reply.field(name).map(str::to_owned);
        (reply.status, field("cache-control"), field("x-list"), field("x-frame-options"))
    };
    let some = |text: &str| Some(text.to_owned());
    let (life, deny, one) = (some("public, max-age=31536000, immutable"), some("DENY"), some("1"));
    assert_eq!(of("/list/a.txt"), (200, life.clone(), one.clone(), deny.clone()));
    assert_eq!(of("/list"), (301, life, one.clone(), deny.clone()));
    assert_eq!(of("/list/none"), (404, None, one.clone(), deny.clone()));
    assert_eq!(of("/list/short"), (404, some("max-age=5"), one.clone(), deny.clone()));
    assert_eq!(of("/list/down"), (503, some("max-age=7"), one, deny.clone()));
    assert_eq!(site.get("/list/down").field("retry-after"), Some("600"));
    // There is no telling which table this one would be for.
    assert_eq!(of("/x/%2e%2e/y"), (400, None, None, deny));
}

fn read(text: &str, folder: &std::path::Path) -> Result<Options, Vec<Mistake>> {
    parse_configuration(text, folder)
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    for name in ["site", "other"] {
        std::fs::create_dir(folder.path().join(name)).expect("creates");
    }
    std::fs::write(folder.path().join("users"), USERS).expect("writes");
    std::fs::write(folder.path().join("page.html"), "page").expect("writes");
    std::fs::write(folder.path().join("a.policy"), "").expect("writes");
    std::fs::write(folder.path().join("a.arm"), "Arm On\n").expect("writes");
    folder
}

#[test]
fn what_the_server_makes_itself_is_neither_set_nor_taken_out() {
    let folder = folder();
    for name in [
        "ETag",
        "Last-Modified",
        "Accept-Ranges",
        "Content-Range",
        "Content-Length",
        "Content-Encoding",
        "Transfer-Encoding",
        "Connection",
        "Location",
        "Allow",
        "WWW-Authenticate",
        "Date",
        "Age",
        "Trailer",
        "Upgrade",
    ] {
        for name in [name.to_owned(), name.to_ascii_lowercase()] {
            let text = format!("[[host]]\nroot = \"site\"\nset_headers = {{ {name} = \"x\" }}");
            let told = read(&text, folder.path()).err().unwrap_or_default();
            assert!(told.len() == 1 && told[0].line == 3 && !told[0].remedy.is_empty(), "{name} {told:?}");
        }
    }
    let removes =
        |name: &str| read(&format!("[[host]]\nroot = \"site\"\nremove_headers = [\"{name}\"]"), folder.path()).is_ok();
    for name in ["Vary", "Location", "Allow", "WWW-Authenticate", "Content-Length", "Date"] {
        assert!(!removes(name), "{name}");
    }
    assert!(removes("Server") && removes("ETag") && removes("Last-Modified"));
}

#[test]
fn what_is_seldom_meant_is_told_with_its_line() {
    let folder = folder();
    harness::certificate::make(folder.path(), "a", &["a.org"]);
    let told = |text: &str| {
        let options = read(text, folder.path()).unwrap_or_else(|mistakes| panic!("{text}\n{mistakes:#?}"));
        options.warnings.iter().map(|warning| format!("{}: {}", warning.line, warning.what)).collect::<Vec<_>>()
    };
    const HOST: &str = "[[host]]\nroot = \"site\"\n";
    const TLS: &str = "[tls]\ncertificates = [{ certificate = \"a.pem\", key = \"a.key\" }]\n";
    let path = |text: &str| format!("{HOST}[[host.path]]\n{text}\n");
    for (text, expected) in [
        (HOST.to_owned(), None),
        (path("exact = \"/a\"\nredirect = \"/a\""), Some("5: the redirect leads back to itself, as for /a")),
        (path("prefix = \"/a\"\nredirect = \"/a/b/$rest\""), Some("5: the redirect leads back")),
        (path("prefix = \"/a\"\nredirect = \"/b/$rest\""), None),
        (path("exact = \"/a\"\nredirect = \"/a/\""), None),
        (path("exact = \"/index.html\"\nredirect = \"/\""), None),
        ("[[host]]\nredirect = \"https://$host$path$query\"".to_owned(), None),
        ("[[host]]\nredirect = \"http://$host$path$query\"".to_owned(), Some("2: the redirect leads back")),
        ("[[host]]\nnames = [\"a.org\"]\nredirect = \"http://a.org:8080/x\"".to_owned(), Some("3: the redirect")),
        ("[[host]]\nnames = [\"a.org\"]\nredirect = \"http://a.org:81/x\"".to_owned(), None),
        ("[[host]]\nredirect = \"https://www.a.org$path\"".to_owned(), None),
        (format!("{TLS}[[host]]\nnames = [\"a.org\"]\nredirect = \"https://a.org$path\""), Some("5: the redirect")),
        (path("exact = \"/a\"\nstatus = 404\n[[host.path]]\nexact = \"/a\"\nstatus = 410"), Some("6: another table")),
        (path("exact = \"/a\"\nauth = { users = \"users\" }"), Some("5: passwords are sent in the clear at")),
        (format!("{TLS}{}", path("exact = \"/a\"\nauth = { users = \"users\" }")), None),
        (format!("{HOST}set_headers = {{ Strict-Transport-Security = \"max-age=1\" }}"), Some("3: Strict-Transport")),
        (format!("{TLS}[[host]]\nnames = [\"a.org\"]\nroot = \"site\""), None),
        (format!("{TLS}[[host]]\nnames = [\"b.org\"]\nroot = \"site\""), Some("2: the certificate")),
        (path("exact = \"/a\"\nauth = false"), Some("5: `auth = false` takes nothing back")),
        (format!("reserve_loops = 2\n{HOST}"), Some("1: `reserve_loops` rest")),
    ] {
        let told = told(&text);
        match expected {
            None => assert_eq!(told, Vec::<String>::new(), "{text}"),
            Some(expected) => assert!(told.iter().any(|one| one.starts_with(expected)), "{text}\n{told:#?}"),
        }
    }
    // In a circle of two tables, both are told of.
    let circle = path("exact = \"/a\"\nredirect = \"/b\"\n[[host.path]]\nexact = \"/b\"\nredirect = \"/a\"");
    assert_eq!(told(&circle).len(), 2, "{:?}", told(&circle));
}

#[test]
fn words_of_other_servers_are_answered_and_keys_are_told_once() {
    let folder = folder();
    let told = |key: &str| {
        let text = format!("[[host]]\nroot = \"site\"\n[[host.path]]\nprefix = \"/a\"\nstatus = 404\n{key} = \"x\"");
        let told = read(&text, folder.path()).err().unwrap_or_default();
        assert_eq!(told.len(), 1, "{key} {told:?}");
        told[0].to_string()
    };
    for (key, expected) in [
        ("headers", "did you mean `set_headers`?"),
        ("try_files", "write [[host.route]] with try_files"),
        ("proxy_pass", "write proxy = \"http://ADDRESS:PORT\""),
        ("fastcgi_pass", "did you mean `fastcgi`?"),
        ("cgi_bin", "or cgi = true in [[host.path]] with prefix"),
        ("fallback", "write [[host.route]] with try_files"),
        ("rewrite", "write [[host.route]] with map"),
        ("listen", "belongs in the top of the file"),
    ] {
        assert!(told(key).contains(expected), "{}", told(key));
    }
    let all = told("something_else");
    let (_, list) = all.split_once(" are: ").expect("a list");
    let mut keys: Vec<&str> = list.split(", ").collect();
    keys.sort_unstable();
    let count = keys.len();
    keys.dedup();
    assert_eq!(keys.len(), count, "{list}");
}

/// What the loops would go by, with what differs from one reading to the next taken out.
fn described(options: &Options) -> String {
    let text = format!("{options:?}");
    // Descriptors, serial numbers and random keys.
    let mut plain = String::new();
    let mut rest = text.as_str();
    while let Some(at) =
        ["fd: ", "serial: ", "k0: ", "k1: "].iter().filter_map(|key| rest.find(key).map(|at| at + key.len())).min()
    {
        plain.push_str(&rest[..at]);
        rest = rest[at..].trim_start_matches(|letter: char| letter.is_ascii_digit());
    }
    plain + rest
}

/// A table, a file with `{}` where lines of it stand, and every key of it with a value that is not its default.
const KEYS: &[(&str, &str, &[&str])] = &[
    (
        "",
        "{}\n[[host]]\nroot = \"site\"\n",
        &[
            "listen = [\"127.0.0.1:9\"]",
            "loops = 77",
            "io = \"epoll\"",
            "cache = \"1 MiB\"",
            "cached_file = \"1 KiB\"",
            "user = \"nobody\"",
            "sandbox = false",
            "releases = [\".\"]",
            "symlinks = \"never\"",
            "media_types = { xyz = \"a/b\" }",
            "compression = false",
            "includes = false",
            "arm = \"a.arm\"",
            "policy = \"a.policy\"",
            "reserve_loops = 3",
            "trusted_proxies = [\"10.0.0.0/8\"]",
            "proxy_protocol = true",
            "activity = \"act\"",
        ],
    ),
    (
        "[limits]",
        "[limits]\n{}\n[[host]]\nroot = \"site\"\n",
        &[
            "connections = 7",
            "connections_per_address = 7",
            "streams = 7",
            "handshakes = 7",
            "head = \"32 KiB\"",
            "target = \"4 KiB\"",
            "body = \"1 KiB\"",
            "ranges = 3",
            "listing_entries = 9",
        ],
    ),
    (
        "[timeouts]",
        "[timeouts]\n{}\n[[host]]\nroot = \"site\"\n",
        &[
            "head = \"3 s\"",
            "idle = \"3 s\"",
            "body = \"3 s\"",
            "stall = \"3 s\"",
            "linger = \"3 s\"",
            "stop = \"3 s\"",
            "tunnels_kept = \"3 h\"",
        ],
    ),
    (
        "[log]",
        "[log]\nfile = \"log\"\n{}\n[[host]]\nroot = \"site\"\n",
        &[
            "format = \"json\"",
            "rotate_size = \"1 MiB\"",
            "rotate_age = \"1 h\"",
            "keep = 3",
            "queries = true",
            "addresses = true",
        ],
    ),
    ("[[throttle]]", "[[throttle]]\npath = \"/a\"\n{}\n[[host]]\nroot = \"site\"\n", &["running = 3", "queue = 3"]),
    (
        "[[throttle]]",
        "[[throttle]]\npath = \"/a\"\nrunning = 3\nqueue = 3\n{}\n[[host]]\nroot = \"site\"\n",
        &["wait = \"3 s\""],
    ),
    ("[[throttle]]", "[[throttle]]\npath = \"/a\"\n{}\n[[host]]\nroot = \"site\"\n", &["throttle = \"3/1,4,5,6\""]),
    (
        "[[throttle]]",
        "[[throttle]]\npath = \"/a\"\nrunning = 3\n{}\n[[host]]\nroot = \"site\"\n",
        &["per_user = 1", "more_from = 4", "busy = 6", "run_after = \"1 min\"", "busy_after = \"1 min\""],
    ),
    (
        "[[throttle]]",
        "[[throttle]]\npath = \"/a\"\nrunning = 3\nmore_from = 4\n{}\n[[host]]\nroot = \"site\"\n",
        &["more_to = 5"],
    ),
    (
        "[[host]]",
        "[[host]]\n{}\n",
        &[
            "names = [\"a.org\"]",
            "root = \"site\"",
            "listing = false",
            "dot_files = true",
            "index = [\"x\"]",
            "symlinks = \"never\"",
            "media_types = { xyz = \"a/b\" }",
            "compression = false",
            "includes = false",
            "redirect = \"/x\"",
            "status = 302",
            "set_headers = { X = \"1\" }",
            "set_error_headers = { Y = \"1\" }",
            "remove_headers = [\"Server\"]",
            "error_pages = { 404 = \"page.html\" }",
            "allow = [\"10.0.0.0/8\"]",
            "deny = [\"10.1.0.0/16\"]",
            "auth = { users = \"users\" }",
            "rate = { requests = 3 }",
        ],
    ),
    (
        "[[host.path]]",
        "[[host]]\nroot = \"site\"\n[[host.path]]\n{}\n",
        &[
            "prefix = \"/a\"",
            "exact = \"/a\"",
            "glob = \"/a*\"",
            "root = \"other\"",
            "redirect = \"/x\"",
            "status = 404",
            "set_headers = { X = \"1\" }",
            "set_error_headers = { Y = \"1\" }",
            "remove_headers = [\"Server\"]",
            "error_pages = { 404 = \"page.html\" }",
            "allow = [\"10.0.0.0/8\"]",
            "deny = [\"10.1.0.0/16\"]",
            "auth = { users = \"users\" }",
            "rate = { requests = 3 }",
        ],
    ),
    (
        "[[host]]",
        "[tls]\ncertificates = [{ certificate = \"a.pem\", key = \"a.key\" }]\n[[host]]\nroot = \"site\"\n{}\n",
        &["client_ca = \"clients.pem\"", "client_certificate = \"require\""],
    ),
    (
        "[[host]]",
        "[tls]\ncertificates = [{ certificate = \"a.pem\", key = \"a.key\" }]\n[[host]]\nproxy = \"http://127.0.0.1:9\"\n\
         client_ca = \"clients.pem\"\nclient_certificate = \"ask\"\n{}\n",
        &["client_crl = \"revoked.pem\"", "client_certificate_fields = { X = \"verify\" }"],
    ),
    (
        "[[host.path]]",
        "[tls]\ncertificates = [{ certificate = \"a.pem\", key = \"a.key\" }]\n[[host]]\nproxy = \"http://127.0.0.1:9\"\n\
         client_ca = \"clients.pem\"\nclient_certificate = \"ask\"\n[[host.path]]\nprefix = \"/a\"\n{}\n",
        &["client_certificate = \"require\"", "client_certificate_fields = { X = \"verify\" }"],
    ),
    (
        "[[host]]",
        "[[host]]\n{}\n",
        &[
            "proxy = \"http://127.0.0.1:9\"",
            "fastcgi = { to = \"127.0.0.1:9\", endings = [] }",
            "scgi = \"127.0.0.1:9\"",
            "uwsgi = \"127.0.0.1:9\"",
            "names = [\"a.org\"]",
            "set_headers = { X = \"1\" }",
            "error_pages = { 502 = \"page.html\" }",
            "allow = [\"10.0.0.0/8\"]",
            "auth = { users = \"users\" }",
            "rate = { requests = 3 }",
        ],
    ),
    (
        "[[host.path]]",
        "[[host]]\nroot = \"site\"\n[[host.path]]\nprefix = \"/a\"\n{}\n",
        &[
            "proxy = \"http://127.0.0.1:9\"",
            "fastcgi = \"127.0.0.1:9\"",
            "scgi = \"127.0.0.1:9\"",
            "uwsgi = \"127.0.0.1:9\"",
            "redirect = \"/x\"",
            "status = 404",
            "set_headers = { X = \"1\" }",
            "error_pages = { 502 = \"page.html\" }",
            "allow = [\"10.0.0.0/8\"]",
            "auth = { users = \"users\" }",
            "rate = { requests = 3 }",
        ],
    ),
    ("[[host]]", "[[host]]\nproxy = \"http://127.0.0.1:9\"\n{}\n", &["cache = true"]),
    (
        "[[host.path]]",
        "[[host]]\nroot = \"site\"\n[[host.path]]\nprefix = \"/x\"\nproxy = \"http://127.0.0.1:9\"\n{}\n",
        &["cache = true"],
    ),
    (
        "proxy",
        "[[host]]\n[host.proxy]\nto = [\"http://127.0.0.1:9\", \"http://127.0.0.1:10\"]\n{}\n",
        &[
            "path = \"/b\"",
            "balance = \"round robin\"",
            "connections = 7",
            "keep = 7",
            "queue = 7",
            "queue_wait = \"3 s\"",
            "name = \"app\"",
            "timeouts = { head = \"3 s\" }",
            "retries = 1",
            "health = false",
            "host = \"a.org\"",
            "forwarded = \"both\"",
            "resolve = \"3 s\"",
            "accel = true",
            "protocol = \"2\"",
            "streams = 7",
            "send_proxy_protocol = 2",
        ],
    ),
    (
        "proxy",
        "[[host]]\n[host.proxy]\nto = [\"https://127.0.0.1:9\"]\n{}\n",
        &[
            "protocol = \"2\"",
            "streams = 7",
            "ca = \"a.pem\"",
            "server_name = \"b.org\"",
            "client_certificate = \"a.pem\"",
            "client_key = \"a.key\"",
        ],
    ),
    (
        "fastcgi",
        "[[host]]\n[host.fastcgi]\nto = [\"127.0.0.1:9\", \"127.0.0.1:10\"]\nroot = \"site\"\n{}\n",
        &[
            "balance = \"round robin\"",
            "connections = 7",
            "keep = 7",
            "queue = 7",
            "queue_wait = \"3 s\"",
            "name = \"app\"",
            "timeouts = { head = \"3 s\" }",
            "retries = 1",
            "health = false",
            "resolve = \"3 s\"",
            "endings = [\".py\"]",
            "index = \"start.php\"",
            "params = { A = \"1\" }",
            "accel = true",
            "authorization = true",
        ],
    ),
    (
        "fastcgi",
        "[[host]]\n[host.fastcgi]\nto = \"tls:127.0.0.1:9\"\nroot = \"site\"\n{}\n",
        &["ca = \"a.pem\"", "server_name = \"b.org\"", "client_certificate = \"a.pem\"", "client_key = \"a.key\""],
    ),
    (
        "fastcgi",
        "[[host]]\n[host.fastcgi]\nto = \"127.0.0.1:9\"\nroot = \"site\"\naccel = true\n{}\n",
        &["send_from = [\"other\"]"],
    ),
    (
        "fastcgi",
        "[[host]]\n[[host.path]]\nprefix = \"/a\"\n[host.path.fastcgi]\nto = \"127.0.0.1:9\"\nendings = []\n{}\n",
        &["root = \"site\"", "script_name = \"\"", "accel = true"],
    ),
    (
        "timeouts",
        "[[host]]\nproxy = { to = \"http://127.0.0.1:9\", timeouts = { {} } }\n",
        &[
            "connect = \"3 s\"",
            "send = \"3 s\"",
            "head = \"3 s\"",
            "body = \"3 s\"",
            "tunnel = \"3 s\"",
            "idle = \"3 s\"",
            "queue = \"3 s\"",
        ],
    ),
    (
        "retries",
        "[[host]]\nproxy = { to = \"http://127.0.0.1:9\", retries = { {} } }\n",
        &["again = 1", "percent = 7", "least = 7", "statuses = [503]"],
    ),
    (
        "health",
        "[[host]]\nproxy = { to = \"http://127.0.0.1:9\", health = { {} } }\n",
        &[
            "failures = 7",
            "percent = 7",
            "requests = 7",
            "window = \"3 s\"",
            "out = \"3 s\"",
            "out_max = \"30 s\"",
            "slow_start = \"3 s\"",
            "path = \"/health\"",
        ],
    ),
    (
        "health",
        "[[host]]\nproxy = { to = \"http://127.0.0.1:9\", health = { path = \"/\", {} } }\n",
        &["every = \"3 s\"", "timeout = \"2 s\"", "rise = 7", "fall = 7", "status = \"200\""],
    ),
    (
        "[[host]]",
        "[[host]]\nroot = \"site\"\n{}\n",
        &[
            "php = true",
            "rte = true",
            "isapi = true",
            "cgi = { endings = [\".cgi\"] }",
            "cgiplus = { endings = [\".cgi\"] }",
        ],
    ),
    (
        "[[host.path]]",
        "[[host]]\nroot = \"site\"\n[[host.path]]\nprefix = \"/a\"\n{}\n",
        &["php = true", "internal = true", "cgi = true", "cgiplus = true", "rte = true", "isapi = true"],
    ),
    (
        "cgi",
        "[[host]]\nroot = \"site\"\n[[host.path]]\nprefix = \"/a/\"\n[host.path.cgi]\n{}\n",
        &[
            "workers = 3",
            "workers_max = 9",
            "name = \"shop\"",
            "queue = 7",
            "as_owner = true",
            "user = \"web\"",
            "timeout = \"30 s\"",
            "slow = \"3 s\"",
            "endings = [\".x\"]",
            "env = { A = \"1\" }",
            "pass = [\"LANG\"]",
            "cpu = \"10 s\"",
            "memory = \"256 MiB\"",
            "processes = 64",
            "files = \"1 GiB\"",
            "output = \"1 GiB\"",
            "authorization = true",
            "accel = false",
            "send_from = [\"other\"]",
            "run = { \".x\" = \"/bin/sh\" }",
        ],
    ),
    (
        "cgiplus",
        "[[host]]\nroot = \"site\"\n[[host.path]]\nprefix = \"/a/\"\n[host.path.cgiplus]\n{}\n",
        &[
            "workers = 3",
            "workers_max = 9",
            "name = \"shop\"",
            "queue = 7",
            "as_owner = true",
            "user = \"web\"",
            "timeout = \"30 s\"",
            "slow = \"3 s\"",
            "endings = [\".x\"]",
            "env = { A = \"1\" }",
            "pass = [\"LANG\"]",
            "cpu = \"10 s\"",
            "memory = \"256 MiB\"",
            "processes = 64",
            "files = \"1 GiB\"",
            "output = \"1 GiB\"",
            "authorization = true",
            "accel = false",
            "send_from = [\"other\"]",
            "run = { \".x\" = \"/bin/sh\" }",
            "renew = 7",
            "idle = \"3 s\"",
            "record = \"struct\"",
        ],
    ),
    (
        "isapi",
        "[[host]]\nroot = \"site\"\n[[host.path]]\nprefix = \"/a/\"\n[host.path.isapi]\n{}\n",
        &[
            "workers = 3",
            "workers_max = 9",
            "name = \"shop\"",
            "queue = 7",
            "user = \"web\"",
            "timeout = \"30 s\"",
            "slow = \"3 s\"",
            "endings = [\".x\"]",
            "env = { A = \"1\" }",
            "pass = [\"LANG\"]",
            "cpu = \"10 s\"",
            "memory = \"256 MiB\"",
            "processes = 64",
            "files = \"1 GiB\"",
            "output = \"1 GiB\"",
            "authorization = true",
            "accel = false",
            "send_from = [\"other\"]",
            "renew = 7",
            "idle = \"3 s\"",
        ],
    ),
    (
        "rte",
        "[[host]]\nroot = \"site\"\n[host.rte]\n{}\n",
        &[
            "workers = 3",
            "workers_max = 9",
            "name = \"shop\"",
            "queue = 7",
            "as_owner = true",
            "user = \"web\"",
            "timeout = \"30 s\"",
            "slow = \"3 s\"",
            "endings = [\".pl\"]",
            "env = { A = \"1\" }",
            "pass = [\"LANG\"]",
            "cpu = \"10 s\"",
            "memory = \"256 MiB\"",
            "processes = 64",
            "files = \"1 GiB\"",
            "output = \"1 GiB\"",
            "authorization = true",
            "accel = false",
            "send_from = [\"other\"]",
            "run = { \".pl\" = \"/bin/sh\" }",
            "renew = 7",
            "idle = \"3 s\"",
        ],
    ),
    (
        "php",
        "[[host]]\nroot = \"site\"\n[host.php]\n{}\n",
        &[
            "program = \"fpm\"",
            "workers = 3",
            "workers_max = 9",
            "name = \"shop\"",
            "user = \"web\"",
            "renew = 7",
            "timeout = \"30 s\"",
            "slow = \"3 s\"",
            "ini = { memory_limit = \"64M\" }",
            "queue = 7",
            "front = false",
            "params = { A = \"1\" }",
            "authorization = true",
            "accel = false",
            "send_from = [\"other\"]",
        ],
    ),
    ("proxy", "[[host]]\n[host.proxy]\nto = \"http://127.0.0.1:9\"\naccel = true\n{}\n", &["send_from = [\"other\"]"]),
    (
        "[[host.route]]",
        "[[host]]\nroot = \"site\"\n[[host.route]]\n{}\n",
        &[
            "pass = true",
            "map = \"/b\"",
            "redirect = \"/b\"",
            "fail = 403",
            "user = \"public_html\"",
            "try_files = [\"$path\", \"/b\"]",
            "set_headers = { X = \"1\" }",
            "set_error_headers = { Y = \"1\" }",
            "remove_headers = [\"Server\"]",
            "prefix = \"/a\"",
            "exact = \"/a\"",
            "glob = \"/a*\"",
            "regex = \"^/a\"",
            "method = \"GET\"",
            "scheme = \"http\"",
            "host = \"a.org\"",
            "address = \"10.0.0.0/8\"",
            "header = { X = true }",
            "cookie = { X = true }",
            "query = { X = true }",
            "time = \"Sat\"",
            "not = { method = \"GET\" }",
            "status = [404]",
        ],
    ),
    (
        "[[host.route]]",
        "[[host]]\nroot = \"site\"\n[[host.route]]\nuser = \"public_html\"\n{}\n",
        &["cgi = true", "cgiplus = true", "rte = true"],
    ),
    (
        "[[host.route]]",
        "listen = [\"127.0.0.1:8\"]\n[tls]\ncertificates = [{ certificate = \"a.pem\", key = \"a.key\" }]\n[[host]]\nroot = \"site\"\n[[host.route]]\n{}\n",
        &["https = true"],
    ),
    (
        "[[host.path]]",
        "[[host]]\nroot = \"site\"\n[[host.path]]\nprefix = \"/a\"\nroot = \"other\"\n{}\n",
        &[
            "listing = false",
            "dot_files = true",
            "index = [\"x\"]",
            "symlinks = \"never\"",
            "media_types = { xyz = \"a/b\" }",
            "compression = false",
            "includes = false",
            "set_headers = { X = \"1\" }",
            "set_error_headers = { Y = \"1\" }",
            "remove_headers = [\"Server\"]",
            "error_pages = { 404 = \"page.html\" }",
            "allow = [\"10.0.0.0/8\"]",
            "deny = [\"10.1.0.0/16\"]",
            "auth = { users = \"users\" }",
            "rate = { requests = 3 }",
        ],
    ),
    (
        "[[host.path]]",
        "[[host]]\nroot = \"site\"\n[[host.path]]\nprefix = \"/a\"\nredirect = \"/x\"\n{}\n",
        &[
            "status = 302",
            "set_headers = { X = \"1\" }",
            "set_error_headers = { Y = \"1\" }",
            "remove_headers = [\"Server\"]",
            "allow = [\"10.0.0.0/8\"]",
            "auth = { users = \"users\" }",
            "rate = { requests = 3 }",
        ],
    ),
    (
        "[[host.path]]",
        "[[host]]\nroot = \"site\"\n[[host.path]]\nprefix = \"/a\"\nstatus = 404\n{}\n",
        &[
            "set_headers = { X = \"1\" }",
            "set_error_headers = { Y = \"1\" }",
            "remove_headers = [\"Server\"]",
            "error_pages = { 404 = \"page.html\" }",
            "allow = [\"10.0.0.0/8\"]",
            "auth = { users = \"users\" }",
            "rate = { requests = 3 }",
        ],
    ),
    (
        "[tls]",
        "listen = [\"127.0.0.1:8\"]\n[tls]\ncertificates = [{ certificate = \"a.pem\", key = \"a.key\" }]\n{}\n[[host]]\nroot = \"site\"\n",
        &["listen_clear = [\"127.0.0.1:9\"]", "listen_quic = [\"127.0.0.1:9\"]", "http3 = true"],
    ),
    (
        "[[tls.certificates]]",
        "[[tls.certificates]]\ncertificate = \"a.pem\"\nkey = \"a.key\"\n{}\n[[host]]\nroot = \"site\"\n",
        &["ocsp = \"a.der\""],
    ),
    (
        "[acme]",
        "[acme]\nagree_to_terms = true\nstorage = \"acme\"\n{}\n[[host]]\nroot = \"site\"\nnames = [\"a.org\"]\ncertificate = \"acme\"\n",
        &[
            "directory = \"letsencrypt-staging\"",
            "contact = \"admin@a.org\"",
            "ca = \"a.pem\"",
            "challenge = \"http-01\"",
            "external_account = { key_id = \"k\", key_file = \"token\" }",
        ],
    ),
    (
        "[[host]]",
        "[acme]\nagree_to_terms = true\nstorage = \"acme\"\n[[host]]\nroot = \"site\"\nnames = [\"b.org\"]\ncertificate = \"acme\"\n[[host]]\nroot = \"site\"\nnames = [\"a.org\"]\n{}\n",
        &["certificate = \"acme\""],
    ),
    (
        "[admin]",
        "[admin]\nlisten = \"unix:admin.sock\"\n{}\n[[host]]\nroot = \"site\"\n",
        &["token_file = \"token\"", "history = 77", "may = [\"stop\"]"],
    ),
    (
        "[policy]",
        "[policy]\nfile = \"a.policy\"\n{}\n[[host]]\nroot = \"site\"\n",
        &[
            "tick = \"3 s\"",
            "node = \"n1\"",
            "forecast = \"robust\"",
            "decisions = \"d\"",
            "environment = \"e\"",
            "webhook = \"http://127.0.0.1:9/\"",
        ],
    ),
    ("auth", "[[host]]\nroot = \"site\"\nauth = { users = \"users\", {} }\n", &["realm = \"A\""]),
    (
        "rate",
        "[[host]]\nroot = \"site\"\nrate = { requests = 3, {} }\n",
        &["per = \"1 h\"", "burst = 7", "ipv4_bits = 24", "ipv6_bits = 48"],
    ),
    (
        "compression",
        "compression = { {} }\n[[host]]\nroot = \"site\"\n",
        &["neighbours = false", "on_the_fly = false", "min = \"2 KiB\"", "max = \"3 MiB\""],
    ),
];

/// A file with these lines in one of its tables.
fn with(frame: &str, lines: &[&str]) -> String {
    let separator = if frame.contains("{ {} }") || frame.contains(", {} }") { ", " } else { "\n" };
    frame.replacen("{}", &lines.join(separator), 1)
}

/// A directory with what the files above name.
fn folder_for_keys() -> tempfile::TempDir {
    let folder = folder();
    harness::certificate::make_answered(folder.path(), "a", true);
    harness::certificate::make_clients(folder.path());
    let token = folder.path().join("token");
    std::fs::write(&token, "t".repeat(40)).expect("writes");
    std::fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("sets the mode");
    folder
}

/// Each key beside each other one, and alone: it changes what the server goes by, or it is told that it does not.
#[test]
fn no_key_is_passed_over_beside_another() {
    let folder = folder_for_keys();
    for (table, frame, keys) in KEYS {
        let mut taken = Vec::new();
        for one in *keys {
            let others = keys.iter().filter(|other| *other != one);
            for other in others.map(|other| vec![*other]).chain([Vec::new()]) {
                let both = with(frame, &[&[*one][..], &other].concat());
                let Ok(options) = read(&both, folder.path()) else { continue };
                taken.push(*one);
                let Ok(without) = read(&with(frame, &other), folder.path()) else { continue };
                let is_told = options.warnings.len() > without.warnings.len();
                assert!(is_told || described(&options) != described(&without), "{one} is passed over in\n{both}");
            }
        }
        for key in *keys {
            assert!(
                taken.contains(key),
                "{table} {key} is never taken: {:?}",
                read(&with(frame, &[key]), folder.path())
            );
        }
    }
}

/// The tables above have every key that there is, as the words on a wrong one tell.
#[test]
fn the_keys_that_are_tried_are_all_that_there_are() {
    let folder = folder_for_keys();
    for (table, frame, _) in KEYS {
        let text = with(frame, &["qqqqqqqqqqqq = 1"]);
        let told = read(&text, folder.path()).err().unwrap_or_default();
        let list = told.iter().find_map(|mistake| mistake.remedy.split_once(" are: "));
        let list = list.unwrap_or_else(|| panic!("{table}: no list of keys in {told:?}")).1;
        for key in list.split(", ") {
            let mut of_table = KEYS.iter().filter(|(other, ..)| other == table).flat_map(|(.., keys)| keys.iter());
            let is_tried = of_table.any(|line| line.split(" = ").next() == Some(key));
            let is_needed = frame.contains(&format!("{key} = "));
            let is_table = ["acme", "tls", "limits", "timeouts", "log", "admin", "throttle", "host", "path", "route"]
                .contains(&key);
            assert!(is_tried || is_needed || is_table, "{table} {key}");
        }
    }
}

#[test]
fn what_would_be_without_effect_is_refused() {
    const OBTAINED: &str = "names = [\"a.org\"]\ncertificate = \"acme\"";
    let folder = folder();
    let acme = |acme: &str, host: &str| {
        let acme = format!("[acme]\nagree_to_terms = true\nstorage = \"s\"\n{acme}\n");
        format!("{acme}[[host]]\nroot = \"site\"\n{host}\n")
    };
    for (text, expected) in [
        ("[[host]]\nroot = \"site\"\nredirect = \"/x\"", "leaves nothing to serve"),
        ("[[host]]\nroot = \"site\"\nstatus = 410", "leaves nothing to serve"),
        ("[[host]]\nredirect = \"https://x.org/\"\nindex = [\"a\"]", "belongs to a root"),
        ("[[host]]\nroot = \"site\"\n[[host.path]]\nexact = \"/a\"", "says nothing of its paths"),
        ("[[host]]\nroot = \"site\"\nset_headers = { X = \"1\", x = \"2\" }", "is there twice"),
        ("[[host]]\nroot = \"site\"\nset_headers = { X = \"1\" }\nremove_headers = [\"x\"]", "set and taken out"),
        ("[[host]]\nroot = \"site\"\nerror_pages = { 408 = \"page.html\" }", "408 is never answered"),
        ("compression = { on_the_fly = false, min = \"2 KiB\" }\n[[host]]\nroot = \"site\"", "`on_the_fly` is false"),
        ("[log]\nfile = \"l\"\nformat = \"%s\"\nqueries = true\n[[host]]\nroot = \"site\"", "`queries` means nothing"),
        (&acme("", "names = [\"a.org\"]"), "no host wants a certificate by ACME"),
        (&acme("", "certificate = \"acme\""), "a host that takes all names"),
        (&acme("", "names = [\"*.a.org\"]\ncertificate = \"acme\""), "no certificate for *.a.org can be obtained"),
        (&acme("", "names = [\"127.0.0.1\"]\ncertificate = \"acme\""), "no certificate for 127.0.0.1"),
        (&acme("", "names = [\"a.org\"]\ncertificate = \"a.pem\""), "\"a.pem\" is no way to a certificate"),
        (&acme("directory = \"http://a.org/\"", OBTAINED), "is no directory of ACME"),
        (&acme("contact = \"a.org\"", OBTAINED), "\"a.org\" is no address of mail"),
        (&acme("challenge = \"dns-01\"", OBTAINED), "there is no challenge \"dns-01\" here"),
        (&acme("ca = \"nowhere\"", OBTAINED), "nowhere"),
        (
            "[acme]\nstorage = \"s\"\n[[host]]\nroot = \"site\"\nnames = [\"a.org\"]\ncertificate = \"acme\"",
            "agree to its terms",
        ),
        ("[[host]]\nroot = \"site\"\nnames = [\"a.org\"]\ncertificate = \"acme\"", "nothing says from whom"),
        ("[[throttle]]\npath = \"/a\"\nrunning = 1\nwait = \"1 s\"\n[[host]]\nroot = \"site\"", "without a queue"),
        ("[[throttle]]\npath = \"/a\"\nthrottle = \"9,3\"\n[[host]]\nroot = \"site\"", "3 is smaller than 9"),
        ("[[throttle]]\npath = \"/a\"\nrunning = 9\nbusy = 3\n[[host]]\nroot = \"site\"", "3 is smaller than 9"),
        (
            "[[throttle]]\npath = \"/a\"\nrunning = 9\nqueue = 1\nbusy = 30\n[[host]]\nroot = \"site\"",
            "do not go together with WASD's numbers",
        ),
        (
            "[[throttle]]\npath = \"/a\"\nthrottle = \"9\"\nrunning = 9\n[[host]]\nroot = \"site\"",
            "`throttle` says how many run",
        ),
        (
            "[[throttle]]\npath = \"/a\"\nthrottle = \"9\"\nbusy = 9\n[[host]]\nroot = \"site\"",
            "`throttle` and `busy` say the same",
        ),
    ] {
        let told = read(text, folder.path()).err().unwrap_or_default();
        assert!(told.len() == 1 && told[0].what.contains(expected), "{text}\n{told:#?}");
    }
}

#[test]
fn over_http2_the_same_tables_hold() {
    let site = serve(FILES, TEXT);
    for (target, expected) in [("/", "404"), ("/admin/", "401"), ("/near/", "403"), ("/home/", "200")] {
        let output = std::process::Command::new("timeout")
            .args([
                "60",
                "curl",
                "-sS",
                "--http2-prior-knowledge",
                "-o",
                "/dev/null",
                "-w",
                "%{http_code} %{http_version}",
            ])
            .arg(format!("http://{}{target}", site.addr))
            .output()
            .expect("curl starts; `make deps` installs it");
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{expected} 2"), "{target}");
    }
}

#[test]
fn challenges_are_answered_before_tables_and_in_the_clear_only() {
    let challenges = weir_server::Challenges::default();
    let given = challenges.clone();
    let folder = folder();
    let text = "[[host]]\nnames = [\"a.org\"]\nredirect = \"https://a.org$path\"\n[[host]]\nroot = \"site\"\ndeny = [\"all\"]\n";
    let site = Site::start(&[], |options| {
        *options = read(text, folder.path()).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        options.listen = vec!["127.0.0.1:0".parse().expect("an address")];
        options.challenges = given;
    });
    let target = "/.well-known/acme-challenge/tok";
    assert_eq!(site.get(target).status, 403);
    challenges.answer_http01("tok", "tok.print").expect("a token");
    for host in ["a.org", "b.org", "127.0.0.1"] {
        let reply =
            site.exchange(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes());
        let reply = String::from_utf8_lossy(&reply);
        assert!(reply.starts_with("HTTP/1.1 200 ") && reply.ends_with("\r\n\r\ntok.print"), "{reply}");
    }
    assert_eq!(site.ask("POST", target, "").status, 403);
    assert_eq!(site.get("/.well-known/acme-challenge/other").status, 403);
    challenges.remove_http01("tok");
    assert_eq!(site.get(target).status, 403);
}
