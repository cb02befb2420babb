//! The rules: each looks at an explanation and the servers' configurations, and gives findings or none.
//!
//! A rule needs both: a part of the response that is worth its reader's time, and something in the configuration or
//! the running system that makes it so. Large parts that no setting changes are listed apart.

mod accept_mutex;
mod connections;
mod content;
mod cpu;
mod database;
mod logs;
mod names;
mod php;
pub(crate) mod sql;
#[cfg(test)]
mod tests;
mod workers;

use super::finding::{Effect, Evidence, Finding, Setting};
use super::observed::Observed;
use super::recorded::Recorded;
use super::servers::{Kind, Servers};
use weir_measure::part::Part;
use weir_measure::queueing::Saving;
use weir_report::nanoseconds;

/// Below this share of the mean response a saving is not worth a change.
const WORTH_IT: f64 = 0.01;
/// From this share of the mean response on, a part is always mentioned.
const LARGE: f64 = 0.10;

/// What the rules look at.
pub(crate) struct Case<'a> {
    /// The explanation.
    pub(crate) observed: &'a Observed,
    /// How the run was made.
    pub(crate) recorded: &'a Recorded,
    /// The servers.
    pub(crate) servers: &'a Servers,
}

impl Case<'_> {
    /// CPUs of the host.
    fn cpus(&self) -> f64 {
        f64::from(self.recorded.cpus.max(1))
    }

    /// A part as evidence; `ns` is as much of its mean as is meant.
    fn evidence(&self, part: Part, ns: f64) -> Evidence {
        let (observed, name) = (self.observed, part.name());
        let share = observed.share(ns);
        let slow_ns = observed.slow_part_ns(name);
        let whole = observed.part_ns(name).max(1.0);
        let who: Vec<(String, f64)> = observed.blamed(name).into_iter().map(|(who, ns)| (who, ns / whole)).collect();
        let named = match who.first() {
            Some((first, share)) => format!("; {first} has {:.0} % of it", 100.0 * share),
            None => String::new(),
        };
        let text = format!(
            "{:.1} % of the mean response is {} ({name}): {} of {}; of the slowest 1 % it takes {} of {}{named}",
            100.0 * share,
            part.words(),
            nanoseconds(ns),
            nanoseconds(observed.response_ns()),
            nanoseconds(slow_ns),
            nanoseconds(observed.slow_response_ns),
        );
        Evidence { part: name, mean_ns: ns, share, slow_ns, who, text }
    }

    /// An estimate for this case.
    fn effect(&self, saving: Saving, basis: impl Into<String>) -> Effect {
        Effect::of(saving, self.observed.response_ns(), basis)
    }

    /// How much of a part belongs to the front servers: time that is blamed on a server behind them is that server's.
    fn in_front_ns(&self, part: Part) -> f64 {
        let is_behind = |who: &str| matches!(Kind::of(who), Some(Kind::PhpFpm | Kind::Postgres | Kind::Mariadb));
        (self.observed.part_ns(part.name()) - self.observed.of_whom(part.name(), is_behind)).max(0.0)
    }

    /// Whether a name is one of a kind of server.
    fn is_of(name: &str, kind: Kind) -> bool {
        Kind::of(name) == Some(kind)
    }
}

/// A finding before it has its number.
pub(crate) struct Draft {
    rule: &'static str,
    title: String,
    evidence: Vec<Evidence>,
    effect: Effect,
}

impl Draft {
    fn new(rule: &'static str, title: impl Into<String>, evidence: Vec<Evidence>, effect: Effect) -> Self {
        Self { rule, title: title.into(), evidence, effect }
    }

    /// With settings that a trial may apply.
    fn set(self, settings: Vec<Setting>, facts: Vec<String>, reasoning: String, against: &[&str]) -> Finding {
        Finding {
            settings,
            can_try: true,
            cannot_try_because: None,
            ..self.told(Vec::new(), facts, reasoning, against, "")
        }
    }

    /// With commands to run, which a trial cannot.
    fn told(
        self,
        commands: Vec<String>,
        facts: Vec<String>,
        reasoning: String,
        against: &[&str],
        why: &str,
    ) -> Finding {
        Finding {
            number: 0,
            rule: self.rule,
            title: self.title,
            evidence: self.evidence,
            facts,
            settings: Vec::new(),
            commands,
            reasoning,
            effect: self.effect,
            against: against.iter().map(|&text| text.to_owned()).collect(),
            can_try: false,
            cannot_try_because: Some(why.to_owned()),
        }
    }
}

