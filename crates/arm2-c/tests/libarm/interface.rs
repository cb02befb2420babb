//! The library as programs in C meet it: its symbols, the layout of its data, the rules of the standard, what is told.

use crate::support::{Workplace, library, run};
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use weir_testkit::require;
use weir_wire::Kind;
use weir_wire::arm::{ARM_2, CORRELATED, Field, HAS_PARENT, Identity, TRACE};

const FUNCTIONS: [&str; 6] = ["arm_end", "arm_getid", "arm_init", "arm_start", "arm_stop", "arm_update"];

#[test]
fn the_library_has_its_name_its_six_functions_and_stays_loaded() {
    if require::program("readelf").is_none() || require::program("nm").is_none() {
        return;
    }
    let read = |command: &mut Command| String::from_utf8_lossy(&run(command).stdout).into_owned();
    let symbols = read(Command::new("nm").args(["--dynamic", "--defined-only", "--format=posix"]).arg(library()));
    let mut names: Vec<&str> = symbols.lines().filter_map(|line| line.split(' ').next()).collect();
    names.sort_unstable();
    assert_eq!(names, FUNCTIONS);
    let dynamic = read(Command::new("readelf").arg("--dynamic").arg(library()));
    assert!(dynamic.contains("[libarm.so.2]") && dynamic.contains("NODELETE"), "{dynamic}");
}

#[test]
fn the_header_is_that_of_the_standard_in_c_and_cpp() {
    let workplace = Workplace::new();
    for (compiler, flags) in [("cc", &["-std=c11", "-pedantic"][..]), ("c++", &["-x", "c++", "-std=c++11"])] {
        if require::program(compiler).is_some() {
            let program = workplace.compile(compiler, flags, "layout.c", "layout");
            run(&mut workplace.command(program));
        }
    }
}

#[test]
fn the_rules_hold() {
    let workplace = Workplace::new();
    let program = workplace.compile("cc", &[], "rules.c", "rules");
    run(&mut workplace.command(program));
}

#[test]
fn the_rules_hold_under_the_sanitizers() {
    let workplace = Workplace::new();
    for (sanitizer, flag) in [("address", "-fsanitize=address,undefined"), ("thread", "-fsanitize=thread")] {
        let program = workplace.compile("cc", &[flag, "-fno-sanitize-recover=all"], "rules.c", sanitizer);
        // Nothing of ours is given back before the process ends, and all of it is within its own memory.
        run(workplace.command(program).arg("100").env("ASAN_OPTIONS", "detect_leaks=1"));
    }
}

#[test]
fn the_rules_hold_under_valgrind() {
    if require::program("valgrind").is_none() {
        return;
    }
    let workplace = Workplace::new();
    let program = workplace.compile("cc", &[], "rules.c", "rules");
    run(workplace
        .command("valgrind")
        .args(["--error-exitcode=9", "--quiet", "--fair-sched=yes"])
        .arg(program)
        .arg("20"));
}

#[test]
fn it_is_loaded_and_let_go_again_and_again() {
    let workplace = Workplace::new();
    let program = workplace.compile("cc", &["-Wl,--as-needed"], "loaded.c", "loaded");
    run(&mut workplace.command(program));
}

/// Short programs, and the tests of a real client, do not wait until an agent has found them.
#[test]
fn the_first_transaction_is_recorded_where_an_agent_is_there() {
    let workplace = Workplace::new();
    let program = workplace.compile("cc", &[], "first.c", "first");
    let said = || String::from_utf8_lossy(&run(&mut workplace.command(&program)).stdout).into_owned();
    assert_eq!(said(), "not recorded\n");
    let agent = UnixListener::bind(workplace.path("announced/memory.sock")).expect("a socket");
    assert_eq!(said(), "recorded\n");
    // One that was killed leaves its name behind.
    drop(agent);
    assert_eq!(said(), "not recorded\n");
}

