//! What a recording takes.

use crate::child::Child;
use crate::run_directory;
use crate::sources::Sources;
use crate::target::Named;
use anyhow::Context;
use std::path::PathBuf;
use weir_capture::{Footing, Ladder, Target};

/// What is recorded, how, and where it goes.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The command that says what there is to say, such as `weir record`.
    pub who: &'static str,
    /// The run directory, made if it is not there; without one a new one in weir-runs.
    pub directory: Option<PathBuf>,
    /// The server, as its user names it.
    pub named: Named,
    /// What starts the server; empty where it runs already.
    pub command: Vec<String>,
    /// Where request boundaries may come from.
    pub ladder: Ladder,
    /// What else is recorded.
    pub sources: Sources,
}

impl Setup {
    /// Where the run goes: chosen when it is made, so that two recordings that start at once seldom choose the same.
    pub(crate) fn directory(&self) -> PathBuf {
        self.directory.clone().unwrap_or_else(run_directory::next)
    }

    /// The server's processes and ports, and those of the server that was started; `why` says what it means if that has
    /// ended.
    pub(crate) fn target(&self, child: Option<&Child>, why: &'static str) -> anyhow::Result<Target> {
        let target = self.named.find()?;
        Ok(match child {
            Some(child) => target.and(Target::of_pid(child.id()).context(why)?),
            None => target,
        })
    }

    /// Says what there is to say of the rung that works.
    pub(crate) fn say_notes(&self, footing: &Footing) {
        footing.notes.iter().for_each(|note| eprintln!("{}: {note}", self.who));
    }
}
