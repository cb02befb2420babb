//! Hosts and paths of a configuration, as clients see them.

use crate::harness;

use harness::{Reply, Site};
use weir_server::{Mistake, parse_configuration};

/// A server with this configuration, whose paths start at the folder that has these files.
fn serve(files: &[(&str, &[u8])], text: &str) -> Site {
    Site::start(files, |options| {
        let folder = options.root.clone();
        let listen = options.listen.clone();
        *options = parse_configuration(text, &folder).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        options.listen = listen;
        options.loops = 1;
    })
}

fn get(site: &Site, host: &str, target: &str) -> Reply {
    let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    Reply::parse(&site.exchange(request.as_bytes())).0
}

fn mistakes(text: &str) -> Vec<Mistake> {
    let folder = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(folder.path().join("site")).expect("creates");
    parse_configuration(text, folder.path()).err().unwrap_or_default()
}

#[test]
fn a_host_is_chosen_by_its_name() {
    let site = serve(
        &[("a/index.html", b"of a"), ("b/index.html", b"of b")],
        r#"
        [[host]]
        names = ["a.org", "*.a.org"]
        root = "a"
        [[host]]
        names = ["b.org"]
        root = "b"
        [[host]]
        names = ["old.org"]
        redirect = "https://b.org$path$query"
        status = 308
        "#,
    );
    for (host, expected) in [("a.org", "of a"), ("A.ORG:8080", "of a"), ("x.a.org", "of a"), ("b.org", "of b")] {
        assert_eq!(get(&site, host, "/").text(), expected, "{host}");
    }
    assert_eq!(get(&site, "a.org", "http://b.org/").text(), "of b");
    assert_eq!(get(&site, "c.org", "/").status, 421);
    let moved = get(&site, "old.org", "/x%20y/?q=1");
    assert_eq!((moved.status, moved.field("location")), (308, Some("https://b.org/x%20y/?q=1")));
}

#[test]
fn the_top_of_a_mounted_root_has_a_slash_as_every_directory() {
    let site = serve(
        &[("site/index.html", b"home"), ("docs/index.html", b"docs"), ("bare/a.txt", b"a"), ("page.shtml", b"")],
        r#"
        [[host]]
        root = "site"
        [[host.path]]
        prefix = "/docs"
        root = "docs"
        [[host.path]]
        prefix = "/some where"
        root = "bare"
        [[host.path]]
        prefix = "/slash/"
        root = "docs"
        "#,
    );
    for (target, location) in [
        ("/docs", "/docs/"),
        ("/docs?q=1&r=/", "/docs/?q=1&r=/"),
        ("//docs", "/docs/"),
        ("/some%20where", "/some%20where/"),
        ("http://any.org/docs?q", "/docs/?q"),
    ] {
        let reply = get(&site, "any.org", target);
        assert_eq!((reply.status, reply.field("location")), (301, Some(location)), "{target}");
    }
    for (target, text) in [("/docs/", "docs"), ("/docs/index.html", "docs"), ("/slash/", "docs"), ("/", "home")] {
        assert_eq!(get(&site, "any.org", target).text(), text, "{target}");
    }
    assert!(get(&site, "any.org", "/some%20where/").text().contains("a.txt"));
    assert_eq!(site.ask("HEAD", "/docs", "").status, 301);
    assert_eq!((site.ask("POST", "/docs", "").status, site.ask("OPTIONS", "/docs", "").status), (405, 204));
}

