//! The waiting graph: who waited for whom, drawn from left to right, and as a table.

use super::bars::swatch;
use super::escape::{escaped, short, time};
use super::palette::part_named;
use super::tables::framed;
use crate::units::{count, nanoseconds, share};
use crate::{Explanation, WaitingEdge};
use weir_measure::part::Part;

/// Nodes and edges that are drawn, and rows of the table: the largest.
const MOST_NODES: usize = 24;
const MOST_EDGES: usize = 40;
const MOST_ROWS: usize = 100;
/// Layers from left to right.
const MOST_LAYERS: usize = 8;
/// Units of the drawing, about pixels.
const NODE: (f64, f64) = (150.0, 34.0);
const PITCH: (f64, f64) = (290.0, 76.0);
/// How far below their nodes lines lead back, each further below the one before.
const BELOW: f64 = 32.0;
const MARGIN: f64 = 12.0;
/// Characters of a node's name.
const MOST_NAME: usize = 21;

/// The section.
pub(super) fn section(explanation: &Explanation) -> String {
    let edges = &explanation.waiting;
    if edges.is_empty() {
        return String::new();
    }
    format!(
        "<section aria-labelledby=\"waiting-h\"><h2 id=\"waiting-h\">Who waited for whom</h2>{}{}\
         <p class=\"note\">Times are means of each response; a line is as thick as its time is long.</p></section>\n",
        drawing(edges),
        table(edges)
    )
}

