//! What goes wrong is named, with the remedy and what the command said.
use crate::support;

use std::net::TcpListener;

use support::{alone, command, plain_load, plan, role, run};
use weir_compare::{
    CommandLine, CpuSet, Experiment, ExperimentError, Interrupt, LoadError, Pair, Plan, PlanError, ServerError,
};
use weir_testkit::free_port;

fn failure(server: CommandLine, load: &CommandLine, port: u16) -> ExperimentError {
    let _alone = alone();
    let mut planned = plan(Pair::of_one_server(server, load), port, port);
    planned.start_timeout_s = 5.0;
    run(planned).expect_err("something is wrong by design")
}

#[test]
fn a_server_that_ends_at_once_shows_its_last_words() {
    let error = failure(command("sh -c 'echo no such file >&2; exit 4'"), &plain_load(), free_port());
    let text = error.to_string();
    assert!(matches!(error, ExperimentError::Server(ServerError::Ended { .. })), "{text}");
    assert!(text.contains("no such file") && text.contains("exit status: 4") && text.contains("by itself"), "{text}");
    // What goes into the background leaves nothing to be watched.
    let text = failure(command("true"), &plain_load(), free_port()).to_string();
    assert!(text.contains("foreground"), "{text}");
}

#[test]
fn a_server_that_dies_under_load_is_blamed_rather_than_the_load() {
    let port = free_port();
    let error = failure(role(&format!("dies {port} 5")), &plain_load(), port);
    let text = error.to_string();
    assert!(matches!(error, ExperimentError::Server(ServerError::Ended { .. })), "{text}");
    assert!(text.contains("planted: out of requests"), "{text}");
}

#[test]
fn a_port_that_never_answers_is_given_up() {
    let _alone = alone();
    let port = free_port();
    let mut planned = plan(Pair::of_one_server(command("sleep 60"), &plain_load()), port, port);
    planned.start_timeout_s = 0.3;
    let error = run(planned).expect_err("no server listens");
    let text = error.to_string();
    assert!(matches!(error, ExperimentError::Server(ServerError::Silent { .. })), "{text}");
    assert!(text.contains(&port.to_string()) && text.contains("--start-timeout"), "{text}");
}

#[test]
fn an_address_in_use_is_not_measured() {
    let occupant = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = occupant.local_addr().expect("bound").port();
    let error = failure(role(&format!("serve {port} 0")), &plain_load(), port);
    assert!(matches!(error, ExperimentError::Server(ServerError::AddressInUse { .. })), "{error}");
    // It is ours.
    assert!(error.to_string().contains(&format!("(process {})", std::process::id())), "{error}");
}

#[test]
fn commands_that_do_not_exist_are_named() {
    let port = free_port();
    let error = failure(command("/nonexistent/server"), &plain_load(), port);
    assert!(error.to_string().contains("/nonexistent/server"), "{error}");
    let error = failure(role(&format!("serve {port} 0")), &command("/nonexistent/load {url}"), port);
    assert!(matches!(error, ExperimentError::Missing(_)), "{error}");
    assert!(error.to_string().contains("/nonexistent/load"), "{error}");
}

#[test]
fn what_is_missing_is_told_before_anything_starts() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let trace = folder.path().join("started");
    let (a, b) = (command(&format!("touch {}", trace.display())), command("no-such-server --port 1"));
    let port = free_port();
    let pair = Pair::of_servers(a, b, &plain_load()).beside(None, Some(command("/nonexistent/observer")));
    let mut planned = plan(pair, port, port);
    planned.restart = true;
    let text = run(planned).expect_err("B is missing").to_string();
    for word in ["server B", "no-such-server", "beside B", "/nonexistent/observer", "install", "nothing was started"] {
        assert!(text.contains(word), "{word:?} is not in {text}");
    }
    assert!(!text.contains("server A") && !trace.exists(), "A was started: {text}");
}

#[test]
fn loads_that_do_nothing_useful_are_refused() {
    let with_load = |load: &str| {
        let port = free_port();
        failure(role(&format!("serve {port} 0")), &command(load), port)
    };
    let error = with_load("sh -c 'echo planted >&2; exit 9'");
    assert!(matches!(error, ExperimentError::Load(LoadError::Failed { .. })), "{error}");
    assert!(error.to_string().contains("planted"), "{error}");
    let error = with_load("echo what is this");
    assert!(matches!(error, ExperimentError::Load(LoadError::Output { .. })), "{error}");
    let error = with_load("printf '0 requests in 1.00s\\nSocket errors: connect 3, read 0, write 0, timeout 0\\n'");
    assert!(matches!(error, ExperimentError::Load(LoadError::NoRequests { errors: 3, .. })), "{error}");
}

#[test]
fn what_ends_beside_the_server_is_named() {
    let _alone = alone();
    let port = free_port();
    let pair = Pair::of_one_server(role(&format!("serve {port} 0")), &plain_load());
    let pair = pair.beside(Some(command("sh -c 'echo no privilege >&2; exit 1'")), None);
    let error = run(plan(pair, port, port)).expect_err("the observer ended");
    assert!(matches!(error, ExperimentError::Load(LoadError::BesideEnded { .. })), "{error}");
    assert!(error.to_string().contains("no privilege"), "{error}");
}

#[test]
fn plans_out_of_range_are_refused_before_anything_runs() {
    let changed = |change: fn(&mut Plan)| {
        let mut planned = plan(Pair::of_one_server(command("false"), &command("false")), 1, 1);
        change(&mut planned);
        planned
    };
    let cpu = |number| Some(CpuSet::one(number).expect("a number the parser takes"));
    let mut no_such_cpus = [changed(|_| ()), changed(|_| ())];
    no_such_cpus[0].pinning.server = cpu(1023);
    no_such_cpus[1].servers[0].cpus = cpu(1023);
    let others = [
        changed(|plan| plan.repetitions.blocks = 0),
        changed(|plan| plan.repetitions.aa_blocks = 3),
        changed(|plan| plan.repetitions.block_s = f64::NAN),
        changed(|plan| plan.repetitions.until = Some(0.0)),
        changed(|plan| plan.cases.clear()),
        changed(|plan| plan.cases.push(plan.cases[0].clone())),
        changed(|plan| plan.cases[0].targets = vec![None, None]),
        changed(|plan| plan.subjects[1].name = "A".to_owned()),
        changed(|plan| plan.subjects[1].server = 1),
    ];
    let all = others.into_iter().map(|plan| (plan, false)).chain(no_such_cpus.map(|plan| (plan, true)));
    for (planned, cpu) in all {
        let error = Experiment::new(planned, Interrupt::default()).run(&mut |_| ()).expect_err("out of range");
        let ExperimentError::Plan(error) = error else { panic!("{error}") };
        assert_eq!(matches!(error, PlanError::Cpu { .. }), cpu, "{error}");
    }
}
