//! The files and alerts of a server with rules: over restarts, on a full disk, and when the persister, which writes them,
//! is killed; what is lost then is counted.

use crate::support;

use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::Path;
use support::planted::wait_for;
use support::served::Served;
use support::{alone, output};
use weir_testkit::SmallDisk;
use weir_testkit::client::Connection;

/// The rules decide about each request, so that each adds lines to the recording.
const POLICY: &str = "atom \"/v/*\" { variants full > small;\n\
    rule fit: at start if rtt@client < 10s then use small else use full; }\n";

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    fs::create_dir_all(folder.path().join("site/v")).expect("creates");
    for (name, text) in [("site/v/film.mp4", "the whole film"), ("site/v/film.small.mp4", "film"), ("x.policy", POLICY)]
    {
        fs::write(folder.path().join(name), text).expect("writes");
    }
    folder
}

fn serve(folder: &Path, args: &[&str]) -> Served {
    let usual = ["--policy", "x.policy", "--tick", "20ms", "--admin", "unix:admin.sock"];
    Served::start(folder, &[&usual, args].concat(), "site")
}

fn end(mut served: Served) {
    served.signal(libc::SIGTERM);
    assert!(served.child.wait().expect("it ends").success());
}

fn ask(port: u16, count: usize) {
    let mut connection = Connection::open(port).expect("connects");
    (0..count).for_each(|_| assert_eq!(connection.get("/v/film.mp4").expect("an answer").status, 200));
}

fn environment(folder: &Path, is_so: impl Fn(&Value) -> bool) -> Value {
    let admin = format!("unix:{}", folder.join("admin.sock").display());
    wait_for(|| {
        let shown: Option<Value> = serde_json::from_slice(&output(&["env", "--json", &admin]).stdout).ok();
        shown.filter(|shown| is_so(shown))
    })
}

fn replayed(folder: &Path, args: &[&str]) -> (Option<i32>, String) {
    let replay = support::weir().current_dir(folder).arg("replay").args(args).output().expect("it starts");
    (
        replay.status.code(),
        String::from_utf8_lossy(&replay.stdout).into_owned() + &String::from_utf8_lossy(&replay.stderr),
    )
}

fn summary(folder: &Path) -> Value {
    let (code, said) = replayed(folder, &["--json", "x.policy", "log.jsonl"]);
    assert_eq!(code, Some(0), "{said}");
    serde_json::from_str(said.lines().next_back().expect("a summary")).expect("JSON")
}

#[test]
fn a_restart_goes_on_in_the_same_recording() {
    let _turn = alone();
    let folder = folder();
    let folder = folder.path();
    let run = || {
        let served = serve(folder, &["--decisions", "log.jsonl"]);
        ask(served.port, 20);
        environment(folder, |shown| shown["work"]["ticks"].as_u64() >= Some(2));
        end(served);
    };
    run();
    run();
    let twice = summary(folder);
    assert_eq!(
        (&twice["parts"], &twice["recorded"]["others"], &twice["recorded"]["lines_cut"]),
        (&2.into(), &0.into(), &0.into())
    );
    assert!(twice["recorded"]["same"].as_u64() >= Some(40), "{twice}");
    // Killed in the middle of a line.
    let path = folder.join("log.jsonl");
    let bytes = fs::read(&path).expect("a recording");
    fs::write(&path, &bytes[..bytes.len() - 5]).expect("writes");
    assert_eq!(summary(folder)["recorded"]["lines_cut"], 1);
    run();
    let thrice = summary(folder);
    assert_eq!((&thrice["parts"], &thrice["recorded"]["lines_cut"]), (&3.into(), &0.into()));
    assert_eq!((&thrice["recorded"]["lines_lost"], &thrice["recorded"]["others"]), (&1.into(), &0.into()), "{thrice}");
}

#[test]
fn what_is_none_of_ours_is_left_as_it_is() {
    let _turn = alone();
    let folder = folder();
    let folder = folder.path();
    fs::write(folder.join("notes.txt"), "mine").expect("writes");
    for (args, words) in [
        (["--decisions", "notes.txt"], "--decisions: notes.txt holds something else than a recording of weir's"),
        (["--decisions", "site"], "site is no regular file"),
        (["--decisions", "none/log.jsonl"], "its directory is not there; make that first"),
        (["--environment", "notes.txt"], "--environment: notes.txt: this is no database of weir's"),
        (["--environment", "site"], "this is no database of weir's"),
        (["--webhook", "nowhere"], "--webhook: nowhere: "),
    ] {
        let weir = support::weir()
            .current_dir(folder)
            .args(["serve", "--listen", "127.0.0.1:0", "--policy", "x.policy"])
            .args(args)
            .arg("site")
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&weir.stderr);
        assert_eq!(weir.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(words) && said.contains("; "), "{words}: {said}");
    }
    assert_eq!(fs::read_to_string(folder.join("notes.txt")).expect("there"), "mine");
    assert_eq!(fs::read_dir(folder).expect("a directory").count(), 3);
}

