//! A run, the servers behind it, and what is to be said of them.

use crate::finding::{Advice, Finding, Looked};
use crate::observed::Observed;
use crate::recorded::Recorded;
use crate::rules::{self, Case};
use crate::servers::{self, Servers};
use crate::trial::{Changed, Options, Trial};
use std::path::{Path, PathBuf};
use weir_capture::Target;
use weir_report::Explanation;

/// A run with the servers behind it.
#[derive(Debug)]
pub struct Examined {
    directory: PathBuf,
    subject: String,
    recorded: Recorded,
    observed: Observed,
    servers: Servers,
}

impl Examined {
    /// Looks for the servers of a run: those that the user has named, and those that the run tells of.
    ///
    /// # Errors
    /// The run cannot be read.
    pub fn of(directory: &Path, explanation: &Explanation, named: &Target) -> anyhow::Result<Self> {
        let recorded = Recorded::of(directory)?;
        let observed = Observed::of(explanation)?;
        let servers = servers::find(named, &recorded, &observed);
        Ok(Self { directory: directory.to_owned(), subject: explanation.subject.clone(), recorded, observed, servers })
    }

    /// What to change.
    pub fn advice(&self) -> Advice {
        advice(&self.case(), &self.subject, &self.directory)
    }

    /// Prepares a trial of a finding; `url` is what the user had loaded.
    ///
    /// # Errors
    /// The finding cannot be tried.
    pub fn trial<'t>(
        &'t self,
        finding: &'t Finding,
        url: Option<&str>,
        options: &Options,
    ) -> anyhow::Result<Trial<'t>> {
        Trial::prepare(self.case(), finding, url, options)
    }

    /// Starts a copy of the servers with so many workers in each pool of these names, beside the user's own.
    ///
    /// # Errors
    /// The servers are not there any more, belong to another user or stand in a container, have no such pool, or the copy
    /// does not start.
    pub fn with_workers(&self, workers: &[(String, u32)]) -> anyhow::Result<Changed> {
        Changed::start(&self.case(), workers)
    }

    fn case(&self) -> Case<'_> {
        Case { observed: &self.observed, recorded: &self.recorded, servers: &self.servers }
    }
}

fn advice(case: &Case<'_>, subject: &str, directory: &Path) -> Advice {
    let findings = rules::findings(case);
    let beyond_settings = rules::beyond_settings(case, &findings);
    let none_because = findings.is_empty().then(|| none_because(case, &findings, &beyond_settings));
    let servers = case.servers.list.iter();
    Advice {
        version: weir_terminal::VERSION.to_owned(),
        subject: subject.to_owned(),
        run: directory.display().to_string(),
        response_ns: case.observed.response_ns(),
        slow_response_ns: case.observed.slow_response_ns,
        servers: servers
            .map(|server| Looked {
                kind: server.kind.name(),
                pid: (server.process.pid != 0).then_some(server.process.pid),
                files: server.configuration.files.iter().chain(&server.ini.configuration.files).cloned().collect(),
            })
            .collect(),
        findings,
        beyond_settings,
        none_because,
        problems: case.servers.problems.clone(),
        trial: None,
    }
}

/// Why there is nothing to change.
fn none_because(case: &Case<'_>, findings: &[Finding], beyond: &[String]) -> String {
    debug_assert!(findings.is_empty());
    if case.observed.joined_fraction < 0.5 {
        return format!(
            "only {:.0} % of the requests were joined with the server's side, so there is little to go by; name the server by --port when recording",
            100.0 * case.observed.joined_fraction
        );
    }
    let looked = case.servers.list.iter().filter(|server| server.is_known()).count();
    match (looked, beyond.first()) {
        (0, _) => "no configuration of a server that is known here was found (Apache, nginx, php-fpm, PostgreSQL); what takes the time stands below".to_owned(),
        (_, Some(_)) => "the settings that bear on the large parts of the response are as they should be; no setting changes what takes the time, which stands below".to_owned(),
        (_, None) => "no part of the response is large enough, and due to a setting".to_owned(),
    }
}
