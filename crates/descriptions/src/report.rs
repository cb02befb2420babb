//! What is told beside the scenario that is written.

use crate::error::DescriptionError;
use crate::kind::Kind;
use crate::model::{Plan, written};
use crate::told::Told;
use crate::wanted::Wanted;
use std::cell::RefCell;
use weir_diagnostic::Mistake;

/// Losses, and what was left out, that are told one by one; more are counted.
const TOLD_MAX: usize = 2000;
/// Mistakes that are told.
const MISTAKES_MAX: usize = 50;

/// A scenario, and what became of the rest of the file.
#[derive(Debug)]
pub struct Draft {
    /// The scenario, in TOML.
    pub text: String,
    /// The requests that it has.
    pub requests: usize,
    /// Whether an address of it is relative, so that it needs a base.
    pub needs_base: bool,
    /// What could not be carried over, in the order of the lines.
    pub losses: Vec<Told>,
    /// Operations that were not asked for.
    pub left_out: Vec<Told>,
    /// Losses beyond those that are listed.
    pub losses_more: usize,
}

/// Collects what is told.
#[derive(Debug, Default)]
pub(crate) struct Report {
    losses: RefCell<Vec<Told>>,
    losses_more: RefCell<usize>,
    left_out: RefCell<Vec<Told>>,
    mistakes: RefCell<Vec<Mistake>>,
}

impl Report {
    /// Something is not carried over.
    pub(crate) fn lost(&self, line: usize, what: impl Into<String>, remedy: impl Into<String>) {
        let mut losses = self.losses.borrow_mut();
        let told = Told { line, what: one_line(what.into()), remedy: one_line(remedy.into()) };
        if losses.len() >= TOLD_MAX {
            *self.losses_more.borrow_mut() += 1;
        } else if !losses.contains(&told) {
            losses.push(told);
        }
    }

    /// An operation is left out as it was not asked for.
    pub(crate) fn left_out(&self, line: usize, what: impl Into<String>, remedy: impl Into<String>) {
        let mut left_out = self.left_out.borrow_mut();
        if left_out.len() < TOLD_MAX {
            left_out.push(Told { line, what: one_line(what.into()), remedy: one_line(remedy.into()) });
        }
    }

    /// The file is wrong.
    pub(crate) fn wrong(&self, (line, column): (usize, usize), what: impl Into<String>, remedy: impl Into<String>) {
        let mut mistakes = self.mistakes.borrow_mut();
        if mistakes.len() < MISTAKES_MAX {
            mistakes.push(Mistake { line, column, what: one_line(what.into()), remedy: one_line(remedy.into()) });
        }
    }

    /// The scenario of a plan.
    pub(crate) fn finish(
        self,
        plan: Option<Plan>,
        (kind, name): (Kind, &str),
        wanted: &Wanted,
    ) -> Result<Draft, DescriptionError> {
        let sorted = |told: RefCell<Vec<Told>>| {
            let mut told = told.into_inner();
            told.sort();
            told
        };
        let (losses, left_out) = (sorted(self.losses), sorted(self.left_out));
        let mut mistakes = self.mistakes.into_inner();
        mistakes.sort();
        mistakes.dedup();
        if !mistakes.is_empty() {
            return Err(DescriptionError::Mistaken { name: name.to_owned(), mistakes });
        }
        let mut plan = plan.unwrap_or_default();
        plan.prune();
        let requests = plan.requests();
        // What only goes before or behind users is no load.
        if requests == 0 || plan.groups.is_empty() {
            let remedy = match kind {
                Kind::OpenApi if !left_out.is_empty() => "add --all, or --only NAME with what is wanted",
                Kind::OpenApi => "give a file that has paths with operations",
                _ => "give a file that has requests",
            };
            let told = losses.into_iter().chain(left_out).take(MISTAKES_MAX).collect();
            return Err(DescriptionError::Nothing { name: name.to_owned(), kind, told, remedy });
        }
        let mut head = vec![format!("Made by weir scenario --from {} ({kind}).", one_line(name.to_owned()))];
        list(&mut head, "NOT CARRIED OVER", &losses);
        list(&mut head, "LEFT OUT", &left_out);
        let text = written(&plan, &head, wanted);
        let mut needs_base = false;
        plan.steps().for_each(|step| step.each(&mut |ask| needs_base |= ask.address.is_relative()));
        Ok(Draft { text, requests, needs_base, losses, left_out, losses_more: self.losses_more.into_inner() })
    }
}

fn list(head: &mut Vec<String>, title: &str, told: &[Told]) {
    if !told.is_empty() {
        head.push(String::new());
        head.push(format!("{title} ({}):", told.len()));
        head.extend(told.iter().map(|told| format!("- line {told}")));
    }
}

/// A text without control characters, so that it stays one line of a terminal and of a comment; at most 500 letters.
fn one_line(text: String) -> String {
    if text.chars().count() <= 500 && !text.contains(char::is_control) {
        return text;
    }
    let mut line: String =
        text.chars().take(500).map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    if text.chars().count() > 500 {
        line.push('…');
    }
    line
}
