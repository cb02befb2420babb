//! Rules: `weir check` shows mistakes, doubts and the standard format, `weir replay` what they would do.

use crate::support;

use serde_json::Value;
use std::fs;
use support::output;
use support::schema::conforms_to_its_own;

const EXAMPLE: &str = include_str!("../../../adapt/tests/example.policy");

/// A file in a folder of its own.
fn file(name: &str, text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    fs::write(&path, text).expect("a new file");
    let path = path.to_str().expect("a readable path").to_owned();
    (folder, path)
}

#[test]
fn a_warning_is_no_mistake_and_a_mistake_is_one() {
    for name in ["flood.policy", "flood.weir-policy"] {
        let (_folder, path) = file(name, EXAMPLE);
        let checked = output(&["check", &path]);
        let said = String::from_utf8_lossy(&checked.stdout);
        assert_eq!(checked.status.code(), Some(0), "{said}");
        assert!(said.contains("warning: rule `drop`") && said.contains("policy without mistakes"), "{said}");
    }
    let (_folder, path) = file("wrong.policy", &EXAMPLE.replace("cpu@here > 90%", "cpu@here > 190%"));
    let checked = output(&["check", &path]);
    let said = String::from_utf8_lossy(&checked.stdout);
    assert_eq!(checked.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("{path}:8:37: `cpu@here > 190%` is impossible")), "{said}");
    assert!(!said.contains("without mistakes"), "{said}");
    assert_eq!(output(&["check", "/nonexistent.policy"]).status.code(), Some(2));
}

#[test]
fn a_policy_without_a_rule_is_told_of() {
    for text in ["", "# later\n", "pool main = { n1 };\n", "atom \"/**\" { variants full > half; }\n"] {
        let (folder, path) = file("empty.policy", text);
        let checked = output(&["check", &path]);
        let said = String::from_utf8_lossy(&checked.stdout);
        assert_eq!(checked.status.code(), Some(0), "{said}");
        assert!(said.contains("empty.policy:1:1: warning: the policy has no rules"), "{said}");
        let configuration = folder.path().join("weir.toml");
        let root = folder.path().display();
        let text = format!("[[host]]\nroot = \"{root}\"\n[policy]\nfile = \"{path}\"\n");
        fs::write(&configuration, text).expect("a new file");
        let used = output(&["check", configuration.to_str().expect("a readable path")]);
        let said = String::from_utf8_lossy(&used.stdout);
        assert_eq!(used.status.code(), Some(1), "{said}");
        assert!(said.contains("weir.toml: configuration without mistakes"), "{said}");
        assert!(said.contains("empty.policy:1:1: the policy has no rules"), "{said}");
        let replayed = output(&["replay", &path, "/nonexistent"]);
        assert_eq!(replayed.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&replayed.stderr).contains("the policy has no rules"));
    }
}

#[test]
fn a_program_is_told_warnings_apart_from_mistakes() {
    let (_folder, path) = file("flood.policy", EXAMPLE);
    let told: Value = serde_json::from_slice(&output(&["check", "--json", &path]).stdout).expect("JSON");
    assert_eq!(told[0]["kind"], "policy");
    assert_eq!(told[0]["mistakes"].as_array().map(Vec::len), Some(0));
    assert_eq!(told[0]["warnings"][0]["line"], 15);
}

#[test]
fn rules_are_formatted_and_other_files_are_not() {
    let (_folder, path) = file("flood.policy", EXAMPLE);
    let formatted = output(&["check", "--format", &path]);
    assert_eq!(formatted.status.code(), Some(0));
    let text = String::from_utf8(formatted.stdout).expect("text");
    assert!(text.contains("in [30kbps, 100kbps)\n        then use half\n"), "{text}");
    let (_folder, path) = file("again.policy", &text);
    assert_eq!(output(&["check", "--format", &path]).stdout, text.as_bytes());
    let (_folder, path) = file("wrong.policy", "pool");
    let refused = output(&["check", "--format", &path]);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("wrong.policy:1:5: expected a pool's name"));
    let (_folder, path) = file("weir.toml", "");
    let refused = output(&["check", "--format", &path]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("only rules can be formatted"));
}

