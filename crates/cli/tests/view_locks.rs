//! The lanes of locks in `weir view`, in a real browser: who holds a lock and who waits for it.

mod support;

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use support::{alone, explain, weir};
use weir_testkit::browser::Browser;
use weir_testkit::{Apache, Faulty, Site, require};

/// A running `weir view` with its address.
struct Viewing(Child, String);

impl Viewing {
    fn of(run: &Path) -> Self {
        let mut child = weir().arg("view").arg(run).stdout(Stdio::piped()).spawn().expect("the command starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let address = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap_or_default().to_owned();
        Self(child, address)
    }
}

impl Drop for Viewing {
    fn drop(&mut self) {
        // It fails where it has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Everything that is said of the lanes of CPUs and locks, each once.
const SAID: &str = "(() => {
    const lanes = document.querySelector('#lanes');
    const box = lanes.getBoundingClientRect();
    const said = new Set();
    // Narrower than what is drawn: a lock that is rarely waited for is some pixels of its lane, a wait a bar of 4.
    for (let x = 160; x < box.width; x += 2) for (let y = 100; y < 240; y += 3) {
        lanes.dispatchEvent(new PointerEvent('pointermove', { clientX: box.x + x, clientY: box.y + y, pointerId: 7 }));
        const hint = document.querySelector('#hint');
        if (!hint.hidden) said.add(hint.textContent.replace(/, [0-9.]+ .?s from .*/, ''));
    }
    return [...said].join('\\n');
})()";

fn shoot(browser: &mut Browser, name: &str) {
    let Some(folder) = std::env::var_os("WEIR_SHOTS") else { return };
    let picture = browser.picture(false);
    std::fs::write(Path::new(&folder).join(format!("{name}.png")), picture).expect("a picture is written");
}

fn ready(browser: &mut Browser) {
    browser.wait_for("document.body.dataset.ready === 'true'");
}

/// Looks at a run's lanes from the whole down to single waits, on all screens.
fn looked_at(run: &Path, lock: &str, holder: &str, name: &str) {
    let viewing = Viewing::of(run);
    let mut browser = Browser::start();
    browser.screen(1280, 800, false);
    browser.open(&viewing.1);
    ready(&mut browser);
    shoot(&mut browser, &format!("locks-{name}-whole"));
    let found: Value = browser.value("fetch('whole.json').then((answer) => answer.json()).then((one) => one.locks)");
    let found = found.as_array().expect("locks").first().expect("a lock").clone();
    assert!(found["held"] == true && found["name"].as_str().is_some_and(|one| one.contains(lock)), "{found:#}");
    assert!(found["waits"].as_u64() > Some(10) && found["waited_ns"].as_u64() > Some(1_000_000), "{found:#}");
    // From afar: whose share of the time it was.
    let said = browser.value(SAID);
    let said = said.as_str().expect("a text");
    assert!(said.contains(&format!("held by {holder}")) && said.contains("while others wait"), "{said}");
    // Close up, at its longest wait: who waited, and who had it then.
    browser.press("/");
    browser.type_in(lock);
    browser.wait_for("document.querySelectorAll('#found button').length > 0");
    browser.press("Enter");
    let span = "(([a, b]) => b - a)(location.hash.match(/[0-9]+/g).map(Number))";
    let span = browser.value(span).as_f64().expect("a span");
    assert!((span - 2.0 * found["longest_ns"].as_f64().expect("a time")).abs() < 10.0, "{span} ns: {found:#}");
    browser.press("Escape");
    for (width, dark) in [(1280, false), (1280, true), (400, false), (400, true)] {
        browser.screen(width, 800, dark);
        browser.press("+");
        browser.press("-");
        ready(&mut browser);
        shoot(&mut browser, &format!("locks-{name}-{width}-{}", if dark { "dark" } else { "light" }));
        let broad = browser.value("document.documentElement.scrollWidth").as_u64();
        assert!(broad <= Some(u64::from(width)), "{broad:?} pixels on a screen of {width}");
    }
    browser.screen(1280, 800, false);
    // The longer the wait, the closer one has to look until each is told by itself; the middle stays in the longest one.
    let mut said = String::new();
    for _ in 0..8 {
        browser.press("+");
        ready(&mut browser);
        said = browser.value(SAID).as_str().expect("a text").to_owned();
        if said.contains(" waits for ") {
            break;
        }
    }
    assert!(said.contains(" waits for ") && said.contains(&format!("held by {holder}")), "{said}");
    assert_eq!(browser.errors(), &[] as &[String]);
}

#[test]
fn a_lane_tells_who_holds_a_file_and_who_waits() {
    if require::socket_tracepoints().is_none() || require::browser().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a directory");
    let run = folder.path().join("run");
    {
        let _turn = alone();
        let server = Faulty::new("held").args(["flock"]).start().expect("the server starts");
        explain(&server.url("/"), server.port, &run, &["-c", "1", "-d", "1500ms", "--watch", "locks"]);
    }
    looked_at(&run, "flock of", "weir-holder", "held");
}

/// A script that takes a lock for all of its requests, as PHP's sessions do.
const COUNTER: &str = "#!/usr/bin/python3
import fcntl, time
file = open(FILE, 'a')
fcntl.flock(file, fcntl.LOCK_EX)
time.sleep(0.004)
print('Content-Type: text/plain\\n\\ncounted')
";

/// Processes that pass a lock among themselves: each is a holder and a waiter in turn.
#[test]
fn a_lane_tells_how_a_lock_passes_from_one_process_to_the_next() {
    use weir_testkit::Cgi;
    let needs = [require::socket_tracepoints(), require::browser(), require::apache_module("cgi")];
    if needs.iter().any(Option::is_none) || require::program("python3").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a directory");
    let run = folder.path().join("run");
    {
        let _turn = alone();
        let site = Site::empty().expect("a site");
        site.write("count.lock", b"").expect("a file");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        std::fs::set_permissions(site.path().join("count.lock"), open).expect("it is ours");
        let script = COUNTER.replace("FILE", &format!("{:?}", site.path().join("count.lock").display().to_string()));
        site.write_program("count.cgi", script.as_bytes()).expect("the script");
        let server = Apache::prefork().workers(4).root(site.path()).cgi(Cgi::Direct).start().expect("Apache starts");
        let more = ["-c", "3", "-d", "2s", "--no-keepalive", "--watch", "locks"];
        explain(&server.url("/count.cgi"), server.port, &run, &more);
    }
    looked_at(&run, "count.lock", "count.cgi", "passed");
}
