//! The `weir` command: measures web servers, explains where a request's time goes, and serves the web itself.
// Comments on options are their help texts, in which brackets are a command's syntax.
#![allow(rustdoc::broken_intra_doc_links)]
mod advise;
mod agent;
mod always;
mod always_figures;
mod arm;
mod check;
mod cluster;
mod compare;
mod described;
mod developer_log;
mod dropin;
mod environment;
mod explain;
mod export;
mod forecast_method;
mod given_files;
mod import;
mod import_trace;
mod joined_hosts;
mod keeper;
mod kubernetes;
mod load;
mod manual;
mod mcp;
mod metrics_endpoint;
mod modes;
mod object_rules;
mod objects;
mod other_tools;
mod plan;
mod predict;
mod probe_options;
mod record;
mod record_hosts;
mod record_session;
mod refreshed;
mod replay;
mod route;
mod rung;
mod scenario;
mod schemas;
mod script_server;
mod serve;
mod serve_acme;
mod serve_cluster;
mod serve_php;
mod serve_policy;
mod serve_scripts;
mod side_folder;
mod side_pools;
mod side_process;
mod sources;
mod sql;
mod table;
mod view;
mod watch;
mod webhook;
mod webtest;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;

const START: &str = "\
Start here:
  weir explain --load http://127.0.0.1/ --port 80
      where does each request's time go?
  weir explain --port 80
      the same for the requests of real clients
  weir advise
      what should I change?
  weir view weir-runs/0001
      the whole run in the browser, down to single events
  weir load http://127.0.0.1/
      how much load does it take?
  weir plan access.log --service 2ms --slo 'p95<200ms'
      how many nodes does the site need, and which objects on which?
  weir compare --a 'SERVER' --b 'SERVER' --url URL
      which one is faster, really?
  weir arm top
      which business transactions run, how fast, how many fail?
  weir webtest tests.wt
      do the pages say what they should?
  weir serve .
      a fast static server, to try all this with

Each command has examples: weir explain --help";

/// Measure web servers, explain where each request's time goes, serve the web.
#[derive(Debug, Parser)]
#[command(name = "weir", version, propagate_version = true, after_help = START)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Explain(Box<explain::Args>),
    Advise(Box<advise::Args>),
    Load(Box<load::Args>),
    Worker(load::WorkerArgs),
    Scenario(Box<scenario::Args>),
    Plan(Box<plan::Args>),
    Predict(Box<predict::Args>),
    WhatIf(Box<predict::WhatIfArgs>),
    Record(Box<record::Args>),
    View(view::Args),
    Sql(sql::Args),
    Export(export::Args),
    Objects(objects::Args),
    Serve(Box<serve::Args>),
    Check(check::Args),
    Route(route::Args),
    ScriptServer(script_server::Args),
    Cluster(cluster::Args),
    Keeper(keeper::Args),
    Import(import::Args),
    Env(environment::Args),
    Replay(replay::Args),
    /// Write files and send alerts for a confined server
    #[command(hide = true, alias = "serve-clerk")]
    ServePersister(serve_policy::PersisterArgs),
    /// Obtain and renew certificates for a confined server
    #[command(hide = true)]
    ServeCertificates,
    /// Move sessions for a confined server
    #[command(hide = true)]
    ServeNode,
    /// Run php-fpm for a confined server
    #[command(hide = true)]
    ServePhp,
    /// Run scripts for a confined server
    #[command(hide = true)]
    ServeScripts,
    /// Run ISAPI extensions for such scripts' runners
    #[command(hide = true)]
    ServeIsapi,
    Compare(compare::Args),
    Ab(dropin::AbArgs),
    #[command(name = "http_load")]
    HttpLoad(dropin::HttpLoadArgs),
    Httperf(dropin::HttperfArgs),
    Wrk(dropin::WrkArgs),
    K6(dropin::K6Args),
    Webtest(webtest::Args),
    RecordSession(record_session::Args),
    Arm(arm::Args),
    Agent(agent::Args),
    Mcp(mcp::Args),
    Schema(schemas::Args),
    Man(manual::ManArgs),
    Completions(manual::CompletionsArgs),
}

fn main() -> ExitCode {
    if let Err(error) = developer_log::begin(std::env::var_os(developer_log::VARIABLE).as_deref()) {
        eprintln!("weir: {error}");
        return ExitCode::from(2);
    }
    if let Some(outcome) = dropin::by_name(std::env::args_os()) {
        return exit_code(outcome);
    }
    let command = match parsed() {
        Ok(command) => command,
        Err(code) => return code,
    };
    exit_code(match command {
        Command::Load(args) if args.described().from.is_some() => scenario::load(&args),
        Command::Load(args) => load::run(*args),
        Command::Worker(args) => load::run_worker(&args),
        Command::Scenario(args) => scenario::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Predict(args) => predict::run(&args),
        Command::WhatIf(args) => predict::run_what_if(&args),
        Command::Record(args) => record::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Advise(args) => advise::run(*args),
        Command::View(args) => view::run(&args),
        Command::Sql(args) => sql::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Objects(args) => objects::run(&args),
        Command::Serve(args) => serve::run(*args),
        Command::Check(args) => check::run(&args),
        Command::Route(args) => route::run(&args),
        Command::ScriptServer(args) => script_server::run(&args),
        Command::Cluster(args) => cluster::run(args),
        Command::Keeper(args) => keeper::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Env(args) => environment::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::ServePersister(args) => serve_policy::persister(&args),
        Command::ServeCertificates => serve_acme::certifier(),
        Command::ServeNode => serve_cluster::node(),
        Command::ServePhp => serve_php::supervise(),
        Command::ServeScripts => serve_scripts::supervise(),
        Command::ServeIsapi => Ok(serve_scripts::isapi()),
        Command::Compare(args) => compare::run(args),
        Command::Ab(args) => dropin::ab(args),
        Command::HttpLoad(args) => dropin::http_load(args),
        Command::Httperf(args) => dropin::httperf(args),
        Command::Wrk(args) => dropin::wrk(args),
        Command::K6(args) => dropin::k6(args),
        Command::Webtest(args) => webtest::run(&args),
        Command::RecordSession(args) => record_session::run(&args),
        Command::Arm(args) => arm::run(&args),
        Command::Agent(args) => agent::run(&args),
        Command::Mcp(args) => mcp::run(args),
        Command::Schema(args) => schemas::run(&args),
        Command::Man(args) => manual::man(&args, &Cli::command()),
        Command::Completions(args) => manual::completions(&args, &mut Cli::command()),
    })
}

/// The command of the command line; a refusal has been printed already.
fn parsed() -> Result<Command, ExitCode> {
    let line: Vec<_> = std::env::args_os().collect();
    let command = Cli::command();
    let refused = |error: clap::Error| {
        // If even this cannot be written, nothing is left to do.
        let _ = error.print();
        if let (true, Some(hint)) = (error.use_stderr(), other_tools::hint(&command, &line)) {
            eprintln!("\n{hint}");
        }
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
    };
    let matches = command.clone().try_get_matches_from(&line).map_err(refused)?;
    if let Some(words) = modes::refusal(&command, &matches) {
        eprintln!("{words}");
        return Err(ExitCode::from(2));
    }
    developer_log::command_begins(&command, &matches);
    Cli::from_arg_matches(&matches).map(|cli| cli.command).map_err(refused)
}

/// Says what went wrong, if anything did.
fn exit_code(outcome: anyhow::Result<ExitCode>) -> ExitCode {
    outcome.unwrap_or_else(|error| {
        eprintln!("weir: {}", weir_terminal::output::causes(&error));
        ExitCode::FAILURE
    })
}
