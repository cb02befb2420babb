//! Probes are set where they were asked for, every hit is told with its argument, and what would be dear is refused.
// scripts/test: serves

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_capture::user_probes::{HitCost, Plan, ProbeError, Programs, Release, UserProbes, Wanted};
use weir_capture::{Probes, Recorder, Target};
use weir_testkit::require;
use weir_trace::{Limits, Run, RunReader};
use weir_wire::{Kind, probe::ProbePoint};

const ROUNDS: u64 = 50;

/// Compiles the program to be probed.
fn program(folder: &Path, options: &[&str]) -> PathBuf {
    let program = folder.join("probed");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/probed.c");
    let status = Command::new("cc").args(["-O2", "-o"]).arg(&program).arg(source).args(options).status();
    assert!(status.expect("cc starts").success());
    program
}

fn needs() -> Option<()> {
    let there = cfg!(target_arch = "x86_64") && Path::new("/usr/include/x86_64-linux-gnu/sys/sdt.h").exists()
        || Path::new("/usr/include/sys/sdt.h").exists();
    require::or_skip(there, "sys/sdt.h is not there (make deps), or this is not x86-64")
}

fn plan(probes: &[String], allow_slow: bool) -> Result<Plan, ProbeError> {
    let probes = probes.iter().map(|probe| probe.parse()).collect::<Result<_, _>>()?;
    Plan::of(&Wanted { probes, allow_slow, ..Wanted::default() }, &Programs::default(), Release::running())
}

/// Runs the program under probes; the arguments of the hits by the point's name.
fn hits(program: &Path, plan: Plan, one_by_one: bool) -> BTreeMap<String, Vec<u64>> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let run = Run::create(folder.path()).expect("a run");
    let mut child = Command::new(program).arg("text").spawn().expect("the program starts");
    let probes = Probes::load().expect("probes");
    let user = UserProbes::load_for(&probes, plan, false, one_by_one).expect("user probes");
    let target = Target::of_pid(child.id()).expect("it waits for the probes");
    let recorder = Recorder::start_with(probes, vec![Box::new(user)], &target, &run, Limits::default());
    let recorder = recorder.expect("a recording");
    assert!(child.wait().expect("it ends").success(), "the probes must not change what a program computes");
    std::thread::sleep(std::time::Duration::from_millis(50));
    let cost = recorder.finish(Vec::new()).expect("a whole run");
    assert_eq!(cost.lost, 0);
    let mut found: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    RunReader::open(folder.path()).expect("the run").merge().each(|sourced| {
        assert!(sourced.record.kind != Kind::ProbeText as u16, "no probe by hand reads a text");
        if sourced.record.kind == Kind::ProbeHit as u16 {
            let told = sourced.name(sourced.record.b as u32).expect("the point's name is in the dictionary");
            let point = ProbePoint::read(told).expect("a point");
            found.entry(point.name).or_default().push(sourced.record.a);
        }
        true
    });
    found
}

#[test]
fn every_hit_is_told_with_its_argument() {
    if needs().and_then(|()| require::socket_tracepoints()).is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let program = program(folder.path(), &[]);
    let path = program.display();
    let asked: Vec<String> = [
        format!("usdt:{path}:demo:round"),
        format!("{path}:cheap"),
        format!("{path}:cheap:ret"),
        format!("{path}:moved"),
        format!("{path}:dear"),
    ]
    .into();
    for one_by_one in [false, true] {
        let plan = plan(&asked, true).expect("all may be set");
        let costs: Vec<HitCost> = plan.sites.iter().map(|site| site.cost).collect();
        let trap = HitCost::Trap;
        assert_eq!(costs, [trap, trap, trap, trap, HitCost::Stepped]);
        assert!(
            plan.notes.iter().any(|note| note.contains("dear") && note.contains("17 to 24 us")),
            "{:?}",
            plan.notes
        );
        let found = hits(&program, plan, one_by_one);
        let rounds: Vec<u64> = (1..=ROUNDS).collect();
        let returned: Vec<u64> = rounds.iter().map(|round| round + 1).collect();
        for (name, expected) in [
            ("demo:round", &rounds),
            ("cheap", &rounds),
            ("cheap returned", &returned),
            ("moved", &rounds),
            ("dear", &rounds),
        ] {
            assert_eq!(found.get(name), Some(expected), "{name}, one by one: {one_by_one}");
        }
    }
}

#[test]
fn what_would_be_dear_or_is_not_there_is_refused_with_a_remedy() {
    if needs().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let program = program(folder.path(), &[]);
    let path = program.display().to_string();
    let refused = |probe: String| plan(&[probe], false).expect_err("a refusal").to_string();
    let dear = refused(format!("{path}:dear"));
    for word in ["sub", "17 to 24 us", "--allow-slow-probes"] {
        assert!(dear.contains(word), "{dear}");
    }
    // Its return is dear too: nothing may be stepped over there.
    assert!(refused(format!("{path}:moved:ret")).contains("17 to 24 us"));
    assert_eq!(plan(&[format!("{path}:moved")], false).expect("it moves on").sites[0].cost, HitCost::Trap);
    assert!(refused(format!("{path}:cheep")).contains("no function cheep"));
    assert!(refused(format!("{path}:chea")).contains("alike are cheap"));
    assert!(refused(format!("{path}:usleep")).contains("ldd"));
    assert!(refused(format!("usdt:{path}:demo:square")).contains("demo:round"));
    assert!(refused("probed:cheap".to_owned()).contains("whole path"));
    assert!(refused(format!("{path}/x:cheap")).contains("probed/x"));
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/bin/sh\n").expect("written");
    assert!(refused(format!("{}:main", script.display())).contains("interpreter"));
    assert!(Command::new("strip").arg(&program).status().expect("strip starts").success());
    let stripped = refused(format!("{path}:cheap"));
    assert!(stripped.contains("strip") && stripped.contains("readelf -n"), "{stripped}");
}

/// Of what Debian ships: a server's exports, its static probes, and calls into a library, against binutils.
#[test]
fn places_agree_with_what_binutils_finds() {
    use weir_capture::user_probes::Binary;
    if require::apache().and_then(|()| require::program("objdump")).is_none() {
        return;
    }
    let module = Path::new("/usr/lib/apache2/modules/mod_mpm_prefork.so");
    let text = |arguments: &[&str]| {
        let output = Command::new("objdump").args(arguments).output().expect("objdump starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let code = text(&["-d", "--no-show-raw-insn", &module.display().to_string()]);
    for function in ["apr_proc_mutex_lock", "ap_process_connection", "apr_pool_clear"] {
        let calls = code.lines().filter(|line| line.contains("call") && line.contains(&format!("<{function}@plt>")));
        let expected: Vec<u64> =
            calls.filter_map(|line| u64::from_str_radix(line.trim().split(':').next()?, 16).ok()).collect();
        // In a shared library's text, addresses and offsets in the file are the same with these linkers.
        let found = Binary::open(module).expect("a module").calls(function).expect("it calls it");
        assert!(!expected.is_empty() && found == expected, "{function}: {found:x?} {expected:x?}");
    }
    let missing = Binary::open(module).expect("a module").calls("no_such_function").expect_err("no call");
    assert!(missing.to_string().contains("no_such_function"));
}
