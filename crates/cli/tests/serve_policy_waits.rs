//! Rules read what requests wait for in a server's loops, and `weir env` shows it by the names of the reports.
// scripts/test: waits

mod support;

use serde_json::Value;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use support::planted::wait_for;
use support::served::Served;
use support::{alone, output};

/// Rules on tens of requests that wait, and on the wait of each.
const POLICY: &str = "atom \"/**\" {\n\
    rule many: during if queue@here > 10jobs then alert \"many wait\" until queue@here < 5jobs;\n\
    rule long: during if wait@here > 100us then alert \"they wait long\" until wait@here < 50us;\n\
    rule busy: during if active@here > 10jobs then alert \"many are there\" until active@here < 5jobs;\n}\n";

/// Connections that have a request under way each.
const MANY: usize = 400;

struct Load(Child);

impl Load {
    fn start(port: u16, path: &str, args: &[&str]) -> Self {
        let url = format!("http://127.0.0.1:{port}{path}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["load", "-q", "-d", "60s"]).args(args).arg(&url).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("it starts"))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // It fails only where it has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn shown(folder: &Path, is_so: impl Fn(&Value) -> bool) -> Value {
    let admin = format!("unix:{}", folder.join("admin.sock").display());
    wait_for(|| {
        let shown = output(&["env", "--json", &admin]);
        let shown: Option<Value> = serde_json::from_slice(&shown.stdout).ok();
        shown.filter(|shown| is_so(shown))
    })
}

/// A reading of the node.
fn reading(shown: &Value, resource: &str) -> f64 {
    let all = shown["readings"].as_array().into_iter().flatten();
    let mut of = all.filter(|one| one["resource"] == resource && one["of"] == "here");
    of.next().and_then(|one| one["value"].as_f64()).unwrap_or(-1.0)
}

/// How many wait for a part.
fn queue(shown: &Value, part: &str) -> f64 {
    let mut of = shown["waits"].as_array().into_iter().flatten().filter(|one| one["part"] == part);
    of.next().and_then(|one| one["queue"].as_f64()).unwrap_or(-1.0)
}

fn fired(shown: &Value, rule: &str) -> u64 {
    shown["decided"][rule]["fired"].as_u64().unwrap_or(0)
}

/// Of which a server of one loop makes a few hundred a second.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    let site = folder.path().join("site");
    fs::create_dir(&site).expect("creates");
    fs::write(site.join("a.txt"), "a").expect("writes");
    fs::write(site.join("small.txt"), "small").expect("writes");
    fs::write(site.join("page.shtml"), "<!--#include virtual=\"/a.txt\" -->".repeat(60)).expect("writes");
    fs::write(folder.path().join("waits.policy"), POLICY).expect("writes");
    folder
}

fn serve(folder: &Path, args: &[&str]) -> Served {
    let usual = ["--loops", "1", "--tick", "250ms", "--admin", "unix:admin.sock", "--policy", "waits.policy"];
    Served::start(folder, &[&usual, args].concat(), "site")
}

#[test]
fn rules_see_the_queue_of_a_loop_that_has_more_to_do_than_it_can() {
    let _turn = alone();
    for io in ["epoll", "auto"] {
        let folder = folder();
        let served = serve(folder.path(), &["--io", io]);
        // At light load no client waits, also where the machine does other work.
        let light = Load::start(served.port, "/page.shtml", &["-c", "1", "--rate", "50"]);
        let ticks = |shown: &Value| shown["work"]["ticks"].as_u64().unwrap_or(0);
        let quiet = shown(folder.path(), |shown| ticks(shown) >= 8 && reading(shown, "rate") > 20.0);
        drop(light);
        for rule in ["many", "busy"] {
            assert_eq!(fired(&quiet, rule), 0, "{io}, {rule}: {quiet}");
        }
        assert!(queue(&quiet, "worker_queue") < 1.0, "{io}: {quiet}");
        let heavy = Load::start(served.port, "/page.shtml", &["-c", &MANY.to_string()]);
        shown(folder.path(), |shown| {
            let queues = ["worker_queue", "wait_cpu", "wait_disk"].map(|part| queue(shown, part));
            eprintln!("{io}: {:.0} rps, {queues:.1?} wait", reading(shown, "rate"));
            ["many", "long", "busy"].iter().all(|rule| fired(shown, rule) > 0)
        });
        // Never more wait than there are, and the parts add up to the whole.
        let full = shown(folder.path(), |shown| reading(shown, "queue") > 10.0);
        let parts = ["worker_queue", "wait_cpu", "wait_disk"].map(|part| queue(&full, part).max(0.0));
        assert!((parts.iter().sum::<f64>() - reading(&full, "queue")).abs() < 1e-6, "{io}: {full}");
        assert!(parts[0] < 1.5 * MANY as f64, "{io}: {full}");
        // The wait of a request, the number of waiting ones and the rate agree (Little's law).
        let little = reading(&full, "rate") * reading(&full, "wait");
        assert!((little / reading(&full, "queue") - 1.0).abs() < 0.05, "{io}: {full}");
        let admin = format!("unix:{}", folder.path().join("admin.sock").display());
        let said = String::from_utf8(output(&["env", &admin]).stdout).expect("text");
        assert!(said.contains("worker_queue") && said.contains("waiting behind other requests of the same"), "{said}");
        drop(heavy);
        // And they are released.
        shown(folder.path(), |shown| shown["in_force"].as_array().is_some_and(Vec::is_empty));
    }
}

#[test]
fn who_waits_behind_a_bound_is_in_the_queue_before_anybody_is_answered() {
    let _turn = alone();
    let folder = folder();
    // The server answers one request at a time, and its client reads nothing of it, so that all others wait.
    fs::write(folder.path().join("site/large.bin"), vec![7; 64 << 20]).expect("writes");
    let toml = "[policy]\nfile = \"waits.policy\"\ntick = \"250 ms\"\n[admin]\nlisten = \"unix:admin.sock\"\n\
        [[throttle]]\npath = \"/large.bin\"\nrunning = 1\nqueue = 100\nwait = \"60 s\"\n[[host]]\nroot = \"site\"\n";
    fs::write(folder.path().join("weir.toml"), toml).expect("writes");
    let served = Served::start(folder.path(), &["--loops", "1"], "weir.toml");
    let mut kept = Vec::new();
    for _ in 0..41 {
        let mut stream = TcpStream::connect(("127.0.0.1", served.port)).expect("connects");
        stream.write_all(b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n").expect("writes");
        kept.push(stream);
    }
    // Each of them waits for all of that time, and none longer. The tick in which they come also counts their waits for
    // the loop, of which one in 256 rounds is timed and stands for all; a later one does not.
    let is_full = |shown: &Value| (39.0..41.0).contains(&queue(shown, "worker_queue"));
    let full = shown(folder.path(), |shown| fired(shown, "many") > 0 && is_full(shown));
    assert!(reading(&full, "wait") < 1.0, "{full}");
    assert!(reading(&full, "wait") > 0.1, "{full}");
    drop(kept);
    shown(folder.path(), |shown| queue(shown, "worker_queue") < 1.0 && queue(shown, "worker_queue") >= 0.0);
}
