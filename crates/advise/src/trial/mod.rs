//! Proving a finding: servers with the original and with the changed configuration are compared.
//!
//! Both sides are copies on ports of their own, so that nothing differs but the change; the user's servers are not
//! touched. Databases are shared with the user's: pages are really asked for, as the recorded load did.

mod apache;
mod change;
mod changed;
mod copy;
mod nginx;
mod outcome;
mod php_fpm;
mod ports;
mod whole;

pub use changed::Changed;
pub use outcome::Shown;

use crate::finding::Finding;
use crate::rules::Case;
use anyhow::{Context, bail};
use copy::Copies;
use weir_compare::{
    CommandLine, CpuAccountingChoice, Experiment, Interrupt, Pair, PartsChoice, Pinning, Plan, Progress, Repetitions,
};
use weir_load::Url;
use whole::{front, refuse_what_cannot_be_copied, target, words_for_a_copy};

/// Connections of a trial's load, at most.
const MOST_CONNECTIONS: u32 = 1000;

/// How a trial is made.
#[derive(Debug, Clone)]
pub struct Options {
    /// URL of the server, which the trial asks of its copies; without it the URL that the run loaded.
    pub at: Option<String>,
    /// Pairs of slices, one with the original and one with the change.
    pub blocks: usize,
    /// Length of a slice, seconds.
    pub block_s: f64,
    /// The smallest change of throughput that matters, as a fraction.
    pub smallest_effect: f64,
}

/// Copies of the servers with and without a change, ready to be compared.
pub struct Trial<'t> {
    case: Case<'t>,
    finding: &'t Finding,
    url: Url,
    copies: Copies,
    plan: Plan,
}

impl<'t> Trial<'t> {
    /// Makes the copies.
    pub(crate) fn prepare(
        case: Case<'t>,
        finding: &'t Finding,
        url: Option<&str>,
        options: &Options,
    ) -> anyhow::Result<Self> {
        if let Some(reason) = &finding.cannot_try_because {
            bail!("{reason}");
        }
        let url = target(&case, options.at.as_deref().or(url))?;
        let front = front(&case, url.port)?;
        let Some(main) = finding.settings.first() else { bail!("it changes no server's configuration") };
        refuse_what_cannot_be_copied(&case, main.server, front)?;
        let copies = Copies::make(case.servers, front, url.port, finding)?;
        let connections = case.recorded.connections.unwrap_or_else(|| case.observed.in_flight().ceil().max(1.0) as u32);
        let plan = plan(&copies, &url, connections.clamp(1, MOST_CONNECTIONS), options)?;
        plan.check()?;
        Ok(Self { case, finding, url, copies, plan })
    }

    /// What is going to be measured.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Compares the copies until the end or the interrupt.
    ///
    /// # Errors
    /// A copy or its load fails.
    pub fn run(self, interrupt: Interrupt, tell: &mut dyn FnMut(Progress)) -> anyhow::Result<Shown> {
        let outcome = Experiment::new(self.plan, interrupt).run(tell);
        // The copies stay until the experiment has ended all servers.
        let outcome =
            outcome.with_context(|| format!("the copies are in {} while they run", self.copies.folder().display()));
        drop(self.copies);
        Ok(outcome::shown(self.finding, &self.case, &self.url, &outcome?))
    }
}

fn plan(copies: &Copies, url: &Url, connections: u32, options: &Options) -> anyhow::Result<Plan> {
    let scheme = if url.encrypted { "https" } else { "http" };
    let at = |port: u16| format!("{scheme}://127.0.0.1:{port}{}", url.target).parse();
    let program = std::env::current_exe().context("finding the path of this program for the load")?;
    let mut words = vec![program.display().to_string()];
    words.extend(["load", "{url}", "-c", "{connections}", "-d", "{seconds}", "--json"].map(str::to_owned));
    words.extend(words_for_a_copy(url));
    let [(command_a, port_a), (command_b, port_b)] = copies.sides() else { bail!("a trial is of two copies") };
    let pair = Pair::of_servers(
        CommandLine::from_words(command_a.clone())?,
        CommandLine::from_words(command_b.clone())?,
        &CommandLine::from_words(words)?,
    );
    Ok(Plan {
        measured: pair.measured,
        servers: pair.servers,
        subjects: pair.subjects,
        cases: vec![weir_compare::Case {
            name: "load".to_owned(),
            targets: vec![Some(at(*port_a)?), Some(at(*port_b)?)],
            connections,
            options: Vec::new(),
        }],
        restart: false,
        repetitions: Repetitions {
            blocks: options.blocks,
            aa_blocks: (options.blocks / 2).max(5).min(options.blocks),
            block_s: options.block_s,
            warm_up_s: options.block_s / 2.0,
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
