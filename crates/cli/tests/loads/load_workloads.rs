//! Published workloads from the command line: their files are written, asked for, and told of.

use crate::support;

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::files::{contents, holds};
use support::{alone, output, weir};
use weir_testkit::{RunningServer, WeirServe};

fn json(arguments: &[&str]) -> Value {
    let output = output(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn serve(root: &str) -> RunningServer {
    WeirServe::new(env!("CARGO_BIN_EXE_weir")).root(root).start().expect("weir serve starts")
}

#[test]
fn a_file_set_is_written_and_asked_for() {
    let _turn = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let site = directory.path().join("site");
    let site = site.to_str().expect("text");
    // 20 requests a second have 10 * sqrt(20 / 5) directories.
    let told = json(&["load", "--make-fileset", "specweb96", site, "--rate", "20", "--json"]);
    assert_eq!((&told["directories"], &told["files"], &told["kept"]), (&20.into(), &720.into(), &0.into()));
    let again = output(&["load", "--make-fileset", "specweb96", site, "--directories", "20"]);
    let text = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(text.contains("720 of them were there") && text.contains("weir load --mix specweb96 --directories 20"));

    let server = serve(site);
    let run = directory.path().join("run");
    let (url, run) = (server.url("/"), run.to_str().expect("text"));
    let base = ["load", "--mix", "specweb96", "--directories", "20", "-n", "3000", "-q", "--seed", "4"];
    let report = json(&[&base[..], &["--json", "--run", run, &url]].concat());
    assert_eq!((&report["requests"], &report["status"]["200"]), (&3000.into(), &3000.into()));
    let mix = &report["mix"];
    assert_eq!((&mix["name"], &mix["wrong_sizes"]), (&"specweb96".into(), &0.into()));
    let answers = mix["answers"].as_object().expect("an object").values();
    assert_eq!(answers.map(|count| count.as_u64().expect("a count")).sum::<u64>(), 3000);
    // The same seed asks for the same files.
    assert_eq!(json(&[&base[..], &["--json", &url]].concat())["mix"], *mix);
    let other = output(&[&base[..], &["--directory-zipf", &url]].concat());
    let text = String::from_utf8_lossy(&other.stdout).into_owned();
    assert!(text.contains("the specweb96 mix of 720 files of http://") && text.contains("class1: 1,"), "{text}");
    assert!(text.contains("0 other than the file's"), "{text}");
    // In a run each class has its name.
    let shown = output(&["explain", run, "--json"]);
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    let names = contents(Path::new(run));
    assert!(["GET class0 of specweb96", "GET class3 of specweb96"].iter().all(|name| holds(&names, name)));

    fs::write(format!("{site}/dir00003/class0_1"), "no longer").expect("a file");
    // Another server: the first one has the file as it was in its cache.
    let server = serve(site);
    let report = json(&[&base[..], &["--json", &server.url("/")]].concat());
    assert!(report["mix"]["wrong_sizes"].as_u64().expect("a count") > 0);
}

#[test]
fn users_of_surge_open_pages() {
    let _turn = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let site = directory.path().join("site");
    let site = site.to_str().expect("text");
    let made = json(&["load", "--make-fileset", "surge", site, "--files", "100", "--fileset-seed", "9", "--json"]);
    assert_eq!((&made["files"], &made["directories"]), (&100.into(), &Value::Null));
    let server = serve(site);
    let url = server.url("/");
    let base = ["load", "--mix", "surge", "--files", "100", "--fileset-seed", "9", "-c", "50", "-d", "2s", "-q"];
    let report = json(&[&base[..], &["--json", &url]].concat());
    assert_eq!((&report["mix"]["wrong_sizes"], &report["requests"]), (&0.into(), &report["status"]["200"]));
    assert!(report["sessions"]["completed"].as_u64().expect("a count") > 20, "{report:#}");
    let shown = output(&[&base[..], &[&url]].concat());
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        text.contains("50 users, closed loop") && text.contains("\n  pages ") && text.contains("\n  page "),
        "{text}"
    );
    // With another seed the files have other sizes.
    let other = json(&["load", "--mix", "surge", "--files", "100", "-c", "50", "-d", "1s", "-q", "--json", &url]);
    assert!(other["mix"]["wrong_sizes"].as_u64().expect("a count") > 0);
}

#[test]
fn a_flash_crowd_comes_and_goes() {
    let _turn = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let site = directory.path().join("site");
    let site = site.to_str().expect("text");
    json(&["load", "--make-fileset", "specweb96", site, "--directories", "2", "--json"]);
    let server = serve(site);
    let url = server.url("/");
    let crowd = ["--flash-crowd", "20*5/500ms,500ms,1s,500ms", "--client-pause", "100ms", "--client-requests", "3"];
    let base = [&["load", "--mix", "specweb96", "--directories", "2", "-q"][..], &crowd[..]].concat();
    let report = json(&[&base[..], &["--json", "--source", "127.0.0.2,127.0.0.3", &url]].concat());
    assert_eq!((&report["mix"]["wrong_sizes"], &report["requests"]), (&0.into(), &report["status"]["200"]));
    // 20 * 0.5 + 60 * 0.5 + 100 + 60 * 0.5 + 20 * 0.5 clients, evenly timed.
    let clients = &report["mix"]["clients"];
    assert!((178..=181).contains(&clients["came"].as_u64().expect("a count")), "{clients}");
    assert!((90..150).contains(&clients["with_crowd"].as_u64().expect("a count")), "{clients}");
    assert!(report["warnings"].as_array().expect("a list").iter().all(|words| !words.to_string().contains("networks")));
    let shown = output(&[&base[..], &[&url]].concat());
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        text.contains("a flash crowd of at most 140 users") && text.contains("of them came with the crowd"),
        "{text}"
    );
    assert!(text.contains("--source 127.0.0.2,127.0.0.3"), "{text}");
}

