//! Experiments on real small servers: planted differences are found, equal things are not told apart.
// scripts/test: waits
mod support;

use support::{alone, command, plain_load, plan, role, run};
use weir_compare::{
    CommandLine, CpuAccounting, CpuAccountingChoice, Ending, Experiment, Interrupt, Judgement, Metric, Observer,
    Outcome, Pair, PartsChoice, Repetitions, verdicts,
};
use weir_measure::comparison::Verdict;
use weir_testkit::free_port;

#[test]
fn helper() {
    support::play_role(|words| panic!("unknown role {words:?}"));
}

fn cpu(outcome: &Outcome) -> Judgement {
    let judgement = verdicts(outcome).into_iter().find(|judgement| judgement.metric == Metric::CpuNsPerRequest);
    judgement.expect("CPU is always judged")
}

const REPETITIONS: Repetitions = Repetitions { blocks: 10, aa_blocks: 8, warm_up_s: 0.05, ..support::REPETITIONS };

#[test]
fn thirty_percent_more_cpu_are_found() {
    let _alone = alone();
    let (a, b) = (free_port(), free_port());
    let pair = Pair::of_servers(role(&format!("serve {a} 500")), role(&format!("serve {b} 650")), &plain_load());
    let mut planned = plan(pair, a, b);
    planned.repetitions = REPETITIONS;
    let outcome = run(planned).expect("both servers work");
    assert!(!outcome.restarted && outcome.ending == Ending::Done);
    assert_eq!((outcome.blocks.len(), outcome.repeated(0, true).len()), (10, 8));
    let found = cpu(&outcome);
    let ratio = found.ratio.expect("every block has a ratio");
    assert!((1.15..1.4).contains(&ratio.point), "{found:?}");
    assert_eq!(found.verdict, Verdict::Worse, "{found:?}");
}

#[test]
fn a_server_is_not_told_apart_from_itself() {
    let _alone = alone();
    let port = free_port();
    let mut planned = plan(Pair::of_one_server(role(&format!("serve {port} 500")), &plain_load()), port, port);
    planned.repetitions = REPETITIONS;
    let found = cpu(&run(planned).expect("the server works"));
    assert!(matches!(found.verdict, Verdict::TheSame | Verdict::CannotTell), "{found:?}");
}

#[test]
fn servers_of_one_address_take_turns() {
    let _alone = alone();
    let port = free_port();
    let server = || role(&format!("serve {port} 0"));
    let pair = Pair::of_servers(server(), server(), &plain_load());
    let outcome = run(plan(pair, port, port)).expect("they are never up at once");
    assert!(outcome.restarted);
    assert_eq!(outcome.blocks.len(), 2);
}

#[test]
fn children_that_have_exited_are_counted() {
    let _alone = alone();
    for choice in [CpuAccountingChoice::Best, CpuAccountingChoice::ProcessTree] {
        let port = free_port();
        let mut planned = plan(Pair::of_one_server(role(&format!("forks {port} 20000")), &plain_load()), port, port);
        planned.repetitions.block_s = 0.8;
        planned.accounting = choice;
        let outcome = run(planned).expect("the server works");
        if choice == CpuAccountingChoice::ProcessTree {
            assert_eq!(outcome.accounting, CpuAccounting::ProcessTree);
        }
        let slices = || outcome.blocks.iter().flat_map(|block| &block.slices).map(|found| &found.slice);
        let requests: u64 = slices().map(|slice| slice.requests).sum();
        let cpu_ns: u64 = slices().map(|slice| slice.server_cpu_ns).sum();
        // 20 ms each in a child, and little else; a tree's reading is off by a tick or two.
        let per_request_ns = cpu_ns as f64 / requests as f64;
        assert!((13e6..40e6).contains(&per_request_ns), "{choice:?} {per_request_ns} {:?}", outcome.blocks);
    }
}

