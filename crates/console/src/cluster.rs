//! The calls of the room of a cluster. How its member is asked stays with the implementation of [`LiveCluster`].

use crate::parameters::{ParameterError, Parameters};
use crate::places::Places;
use crate::refusal::Refusal;
use crate::server::LiveError;
use serde_json::{Value, json};
use std::fmt::Debug;
use std::sync::Arc;
use weir_endpoint::Answer;

/// The room that a console has besides, if it was given a member of a cluster.
pub(crate) const ROOMS: [&str; 1] = ["cluster"];
/// Its calls.
pub(crate) const CALLS: [&str; 2] = ["cluster", "events"];
/// Events that are told at a time, and usually.
const MOST_EVENTS: u32 = 500;
const USUAL_EVENTS: u32 = 100;

/// A member of a cluster on this machine.
pub trait LiveCluster: Debug + Send + Sync {
    /// The member's directory, as the user wrote it.
    fn directory(&self) -> &str;
    /// Asks; the answer is JSON.
    ///
    /// # Errors
    /// [`LiveError`].
    fn ask(&self, question: &ClusterQuestion<'_>) -> Result<Value, LiveError>;
}

/// What a member of a cluster is asked.
#[derive(Debug, Clone, Copy)]
pub enum ClusterQuestion<'a> {
    /// How all members stand, what they are asked for, and which node is hottest.
    Map,
    /// What the member did and saw lately.
    Events {
        /// Only of this node; none for all.
        node: Option<&'a str>,
        /// Events at most, 1 to 500.
        most: usize,
    },
}

/// The calls of a cluster's room.
#[derive(Debug)]
pub(crate) struct ClusterCalls {
    cluster: Arc<dyn LiveCluster>,
    places: Places,
}

impl ClusterCalls {
    pub(crate) fn new(cluster: Arc<dyn LiveCluster>) -> Self {
        Self { cluster, places: Places::default() }
    }

    /// For `has`.
    pub(crate) fn told(&self) -> Value {
        json!({ "directory": self.cluster.directory() })
    }

    /// A call; all of them only read.
    pub(crate) fn read(&self, call: &str, given: &Parameters) -> Result<Answer, Refusal> {
        let question = question(call, given)?;
        let _place = self.places.take()?;
        Ok(Answer::whole(200, "application/json", self.cluster.ask(&question)?.to_string()))
    }
}

fn question<'a>(call: &str, given: &'a Parameters) -> Result<ClusterQuestion<'a>, Refusal> {
    match call {
        "cluster" => {
            given.only(&[])?;
            Ok(ClusterQuestion::Map)
        }
        "events" => {
            given.only(&["node", "most"])?;
            let most = given.number("most")?.unwrap_or(USUAL_EVENTS);
            if !(1..=MOST_EVENTS).contains(&most) {
                return Err(ParameterError::new("most", "is out of its range").into());
            }
            Ok(ClusterQuestion::Events { node: given.text("node"), most: most as usize })
        }
        _ => Err(Refusal::NoCall),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asked(call: &str, query: &str) -> Result<(Option<String>, usize), String> {
        let given = Parameters::of(query).map_err(|error| error.to_string())?;
        match question(call, &given).map_err(|refusal| refusal.to_string())? {
            ClusterQuestion::Map => Ok((None, 0)),
            ClusterQuestion::Events { node, most } => Ok((node.map(str::to_owned), most)),
        }
    }

    #[test]
    fn questions_are_bounded_and_others_are_refused() {
        assert_eq!(asked("cluster", ""), Ok((None, 0)));
        assert_eq!(asked("events", ""), Ok((None, 100)));
        assert_eq!(asked("events", "node=n2&most=500"), Ok((Some("n2".to_owned()), 500)));
        for (call, query) in [("cluster", "node=n1"), ("events", "most=0"), ("events", "most=501"), ("status", "")] {
            assert!(asked(call, query).is_err(), "{call}?{query}");
        }
    }

    proptest! {
        #[test]
        fn any_query_is_a_bounded_question_or_refused(query in ".{0,80}") {
            if let Ok((_, most)) = asked("events", &query) {
                prop_assert!((1..=500).contains(&most));
            }
        }
    }
}
