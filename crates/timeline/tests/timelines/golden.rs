//! Recorded runs of real servers, joined by us and by an independent implementation in another language.

use crate::world;

use std::path::{Path, PathBuf};
use std::process::Command;
use weir_measure::part::Part;
use weir_testkit::require;
use weir_timeline::{Bounds, Joiner};
use weir_trace::RunReader;
use world::Told;

const RUNS: [&str; 4] =
    ["apache_event_new_connections", "apache_prefork_keep_alive", "nginx_keep_alive", "nginx_pipelined"];

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn golden_output(run: &str) -> String {
    let path = tests().join("independent").join(format!("{run}.jsonl"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What we say of a run, in the independent implementation's words.
fn our_output(run: &str) -> (String, Vec<Told>) {
    let reader = RunReader::open(&tests().join("golden").join(run)).expect("a golden run");
    let (mut joiner, mut told) = (Joiner::new(Bounds::default()), Vec::new());
    let mut merge = reader.merge();
    merge.each(|sourced| {
        let request = weir_wire::client::ClientRequest::read(&sourced.record, sourced.payload);
        let name = request.and_then(|request| sourced.name(request.name)).cloned();
        joiner.push(&sourced.record, sourced.payload, name.as_ref(), &mut |_, one| told.push(Told::of(one)));
        true
    });
    joiner.finish(&mut |_, one| told.push(Told::of(one)));
    assert_eq!(joiner.statistics().joined, joiner.statistics().requests);
    let lines = told.iter().map(line);
    let text = std::iter::once(format!("{{\"run\": \"{run}\"}}\n")).chain(lines).collect();
    (text, told)
}

fn line(told: &Told) -> String {
    let (request, parts) = (&told.request, told.parts());
    let server = told.server.expect("every request of a golden run is joined");
    let sent = told.request.sent_ns.clamp(request.intended_ns, request.done_ns);
    format!(
        "{{\"connection\":{},\"offset\":{},\"done\":{},\"generator\":{},\"connect\":{},\"arrival\":{},\"pick_up\":{},\
         \"last_send\":{},\"request_transit\":{},\"back\":{}}}\n",
        request.connection,
        request.request_offset,
        request.done_ns,
        parts[Part::Generator as usize],
        parts[Part::Connect as usize],
        server.arrived_ns,
        server.picked_ns,
        server.sent_ns,
        server.arrived_ns - sent,
        parts[Part::ResponseTransit as usize] + parts[Part::ClientWakeup as usize],
    )
}

#[test]
fn both_implementations_say_the_same_to_the_nanosecond() {
    for run in RUNS {
        let (ours, told) = our_output(run);
        told.iter().for_each(Told::check);
        let golden = golden_output(run);
        assert_eq!(ours.lines().count(), golden.lines().count(), "{run}");
        for (ours, golden) in ours.lines().zip(golden.lines()) {
            assert_eq!(ours, golden, "{run}");
        }
    }
}

#[test]
fn the_golden_outputs_are_what_the_independent_implementation_prints() {
    if require::program("python3").is_none() {
        return;
    }
    for run in RUNS {
        let program = tests().join("independent/explain.py");
        let output = Command::new("python3")
            .arg("-B")
            .arg(program)
            .arg(tests().join("golden").join(run))
            .output()
            .expect("python3 is there");
        assert!(output.status.success(), "{run}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout), golden_output(run), "{run}");
    }
}

/// Nothing of the machine that recorded them is in the runs.
#[test]
fn golden_runs_tell_nothing_of_their_machine() {
    for run in RUNS {
        let directory = tests().join("golden").join(run);
        let manifest = std::fs::read_to_string(directory.join("manifest.jsonl")).expect("a manifest");
        for key in ["\"name\":\"", "\"machine_id\":\"", "\"boot_id\":\""] {
            for (at, _) in manifest.match_indices(key) {
                assert!(manifest[at + key.len()..].starts_with('"'), "{run}: {key} is not empty");
            }
        }
        assert!(!manifest.contains('/') || !manifest.contains("/home/"), "{run}");
    }
}
