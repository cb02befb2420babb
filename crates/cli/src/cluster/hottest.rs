//! Which node of a cluster is the hottest, and why: the first ground on which one stands out.

use super::overview::{MemberNow, ReadingNow, rate};
use serde::Serialize;
use std::time::Duration;
use weir_report::{bytes, nanoseconds};
use weir_terminal::units;

/// A node stands out that has so many times as much as the next one.
const OUTSTANDING: f64 = 1.25;
/// Part of its requests that fail on a node which is hot by that.
const ERROR_SHARE: f64 = 0.05;

/// Which node is the hottest, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Heat {
    /// None where the nodes are alike, or idle.
    pub(super) node: Option<String>,
    pub(super) words: String,
}

/// By what a node may be hot.
struct Ground {
    of: fn(&ReadingNow) -> Option<f64>,
    /// So much of it says nothing yet.
    floor: f64,
    words: fn(&ReadingNow) -> String,
}

/// What users feel comes first, then what a node lacks, then what it does.
const GROUNDS: [Ground; 6] = [
    Ground {
        of: |reading| {
            reading.strain.filter(|strain| strain.error_share >= ERROR_SHARE).map(|strain| strain.errors_per_s)
        },
        floor: 1.0,
        words: |reading| {
            let failing = reading.strain.map_or(0.0, |strain| strain.errors_per_s);
            format!("{} requests/s fail there", rate(failing))
        },
    },
    Ground {
        of: |reading| reading.strain.map(|strain| strain.queue),
        floor: 1.0,
        words: |reading| {
            let (queue, wait_s) = reading.strain.map_or((0.0, 0.0), |strain| (strain.queue, strain.wait_s));
            format!("{} requests wait there, {} each in the mean", rate(queue), nanoseconds(wait_s * 1e9))
        },
    },
    Ground {
        of: |reading| Some(reading.cpu_share),
        floor: 0.2,
        words: |reading| format!("{:.0} % of its CPUs are in use", reading.cpu_share * 100.0),
    },
    Ground {
        of: |reading| Some(reading.sent_bytes_per_s as f64),
        floor: 1e6,
        words: |reading| format!("{}/s go out", bytes(reading.sent_bytes_per_s)),
    },
    Ground {
        of: |reading| Some(reading.requests_per_s),
        floor: 1.0,
        words: |reading| format!("{} requests/s", rate(reading.requests_per_s)),
    },
    Ground {
        of: |reading| Some(reading.sending_sessions as f64),
        floor: 1.0,
        words: |reading| format!("{} under way", units::counted(reading.sending_sessions, "response")),
    },
];