#[test]
fn slices_are_observed_after_the_blocks_and_are_in_none_of_their_figures() {
    let _alone = alone();
    let (port_a, port_b) = (free_port(), free_port());
    let folder = tempfile::tempdir().expect("a directory");
    let said = |parts: &str| {
        let script = format!("echo {{pid}} {{seconds}} {{run}} >> {}/log; {parts}", folder.path().display());
        let words = ["sh".to_owned(), "-c".to_owned(), script].to_vec();
        let observer = CommandLine::from_words(words).expect("a command");
        Observer { loading: observer.clone(), beside: observer, folder: folder.path().to_owned() }
    };
    let observed = |parts: &str| {
        let servers = [port_a, port_b].map(|port| role(&format!("serve {port} 100")));
        let [a, b] = servers;
        let mut planned = plan(Pair::of_servers(a, b, &plain_load()), port_a, port_b);
        planned.parts = PartsChoice::Slices(1);
        Experiment::new(planned, Interrupt::default())
            .observing(said(parts))
            .run(&mut |_| ())
            .expect("the servers work")
    };
    let lock = format!(
        "test {{port}} = {port_b} && ns=400 || ns=100; \
         printf '{{\"requests\": 5, \"parts_ns\": {{\"wait_lock\": %s}}}}' $ns"
    );
    let found = observed(&lock);
    assert_eq!((found.blocks.len(), &found.unobserved), (support::REPETITIONS.blocks, &None));
    let parts: Vec<_> = found.observed.iter().map(|found| (found.subject, found.response_ns)).collect();
    assert_eq!(parts, [(0, 100.0), (1, 400.0)]);
    let log = std::fs::read_to_string(folder.path().join("log")).expect("the observers wrote");
    assert_eq!(log.lines().filter(|line| line.contains(" 0.2 ")).count(), 2, "{log}");
    // One that may not observe costs the report nothing.
    let refused = observed("echo no privilege >&2; exit 1");
    assert_eq!((refused.blocks.len(), refused.observed.len()), (support::REPETITIONS.blocks, 0));
    assert!(refused.unobserved.expect("a reason").contains("no privilege"));
}

#[test]
fn generators_are_compared_by_their_own_cpu() {
    let _alone = alone();
    let port = free_port();
    let (a, b) = (role("load {url} {seconds} 200"), role("load {url} {seconds} 400"));
    let mut planned = plan(Pair::of_generators(&a, &b, role(&format!("serve {port} 0"))), port, port);
    planned.repetitions = REPETITIONS;
    let outcome = run(planned).expect("the server works");
    let slice = &outcome.blocks[0].slices[0].slice;
    assert!(slice.generator_cpu_ns > slice.requests * 200_000, "{slice:?}");
    let found = cpu(&outcome);
    assert_eq!(found.verdict, Verdict::Worse, "{found:?}");
}

#[test]
fn what_runs_beside_is_told_to_end_and_is_not_counted() {
    let _alone = alone();
    let port = free_port();
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("log");
    // Notes its end by SIGINT, and keeps a CPU busy meanwhile.
    let observer = format!(
        "sh -c 'trap \"echo ended {{pid}} {{port}} {{own}} {{site}} >> {}; exit\" INT; while :; do :; done'",
        log.display()
    );
    let pair = Pair::of_one_server(role(&format!("serve {port} 500")), &plain_load());
    let mut planned = plan(pair.beside(None, Some(command(&observer))), port, port);
    // Away from the server, so that it takes no more than caches from it.
    planned.pinning.beside.clone_from(&planned.pinning.load);
    let outcome = run(planned).expect("the server works");
    let ends = std::fs::read_to_string(&log).expect("the observer wrote");
    assert_eq!(ends.lines().count(), 2, "one for each of B's slices, none for A against itself: {ends}");
    assert!(ends.contains(&format!(" {port} /")) && !ends.contains('{'), "{ends}");
    for (_, slice) in outcome.pairs(0, 1) {
        assert!(slice.cpu_ns_per_request < 900_000.0, "{slice:?}");
    }
}
