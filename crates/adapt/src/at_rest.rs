//! When nothing is decided for a session that begins: of rules that see nothing of it but its link, and remember nothing,
//! that can be known without asking them again.

use crate::policy::{Policy, Rule, Scope, Test};
use crate::reading::{Resource, Where};

/// On what it depends whether rules decide something for a session that begins, beside the readings of nodes: in which
/// of so many pieces, between and at the ends of the intervals that the rules ask about, each value of its link lies.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AtRest {
    bandwidth_bps: Vec<f64>,
    rtt_s: Vec<f64>,
}

impl Policy {
    /// What decides for the sessions of a pattern. `None`: there is more to it, or its rules look at sessions later, too.
    pub fn at_rest(&self, pattern: usize) -> Option<AtRest> {
        if !self.blocks[pattern].session_rules.is_empty() {
            return None;
        }
        self.starts_at_rest(pattern)
    }

    /// The same of the sessions' beginnings alone. `None`: there is more to it.
    pub fn starts_at_rest(&self, pattern: usize) -> Option<AtRest> {
        let block = &self.blocks[pattern];
        let mut at_rest = AtRest::default();
        for rule in block.start_rules.iter().map(|&rule| &self.rules[rule]) {
            if remembers(rule) {
                return None;
            }
            let conditions = rule.branches.iter().filter_map(|branch| branch.condition.as_ref());
            for condition in conditions {
                self.ends(condition, &mut at_rest)?;
            }
        }
        for ends in [&mut at_rest.bandwidth_bps, &mut at_rest.rtt_s] {
            ends.sort_by(f64::total_cmp);
            ends.dedup();
        }
        Some(at_rest)
    }

    /// Whether rules of a pattern read a session's link, at its start or later.
    pub fn reads_links(&self, pattern: usize) -> bool {
        let block = &self.blocks[pattern];
        block.start_rules.iter().chain(&block.session_rules).any(|&rule| self.reads_link(&self.rules[rule]))
    }

    /// Whether there is more to decide for a session of a pattern when another reading of its link comes.
    pub fn looks_at_links(&self, pattern: usize) -> bool {
        self.blocks[pattern].session_rules.iter().any(|&rule| self.reads_link(&self.rules[rule]))
    }

    fn reads_link(&self, rule: &Rule) -> bool {
        let conditions = rule.branches.iter().filter_map(|branch| branch.condition.as_ref()).chain(&rule.until);
        conditions.into_iter().any(|condition| self.is_of_link(condition))
    }

    fn is_of_link(&self, test: &Test) -> bool {
        match test {
            Test::Not(inner) => self.is_of_link(inner),
            Test::All(parts) | Test::Any(parts) => parts.iter().any(|part| self.is_of_link(part)),
            Test::Metric { metric, .. } => self.metrics[*metric].scope == Scope::Session,
        }
    }

    /// Whether some rule asks for the bandwidth of a session, and for its round trip.
    pub fn asks_of_links(&self) -> (bool, bool) {
        let asks = |resource| self.window_ms(resource, Where::Session).is_some();
        (asks(Resource::Bandwidth), asks(Resource::Rtt))
    }

    /// Whether some rule asks for the rate of a client.
    pub fn asks_of_clients(&self) -> bool {
        self.window_ms(Resource::Rate, Where::Client).is_some()
    }

    /// Adds the ends of the intervals that a condition asks about; `None`: it depends on more than a link.
    fn ends(&self, test: &Test, to: &mut AtRest) -> Option<()> {
        match test {
            Test::Not(inner) => self.ends(inner, to),
            Test::All(parts) | Test::Any(parts) => parts.iter().try_for_each(|part| self.ends(part, to)),
            Test::Metric { metric, interval, .. } => {
                let metric = &self.metrics[*metric];
                let ends = match (metric.scope, metric.resource) {
                    (Scope::Atom | Scope::Client, _) => return None,
                    (Scope::Session, _) if metric.window_ms() > 0 => return None,
                    (Scope::Session, Resource::Bandwidth) => &mut to.bandwidth_bps,
                    (Scope::Session, Resource::Rtt) => &mut to.rtt_s,
                    (Scope::Session, _) => return None,
                    _ => return Some(()),
                };
                ends.extend([interval.low.value, interval.high.value].into_iter().filter(|end| end.is_finite()));
                Some(())
            }
        }
    }
}

/// Whether a rule decides otherwise for what it decided before.
fn remembers(rule: &Rule) -> bool {
    rule.keeps() || rule.for_ms > 0 || rule.cooldown_ms > 0 || rule.limit.is_some()
}

