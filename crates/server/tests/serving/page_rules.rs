//! Pages with includes where hosts have rules: a part is what a request for it by the same client would get, over
//! HTTP/1.1 and HTTP/2.

use crate::harness;

use harness::Site;
use std::process::Command;
use weir_server::parse_configuration;

const WRONG: &str = "[an error occurred while processing this directive]";
/// Of "secret".
const USERS: &[u8] = b"anna:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n";

const TEXT: &str = r#"
[log]
file = "log"
format = "%u %s"
[[host]]
root = "site"
[[host.path]]
prefix = "/private"
auth = { realm = "r", users = "users" }
[[host.path]]
prefix = "/staff"
auth = { realm = "s", users = "others" }
[[host.path]]
prefix = "/inner"
allow = ["192.0.2.0/24"]
[[host.path]]
prefix = "/limited"
rate = { requests = 2, per = "1 h", burst = 2 }
[[host.path]]
exact = "/gone.txt"
status = 410
[[host.path]]
prefix = "/moved"
redirect = "/a.txt"
[[host.path]]
prefix = "/pictures/"
root = "pictures"
[[host.path]]
prefix = "/pictures/own"
auth = { realm = "r", users = "users" }
[[host]]
names = ["other.example"]
root = "other"
"#;

fn serve() -> Site {
    let files: &[(&str, &[u8])] = &[
        ("users", USERS),
        ("others", USERS),
        ("site/a.txt", b"open"),
        ("site/any.shtml", b"[<!--#include virtual=\"$QUERY_STRING\" -->]"),
        ("site/any.html.shtml", b"[<esi:include src=\"/private/a.txt\"/>]"),
        ("site/via.shtml", b"(<!--#include virtual=\"/private/a.txt\" -->)"),
        ("site/twice.shtml", b"<!--#include virtual=\"/limited/a.txt\" --> <!--#include virtual=\"/limited/a.txt\" -->"),
        ("site/file.shtml", b"<!--#include file=\"private/a.txt\" -->"),
        ("site/private/a.txt", b"private"),
        ("site/private/p.shtml", b"{<!--#include virtual=\"a.txt\" -->,<!--#include virtual=\"/staff/a.txt\" -->}"),
        ("site/staff/a.txt", b"staff"),
        ("site/inner/a.txt", b"inner"),
        ("site/limited/a.txt", b"limited"),
        ("site/gone.txt", b"gone"),
        ("site/moved/a.txt", b"moved"),
        ("site/.hidden", b"hidden"),
        ("pictures/b.txt", b"picture"),
        ("pictures/own/c.txt", b"own"),
        (
            "pictures/p.shtml",
            b"<!--#echo var=\"DOCUMENT_URI\" -->,<!--#echo var=\"REQUEST_URI\" -->,<!--#include virtual=\"/a.txt\" -->,\
            <!--#include virtual=\"b.txt\" -->,<!--#include file=\"b.txt\" -->,<!--#include virtual=\"own/c.txt\" -->",
        ),
        ("pictures/sub/index.html", b"index"),
        ("pictures/sub/q.shtml", b"<!--#include virtual=\"/pictures/sub/\" -->,<!--#include virtual=\"/sub/\" -->"),
        ("other/a.txt", b"other"),
        ("other/any.shtml", b"<!--#include virtual=\"/a.txt\" -->"),
    ];
    Site::start(files, |options| {
        let (folder, listen) = (options.root.clone(), options.listen.clone());
        *options = parse_configuration(TEXT, &folder).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        options.listen = listen;
        options.loops = 1;
    })
}

/// The ways of HTTP as curl's options.
const VERSIONS: [&str; 2] = ["--http1.1", "--http2-prior-knowledge"];

/// Body and status as curl receives them.
fn curl(site: &Site, version: &str, target: &str, more: &[&str]) -> (String, String) {
    let output = Command::new("timeout")
        .args(["60", "curl", "-sS", "--path-as-is", version, "-w", "|%{http_code}"])
        .args(more)
        .arg(format!("http://{}{target}", site.addr))
        .output()
        .expect("curl starts; `make deps` installs it");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let (body, status) = text.rsplit_once('|').expect("a status");
    (body.to_owned(), status.to_owned())
}

fn body(site: &Site, version: &str, target: &str, more: &[&str]) -> String {
    let (body, status) = curl(site, version, target, more);
    assert_eq!(status, "200", "{target}: {body}");
    body
}

