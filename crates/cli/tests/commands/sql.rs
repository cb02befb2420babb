//! `weir sql` and `weir export` on a recorded run: forms of answers, refusals, and what other tools read.

use crate::support::weir;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Output;

/// A copy of the run that the tables' own tests ask.
fn recorded(folder: &Path) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../query/tests/recorded");
    let run = folder.join("shop");
    fs::create_dir_all(run.join("segments")).expect("a folder");
    fs::copy(from.join("manifest.jsonl"), run.join("manifest.jsonl")).expect("a copy");
    for segment in fs::read_dir(from.join("segments")).expect("segments").flatten() {
        fs::copy(segment.path(), run.join("segments").join(segment.file_name())).expect("a copy");
    }
    run
}

fn asked(run: &Path, arguments: &[&str]) -> Output {
    weir().arg("sql").arg(run).args(arguments).output().expect("the command runs")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

#[test]
fn an_answer_is_a_table_csv_or_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = recorded(folder.path());
    let sql = "SELECT 1 AS n, 'a,\"b\"' AS words, NULL AS missing, 0.5 AS half UNION ALL SELECT 22, '', NULL, 2.0";
    assert_eq!(
        text(&asked(&run, &[sql])),
        " n  words  missing  half\n 1  a,\"b\"            0.5\n22                   2.0\n"
    );
    assert_eq!(text(&asked(&run, &["--csv", sql])), "n,words,missing,half\n1,\"a,\"\"b\"\"\",,0.5\n22,\"\",,2\n");
    let json: Value = serde_json::from_str(&text(&asked(&run, &["--json", sql]))).expect("JSON");
    assert_eq!(json[0], serde_json::json!({"n": 1, "words": "a,\"b\"", "missing": null, "half": 0.5}));
    let none: Value = serde_json::from_str(&text(&asked(&run, &["--json", "SELECT 1 AS n WHERE 0"]))).expect("JSON");
    assert_eq!(none, Value::Array(Vec::new()));
    let saved = text(&asked(&run, &["--saved", "where-time-goes"]));
    assert!(saved.starts_with("part ") && saved.lines().count() > 3, "{saved}");
}

#[test]
fn questions_that_cannot_be_answered_end_with_two_and_a_run_that_is_none_with_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = recorded(folder.path());
    for (question, words) in [
        ("SELECT nam FROM requests", "did you mean name?"),
        ("SELECT 1 FROM request", "did you mean requests?"),
        ("DROP TABLE requests", "a run is never changed"),
    ] {
        let output = asked(&run, &[question]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), told.contains(words)), (Some(2), true), "{question}: {told}");
    }
    assert_eq!(asked(&folder.path().join("none"), &["SELECT 1"]).status.code(), Some(1));
    assert_eq!(weir().args(["sql", "--saved", "x"]).output().expect("it runs").status.code(), Some(2));
    let list = weir().args(["sql", "--list"]).output().expect("it runs");
    assert!(String::from_utf8_lossy(&list.stdout).lines().count() >= 20);
}

#[test]
fn objects_are_asked_by_the_users_own_rules() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = recorded(folder.path());
    let file = folder.path().join("mine.toml");
    let path = file.to_str().expect("a readable path");
    let rules = "[[interaction]]\nname = \"sleep\"\npattern = \"detached\"\nby = \"object\"\n\n[[rule]]\nevent = \"sched_switch\"\n\
                 when = \"prev_pid != 0 && prev_state != 0\"\ndo = \"accept\"\ninteraction = \"sleep\"\n\
                 requester = \"task:prev_pid\"\nobject = \"bed:prev_pid\"\n";
    fs::write(&file, rules).expect("a file");
    let beds = "SELECT count(*) AS beds FROM objects WHERE class = 'bed'";
    let none = text(&asked(&run, &["--csv", beds]));
    let some = text(&asked(&run, &["--csv", "--objects", path, beds]));
    assert_eq!(none, "beds\n0\n");
    assert!(some.lines().nth(1).and_then(|beds| beds.parse::<u32>().ok()).is_some_and(|beds| beds > 1), "{some}");
    // An export by these rules has them, too.
    let csv = folder.path().join("csv");
    let (csv, run) = (csv.to_str().expect("a path"), run.to_str().expect("a path"));
    let output = weir().args(["export", run, "--csv", csv, "--table", "objects", "--objects", path]).output();
    assert!(output.expect("it runs").status.success());
    assert!(fs::read_to_string(format!("{csv}/objects.csv")).expect("the table").contains(",bed,"));
    fs::write(&file, rules.replace("\"accept\"", "\"lie\"")).expect("a file");
    for command in [&["sql", run, beds][..], &["export", run, "--csv", csv], &["view", run]] {
        let output = weir().args(command).args(["--objects", path]).output().expect("it runs");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            (output.status.code(), told.starts_with(&format!("{path}:9:6: \"lie\""))),
            (Some(2), true),
            "{told}"
        );
    }
}

