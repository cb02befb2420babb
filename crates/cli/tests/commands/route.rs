//! `weir route`: what it prints, for people and for programs, and how it ends.

use crate::support;
use crate::support::schema::conforms_to_its_own;

use serde_json::Value;
use std::fs;

const CONFIGURATION: &str = r#"
[[host]]
names = ["a.org", "*.a.org"]
root = "site"
set_headers = { X-Host = "1" }

[[host.route]]
prefix = "/admin"
not = { address = "10.0.0.0/8" }
fail = 403

[[host.route]]
time = "Sat,Sun"
redirect = "/closed"

[[host.route]]
glob = "/v1/**"
header = { X-Old = true }
map = "/v2/$1"
set_headers = { X-Mapped = "1" }

[[host.route]]
prefix = "/app"
try_files = ["$path", "/index.html"]

[[host.path]]
prefix = "/v2"
rate = { requests = 10, per = "1 s", burst = 20 }
"#;

/// What is printed, and the exit status.
fn route(args: &[&str]) -> (String, Option<i32>) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir_all(folder.path().join("site/v2")).expect("creates");
    fs::write(folder.path().join("site/index.html"), "home").expect("writes");
    fs::write(folder.path().join("site/v2/a.txt"), "a").expect("writes");
    fs::write(folder.path().join("weir.toml"), CONFIGURATION).expect("writes");
    let output = support::weir().current_dir(folder.path()).args(["route", "weir.toml"]).args(args).output();
    let output = output.expect("it starts");
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
}

#[test]
fn each_step_is_told() {
    let (told, code) = route(&["http://www.a.org/v1/a.txt?q", "-H", "x-old: yes", "--at", "2026-11-26T08:30:00Z"]);
    let expected = r#"200: a file answers: ./site/v2/a.txt

host a.org: "www.a.org" is found by *.a.org
path /v1/a.txt

routes
  1 fail (line 7): no, path prefix /admin; it is "/v1/a.txt"
  2 redirect (line 12): no, time Sat,Sun UTC; it is Thu 08:30
  3 map (line 16): holds; the path becomes "/v2/a.txt?q"
  4 try_files (line 22): no, path prefix /app; it is "/v2/a.txt"

the tables are asked for /v2/a.txt?q

tables
  [[host]] (line 2), for all paths: root ./site; set_headers X-Host
  [[host.path]] prefix /v2 (line 26), for the path that a route has led to: rate @

limits
  rate: @

fields
  X-Host: 1
  X-Mapped: 1
  Vary: X-Old
"#
    .replace('@', "10 requests a second, 20 at once, for each /32 or /64");
    assert_eq!((told, code), (expected, Some(0)));
}

#[test]
fn the_first_line_is_the_answer_and_the_status_says_whether_it_is_an_error() {
    for (args, first, code) in [
        (&["/admin/x"][..], "403: route 1 (fail) answers", 1),
        (
            &["/admin/x", "--from", "10.1.2.3", "--at", "2026-11-26T08:30:00Z"],
            "404: there is no such file: ./site/admin/x",
            1,
        ),
        (&["/", "--at", "2026-11-28T12:00:00Z"], "301: route 2 (redirect) answers to /closed", 0),
        (&["/app/x", "--at", "2026-11-26T08:30:00Z"], "200: a file answers: ./site/index.html", 0),
        (&["http://b.org/"], "421: no host has the name, and none takes all others", 1),
        (&["/", "--method", "POST", "--at", "2026-11-26T08:30:00Z"], "405: files are for GET and HEAD", 1),
        (&["/%2e%2e/x"], "400: the path cannot be read, or leads upwards", 1),
    ] {
        let (told, status) = route(args);
        assert_eq!((told.lines().next(), status), (Some(first), Some(code)), "{args:?}: {told}");
        assert!(!told.contains('\x1b'), "{told}");
    }
    for args in
        [&["ftp://a.org/"][..], &["/", "-H", "X Y: 1"], &["/", "--from", "nowhere"], &["/", "--at", "noon"], &[]]
    {
        assert_eq!(route(args), (String::new(), Some(2)), "{args:?}");
    }
}

#[test]
fn programs_get_json() {
    let (told, code) = route(&["/app/x", "--json", "--at", "2026-11-26T08:30:00Z"]);
    let told: Value = serde_json::from_str(&told).expect("JSON");
    conforms_to_its_own(&told);
    assert_eq!(code, Some(0));
    assert_eq!(told["answer"]["status"], 200);
    assert_eq!(told["mapped"], "/index.html");
    assert_eq!(told["routes"][3]["did"][0], "\"/app/x\" not there");
    assert_eq!(told["routes"][0]["condition"], "path prefix /admin");
}
