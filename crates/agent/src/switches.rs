//! Switches: which transactions are recorded. Rules have names, as processes and their numbers come and go.

use crate::protocol::{Rule, Switch};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use weir_wire::arm::{SWITCH_OFF, SWITCH_ON};

/// The most rules.
pub const MOST_RULES: usize = 1024;
/// The application of a rule for all.
pub const EVERY_APPLICATION: &str = "*";
const FILE: &str = "switches.json";

/// The word in a client's memory that stands for a position.
#[must_use]
pub fn word(switch: Switch) -> u32 {
    match switch {
        Switch::On | Switch::OneIn(0 | 1) => SWITCH_ON,
        Switch::Off => SWITCH_OFF,
        Switch::OneIn(so_many) => so_many.min(SWITCH_OFF - 1),
    }
}

/// Rules hold, but not longer than the agent runs.
#[derive(Debug, thiserror::Error)]
pub enum KeepRulesError {
    /// The agent has no folder for what outlives it.
    #[error("the switches hold until the agent ends: it has no folder to keep them in")]
    NoFolder,
    /// Their file cannot be written.
    #[error("{}: the switches hold until the agent ends: {source}", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A rule cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// One of none.
    #[error("one in {0} is no sampling; give a number of at least 2, or switch on or off")]
    Sampling(u32),
    /// There are too many.
    #[error("there are {MOST_RULES} rules already; forget some")]
    TooMany,
}

/// The rules that hold.
#[derive(Debug, Default)]
pub struct Rules {
    rules: Vec<Rule>,
    file: Option<PathBuf>,
}

impl Rules {
    /// Those that were kept in a folder; what cannot be read is told, and there are none then.
    #[must_use]
    pub fn read(folder: Option<&Path>) -> (Self, Option<String>) {
        let Some(file) = folder.map(|folder| folder.join(FILE)) else { return (Self::default(), None) };
        let text = match fs::read_to_string(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok("[]".to_owned()),
            text => text.map_err(|error| error.to_string()),
        };
        let rules = text.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
        let warning = rules.as_ref().err().map(|error| {
            format!("{}: the switches that were set cannot be read, so all are on: {error}", file.display())
        });
        let mut rules: Vec<Rule> = rules.unwrap_or_default();
        rules.truncate(MOST_RULES);
        (Self { rules, file: Some(file) }, warning)
    }

    /// Every rule, in the order of setting.
    #[must_use]
    pub fn each(&self) -> &[Rule] {
        &self.rules
    }

    /// Sets a rule, or forgets it (`None`), in the place of one of the same name. What is said of an application as a
    /// whole holds for all its transactions again.
    ///
    /// # Errors
    /// When it is no rule, or there are too many.
    pub fn set(&mut self, application: &str, transaction: Option<&str>, to: Option<Switch>) -> Result<(), RuleError> {
        if let Some(Switch::OneIn(so_many @ (0 | 1))) = to {
            return Err(RuleError::Sampling(so_many));
        }
        let covered = |rule: &Rule| {
            (application == EVERY_APPLICATION && transaction.is_none())
                || rule.application == application
                    && (transaction.is_none() || rule.transaction.as_deref() == transaction)
        };
        let others = self.rules.iter().filter(|rule| !covered(rule)).count();
        if to.is_some() && others >= MOST_RULES {
            return Err(RuleError::TooMany);
        }
        self.rules.retain(|rule| !covered(rule));
        if let Some(to) = to {
            let (application, transaction) = (application.to_owned(), transaction.map(str::to_owned));
            self.rules.push(Rule { application, transaction, to });
        }
        Ok(())
    }

    /// Keeps them for the next agent.
    ///
    /// # Errors
    /// Where that does not work; they hold all the same.
    pub fn keep(&self) -> Result<(), KeepRulesError> {
        let Some(file) = &self.file else {
            return Err(KeepRulesError::NoFolder);
        };
        let write = || {
            let text = serde_json::to_string_pretty(&self.rules).map_err(io::Error::other)?;
            let new = file.with_extension("new");
            fs::write(&new, text)?;
            fs::rename(&new, file)
        };
        write().map_err(|source| KeepRulesError::Write { file: file.clone(), source })
    }

    /// The position for a transaction: of the rule of its name, else of its application's, else of that for all.
    #[must_use]
    pub fn of(&self, application: &str, transaction: &str) -> Switch {
        let find = |application: &str, transaction: Option<&str>| {
            let fits = |rule: &&Rule| rule.application == application && rule.transaction.as_deref() == transaction;
            self.rules.iter().find(fits).map(|rule| rule.to)
        };
        let own = find(application, Some(transaction)).or_else(|| find(EVERY_APPLICATION, Some(transaction)));
        let whole = || find(application, None).or_else(|| find(EVERY_APPLICATION, None));
        own.or_else(whole).unwrap_or(Switch::On)
    }

    /// The position for what has no definition.
    #[must_use]
    pub fn of_unknown(&self) -> Switch {
        let rule = self.rules.iter().find(|rule| rule.application == EVERY_APPLICATION && rule.transaction.is_none());
        rule.map_or(Switch::On, |rule| rule.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_of_the_name_goes_before_that_of_the_application() {
        let mut rules = Rules::default();
        let mut set = |application, transaction, to| rules.set(application, transaction, to).expect("a rule");
        set("*", None, Some(Switch::OneIn(10)));
        set("shop", None, Some(Switch::Off));
        set("shop", Some("buy"), Some(Switch::On));
        assert_eq!(rules.of("shop", "buy"), Switch::On);
        assert_eq!(rules.of("shop", "look"), Switch::Off);
        assert_eq!((rules.of("bank", "pay"), rules.of_unknown()), (Switch::OneIn(10), Switch::OneIn(10)));
        rules.set("shop", Some("buy"), None).expect("forgotten");
        assert_eq!(rules.of("shop", "buy"), Switch::Off);
        rules.set("*", None, Some(Switch::On)).expect("a rule");
        assert_eq!((rules.of("shop", "look"), rules.each().len()), (Switch::On, 1));
        assert_eq!(rules.set("*", None, Some(Switch::OneIn(1))), Err(RuleError::Sampling(1)));
        assert_eq!((word(Switch::OneIn(1)), word(Switch::OneIn(u32::MAX))), (SWITCH_ON, SWITCH_OFF - 1));
    }

    #[test]
    fn rules_are_kept_and_damaged_ones_are_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut rules, warning) = Rules::read(Some(folder.path()));
        assert_eq!(warning, None);
        rules.set("shop", Some("buy"), Some(Switch::OneIn(5))).expect("a rule");
        rules.keep().expect("kept");
        assert_eq!(Rules::read(Some(folder.path())).0.of("shop", "buy"), Switch::OneIn(5));
        fs::write(folder.path().join(FILE), "{").expect("written");
        let (rules, warning) = Rules::read(Some(folder.path()));
        assert!(rules.each().is_empty() && warning.is_some_and(|warning| warning.contains("switches.json")));
        assert!(Rules::read(None).0.keep().is_err());
    }
}
