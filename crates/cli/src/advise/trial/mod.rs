//! Proving a finding: servers with the original and with the changed configuration are compared.
//!
//! Both sides are copies on ports of their own, so that nothing differs but the change; the user's servers are not
//! touched. Databases are shared with the user's: pages are really asked for, as the recorded load did.

mod apache;
mod change;
mod copy;
mod nginx;
mod outcome;
mod php_fpm;
mod ports;

pub(crate) use outcome::Shown;

use super::finding::Finding;
use super::rules::Case;
use super::servers::{Kind, Server};
use anyhow::{Context, bail};
use copy::Copies;
use std::net::IpAddr;
use weir_compare::{
    CommandLine, CpuAccountingChoice, Experiment, Interrupt, Pair, PartsChoice, Pinning, Plan, Repetitions,
};
use weir_load::Url;

/// Connections of a trial's load, at most.
const MOST_CONNECTIONS: u32 = 1000;

/// How a trial is made.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// URL of your server, which the trial asks of its copies [default: the URL that the run loaded]
    #[arg(long, value_name = "URL", help_heading = "Trial", requires = "trial")]
    at: Option<String>,

    /// Pairs of slices, one with the original and one with the change; fewer than 8 give no verdict
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "Trial", requires = "trial")]
    blocks: usize,

    /// Length of a slice
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, help_heading = "Trial", requires = "trial")]
    block_seconds: f64,

    /// The smallest change of throughput that matters to you, as a fraction
    #[arg(long, value_name = "FRACTION", default_value_t = 0.05, help_heading = "Trial", requires = "trial")]
    smallest_effect: f64,
}

/// Carries out a trial.
pub(crate) fn run(
    case: &Case<'_>,
    finding: &Finding,
    url: Option<&str>,
    options: &Options,
    quiet: bool,
) -> anyhow::Result<Shown> {
    if let Some(reason) = &finding.cannot_try_because {
        bail!("{reason}");
    }
    let url = target(case, url, options)?;
    let front = front(case, url.port)?;
    refuse_what_cannot_be_copied(case, finding, front)?;
    let copies = Copies::make(case.servers, front, url.port, finding)?;
    let connections = case.recorded.connections.unwrap_or_else(|| case.observed.in_flight().ceil().max(1.0) as u32);
    let plan = plan(&copies, &url, connections.clamp(1, MOST_CONNECTIONS), options)?;
    plan.check()?;
    let interrupt = Interrupt::default();
    crate::compare::stop_on_signals(&interrupt)?;
    let mut teller = crate::compare::Teller::new(&plan);
    let outcome = Experiment::new(plan, interrupt).run(&mut |progress| {
        if !quiet {
            teller.tell(&progress);
        }
    });
    teller.finish();
    // The copies stay until the experiment has ended all servers.
    let outcome = outcome.with_context(|| format!("the copies are in {} while they run", copies.folder().display()));
    drop(copies);
    Ok(outcome::shown(finding, case, &url, &outcome?))
}

/// What is loaded, as the user's server knows it.
fn target(case: &Case<'_>, url: Option<&str>, options: &Options) -> anyhow::Result<Url> {
    let text = options.at.as_deref().or(url).or(case.recorded.url.as_deref());
    let text = text.context("the run does not tell what was loaded; say it by --at URL")?;
    if text.contains("(redacted)") {
        bail!("the run keeps no queries, and the load had one ({text}); say the whole by --at URL");
    }
    if let Some(method) = case.recorded.method.as_deref().filter(|method| !["GET", "HEAD"].contains(method)) {
        bail!(
            "the load was made of {method} requests, which a trial would repeat on your data; try it by --at URL on a page that only reads"
        );
    }
    Ok(Url::parse(text)?)
}

/// The server that takes the requests.
fn front<'s>(case: &'s Case<'_>, port: u16) -> anyhow::Result<usize> {
    let fronts: Vec<(usize, &'s Server)> = case.servers.of(Kind::Apache).chain(case.servers.of(Kind::Nginx)).collect();
    let listens = |server: &Server| {
        let name = if server.kind == Kind::Apache { "Listen" } else { "listen" };
        server.configuration.all(name).iter().any(|found| ports::of_listen(found.word()) == Some(port))
    };
    let found = fronts.iter().find(|(_, server)| listens(server)).map(|(number, _)| *number);
    found.with_context(|| {
        format!("no Apache or nginx that listens on port {port} was found; start yours, or name it by --port {port}")
    })
}

fn refuse_what_cannot_be_copied(case: &Case<'_>, finding: &Finding, front: usize) -> anyhow::Result<()> {
    let Some(main) = finding.settings.first() else { bail!("it changes no server's configuration") };
    let changed = &case.servers.list[main.server];
    if !matches!(changed.kind, Kind::Apache | Kind::Nginx | Kind::PhpFpm) {
        bail!("{} is not copied: it would work on its owner's data", changed.label());
    }
    for server in [changed, &case.servers.list[front]] {
        // Otherwise the user who wrote its configuration could have us run commands.
        if server.process.pid != 0 && !server.process.is_ours {
            bail!("{} belongs to another user; try it as that user", server.label());
        }
        if !server.process.is_near {
            bail!(
                "{} runs in a container (namespaces of its own), where a copy cannot be started from here",
                server.label()
            );
        }
        if let Some(problem) = server.configuration.problems.first() {
            bail!(
                "the configuration of {} was not read as a whole ({problem}), so a copy would differ from it",
                server.label()
            );
        }
    }
    Ok(())
}

fn plan(copies: &Copies, url: &Url, connections: u32, options: &Options) -> anyhow::Result<Plan> {
    let scheme = if url.encrypted { "https" } else { "http" };
    let at = |port: u16| format!("{scheme}://127.0.0.1:{port}{}", url.target).parse();
    let program = std::env::current_exe().context("finding the path of this program for the load")?;
    let mut words = vec![program.display().to_string()];
    words.extend(["load", "{url}", "-c", "{connections}", "-d", "{seconds}", "--json"].map(str::to_owned));
    if url.encrypted {
        // The certificate is of the server's name, and the copy is asked by its address.
        words.push("--insecure".to_owned());
    }
    if url.host.parse::<IpAddr>().is_err() {
        words.extend(["-H".to_owned(), format!("Host: {}", url.host)]);
    }
    let [(command_a, port_a), (command_b, port_b)] = copies.sides();
    let pair = Pair::of_servers(
        CommandLine::from_words(command_a)?,
        CommandLine::from_words(command_b)?,
        &CommandLine::from_words(words)?,
    );
    Ok(Plan {
        measured: pair.measured,
        servers: pair.servers,
        subjects: pair.subjects,
        cases: vec![weir_compare::Case {
            name: "load".to_owned(),
            targets: vec![Some(at(port_a)?), Some(at(port_b)?)],
            connections,
            options: Vec::new(),
        }],
        restart: false,
        repetitions: Repetitions {
            blocks: options.blocks,
            aa_blocks: (options.blocks / 2).max(5).min(options.blocks),
            block_s: options.block_seconds,
            warm_up_s: options.block_seconds / 2.0,
            until: None,
            budget_s: None,
            starts: Some(1),
        },
        // As the user's server runs: a pinned one could not use what more workers would.
        pinning: Pinning { server: None, load: None, beside: None },
        start_timeout_s: 15.0,
        load_timeout_s: None,
        smallest_effect: options.smallest_effect,
        seed: u64::from(std::process::id()),
        accounting: CpuAccountingChoice::Best,
        parts: PartsChoice::Never,
        site: None,
    })
}
