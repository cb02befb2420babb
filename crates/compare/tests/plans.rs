//! Experiments beyond a pair: more subjects, ends before the last block, results that survive, servers with commands.
mod support;

use support::{alone, command, free_port, plain_load, plan, role, run};
use weir_compare::{
    Block, Case, CommandLine, Ending, Experiment, ExperimentError, Interrupt, Metric, Pair, Plan, Readiness,
    Repetitions, Results, ResultsError, Role, ServerSpec, Subject, Target, verdicts,
};
use weir_measure::comparison::Verdict;

#[test]
fn helper() {
    support::play_role(|words| panic!("unknown role {words:?}"));
}

fn target(port: u16) -> Option<Target> {
    Some(format!("http://127.0.0.1:{port}/").parse().expect("a target"))
}

/// One server that answers for 500 us of CPU, twice.
fn same() -> (Plan, u16) {
    let port = free_port();
    (plan(Pair::of_one_server(role(&format!("serve {port} 500")), &plain_load()), port, port), port)
}

#[test]
fn several_are_held_against_the_first_in_the_cases_that_they_take_part_in() {
    let _alone = alone();
    let ports = [free_port(), free_port(), free_port()];
    let (mut planned, _) = same();
    let burn_us = [500, 500, 1000];
    planned.servers = ports
        .iter()
        .zip(burn_us)
        .map(|(port, burn_us)| ServerSpec::new("a server", role(&format!("serve {port} {burn_us}"))))
        .collect();
    planned.subjects = ["first", "alike", "slow"]
        .iter()
        .enumerate()
        .map(|(server, name)| Subject { name: (*name).to_owned(), server, load: plain_load(), beside: None })
        .collect();
    let case = |name: &str, targets: Vec<Option<Target>>| Case {
        name: name.to_owned(),
        targets,
        connections: 1,
        options: Vec::new(),
    };
    let all: Vec<Option<Target>> = ports.iter().map(|port| target(*port)).collect();
    planned.cases = vec![case("all", all.clone()), case("two", vec![None, all[1].clone(), all[2].clone()])];
    planned.repetitions = Repetitions { blocks: 12, aa_blocks: 6, warm_up_s: 0.0, ..support::REPETITIONS };
    let outcome = run(planned).expect("all servers work");
    assert_eq!((outcome.blocks_of(0).count(), outcome.blocks_of(1).count()), (12, 12));
    assert_eq!((outcome.pairs(0, 2).len(), outcome.pairs(1, 2).len()), (12, 12));
    assert!(outcome.blocks_of(1).all(|block| block.of(Role::Subject(0)).is_none()));
    let judged = verdicts(&outcome);
    let verdict = |case: usize, subject: usize| {
        let found = judged.iter().find(|judgement| {
            (judgement.case, judgement.subject, judgement.metric) == (case, subject, Metric::CpuNsPerRequest)
        });
        found.map(|judgement| judgement.verdict)
    };
    assert_eq!(verdict(0, 2), Some(Verdict::Worse), "{judged:?}");
    assert_eq!(verdict(1, 2), Some(Verdict::Worse), "{judged:?}");
    assert!(matches!(verdict(0, 1), Some(Verdict::TheSame | Verdict::CannotTell)), "{judged:?}");
    assert_eq!((verdict(0, 0), verdict(1, 1)), (None, None), "nobody is held against itself");
    // Memory was looked at, and is that of a small program.
    let slice = &outcome.blocks[0].slices[0].slice;
    let memory = slice.memory.expect("the kernel tells it");
    assert!((100e3..100e6).contains(&memory.mean_bytes), "{memory:?}");
    assert!(slice.switches.is_some_and(|switches| switches > 0), "{slice:?}");
}

#[test]
fn a_case_ends_when_it_is_precise_and_all_of_it_with_the_budget() {
    let _alone = alone();
    let (mut precise, _) = same();
    precise.repetitions = Repetitions { blocks: 300, aa_blocks: 0, until: Some(0.9), ..support::REPETITIONS };
    let outcome = run(precise).expect("the server works");
    assert_eq!(outcome.ending, Ending::Done);
    assert!((8..100).contains(&outcome.blocks.len()), "{}", outcome.blocks.len());
    let (mut short, _) = same();
    short.repetitions = Repetitions { blocks: 300, aa_blocks: 0, budget_s: Some(2.0), ..support::REPETITIONS };
    let outcome = run(short).expect("the server works");
    assert_eq!(outcome.ending, Ending::Budget);
    assert!((1..=8).contains(&outcome.blocks.len()), "{}", outcome.blocks.len());
}