#[test]
fn tables_of_paths_hold_one_upon_the_other() {
    let site = serve(
        &[
            ("site/index.html", b"home"),
            ("site/style.css", b"css"),
            ("site/private/a.txt", b"private"),
            ("site/main.php", b"source"),
            ("pictures/sub/index.htm", b"sub"),
            ("pictures/a b.txt", b"picture"),
            ("404.html", b"<p>not here"),
            ("any.txt", b"wrong"),
        ],
        r#"
        [[host]]
        root = "site"
        set_headers = { X-A = "1", X-B = "1" }
        remove_headers = ["server"]
        error_pages = { 404 = "404.html", other = "any.txt" }
        [[host.path]]
        glob = "**.css"
        set_headers = { x-a = "2", Cache-Control = "max-age=60" }
        [[host.path]]
        prefix = "/private"
        allow = ["10.0.0.0/8"]
        [[host.path]]
        prefix = "/pictures/"
        root = "pictures"
        index = ["index.html", "index.htm"]
        [[host.path]]
        glob = "**.php"
        status = 410
        [[host.path]]
        prefix = "/old/"
        redirect = "/new/$rest"
        "#,
    );
    let home = site.get("/");
    assert_eq!((home.text().as_str(), home.field("x-a"), home.field("server")), ("home", Some("1"), None));
    let style = site.get("/style.css");
    assert_eq!(
        (style.field("x-a"), style.field("x-b"), style.field("cache-control")),
        (Some("2"), Some("1"), Some("max-age=60"))
    );
    for (target, status, text) in [
        ("/private/a.txt", 403, "wrong"),
        ("/%70rivate/a.txt", 403, "wrong"),
        ("//private/./a.txt", 403, "wrong"),
        ("/none", 404, "<p>not here"),
        ("/main.php", 410, "wrong"),
        // A path that cannot be read may be meant for any table, also for one that keeps the client out.
        ("/%2e%2e/secret", 403, "wrong"),
        ("/pictures/a%20b.txt?x", 200, "picture"),
        ("/pictures/sub/", 200, "sub"),
        ("/pictures/../private/a.txt", 403, "wrong"),
    ] {
        let reply = site.get(target);
        assert_eq!((reply.status, reply.text().as_str()), (status, text), "{target}");
        assert_eq!(reply.field("content-length"), Some(text.len().to_string().as_str()), "{target}");
    }
    assert_eq!(site.get("/none").field("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(site.ask("HEAD", "/none", "").text(), "");
    assert_eq!(site.get("/pictures/sub").field("location"), Some("/pictures/sub/"));
    assert_eq!(site.get("/old/x/y").field("location"), Some("/new/x/y"));
    // Several ranges: what stands between the parts moves with the head.
    let parts = site.ask("GET", "/style.css", "Range: bytes=0-0,2-2\r\n");
    assert_eq!((parts.status, parts.field("x-a")), (206, Some("2")));
    assert!(parts.text().contains("\r\n\r\nc\r\n--") && parts.text().contains("\r\n\r\ns\r\n--"), "{}", parts.text());
}

const USERS: &[u8] = b"# made by libxcrypt and by PHP; of \"secret\"
anna:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW
bert:$argon2id$v=19$m=64,t=1,p=1$cG80TE9LUkZqTnpTd25CQw$3+iBnaazj9CcRoElFRWsLXu57KKGLVa3E+RquYh7RBU
";

const PRIVATE: &str = r#"
    [log]
    file = "log"
    format = '%u %U %>s %v'
    [[host]]
    names = ["a", "b"]
    root = "site"
    [[host.path]]
    prefix = "/private"
    auth = { realm = "Files of Anna", users = "users" }
    [[host.path]]
    prefix = "/private/open"
    auth = false
"#;

fn basic(text: &str) -> String {
    use base64::Engine;
    format!("Authorization: Basic {}\r\n", base64::engine::general_purpose::STANDARD.encode(text))
}

#[test]
fn names_and_passwords_let_in() {
    let files: &[(&str, &[u8])] = &[
        ("site/private/a.txt", b"private"),
        ("site/private/open/b.txt", b"open"),
        ("site/c.txt", b"c"),
        ("users", USERS),
    ];
    let site = serve(files, PRIVATE);
    let ask = |credentials: &str| site.ask("GET", "/private/a.txt", &basic(credentials));
    for credentials in ["anna:secret", "bert:secret", "anna:secret"] {
        let reply = ask(credentials);
        assert_eq!((reply.status, reply.text().as_str()), (200, "private"), "{credentials}");
    }
    for credentials in ["anna:wrong", "carl:secret", "anna:", ":secret", "anna:secret "] {
        let reply = ask(credentials);
        assert_eq!(reply.status, 401, "{credentials}");
        assert_eq!(reply.field("www-authenticate"), Some("Basic realm=\"Files of Anna\", charset=\"UTF-8\""));
    }
    assert_eq!(site.get("/private/a.txt").status, 401);
    assert_eq!(site.get("/%70rivate/a.txt").status, 401);
    assert_eq!(site.ask("GET", "/private/a.txt", "Authorization: Bearer x\r\n").status, 401);
    assert_eq!(site.get("/private/open/b.txt").text(), "open");
    // Requests before and after one that waits keep their order on their connection.
    let private = format!("GET /private/a.txt HTTP/1.1\r\nHost: a\r\n{}\r\n", basic("bert:secret"));
    let wrong = format!("GET /private/a.txt HTTP/1.1\r\nHost: a\r\n{}\r\n", basic("bert:new"));
    let plain = "GET /c.txt HTTP/1.1\r\nHost: a\r\n\r\n";
    let last = "GET /c.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let answers = site.exchange(format!("{plain}{private}{plain}{wrong}{last}").as_bytes());
    let mut rest = answers.as_slice();
    for expected in [200, 200, 200, 401, 200] {
        let (reply, after) = Reply::parse(rest);
        assert_eq!(reply.status, expected);
        rest = after;
    }
    assert_eq!(rest, b"");
    let path = site.directory.path().join("log");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let log = loop {
        let log = std::fs::read_to_string(&path).expect("the log");
        if log.lines().count() == 17 {
            break log;
        }
        assert!(std::time::Instant::now() < deadline, "{log}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    assert_eq!(site.stop().auth_busy, 0);
    assert!(log.starts_with("anna /private/a.txt 200 a\nbert /private/a.txt 200 a\n"), "{log}");
    assert!(log.contains("\n- /private/a.txt 401 a\n") && log.ends_with("- /c.txt 200 a\n"), "{log}");
}

#[test]
fn a_loop_goes_on_while_a_password_is_checked() {
    // 2^12 rounds take a while on any machine.
    let slow = String::from_utf8_lossy(USERS).replace("$2y$04$", "$2y$12$");
    let site = serve(&[("site/private/a.txt", b"private"), ("site/c.txt", b"c"), ("users", slow.as_bytes())], PRIVATE);
    let mut waiting = site.connect();
    let request = format!("GET /private/a.txt HTTP/1.1\r\nHost: a\r\n{}\r\n", basic("anna:secret"));
    std::io::Write::write_all(&mut waiting, request.as_bytes()).expect("sends");
    // The only loop answers others meanwhile, as its count says: the one that waits is not among them at first.
    let mut others = 0;
    while site.counters.read().client_errors == 0 && others < 100_000 {
        assert_eq!(site.get("/c.txt").status, 200);
        others += 1;
    }
    assert!(others > 0);
    assert_eq!(harness::read_reply(&mut waiting, false).status, 401);
    assert!(site.counters.read().requests > others, "{others}");
}

#[test]
fn a_rate_holds_for_each_network() {
    let site = serve(
        &[("site/a.txt", b"a"), ("site/api/b.txt", b"b")],
        "[[host]]\nroot = \"site\"\n[[host.path]]\nprefix = \"/api/\"\nrate = { requests = 2, per = \"1 h\", burst = 5 }",
    );
    let statuses: Vec<u16> = (0..8).map(|_| site.get("/api/b.txt").status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429, 429, 429]);
    let refused = site.get("/api/b.txt");
    let seconds: u64 = refused.field("retry-after").and_then(|field| field.parse().ok()).expect("a number");
    assert!((1..=1800).contains(&seconds), "{seconds}");
    assert_eq!(site.get("/a.txt").status, 200);
    assert_eq!(site.stop().rate_refused, 4);
}

#[test]
fn a_new_configuration_takes_effect_under_load_without_a_failed_request() {
    let text = |greeting: &str| format!("[[host]]\nroot = \"site\"\nset_headers = {{ X-Greeting = \"{greeting}\" }}");
    let site = serve(&[("site/a.txt", b"hello")], &text("0"));
    let stop = std::sync::atomic::AtomicBool::new(false);
    let folder = site.directory.path().to_owned();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let (mut requests, mut newest) = (0_u64, 0_u32);
                    let mut stream = site.connect();
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        std::io::Write::write_all(&mut stream, b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n")
                            .expect("sends");
                        let reply = harness::read_reply(&mut stream, false);
                        assert_eq!((reply.status, reply.text().as_str()), (200, "hello"));
                        let greeting =
                            reply.field("x-greeting").and_then(|field| field.parse().ok()).expect("a number");
                        assert!(greeting >= newest, "{greeting} after {newest}");
                        newest = greeting;
                        requests += 1;
                    }
                    (requests, newest)
                })
            })
            .collect();
        for number in 1..=20 {
            let options = parse_configuration(&text(&number.to_string()), &folder).expect("well-formed");
            site.reloader.reload(options);
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
            while site.get("/a.txt").field("x-greeting") != Some(&number.to_string()) {
                assert!(std::time::Instant::now() < deadline, "{number} is not in use");
            }
            assert!(parse_configuration(&text("\\u0000"), &folder).is_err());
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        for client in clients {
            let (requests, newest) = client.join().expect("no failed request");
            assert!(requests > 20 && newest > 0, "{requests} {newest}");
        }
    });
    let counts = site.stop();
    assert_eq!(
        (counts.connections_broken, counts.server_errors, counts.client_errors, counts.reload_failed),
        (0, 0, 0, 0)
    );
}