#[test]
fn the_tables_say_what_the_report_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = recorded(folder.path());
    let output = weir().arg("explain").arg(&run).arg("--json").output().expect("it runs");
    let report: Value = serde_json::from_str(&text(&output)).expect("JSON");
    let sql =
        "SELECT part, 1.0 * sum(duration_ns) / (SELECT count(*) FROM requests) AS mean_ns FROM parts GROUP BY part";
    let answer: Value = serde_json::from_str(&text(&asked(&run, &["--json", sql]))).expect("JSON");
    let means: BTreeMap<&str, f64> = answer
        .as_array()
        .expect("rows")
        .iter()
        .filter_map(|row| Some((row["part"].as_str()?, row["mean_ns"].as_f64()?)))
        .collect();
    let reported = report["parts_ns"].as_object().expect("parts");
    assert!(means.len() > 4 && reported.len() >= means.len(), "{means:?}, {reported:?}");
    for (part, mean_ns) in reported {
        let (told, asked) = (mean_ns.as_f64().expect("a number"), means.get(part.as_str()).copied().unwrap_or(0.0));
        assert!((told - asked).abs() <= 1.0, "{part}: {told} by the report, {asked} by the tables");
    }
    let count = text(&asked(&run, &["--csv", "SELECT count(*) FROM requests"]));
    assert_eq!(count.lines().nth(1), Some(report["requests"].to_string().as_str()));
}

/// A message of Protocol Buffers: its fields in their order, numbers and blocks.
fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, &[u8])> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = bytes.split_first().expect("a whole number");
            *bytes = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return number;
            }
        }
        panic!("a number of more than 64 bits");
    }
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let (number, block): (u64, &[u8]) = match key & 7 {
            0 => (varint(&mut bytes), &[]),
            1 => {
                let (fixed, rest) = bytes.split_at(8);
                bytes = rest;
                (u64::from_le_bytes(fixed.try_into().expect("eight bytes")), &[])
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (block, rest) = bytes.split_at(length);
                bytes = rest;
                (0, block)
            }
            other => panic!("wire type {other}"),
        };
        fields.push((key >> 3, number, block));
    }
    fields
}

