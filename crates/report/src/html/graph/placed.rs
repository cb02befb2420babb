//! Where nodes, ways and labels of the drawing stand.

use super::merged::{Edge, Node};
use std::collections::HashMap;

/// Units of the drawing, about pixels: a node, and from one node to the next.
pub(super) const NODE: (f64, f64) = (158.0, 42.0);
const PITCH: (f64, f64) = (290.0, 64.0);
const MARGIN: f64 = 12.0;
/// A line of a label, and a letter of it at most.
pub(super) const LINE: f64 = 15.0;
pub(super) const LETTER: f64 = 6.0;
/// Between two labels, and what a label keeps free below it for its own way.
const APART: f64 = 3.0;
const WAY: f64 = 8.0;
/// Nodes in a column, columns, and ways back, which run below: so many fit on half a screen.
const MOST_ROWS: usize = 5;
const MOST_COLUMNS: usize = 8;
const MOST_BACK: usize = 2;
/// How far below the nodes a way back runs, each further below the one before.
const BELOW: f64 = 30.0;
/// Labels between two columns.
const MOST_LABELS: usize = 8;
/// A wait below this share of the mean response is not drawn, unless it is this share of the largest one.
const WORTH_DRAWING: f64 = 0.02;
const OF_LARGEST: f64 = 0.2;

/// A node's place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Place {
    pub(super) node: usize,
    pub(super) x: f64,
    pub(super) y: f64,
}

/// All waits of one for another, as they are drawn.
#[derive(Debug)]
pub(super) struct Way<'a> {
    pub(super) from: usize,
    pub(super) to: usize,
    /// By part, the largest first; at least one.
    pub(super) edges: Vec<&'a Edge>,
    pub(super) ns: f64,
    pub(super) path: String,
    pub(super) head: String,
    /// The middle of its label.
    pub(super) label: (f64, f64),
}

impl Way<'_> {
    /// How high its label is.
    fn high(&self) -> f64 {
        LINE * self.edges.len().min(2) as f64
    }

    /// How far down it passes its label: just below, where no ground of a label hides it.
    fn passes(&self) -> f64 {
        self.label.1 + (self.high() + WAY) / 2.0
    }
}

/// The drawing.
#[derive(Debug)]
pub(super) struct Drawn<'a> {
    pub(super) nodes: Vec<Place>,
    pub(super) ways: Vec<Way<'a>>,
    /// Waits that are not drawn: how many, and nanoseconds of each response.
    pub(super) folded: (usize, f64),
    pub(super) width: f64,
    pub(super) height: f64,
}

/// Places what is worth drawing and has room; the largest comes first.
pub(super) fn of<'a>(nodes: &[Node], edges: &'a [Edge], mean_ns: f64) -> Drawn<'a> {
    let mut ways: Vec<Way<'a>> = Vec::new();
    for edge in edges.iter().filter(|edge| edge.ns.is_finite() && edge.from != edge.to) {
        match ways.iter_mut().find(|way| (way.from, way.to) == (edge.from, edge.to)) {
            Some(way) => {
                way.edges.push(edge);
                way.ns += edge.ns;
            }
            None => ways.push(Way {
                from: edge.from,
                to: edge.to,
                edges: vec![edge],
                ns: edge.ns,
                path: String::new(),
                head: String::new(),
                label: (0.0, 0.0),
            }),
        }
    }
    ways.sort_by(|a, b| b.ns.total_cmp(&a.ns));
    let largest = ways.first().map_or(0.0, |way| way.ns);
    let least =
        if mean_ns > 0.0 { (WORTH_DRAWING * mean_ns).min(OF_LARGEST * largest) } else { WORTH_DRAWING * largest };
    let (mut kept, mut folded) = (Vec::new(), (0, 0.0));
    for way in ways {
        kept.push(way);
        let columns = columns(&kept, nodes.len());
        let is_small = kept.last().is_some_and(|way| way.ns < least);
        if (is_small || !fits(&kept, &columns))
            && let Some(way) = kept.pop()
        {
            folded = (folded.0 + way.edges.len(), folded.1 + way.ns);
        }
    }
    let columns = columns(&kept, nodes.len());
    let nodes = places(&kept, &columns);
    let at: HashMap<usize, (f64, f64)> = nodes.iter().map(|place| (place.node, (place.x, place.y))).collect();
    let low = nodes.iter().map(|place| place.y + NODE.1).fold(0.0, f64::max);
    let low = labels(&mut kept, &at, low);
    let (mut back, mut height) = (0, low);
    for way in &mut kept {
        let (Some(from), Some(to)) = (at.get(&way.from), at.get(&way.to)) else { continue };
        if to.0 > from.0 {
            forward(way, *from, *to);
        } else {
            back += 1;
            let deep = low + BELOW * back as f64;
            backward(way, *from, *to, deep);
            height = height.max(deep + LINE);
        }
    }
    let width = nodes.iter().map(|place| place.x + NODE.0).fold(0.0, f64::max) + MARGIN;
    Drawn { nodes, ways: kept, folded, width, height: height + MARGIN }
}