const KINDS: &str = r#"
    media_types = { xyz = "chemical/x-xyz", ABC = "a/b" }
    compression = { neighbours = false }
    symlinks = "never"
    [[host]]
    root = "site"
    media_types = { abc = "a/c" }
    [[host.path]]
    prefix = "/other/"
    root = "site"
    compression = false
    includes = false
    symlinks = "within"
"#;

fn of_kinds(text: &str) -> Site {
    let page = br#"<!--#set var="a" value="b" --><!--#echo var="a" -->"#;
    let text_file = "much the same, ".repeat(1000).into_bytes();
    let files: [(&str, &[u8]); 6] = [
        ("site/a.xyz", b"x"),
        ("site/a.abc", b"x"),
        ("site/page.shtml", page),
        ("site/long.txt", &text_file),
        ("site/short.txt", b"short"),
        ("site/short.txt.gz", b"not in truth"),
    ];
    let site = serve(&files, text);
    std::os::unix::fs::symlink("short.txt", site.directory.path().join("site/link.txt")).expect("links");
    site
}

/// The coding that a path is sent in at last: what is compressed here is sent as it is until that is done.
fn coding_of(site: &Site, path: &str) -> Option<String> {
    let ask = || site.ask("GET", path, "Accept-Encoding: gzip\r\n").field("content-encoding").map(str::to_owned);
    (0..100)
        .find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            ask()
        })
        .or_else(ask)
}

