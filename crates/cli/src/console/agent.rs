//! The agent of `weir console`, asked as the commands of `weir arm` ask it.

use crate::arm::page::{Agent, PageError};
use serde_json::Value;
use std::path::PathBuf;
use weir_agent::protocol::Filter;
use weir_console::{AgentQuestion, LiveAgent, LiveError};

/// An agent by its directory.
#[derive(Debug)]
pub(super) struct Told(Agent);

impl Told {
    /// That of a directory, or the usual one; it need not run yet.
    pub(super) fn new(directory: Option<PathBuf>) -> Self {
        Self(Agent::new(directory))
    }
}

impl LiveAgent for Told {
    fn directory(&self) -> String {
        self.0.directory().display().to_string()
    }

    fn ask(&self, question: &AgentQuestion<'_>) -> Result<Value, LiveError> {
        let told = match *question {
            AgentQuestion::Top { seconds, order } => self.0.top(seconds, order),
            AgentQuestion::Kept { application, transaction, failed, most } => {
                let [application, transaction] = [application, transaction].map(|name| name.map(str::to_owned));
                self.0.kept(Filter { application, transaction, failed, ..Filter::default() }, most)
            }
            AgentQuestion::Show { id } => self.0.trace(id),
        };
        told.map_err(|error| {
            let words = error.to_string();
            match error {
                PageError::NoId(_) => LiveError::Refused { status: 400, words },
                PageError::NotKnown(_) => LiveError::Refused { status: 404, words },
                PageError::Agent(_) => LiveError::Silent(words),
            }
        })
    }
}