#[test]
fn a_trace_of_perfetto_has_each_request_with_its_parts_and_arrows_to_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, file) = (recorded(folder.path()), folder.path().join("a.pftrace"));
    let output = weir().arg("export").arg(&run).arg("--perfetto").arg(&file).output().expect("it runs");
    let said = text(&output);
    let trace = fs::read(&file).expect("the trace");
    let (mut tracks, mut depths, mut names, mut flows) = (
        BTreeSet::new(),
        BTreeMap::<u64, Vec<u64>>::new(),
        BTreeMap::<String, u64>::new(),
        BTreeMap::<u64, u64>::new(),
    );
    for (field, _, packet) in fields(&trace) {
        assert_eq!(field, 1);
        let packet = fields(packet);
        let find = |fields: &[(u64, u64, &[u8])], wanted: u64| {
            fields.iter().find(|(field, ..)| *field == wanted).map(|(_, number, _)| *number)
        };
        if let Some((.., block)) = packet.iter().find(|(field, ..)| *field == 60) {
            let track = fields(block);
            let parent = find(&track, 5);
            assert!(parent.is_none_or(|parent| tracks.contains(&parent)), "a group comes before its tracks");
            tracks.insert(find(&track, 1).expect("a number"));
        }
        let Some((.., block)) = packet.iter().find(|(field, ..)| *field == 11) else { continue };
        let (event, at_ns) = (fields(block), find(&packet, 8).expect("a time"));
        let track = find(&event, 11).expect("a track");
        assert!(tracks.contains(&track), "a track comes before its slices");
        let open = depths.entry(track).or_default();
        match find(&event, 9) {
            Some(1) => {
                open.push(at_ns);
                let block_of = |wanted: u64| {
                    event
                        .iter()
                        .find(|(field, ..)| *field == wanted)
                        .map(|(.., block)| String::from_utf8_lossy(block).into_owned())
                };
                *names.entry(block_of(22).unwrap_or_default()).or_default() += 1;
                event
                    .iter()
                    .filter(|(field, ..)| *field == 47)
                    .for_each(|(_, flow, _)| *flows.entry(*flow).or_default() += 1);
            }
            Some(2) => assert!(open.pop().is_some_and(|begin_ns| begin_ns <= at_ns), "an end without its begin"),
            other => panic!("an event of sort {other:?}"),
        }
    }
    assert!(depths.values().all(Vec::is_empty), "each slice ends");
    let count = |sql: &str| {
        text(&asked(&run, &["--csv", sql])).lines().nth(1).and_then(|line| line.parse::<u64>().ok()).expect("a number")
    };
    let requests = count("SELECT count(*) FROM requests");
    assert_eq!(names["request"], requests);
    assert_eq!(names["part"], count("SELECT count(*) FROM parts"));
    assert_eq!(names["cpu"], count("SELECT count(*) FROM slices"));
    assert_eq!(names["wait"], count("SELECT count(*) FROM waits JOIN tasks ON tasks.pid = waits.pid"));
    assert!(said.contains(&format!("{requests} requests")), "{said}");
    let run_by_threads = count("SELECT count(DISTINCT request_id) FROM parts WHERE part = 'run' AND pid IS NOT NULL");
    let of_requests = |flow: &u64| *flow < FIRST_INTERACTION;
    let joined = flows.iter().filter(|(flow, ends)| of_requests(flow) && **ends > 1).count() as u64;
    assert_eq!(joined, run_by_threads);
    let interactions = count("SELECT count(*) FROM interactions WHERE pattern <> 'cpu'");
    assert_eq!(names["interaction"], interactions);
    assert_eq!(
        names["busy"],
        count("SELECT count(*) FROM interactions WHERE pattern <> 'cpu' AND used_ns IS NOT NULL")
    );
    assert!(said.contains(&format!("{interactions} interactions")), "{said}");
    // Each that a thread asked for has an arrow from there.
    let by_threads = count(
        "SELECT count(*) FROM interactions JOIN tasks ON pid = requester_id
        WHERE requester_class = 'task' AND pattern <> 'cpu'",
    );
    let of_interactions: Vec<u64> =
        flows.iter().filter(|(flow, _)| !of_requests(flow)).map(|(_, ends)| *ends).collect();
    assert!(by_threads > 10 && of_interactions.iter().all(|ends| *ends == 2), "{by_threads}: {of_interactions:?}");
    assert_eq!(of_interactions.len() as u64, by_threads);
    by_perfettos_own_classes(&file, requests, interactions);
}

/// Numbers of arrows from here on are of interactions.
const FIRST_INTERACTION: u64 = 1 << 40;

/// Has the classes of PyPI's `perfetto` read the trace, where they are installed: requests, what objects did on the
/// tracks below that of all objects, and arrows that have both ends.
fn by_perfettos_own_classes(trace: &Path, requests: u64, interactions: u64) {
    let program = "import sys
from collections import Counter
from perfetto.protos.perfetto.trace import perfetto_trace_pb2
trace = perfetto_trace_pb2.Trace()
trace.ParseFromString(open(sys.argv[1], 'rb').read())
begins = [packet.track_event for packet in trace.packet if packet.HasField('track_event') and packet.track_event.type == 1]
print(sum(1 for event in begins if 'request' in event.categories))
tracks = {one.track_descriptor.uuid: one.track_descriptor for one in trace.packet if one.HasField('track_descriptor')}
group = [uuid for uuid, track in tracks.items() if track.name == 'objects']
within = {uuid for uuid, track in tracks.items() if group and track.parent_uuid == group[0]}
print(sum(1 for event in begins if 'interaction' in event.categories and event.track_uuid in within))
flows = Counter(flow for event in begins for flow in event.flow_ids if flow >= 1 << 40)
print(sorted(set(flows.values())))";
    let python = std::env::var_os("WEIR_PERFETTO_PYTHON").unwrap_or_else(|| "python3".into());
    let output = std::process::Command::new(python).args(["-c", program]).arg(trace).output();
    match output {
        Ok(output) if output.status.success() => {
            let told = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(told.lines().collect::<Vec<_>>(), [&requests.to_string(), &interactions.to_string(), "[2]"]);
        }
        _ => println!("skipped: python3 has no classes of Perfetto (`pip install perfetto protobuf`)"),
    }
}

