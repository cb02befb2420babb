//! Nodes that read alike as one, and the waits between them added up.

use crate::WaitingEdge;
use std::collections::BTreeSet;

/// Nodes and edges that are told apart; what comes after is left to the JSON.
const MOST_NODES: usize = 512;

/// Who waited, or was waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    /// Its name without a process's number, if several have it; a lock's without its holder.
    pub(super) name: String,
    /// All that it stands for.
    members: BTreeSet<String>,
    /// Who had it, if it is a lock.
    holders: BTreeSet<String>,
}

impl Node {
    /// What stands below the name: how many it stands for, or who holds it; empty if it is one alone.
    pub(super) fn below(&self) -> String {
        let mut names: Vec<&str> = self.holders.iter().map(|holder| plain(holder)).collect();
        names.dedup();
        match (names.as_slice(), self.members.len()) {
            ([], 0 | 1) => String::new(),
            ([], members) => format!("{members} processes"),
            ([one], _) => match self.holders.iter().next() {
                Some(only) if self.holders.len() == 1 => format!("held by {only}"),
                _ => format!("held by {} {one}", self.holders.len()),
            },
            ([first, ..], _) => format!("held by {first} and {} others", names.len() - 1),
        }
    }
}

/// A wait of one for another.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Edge {
    /// The numbers of its nodes.
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) part: String,
    pub(super) count: u64,
    /// Nanoseconds of each response.
    pub(super) ns: f64,
}

/// The nodes, and the edges between two of them, the largest first.
pub(super) fn of(waiting: &[WaitingEdge]) -> (Vec<Node>, Vec<Edge>) {
    let (mut nodes, mut edges) = (Vec::new(), Vec::<Edge>::new());
    for one in waiting {
        let (Some(from), Some(to)) = (number(&mut nodes, &one.from), number(&mut nodes, &one.to)) else { continue };
        // A lock that is not told apart is one that it waits for; a process waits for others, not for itself.
        if one.from == one.to {
            continue;
        }
        match edges.iter_mut().find(|edge| edge.from == from && edge.to == to && edge.part == one.part) {
            Some(edge) => {
                edge.count += one.count;
                edge.ns += one.mean_ns;
            }
            None => edges.push(Edge { from, to, part: one.part.clone(), count: one.count, ns: one.mean_ns }),
        }
    }
    for node in &mut nodes {
        if let ([only], true) = (node.members.iter().collect::<Vec<_>>().as_slice(), node.holders.is_empty()) {
            node.name = (*only).clone();
        }
    }
    edges.sort_by(|a, b| b.ns.total_cmp(&a.ns));
    (nodes, edges)
}

/// The number of the node that a name belongs to.
fn number(nodes: &mut Vec<Node>, name: &str) -> Option<usize> {
    let (own, holder) = match name.rsplit_once(" held by ") {
        Some((lock, holder)) => (lock, Some(holder)),
        None => (plain(name), None),
    };
    let at = match nodes.iter().position(|node| node.name == own && node.holders.is_empty() == holder.is_none()) {
        Some(at) => at,
        None if nodes.len() >= MOST_NODES => return None,
        None => {
            nodes.push(Node { name: own.to_owned(), members: BTreeSet::new(), holders: BTreeSet::new() });
            nodes.len() - 1
        }
    };
    nodes[at].members.insert(name.to_owned());
    nodes[at].holders.extend(holder.map(str::to_owned));
    Some(at)
}

/// A process's name without its number.
fn plain(name: &str) -> &str {
    match name.rsplit_once(" (") {
        Some((own, number))
            if number.strip_suffix(')').is_some_and(|number| {
                number.split(' ').next().is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
            }) =>
        {
            own
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: &str, to: &str, mean_ns: f64) -> WaitingEdge {
        WaitingEdge { from: from.to_owned(), to: to.to_owned(), part: "wait_lock".to_owned(), count: 2, mean_ns }
    }

    #[test]
    fn a_lock_is_one_with_all_of_its_holders_and_locks_of_two_files_are_two() {
        let waits: Vec<WaitingEdge> = (1..6)
            .map(|pid| edge("apache2", &format!("flock of /tmp/a held by apache2 ({pid})"), 10.0))
            .chain([edge("apache2", "flock of /tmp/b held by cron (9)", 5.0)])
            .collect();
        let (nodes, edges) = of(&waits);
        let told: Vec<(String, String)> = nodes.iter().map(|node| (node.name.clone(), node.below())).collect();
        let own = |name: &str, below: &str| (name.to_owned(), below.to_owned());
        assert_eq!(
            told,
            [
                own("apache2", ""),
                own("flock of /tmp/a", "held by 5 apache2"),
                own("flock of /tmp/b", "held by cron (9)")
            ]
        );
        assert_eq!(edges.iter().map(|edge| (edge.count, edge.ns)).collect::<Vec<_>>(), [(10, 50.0), (2, 5.0)]);
    }

    #[test]
    fn workers_of_one_name_are_one_and_one_alone_keeps_its_number() {
        let (nodes, edges) =
            of(&[edge("a (1)", "db (7)", 3.0), edge("a (2)", "db (7)", 4.0), edge("b (x)", "b (x)", 9.0)]);
        let told: Vec<(&str, String)> = nodes.iter().map(|node| (node.name.as_str(), node.below())).collect();
        assert_eq!(told[..2], [("a", "2 processes".to_owned()), ("db (7)", String::new())]);
        assert_eq!((nodes[2].name.as_str(), edges.len(), edges[0].ns), ("b (x)", 1, 7.0));
    }
}
