//! How a cluster's directory stands, as `weir cluster status` shows it: each member of etcd is asked itself.

use super::directory_place::DirectoryPlace;
use super::members::MembersFile;
use serde::Serialize;
use std::path::Path;
use std::time::Duration;
use weir_directory::{EtcdHealth, EtcdMemberState, EtcdMembership};
use weir_report::{bytes, clean};

/// How long a question may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// A directory and its members.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct DirectoryNow {
    /// Which engine, with its place.
    engine: String,
    /// Whether it answers and can agree on changes.
    is_reachable: bool,
    leader: Option<String>,
    revision: u64,
    /// None where it has none, or where no member answers.
    members: Vec<MemberNow>,
}

/// A member of etcd.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct MemberNow {
    name: String,
    url: Option<String>,
    is_learner: bool,
    is_leader: bool,
    version: Option<String>,
    database_bytes: Option<u64>,
    /// The number of the last entry that it has.
    index: Option<u64>,
    /// Why it does not agree on changes now.
    fault: Option<String>,
}

/// How the directory of a cluster's folder stands; None where it has none.
pub(super) fn directory_now(folder: &Path) -> anyhow::Result<Option<DirectoryNow>> {
    MembersFile::read(folder)?.directory.map(|place| asked(folder, &place)).transpose()
}

fn asked(folder: &Path, place: &DirectoryPlace) -> anyhow::Result<DirectoryNow> {
    let status = place.open_within(folder, PATIENCE)?.status();
    let members = match place.etcd_settings(folder, PATIENCE) {
        None => Vec::new(),
        // That none answers is said by `is_reachable`.
        Some(settings) => EtcdMembership::open(&settings)?.states().unwrap_or_default(),
    };
    Ok(DirectoryNow {
        engine: place.words(folder),
        is_reachable: status.is_reachable,
        leader: status.leader,
        revision: status.revision,
        members: members.into_iter().map(MemberNow::of).collect(),
    })
}

impl MemberNow {
    fn of(EtcdMemberState { member, state }: EtcdMemberState) -> Self {
        let url = member.client_urls.into_iter().next();
        let now = Self {
            name: member.name,
            url,
            is_learner: member.is_learner,
            is_leader: false,
            version: None,
            database_bytes: None,
            index: None,
            fault: None,
        };
        match state {
            Err(why) => Self { fault: Some(why.to_string()), ..now },
            Ok(EtcdHealth { is_leader, has_leader, version, database_bytes, index, alarms }) => Self {
                is_leader,
                version: Some(version),
                database_bytes: Some(database_bytes),
                index: Some(index),
                fault: match (has_leader, alarms.as_slice()) {
                    (false, _) => Some("it hears no leader".to_owned()),
                    (true, []) => None,
                    (true, alarms) => Some(alarms.join(", ")),
                },
                ..now
            },
        }
    }

    fn line(&self) -> String {
        let name = if self.name.is_empty() { "(not started)" } else { &self.name };
        let place = self.url.as_deref().unwrap_or("no address yet");
        let role = match (self.is_leader, self.is_learner) {
            (true, _) => ", leads",
            (_, true) => ", has no vote yet",
            _ => "",
        };
        let state = match (&self.fault, &self.version, self.database_bytes) {
            (Some(fault), ..) => format!("fault: {fault}"),
            (None, Some(version), Some(size)) => format!("answers, etcd {version}, {}", bytes(size)),
            _ => "answers".to_owned(),
        };
        clean(&format!("  {name} at {place}{role}: {state}"))
    }
}

impl DirectoryNow {
    /// For people.
    pub(super) fn lines(&self) -> Vec<String> {
        let state = match (self.is_reachable, self.members.len()) {
            (false, _) => "does not agree on changes now: sites and policies stay as they are",
            (true, 0) => "answers: a file, for nodes of this machine only",
            (true, _) => "answers",
        };
        let mut lines = vec![format!("directory {} {state}", clean(&self.engine))];
        lines.extend(self.members.iter().map(MemberNow::line));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_directory::{EtcdMember, EtcdSilence};

    fn member(name: &str, is_learner: bool, state: Result<EtcdHealth, EtcdSilence>) -> MemberNow {
        let client_urls = vec!["https://10.0.0.1:2379".to_owned()];
        let member = EtcdMember { id: 1, name: name.to_owned(), peer_urls: Vec::new(), client_urls, is_learner };
        MemberNow::of(EtcdMemberState { member, state })
    }

    #[test]
    fn each_member_is_told_with_what_is_wrong() {
        let health = EtcdHealth {
            is_leader: true,
            has_leader: true,
            version: "3.4.23".to_owned(),
            database_bytes: 20_480,
            index: 7,
            alarms: Vec::new(),
        };
        let full = EtcdHealth { is_leader: false, alarms: vec!["NOSPACE".to_owned()], ..health.clone() };
        let alone = EtcdHealth { is_leader: false, has_leader: false, ..health.clone() };
        let members = vec![
            member("n1", false, Ok(health)),
            member("n2", false, Ok(full)),
            member("n3", true, Ok(alone)),
            member("n4", false, Err(EtcdSilence::Away { why: "refused\u{1b}[2J".to_owned() })),
        ];
        let engine = "etcd at https://10.0.0.1:2379".to_owned();
        let now = DirectoryNow { engine, is_reachable: true, leader: None, revision: 1, members };
        let lines = now.lines();
        assert!(lines[1].contains("n1 at https://10.0.0.1:2379, leads: answers, etcd 3.4.23, "), "{}", lines[1]);
        assert!(lines[2].ends_with("fault: NOSPACE"), "{}", lines[2]);
        assert!(lines[3].contains("has no vote yet: fault: it hears no leader"), "{}", lines[3]);
        assert!(
            lines[4].contains("fault: it does not answer: refused") && !lines[4].contains('\u{1b}'),
            "{}",
            lines[4]
        );
    }
}
