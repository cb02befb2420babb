//! Routes of a configuration, as clients see them.

use crate::harness;

use harness::{Reply, Site};
use weir_server::{Mistake, Options, RouteQuestion, explain_route, parse_configuration};

/// A server with this configuration, whose paths start at the folder that has these files, and its options once more.
pub(crate) fn serve(files: &[(&str, &[u8])], text: &str) -> (Site, Options) {
    let mut again = None;
    let site = Site::start(files, |options| {
        let folder = options.root.clone();
        let listen = options.listen.clone();
        let read = || parse_configuration(text, &folder).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        again = Some(read());
        *options = read();
        options.listen = listen;
        options.loops = 1;
    });
    (site, again.expect("it was read"))
}

pub(crate) fn ask(site: &Site, method: &str, target: &str, fields: &str) -> Reply {
    let request = format!("{method} {target} HTTP/1.1\r\nHost: a.org\r\nConnection: close\r\n{fields}\r\n");
    Reply::parse(&site.exchange(request.as_bytes())).0
}

pub(crate) fn get(site: &Site, target: &str) -> Reply {
    ask(site, "GET", target, "")
}

/// Mistakes, and what is seldom meant.
fn checked(text: &str) -> (Vec<Mistake>, Vec<Mistake>) {
    let folder = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(folder.path().join("site")).expect("creates");
    match parse_configuration(text, folder.path()) {
        Ok(options) => (Vec::new(), options.warnings),
        Err(mistakes) => (mistakes, Vec::new()),
    }
}

/// A password that tables ask for: `anna:secret`.
pub(crate) const USERS: (&str, &[u8]) =
    ("users", b"anna:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n");
pub(crate) const ANNA: &str = "Authorization: Basic YW5uYTpzZWNyZXQ=\r\n";

pub(crate) const FILES: &[(&str, &[u8])] = &[
    ("site/index.html", b"home"),
    ("site/about.html", b"about"),
    ("site/new/a.txt", b"new a"),
    ("site/new/dir/index.html", b"dir"),
    ("site/secret/a.txt", b"secret"),
    ("site/app.js", b"code"),
    ("site/files/index.html", b"files"),
];

#[test]
fn routes_lead_to_other_paths() {
    let (site, _) = serve(
        FILES,
        r#"
        [[host]]
        root = "site"
        [[host.route]]
        glob = "/old/**"
        map = "/new/$1"
        [[host.route]]
        prefix = "/gone"
        fail = 410
        [[host.route]]
        regex = '^/r(?<rest>.*)$'
        redirect = "/$rest"
        status = 302
        [[host.route]]
        method = "POST"
        fail = 403
        [[host.route]]
        prefix = "/t"
        set_headers = { X-A = "1" }
        [[host.route]]
        status = [404]
        set_headers = { Cache-Control = "max-age=7" }
        [[host.route]]
        header = { X-Lang = "de*" }
        set_headers = { X-German = "1" }
        [[host.route]]
        prefix = "/t"
        try_files = ["$path", "$path.html", "/$1.html", "/index.html"]
        "#,
    );
    assert_eq!(get(&site, "/old/a.txt").text(), "new a");
    assert_eq!(get(&site, "/old/none.txt").status, 404);
    let reply = get(&site, "/old/dir?q=1");
    assert_eq!((reply.status, reply.field("location")), (301, Some("/old/dir/?q=1")));
    assert_eq!(get(&site, "/old/dir/").text(), "dir");
    assert_eq!(get(&site, "/gone/x").status, 410);
    let reply = get(&site, "/r/evil.org?q");
    assert_eq!((reply.status, reply.field("location")), (302, Some("/evil.org")));
    assert_eq!(get(&site, "/r/a%0d%0aX:%20y").field("location"), Some("/a%0D%0AX%3A%20y"));
    assert_eq!(ask(&site, "POST", "/", "Content-Length: 0\r\n").status, 403);
    let reply = get(&site, "/t/about");
    assert_eq!((reply.text().as_str(), reply.field("x-a")), ("about", Some("1")));
    assert_eq!(get(&site, "/t/anything/else").text(), "home");
    let reply = get(&site, "/none");
    assert_eq!((reply.status, reply.field("cache-control")), (404, Some("max-age=7")));
    assert_eq!(get(&site, "/about.html").field("cache-control"), None);
    let reply = ask(&site, "GET", "/about.html", "x-lang: de-DE\r\n");
    assert_eq!(reply.field("x-german"), Some("1"));
    assert!(reply.field("vary").is_some_and(|vary| vary.contains("X-Lang")));
    let reply = get(&site, "/about.html");
    assert_eq!(reply.field("x-german"), None);
    assert!(reply.field("vary").is_some_and(|vary| vary.contains("X-Lang")));
}

