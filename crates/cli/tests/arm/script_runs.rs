//! The run of a script is a transaction whose parent is its request's, and the script knows it.

use super::{Place, Running, alone, wait_for};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::Duration;
use weir_testkit::{free_port, require};

const CGI: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s' \"$ARM_CORRELATOR\"\n";
const RTE: &str = "#!/usr/bin/perl\nprint \"Content-Type: text/plain\\n\\n$ENV{ARM_CORRELATOR}\";\n";
const PLUS: &str = "#!/bin/sh\nwhile read -r line <&3; do\n  found=\n  while read -r line <&3 && [ -n \"$line\" ]; do\n    \
                    case $line in ARM_CORRELATOR=*) found=${line#*=} ;; esac\n  done\n  \
                    printf 'Content-Type: text/plain\\n\\n%s' \"$found\"\n  echo \"$CGIPLUSEOF\"\ndone\n";

fn site(folder: &std::path::Path) {
    for (name, text) in [
        ("www/cgi/a.sh", CGI),
        ("www/cgi/fails.sh", "#!/bin/sh\nkill -9 $$\n"),
        ("www/plus/a.sh", PLUS),
        ("www/rte/a.pl", RTE),
    ] {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("creates");
        fs::write(&path, text).expect("writes");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("sets");
    }
    let tables = ["cgi", "cgiplus", "rte"].map(|way| {
        let prefix = if way == "cgiplus" { "plus" } else { way };
        format!("[[host.path]]\nprefix = \"/{prefix}/\"\n{way} = {{ workers = 1 }}\n")
    });
    fs::write(folder.join("weir.toml"), format!("[[host]]\nroot = \"www\"\n{}", tables.concat())).expect("writes");
    fs::write(folder.join("rules"), "Arm On\nArmApplication shop\nArmMatch ^/ page\n").expect("writes");
}

/// Status and body of an answer, whose end is that of the connection.
fn get(port: u16, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connects");
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: a\r\n\r\n").as_bytes()).expect("asks");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("an answer");
    let status = reply.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, reply.split_once("\r\n\r\n").expect("a head").1.to_owned())
}

/// The id of a transaction by the digits of its correlator: trace and span.
fn id(correlator: &str) -> String {
    assert_eq!(correlator.len(), 56, "{correlator}");
    format!("{}-{}", &correlator[8..40], &correlator[40..])
}

/// A run, and all of its trace, if the agent knows both of them.
fn shown(place: &Place, own: &str, path: &str) -> Option<(Value, Value)> {
    std::thread::sleep(Duration::from_millis(20));
    let shown = place.run(&["arm", "show", own, "--json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).ok()?;
    let found = shown.as_array()?.iter().find(|one| one["id"] == own)?;
    (found["name"] == path && shown.as_array()?.len() == 2).then(|| (found.clone(), shown.clone()))
}

#[test]
fn a_scripts_run_is_a_child_of_its_request_and_the_parent_of_what_it_reports() {
    let _turn = alone();
    if require::program("perl").is_none() {
        return;
    }
    let place = Place::new();
    let folder = place.folder.path();
    site(folder);
    let agent = place.agent();
    let port = free_port();
    let mut command =
        place.command(&["serve", "--listen", &format!("127.0.0.1:{port}"), "--arm", "rules", "weir.toml"]);
    let server = Running(command.current_dir(folder).stderr(Stdio::null()).spawn().expect("it starts"));
    wait_for(|| TcpStream::connect(("127.0.0.1", port)).ok());
    for (path, kind) in [("/cgi/a.sh", "CGI"), ("/plus/a.sh", "CGIplus"), ("/rte/a.pl", "RTE")] {
        // The request is reported once the agent listens to the server, the run once it listens to the runner.
        let shown = wait_for(|| {
            let (status, correlator) = get(port, path);
            assert_eq!(status, 200, "{kind}: {correlator}");
            let own = id(Some(&*correlator).filter(|text| !text.is_empty())?);
            // The agent takes it in some time later.
            (0..50).find_map(|_| shown(&place, &own, path))
        });
        let (run, all) = shown;
        assert_eq!((&run["application"], &run["status"]), (&"weir scripts".into(), &"good".into()), "{kind}: {run:#}");
        let all = all.as_array().expect("transactions");
        let request = all.iter().find(|one| one["id"] == run["parent"]).unwrap_or_else(|| panic!("{kind}: {all:#?}"));
        assert_eq!((&request["application"], &request["name"]), (&"shop".into(), &"page".into()), "{kind}");
    }
    // A run that fails is told as one, and begins a trace of its own no more than others.
    let failed = wait_for(|| {
        assert_eq!(get(port, "/cgi/fails.sh").0, 502);
        let list = place.json(&["arm", "top", "--json"]);
        let rows = list["rows"].as_array()?.clone();
        rows.into_iter().find(|row| row["transaction"] == "/cgi/fails.sh")
    });
    assert_eq!(failed["failed"], failed["transactions"], "{failed:#}");
    server.end();
    agent.end();
}
