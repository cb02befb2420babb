//! A cluster as the map of the console shows it: what `weir cluster top --json` prints, which node is the hottest, what
//! is wrong, and how many published files the nodes have.

use super::control_socket::{self, Asked, AtomsNow, Followed, Told};
use super::gossiping;
use super::hottest::hottest;
use super::members::MembersFile;
use super::overview::{MemberNow, Overview, State, state_words};
use super::printed::json_of;
use super::top::heading;
use anyhow::Context;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_cluster::FRESH;
use weir_report::bytes;
use weir_terminal::units;

/// Files of which it is asked who has them, the most asked first.
const FILES: u32 = 200;

/// How a cluster stands, as the first of these directories' members that answers has heard it; which files nodes have is
/// told by the first that knows it.
///
/// # Errors
/// If no member answers there, or the list of members cannot be read.
pub(crate) fn map(folders: &[PathBuf]) -> anyhow::Result<Value> {
    let mut told: Option<Value> = None;
    let mut silent: Vec<anyhow::Error> = Vec::new();
    for folder in folders {
        match (map_of(folder), &mut told) {
            (Err(error), _) => silent.push(error),
            (Ok(first), None) => told = Some(first),
            (Ok(other), Some(told)) if other["atoms"]["of"].is_u64() && told["atoms"]["of"].is_null() => {
                told["atoms"] = other["atoms"].clone();
            }
            (Ok(_), Some(_)) => {}
        }
    }
    let Some(mut told) = told else {
        return Err(silent.into_iter().next().context("no directory of a member is named; name one by --cluster")?);
    };
    if let Some(warnings) = told["warnings"].as_array_mut() {
        warnings.extend(silent.iter().map(|error| format!("{error:#}").into()));
    }
    Ok(told)
}

/// The same by one member.
fn map_of(folder: &Path) -> anyhow::Result<Value> {
    let members = MembersFile::read(folder)?;
    let overview = gossiping::ask(folder)?;
    let fresh = members.pace.stretched(FRESH);
    let mut told = json_of("top", &overview)?;
    told["hottest"] = serde_json::to_value(hottest(&overview.members, fresh))?;
    told["heading"] = heading(&overview).into();
    told["warnings"] = warnings(&overview, fresh).into();
    told["atoms"] = atoms(folder, &overview)?;
    Ok(told)
}

/// What is not as usual, a line for each member.
fn warnings(overview: &Overview, fresh: Duration) -> Vec<String> {
    let line = |member: &MemberNow| {
        let name = &member.name;
        match member.state {
            State::Silent => Some(format!("{name} is {}: what is shown of it is from before.", state_words(member))),
            State::Unheard => Some(format!("{name} has not been heard since {} started.", overview.told_by)),
            State::Draining => Some(format!("{name} is being drained: it gets no new connections.")),
            State::Asleep => Some(format!("{name} is of the reserve, and no rule has woken it.")),
            State::Alive => {
                let age_s = member.age_s.filter(|age_s| member.number > 0 && *age_s > fresh.as_secs_f64())?;
                Some(format!("The reading of {name} is {age_s:.0} s old."))
            }
        }
    };
    overview.members.iter().filter_map(line).collect()
}

/// How many published files nodes have, as far as this member knows it.
fn atoms(folder: &Path, overview: &Overview) -> anyhow::Result<Value> {
    let without = |words: &str| json!({ "by_node": {}, "of": null, "words": words });
    let followed = match control_socket::ask(folder, &Asked::Status)? {
        Told::Status { published: Some(followed), .. } => followed,
        Told::Status { published: None, .. } => {
            return Ok(without("Nothing is published in this cluster: each node serves files of its own."));
        }
        _ => return Ok(without("A director does not know which files nodes have: the console at a node shows it.")),
    };
    Ok(match control_socket::ask(folder, &Asked::Atoms { most: FILES })? {
        Told::Atoms(atoms) => placed(&atoms),
        Told::Refused(_) => everywhere(&followed, overview),
        _ => return super::printed::other_answer(),
    })
}

