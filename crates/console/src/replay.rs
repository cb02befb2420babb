//! The call of the room Replay: what another policy would have done on what a server has recorded.

use crate::places::Places;
use crate::refusal::Refusal;
use crate::server::LiveError;
use serde_json::{Value, json};
use std::fmt::Debug;
use std::sync::Arc;
use weir_endpoint::Answer;

/// The room that a console has besides, if it was given a recording.
pub(crate) const ROOMS: [&str; 1] = ["replay"];

/// Replays policies on a recording.
pub trait LiveReplay: Debug + Send + Sync {
    /// The recording, as the user wrote it.
    fn recording(&self) -> String;
    /// What a policy would have done on it, and its mistakes if it has any: lines for a person.
    ///
    /// # Errors
    /// [`LiveError`].
    fn replay(&self, policy: &str) -> Result<Replayed, LiveError>;
}

/// What a policy would have done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replayed {
    /// The decisions, then what became of each rule.
    pub lines: Vec<String>,
    /// Mistakes of the policy, warnings, and what could not be read.
    pub notes: Vec<String>,
    /// Whether there are more lines than are told.
    pub is_cut: bool,
}

/// The call.
#[derive(Debug)]
pub(crate) struct ReplayCalls {
    replay: Arc<dyn LiveReplay>,
    places: Places,
}

impl ReplayCalls {
    pub(crate) fn new(replay: Arc<dyn LiveReplay>) -> Self {
        Self { replay, places: Places::default() }
    }

    /// For `has`.
    pub(crate) fn told(&self) -> Value {
        json!({ "recording": self.replay.recording() })
    }

    /// Replays a policy. The caller has made sure that the page asks, by POST.
    pub(crate) fn replayed(&self, policy: &[u8]) -> Result<Answer, Refusal> {
        let policy = std::str::from_utf8(policy).map_err(|_| Refusal::Body)?;
        let _place = self.places.take()?;
        let Replayed { lines, notes, is_cut } = self.replay.replay(policy)?;
        let told = json!({ "lines": lines, "notes": notes, "is_cut": is_cut });
        Ok(Answer::whole(200, "application/json", told.to_string()))
    }
}
