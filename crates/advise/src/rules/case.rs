//! What rules look at, and what they make of it.

use crate::finding::{Effect, Evidence, Finding, Setting};
use crate::observed::Observed;
use crate::recorded::Recorded;
use crate::servers::{Kind, Servers};
use weir_measure::part::Part;
use weir_measure::queueing::Saving;
use weir_report::nanoseconds;

/// Below this share of the mean response a saving is not worth a change.
pub(super) const WORTH_IT: f64 = 0.01;

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
    pub(super) fn cpus(&self) -> f64 {
        f64::from(self.recorded.cpus.max(1))
    }

    /// A part as evidence; `ns` is as much of its mean as is meant.
    pub(super) fn evidence(&self, part: Part, ns: f64) -> Evidence {
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
    pub(super) fn effect(&self, saving: Saving, basis: impl Into<String>) -> Effect {
        Effect::of(saving, self.observed.response_ns(), basis)
    }

    /// How much of a part belongs to the front servers: time that is blamed on a server behind them is that server's.
    pub(super) fn in_front_ns(&self, part: Part) -> f64 {
        let is_behind = |who: &str| matches!(Kind::of(who), Some(Kind::PhpFpm | Kind::Postgres | Kind::Mariadb));
        (self.observed.part_ns(part.name()) - self.observed.of_whom(part.name(), is_behind)).max(0.0)
    }

    /// Whether a name is one of a kind of server.
    pub(super) fn is_of(name: &str, kind: Kind) -> bool {
        Kind::of(name) == Some(kind)
    }
}

/// A finding before it has its number.
pub(super) struct Draft {
    rule: &'static str,
    title: String,
    evidence: Vec<Evidence>,
    effect: Effect,
}

impl Draft {
    pub(super) fn new(rule: &'static str, title: impl Into<String>, evidence: Vec<Evidence>, effect: Effect) -> Self {
        Self { rule, title: title.into(), evidence, effect }
    }

    /// With settings that a trial may apply.
    pub(super) fn set(
        self,
        settings: Vec<Setting>,
        facts: Vec<String>,
        reasoning: String,
        against: &[&str],
    ) -> Finding {
        Finding {
            settings,
            can_try: true,
            cannot_try_because: None,
            ..self.told(Vec::new(), facts, reasoning, against, "")
        }
    }

    /// With commands to run, which a trial cannot.
    pub(super) fn told(
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
            predicted: None,
            against: against.iter().map(|&text| text.to_owned()).collect(),
            can_try: false,
            cannot_try_because: Some(why.to_owned()),
        }
    }
}

impl Finding {
    /// Not for a trial, for a reason.
    pub(super) fn without_trial(mut self, why: &str) -> Self {
        self.can_try = false;
        self.cannot_try_because = Some(why.to_owned());
        self
    }
}