#[test]
fn what_was_measured_is_kept_and_gone_on_with() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path().join("results");
    let (mut planned, _) = same();
    planned.repetitions = Repetitions { blocks: 4, aa_blocks: 2, ..support::REPETITIONS };
    let whole = run(planned.clone()).expect("the server works");
    let mut results = Results::create(&folder, &planned).expect("a new folder");
    let interrupt = Interrupt::default();
    let asked = interrupt.clone();
    let mut keep = |block: &Block| results.keep(block);
    let outcome = Experiment::new(planned.clone(), interrupt)
        .keeping(&mut keep)
        .run(&mut |progress| {
            if progress.slices_done == 5 {
                asked.request();
            }
        })
        .expect("two blocks were complete");
    assert_eq!(outcome.ending, Ending::Interrupted);
    drop(results);
    // As a kill in the middle of a line leaves it.
    let file = folder.join("blocks.jsonl");
    let text = std::fs::read_to_string(&file).expect("kept");
    std::fs::write(&file, format!("{text}{{\"case\":0,\"sli")).expect("ours");
    let (mut results, again, blocks) = Results::resume(&folder).expect("what was kept");
    assert_eq!((&again, &blocks), (&planned, &outcome.blocks));
    let mut keep = |block: &Block| results.keep(block);
    let resumed = Experiment::new(again, Interrupt::default()).after(blocks).keeping(&mut keep).run(&mut |_| ());
    let resumed = resumed.expect("the server works");
    assert_eq!(resumed.ending, Ending::Done);
    // The same slices in the same order as without the interrupt.
    let order = |blocks: &[Block]| -> Vec<Vec<Role>> {
        blocks.iter().map(|block| block.slices.iter().map(|found| found.role).collect()).collect()
    };
    assert_eq!(order(&resumed.blocks), order(&whole.blocks));
    let (_, _, kept) = Results::resume(&folder).expect("what was kept");
    assert_eq!(kept, resumed.blocks);
    assert!(matches!(Results::create(&folder, &planned), Err(ResultsError::Used(_))));
    std::fs::write(&file, "{}\n").expect("ours");
    let error = Results::resume(&folder).expect_err("no block").to_string();
    assert!(error.contains("blocks.jsonl line 1") && error.contains("--results"), "{error}");
}

#[test]
fn a_server_that_dies_late_costs_only_the_block() {
    let _alone = alone();
    let (mut planned, port) = same();
    // Some 100 requests a slice; it is asked for its port once.
    planned.servers[0].command = role(&format!("dies {port} 400"));
    planned.subjects.iter_mut().for_each(|subject| subject.load = role("load {url} {seconds} 2000"));
    planned.repetitions = Repetitions { blocks: 200, aa_blocks: 0, ..support::REPETITIONS };
    let outcome = run(planned).expect("some blocks were complete");
    assert!(!outcome.blocks.is_empty() && outcome.blocks.len() < 200);
    let Ending::Failed(why) = &outcome.ending else { panic!("{:?}", outcome.ending) };
    assert!(why.contains("planted: out of requests"), "{why}");
    // In its first block there is nothing to keep.
    let (mut planned, port) = same();
    planned.servers[0].command = role(&format!("dies {port} 3"));
    assert!(matches!(run(planned), Err(ExperimentError::Server(_))));
}

#[test]
fn servers_are_started_made_ready_and_stopped_as_their_commands_say() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a directory");
    let (mut planned, port) = same();
    let serve = role(&format!("serve {port} 0"));
    let server = &mut planned.servers[0];
    let script = format!("echo $COLOUR > colour; (sleep 0.3; touch ready) & exec {serve}");
    server.command = CommandLine::from_words(["sh", "-c", &script].map(str::to_owned).to_vec()).expect("a command");
    server.environment = [("COLOUR".to_owned(), "blue".to_owned())].into();
    server.folder = Some(folder.path().to_owned());
    server.ready = Readiness::Command(command("test -e ready"));
    server.stop = Some(command("sh -c 'test -e ready && touch stopped'"));
    let log = folder.path().to_owned();
    let outcome = Experiment::new(planned, Interrupt::default()).run(&mut |_| assert!(log.join("ready").exists()));
    outcome.expect("the server works");
    assert_eq!(std::fs::read_to_string(folder.path().join("colour")).expect("written"), "blue\n");
    assert!(folder.path().join("stopped").exists());
}