#[test]
fn types_compression_includes_and_links_are_said_for_all_for_a_host_and_for_a_path() {
    let site = of_kinds(KINDS);
    let media_type = |path: &str| site.get(path).field("content-type").map(str::to_owned);
    for (path, expected) in [("/a.xyz", "chemical/x-xyz"), ("/a.abc", "a/c"), ("/other/a.abc", "a/c")] {
        assert_eq!(media_type(path).as_deref(), Some(expected), "{path}");
    }
    assert_eq!((site.get("/link.txt").status, site.get("/other/link.txt").status), (404, 200));
    assert_eq!(site.get("/page.shtml").text(), "b");
    assert!(site.get("/other/page.shtml").text().starts_with("<!--"));
    assert_eq!(coding_of(&site, "/long.txt").as_deref(), Some("gzip"));
    assert_eq!(coding_of(&site, "/short.txt"), None, "what lies beside it is not looked at");
    assert_eq!(coding_of(&site, "/other/long.txt"), None);
}

#[test]
fn what_sites_say_is_taken_up_while_the_server_runs() {
    let site = of_kinds(KINDS);
    assert_eq!((site.get("/link.txt").status, site.get("/page.shtml").text().as_str()), (404, "b"));
    let text = KINDS.replace("\"never\"", "\"within\"\nincludes = false").replace("a/c", "a/d");
    let mut options = parse_configuration(&text, site.directory.path()).expect("well-formed");
    options.listen = vec!["127.0.0.1:0".parse().expect("an address")];
    options.loops = 1;
    assert!(site.reloader.reload(options).is_empty());
    harness::wait_until(|| site.get("/link.txt").status == 200);
    assert_eq!(site.get("/a.abc").field("content-type"), Some("a/d"));
    assert!(site.get("/page.shtml").text().starts_with("<!--"));
}

