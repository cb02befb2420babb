//! The C interface as C programs see it: each of `tests/c` is built with the header and linked with the library, and
//! run as it is, under AddressSanitizer, under ThreadSanitizer and under valgrind.
// scripts/test: counts

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use tempfile::TempDir;
use weir_testkit::require;
use weir_wire::Kind;
use weir_wire::arm;

/// What runs for each start and stop, in this library's own functions.
const HOT: [&str; 4] = ["arm_start_transaction", "arm_stop_transaction", "hot::start_recorded", "hot::stop_recorded"];
/// Instructions of these for a pair, with a listener and without: measured with Rust 1.95. How the clock is read depends on
/// time, which valgrind stretches; within these functions that is a handful of instructions.
const MOST_INSTRUCTIONS: [(&str, u64); 2] = [("listen", 285), ("alone", 95)];

/// The folder of one run of this file: the library under its names, the programs, and folders for announcements.
static WORK: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let built = std::env::current_exe().expect("this test").with_file_name("libarm4.so");
    assert!(built.exists(), "{} was not built", built.display());
    for name in ["libarm4.so", "libarm4.so.4"] {
        symlink(&built, folder.path().join(name)).expect("a link");
    }
    folder
});

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c")
}

/// The layout of the memory, for programs that listen to themselves.
fn layout() -> Vec<String> {
    let numbers: [(&str, u64); 35] = [
        ("MAGIC", arm::MAGIC),
        ("LANES", arm::LANES as u64),
        ("SHARED_LANES", arm::SHARED_LANES as u64),
        ("LANE_SLOTS", arm::LANE_SLOTS as u64),
        ("HEAD_MAGIC", arm::HEAD_MAGIC as u64),
        ("HEAD_PID", arm::HEAD_PID as u64),
        ("HEAD_TOKEN", arm::HEAD_TOKEN as u64),
        ("HEAD_LANES_USED", arm::HEAD_LANES_USED as u64),
        ("HEAD_DEFINED_BYTES", arm::HEAD_DEFINED_BYTES as u64),
        ("HEAD_DEFINITIONS_DROPPED", arm::HEAD_DEFINITIONS_DROPPED as u64),
        ("HEAD_LANELESS", arm::HEAD_LANELESS as u64),
        ("HEAD_HEARTBEAT", arm::HEAD_HEARTBEAT as u64),
        ("HEAD_DEFAULT_SWITCH", arm::HEAD_DEFAULT_SWITCH as u64),
        ("SWITCH_OFF", u64::from(arm::SWITCH_OFF)),
        ("POSITION_WORDS", arm::POSITION_WORDS as u64),
        ("LANE_WRITTEN", arm::LANE_WRITTEN as u64),
        ("LANE_DROPPED", arm::LANE_DROPPED as u64),
        ("LANE_SKIPPED", arm::LANE_SKIPPED as u64),
        ("LANE_READ", arm::LANE_READ as u64),
        ("LANE_OWNER", arm::LANE_OWNER as u64),
        ("SWITCHES_AT", arm::SWITCHES_AT as u64),
        ("POSITIONS_AT", arm::POSITIONS_AT as u64),
        ("DEFINITIONS_AT", arm::DEFINITIONS_AT as u64),
        ("DEFINITION_BYTES", arm::DEFINITION_BYTES as u64),
        ("LANES_AT", arm::LANES_AT as u64),
        ("ARM_START", Kind::ArmStart as u64),
        ("ARM_STOP", Kind::ArmStop as u64),
        ("ARM_UPDATE", Kind::ArmUpdate as u64),
        ("ARM_DISCARD", Kind::ArmDiscard as u64),
        ("ARM_BLOCK", Kind::ArmBlock as u64),
        ("ARM_UNBLOCK", Kind::ArmUnblock as u64),
        ("ARM_BIND", Kind::ArmBind as u64),
        ("ARM_REPORT", Kind::ArmReport as u64),
        ("ARM_DETAIL", Kind::ArmDetail as u64),
        ("ARM_CORRELATOR", Kind::ArmCorrelator as u64),
    ];
    let more = [
        ("ARM_INSTANCE", Kind::ArmInstance as u64),
        ("ARM_PIECES", Kind::ArmPieces as u64),
        ("FIELD_METRIC_VALUE", arm::Field::MetricValue as u64),
        ("FIELD_METRIC_NUMBER", arm::Field::MetricNumber as u64),
        ("MEMORY_BYTES", arm::MEMORY_BYTES as u64),
    ];
    // Numbers of the layout are int in C, but for the few that are longer.
    let written = |(name, number): &(&str, u64)| {
        let suffix = if *number > i32::MAX as u64 { "u" } else { "" };
        format!("-D{name}={number}{suffix}")
    };
    numbers.iter().chain(&more).map(written).collect()
}