#[test]
fn a_trace_of_chrome_is_json_with_the_same_slices() {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, file) = (recorded(folder.path()), folder.path().join("a.json"));
    text(&weir().arg("export").arg(&run).arg("--chrome").arg(&file).output().expect("it runs"));
    let trace: Value = serde_json::from_slice(&fs::read(&file).expect("the trace")).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let of = |category: &str| {
        events.iter().filter(|event| event["ph"] == "X" && event["cat"] == category).collect::<Vec<_>>()
    };
    let (requests, parts) = (of("request"), of("part"));
    assert!(requests.len() > 100 && parts.len() > requests.len());
    let sum = |events: &[&Value]| events.iter().filter_map(|event| event["dur"].as_f64()).sum::<f64>();
    assert!((sum(&requests) - sum(&parts)).abs() < 1.0, "{} and {}", sum(&requests), sum(&parts));
    let named: BTreeSet<(u64, u64)> = events
        .iter()
        .filter(|event| event["name"] == "thread_name")
        .filter_map(|event| Some((event["pid"].as_u64()?, event["tid"].as_u64()?)))
        .collect();
    let place = |event: &&Value| (event["pid"].as_u64().expect("a pid"), event["tid"].as_u64().expect("a tid"));
    assert!(requests.iter().chain(&parts).all(|event| named.contains(&place(event))));
}

/// The scheduler's, tasks' and disks' events of a run, a line each: when and where, who, and what of it a kernel's
/// tracepoint tells.
fn kernels_events(run: &Path) -> Vec<String> {
    // A frozen task is told as one that ended, and of a soft interrupt it is not told whose it was. Of a task that is
    // made its sort is not told, and of a request to a disk whether it reads or writes alone.
    let sql = "SELECT (SELECT begin_monotonic_ns FROM run) + at_ns AS at_ns, lane, kind, a,
            CASE kind WHEN 'sched_switch' THEN CASE b & 255 WHEN 16 THEN 32 ELSE b & 255 END ELSE b END AS b,
            CASE WHEN kind = 'fork' THEN 0 WHEN kind = 'disk_request' AND flags > 1 THEN 3 WHEN kind <> 'sched_waking'
                THEN flags WHEN flags & 4 = 0 THEN 0 WHEN flags & 2 THEN 7 ELSE flags & 5 END AS flags
        FROM events WHERE kind IN ('sched_switch', 'sched_waking', 'fork', 'exec', 'exit', 'disk_request')
        ORDER BY 1, 2, 3, 4, 5";
    text(&asked(run, &["--csv", sql])).lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn a_trace_of_ctf_is_read_back_with_the_same_events() {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, trace, back) = (recorded(folder.path()), folder.path().join("trace"), folder.path().join("back"));
    let said = text(&weir().arg("export").arg(&run).arg("--ctf").arg(&trace).output().expect("it runs"));
    let imported = weir().arg("import").arg(&trace).args(["--json", "--run"]).arg(&back).output().expect("it runs");
    let told: Value = serde_json::from_str(&text(&imported)).expect("JSON");
    assert_eq!((&told["format"], &told["clock"]), (&"CTF".into(), &"monotonic".into()), "{told:#}");
    let (own, imported) = (kernels_events(&run), kernels_events(&back));
    assert!(own.len() > 1000 && own.iter().any(|line| line.contains("disk_request")), "{} events", own.len());
    for (one, other) in own.iter().zip(&imported) {
        assert_eq!(one, other);
    }
    assert_eq!(own.len(), imported.len());
    // What is no tracepoint of the kernel's is there by its name.
    let events = told["events"].as_object().expect("events by name");
    let of = |sql: &str| text(&asked(&run, &["--csv", sql])).lines().nth(1).unwrap_or_default().to_owned();
    let sends = of("SELECT count(*) FROM events WHERE kind = 'socket_send'");
    assert_eq!(events["weir:socket_send"].to_string(), sends);
    let disks: u64 = of("SELECT count(*) FROM events WHERE kind = 'disk_request'").parse().expect("a number");
    let all: u64 = of("SELECT count(*) FROM events").parse().expect("a number");
    assert!(said.contains(&format!("{} events in", all + disks)), "{said}");
    by_babeltrace(&trace, events);
    let again = weir().arg("export").arg(&run).arg("--ctf").arg(&trace).output().expect("it runs");
    assert!(!again.status.success() && String::from_utf8_lossy(&again.stderr).contains("is not empty"));
}