#[test]
fn what_holds_only_after_a_restart_is_said() {
    let site = serve(&[("site/a.txt", b"a")], "[[host]]\nroot = \"site\"");
    let text = "loops = 7\ncache = \"1 MiB\"\n[log]\nfile = \"log\"\n[[host]]\nroot = \"site\"\n[[host.path]]\nexact = \"/x\"\nstatus = 410";
    let mut options = parse_configuration(text, site.directory.path()).expect("well-formed");
    options.listen = vec!["127.0.0.1:0".parse().expect("an address")];
    assert_eq!(site.reloader.reload(options), ["loops", "cache", "log (whether there is one)"]);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while site.get("/x").status != 410 {
        assert!(std::time::Instant::now() < deadline);
    }
}

#[test]
fn every_mistake_is_told_with_its_place_and_a_remedy() {
    let told = |text: &str| -> Vec<String> { mistakes(text).iter().map(ToString::to_string).collect() };
    let only = |text: &str| {
        let told = told(text);
        assert_eq!(told.len(), 1, "{text}: {told:#?}");
        told[0].clone()
    };
    const HOST: &str = "[[host]]\nroot = \"site\"\n";
    let host = |text: &str| only(&format!("{HOST}{text}"));
    let path = |text: &str| only(&format!("{HOST}[[host.path]]\n{text}"));
    assert_eq!(told(HOST), Vec::<String>::new());
    assert!(only("").starts_with("1:1: there is no host; add [[host]]"));
    assert_eq!(
        only(&format!("lisen = 3\n{HOST}")),
        "1:1: `lisen` is not known at the top of the file; did you mean `listen`?"
    );
    assert!(only(&format!("loops = \"2\"\n{HOST}")).starts_with("1:9: `loops` is a text, not a whole number; write"));
    assert!(only(&format!("loops = 0\n{HOST}")).ends_with("give a number from 1 to 1024"));
    assert!(only(&format!("listen = [\"a\"]\n{HOST}")).starts_with("1:11: `a` has no valid port"));
    assert!(only(&format!("cache = \"5 MB\"\n{HOST}")).starts_with("1:9: `cache` is no size"));
    assert!(only(&format!("[limits]\nhead = \"2 KiB\"\n{HOST}")).contains("`target` is more than `head`"));
    assert!(only(&format!("[log]\nformat = \"common\"\n{HOST}")).starts_with("1:1: the log has no file"));
    let tls = |text: &str| only(&format!("[tls]\n{text}\n{HOST}"));
    assert!(tls("").starts_with("1:1: there are no certificates; add certificates = [{"));
    let missing = "certificates = [{ certificate = \"none.pem\", key = \"none.key\" }]";
    assert!(tls(missing).starts_with("2:17: cannot take a certificate or key from "));
    assert!(tls("certificates = [{ certificate = \"none.pem\" }]").contains("there is no `key`"));
    assert!(only(&format!("[limits]\nconnections_per_adress = 5\n{HOST}")).contains("`connections_per_address`?"));
    assert!(only("x = \n").starts_with("1:5: "));
    assert!(only("[[host]]\nroot = \"sites\"").starts_with("2:8: "));
    assert!(only("[[host]]\nnames = [\"a.org\"]").contains("has nothing to serve"));
    assert!(
        host("names = [\"https://a.org\"]")
            .starts_with("3:10: \"https://a.org\" is no name of a host; give the name alone")
    );
    assert!(host(HOST).contains("another host takes all names"));
    assert!(host("deny = [\"10.0.0.1/8\"]").starts_with("3:9: \"10.0.0.1/8\" is no network"));
    assert!(host("error_pages = { 200 = \"x\" }").starts_with("3:17: `200` is no error"));
    assert!(host("error_pages = { 404 = \"x\" }").starts_with("3:23: "));
    assert!(host("set_headers = { Content-Length = \"1\" }").contains("leave it to the server"));
    assert!(host("set_headers = { A = \"x\\r\\nB: y\" }").contains("cannot be sent"));
    assert!(only("[[host]]\nstatus = 200").contains("200 cannot be answered just so"));
    assert!(path("status = 404").starts_with("3:1: the table does not say for which paths"));
    assert!(
        path("prefix = \"/a\"\nexact = \"/a\"\nstatus = 404")
            .starts_with("5:9: `exact` and `prefix` do not go together")
    );
    assert!(path("exact = \"a\"\nstatus = 404").contains("a path begins with /"));
    assert!(path("prefix = \"/a/../b\"\nstatus = 404").contains("without . and .."));
    assert!(path("exact = \"/a\"\nroot = \"site\"").contains("`root` stands for a prefix"));
    assert!(path("exact = \"/a\"\nlisting = true").contains("belongs to a root"));
    assert!(
        path("prefix = \"/a\"\nredirect = \"/b\"\nstatus = 404").starts_with("6:10: 404 is no status of a redirect")
    );
    assert!(path("prefix = \"/a\"\nredirect = \"/b\"\nroot = \"site\"").contains("leaves nothing to serve"));
    assert!(path("exact = \"/a\"\nredirect = \"/$rest\"").contains("this table has none"));
    assert!(host("auth = { users = \"none\" }").starts_with("3:18: "));
    assert!(host("auth = { realm = \"x\" }").contains("there are no users"));
    assert!(host("rate = { per = \"1 s\" }").contains("add requests = 10"));
    assert!(host("rate = { requests = 0 }").ends_with("give a number from 1 to 1000000"));
    let log = |text: &str| only(&format!("[log]\nfile = \"log\"\n{text}\n{HOST}"));
    assert!(log("format = \"%z\"").starts_with("3:10: the format cannot be written; there is no %z here"));
    assert!(log("format = \"commn\"").contains("there is no format"));
    assert!(log("keep = 3").starts_with("3:8: `keep` means nothing"));
    assert!(only(&format!("[log]\nfile = \"-\"\nrotate_size = \"1 MiB\"\n{HOST}")).contains("cannot be turned round"));
    assert!(path("exact = \"/a\"\nredirct = \"/b\"").contains("did you mean `redirect`?"));
    assert!(only(&format!("compresion = false\n{HOST}")).contains("did you mean `compression`?"));
    assert!(
        only(&format!("compression = 3\n{HOST}")).starts_with("1:15: `compression` is a number, not true or false")
    );
    assert!(
        only(&format!("compression = {{ min = \"2 MiB\" }}\n{HOST}")).starts_with("1:15: `min` is more than `max`")
    );
    assert!(host("compression = { level = 3 }").starts_with("3:17: `level` is not known in compression"));
    assert!(host("media_types = { xyz = \"chemical\" }").starts_with("3:23: \"chemical\" is no media type; such as"));
    assert!(host("media_types = { xyz = \"a/b\\r\\nX: y\" }").starts_with("3:23: "));
    assert!(host("media_types = { \"tar.gz\" = \"a/b\" }").starts_with("3:17: \"tar.gz\" is no ending"));
    assert!(host("includes = \"no\"").starts_with("3:12: `includes` is a text, not true or false"));
    assert!(host("symlinks = \"all\"").starts_with("3:12: \"all\" is neither never nor within"));
    assert!(host("symlinks = \"anywhere\"").contains("a confined server does not reach; add sandbox = false"));
    assert_eq!(told(&format!("sandbox = false\n{HOST}symlinks = \"anywhere\"")), Vec::<String>::new());
    assert!(path("exact = \"/a\"\nincludes = false").contains("`includes` belongs to a root"));
}