/// Neither the path that is asked for nor the one that a route leads to is easier to get by a route.
#[test]
fn no_route_opens_what_a_table_closes() {
    let (site, options) = serve(
        &[FILES, &[USERS]].concat(),
        r#"
        [[host]]
        root = "site"
        [[host.route]]
        prefix = "/open"
        map = "/secret/$rest"
        [[host.route]]
        prefix = "/closed"
        map = "/new/$rest"
        [[host.route]]
        prefix = "/password"
        map = "/new/$rest"
        [[host.route]]
        prefix = "/to-password"
        map = "/password-below/$rest"
        [[host.route]]
        regex = '^/up/(.*)$'
        map = "/$1"
        [[host.route]]
        prefix = "/tried"
        try_files = ["/secret/$rest", "/index.html"]
        [[host.route]]
        prefix = "/closed-away"
        redirect = "/elsewhere"
        [[host.path]]
        prefix = "/secret"
        deny = ["all"]
        [[host.path]]
        prefix = "/closed"
        deny = ["127.0.0.0/8"]
        [[host.path]]
        prefix = "/closed-away"
        deny = ["127.0.0.0/8"]
        [[host.path]]
        prefix = "/password"
        auth = { realm = "P", users = "users" }
        [[host.path]]
        prefix = "/password-below"
        auth = { realm = "Q", users = "users" }
        [[host.path]]
        glob = "**.txt"
        allow = ["all"]
        "#,
    );
    for (target, status) in [
        ("/secret", 403),
        ("/open", 403),
        ("/closed", 403),
        ("/closed-away", 403),
        ("/up/secret", 403),
        ("/up//secret", 403),
        ("/up/./secret/", 403),
        ("/tried", 200),
        ("/password/a.txt", 401),
        ("/to-password/a.txt", 401),
        ("/new/a.txt", 200),
    ] {
        assert_eq!(get(&site, target).status, status, "{target}");
        let told = explain_route(&options, &RouteQuestion::new(target)).expect("explained");
        assert_eq!(told.answer.status, Some(status), "{target} {told:#?}");
    }
    // A table that opens *.txt has the last word on its own path only.
    assert_eq!(get(&site, "/closed/a.txt").status, 200);
    assert_eq!(ask(&site, "GET", "/password/a.txt", ANNA).text(), "new a");
    assert_eq!(ask(&site, "GET", "/to-password/a.txt", ANNA).status, 404);
}

#[test]
fn routes_are_explained_as_they_are_served() {
    let (site, options) = serve(
        FILES,
        r#"
        [[host]]
        names = ["a.org"]
        root = "site"
        [[host.route]]
        prefix = "/pass"
        pass = true
        [[host.route]]
        glob = "/a/**"
        map = "/new/$1"
        [[host.route]]
        not = { method = ["GET", "HEAD"] }
        fail = 403
        [[host.route]]
        prefix = "/r"
        redirect = "https://b.org/$rest$query"
        [[host.route]]
        prefix = "/app"
        try_files = ["$path", "$path/", "/index.html", "=404"]
        [[host.route]]
        prefix = "/must"
        try_files = ["$path", "=404"]
        [[host.path]]
        prefix = "/new/x"
        status = 410
        [[host.path]]
        exact = "/index.html"
        set_headers = { X-Index = "1" }
        "#,
    );
    for target in [
        "/",
        "/about.html",
        "/pass/x",
        "/a/a.txt",
        "/a/dir",
        "/a/dir/",
        "/a/x/y",
        "/a/",
        "/r/x?q=1",
        "/app/x",
        "/app.js",
        "/must/x",
        "/files",
        "/files/",
        "/none",
        "/%2e%2e/",
        "/new/",
        "/a//a.txt",
        "/.git",
    ] {
        for method in ["GET", "HEAD", "POST", "OPTIONS"] {
            let reply = ask(&site, method, target, "");
            let mut question = RouteQuestion::new(target);
            question.method = method.to_owned();
            let told = explain_route(&options, &question).expect("explained");
            assert_eq!(told.answer.status, Some(reply.status), "{method} {target} {told:#?}");
            assert_eq!(told.answer.location.as_deref(), reply.field("location"), "{method} {target}");
        }
    }
    let told = explain_route(&options, &RouteQuestion::new("http://b.org/")).expect("explained");
    assert_eq!((told.answer.status, told.host), (Some(421), None));
    for bad in ["ftp://a.org/", "a.org", "/a b"] {
        assert!(explain_route(&options, &RouteQuestion::new(bad)).is_err(), "{bad}");
    }
    let mut question = RouteQuestion::new("/");
    question.fields = vec![("X-A".to_owned(), "1\r\nX-B: 2".to_owned())];
    assert!(explain_route(&options, &question).is_err());
}

