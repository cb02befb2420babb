//! What a server's scripts show of themselves: steps of their requests by `WEIR_LOG`, with the number of the request.

use super::scripts::get;
use super::support::served::Served;
use std::fs;
use std::os::unix::fs::PermissionsExt;

const KEPT: &str = "#!/bin/sh\nwhile read -r line <&3; do\n  while read -r line <&3 && [ -n \"$line\" ]; do :; done\n  \
                    printf 'Status: 202 Kept\\n\\nkept'\n  echo \"$CGIPLUSEOF\"\ndone\n";

/// What stands behind a name and an equals sign in a line.
fn field<'l>(line: &'l str, name: &str) -> &'l str {
    let behind = line.split(&format!("{name}=")).nth(1).unwrap_or_else(|| panic!("no {name} in {line}"));
    behind.split_ascii_whitespace().next().unwrap_or_default().trim_matches('"')
}

#[test]
fn the_steps_of_a_scripts_request_are_told_where_they_are_asked_for() {
    let folder = tempfile::tempdir().expect("a directory");
    let root = folder.path().join("www");
    for (name, text) in [
        (
            "cgi-bin/sum.sh",
            "#!/bin/sh\ni=0\nwhile [ $i -lt 3000 ]; do i=$((i + 1)); done\nprintf 'Status: 203 Own\\n\\n12345'\nexit 7\n",
        ),
        ("cgi-bin/none.sh", "#!/no/such/program\n"),
        ("plus/kept.sh", KEPT),
    ] {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("creates");
        fs::write(&path, text).expect("writes");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("sets");
    }
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("sets");
    let text = "[[host]]\nroot = \"www\"\n[[host.path]]\nprefix = \"/cgi-bin/\"\ncgi = { workers = 1 }\n\
                [[host.path]]\nprefix = \"/plus/\"\ncgiplus = { workers = 1 }\n";
    fs::write(folder.path().join("weir.toml"), text).expect("writes");
    let log = [("WEIR_LOG", "weir_scripts=debug")];
    let served = Served::start_with(folder.path(), &log, &["--loops", "1"], "weir.toml");
    assert_eq!(get(&served, "/cgi-bin/sum.sh?a=1"), (203, "12345".to_owned()));
    let taken = served.says("taken");
    assert!(taken.contains("GET /cgi-bin/sum.sh?a=1"), "{taken}");
    let id = field(&taken, "request").to_owned();
    assert!(id.len() >= 8, "{taken}");
    let begun = served.says("process begun");
    let pid = field(&begun, "pid").to_owned();
    assert!(pid.parse::<u32>().is_ok() && begun.contains("/www/cgi-bin/sum.sh"), "{begun}");
    let head = served.says("head comes");
    assert_eq!(field(&head, "status"), "203");
    let ended = served.says("ended");
    assert!(ended.contains("with status 7") && field(&ended, "output_bytes") == "22", "{ended}");
    let number = |name: &str| field(&ended, name).parse::<u64>().expect("a number");
    assert!(number("cpu_us") > 0 && number("cpu_us") < 20_000_000 && number("time_us") > 0, "{ended}");
    for line in [&begun, &head, &ended] {
        assert_eq!(field(line, "request"), id, "{line}");
    }
    assert_eq!(field(&ended, "pid"), pid);
    // What cannot be run is refused, and that is told.
    assert_eq!(get(&served, "/cgi-bin/none.sh").0, 500);
    let refused = served.says("refused");
    assert!(refused.contains("/www/cgi-bin/none.sh"), "{refused}");
    assert_ne!(field(&refused, "request"), id);
    // A process that is kept begins once.
    let mut pids = Vec::new();
    for step in ["process begun", "process chosen"] {
        assert_eq!(get(&served, "/plus/kept.sh").0, 202);
        pids.push(field(&served.says(step), "pid").to_owned());
        assert_eq!(field(&served.says("head comes"), "status"), "202");
        let ended = served.says("ended");
        assert!(ended.contains("Whole"), "{ended}");
    }
    assert_eq!(pids[0], pids[1]);
    // Without the filter nothing is told of requests.
    drop(served);
    let served = Served::start(folder.path(), &["--loops", "1"], "weir.toml");
    assert_eq!(get(&served, "/cgi-bin/sum.sh").0, 203);
    assert_eq!(get(&served, "/cgi-bin/none.sh").0, 500);
    let until = served.says("none.sh");
    assert!(!until.contains("refused: "), "{until}");
}
