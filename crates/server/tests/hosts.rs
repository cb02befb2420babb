//! Hosts and paths of a configuration, as clients see them.

mod harness;

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
    assert!(host("status = 200").contains("200 cannot be answered just so"));
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
    assert!(path("exact = \"/a\"\nredirct = \"/b\"").contains("did you mean `redirect`?"));
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
    for name in ["shop.arm", "errors/404.html", "errors/any.html"] {
        std::fs::write(folder.path().join(name), "").expect("writes");
    }
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
    let all = all.join("\n").replace("/srv/pictures", "site");
    assert!(all.matches("\n[").count() > 6, "{all}");
    parse(&all).expect("with everything");
}
