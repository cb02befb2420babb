//! Experiments beyond a pair: more subjects, ends before the last block, results that survive, servers with commands.
// scripts/test: waits
mod support;

use std::os::unix::fs::PermissionsExt;

use support::{alone, command, plain_load, plan, role, run};
use weir_compare::{
    Block, Case, CommandLine, Complete, Ending, Experiment, ExperimentError, Interrupt, Metric, Observer, Pair,
    PartsChoice, Plan, Readiness, Repetitions, Results, ResultsError, Resumed, Role, ServerSpec, Subject, Target,
    verdicts, warnings,
};
use weir_measure::comparison::Verdict;
use weir_testkit::free_port;

#[test]
fn helper() {
    support::play_role(|words| panic!("unknown role {words:?}"));
}

fn target(port: u16) -> Option<Target> {
    Some(format!("http://127.0.0.1:{port}/").parse().expect("a target"))
}

/// Keeps all that is complete, until it is dropped.
fn kept_in(mut results: Results) -> impl FnMut(Complete<'_>) -> std::io::Result<()> {
    move |complete| match complete {
        Complete::Block(block) => results.keep(block),
        Complete::Observed(observed) => results.keep_observed(observed),
    }
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
    assert_eq!((verdict(0, 0), verdict(1, 1)), (None, None), "no subject is compared with itself");
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
    let results = Results::create(&folder, &planned).expect("a new folder");
    let interrupt = Interrupt::default();
    let asked = interrupt.clone();
    let mut keep = kept_in(results);
    let outcome = Experiment::new(planned.clone(), interrupt)
        .keeping(&mut keep)
        .run(&mut |progress| {
            if progress.slices_done == 5 {
                asked.request();
            }
        })
        .expect("two blocks were complete");
    assert_eq!(outcome.ending, Ending::Interrupted);
    drop(keep);
    // As a kill in the middle of a line leaves it.
    let file = folder.join("blocks.jsonl");
    let text = std::fs::read_to_string(&file).expect("kept");
    std::fs::write(&file, format!("{text}{{\"case\":0,\"sli")).expect("ours");
    let Resumed { results, plan: again, blocks, .. } = Results::resume(&folder).expect("what was kept");
    assert_eq!((&again, &blocks), (&planned, &outcome.blocks));
    let mut keep = kept_in(results);
    let resumed =
        Experiment::new(again, Interrupt::default()).after(blocks, Vec::new()).keeping(&mut keep).run(&mut |_| ());
    let resumed = resumed.expect("the server works");
    assert_eq!(resumed.ending, Ending::Done);
    // The same slices in the same order as without the interrupt.
    let order = |blocks: &[Block]| -> Vec<Vec<Role>> {
        blocks.iter().map(|block| block.slices.iter().map(|found| found.role).collect()).collect()
    };
    assert_eq!(order(&resumed.blocks), order(&whole.blocks));
    let another = Results::resume(&folder).expect_err("ours is open");
    assert!(matches!(another, ResultsError::InUse { pid: Some(pid), .. } if pid == std::process::id()), "{another}");
    drop(keep);
    assert_eq!(Results::resume(&folder).expect("what was kept").blocks, resumed.blocks);
    assert!(matches!(Results::create(&folder, &planned), Err(ResultsError::Used(_))));
    std::fs::write(&file, "{}\n").expect("ours");
    let error = Results::resume(&folder).expect_err("no block").to_string();
    assert!(error.contains("blocks.jsonl line 1") && error.contains("--results"), "{error}");
}

#[test]
fn observed_slices_are_kept_and_none_is_observed_again() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a directory");
    let (results, log) = (folder.path().join("results"), folder.path().join("log"));
    // The third that observes fails.
    let observer = |fails: bool| {
        let script = format!(
            "echo {{run}} >> {0}; test $(wc -l < {0}) = 3 && {fails} && exit 1; \
             echo '{{\"requests\": 5, \"boundary\": \"all\", \"parts_ns\": {{\"run\": 7.25}}}}'",
            log.display()
        );
        let command = CommandLine::from_words(["sh", "-c", &script].map(str::to_owned).to_vec()).expect("a command");
        Observer { loading: command.clone(), beside: command, folder: folder.path().to_owned() }
    };
    let (mut planned, _) = same();
    planned.parts = PartsChoice::Slices(2);
    planned.repetitions = Repetitions { blocks: 1, aa_blocks: 0, warm_up_s: 0.05, ..support::REPETITIONS };
    // By its name our own load, which the observer is in the place of: then nothing is waited for around it.
    let own = folder.path().join("weir");
    // For a load before a slice it takes no part of a second, which costs nothing.
    let script =
        format!("#!/bin/sh\ntest $3 = 0.05 && exit 1\nexec {}\n", role("load $2 $3 0").to_string().replace('\'', "\""));
    std::fs::write(&own, script).expect("ours");
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o755)).expect("ours");
    let load = command(&format!("{} load {{url}} {{seconds}}", own.display()));
    planned.subjects.iter_mut().for_each(|subject| subject.load = load.clone());
    let open = Results::create(&results, &planned).expect("a new folder");
    let mut keep = kept_in(open);
    let experiment = Experiment::new(planned, Interrupt::default()).keeping(&mut keep).observing(observer(true));
    let first = experiment.run(&mut |_| ()).expect("the server works");
    assert_eq!((first.observed.len(), first.unobserved.is_some()), (2, true));
    drop(keep);
    let file = results.join("observed.jsonl");
    let text = std::fs::read_to_string(&file).expect("kept");
    std::fs::write(&file, format!("{text}{{\"case\":0,")).expect("ours");
    let Resumed { results: open, plan, blocks, observed } = Results::resume(&results).expect("what was kept");
    assert_eq!((&blocks, &observed), (&first.blocks, &first.observed));
    let mut keep = kept_in(open);
    let experiment = Experiment::new(plan, Interrupt::default()).after(blocks, observed).keeping(&mut keep);
    let whole = experiment.observing(observer(false)).run(&mut |_| ()).expect("the server works");
    assert_eq!((whole.blocks, &whole.observed[..2], whole.unobserved), (first.blocks, &first.observed[..], None));
    let subjects: Vec<usize> = whole.observed.iter().map(|observed| observed.subject).collect();
    assert_eq!(subjects, [0, 1, 0, 1]);
    assert_eq!(std::fs::read_to_string(&log).expect("written").lines().count(), 5, "only what was missing");
    drop(keep);
    assert_eq!(Results::resume(&results).expect("what was kept").observed, whole.observed);
    std::fs::write(&file, text.replacen("\"subject\":1", "\"subject\":7", 1)).expect("ours");
    let error = Results::resume(&results).expect_err("no such subject").to_string();
    assert!(error.contains("observed.jsonl line 2") && error.contains("no subject 7"), "{error}");
}