/// Builds a program; `variant` names it, `options` are the compiler's.
fn build(name: &str, variant: &str, options: &[&str]) -> PathBuf {
    let program = WORK.path().join(format!("{name}{variant}"));
    let output = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-unused-result", "-D_GNU_SOURCE"])
        .arg(format!("-I{}", sources().join("../../../../native/include").display()))
        .args(layout())
        .args(options)
        .arg(sources().join(format!("{name}.c")))
        .arg("-o")
        .arg(&program)
        .args(["-L".as_ref(), WORK.path().as_os_str(), OsStr::new("-larm4"), OsStr::new("-lpthread")])
        .output()
        .expect("cc starts");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Runs a program through another one, whose name and options come first, and gives what it said.
fn run(command: &[&OsStr]) -> String {
    // Each has announcements of its own.
    let announcements = tempfile::tempdir_in(WORK.path()).expect("a directory");
    let output = Command::new("timeout")
        .arg("60")
        .args(command)
        .env("LD_LIBRARY_PATH", WORK.path())
        .env("WEIR_ARM_DIR", announcements.path())
        .env("TSAN_OPTIONS", "exitcode=66 halt_on_error=1")
        .current_dir(WORK.path())
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?} ended with {}: {said}", output.status);
    // A program that exits in order without an agent leaves no announcement behind.
    let left = fs::read_dir(announcements.path()).expect("the directory").count();
    let is_alone = command.iter().any(|word| *word == OsStr::new("alone"));
    assert!(!is_alone || left == 0, "{left} announcements are left");
    said
}

fn plain(name: &str, options: &[&str], arguments: &[&str]) {
    let program = build(name, "", options);
    let command: Vec<&OsStr> = std::iter::once(program.as_os_str()).chain(arguments.iter().map(OsStr::new)).collect();
    run(&command);
}

const MEMCHECK: [&str; 3] = ["valgrind", "--quiet", "--error-exitcode=9"];
/// What a thread was at when its process forked is lost in the child: so not for programs that do both.
const LEAKS: [&str; 2] = ["--errors-for-leak-kinds=definite", "--leak-check=full"];

fn under_valgrind(name: &str, options: &[&str], more: &[&str]) {
    if require::program("valgrind").is_none() {
        return;
    }
    let program = build(name, "-valgrind", options);
    let mut command: Vec<&OsStr> = MEMCHECK.iter().chain(more).map(OsStr::new).collect();
    command.push(program.as_os_str());
    run(&command);
}

fn sanitized(name: &str, sanitizer: &str, options: &[&str]) {
    let flag = format!("-fsanitize={sanitizer}");
    let all: Vec<&str> = options.iter().copied().chain([flag.as_str(), "-fno-omit-frame-pointer"]).collect();
    let program = build(name, &format!("-{}", sanitizer.split(',').next().unwrap_or_default()), &all);
    run(&[program.as_os_str()]);
}