/// Names in layers: each to the right of those that wait for it, as far as they do not wait for each other.
fn layers<'a>(edges: &[&'a WaitingEdge]) -> Vec<(&'a str, usize)> {
    let mut nodes: Vec<(&str, usize)> = Vec::new();
    for edge in edges {
        for name in [edge.from.as_str(), edge.to.as_str()] {
            if nodes.len() < MOST_NODES && !nodes.iter().any(|(known, _)| *known == name) {
                nodes.push((name, 0));
            }
        }
    }
    for _ in 0..MOST_LAYERS {
        let mut changed = false;
        for edge in edges {
            let layer = |nodes: &[(&str, usize)], name: &str| {
                nodes.iter().find(|(known, _)| *known == name).map(|(_, layer)| *layer)
            };
            let (Some(from), Some(to)) = (layer(&nodes, &edge.from), layer(&nodes, &edge.to)) else { continue };
            // Of two that wait for each other the larger wait, which comes first, decides.
            let mutual = edges
                .iter()
                .any(|other| other.from == edge.to && other.to == edge.from && other.mean_ns > edge.mean_ns);
            if to <= from && from + 1 < MOST_LAYERS && edge.from != edge.to && !mutual {
                nodes.iter_mut().filter(|(known, _)| *known == edge.to).for_each(|(_, layer)| *layer = from + 1);
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    nodes
}

/// All edges of one to another, the largest first: one line.
struct Pair<'a> {
    edges: Vec<&'a WaitingEdge>,
    ns: f64,
}

impl<'a> Pair<'a> {
    fn all(shown: &[&'a WaitingEdge]) -> Vec<Self> {
        let mut pairs: Vec<Self> = Vec::new();
        for edge in shown {
            match pairs.iter_mut().find(|pair| pair.from() == edge.from && pair.to() == edge.to) {
                Some(pair) => {
                    pair.edges.push(edge);
                    pair.ns += edge.mean_ns;
                }
                None => pairs.push(Self { edges: vec![edge], ns: edge.mean_ns }),
            }
        }
        pairs
    }

    // A pair has one edge at least.
    fn from(&self) -> &'a str {
        &self.edges[0].from
    }

    fn to(&self) -> &'a str {
        &self.edges[0].to
    }
}

fn drawing(edges: &[WaitingEdge]) -> String {
    let mut shown: Vec<&WaitingEdge> = edges.iter().filter(|edge| edge.from != edge.to).collect();
    shown.sort_by(|a, b| b.mean_ns.total_cmp(&a.mean_ns));
    shown.truncate(MOST_EDGES);
    let nodes = layers(&shown);
    let pairs = Pair::all(&shown);
    let most_ns = pairs.iter().map(|pair| pair.ns).fold(0.0, f64::max);
    let mut filled = [0usize; MOST_LAYERS + 1];
    let placed: Vec<(&str, f64, f64)> = nodes
        .iter()
        .map(|(name, layer)| {
            filled[*layer] += 1;
            (*name, MARGIN + *layer as f64 * PITCH.0, MARGIN + (filled[*layer] - 1) as f64 * PITCH.1)
        })
        .collect();
    let at = |name: &str| placed.iter().find(|(known, ..)| *known == name).map(|(_, x, y)| (*x, *y));
    let (mut lines, mut back) = (Vec::new(), 0);
    for (index, pair) in pairs.iter().enumerate() {
        let (Some(from), Some(to)) = (at(pair.from()), at(pair.to())) else { continue };
        let leads_back = to.0 <= from.0;
        // What ends at the same place takes turns, and says where it comes from.
        let before = if leads_back { back } else { pairs[..index].iter().filter(|one| one.to() == pair.to()).count() };
        back += usize::from(leads_back);
        lines.push(line(pair, from, to, before, most_ns));
    }
    if lines.is_empty() {
        return String::new();
    }
    let boxes: String = placed
        .iter()
        .map(|(name, x, y)| {
            format!(
                "<g class=\"node\"><title>{}</title><rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" rx=\"6\"/><text x=\"{}\" y=\"{}\">{}</text></g>",
                escaped(name),
                NODE.0,
                NODE.1,
                x + NODE.0 / 2.0,
                y + NODE.1 / 2.0,
                short(name, MOST_NAME)
            )
        })
        .collect();
    let right = placed.iter().map(|(_, x, _)| x + NODE.0).fold(0.0, f64::max) + MARGIN;
    let bottom = placed.iter().map(|(.., y)| y + NODE.1).fold(0.0, f64::max) + MARGIN + BELOW * back as f64;
    let summary: Vec<String> = shown
        .iter()
        .take(6)
        .map(|edge| format!("{} for {} {}", edge.from, edge.to, nanoseconds(edge.mean_ns)))
        .collect();
    format!(
        "<div class=\"card scroll graph\" role=\"region\" aria-label=\"Waiting graph\" tabindex=\"0\"><svg role=\"img\" aria-label=\"{}\" \
         width=\"{right:.0}\" height=\"{bottom:.0}\" viewBox=\"0 0 {right:.0} {bottom:.0}\">{}{boxes}</svg></div>",
        escaped(&summary.join("; ")),
        lines.concat()
    )
}

/// A pair as a curve with its times at its end, where curves from one node have parted; one that leads back runs below.
/// `before` counts those that are labelled at the same place already.
fn line(pair: &Pair<'_>, from: (f64, f64), to: (f64, f64), before: usize, most_ns: f64) -> String {
    let part = |edge: &WaitingEdge| part_named(&edge.part).unwrap_or(Part::Unattributed).name();
    let (main, others) = (pair.edges[0], &pair.edges[1..]);
    let width = 1.5 + 6.0 * share(pair.ns, most_ns).clamp(0.0, 1.0).sqrt();
    let mut first = format!("{} {}", time(main.mean_ns), part(main));
    let second = match others {
        [] => String::new(),
        [one] => format!("{} {}", time(one.mean_ns), part(one)),
        all => format!("{} {}, {} more", time(all[0].mean_ns), part(all[0]), all.len() - 1),
    };
    let (path, head, labels) = if to.0 > from.0 {
        let (x1, x2) = (from.0 + NODE.0, to.0 - 7.0);
        let (y1, y2) = (from.1 + NODE.1 / 2.0, to.1 + NODE.1 / 2.0);
        let half = (x1 + x2) / 2.0;
        let path = format!("M{x1} {y1}C{half} {y1} {half} {y2} {x2} {y2}");
        if before > 0 {
            first = format!("{}: {first}", short(pair.from(), MOST_NAME / 2));
        }
        // On the side from which the curve does not come.
        let (near, step) = (11.0 + width / 2.0, 14.0);
        let row = |index: usize| (index + 2 * before) as f64 * step;
        let ys = match y2 - y1 {
            rise if rise > 0.0 => [y2 + near + row(0), y2 + near + row(1)],
            rise if rise < 0.0 => [y2 - near - row(1), y2 - near - row(0)],
            _ => [y2 - near - row(0), y2 + near + row(0)],
        };
        (path, format!("M{} {y2}l-9 -6v12z", to.0), ys.map(|y| (to.0 - 4.0, y, "end")))
    } else {
        let (x1, x2) = (from.0 + NODE.0 / 2.0, to.0 + NODE.0 / 2.0 + 20.0);
        let low = from.1.max(to.1) + NODE.1 + BELOW * (before + 1) as f64;
        let path = format!("M{x1} {}C{x1} {low} {x2} {low} {x2} {}", from.1 + NODE.1, to.1 + NODE.1 + 6.0);
        if !second.is_empty() {
            first = format!("{first}, {second}");
        }
        // A curve of this shape goes three quarters of the way down.
        let label = ((x1 + x2) / 2.0, low - BELOW / 4.0 + 12.0, "mid");
        (path, format!("M{x2} {}l-6 9h12z", to.1 + NODE.1), [label; 2])
    };
    let hints: Vec<String> = pair
        .edges
        .iter()
        .map(|edge| {
            format!("{} of each response as {}, {} times", nanoseconds(edge.mean_ns), part(edge), count(edge.count))
        })
        .collect();
    let text = |(x, y, class): (f64, f64, &str), text: &str| {
        format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>")
    };
    let second = if second.is_empty() || to.0 <= from.0 { String::new() } else { text(labels[1], &second) };
    format!(
        "<g class=\"edge e-{0}\" data-part=\"{0}\"><title>{1}</title><path class=\"way\" d=\"{path}\" stroke-width=\"{width:.1}\"/>\
         <path class=\"head\" d=\"{head}\"/>{2}{second}</g>",
        part(main),
        escaped(&format!("{} waited for {}: {}", pair.from(), pair.to(), hints.join("; "))),
        text(labels[0], &first),
    )
}

fn table(edges: &[WaitingEdge]) -> String {
    let rows: String = edges
        .iter()
        .take(MOST_ROWS)
        .map(|edge| {
            let part = part_named(&edge.part).unwrap_or(Part::Unattributed);
            format!(
                "<tr data-part=\"{}\"><td class=\"name\">{}</td><td class=\"name\">{}</td><td class=\"key\">{}{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
                part.name(),
                escaped(&edge.from),
                escaped(&edge.to),
                swatch(part),
                escaped(&edge.part),
                count(edge.count),
                time(edge.mean_ns)
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

    fn edge(from: &str, to: &str, mean_ns: f64) -> WaitingEdge {
        WaitingEdge { from: from.to_owned(), to: to.to_owned(), part: "wait_process".to_owned(), count: 3, mean_ns }
    }

    #[test]
    fn who_is_waited_for_stands_to_the_right() {
        let edges = [
            edge("apache", "php", 9.0),
            edge("php", "postgres", 5.0),
            edge("apache", "postgres", 1.0),
            edge("postgres", "php", 0.5),
        ];
        let nodes = layers(&edges.iter().collect::<Vec<_>>());
        assert_eq!(nodes, [("apache", 0), ("php", 1), ("postgres", 2)]);
        let drawn = drawing(&edges);
        assert_eq!((drawn.matches("class=\"node\"").count(), drawn.matches("class=\"way\"").count()), (3, 4));
    }

    #[test]
    fn waits_of_several_parts_are_one_line_with_all_of_them() {
        let part = |part: &str, mean_ns| WaitingEdge { part: part.to_owned(), ..edge("nginx", "php", mean_ns) };
        let drawn = drawing(&[part("wait_process", 7e6), part("wait_cpu", 5e4), part("wait_lock", 3e4)]);
        assert_eq!(drawn.matches("class=\"way\"").count(), 1);
        for text in [
            "7.00\u{a0}ms wait_process<",
            "50.0\u{a0}us wait_cpu, 1 more<",
            "30.0\u{a0}us of each response as wait_lock",
        ] {
            assert!(drawn.contains(text), "{text} is missing in {drawn}");
        }
    }

    #[test]
    fn a_ring_ends() {
        let ring: Vec<WaitingEdge> =
            (0..200).map(|n| edge(&format!("p{n}"), &format!("p{}", (n + 1) % 200), 1.0)).collect();
        assert!(layers(&ring.iter().collect::<Vec<_>>()).iter().all(|(_, layer)| *layer < MOST_LAYERS));
        assert!(drawing(&ring).matches("class=\"node\"").count() <= MOST_NODES);
        assert_eq!(drawing(&[edge("a", "a", 1.0)]), "");
    }
}
