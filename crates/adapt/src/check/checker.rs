//! Looks at a whole policy.

use super::boxes::Effort;
use super::level::level;
use super::names::{self, Known, Variants};
use super::{opposite, rule};
use crate::language::mistake::Findings;
use crate::language::parse;
use crate::language::syntax::Source;
use weir_diagnostic::Mistake;

/// Rules of a policy at most.
const RULES_MAX: usize = 10_000;

/// What there is to say of a policy that decides nothing.
pub const NO_RULES: &str = "the policy has no rules, so that nothing is decided by it";

/// What there is to say of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// What is refused, in the order of the lines; without any the policy can be used.
    pub mistakes: Vec<Mistake>,
    /// What is accepted, and seldom meant.
    pub warnings: Vec<Mistake>,
}

/// Looks for mistakes in the text of a policy.
pub fn check_policy(text: &str) -> Checked {
    let mut findings = Findings::new(text);
    read(text, &mut findings);
    Checked { mistakes: findings.mistakes, warnings: findings.warnings }
}

/// Reads and checks a policy; the findings are in the order of the lines.
pub(crate) fn read<'t>(text: &'t str, findings: &mut Findings<'t>) -> Source {
    let source = parse(text, findings);
    // A policy of which a part could not be read would seem to have names that lead nowhere.
    if findings.mistakes.is_empty() {
        check(&source, findings);
    }
    for list in [&mut findings.mistakes, &mut findings.warnings] {
        list.sort();
        list.dedup();
    }
    source
}

/// Looks at a whole policy; what is wrong goes to the findings.
fn check(source: &Source, findings: &mut Findings<'_>) {
    let known = Known::new(source, findings);
    names::atoms(source, findings);
    let rules = source.atoms.iter().map(|atom| atom.rules.len()).sum::<usize>();
    if rules == 0 {
        findings.doubt(
            0,
            NO_RULES,
            "write one, such as atom \"/**\" { rule busy: during if cpu > 90% then shed 10% hold 30s; }",
        );
    }
    if rules > RULES_MAX {
        return findings.wrong(0, format!("more than {RULES_MAX} rules"), "divide the policy");
    }
    let variants = Variants::of_all(source);
    let mut effort = Effort::new();
    for atom in &source.atoms {
        let variants = variants.of(&atom.glob.text);
        for one in &atom.rules {
            let level = level(one);
            let conditions = one.branches.iter().filter_map(|branch| branch.condition.as_ref());
            for condition in conditions.chain(&one.stability.until) {
                condition.each(&mut |test| {
                    rule::test(test, findings);
                    rule::metric(&test.metric, test.at, findings);
                    known.metric(&test.metric, test.at, findings);
                });
            }
            for act in one.branches.iter().flat_map(|branch| &branch.acts) {
                known.act(&act.kind, act.at, atom, variants, findings);
            }
            rule::subject(one, level, findings);
            rule::conditions(one, &mut effort, findings);
            rule::stability(one, level, findings);
            rule::acts(one, level, findings);
        }
    }
    opposite::check(source, &variants, &mut effort, findings);
}