#[test]
fn a_part_is_what_a_request_for_it_would_get() {
    for version in VERSIONS {
        let site = serve();
        for (target, inner) in [
            ("/a.txt", "open"),
            ("/pictures/b.txt", "picture"),
            ("/via.shtml", &format!("({WRONG})")),
            ("/private/a.txt", WRONG),
            ("/private/p.shtml", WRONG),
            ("/staff/a.txt", WRONG),
            ("/inner/a.txt", WRONG),
            ("/gone.txt", WRONG),
            ("/moved/a.txt", WRONG),
            ("/.hidden", WRONG),
            // The same by other names.
            ("//private/a.txt", WRONG),
            ("/%70rivate/a.txt", WRONG),
            ("/./private/a.txt", WRONG),
            ("/x/../private/a.txt", WRONG),
            ("/private//a.txt", WRONG),
            ("private/a.txt", WRONG),
            ("./inner/a.txt", WRONG),
            ("/inner/%61.txt", WRONG),
            ("/pictures/own/c.txt", WRONG),
            ("/pictures//own/c.txt", WRONG),
            ("http://other.example/a.txt", WRONG),
        ] {
            assert_eq!(body(&site, version, &format!("/any.shtml?{target}"), &[]), format!("[{inner}]"), "{target}");
        }
        assert_eq!(body(&site, version, "/any.html.shtml", &[]), format!("[{WRONG}]"));
        assert_eq!(body(&site, version, "/file.shtml", &[]), WRONG);
        assert_eq!(body(&site, version, "/any.shtml", &["-H", "Host: other.example"]), "other");
    }
}

#[test]
fn a_part_behind_a_password_comes_with_the_password() {
    for version in VERSIONS {
        let site = serve();
        let (right, wrong) = (["-u", "anna:secret"], ["-u", "anna:wrong"]);
        // The first request already, though checking takes its time.
        assert_eq!(body(&site, version, "/any.shtml?/private/a.txt", &right), "[private]");
        assert_eq!(body(&site, version, "/any.shtml?/private/a.txt", &wrong), format!("[{WRONG}]"));
        assert_eq!(body(&site, version, "/any.shtml?/private/a.txt", &[]), format!("[{WRONG}]"));
        assert_eq!(body(&site, version, "/file.shtml", &right), "private");
        // A page and its parts that ask different files of users.
        assert_eq!(curl(&site, version, "/private/p.shtml", &[]).1, "401");
        assert_eq!(curl(&site, version, "/private/p.shtml", &wrong).1, "401");
        assert_eq!(body(&site, version, "/private/p.shtml", &right), "{private,staff}");
        // A password changes nothing for who may not come by address.
        assert_eq!(body(&site, version, "/any.shtml?/inner/a.txt", &right), format!("[{WRONG}]"));
        let path = site.directory.path().join("log");
        let log = || std::fs::read_to_string(&path).unwrap_or_default();
        harness::wait_until(|| log().ends_with("- 401\n- 401\nanna 200\n- 200\n"));
        assert_eq!(site.stop().auth_busy, 0);
    }
}

#[test]
fn a_rate_counts_a_page_with_its_parts_once() {
    for version in VERSIONS {
        let site = serve();
        for expected in ["limited limited".to_owned(), "limited limited".to_owned(), format!("{WRONG} {WRONG}")] {
            assert_eq!(body(&site, version, "/twice.shtml", &[]), expected);
        }
        assert_eq!(curl(&site, version, "/limited/a.txt", &[]).1, "429", "the same bucket");
        assert!(site.stop().rate_refused >= 2);
    }
}

#[test]
fn paths_begin_at_the_host_below_a_root_of_its_own_too() {
    for version in VERSIONS {
        let site = serve();
        let uris = "/pictures/p.shtml,/pictures/p.shtml?x";
        let expected = format!("{uris},open,picture,picture,{WRONG}");
        assert_eq!(body(&site, version, "/pictures/p.shtml?x", &[]), expected);
        let expected = format!("{uris},open,picture,picture,own");
        assert_eq!(body(&site, version, "/pictures/p.shtml?x", &["-u", "anna:secret"]), expected);
        assert_eq!(body(&site, version, "/pictures/sub/q.shtml", &[]), format!("index,{WRONG}"));
    }
}