#[test]
fn ctrl_c_leaves_what_the_same_command_completes() {
    let directory = tempfile::tempdir().expect("a directory");
    let site = directory.path().join("site");
    let site = site.to_str().expect("text");
    let arguments = ["load", "--make-fileset", "specweb96", site, "--directories", "100"];
    let child = weir().args(arguments).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
    let deadline = Instant::now() + Duration::from_secs(10);
    while !directory.path().join("site/dir00001").exists() {
        assert!(Instant::now() < deadline, "nothing is written");
        std::thread::sleep(Duration::from_millis(2));
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
    let ended = child.wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(130), "{told}");
    assert!(told.contains("of 3600 files are there; the same command goes on from here"), "{told}");
    let told = json(&[&arguments[..], &["--json"]].concat());
    assert_eq!(told["files"], 3600);
    assert!((1..3600).contains(&told["kept"].as_u64().expect("a count")), "{told}");
}

#[test]
fn a_full_disk_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let site = directory.path().join("site");
    let arguments = ["load", "--make-fileset", "specweb96", site.to_str().expect("text"), "--directories", "100000"];
    let output = output(&arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("has room for") && stderr.contains("make room, or make fewer files"), "{stderr}");
}

#[test]
fn wrong_usage_is_told_with_its_remedy() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("mine"), "mine").expect("a file");
    let full = directory.path().to_str().expect("text");
    let url = "http://127.0.0.1:1/";
    let make = ["--make-fileset", "specweb96"];
    let mix = ["--mix", "specweb96", "--directories", "2"];
    let surge = ["--mix", "surge", "--files", "20"];
    for (before, after, words) in [
        (&make[..], &[full, "--directories", "1"][..], &["is not empty and holds no file set"][..]),
        (&make, &["/tmp/x"], &["how large", "--directories N"]),
        (&make, &["/tmp/x", "--directories", "0"], &["between 1 and 100000"]),
        (&make, &["/tmp/x", "--rate", "1e12"], &["between 1 and 100000"]),
        (&make, &["/tmp/x", "--rate", "0"], &["a rate above 0"]),
        (&make, &["/tmp/x", "--rate", "5", "--directories", "1"], &["give one"]),
        (&make, &["/tmp/x", "--directories", "1", "-c", "3"], &["--connections: says how to load"]),
        (&make, &["/tmp/x", "--directories", "1", url], &["loads nothing"]),
        (&["--make-fileset", "nothing"], &["/tmp/x"], &["--make-fileset nothing: it is specweb96 or surge"]),
        (&["--make-fileset", "surge"], &["/tmp/x"], &["how large", "--files N"]),
        (&["--make-fileset", "surge"], &["/tmp/x", "--files", "1000001"], &["between 1 and 1000000"]),
        (&["--make-fileset", "surge"], &["/tmp/x", "--files", "9", "--rate", "3"], &["give --files N alone"]),
        (&make, &["/tmp/x", "--directories", "1", "--files", "3"], &["give --directories N"]),
        (&surge, &["--rate", "5", url], &["leave rates and arrivals out"]),
        (&surge, &["--pipeline", "5", url], &["one file after the other"]),
        (&surge, &["--no-keepalive", url], &["connections that are kept"]),
        (&surge, &["--directory-zipf", url], &["only the directories of specweb96"]),
        (&["--mix", "specweb96"], &[url], &["--directories N"]),
        (&["--mix", "else"], &[url], &["it is specweb96 or surge"]),
        (&mix, &["--urls", "f", url], &["cannot be used with"]),
        (&mix, &["--http2", url], &["cannot be used with"]),
        (&mix, &["--cookie-jar", url], &["cannot be used with"]),
        (&mix, &["--io", "io_uring", url], &["io_uring sends no requests that are put together"]),
        (&mix, &["--directory-zipf=0", url], &["exponent of Zipf's law"]),
        (&mix, &["--flash-crowd", "20*10/1s", url], &["--flash-crowd: ", "BASE*FACTOR/CALM,RISE,HOLD,DECAY"]),
        (&mix, &["--flash-crowd", "20*10/1s,1s,1s,1s", "-d", "1h", url], &["it ends after 5s"]),
        (&mix, &["--flash-crowd", "20*10/1s,1s,1s,1s", "--rate", "3", url], &["cannot be used with"]),
        (&mix, &["--flash-crowd", "90000*10/1s,1s,1s,1s", url], &["lower the peak or the pauses"]),
        (
            &mix,
            &["--flash-crowd", "20*10/1s,1s,1s,1s", "--client-requests", "0", url],
            &["between 1 and 10000 requests"],
        ),
        (&mix, &["--hot-files", "3", url], &["--flash-crowd"]),
        (&["--flash-crowd", "20*10/1s,1s,1s,1s"], &[url], &["--mix"]),
        (&["--directories", "3"], &[url], &["--directories: means something only with --mix"]),
    ] {
        let output = output(&[&["load"], before, after].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{before:?} {after:?}: {stderr}");
        assert!(words.iter().all(|word| stderr.contains(word)), "{before:?} {after:?}: {stderr}");
    }
}