#[test]
fn sizes_offsets_constants_and_types_are_the_standards() {
    plain("layout", &[], &[]);
    // And the headers are those of C++; clang is there for the BPF programs, and needs nothing more for that.
    for header in ["arm4.h", "weir_arm.h"] {
        let header = sources().join("../../../../native/include").join(header);
        let mut check = Command::new("clang");
        check.args(["-fsyntax-only", "-std=c++98", "-Wall", "-Wextra", "-Werror", "-Wno-long-long", "-x", "c++"]);
        let output = check.arg(header).output().expect("clang starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn only_what_the_headers_declare_is_exported_and_the_library_stays() {
    if require::program("nm").is_none() {
        return;
    }
    let library = WORK.path().join("libarm4.so");
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(&library).output().expect("nm starts");
    let mut exported: Vec<String> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.split(' ').nth(2).map(str::to_owned))
        .collect();
    exported.sort();
    let mut declared: Vec<&str> = "arm_bind_thread arm_block_transaction arm_destroy_application \
        arm_discard_transaction arm_generate_correlator arm_get_arrival_time arm_get_correlator_flags \
        arm_get_correlator_length arm_get_error_message arm_is_charset_supported arm_register_application \
        arm_register_metric arm_register_transaction arm_report_transaction arm_start_application \
        arm_start_transaction arm_stop_application arm_stop_transaction arm_unbind_thread arm_unblock_transaction \
        arm_update_transaction weir_arm_request_correlator weir_arm_start_request weir_arm_stop_request"
        .split_whitespace()
        .collect();
    declared.sort_unstable();
    assert_eq!(exported, declared);
    let output = Command::new("readelf").args(["-dW"]).arg(&library).output().expect("readelf starts");
    let dynamic = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(dynamic.contains("[libarm4.so.4]") && dynamic.contains("NODELETE"), "{dynamic}");
}

#[test]
fn every_rule_holds() {
    plain("rules", &[], &[]);
}

#[test]
fn every_rule_holds_under_address_sanitizer() {
    sanitized("rules", "address,undefined", &[]);
    sanitized("threads", "address,undefined", &[]);
}

#[test]
fn every_rule_holds_under_valgrind() {
    under_valgrind("rules", &[], &LEAKS);
}

#[test]
fn requests_are_recorded_as_the_standards_calls_do() {
    plain("requests", &[], &[]);
}

#[test]
fn requests_stay_within_what_is_theirs() {
    sanitized("requests", "address,undefined", &[]);
    under_valgrind("requests", &[], &LEAKS);
}

#[test]
fn threads_lose_nothing_and_give_their_lanes_back() {
    plain("threads", &["-DWITHOUT_A_WORD"], &[]);
}

#[test]
fn threads_are_all_right_for_thread_sanitizer() {
    sanitized("threads", "thread", &[]);
}

#[test]
fn children_have_a_memory_of_their_own() {
    plain("processes", &["-DFORKS=20"], &[]);
}

#[test]
fn children_are_all_right_under_valgrind() {
    // Valgrind does not know a bare clone.
    under_valgrind("processes", &["-DNO_RAW_CLONE", "-DFORKS=3"], &[]);
}

#[test]
fn handlers_of_signals_may_record() {
    plain("signals", &["-DROUNDS=400"], &[]);
    under_valgrind("signals", &["-DROUNDS=4"], &LEAKS);
}

#[test]
fn it_may_be_loaded_and_unloaded() {
    plain("plugin", &["-ldl"], &[]);
    under_valgrind("plugin", &["-ldl"], &LEAKS);
}

#[test]
fn where_little_is_allowed_the_program_goes_on() {
    for what in ["s", "d", "n", "l", "a", "r"] {
        plain("limits", &[], &[what]);
    }
}

#[test]
fn ten_thousand_pairs_make_no_system_call() {
    if require::program("strace").is_none() {
        return;
    }
    let program = build("pairs", "-strace", &[]);
    for how in ["listen", "alone"] {
        let told = WORK.path().join(format!("strace.{how}"));
        let words = ["strace", "-f", "-o"].map(OsStr::new);
        let command = [&words[..], &[told.as_os_str(), program.as_os_str(), "10000".as_ref(), how.as_ref()]].concat();
        run(&command);
        let calls = fs::read_to_string(&told).expect("what strace told");
        let between: Vec<&str> = calls
            .lines()
            .skip_while(|line| !line.contains("\"begin\""))
            .skip(1)
            .take_while(|line| !line.contains("\"end\""))
            .collect();
        assert!(calls.contains("\"begin\"") && calls.contains("\"end\""), "{calls}");
        assert_eq!(between, Vec::<&str>::new(), "{how}");
    }
}

#[test]
fn a_pair_takes_no_more_instructions_than_before() {
    if require::program("valgrind").is_none() {
        return;
    }
    let program = build("pairs", "-callgrind", &[]);
    for (how, most) in MOST_INSTRUCTIONS {
        let count = |pairs: &str| -> u64 {
            let counted = WORK.path().join(format!("callgrind.{how}.{pairs}"));
            let option = format!("--callgrind-out-file={}", counted.display());
            let words = ["valgrind", "--tool=callgrind", &option].map(OsStr::new);
            run(&[&words[..], &[program.as_os_str(), pairs.as_ref(), how.as_ref()]].concat());
            let shown =
                Command::new("callgrind_annotate").args(["--threshold=100", "--auto=no"]).arg(&counted).output();
            let shown = shown.expect("callgrind_annotate comes with valgrind").stdout;
            let lines = String::from_utf8_lossy(&shown).into_owned();
            let ours = lines.lines().filter(|line| HOT.iter().any(|name| line.contains(name)));
            let number = |line: &str| line.trim().split(' ').next().map(|number| number.replace(',', ""));
            ours.filter_map(|line| number(line)?.parse::<u64>().ok()).sum()
        };
        // 6,000 pairs are 12,000 slots, for which there is room.
        let each = (count("6000") - count("1000")) / 5000;
        eprintln!("{how}: {each} instructions a pair");
        assert!(each > 10 && each <= most, "{how}: {each} instructions a pair");
    }
}