/// Columns of nodes: each to the right of those that wait for it, as far as they do not wait for each other.
fn columns(ways: &[Way<'_>], nodes: usize) -> Vec<Option<usize>> {
    let mut columns = vec![None; nodes];
    for way in ways {
        columns[way.from].get_or_insert(0);
        columns[way.to].get_or_insert(0);
    }
    for _ in 0..MOST_COLUMNS {
        let mut changed = false;
        for (index, way) in ways.iter().enumerate() {
            let (Some(from), Some(to)) = (columns[way.from], columns[way.to]) else { continue };
            // Of two that wait for each other the larger wait, which comes first, decides.
            let mutual = ways[..index].iter().any(|other| (other.from, other.to) == (way.to, way.from));
            if to <= from && from + 1 < MOST_COLUMNS && !mutual {
                columns[way.to] = Some(from + 1);
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    columns
}

fn fits(ways: &[Way<'_>], columns: &[Option<usize>]) -> bool {
    let (mut rows, mut labels, mut back) = ([0; MOST_COLUMNS], [0; MOST_COLUMNS], 0);
    columns.iter().flatten().for_each(|column| rows[*column] += 1);
    for way in ways {
        match (columns[way.from], columns[way.to]) {
            (Some(from), Some(to)) if to > from => labels[to] += 1,
            _ => back += 1,
        }
    }
    let within = |counts: [usize; MOST_COLUMNS], most: usize| counts.iter().all(|count| *count <= most);
    within(rows, MOST_ROWS) && within(labels, MOST_LABELS) && back <= MOST_BACK
}

/// Nodes in their columns, each column in the order of its waits; a column of fewer stands in the middle.
fn places(ways: &[Way<'_>], columns: &[Option<usize>]) -> Vec<Place> {
    let mut in_column: [Vec<usize>; MOST_COLUMNS] = Default::default();
    for node in ways.iter().flat_map(|way| [way.from, way.to]) {
        if let Some(column) = columns[node]
            && !in_column[column].contains(&node)
        {
            in_column[column].push(node);
        }
    }
    let rows = in_column.iter().map(Vec::len).max().unwrap_or(0);
    let place = |column: usize, row: usize, of: usize, node: usize| Place {
        node,
        x: MARGIN + column as f64 * PITCH.0,
        y: MARGIN + (row as f64 + (rows - of) as f64 / 2.0) * PITCH.1,
    };
    let all = in_column.iter().enumerate();
    all.flat_map(|(column, nodes)| {
        nodes.iter().enumerate().map(move |(row, node)| place(column, row, nodes.len(), *node))
    })
    .collect()
}

/// Gives each label between two columns a place of its own; how far down they reach.
fn labels(ways: &mut [Way<'_>], at: &HashMap<usize, (f64, f64)>, low: f64) -> f64 {
    let mut by_gap: HashMap<u64, Vec<(usize, f64)>> = HashMap::new();
    for (index, way) in ways.iter().enumerate() {
        let (Some(from), Some(to)) = (at.get(&way.from), at.get(&way.to)) else { continue };
        if to.0 > from.0 {
            by_gap.entry(to.0 as u64).or_default().push((index, (from.1 + to.1 + NODE.1) / 2.0));
        }
    }
    let mut lowest = low;
    for (x, mut gap) in by_gap {
        gap.sort_by(|a, b| a.1.total_cmp(&b.1));
        let high: f64 = gap.iter().map(|(index, _)| ways[*index].high() + WAY + APART).sum();
        // They begin where they want to, but not so far down that there is no room for the last.
        let mut top = MARGIN / 2.0;
        let mut rest = high;
        for (index, wanted) in gap {
            let own = ways[index].high();
            let begin = (wanted - own - WAY / 2.0).min((low - rest).max(top)).max(top);
            ways[index].label = (x as f64 - (PITCH.0 - NODE.0) / 2.0, begin + own / 2.0);
            top = begin + own + WAY + APART;
            rest -= own + WAY + APART;
            lowest = lowest.max(begin + own + WAY);
        }
    }
    lowest
}

/// From node to node, through the label's place.
fn forward(way: &mut Way<'_>, from: (f64, f64), to: (f64, f64)) {
    let (x1, y1, x2, y2) = (from.0 + NODE.0, from.1 + NODE.1 / 2.0, to.0 - 7.0, to.1 + NODE.1 / 2.0);
    let (x, y) = (way.label.0, way.passes());
    let (first, second) = ((x1 + x) / 2.0, (x + x2) / 2.0);
    way.path = format!(
        "M{x1:.1} {y1:.1}C{first:.1} {y1:.1} {first:.1} {y:.1} {x:.1} {y:.1}S{second:.1} {y2:.1} {x2:.1} {y2:.1}"
    );
    way.head = format!("M{:.1} {y2:.1}l-9 -6v12z", to.0);
}

/// Below all nodes, and back up.
fn backward(way: &mut Way<'_>, from: (f64, f64), to: (f64, f64), deep: f64) {
    let (x1, x2) = (from.0 + NODE.0 / 2.0, to.0 + NODE.0 / 2.0 + 20.0);
    let (y1, y2) = (from.1 + NODE.1, to.1 + NODE.1);
    way.path = format!(
        "M{x1:.1} {y1:.1}V{:.1}Q{x1:.1} {deep:.1} {:.1} {deep:.1}H{:.1}Q{x2:.1} {deep:.1} {x2:.1} {:.1}V{:.1}",
        deep - 12.0,
        x1 - 12.0 * (x1 - x2).signum(),
        x2 + 12.0 * (x1 - x2).signum(),
        deep - 12.0,
        y2 + 6.0
    );
    way.head = format!("M{x2:.1} {y2:.1}l-6 9h12z");
    let half = (NODE.0 / 2.0).max((x1 - x2).abs() / 2.0);
    way.label = (x1.min(x2) + half, deep);
}

#[cfg(test)]
mod tests {
    use super::super::merged;
    use super::*;
    use crate::WaitingEdge;
    use proptest::prelude::*;

    fn edge(from: &str, to: &str, mean_ns: f64) -> WaitingEdge {
        WaitingEdge { from: from.to_owned(), to: to.to_owned(), part: "wait_process".to_owned(), count: 3, mean_ns }
    }

    #[test]
    fn who_is_waited_for_stands_to_the_right() {
        let waiting = [
            edge("apache", "php", 9.0),
            edge("php", "postgres", 5.0),
            edge("apache", "postgres", 1.0),
            edge("postgres", "php", 0.5),
        ];
        let (nodes, edges) = merged::of(&waiting);
        let drawn = of(&nodes, &edges, 0.0);
        let mut by_x = drawn.nodes.clone();
        by_x.sort_by(|a, b| a.x.total_cmp(&b.x));
        let names: Vec<&str> = by_x.iter().map(|place| nodes[place.node].name.as_str()).collect();
        assert_eq!((names, drawn.ways.len()), (vec!["apache", "php", "postgres"], 4));
    }

    proptest! {
        /// However many wait for each other: half a screen, no label on another or on a node, and all is told.
        #[test]
        fn labels_keep_apart_and_nothing_is_forgotten(
            all in prop::collection::vec((0..12_usize, 0..12_usize, 0..3_usize, 1.0..1e6_f64), 1..80),
        ) {
            let parts = ["wait_lock", "wait_cpu", "wait_process"];
            let waiting: Vec<WaitingEdge> = all
                .iter()
                .map(|(from, to, part, ns)| WaitingEdge {
                    part: parts[*part].to_owned(),
                    ..edge(&format!("p{from}"), &format!("q{to}"), *ns)
                })
                .chain(all.iter().map(|(from, to, _, ns)| edge(&format!("q{from}"), &format!("p{to}"), *ns)))
                .collect();
            let (nodes, edges) = merged::of(&waiting);
            let drawn = of(&nodes, &edges, 1e5);
            prop_assert!(drawn.height <= 450.0, "{} high", drawn.height);
            let drawn_edges: usize = drawn.ways.iter().map(|way| way.edges.len()).sum();
            prop_assert_eq!(drawn_edges + drawn.folded.0, edges.len());
            let boxes: Vec<[f64; 4]> = drawn
                .ways
                .iter()
                .map(|way| [way.label.0 - 64.0, way.label.1 - way.high() / 2.0, way.label.0 + 64.0, way.label.1 + way.high() / 2.0])
                .chain(drawn.nodes.iter().map(|place| [place.x, place.y, place.x + NODE.0, place.y + NODE.1]))
                .collect();
            for (index, a) in boxes.iter().enumerate() {
                prop_assert!(a[1] >= 0.0 && a[3] <= drawn.height, "{a:?} of {}", drawn.height);
                for b in &boxes[index + 1..] {
                    prop_assert!(a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1], "{a:?} {b:?}");
                }
            }
        }
    }
}
