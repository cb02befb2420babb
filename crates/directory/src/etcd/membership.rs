//! The members of an etcd that the cluster runs itself: who they are, how each stands, and how one more joins.
//!
//! A new member is a learner first, which does not count for the majority until it has all entries (etcd's
//! documentation, "Learner"): one that never comes up takes nothing from the others.

use super::gateway::{Gateway, Kind};
use super::message::{self, Refusal};
use super::settings::EtcdSettings;
use crate::error::DirectoryError;
use serde_json::{Value, json};
use std::thread;
use std::time::{Duration, Instant};

/// How long a member may take to say how it stands.
const STATE_PATIENCE: Duration = Duration::from_secs(2);
/// etcd changes no members before each of them was there for 5 s (`HealthInterval` of its server): one that has just come
/// back is waited for.
const HEALTHY_WITHIN: Duration = Duration::from_secs(8);
const PAUSE: Duration = Duration::from_millis(250);

/// A member of etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdMember {
    /// Its number, which etcd gives.
    pub id: u64,
    /// Its name; empty until it has started once.
    pub name: String,
    /// Where the other members reach it.
    pub peer_urls: Vec<String>,
    /// Where clients reach it; none until it has started once.
    pub client_urls: Vec<String>,
    /// Whether it has no vote yet.
    pub is_learner: bool,
}

/// How a member of etcd stands, as itself says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdMemberState {
    /// The member, as the others know it.
    pub member: EtcdMember,
    /// What it answers, or why it gives no answer.
    pub state: Result<EtcdHealth, EtcdSilence>,
}

/// Why a member of etcd says nothing of itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EtcdSilence {
    /// It was entered, and no process of it has told the others where clients reach it.
    #[error("it has not started yet; start it on its machine by weir cluster etcd, or take it out of etcd")]
    NotStarted,
    /// No answer came.
    #[error("it does not answer: {why}; see whether it runs, and whether its address can be reached")]
    Away {
        /// What failed last.
        why: String,
    },
    /// It answers, and not what was asked for.
    #[error("it refuses: {why}; see that it knows our certificate and is of a known version")]
    Refused {
        /// What it said.
        why: String,
    },
    /// This side cannot ask: a file of its keys or a setting is wrong.
    #[error("it cannot be asked: {why}")]
    Unasked {
        /// What is wrong, and what to do.
        why: String,
    },
    /// The thread that asked has failed.
    #[error("the question failed; report this")]
    Failed,
}

impl From<DirectoryError> for EtcdSilence {
    fn from(error: DirectoryError) -> Self {
        match error {
            DirectoryError::Away { why, .. } | DirectoryError::Unsure { why, .. } => Self::Away { why },
            DirectoryError::Denied { why, .. } | DirectoryError::Full { why, .. } => Self::Refused { why },
            error => Self::Unasked { why: error.to_string() },
        }
    }
}

/// What a member of etcd says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdHealth {
    /// Whether it is the leader.
    pub is_leader: bool,
    /// Whether it hears a leader; without one it agrees on nothing.
    pub has_leader: bool,
    /// etcd's version.
    pub version: String,
    /// Bytes of its database.
    pub database_bytes: u64,
    /// The number of the last entry that it has.
    pub index: u64,
    /// What it says is wrong, such as `NOSPACE`.
    pub alarms: Vec<String>,
}

/// Asks an etcd about its members, and changes them.
#[derive(Debug)]
pub struct EtcdMembership {
    gateway: Gateway,
    settings: EtcdSettings,
}

impl EtcdMembership {
    /// For these endpoints, which need not answer yet.
    ///
    /// # Errors
    ///
    /// The settings cannot be used.
    pub fn open(settings: &EtcdSettings) -> Result<Self, DirectoryError> {
        Ok(Self { gateway: Gateway::new(settings)?, settings: settings.clone() })
    }

    /// All members.
    ///
    /// # Errors
    ///
    /// No member answers.
    pub fn members(&self) -> Result<Vec<EtcdMember>, DirectoryError> {
        Ok(members_of(&self.ask("/v3/cluster/member/list", &json!({}), Kind::Reads)?))
    }

    /// How each member stands; all are asked at once, and one that is away is said to be.
    ///
    /// # Errors
    ///
    /// No member answers who they are.
    pub fn states(&self) -> Result<Vec<EtcdMemberState>, DirectoryError> {
        let members = self.members()?;
        Ok(thread::scope(|scope| {
            let asked: Vec<_> = members
                .into_iter()
                .map(|member| {
                    let url = member.client_urls.first().cloned();
                    (member, scope.spawn(move || self.state(url)))
                })
                .collect();
            let state = |(member, asked): (EtcdMember, thread::ScopedJoinHandle<'_, _>)| {
                let state = asked.join().unwrap_or(Err(EtcdSilence::Failed));
                EtcdMemberState { member, state }
            };
            asked.into_iter().map(state).collect()
        }))
    }

