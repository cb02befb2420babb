//! What routes of a host lead to upstreams, and how that is explained.

use super::scripted;
use crate::routes::{ANNA, FILES, USERS, ask, get, serve};
use weir_server::{RouteQuestion, explain_route};

/// An upstream that answers with the target that it was asked for.
fn telling() -> std::net::SocketAddr {
    let (addr, _) = scripted::tcp(|_, mut peer| {
        while let Some(asked) = peer.request() {
            let target = asked.target().to_owned();
            if !peer.answer(&target) {
                return;
            }
        }
    });
    addr
}

#[test]
fn upstreams_are_asked_for_the_path_that_a_route_has_led_to() {
    let text = r#"
        [[host]]
        root = "site"
        [[host.route]]
        glob = "/v1/**"
        map = "/api/$1"
        set_headers = { X-Mapped = "1" }
        [[host.route]]
        regex = '^/find/(.*)$'
        map = "/api/find?for=$1&$args"
        [[host.route]]
        prefix = "/put"
        map = "/base/$rest"
        [[host.route]]
        prefix = "/shop"
        try_files = ["$path", "/api/shop"]
        [[host.route]]
        prefix = "/new"
        try_files = ["$path", "=404"]
        [[host.route]]
        prefix = "/shut"
        map = "/api/$rest"
        [[host.route]]
        prefix = "/open"
        map = "/api/shut/$rest"
        [[host.route]]
        prefix = "/asks"
        map = "/api/$rest"
        [[host.route]]
        prefix = "/to-password"
        map = "/api/password/$rest"
        [[host.path]]
        prefix = "/api"
        proxy = "http://ADDRESS"
        [[host.path]]
        prefix = "/base"
        proxy = "http://ADDRESS/inner/"
        [[host.path]]
        prefix = "/shut"
        deny = ["all"]
        [[host.path]]
        prefix = "/api/shut"
        deny = ["all"]
        [[host.path]]
        prefix = "/asks"
        auth = { realm = "P", users = "users" }
        [[host.path]]
        prefix = "/api/password"
        auth = { realm = "Q", users = "users" }
    "#;
    let (site, options) = serve(&[FILES, &[USERS]].concat(), &text.replace("ADDRESS", &telling().to_string()));
    for (target, fields, status, expected) in [
        ("/api/x%20y?q=1", "", 200, "/api/x%20y?q=1"),
        ("/v1/x%20y/%c3%bc?q=1&r", "", 200, "/api/x%20y/%C3%BC?q=1&r"),
        ("/v1/", "", 200, "/api/"),
        ("/find/a&b?q=1", "", 200, "/api/find?for=a%26b&q=1"),
        ("/put/x?q", "", 200, "/inner/x?q"),
        ("/shop/basket?item=1", "", 200, "/api/shop?item=1"),
        ("/new/a.txt", "", 200, "new a"),
        ("/new/none", "", 404, ""),
        ("/shut/x", "", 403, ""),
        ("/open/x", "", 403, ""),
        ("/asks/x?q", "", 401, ""),
        ("/asks/x?q", ANNA, 200, "/api/x?q"),
        ("/to-password/x", "", 401, ""),
        ("/to-password/x", ANNA, 200, "/api/password/x"),
    ] {
        for method in ["GET", "POST"] {
            if method == "POST" && expected == "new a" {
                continue;
            }
            let reply = ask(&site, method, target, &format!("{fields}Content-Length: 0\r\n"));
            assert_eq!(reply.status, status, "{method} {target}");
            if status == 200 {
                assert_eq!(reply.text(), expected, "{method} {target}");
            }
            let mut question = RouteQuestion::new(target);
            question.method = method.to_owned();
            let told = explain_route(&options, &question).expect("explained");
            match told.answer.upstream {
                Some(upstream) => assert_eq!((told.answer.status, &*upstream.target), (None, expected), "{target}"),
                None if fields.is_empty() => assert_eq!(told.answer.status, Some(status), "{method} {target}"),
                None => assert_eq!(told.answer.status, Some(401), "{method} {target}"),
            }
        }
    }
    assert_eq!(get(&site, "/v1/x").field("x-mapped"), Some("1"));
    assert_eq!(get(&site, "/api/x").field("x-mapped"), None);
}

