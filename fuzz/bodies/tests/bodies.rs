//! Every body on its seeds, on seeds that were changed, and on bytes without any sense, without a fuzzer.
//!
//! The inputs are the same every time; a failing one is printed, and belongs to the seeds then. With `BODY_ROUNDS` in the
//! environment so many rounds of other inputs are tried.
// scripts/test: serves

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use weir_testkit::seeded::Choice;

const CHANGED: usize = 4000;
const SENSELESS: usize = 1000;
const LONGEST: u64 = 600;

fn seeds(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../seeds").join(name);
    let mut paths: Vec<_> =
        fs::read_dir(&folder).expect("the seeds").map(|file| file.expect("a file").path()).collect();
    paths.sort();
    let seeds: Vec<_> = paths.iter().map(|path| fs::read(path).expect("readable")).collect();
    assert!(!seeds.is_empty(), "{}", folder.display());
    seeds
}

/// A seed with some of its bytes changed, removed, repeated or taken from another one.
fn changed(choice: &mut Choice, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut input = choice.pick(seeds).clone();
    for _ in 0..=choice.below(4) {
        let at = choice.below(input.len() as u64 + 1) as usize;
        let end = (at + choice.below(20) as usize).min(input.len());
        match choice.below(6) {
            0 if at < input.len() => input[at] ^= 1 << choice.below(8),
            1 if at < input.len() => input[at] = choice.pick(b"\r\n :-,;/.%0aA\xff\0").to_owned(),
            2 => drop(input.drain(at..end)),
            3 => input.splice(at..at, input[at..end].to_vec()).for_each(drop),
            4 => input.truncate(at),
            _ => {
                let other = choice.pick(seeds);
                let from = choice.below(other.len() as u64 + 1) as usize;
                let to = (from + choice.below(100) as usize).min(other.len());
                input.splice(at..end, other[from..to].iter().copied());
            }
        }
    }
    input
}

fn check(name: &str, body: fn(&[u8])) {
    let rounds = std::env::var("BODY_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1);
    (0..rounds).for_each(|round| check_round(name, body, 42 + round));
}

fn check_round(name: &str, body: fn(&[u8]), seed: u64) {
    let seeds = seeds(name);
    let mut choice = Choice::from_seed(seed);
    let mut inputs = seeds.clone();
    inputs.push(Vec::new());
    inputs.extend((0..CHANGED).map(|_| changed(&mut choice, &seeds)));
    inputs.extend((0..SENSELESS).map(|_| {
        let length = choice.below(LONGEST);
        (0..length).map(|_| choice.next_u64() as u8).collect()
    }));
    for input in inputs {
        let outcome = catch_unwind(AssertUnwindSafe(|| body(&input)));
        assert!(outcome.is_ok(), "{name} fails on b\"{}\"", input.escape_ascii());
    }
}

macro_rules! bodies {
    ($($name:ident)*) => { $(#[test] fn $name() { check(stringify!($name), weir_fuzz_bodies::$name); })* };
}

bodies! {
    segment_reader manifest bpf_expand client_records stack_records ring_consumer http_response http2_frames http_request url ranges route nginx_configuration caddyfile htaccess accept_encoding page_template
    program containers probe_notes go_table foreign_trace objects_table query_text questions stream_heads server_configuration sql url_list url_file set_cookie
    access_log nul_list load_gate load_events load_grpc_messages load_grpc_proto load_http3 load_websocket rate_profile flash_crowd session_list proxy_answer places pins_and_objectives web_tests
    monkeywrench_sessions http_archive web_page comparison_plan comparison_history console_admission console_requests dropin_arguments k6_texts exporter_answers
    arm_memory agent_lines arm_directives certificate_name certificate_staple certificate_validity acme_message server_http2 server_http3
    weir_configuration adapt_policy adapt_readings planned_log plan_policy scenario descriptions sound_frames handed_on cgi_response
    fastcgi_response client_address proxy_protocol upstream_response upstream_http2 cache_control isapi_variables
    scripts_fastcgi scripts_marks scripts_remote moved_session load_workers keeper_messages directory_manifest
    relayed_response cluster_message cluster_join cluster_certificate cluster_gossip cluster_names cluster_events
    sent_run line_forms trace_chrome_json trace_ctf trace_jfr trace_lines trace_otlp trace_perfetto
    scripts_requests scripts_status scripts_correlator isapi_head watch_filter activity_file request_filter
    mcp_messages load_now
}

/// Each body is a target of the fuzzer as well, and the other way round.
#[test]
fn bodies_and_targets_are_the_same() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let names = |path: &str| {
        let files = fs::read_dir(folder.join(path)).expect("a folder");
        let stem = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
        let mut names: Vec<_> = files.map(|file| stem(&file.expect("a file").path())).collect();
        names.sort();
        names
    };
    let targets = names("fuzz_targets");
    assert_eq!(targets, names("seeds"));
    let this = include_str!("bodies.rs");
    assert!(targets.iter().all(|name| this.contains(name.as_str())), "{targets:?}");
}