/// Where each node keeps a part.
fn placed(atoms: &AtomsNow) -> Value {
    let mut by_node: BTreeMap<&str, u64> = BTreeMap::new();
    for node in atoms.files.iter().flat_map(|file| &file.has) {
        *by_node.entry(node).or_default() += 1;
    }
    let files = units::counted(atoms.files.len() as u64, "published file");
    let own = units::counted(atoms.contents, "content");
    let (own_bytes, short) = (bytes(atoms.content_bytes), atoms.short_of_copies);
    let mut words =
        format!("Of the {files} that are asked for most. {} has {own} of {own_bytes} in all.", atoms.told_by);
    if short > 0 {
        words.push_str(&format!(" {} of all sites have too few copies.", units::counted(short, "content")));
    }
    json!({ "by_node": by_node, "of": atoms.files.len(), "words": words })
}

/// Where each node keeps all: the files of the versions that it serves, if this node serves them as well.
fn everywhere(followed: &Followed, overview: &Overview) -> Value {
    let files_of = |(site, version): (&String, &u64)| {
        let same = followed.sites.iter().find(|own| own.site == *site && own.version == *version);
        same.map_or(0, |own| own.files)
    };
    let nodes = overview.members.iter().filter(|member| member.number > 0 && !member.sites.is_empty());
    let by_node: BTreeMap<&str, u64> =
        nodes.map(|member| (member.name.as_str(), member.sites.iter().map(files_of).sum())).collect();
    let all: u64 = followed.sites.iter().map(|site| site.files).sum();
    json!({ "by_node": by_node, "of": all, "words": "Each node keeps all published files of the versions that it serves." })
}

#[cfg(test)]
mod tests {
    use super::super::control_socket::{AtomNow, FollowedSite};
    use super::super::overview::GossipNow;
    use super::*;

    fn member(number: u16, state: State, sites: &[(&str, u64)]) -> MemberNow {
        MemberNow {
            number,
            name: format!("n{number}"),
            role: "node".to_owned(),
            state,
            age_s: Some(9.0),
            silence_s: Some(12.0),
            version: None,
            up_since_unix_s: None,
            reading: None,
            sites: sites.iter().map(|(site, version)| ((*site).to_owned(), *version)).collect(),
            weight: None,
            packets_per_s: None,
        }
    }

    fn overview(members: Vec<MemberNow>) -> Overview {
        let gossip = GossipNow { sent_bytes: 0, received_bytes: 0, forged: 0, replayed: 0, refused: 0 };
        Overview { told_by: "n1".to_owned(), members, paths: Vec::new(), gossip }
    }

    #[test]
    fn what_is_not_as_usual_is_told_for_each_member() {
        let states = [State::Alive, State::Draining, State::Silent, State::Unheard, State::Asleep];
        let members = (1..).zip(states).map(|(number, state)| member(number, state, &[])).collect();
        let told = warnings(&overview(members), Duration::from_secs(5));
        assert_eq!(told.len(), 5);
        assert_eq!(told[0], "The reading of n1 is 9 s old.");
        assert!(told[2].starts_with("n3 is silent for 12 s") && told[3].contains("since n1 started"), "{told:?}");
    }

    #[test]
    fn files_are_counted_where_nodes_have_them() {
        let file = |has: &[&str]| AtomNow {
            path: "/a".to_owned(),
            bytes: 1,
            requests_per_s: 1.0,
            placed: Vec::new(),
            has: has.iter().map(|name| (*name).to_owned()).collect(),
        };
        let atoms = AtomsNow {
            told_by: "n1".to_owned(),
            keeps_bytes: Some(1),
            placed_bytes: 1,
            contents: 2,
            content_bytes: 9,
            short_of_copies: 1,
            files: vec![file(&["n1", "n2"]), file(&["n2"])],
        };
        let told = placed(&atoms);
        assert_eq!((&told["by_node"]["n1"], &told["by_node"]["n2"], &told["of"]), (&1.into(), &2.into(), &2.into()));
        assert!(told["words"].as_str().is_some_and(|words| words.contains("too few copies")), "{told}");
        let site = FollowedSite { site: "www".to_owned(), version: 3, files: 7, bytes: 1, fault: None };
        let followed = Followed { directory: String::new(), stale_s: None, sites: vec![site] };
        let members = vec![member(1, State::Alive, &[("www", 3)]), member(2, State::Alive, &[("www", 2)])];
        let told = everywhere(&followed, &overview(members));
        assert_eq!((&told["by_node"]["n1"], &told["by_node"]["n2"], &told["of"]), (&7.into(), &0.into(), &7.into()));
    }
}
