//! Questions to the agent.

use anyhow::bail;
use std::path::PathBuf;
use weir_agent::connection::Connection;
use weir_agent::protocol::{Answer, Ask};

/// Which agent is asked.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Where {
    /// The agent's directory [default: $WEIR_ARM_DIR, /run/weir/arm or /dev/shm/weir-arm]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl Where {
    /// The agent of a directory, or the usual one.
    pub(super) fn of(directory: Option<PathBuf>) -> Self {
        Self { directory }
    }

    pub(super) fn directory(&self) -> PathBuf {
        self.directory.clone().unwrap_or_else(weir_agent::directory::usual)
    }

    /// Asks one question on a connection of its own.
    pub(super) fn ask(&self, ask: &Ask) -> anyhow::Result<Answer> {
        self.connect()?.ask_for_answer(ask)
    }

    pub(super) fn connect(&self) -> anyhow::Result<Asking> {
        Ok(Asking(Connection::open(&self.directory())?))
    }
}

/// A connection whose refusals are errors.
pub(super) struct Asking(pub(super) Connection);

impl Asking {
    pub(super) fn ask_for_answer(&mut self, ask: &Ask) -> anyhow::Result<Answer> {
        match self.0.ask(ask)? {
            Answer::Error { message } => bail!("{message}"),
            answer => Ok(answer),
        }
    }
}