/// What a trusted proxy tells of a client counts for routes, and for whether a password has to be waited for.
#[test]
fn routes_go_by_the_client_that_a_trusted_proxy_tells_of() {
    let text = r#"
        trusted_proxies = { networks = ["127.0.0.0/8"], field = "forwarded" }
        [[host]]
        root = "site"
        [[host.route]]
        address = "192.0.2.0/24"
        scheme = "https"
        glob = "/in/**"
        map = "/asks/$1"
        [[host.route]]
        prefix = "/in"
        map = "/api/$rest"
        [[host.path]]
        prefix = "/asks"
        proxy = "http://ADDRESS"
        auth = { realm = "P", users = "users" }
        [[host.path]]
        prefix = "/api"
        proxy = "http://ADDRESS"
    "#;
    let (site, options) = serve(&[FILES, &[USERS]].concat(), &text.replace("ADDRESS", &telling().to_string()));
    let of = |value: &str| if value.is_empty() { String::new() } else { format!("Forwarded: {value}\r\n") };
    for (told, status, expected) in [
        ("", 200, "/api/x"),
        ("for=192.0.2.7", 200, "/api/x"),
        ("for=192.0.2.7;proto=https", 401, ""),
        ("for=192.0.2.7;proto=https, for=198.51.100.1;proto=https", 200, "/api/x"),
    ] {
        let reply = ask(&site, "GET", "/in/x", &of(told));
        assert_eq!(reply.status, status, "{told}");
        if status == 200 {
            assert_eq!(reply.text(), expected, "{told}");
        }
        let mut question = RouteQuestion::new("/in/x");
        question.fields = Vec::from_iter((!told.is_empty()).then(|| ("Forwarded".to_owned(), told.to_owned())));
        let explained = explain_route(&options, &question).expect("explained");
        assert_eq!(explained.answer.status, Some(status).filter(|status| *status == 401), "{told}");
        assert_eq!(explained.client.is_some(), !told.is_empty(), "{told}");
    }
    let fields = format!("{}{ANNA}", of("for=192.0.2.7;proto=https"));
    assert_eq!(ask(&site, "GET", "/in/x", &fields).text(), "/asks/x");
}

/// Scripts are explained with the file that their program is asked for.
#[test]
fn scripts_are_explained_with_their_files() {
    let (site, options) = serve(
        &[FILES, &[("site/index.php", b"<?php"), ("site/blog/a.php", b"<?php")]].concat(),
        r#"
        [[host]]
        root = "site"
        index = ["index.php"]
        [[host.route]]
        prefix = "/page"
        map = "/blog/a.php/$rest"
        [[host.route]]
        not = [{ glob = "**.php" }, { glob = "**.php/**" }]
        try_files = ["$path", "/index.php"]
        [[host.path]]
        glob = "**.php"
        fastcgi = { to = ["127.0.0.1:1", { to = "unix:other.sock", weight = 3 }], connections = 7, queue = 5 }
        [[host.path]]
        glob = "**.php/**"
        fastcgi = { to = ["127.0.0.1:1", { to = "unix:other.sock", weight = 3 }], connections = 7, queue = 5 }
        "#,
    );
    for (target, status, name, info) in [
        ("/", None, "/index.php", ""),
        ("/any/page?q", None, "/index.php", ""),
        ("/blog/a.php", None, "/blog/a.php", ""),
        ("/blog/none.php", Some(404), "", ""),
        ("/about.html", Some(200), "", ""),
    ] {
        let told = explain_route(&options, &RouteQuestion::new(target)).expect("explained");
        assert_eq!(told.answer.status, status, "{target} {told:#?}");
        let Some(upstream) = &told.answer.upstream else { continue };
        let script = upstream.script.as_ref().expect("a script");
        assert_eq!((&*script.name, &*script.path_info), (name, info), "{target}");
        assert_eq!(script.exists, Some(status.is_none()), "{target}");
        assert!(script.file.as_ref().is_some_and(|file| file.ends_with(".php")), "{target}");
        let servers: Vec<_> = upstream.servers.iter().map(|server| server.weight).collect();
        assert_eq!((upstream.speaks, &*servers), ("FastCGI", &[1, 3][..]));
        assert_eq!((upstream.connections_max, upstream.queue_max), (7, 5));
    }
    let told = explain_route(&options, &RouteQuestion::new("/page/1")).expect("explained");
    let script = told.answer.upstream.and_then(|upstream| upstream.script).expect("a script");
    assert_eq!((&*script.name, &*script.path_info), ("/blog/a.php", "/1"));
    assert_eq!(get(&site, "/blog/none.php").status, 404);
    assert_eq!(get(&site, "/any/page").status, 502);
}