/// Compares the nodes that are there and whose readings are fresh.
pub(super) fn hottest(members: &[MemberNow], fresh: Duration) -> Heat {
    let is_fresh = |member: &&MemberNow| member.age_s.is_some_and(|age_s| age_s <= fresh.as_secs_f64());
    let there = members.iter().filter(|member| member.number > 0 && member.state.is_there()).filter(is_fresh);
    let nodes: Vec<(&str, ReadingNow)> =
        there.filter_map(|member| Some((member.name.as_str(), member.reading?))).collect();
    let heat = |node: Option<&str>, words| Heat { node: node.map(str::to_owned), words };
    if nodes.is_empty() {
        let seconds = fresh.as_secs();
        return heat(None, format!("No node has told a reading in the last {seconds} s, so none can be called hot."));
    }
    let mut busiest = None;
    for ground in &GROUNDS {
        let mut ranked: Vec<(f64, &(&str, ReadingNow))> =
            nodes.iter().filter_map(|node| Some(((ground.of)(&node.1)?, node))).collect();
        ranked.sort_by(|one, other| other.0.total_cmp(&one.0));
        let Some((most, (name, reading))) = ranked.first().filter(|(most, _)| *most >= ground.floor) else { continue };
        let next = ranked.get(1);
        let beside = next.map_or_else(String::new, |(_, (name, reading))| {
            format!(" (the next one, {name}: {})", (ground.words)(reading))
        });
        let words = (ground.words)(reading);
        if next.is_none_or(|(next, _)| *most >= next * OUTSTANDING) {
            return heat(Some(name), format!("{name} is the hottest node: {words}{beside}."));
        }
        busiest.get_or_insert_with(|| format!("No node stands out; most has {name}: {words}{beside}."));
    }
    heat(None, busiest.unwrap_or_else(|| "No node is hot: none has much to do.".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::overview::{State, StrainNow};
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const FRESH: Duration = Duration::from_secs(5);

    fn node(number: u16, cpu_share: f64, (queue, errors_per_s): (f64, f64)) -> MemberNow {
        let strain = StrainNow {
            queue,
            wait_s: 0.02,
            mem_bytes: 1,
            mem_share: 0.5,
            errors_per_s,
            error_share: errors_per_s / 100.0,
        };
        let reading = ReadingNow {
            requests_per_s: 100.0,
            open_connections: 1,
            sending_sessions: 1,
            sent_bytes_per_s: 3_000_000,
            cpu_share,
            strain: Some(strain),
        };
        MemberNow {
            number,
            name: format!("n{number}"),
            role: "node".to_owned(),
            state: State::Alive,
            age_s: Some(1.0),
            silence_s: Some(0.5),
            version: None,
            up_since_unix_s: None,
            reading: Some(reading),
            sites: BTreeMap::new(),
            weight: None,
            packets_per_s: None,
        }
    }

    #[test]
    fn the_first_ground_on_which_a_node_stands_out_is_told() {
        let quiet = (0.0, 0.0);
        let heat = hottest(&[node(1, 0.12, quiet), node(2, 0.71, quiet)], FRESH);
        assert_eq!(heat.node.as_deref(), Some("n2"));
        assert_eq!(
            heat.words,
            "n2 is the hottest node: 71 % of its CPUs are in use (the next one, n1: 12 % of its CPUs are in use)."
        );
        let waits = hottest(&[node(1, 0.1, (8.0, 0.0)), node(2, 0.9, quiet)], FRESH);
        assert!(
            waits.node.as_deref() == Some("n1") && waits.words.contains("8.0 requests wait there, 20.0 ms"),
            "{waits:?}"
        );
        let fails = hottest(&[node(1, 0.1, (8.0, 0.0)), node(2, 0.9, (0.0, 9.0))], FRESH);
        assert!(fails.node.as_deref() == Some("n2") && fails.words.contains("9.0 requests/s fail there"), "{fails:?}");
        let alike = hottest(&[node(1, 0.5, quiet), node(2, 0.52, quiet)], FRESH);
        assert!(alike.node.is_none() && alike.words.starts_with("No node stands out; most has n2: 52 %"), "{alike:?}");
    }

    #[test]
    fn a_node_whose_clients_read_slowly_is_told_from_an_idle_one() {
        let slow = |number, sending_sessions| {
            let mut node = node(number, 0.01, (0.0, 0.0));
            let reading = node.reading.as_mut().expect("it has one");
            (reading.requests_per_s, reading.sent_bytes_per_s) = (0.0, 0);
            reading.sending_sessions = sending_sessions;
            node
        };
        let heat = hottest(&[slow(1, 3), slow(2, 0)], FRESH);
        assert_eq!(
            heat.words,
            "n1 is the hottest node: 3 responses under way (the next one, n2: 0 responses under way)."
        );
        assert_eq!(hottest(&[slow(1, 0), slow(2, 0)], FRESH).words, "No node is hot: none has much to do.");
    }

    #[test]
    fn who_is_silent_or_old_is_not_hot() {
        let (mut silent, mut old) = (node(1, 0.9, (0.0, 0.0)), node(2, 0.9, (0.0, 0.0)));
        (silent.state, old.age_s) = (State::Silent, Some(6.0));
        let heat = hottest(&[silent.clone(), old.clone(), node(3, 0.3, (0.0, 0.0))], FRESH);
        assert_eq!(heat.node.as_deref(), Some("n3"));
        assert!(hottest(&[silent, old], FRESH).words.contains("No node has told a reading in the last 5 s"));
    }

    proptest! {
        #[test]
        fn some_node_or_none_is_named(shares in proptest::collection::vec((0.0_f64..1.0, 0.0_f64..20.0, 0.0_f64..20.0), 0..8)) {
            let nodes: Vec<MemberNow> =
                (1..).zip(&shares).map(|(number, (cpu, queue, errors))| node(number, *cpu, (*queue, *errors))).collect();
            let heat = hottest(&nodes, FRESH);
            prop_assert!(!heat.words.is_empty());
            prop_assert!(heat.node.is_none_or(|hot| nodes.iter().any(|node| node.name == hot)));
        }
    }
}