    /// Enters a new member, a learner, whom the others reach at this URL; one that is entered already is left alone.
    /// Returns all members, the new one among them.
    ///
    /// # Errors
    ///
    /// No majority of the members answers, or etcd refuses: it takes one learner at a time.
    pub fn add_learner(&self, peer_url: &str) -> Result<Vec<EtcdMember>, DirectoryError> {
        let known = self.members()?;
        if known.iter().any(|member| member.peer_urls.iter().any(|url| url == peer_url)) {
            return Ok(known);
        }
        let body = json!({ "peerURLs": [peer_url], "isLearner": true });
        match self.ask("/v3/cluster/member/add", &body, Kind::Changes) {
            Ok(answer) => Ok(members_of(&answer)),
            // The answer to a first try was lost.
            Err(DirectoryError::Denied { why, .. }) if why.contains("already exists") => self.members(),
            Err(error) => Err(error),
        }
    }

    /// Gives a learner its vote; false where it has not all entries yet.
    ///
    /// # Errors
    ///
    /// No majority of the members answers, or etcd refuses otherwise.
    pub fn promote(&self, id: u64) -> Result<bool, DirectoryError> {
        match self.ask("/v3/cluster/member/promote", &json!({ "ID": id.to_string() }), Kind::Changes) {
            Ok(_) => Ok(true),
            Err(DirectoryError::Denied { why, .. }) if why.contains("in sync") => Ok(false),
            // The answer to a first try was lost.
            Err(DirectoryError::Denied { why, .. }) if why.contains("can only promote a learner") => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Removes a member; one that is not there is no error.
    ///
    /// # Errors
    ///
    /// No majority of the members answers, or too few would be left.
    pub fn remove(&self, id: u64) -> Result<(), DirectoryError> {
        let begun = Instant::now();
        loop {
            match self.remove_once(id) {
                Err(DirectoryError::Unsure { why, .. })
                    if why.contains("unhealthy cluster") && begun.elapsed() < HEALTHY_WITHIN =>
                {
                    thread::sleep(PAUSE);
                }
                answer => return answer,
            }
        }
    }

    fn remove_once(&self, id: u64) -> Result<(), DirectoryError> {
        match self.gateway.ask("/v3/cluster/member/remove", &json!({ "ID": id.to_string() }), Kind::Changes)? {
            Ok(_) | Err(Refusal::NotFound(_)) => Ok(()),
            Err(refusal) => Err(self.gateway.refused(refusal)),
        }
    }

    fn ask(&self, path: &str, body: &Value, kind: Kind) -> Result<Value, DirectoryError> {
        self.gateway.ask(path, body, kind)?.map_err(|refusal| self.gateway.refused(refusal))
    }

    fn state(&self, url: Option<String>) -> Result<EtcdHealth, EtcdSilence> {
        let url = url.ok_or(EtcdSilence::NotStarted)?;
        let settings = EtcdSettings { endpoints: vec![url], patience: STATE_PATIENCE, ..self.settings.clone() };
        let answer = Self::open(&settings)?.ask("/v3/maintenance/status", &json!({}), Kind::Reads)?;
        let (leader, own) =
            (message::number(&answer, "leader"), answer.get("header").map_or(0, |it| message::number(it, "member_id")));
        Ok(EtcdHealth {
            is_leader: leader != 0 && leader == own,
            has_leader: leader != 0,
            version: answer.get("version").and_then(Value::as_str).unwrap_or_default().to_owned(),
            database_bytes: message::number(&answer, "dbSize"),
            index: message::number(&answer, "raftIndex"),
            alarms: texts(&answer, "errors"),
        })
    }
}

fn members_of(answer: &Value) -> Vec<EtcdMember> {
    let member = |value: &Value| EtcdMember {
        id: message::number(value, "ID"),
        name: value.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
        peer_urls: texts(value, "peerURLs"),
        client_urls: texts(value, "clientURLs"),
        is_learner: value.get("isLearner").and_then(Value::as_bool).unwrap_or(false),
    };
    message::list(answer, "members").map(member).collect()
}

fn texts(value: &Value, name: &str) -> Vec<String> {
    message::list(value, name).filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_member_is_silent_follows_from_what_failed() {
        let (engine, why) = ("etcd".to_owned(), "x".to_owned());
        let away = DirectoryError::Away { engine: engine.clone(), why: why.clone() };
        assert_eq!(EtcdSilence::from(away), EtcdSilence::Away { why: why.clone() });
        let denied = DirectoryError::Denied { engine, why: why.clone() };
        assert_eq!(EtcdSilence::from(denied), EtcdSilence::Refused { why: why.clone() });
        let file = DirectoryError::File { path: "etcd.crt".into(), why };
        assert_eq!(EtcdSilence::from(file), EtcdSilence::Unasked { why: "etcd.crt: x".to_owned() });
    }

    #[test]
    fn a_member_that_is_not_there_is_away_and_one_without_an_address_has_not_started() {
        // A port that was free a moment ago refuses connections.
        let url = format!("http://127.0.0.1:{}", weir_testkit::free_port());
        let membership = EtcdMembership::open(&EtcdSettings::new(vec![url.clone()], "weir/")).expect("is right");
        assert!(matches!(membership.state(Some(url)), Err(EtcdSilence::Away { .. })));
        assert_eq!(membership.state(None), Err(EtcdSilence::NotStarted));
    }
}
