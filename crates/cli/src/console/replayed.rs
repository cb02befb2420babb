//! Policies of `weir console`, replayed by `weir replay` in a process of its own on what a server has recorded.

use crate::mcp::run_bounded;
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_console::{LiveError, LiveReplay, Replayed};
use weir_mcp::{Done, Step};
use weir_report::clean;

/// How long a replay may take, seconds.
const LIMIT_S: f64 = 60.0;
/// Lines of decisions that a page gets.
const LINES_MAX: usize = 2000;
/// The name of the policy in what is said of it.
const POLICY: &str = "policy";

/// A recording of `weir serve --decisions FILE`.
#[derive(Debug)]
pub(super) struct Recording {
    given: PathBuf,
    path: PathBuf,
    ends: Arc<AtomicBool>,
}

impl Recording {
    /// # Errors
    /// It is not there.
    pub(super) fn new(given: &Path) -> anyhow::Result<Self> {
        let path = given.canonicalize().with_context(|| format!("--decisions {}", given.display()))?;
        Ok(Self { given: given.to_owned(), path, ends: Arc::default() })
    }

    /// Ends what is under way once it is set.
    pub(super) fn ends(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.ends)
    }

    fn replayed(&self, policy: &str) -> anyhow::Result<Done> {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join(POLICY), policy)?;
        let words = vec!["replay".to_owned(), POLICY.to_owned(), self.path.display().to_string()];
        // One line more, which tells that there are more.
        let step = Step { words, expected_s: 1.0, limit_s: LIMIT_S, lines_max: Some(LINES_MAX + 1) };
        Ok(run_bounded(&step, folder.path(), &self.ends, &mut |_| {})?)
    }
}

impl LiveReplay for Recording {
    fn recording(&self) -> String {
        self.given.display().to_string()
    }

    fn replay(&self, policy: &str) -> Result<Replayed, LiveError> {
        let done = self.replayed(policy).map_err(|error| LiveError::Silent(format!("{error:#}")))?;
        if self.ends.load(Ordering::Relaxed) {
            return Err(LiveError::Silent("the console has ended".to_owned()));
        }
        if done.is_late {
            let words = format!("the replay took longer than {LIMIT_S} s; weir replay has no bound");
            return Err(LiveError::Refused { status: 422, words });
        }
        let lines = |text: &str| text.lines().map(clean).collect::<Vec<String>>();
        let mut told = lines(&String::from_utf8_lossy(&done.output));
        let is_cut = told.len() > LINES_MAX;
        told.truncate(LINES_MAX);
        Ok(Replayed { lines: told, notes: lines(&done.said), is_cut })
    }
}