#[test]
fn a_server_that_dies_late_costs_only_the_block() {
    let _alone = alone();
    let (mut planned, port) = same();
    // Some 100 requests a slice; it is asked for its port once.
    planned.servers[0].command = role(&format!("dies {port} 300"));
    planned.subjects.iter_mut().for_each(|subject| subject.load = role("load {url} {seconds} 2000"));
    planned.repetitions = Repetitions { blocks: 40, aa_blocks: 0, starts: Some(1), ..support::REPETITIONS };
    let outcome = run(planned).expect("some blocks were complete");
    assert!((4..40).contains(&outcome.blocks.len()), "{}", outcome.blocks.len());
    // It is started again as often as one of ten blocks, and no more.
    let Ending::Failed(why) = &outcome.ending else { panic!("{:?}", outcome.ending) };
    assert!(why.contains("planted: out of requests") && why.contains("4 slices had failed before"), "{why}");
    let repeated: Vec<&Block> = outcome.blocks.iter().filter(|block| !block.failed.is_empty()).collect();
    assert!(repeated.iter().all(|block| block.life > 0 && block.slices.len() == 2), "{repeated:?}");
    assert_eq!(repeated.iter().map(|block| block.failed.len()).sum::<usize>(), 4);
    // In its first block there is nothing to keep.
    let (mut planned, port) = same();
    planned.servers[0].command = role(&format!("dies {port} 3"));
    assert!(matches!(run(planned), Err(ExperimentError::Server(_))));
}

#[test]
fn a_slice_that_fails_is_told_and_its_block_measured_again() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a directory");
    let count = folder.path().join("count");
    // The eighth load fails, in the third block; as that is begun anew, the twelfth, which hangs, is in the fourth.
    let load = format!(
        "n=$(cat {0} 2>/dev/null || echo 1); echo $((n + 1)) > {0}; test $n = 8 && echo planted >&2 && exit 9; \
         test $n = 12 && sleep 300; exec {1}",
        count.display(),
        plain_load()
    );
    let load = CommandLine::from_words(["sh", "-c", &load].map(str::to_owned).to_vec()).expect("a command");
    let (mut planned, _) = same();
    planned.subjects.iter_mut().for_each(|subject| subject.load = load.clone());
    planned.repetitions = Repetitions { blocks: 5, aa_blocks: 5, ..support::REPETITIONS };
    planned.load_timeout_s = Some(2.0);
    let whole = weir_compare::Schedule::new(&planned);
    let mut told: Vec<String> = Vec::new();
    let mut slices = Vec::new();
    let outcome = Experiment::new(planned, Interrupt::default()).run(&mut |progress| {
        slices.push(progress.slices_done);
        told.extend(progress.failed.map(|failed| failed.why));
        assert_eq!(progress.slices_total, 15);
    });
    let outcome = outcome.expect("each slice works in the end");
    assert_eq!((&outcome.ending, outcome.blocks.len()), (&Ending::Done, 5));
    // The whole block, from its begin, in its order, on servers that are started anew.
    assert_eq!(slices, [0, 1, 2, 3, 4, 5, 6, 7, 6, 7, 8, 9, 9, 10, 11, 12, 13, 14, 15]);
    let mut schedule = whole;
    for block in &outcome.blocks {
        let order: Vec<Role> = block.slices.iter().map(|found| found.role).collect();
        assert_eq!(order, schedule.round()[0].order);
    }
    let failed: Vec<usize> = outcome.blocks.iter().map(|block| block.failed.len()).collect();
    assert_eq!(failed, [0, 0, 1, 1, 0]);
    assert_eq!(outcome.blocks[2].failed[0].role, Some(outcome.blocks[2].slices[1].role));
    let lives: Vec<usize> = outcome.blocks.iter().map(|block| block.life).collect();
    assert!(lives[2] > lives[1] && lives[3] > lives[2], "{lives:?}");
    assert!(told.len() == 2 && told[0].contains("planted") && told[1].contains("still ran after 2.2 s"), "{told:?}");
    let warnings = warnings(&outcome).join("\n");
    assert!(
        warnings.contains("failed and") && warnings.contains("measured again: the load command failed"),
        "{warnings}"
    );
    // It is kept with its block.
    let text = serde_json::to_string(&outcome.blocks).expect("numbers and texts");
    assert_eq!(serde_json::from_str::<Vec<Block>>(&text).expect("our own"), outcome.blocks);
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