/// Ten thousand transactions, most of which find room in the ring and the last of which do not: no system call.
#[test]
fn a_start_and_a_stop_make_no_system_call() {
    if require::program("strace").is_none() {
        return;
    }
    let workplace = Workplace::new();
    let program = workplace.compile("cc", &[], "pairs.c", "pairs");
    let log = workplace.path("calls");
    run(workplace.command("strace").arg("-f").arg("-o").arg(&log).arg(program));
    let calls = std::fs::read_to_string(log).expect("the calls");
    let between = calls.split("getppid()").nth(1).expect("two marks").lines().skip(1);
    // The last line is the second mark's, cut before its name.
    let seen: Vec<&str> = between.filter(|line| line.contains('(')).collect();
    assert!(calls.matches("getppid()").count() == 2 && seen.is_empty(), "{seen:?}");
}

#[test]
fn what_a_program_tells_is_recorded() {
    let workplace = Workplace::new();
    let program = workplace.compile("cc", &[], "story.c", "story");
    let mut story =
        workplace.command(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut said = String::new();
    BufReader::new(story.stdout.take().expect("a pipe")).read_line(&mut said).expect("it speaks");
    assert_eq!(said, "done\n");
    let memory = workplace.memory_of(story.id());

    let definitions = memory.definitions();
    let named = |field: Field, name: &str| {
        let found = definitions.iter().find(|one| one.pieces.contains(&(field, name.as_bytes().to_vec())));
        let one = found.unwrap_or_else(|| panic!("{name} is not in {definitions:?}"));
        (one.number, one.belongs_to, &one.pieces)
    };
    let (shop, ..) = named(Field::Name, "Shop");
    let (instance, of_shop, _) = named(Field::User, "ann");
    let (checkout, of_checkout, pieces) = named(Field::Name, "checkout");
    let (search, of_search, _) = named(Field::Name, "search");
    assert_eq!([of_shop, of_checkout, of_search], [shop; 3]);
    assert!(pieces.contains(&(Field::Detail, b"the basket is paid for".to_vec())), "{pieces:?}");
    for (metric, format) in [("basket", 4), ("part", 10)] {
        let (number, _, described) = named(Field::Name, metric);
        assert!(described.contains(&(Field::MetricFormat, vec![format, 0])), "{described:?}");
        assert!(pieces.contains(&(Field::MetricBinding, number.to_ne_bytes().to_vec())), "{pieces:?}");
    }

    let starts = memory.of(Kind::ArmStart);
    let numbers = |transaction: u16| u64::from(transaction) | u64::from(instance) << 16;
    let [(parent, _), (child, behind)] = &starts[..] else { panic!("{starts:?}") };
    assert_eq!((parent.b as u32, parent.flags), (numbers(checkout) as u32, ARM_2 | CORRELATED | TRACE));
    assert_eq!((child.b as u32, child.flags), (numbers(search) as u32, ARM_2 | HAS_PARENT));
    assert!(Identity::of_slot(&behind[0]).span != 0 && parent.a != child.a);

    let stops: Vec<(u64, u64)> = memory.of(Kind::ArmStop).iter().map(|(stop, _)| (stop.a, stop.b)).collect();
    assert_eq!(stops, [(child.a, 2), (parent.a, 0)]);
    assert_eq!(memory.of(Kind::ArmUpdate).len(), 1);

    let value = |number: i64| [&[4, 0, 1, 0, 0, 0, 0, 0][..], &number.to_ne_bytes()].concat();
    let metric = Some(Field::MetricValue);
    let told = [
        (parent.a, metric, 0, value(-42)),
        (parent.a, metric, 6, [&[10, 0, 1, 0, 0, 0, 0, 0][..], b"bolts"].concat()),
        // The second slot is valid in its data, but what it is was never said; search has said nothing at all.
        (child.a, Some(Field::Opaque), 0, b"half done".to_vec()),
        (parent.a, metric, 0, value(7)),
    ];
    assert_eq!(memory.details(), told);
    drop(story.stdin.take());
    assert!(story.wait().expect("it ends").success());
}