/// A crowd that comes for one page, as a server would have recorded it.
fn crowd() -> String {
    let header = r#"{"format":"weir-readings","version":1,"here":"n1","tick_ms":1000,"valid_ms":3000}"#;
    let lines = (0..240u64).map(|second| {
        let rate = if (60..120).contains(&second) {
            20 + 10 * (second - 60)
        } else if second < 60 {
            20
        } else {
            100
        };
        format!(r#"{{"at_ms":{},"read":"rate","atom":"/news/a","value":"{rate}rps"}}"#, second * 1000)
    });
    std::iter::once(header.to_owned()).chain(lines).collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
fn a_replay_tells_what_would_have_been_done_and_why() {
    let (folder, policy) = file("flood.policy", EXAMPLE);
    let readings = folder.path().join("readings.jsonl");
    fs::write(&readings, crowd()).expect("a new file");
    for given in [readings.as_path(), folder.path()] {
        let replayed = output(&["replay", &policy, given.to_str().expect("a readable path")]);
        let said = String::from_utf8_lossy(&replayed.stdout);
        assert!(replayed.status.success(), "{}", String::from_utf8_lossy(&replayed.stderr));
        assert!(said.contains("replicate to 4 on main, spread over reserve"), "{said}");
        assert!(
            said.contains("rate@atom predicted in 30s fit >= 0.8 > 500rps: ") && said.contains(", fit 0.8"),
            "{said}"
        );
        assert!(said.contains("released: replicate to 4 on main"), "{said}");
        assert!(said.contains("240 lines and 239 ticks of 239.0 s") && said.contains("forecasts judged"), "{said}");
        assert!(!said.contains("not fired"), "{said}");
    }
    let path = readings.to_str().expect("a readable path");
    let all = output(&["replay", "--all", &policy, path]);
    assert!(String::from_utf8_lossy(&all.stdout).contains("not fired, because rate@atom"));
    let robust = output(&["replay", "--forecast", "robust", &policy, path]);
    assert!(String::from_utf8_lossy(&robust.stdout).contains("replicate to 4 on main"));
}

#[test]
fn a_program_is_told_decisions_in_lines() {
    let (folder, policy) = file("flood.policy", EXAMPLE);
    fs::write(folder.path().join("readings.jsonl"), crowd()).expect("a new file");
    let told = output(&["replay", "--json", &policy, folder.path().to_str().expect("a readable path")]);
    let lines: Vec<Value> =
        String::from_utf8_lossy(&told.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    lines.iter().for_each(conforms_to_its_own);
    let (last, decisions) = lines.split_last().expect("a summary");
    assert_eq!(decisions.len(), 2, "{decisions:?}");
    assert_eq!((&decisions[0]["rule"], &decisions[0]["outcome"]["kind"]), (&"flash".into(), &"fired".into()));
    assert_eq!(decisions[0]["orders"][0]["do"], "replicate");
    assert!(decisions[0]["readings"][0]["value"].as_f64() > Some(500.0), "{decisions:?}");
    let flash = last["rules"].as_array().and_then(|rules| rules.iter().find(|rule| rule["name"] == "flash"));
    assert_eq!(flash.map(|rule| (&rule["fired"], &rule["released"])), Some((&1.into(), &1.into())), "{last}");
    assert!(last["forecasts"][0]["judged"].as_u64() > Some(10), "{last}");
}

#[test]
fn a_recording_that_was_cut_is_read_up_to_its_last_whole_line() {
    let (folder, policy) = file("flood.policy", EXAMPLE);
    let readings = folder.path().join("readings.jsonl");
    let path = readings.to_str().expect("a readable path");
    let whole = crowd();
    let cut_at = |end: usize| {
        fs::write(&readings, &whole[..end]).expect("a new file");
        let replayed = output(&["replay", &policy, path]);
        let said = String::from_utf8_lossy(&replayed.stdout).into_owned() + &String::from_utf8_lossy(&replayed.stderr);
        (replayed.status.code(), said)
    };
    for cut in [2, 3, 30] {
        let (code, said) = cut_at(whole.len() - cut);
        assert_eq!(code, Some(0), "{said}");
        assert!(
            said.contains("239 lines and 238 ticks") && said.contains(&format!("{path}: its last line was cut")),
            "{said}"
        );
        assert!(!said.contains("column"), "{said}");
    }
    // Only its end of line is missing, so the line is whole.
    let (code, said) = cut_at(whole.len() - 1);
    assert!(code == Some(0) && said.contains("240 lines") && !said.contains("cut"), "{said}");
    let (code, said) = cut_at(20);
    assert!(code == Some(1) && said.contains("the file has no whole line"), "{said}");
    // In the middle of a file half a line is a mistake.
    fs::write(&readings, whole.replacen("\"value\":\"20rps\"}", "\"val", 1)).expect("a new file");
    let replayed = output(&["replay", &policy, path]);
    let said = String::from_utf8_lossy(&replayed.stderr);
    assert!(said.contains(&format!("{path}:2: it ends in the middle")), "{said}");
}

#[test]
fn each_part_of_a_recording_begins_afresh() {
    let (folder, policy) = file("flood.policy", EXAMPLE);
    let path = |name: &str| folder.path().join(name).to_str().expect("a readable path").to_owned();
    let (one, again, rest) = (path("one.jsonl"), path("again.jsonl"), path("rest.jsonl"));
    fs::write(&one, crowd()).expect("a new file");
    fs::write(&again, crowd() + &crowd()).expect("a new file");
    let summary = |args: &[&str]| -> Value {
        let replayed = output(&[&["replay", "--json", &policy], args].concat());
        let said = String::from_utf8_lossy(&replayed.stdout).into_owned();
        serde_json::from_str(said.lines().next_back().expect("a summary")).expect("JSON")
    };
    let fired = |of: &Value| {
        let rules = of["rules"].as_array().expect("rules");
        rules.iter().find(|rule| rule["name"] == "flash").expect("the rule")["fired"].as_u64().expect("a count")
    };
    let (once, twice) = (summary(&[&one]), summary(&[&again]));
    assert_eq!((&once["parts"], &twice["parts"]), (&1.into(), &2.into()));
    assert_eq!((fired(&once), fired(&twice)), (1, 2), "{twice}");
    assert_eq!(twice["entries"], 2 * once["entries"].as_u64().expect("a count"));
    assert_eq!(summary(&[&one, &one])["parts"], 2);
    // A part that goes on in another file does not.
    let half = crowd();
    let half: Vec<&str> = half.lines().collect();
    fs::write(&one, half[..150].join("\n") + "\n").expect("a new file");
    let header = half[0].replace("3000}", "3000,\"continues\":true}");
    fs::write(&rest, [&[&*header][..], &half[150..]].concat().join("\n") + "\n").expect("a new file");
    let continued = summary(&[&one, &rest]);
    assert_eq!((&continued["parts"], &continued["ticks"], fired(&continued)), (&1.into(), &once["ticks"], 1));
    let alone = output(&["replay", &policy, &rest]);
    assert!(String::from_utf8_lossy(&alone.stdout).contains("began in a file before these"));
    fs::write(&rest, header.replace("n1", "n2") + "\n").expect("a new file");
    let other = output(&["replay", &policy, &one, &rest]);
    assert!(String::from_utf8_lossy(&other.stderr).contains(":1: it goes on with another recording"));
}

#[test]
fn recordings_of_other_tools_are_read_and_what_is_left_out_is_counted() {
    let (folder, policy) = file("flood.policy", EXAMPLE);
    let readings = folder.path().join("readings.jsonl");
    let path = readings.to_str().expect("a readable path");
    let replay = |bytes: &[u8]| {
        fs::write(&readings, bytes).expect("a new file");
        let replayed = output(&["replay", &policy, path]);
        let said = String::from_utf8_lossy(&replayed.stdout).into_owned() + &String::from_utf8_lossy(&replayed.stderr);
        assert_eq!(replayed.status.code(), Some(0), "{said}");
        said
    };
    let plain = replay(crowd().as_bytes());
    assert_eq!(replay(format!("\u{feff}{}", crowd().replace('\n', "\r\n")).as_bytes()), plain);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut gzip, crowd().as_bytes()).expect("memory");
    let gzip = gzip.finish().expect("memory");
    assert_eq!(replay(&gzip), plain);
    let cut = replay(&gzip[..gzip.len() - 9]);
    assert!(cut.contains("its last line was cut"), "{cut}");
    let header = crowd().lines().next().expect("a header").to_owned();
    let session = |line: &str| format!("{header}\n{{\"at_ms\":5,{line}}}\n");
    let said = replay(session("\"end\":17").as_bytes());
    assert!(said.contains("1 line and 1 tick of") && said.contains("passed over: 1 line of sessions"), "{said}");
}

#[test]
fn readings_that_cannot_be_read_are_told_with_their_line() {
    let (folder, policy) = file("flood.policy", EXAMPLE);
    let readings = folder.path().join("readings.jsonl");
    let path = readings.to_str().expect("a readable path");
    let header = crowd().lines().next().expect("a header").to_owned();
    for (text, words) in [
        (String::new(), "the file is empty"),
        (format!("{header}\n"), "nothing was recorded behind the header"),
        (header.replace("\"version\":1", "\"version\":2") + "\n", ":1: weir-readings 2 is not known"),
        ("PK\u{3}\u{4}\n".to_owned(), "it is a zip archive; unpack it first"),
        ("{}\n".to_owned(), ":1: this line is no header"),
        (format!("{header}\n\n{{\"at_ms\":5,\"tock\":true}}\n"), ":3: unknown field"),
        (
            format!("{header}\n{{\"at_ms\":5,\"tick\":true}}\n{{\"at_ms\":4,\"tick\":true}}\n"),
            ":3: 4 ms is before 5 ms",
        ),
        (format!("{header}\n{}\n", "x".repeat(20_000)), ":2: more than 8192 bytes"),
    ] {
        fs::write(&readings, text).expect("a new file");
        let refused = output(&["replay", &policy, path]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(output(&["replay", &policy, "/nonexistent"]).status.code(), Some(1));
    assert_eq!(output(&["replay", "--forecast", "magic", &policy, path]).status.code(), Some(2));
}