#[test]
fn the_example_is_without_mistakes_even_with_all_that_is_commented_out() {
    let folder = tempfile::tempdir().expect("a directory");
    std::fs::create_dir_all(folder.path().join("site")).expect("creates");
    let example = weir_server::EXAMPLE_CONFIGURATION;
    let parse = |text: &str| {
        parse_configuration(text, folder.path()).map(drop).map_err(|mistakes| format!("{mistakes:#?}\n{text}"))
    };
    parse(example).expect("as it is");
    std::fs::create_dir_all(folder.path().join("errors")).expect("creates");
    for name in [
        "shop.arm",
        "flood.policy",
        "errors/404.html",
        "errors/any.html",
        "users",
        "admin-token",
        "authority.pem",
        "account.mac",
    ] {
        let text = match name {
            "users" => USERS,
            "admin-token" => b"0123456789abcdef0123456789abcdef",
            _ => b"",
        };
        std::fs::write(folder.path().join(name), text).expect("writes");
    }
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(folder.path().join("admin-token"), private).expect("chmod");
    for name in ["site", "upstream-ca", "client"] {
        harness::certificate::make(folder.path(), name, &["localhost"]);
    }
    harness::certificate::make_clients(folder.path());
    // Comments that are settings: what begins with a key or a table.
    let is_setting = |line: &str| {
        let first = line.split([' ', '=']).next().unwrap_or_default();
        line.starts_with('[')
            || (line.contains(" = ")
                && !first.is_empty()
                && first.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
    };
    let all: Vec<&str> =
        example.lines().map(|line| line.strip_prefix("# ").filter(|rest| is_setting(rest)).unwrap_or(line)).collect();
    let all = all.join("\n").replace("/srv/pictures", "site").replace("/srv/releases", "site");
    assert!(all.matches("\n[").count() > 6, "{all}");
    parse(&all).expect("with everything");
}

proptest::proptest! {
    /// Like the fuzz target, on changes of the example.
    #[test]
    fn any_text_is_read_or_refused_with_places_that_are_there(
        at in 0_usize..5000,
        taken in 0_usize..40,
        put in "[\\PC\n\r\t\\[\\]\"'=.#{}0-9]{0,12}",
        keep in 0_usize..6000,
    ) {
        let example = weir_server::EXAMPLE_CONFIGURATION.replace("\n# ", "\n");
        let letters: Vec<char> = example.chars().collect();
        let at = at.min(letters.len());
        let (before, after) = (&letters[..at], &letters[(at + taken).min(letters.len())..]);
        let text: String = before.iter().copied().chain(put.chars()).chain(after.iter().copied()).take(keep.max(10)).collect();
        for mistake in parse_configuration(&text, std::path::Path::new("/nonexistent")).err().unwrap_or_default() {
            let line = text.split('\n').nth(mistake.line - 1);
            proptest::prop_assert!(line.is_some_and(|line| mistake.column <= line.chars().count() + 1), "{}", mistake);
            proptest::prop_assert!(!mistake.what.is_empty() && !mistake.remedy.is_empty(), "{}", mistake);
        }
    }
}
