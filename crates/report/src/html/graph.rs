//! The waiting graph: who waited for whom, drawn from left to right, and as a table.
//!
//! What reads alike is one: workers of one name, and a lock with all of its holders. What is small is told in one line, so
//! that the drawing stays within half a screen, and each label has a place of its own.

mod merged;
mod placed;

use super::bars::swatch;
use super::escape::{escaped, short, time};
use super::palette::part_named;
use super::tables::framed;
use crate::Explanation;
use crate::culprit::ends;
use crate::units::{count, nanoseconds, share};
use merged::{Edge, Node};
use placed::{Drawn, NODE, Place, Way};
use weir_measure::part::Part;

/// Rows of the table: the largest.
const MOST_ROWS: usize = 100;
/// Characters of a node's name, and of the line below it.
const MOST_NAME: usize = 21;
const MOST_BELOW: usize = 26;
/// Characters of a name in full.
const MOST_HINT: usize = 400;

/// The section.
pub(super) fn section(explanation: &Explanation) -> String {
    if explanation.waiting.is_empty() {
        return String::new();
    }
    let (nodes, edges) = merged::of(&explanation.waiting);
    let mean_ns = explanation.parts_ns.iter().sum();
    format!(
        "<section aria-labelledby=\"waiting-h\"><h2 id=\"waiting-h\">Who waited for whom</h2>{}{}\
         <p class=\"note\">Times are means of each response; a line is as thick as its time is long.</p></section>\n",
        drawing(&nodes, &edges, mean_ns),
        table(&nodes, &edges)
    )
}

fn drawing(nodes: &[Node], edges: &[Edge], mean_ns: f64) -> String {
    let drawn = placed::of(nodes, edges, mean_ns);
    if drawn.ways.is_empty() {
        return String::new();
    }
    let most_ns = drawn.ways.iter().map(|way| way.ns).fold(0.0, f64::max);
    let lines: String = drawn.ways.iter().map(|way| line(way, nodes, most_ns)).collect();
    let boxes: String = drawn.nodes.iter().map(|place| node(place, &nodes[place.node])).collect();
    // Last, so that no line runs over one.
    let labels: String = drawn.ways.iter().map(label).collect();
    let summary: Vec<String> = drawn
        .ways
        .iter()
        .take(6)
        .map(|way| format!("{} for {} {}", nodes[way.from].name, nodes[way.to].name, nanoseconds(way.ns)))
        .collect();
    let Drawn { width, height, .. } = drawn;
    format!(
        "<div class=\"card scroll graph\" role=\"region\" aria-label=\"Waiting graph\" tabindex=\"0\"><svg role=\"img\" aria-label=\"{}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\">{lines}{boxes}{labels}</svg>{}</div>",
        escaped(&summary.join("; ")),
        folded(&drawn),
    )
}

/// What is not drawn, in a line with how many there are and how long they are together.
fn folded(drawn: &Drawn<'_>) -> String {
    match drawn.folded {
        (0, _) => String::new(),
        (waits, ns) => format!(
            "<p class=\"folded\"><i></i>{} more wait{}, {} of each response together; the table has them</p>",
            count(waits as u64),
            if waits == 1 { "" } else { "s" },
            time(ns)
        ),
    }
}

fn node(place: &Place, node: &Node) -> String {
    let (x, y) = (place.x + NODE.0 / 2.0, place.y);
    let below = node.below();
    let text = |class: &str, at: f64, text: &str| {
        format!("<text class=\"{class}\" x=\"{x}\" y=\"{at}\">{}</text>", escaped(text))
    };
    let name = named(&node.name);
    let words = match below.is_empty() {
        true => text("name", y + NODE.1 / 2.0, &name),
        false => text("name", y + 14.0, &name) + &text("below", y + 30.0, &ends(&below, MOST_BELOW)),
    };
    let hint = if below.is_empty() { node.name.clone() } else { format!("{}, {below}", node.name) };
    format!(
        "<g class=\"node\"><title>{}</title><rect x=\"{}\" y=\"{y}\" width=\"{}\" height=\"{}\" rx=\"6\"/>{words}</g>",
        short(&hint, MOST_HINT),
        place.x,
        NODE.0,
        NODE.1
    )
}

/// A name in a node's room. Of a file's lock the sort stays whole, and of the path its end, by which locks differ.
fn named(name: &str) -> String {
    match name.split_once(" of /") {
        Some((sort, path)) if name.chars().count() > MOST_NAME => {
            let room = MOST_NAME.saturating_sub(sort.chars().count() + 2);
            let end: String = path.chars().skip(path.chars().count().saturating_sub(room)).collect();
            ends(&format!("{sort} \u{2026}{end}"), MOST_NAME)
        }
        _ => ends(name, MOST_NAME),
    }
}

/// A way as a curve through its label's place; the place of its head is its end.
fn line(way: &Way<'_>, nodes: &[Node], most_ns: f64) -> String {
    let main = part_of(way.edges[0]).name();
    let width = 1.5 + 6.0 * share(way.ns, most_ns).clamp(0.0, 1.0).sqrt();
    let hints: Vec<String> = way
        .edges
        .iter()
        .map(|edge| {
            format!(
                "{} of each response as {}, {} times",
                nanoseconds(edge.ns),
                part_of(edge).name(),
                count(edge.count)
            )
        })
        .collect();
    let hint = format!("{} waited for {}: {}", nodes[way.from].name, nodes[way.to].name, hints.join("; "));
    format!(
        "<g class=\"edge e-{main}\" data-part=\"{main}\"><title>{}</title><path class=\"way\" d=\"{}\" stroke-width=\"{width:.1}\"/>\
         <path class=\"head\" d=\"{}\"/></g>",
        short(&hint, MOST_HINT),
        way.path,
        way.head
    )
}

