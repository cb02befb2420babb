//! A lock that pages of one server hold while they sleep: the headline names the file, the holder and its request, in the
//! text and in the page; the page's graph has the lock once, and the example's row of the lock shows its holder.

use crate::support;

use serde_json::Value;
use std::fs;
use std::path::Path;
use support::planted::{names_first, undisturbed};
use support::{number, output};
use weir_testkit::{Nginx, PhpFpm, Site, require};

/// Has the lock while it sleeps for 20 ms.
const SLOW: &str =
    "<?php $f = fopen(getenv('LOCK'), 'c'); flock($f, LOCK_EX); usleep(20000); flock($f, LOCK_UN); echo 'slow';";
const PROCESSES: u64 = 4;

fn ready() -> Option<()> {
    require::root_and_bpf()?;
    require::nginx()?;
    require::php_fpm()
}

/// Loads the page for a while and explains it: the JSON, the text, and the page.
fn explained(url: &str, port: &str, pid: &str, run: &Path) -> (Value, String, String) {
    let path = run.to_str().expect("a readable path");
    let page = run.join("told.html");
    let html = page.to_str().expect("a readable path").to_owned();
    let server = ["--port", port, "--pid", pid, "--watch", "locks"];
    let said = output(&[&["explain", "--load", url, "-c", "4", "-d", "2s", "--run", path][..], &server].concat());
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let json = output(&["explain", "--json", "--html", &html, path]);
    assert!(json.status.success(), "{}", String::from_utf8_lossy(&json.stderr));
    let report = serde_json::from_slice(&json.stdout).expect("JSON");
    let text = String::from_utf8_lossy(&said.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    (report, text, fs::read_to_string(page).expect("the page is written"))
}

#[test]
fn a_lock_is_put_down_to_the_request_that_sleeps_with_it() {
    let _turn = undisturbed();
    if ready().is_none() {
        return;
    }
    let site = Site::empty().expect("a site");
    // A name that is markup: it is told as text.
    let lock = site.path().join("<b>x&.lock");
    site.write("slow.php", SLOW.as_bytes()).expect("a page");
    site.write("<b>x&.lock", b"").expect("a lock file");
    open_to_all(&lock);
    let php = PhpFpm::new().processes(PROCESSES as u32).env("LOCK", lock.to_str().expect("a readable path"));
    let php = php.start().expect("php-fpm starts");
    let server = Nginx::new().root(site.path()).php_fpm(&php).start().expect("nginx starts");
    let run = tempfile::tempdir().expect("a temporary directory");
    let (report, text, page) =
        explained(&server.url("/slow.php"), &server.port.to_string(), &php.pid().to_string(), run.path());
    names_first(&report, "wait_lock", "x&.lock held by php-fpm");

    let first = &report["holders"][0];
    assert_eq!(first["request"], "GET /slow.php", "{:#}", report["holders"]);
    let (held, slept) = (number(first, "/mean_ns"), number(first, "/parts_ns/wait_timer"));
    assert!(held > 0.9 * number(&report, "/parts_ns/wait_lock"), "{:#}", report["holders"]);
    assert!(slept > 0.9 * held, "{first:#}");
    let headline = "held by php-fpm8.2 for GET /slow.php, which slept";
    assert!(text.contains(&format!("{headline};")) || text.contains(&format!("{headline}.")), "{text}");
    let title = page.split("<h1>").nth(1).and_then(|rest| rest.split("</h1>").next()).expect("a headline");
    assert!(title.contains("/&lt;b&gt;x&amp;.lock, held by ") && title.contains(headline), "{title}");
    assert!(!page.contains("<b>x&"), "names of files stay text");

    let graph = page.split("Who waited for whom").nth(1).and_then(|rest| rest.split("</svg>").next()).expect("a graph");
    assert_eq!(graph.matches("x&amp;.lock</text>").count(), 1, "{graph}");
    let drawn = page.split("class=\"of-lock\"").nth(1).and_then(|rest| rest.split("</details>").next()).expect("a row");
    assert!(drawn.contains(": wait_timer</span>") && drawn.contains(" has it: "), "{drawn}");

    // Two seconds in slices: as many responses as were answered.
    let slices = report["course"]["slices"].as_array().expect("slices");
    let answered: f64 = slices.iter().map(|slice| number(slice, "/answered")).sum();
    assert!(
        slices.len() > 3 && (answered - number(&report, "/requests")).abs() < 1.0,
        "{answered} in {}",
        slices.len()
    );
    assert!(page.contains("id=\"course-times\""));
}

fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o666)).expect("the file is ours");
}