#[test]
fn a_full_disk_is_told_counted_and_over_when_there_is_room() {
    let _turn = alone();
    let Some(disk) = SmallDisk::mount(4) else { return };
    let folder = folder();
    let folder = folder.path();
    let on_disk = |name: &str| disk.path().join(name).display().to_string();
    let (log, database) = (on_disk("log.jsonl"), on_disk("environment.db"));
    let served = serve(folder, &["--decisions", &log, "--environment", &database]);
    ask(served.port, 20);
    environment(folder, |shown| shown["work"]["ticks"].as_u64() >= Some(3));
    let mut ballast = fs::File::create(on_disk("ballast")).expect("creates");
    while ballast.write_all(&[0; 4096]).is_ok() {}
    drop(ballast);
    served.says("cannot be written: No space left on device");
    let shown = environment(folder, |shown| {
        ask(served.port, 500);
        shown["dropped"]["lines"].as_u64() > Some(0)
    });
    assert_eq!(shown["dropped"]["failing"][0]["what"], "recording", "{shown}");
    let admin = format!("unix:{}", folder.join("admin.sock").display());
    let said = String::from_utf8(output(&["env", &admin]).stdout).expect("text");
    assert!(said.contains("recording: No space left on device") && said.contains(" lines of the recording"), "{said}");
    fs::remove_file(on_disk("ballast")).expect("removes");
    served.says("goes on; ");
    let shown = environment(folder, |shown| shown["dropped"]["failing"].as_array().is_some_and(Vec::is_empty));
    let lost = shown["dropped"]["lines"].as_u64().expect("a count");
    ask(served.port, 20);
    end(served);
    // All that is there is whole, and says how much is not.
    fs::copy(&log, folder.join("log.jsonl")).expect("copies");
    let told = summary(folder);
    assert_eq!((&told["recorded"]["lines_lost"], &told["recorded"]["lines_cut"]), (&lost.into(), &0.into()), "{told}");
}

#[test]
fn what_is_lost_when_the_clerk_is_killed_is_counted_and_told() {
    let _turn = alone();
    let folder = folder();
    let folder = folder.path();
    let served = serve(folder, &["--decisions", "log.jsonl"]);
    ask(served.port, 20);
    environment(folder, |shown| shown["work"]["ticks"].as_u64() >= Some(3));
    let pid = served.child.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("the persister");
    let clerk: i32 = children.trim().parse().expect("one child");
    // SAFETY: the call takes no pointers.
    assert_eq!(unsafe { libc::kill(clerk, libc::SIGKILL) }, 0);
    served.says(&format!("the process that keeps and tells ({clerk}) has ended"));
    let before = environment(folder, |shown| shown["dropped"]["clerk_gone"] == true);
    ask(served.port, 50);
    let lines = |shown: &Value| shown["dropped"]["lines"].as_u64().expect("a count");
    let after = environment(folder, |shown| lines(shown) >= lines(&before) + 100);
    assert_eq!(after["dropped"]["failing"][0]["what"], "clerk");
    let admin = format!("unix:{}", folder.join("admin.sock").display());
    assert!(String::from_utf8_lossy(&output(&["env", &admin]).stdout).contains("clerk: its process, "));
    end(served);
    let (code, said) = replayed(folder, &["x.policy", "log.jsonl"]);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn an_environment_says_how_old_it_is_and_whether_its_server_runs() {
    let _turn = alone();
    let folder = folder();
    let folder = folder.path();
    let kept = || {
        let kept = support::weir().current_dir(folder).args(["env", "env.db"]).output().expect("it starts");
        String::from_utf8_lossy(&kept.stdout).into_owned()
    };
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        let mut served = serve(folder, &["--environment", "env.db"]);
        let pid = served.child.id();
        wait_for(|| kept().contains(&format!("the server, process {pid}, runs")).then_some(()));
        served.signal(signal);
        let _ = served.child.wait();
        let said = wait_for(|| Some(kept()).filter(|said| said.contains(&format!("process {pid}, has ended"))));
        assert!(said.lines().any(|line| line.starts_with("read ") && line.contains(" ago; ")), "{said}");
        // It gets older all the time.
        wait_for(|| kept().contains("read 2s ago").then_some(()));
    }
}