/// Has babeltrace2 read the trace, where it is installed: the same events by their names, none of them wrong.
fn by_babeltrace(trace: &Path, events: &serde_json::Map<String, Value>) {
    let program = std::env::var_os("WEIR_BABELTRACE2").unwrap_or_else(|| "babeltrace2".into());
    let Ok(output) = std::process::Command::new(program).args(["--names", "none"]).arg(trace).output() else {
        println!("skipped: babeltrace2 is not installed (Debian's package babeltrace2)");
        return;
    };
    let told = text(&output);
    let mut names = BTreeMap::<String, u64>::new();
    for line in told.lines() {
        let name = events.keys().find(|name| line.contains(&format!(" {name}: ")));
        *names.entry(name.unwrap_or_else(|| panic!("{line}")).clone()).or_default() += 1;
    }
    let own: BTreeMap<String, u64> =
        events.iter().filter_map(|(name, count)| Some((name.clone(), count.as_u64()?))).collect();
    assert_eq!(names, own);
}

#[test]
fn tables_are_written_as_csv_and_stacks_as_a_profile() {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, to) = (recorded(folder.path()), folder.path().join("csv"));
    let export = |arguments: &[&str]| weir().arg("export").arg(&run).args(arguments).output().expect("it runs");
    let to_text = to.to_str().expect("a path");
    text(&export(&["--csv", to_text, "--table", "requests", "--table", "tasks"]));
    let requests = fs::read_to_string(to.join("requests.csv")).expect("the table");
    assert_eq!(requests, text(&asked(&run, &["--csv", "SELECT * FROM requests"])));
    assert_eq!(fs::read_dir(&to).expect("the folder").count(), 2);
    let again = export(&["--csv", to_text]);
    assert!(!again.status.success() && String::from_utf8_lossy(&again.stderr).contains("is not empty"));
    let unknown = export(&["--csv", "x", "--table", "requestz"]);
    assert_eq!(unknown.status.code(), Some(2));
    let profile = folder.path().join("a.pb.gz");
    let said = text(&export(&["--pprof", profile.to_str().expect("a path")]));
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(fs::File::open(&profile).expect("it")).read_to_end(&mut bytes).expect("gzip");
    let profile = fields(&bytes);
    let texts: Vec<&[u8]> = profile.iter().filter(|(field, ..)| *field == 6).map(|(.., text)| *text).collect();
    assert!(texts[0].is_empty() && texts.contains(&b"nanoseconds".as_slice()));
    let (mut samples, mut weight_ns) = (0, 0);
    for (.., sample) in profile.iter().filter(|(field, ..)| *field == 2) {
        let packed = fields(sample).into_iter().find(|(field, ..)| *field == 2).expect("values").2;
        // The numbers of a packed field stand behind each other without keys.
        let ends = packed.iter().enumerate().filter(|(_, byte)| **byte & 0x80 == 0).map(|(at, _)| at + 1);
        let begins = [0].into_iter().chain(ends.clone());
        let number = |piece: &[u8]| piece.iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f));
        let numbers: Vec<u64> = begins.zip(ends).map(|(begin, end)| number(&packed[begin..end])).collect();
        samples += numbers[0];
        weight_ns += numbers[1];
    }
    let sql = "SELECT count(*), sum(weight_ns) FROM samples WHERE state = 'running'";
    let counted = text(&asked(&run, &["--csv", sql]));
    assert_eq!(counted.lines().nth(1), Some(format!("{samples},{weight_ns}").as_str()));
    assert!(samples > 0 && said.contains(&format!("{samples} samples")), "{said}");
}