impl Finding {
    /// Not for a trial, for a reason.
    fn without_trial(mut self, why: &str) -> Self {
        self.can_try = false;
        self.cannot_try_because = Some(why.to_owned());
        self
    }
}

/// Every finding, numbered by expected effect.
pub(crate) fn findings(case: &Case<'_>) -> Vec<Finding> {
    let rules: [fn(&Case<'_>) -> Vec<Finding>; 14] = [
        php::pool_too_small,
        php::opcache_off,
        workers::too_few,
        connections::keep_alive_off,
        connections::no_resumption,
        connections::slow_client,
        accept_mutex::contended,
        logs::unbuffered,
        logs::synchronous_commit,
        cpu::noisy_neighbour,
        cpu::quota,
        content::sendfile_off,
        database::missing_index,
        names::look_ups,
    ];
    let mut findings: Vec<Finding> = rules.iter().flat_map(|rule| rule(case)).collect();
    findings.retain(|finding| finding.effect.share.high_ns >= WORTH_IT);
    findings.sort_by(|a, b| b.effect.saved_ns.likely_ns.total_cmp(&a.effect.saved_ns.likely_ns));
    for (index, finding) in findings.iter_mut().enumerate() {
        finding.number = index + 1;
    }
    findings
}

/// Large parts that no finding speaks of, each with the reason why no setting changes it.
pub(crate) fn beyond_settings(case: &Case<'_>, findings: &[Finding]) -> Vec<String> {
    let explained =
        |part: &str| findings.iter().any(|finding| finding.evidence.iter().any(|evidence| evidence.part == part));
    let mut texts = Vec::new();
    for part in Part::ALL {
        let ns = case.observed.part_ns(part.name());
        if case.observed.share(ns) < LARGE || explained(part.name()) {
            continue;
        }
        let text = format!(
            "{:.0} % is {} ({}): {}",
            100.0 * case.observed.share(ns),
            part.words(),
            part.name(),
            why_not(case, part)
        );
        texts.push(text);
    }
    texts
}

/// Why no setting changes a part.
fn why_not(case: &Case<'_>, part: Part) -> String {
    let who: Vec<String> = case.observed.blamed(part.name()).into_iter().map(|(who, _)| who).take(2).collect();
    let who = if who.is_empty() { "an unknown task".to_owned() } else { who.join(", ") };
    match part {
        Part::Run => "the server's own work; `weir record --stacks` shows which code it is".to_owned(),
        Part::WaitCpu if who.contains("weir-load") => {
            "the load generator shares the CPUs with the server: load from another host, or pin both".to_owned()
        }
        Part::WaitCpu => format!("the CPUs are taken by {who}: fewer instructions or more CPUs"),
        Part::Generator | Part::ClientWakeup => "it is the load generator's own, no user feels it".to_owned(),
        Part::Connect => "the client makes new connections; the server would keep them open".to_owned(),
        Part::RequestTransit | Part::ResponseTransit => "it is the way between client and server".to_owned(),
        Part::WaitTimer => format!("the program sleeps on purpose ({who}): its code says so, not a configuration"),
        Part::Stopped => {
            format!("it was held from outside ({who}): a signal, a debugger or a freezer did it, no setting")
        }
        Part::WaitProcess | Part::WaitNetwork => {
            format!(
                "it waits for {who}, of which no configuration was found here; name it by --pid or --port to look into it"
            )
        }
        Part::WaitLock if who.contains("/sess_") => {
            "PHP's lock on a user's session: one request at a time has it until session_write_close()".to_owned()
        }
        Part::WaitLock => format!("a lock of the program's own ({who})"),
        Part::WaitDisk => format!("reads or writes of {who}; a faster disk or more memory for the page cache"),
        Part::AcceptQueue | Part::WorkerQueue => "the workers are busy, and there are enough of them".to_owned(),
        Part::Unattributed => "the recording cannot tell what it is".to_owned(),
        #[allow(unreachable_patterns, reason = "later versions may add parts")]
        _ => "no rule knows this part".to_owned(),
    }
}