impl AtRest {
    /// A number that is the same for links of which the rules say the same while the readings of nodes do.
    pub fn of(&self, bandwidth_bps: Option<f64>, rtt_s: Option<f64>) -> u64 {
        piece(&self.bandwidth_bps, bandwidth_bps) << 32 | piece(&self.rtt_s, rtt_s)
    }
}

/// 0 for what is unknown, else the number of the piece: ends are pieces of their own.
fn piece(ends: &[f64], value: Option<f64>) -> u64 {
    let Some(value) = value else { return 0 };
    let below = ends.partition_point(|end| *end < value);
    let is_end = ends.get(below).is_some_and(|end| *end == value);
    1 + 2 * below as u64 + u64::from(is_end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_rest(rules: &str) -> Option<AtRest> {
        let text = format!("atom \"/v/*\" {{ variants full > half > small; {rules} }}");
        let (policy, _) = Policy::read("x.policy", &text).unwrap_or_else(|mistakes| panic!("{text}: {mistakes:?}"));
        policy.at_rest(0)
    }

    #[test]
    fn links_of_which_rules_say_the_same_have_one_number() {
        let rule = "rule fit: at start if bandwidth@client in [30kbps,100kbps) and not rtt@client > 1s then use half \
                    elif bandwidth@client < 30kbps or cpu@here > 90% then use small else use full;";
        let of = |bps, rtt_s| at_rest(rule).expect("it sees links alone").of(bps, rtt_s);
        for (one, other) in [(10e3, 29e3), (31e3, 99e3), (101e3, 9e9)] {
            assert_eq!(of(Some(one), None), of(Some(other), None));
        }
        let apart = [Some(1.0), Some(30e3), Some(50e3), Some(100e3), Some(1e6), None].map(|bps| of(bps, None));
        assert_eq!(apart.iter().collect::<std::collections::BTreeSet<_>>().len(), 6);
        assert_eq!(of(None, Some(0.1)), of(None, Some(0.9)));
        assert!(of(None, Some(1.0)) != of(None, Some(0.9)) && of(None, Some(1.0)) != of(None, Some(1.1)));
    }

    #[test]
    fn rules_that_read_links_are_told_from_those_that_do_not() {
        for (rule, expected) in [
            ("rule fit: at start if bandwidth@client < 30kbps then use small;", (true, false)),
            ("rule fit: at start if rate@here > 50rps or not rtt@client < 1s then use small;", (true, false)),
            ("rule fit: at start if rate@here > 50rps then use small;", (false, false)),
            ("rule fit: at start if rate@client > 50rps then use small;", (false, false)),
            ("rule drop: during if avg rtt@client over 2s > 1s then next down;", (true, true)),
            ("rule drop: during if cpu > 90% then use small until bandwidth@client > 1Mbps;", (true, true)),
            ("rule drop: during if cpu > 90% then next down limit 3 per 60s;", (false, false)),
        ] {
            let text = format!("atom \"/v/*\" {{ variants full > half > small; {rule} }}");
            let (policy, _) = Policy::read("x.policy", &text).unwrap_or_else(|mistakes| panic!("{text}: {mistakes:?}"));
            assert_eq!((policy.reads_links(0), policy.looks_at_links(0)), expected, "{rule}");
        }
    }

    #[test]
    fn what_sees_or_remembers_more_is_asked_each_time() {
        assert!(at_rest("rule fit: at start if bandwidth@client < 30kbps then use small;").is_some());
        assert!(at_rest("rule hot: every 5s if rate@atom > 5rps then shed 5% until rate@atom < 1rps;").is_some());
        for rule in [
            "rule fit: at start if rate@atom > 5rps then use small;",
            "rule fit: at start if rate@client > 5rps then use small;",
            "rule fit: at start if avg bandwidth@client over 4s < 30kbps then use small;",
            "rule fit: at start if bandwidth@client < 30kbps then use small limit 3 per 60s;",
            "rule fit: at start if bandwidth@client < 30kbps then use small cooldown 3s;",
            "rule drop: during if bandwidth@client < 30kbps then next down limit 3 per 60s;",
        ] {
            assert_eq!(at_rest(rule), None, "{rule}");
        }
        // What is looked at later may begin as others do.
        let text = "atom \"/v/*\" { variants full > small; rule drop: during if rtt@client > 1s then next down; }";
        let (policy, _) = Policy::read("x.policy", text).expect("no mistakes");
        assert!(policy.at_rest(0).is_none() && policy.starts_at_rest(0) == Some(AtRest::default()));
    }
}