/// The times of a way on a ground of their own.
fn label(way: &Way<'_>) -> String {
    let (x, y) = way.label;
    let lines = words(way);
    let high = placed::LINE * lines.len() as f64;
    let wide = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0) as f64 * placed::LETTER + 8.0;
    let texts: String = lines
        .iter()
        .enumerate()
        .map(|(index, line)| {
            let y = y - high / 2.0 + placed::LINE * (index as f64 + 0.5);
            format!("<text x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(line))
        })
        .collect();
    format!(
        "<g class=\"times\" data-part=\"{}\"><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\" rx=\"3\"/>{texts}</g>",
        part_of(way.edges[0]).name(),
        x - wide / 2.0,
        y - high / 2.0
    )
}

/// The times of a way in at most two lines.
fn words(way: &Way<'_>) -> Vec<String> {
    let one = |edge: &Edge| format!("{} {}", nanoseconds(edge.ns), part_of(edge).name());
    match way.edges.as_slice() {
        [] => Vec::new(),
        [only] => vec![one(only)],
        [first, second] => vec![one(first), one(second)],
        [first, rest @ ..] => {
            let ns = rest.iter().map(|edge| edge.ns).sum::<f64>();
            vec![one(first), format!("{} in {} others", nanoseconds(ns), rest.len())]
        }
    }
}

fn part_of(edge: &Edge) -> Part {
    part_named(&edge.part).unwrap_or(Part::Unattributed)
}

fn table(nodes: &[Node], edges: &[Edge]) -> String {
    let cell = |node: &Node| match node.below() {
        below if below.is_empty() => escaped(&node.name),
        below => format!("{}<span class=\"aside\">, {}</span>", escaped(&node.name), escaped(&below)),
    };
    let rows: String = edges
        .iter()
        .take(MOST_ROWS)
        .map(|edge| {
            let part = part_of(edge);
            format!(
                "<tr data-part=\"{}\"><td class=\"name\">{}</td><td class=\"name\">{}</td><td class=\"key\">{}{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
                part.name(),
                cell(&nodes[edge.from]),
                cell(&nodes[edge.to]),
                swatch(part),
                escaped(&edge.part),
                count(edge.count),
                time(edge.ns)
            )
        })
        .collect();
    let more = edges.len().saturating_sub(MOST_ROWS);
    let more = if more > 0 { format!(", {more} more in the JSON") } else { String::new() };
    format!(
        "<details><summary>The same as a table{more}</summary>{}<thead><tr><th scope=\"col\">Who waited</th><th scope=\"col\">For whom</th>\
         <th scope=\"col\">Part</th><th scope=\"col\" class=\"n\">Times</th><th scope=\"col\" class=\"n\">Of each response</th></tr></thead>\n\
         <tbody>{rows}</tbody></table></div></details>",
        framed("Who waited for whom")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WaitingEdge;

    fn edge(from: &str, to: &str, mean_ns: f64) -> WaitingEdge {
        WaitingEdge { from: from.to_owned(), to: to.to_owned(), part: "wait_process".to_owned(), count: 3, mean_ns }
    }

    fn drawn(waiting: &[WaitingEdge]) -> String {
        let (nodes, edges) = merged::of(waiting);
        drawing(&nodes, &edges, 0.0)
    }

    #[test]
    fn waits_of_several_parts_are_one_line_with_all_of_them() {
        let part = |part: &str, mean_ns| WaitingEdge { part: part.to_owned(), ..edge("nginx", "php", mean_ns) };
        let drawn = drawn(&[part("wait_process", 7e6), part("wait_cpu", 5e4), part("wait_lock", 3e4)]);
        assert_eq!(drawn.matches("class=\"way\"").count(), 1);
        for text in
            ["7.00\u{a0}ms wait_process<", "80.0\u{a0}us in 2 others<", "30.0\u{a0}us of each response as wait_lock"]
        {
            assert!(drawn.contains(text), "{text} is missing in {drawn}");
        }
    }

    #[test]
    fn what_is_small_is_one_line_with_its_count_and_its_sum() {
        let small = (0..9).map(|number| edge("nginx", &format!("peer{number}"), 1e4));
        let all: Vec<WaitingEdge> = small.chain([edge("nginx", "php", 5e6)]).collect();
        let drawn = drawn(&all);
        assert_eq!(drawn.matches("class=\"way\"").count(), 1);
        assert!(drawn.contains("9 more waits, 90.0\u{a0}us of each response together"), "{drawn}");
        assert_eq!(drawing(&[], &[], 1.0), "");
    }

    #[test]
    fn locks_of_two_files_are_told_apart_by_the_end_of_their_paths() {
        let told = |name: &str| named(&format!("flock of /var/lib/php/sessions/{name}"));
        assert_eq!(told("sess_abc123"), "flock \u{2026}ns/sess_abc123");
        assert_ne!(told("sess_abc123"), told("sess_abc124"));
        assert_eq!(named("flock of /tmp/a"), "flock of /tmp/a");
    }
}
