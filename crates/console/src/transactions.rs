//! The calls of the rooms of business transactions. How the agent is asked stays with the implementation of
//! [`LiveAgent`].

use crate::parameters::{ParameterError, Parameters};
use crate::places::Places;
use crate::refusal::Refusal;
use crate::server::LiveError;
use serde_json::{Value, json};
use std::fmt::Debug;
use std::sync::Arc;
use weir_endpoint::Answer;

/// Rooms that a console has besides, if it was given an agent.
pub(crate) const ROOMS: [&str; 2] = ["transactions", "transaction"];
/// Their calls.
pub(crate) const CALLS: [&str; 3] = ["transactions", "kept", "transaction"];
/// Over so many seconds rates may be.
const SECONDS: std::ops::RangeInclusive<u32> = 5..=60;
const USUAL_SECONDS: u32 = 10;
/// Kept transactions that are told at a time, and usually.
const MOST_KEPT: u32 = 200;
const USUAL_KEPT: u32 = 50;

/// An agent on this host, which takes in what applications report by ARM.
pub trait LiveAgent: Debug + Send + Sync {
    /// Its directory.
    fn directory(&self) -> String;
    /// Asks; the answer is JSON.
    ///
    /// # Errors
    /// [`LiveError`].
    fn ask(&self, question: &AgentQuestion<'_>) -> Result<Value, LiveError>;
}

/// The order of the rows of [`AgentQuestion::Top`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopOrder {
    /// All their time together.
    Time,
    /// Transactions a second.
    Rate,
    /// The 99th percentile.
    P99,
    /// The share of failures.
    Failed,
}

/// What an agent is asked.
#[derive(Debug, Clone, Copy)]
pub enum AgentQuestion<'a> {
    /// What runs at which rate.
    Top {
        /// Over the last so many seconds, 5 to 60.
        seconds: u32,
        /// What comes first.
        order: TopOrder,
    },
    /// The latest transactions that are kept whole.
    Kept {
        /// Only of this application.
        application: Option<&'a str>,
        /// Only of this name.
        transaction: Option<&'a str>,
        /// Only those that failed.
        failed: bool,
        /// Transactions at most, 1 to 200.
        most: u32,
    },
    /// A transaction with its relatives.
    Show {
        /// A transaction, a trace or a traceparent.
        id: &'a str,
    },
}

/// The calls of the rooms of transactions.
#[derive(Debug)]
pub(crate) struct TransactionCalls {
    agent: Arc<dyn LiveAgent>,
    places: Places,
}

impl TransactionCalls {
    pub(crate) fn new(agent: Arc<dyn LiveAgent>) -> Self {
        Self { agent, places: Places::default() }
    }

    /// For `has`.
    pub(crate) fn told(&self) -> Value {
        json!({ "directory": self.agent.directory() })
    }

    /// A call; all of them only read.
    pub(crate) fn read(&self, call: &str, given: &Parameters) -> Result<Answer, Refusal> {
        let question = question(call, given)?;
        let _place = self.places.take()?;
        Ok(Answer::whole(200, "application/json", self.agent.ask(&question)?.to_string()))
    }
}

fn question<'a>(call: &str, given: &'a Parameters) -> Result<AgentQuestion<'a>, Refusal> {
    let wrong = |name: &str, words| Refusal::from(ParameterError::new(name, words));
    match call {
        "transactions" => {
            given.only(&["seconds", "sort"])?;
            let seconds = given.number("seconds")?.unwrap_or(USUAL_SECONDS);
            if !SECONDS.contains(&seconds) {
                return Err(wrong("seconds", "is out of its range"));
            }
            let order = match given.text("sort") {
                None | Some("time") => TopOrder::Time,
                Some("rate") => TopOrder::Rate,
                Some("p99") => TopOrder::P99,
                Some("failed") => TopOrder::Failed,
                Some(_) => return Err(wrong("sort", "is time, rate, p99 or failed")),
            };
            Ok(AgentQuestion::Top { seconds, order })
        }
        "kept" => {
            given.only(&["application", "transaction", "only", "most"])?;
            let most = given.number("most")?.unwrap_or(USUAL_KEPT);
            if !(1..=MOST_KEPT).contains(&most) {
                return Err(wrong("most", "is out of its range"));
            }
            let failed = match given.text("only") {
                None => false,
                Some("failed") => true,
                Some(_) => return Err(wrong("only", "is failed, or left out")),
            };
            let (application, transaction) = (given.text("application"), given.text("transaction"));
            Ok(AgentQuestion::Kept { application, transaction, failed, most })
        }
        "transaction" => {
            given.only(&["id"])?;
            Ok(AgentQuestion::Show { id: given.required("id")? })
        }
        _ => Err(Refusal::NoCall),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asked(call: &str, query: &str) -> Result<String, String> {
        let given = Parameters::of(query).map_err(|error| error.to_string())?;
        question(call, &given).map(|question| format!("{question:?}")).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn questions_are_bounded_and_others_are_refused() {
        assert_eq!(asked("transactions", "").as_deref(), Ok("Top { seconds: 10, order: Time }"));
        assert_eq!(asked("transactions", "seconds=60&sort=p99").as_deref(), Ok("Top { seconds: 60, order: P99 }"));
        let kept = asked("kept", "application=shop&transaction=pay&only=failed&most=200");
        assert!(kept.is_ok_and(|kept| kept.contains("\"pay\"") && kept.contains("failed: true, most: 200")));
        let wrong = [
            ("transactions", "seconds=4"),
            ("transactions", "seconds=61"),
            ("transactions", "sort=name"),
            ("kept", "most=201"),
            ("kept", "only=slow"),
            ("transaction", ""),
            ("transaction", "id=1&x=2"),
            ("switch", ""),
        ];
        for (call, query) in wrong {
            assert!(asked(call, query).is_err(), "{call}?{query}");
        }
    }

    proptest! {
        #[test]
        fn any_query_is_a_question_or_refused(query in ".{0,80}") {
            for call in CALLS {
                let _ = asked(call, &query);
            }
        }
    }
}
