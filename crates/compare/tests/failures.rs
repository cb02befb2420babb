//! What goes wrong is named, with the remedy and what the command said.
mod support;

use std::net::TcpListener;

use support::{alone, command, free_port, plain_load, plan, role, run};
use weir_compare::{
    CommandLine, CpuSet, Experiment, ExperimentError, Interrupt, LoadError, PlanError, ServerError, ServerSpec,
    Subjects,
};

#[test]
fn helper() {
    support::play_role(|words| panic!("unknown role {words:?}"));
}

fn failure(server: CommandLine, load: CommandLine, port: u16) -> ExperimentError {
    let _alone = alone();
    let subjects = Subjects::SameServer { server, beside_a: None, beside_b: None, load, restart: false };
    let mut planned = plan(subjects, port, port);
    planned.start_timeout_s = 5.0;
    run(planned).expect_err("something is wrong by design")
}

#[test]
fn a_server_that_ends_at_once_shows_its_last_words() {
    let error = failure(command("sh -c 'echo no such file >&2; exit 4'"), plain_load(), free_port());
    let text = error.to_string();
    assert!(matches!(error, ExperimentError::Server(ServerError::Ended { .. })), "{text}");
    assert!(text.contains("no such file") && text.contains("exit status: 4") && text.contains("by itself"), "{text}");
    // What goes into the background leaves nothing to be watched.
    let text = failure(command("true"), plain_load(), free_port()).to_string();
    assert!(text.contains("foreground"), "{text}");
}

#[test]
fn a_server_that_dies_under_load_is_blamed_rather_than_the_load() {
    let port = free_port();
    let error = failure(role(&format!("dies {port} 5")), plain_load(), port);
    let text = error.to_string();
    assert!(matches!(error, ExperimentError::Server(ServerError::Ended { .. })), "{text}");
    assert!(text.contains("planted: out of requests"), "{text}");
}

#[test]
fn a_port_that_never_answers_is_given_up() {
    let _alone = alone();
    let port = free_port();
    let (server, load) = (command("sleep 60"), plain_load());
    let subjects = Subjects::SameServer { server, beside_a: None, beside_b: None, load, restart: false };
    let mut planned = plan(subjects, port, port);
    planned.start_timeout_s = 0.3;
    let error = run(planned).expect_err("nobody listens");
    let text = error.to_string();
    assert!(matches!(error, ExperimentError::Server(ServerError::Silent { .. })), "{text}");
    assert!(text.contains(&port.to_string()) && text.contains("--start-timeout"), "{text}");
}

#[test]
fn an_address_in_use_is_not_measured() {
    let occupant = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = occupant.local_addr().expect("bound").port();
    let error = failure(role(&format!("serve {port} 0")), plain_load(), port);
    assert!(matches!(error, ExperimentError::Server(ServerError::AddressInUse { .. })), "{error}");
}

#[test]
fn commands_that_do_not_exist_are_named() {
    let port = free_port();
    let error = failure(command("/nonexistent/server"), plain_load(), port);
    assert!(error.to_string().contains("/nonexistent/server"), "{error}");
    let error = failure(role(&format!("serve {port} 0")), command("/nonexistent/load {url}"), port);
    assert!(matches!(error, ExperimentError::Missing(_)), "{error}");
    assert!(error.to_string().contains("/nonexistent/load"), "{error}");
}

#[test]
fn what_is_missing_is_told_before_anything_starts() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let trace = folder.path().join("started");
    let a = ServerSpec { command: command(&format!("touch {}", trace.display())), beside: None };
    let b = ServerSpec { command: command("no-such-server --port 1"), beside: Some(command("/nonexistent/observer")) };
    let port = free_port();
    let planned = plan(Subjects::Servers { a, b, load: plain_load(), restart: true }, port, port);
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
        failure(role(&format!("serve {port} 0")), command(load), port)
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
    let subjects = Subjects::SameServer {
        server: role(&format!("serve {port} 0")),
        beside_a: Some(command("sh -c 'echo no privilege >&2; exit 1'")),
        beside_b: None,
        load: plain_load(),
        restart: false,
    };
    let error = run(plan(subjects, port, port)).expect_err("the observer ended");
    assert!(matches!(error, ExperimentError::Load(LoadError::BesideEnded { .. })), "{error}");
    assert!(error.to_string().contains("no privilege"), "{error}");
}

#[test]
fn plans_out_of_range_are_refused_before_anything_runs() {
    let subjects = || Subjects::SameServer {
        server: command("false"),
        beside_a: None,
        beside_b: None,
        load: command("false"),
        restart: false,
    };
    let mut no_blocks = plan(subjects(), 1, 1);
    no_blocks.repetitions.blocks = 0;
    let mut no_cases = plan(subjects(), 1, 1);
    no_cases.cases.clear();
    let mut not_a_number = plan(subjects(), 1, 1);
    not_a_number.repetitions.block_s = f64::NAN;
    let mut no_such_cpu = plan(subjects(), 1, 1);
    no_such_cpu.pinning.server = Some(CpuSet::one(1023).expect("a number the parser takes"));
    for (planned, cpu) in [(no_blocks, false), (no_cases, false), (not_a_number, false), (no_such_cpu, true)] {
        let error = Experiment::new(planned, Interrupt::default()).run(&mut |_| ()).expect_err("out of range");
        let ExperimentError::Plan(error) = error else { panic!("{error}") };
        assert_eq!(matches!(error, PlanError::Cpu { .. }), cpu, "{error}");
    }
}