#[test]
fn a_configuration_with_a_wrong_route_is_refused_whole() {
    let text = "[[host]]\nroot = \"site\"\n[[host.route]]\n";
    for (route, expected) in [
        ("pass = true\nfail = 403", "do not go together"),
        ("prefix = \"/a\"", "does not say what it does"),
        ("pass = false", "says nothing"),
        ("path = \"/a\"\npass = true", "how it is meant"),
        ("prefix = \"a\"\npass = true", "is no path"),
        ("regex = \"(\"\nfail = 403", "no regular expression"),
        ("regex = \"(((a{100}){100}){100})\"\nfail = 403", "no regular expression"),
        ("map = \"/x/$1\"", "cannot be used here"),
        ("prefix = \"/a\"\nmap = \"x\"", "cannot be used here"),
        ("prefix = \"/a\"\nmap = \"/../x\"", "cannot be used here"),
        ("regex = \"(.*)\"\nredirect = \"https://$1/\"", "cannot be used here"),
        ("redirect = \"//evil.org\"", "cannot be used here"),
        ("redirect = \"/x\"\nstatus = 200", "out of its bounds"),
        ("redirect = \"/x\"\nstatus = 300", "no status of a redirect"),
        ("fail = 418", "cannot be answered"),
        ("fail = 403\nstatus = 404", "status of a redirect"),
        ("fail = 403\nstatus = [404]", "is for fields of responses"),
        ("set_headers = { X = \"1\" }\nstatus = [99]", "out of its bounds"),
        ("try_files = []", "files to try"),
        ("try_files = [\"=404\"]", "is no status"),
        ("try_files = [\"/a\", \"=200\"]", "is no status"),
        ("https = true", "TLS is spoken nowhere"),
        ("user = \"../x\"", "no name of a directory"),
        ("scheme = \"ftp\"\nfail = 403", "is no scheme"),
        ("method = \"G T\"\nfail = 403", "is no method"),
        ("address = \"10.0.0.1/8\"\nfail = 403", "is no network"),
        ("time = \"8 to 5\"\nfail = 403", "no time of the week"),
        ("header = { X = 1 }\nfail = 403", "neither a pattern"),
        ("header = { \"X Y\" = true }\nfail = 403", "is no name"),
        ("not = {}\nfail = 403", "has no condition"),
        ("not = { methd = \"GET\" }\nfail = 403", "is not known"),
        ("set_headers = { Location = \"/\" }", "says how the response was made"),
        ("prefx = \"/a\"\nfail = 403", "is not known"),
    ] {
        let (mistakes, _) = checked(&format!("{text}{route}\n"));
        let is_said = mistakes.iter().any(|mistake| mistake.what.contains(expected) && mistake.line >= 3);
        assert!(is_said, "{route}: {mistakes:#?}");
        assert!(mistakes.iter().all(|mistake| !mistake.remedy.is_empty()));
    }
}

#[test]
fn what_is_seldom_meant_is_told() {
    let text = "[[host]]\nroot = \"site\"\n";
    for (routes, expected) in [
        ("[[host.route]]\npass = true\n[[host.route]]\nprefix = \"/a\"\nfail = 403\n", Some((5, "never holds"))),
        (
            "[[host.route]]\nprefix = \"/a\"\nfail = 403\n[[host.route]]\nprefix = \"/a/b\"\nmethod = \"GET\"\npass = true\n",
            Some((6, "never holds")),
        ),
        (
            "[[host.route]]\nprefix = \"/a\"\nmethod = \"GET\"\nfail = 403\n[[host.route]]\nprefix = \"/a/b\"\npass = true\n",
            None,
        ),
        // What was mapped may be for it all the same.
        (
            "[[host.route]]\nprefix = \"/a\"\nfail = 403\n[[host.route]]\nprefix = \"/b\"\nmap = \"/a/$1\"\n\
             [[host.route]]\nprefix = \"/a\"\npass = true\n",
            None,
        ),
        ("[[host.route]]\nregex = \"a\"\nfail = 403\n[[host.route]]\nregex = \"a.\"\npass = true\n", None),
        ("[[host.route]]\nprefix = \"/a\"\nredirect = \"/a/$rest\"\n", Some((3, "leads back to itself"))),
        (
            "[[host.route]]\nexact = \"/a\"\nredirect = \"/b\"\n[[host.path]]\nexact = \"/b\"\nredirect = \"/a\"\n",
            Some((3, "leads back to itself")),
        ),
        ("[[host.route]]\nexact = \"/a\"\nredirect = \"/b\"\n", None),
        (
            "[[host.route]]\nprefix = \"/a\"\nfail = 403\n[[host.path]]\nprefix = \"/a/b\"\nset_headers = { X = \"1\" }\n",
            Some((6, "never answers")),
        ),
        (
            "[[host.route]]\nprefix = \"/a\"\npass = true\n[[host.route]]\nfail = 403\n[[host.path]]\n\
             prefix = \"/a/b\"\nset_headers = { X = \"1\" }\n",
            None,
        ),
        ("[[host.route]]\nmethod = \"get\"\nfail = 403\n", Some((4, "methods have a case"))),
    ] {
        let (mistakes, warnings) = checked(&format!("{text}{routes}"));
        assert!(mistakes.is_empty(), "{routes}: {mistakes:#?}");
        match expected {
            Some((line, what)) => {
                let is_said = warnings.iter().any(|warning| warning.line == line && warning.what.contains(what));
                assert!(is_said, "{routes}: {warnings:#?}");
            }
            None => assert!(warnings.is_empty(), "{routes}: {warnings:#?}"),
        }
    }
}
