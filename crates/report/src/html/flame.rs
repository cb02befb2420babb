//! Flame charts of sampled stacks: where code ran, and where it was when it waited.

use super::bars::swatch;
use super::escape::{escaped, fraction, part_of, short, time};
use super::headline::words_of;
use super::palette::part_named;
use super::tables::framed;
use crate::units::{count, nanoseconds, percent, share};
use crate::{Explanation, Stack};
use std::collections::BTreeMap;
use weir_measure::part::Part;

/// Charts that are drawn, one for a part; the parts with the most time.
const MOST_CHARTS: usize = 6;
/// Boxes of a chart, and how deep it goes.
const MOST_BOXES: usize = 3000;
const MOST_DEPTH: usize = 80;
/// A box of a smaller share of its chart is left out.
const LEAST_SHARE: f64 = 0.0005;
/// Pixels of a row.
const ROW: usize = 19;
/// Characters of a function's name on its box and in its hint.
const MOST_NAME: usize = 90;
const MOST_HINT: usize = 240;
/// Functions that the table names.
const MOST_FUNCTIONS: usize = 12;

/// A function, called by those above it.
#[derive(Debug, Default)]
struct Node<'a> {
    ns: u64,
    samples: u64,
    callees: BTreeMap<&'a str, Node<'a>>,
}

impl<'a> Node<'a> {
    /// Adds a stack; without recursion, for stacks may be deep.
    fn add(&mut self, frames: impl Iterator<Item = &'a str>, stack: &Stack) {
        self.ns += stack.ns;
        self.samples += stack.samples;
        let mut node = self;
        for frame in frames.take(MOST_DEPTH) {
            node = node.callees.entry(frame).or_default();
            node.ns += stack.ns;
            node.samples += stack.samples;
        }
    }
}

/// The section.
pub(super) fn section(explanation: &Explanation) -> String {
    let mut by_part: BTreeMap<&str, Vec<&Stack>> = BTreeMap::new();
    for stack in &explanation.stacks {
        by_part.entry(stack.part.as_str()).or_default().push(stack);
    }
    let mut parts: Vec<(&str, Vec<&Stack>)> = by_part.into_iter().collect();
    let time_of = |stacks: &[&Stack]| stacks.iter().map(|stack| stack.ns).sum::<u64>();
    parts.sort_by_key(|(_, stacks)| std::cmp::Reverse(time_of(stacks)));
    if parts.is_empty() {
        return String::new();
    }
    let left_out = parts.len().saturating_sub(MOST_CHARTS);
    let charts: String =
        parts.iter().take(MOST_CHARTS).enumerate().map(|(index, (part, stacks))| chart(index, part, stacks)).collect();
    let note = if left_out > 0 { format!(" {left_out} more parts are in the JSON.") } else { String::new() };
    format!(
        "<section aria-labelledby=\"stacks-h\"><h2 id=\"stacks-h\">Code</h2>{charts}\
         <p class=\"note\">Sampled stacks by part of the response. A box is a function, as wide as the time of the samples with it on the stack; \
         those below it are what it called. The first row is the transaction class.{note}</p></section>\n"
    )
}

fn chart(index: usize, part: &str, stacks: &[&Stack]) -> String {
    let mut root = Node::default();
    for stack in stacks {
        let frames = stack.frames.iter().map(String::as_str);
        root.add(std::iter::once(stack.class.as_str()).chain(frames), stack);
    }
    let (boxes, depth, left_out) = boxes(&root);
    let class = part_named(part).unwrap_or(Part::Unattributed);
    let left_out = if left_out > 0 { format!(", {left_out} narrow boxes left out") } else { String::new() };
    format!(
        "<div class=\"card figure\"><h3>{}{} <span class=\"aside\">{}; {}, {} samples{left_out}</span></h3>\
         <div class=\"flame p-{}\" data-zoom=\"code-{index}\" data-ns=\"{}\"><div class=\"pane\" tabindex=\"0\" role=\"group\" \
         aria-label=\"Flame chart of {}; the functions with the most time stand in the table below\">\
         <div class=\"inner\" style=\"height:{}px\">{boxes}</div></div></div>{}</div>",
        swatch(class),
        escaped(part),
        escaped(words_of(part)),
        time(root.ns as f64),
        count(root.samples),
        class.name(),
        root.ns,
        escaped(part),
        depth * ROW,
        functions(stacks, root.ns)
    )
}

/// The boxes from the top down, how deep they go, and how many are left out.
fn boxes(root: &Node<'_>) -> (String, usize, usize) {
    let mut markup = String::new();
    let (mut drawn, mut depth, mut left_out) = (0, 0, 0);
    let mut row: Vec<(u64, &Node<'_>)> = vec![(0, root)];
    while !row.is_empty() {
        let mut below = Vec::new();
        for (from_ns, node) in row {
            let mut at_ns = from_ns;
            let mut callees: Vec<(&&str, &Node<'_>)> = node.callees.iter().collect();
            callees.sort_by_key(|(_, callee)| std::cmp::Reverse(callee.ns));
            for (name, callee) in callees {
                let part = share(callee.ns as f64, root.ns as f64);
                if part < LEAST_SHARE || drawn >= MOST_BOXES {
                    left_out += 1;
                    continue;
                }
                drawn += 1;
                let hint = format!(
                    ": {}, {}, {} samples",
                    nanoseconds(callee.ns as f64),
                    percent(part),
                    count(callee.samples)
                );
                markup.push_str(&format!(
                    "<span class=\"f f{}\" style=\"left:{};width:{};top:{}px\" title=\"{}{}\">{}</span>",
                    shade(name),
                    fraction(share(at_ns as f64, root.ns as f64)),
                    fraction(part),
                    depth * ROW,
                    short(name, MOST_HINT),
                    escaped(&hint),
                    short(name, MOST_NAME)
                ));
                below.push((at_ns, callee));
                at_ns += callee.ns;
            }
        }
        row = below;
        depth += usize::from(!row.is_empty());
    }
    (markup, depth, left_out)
}

/// One of four shades, the same for the same name.
fn shade(name: &str) -> u32 {
    name.bytes().fold(7u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte))) % 4
}

/// The functions in which most of the time was spent, for those who do not look at charts.
fn functions(stacks: &[&Stack], total_ns: u64) -> String {
    let mut of_function: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for stack in stacks {
        if let Some(top) = stack.frames.last() {
            let (ns, samples) = of_function.entry(top).or_default();
            (*ns, *samples) = (*ns + stack.ns, *samples + stack.samples);
        }
    }
    let mut functions: Vec<_> = of_function.into_iter().collect();
    functions.sort_by_key(|(_, (ns, _))| std::cmp::Reverse(*ns));
    let rows: String = functions
        .iter()
        .take(MOST_FUNCTIONS)
        .map(|(name, (ns, samples))| {
            format!(
                "<tr><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"name\">{}</td></tr>\n",
                time(*ns as f64),
                part_of(share(*ns as f64, total_ns as f64)),
                count(*samples),
                short(name, MOST_HINT)
            )
        })
        .collect();
    format!(
        "<details><summary>Functions with the most time of their own</summary>{}<thead><tr><th scope=\"col\" class=\"n\">Time</th>\
         <th scope=\"col\" class=\"n\">Share</th><th scope=\"col\" class=\"n\">Samples</th><th scope=\"col\">Function</th></tr></thead>\n\
         <tbody>{rows}</tbody></table></div></details>",
        framed("Functions with the most time of their own")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(frames: &[&str], ns: u64) -> Stack {
        let frames = frames.iter().map(|&frame| frame.to_owned()).collect();
        Stack { class: "GET /".to_owned(), part: "run".to_owned(), frames, samples: ns / 10, ns }
    }

    #[test]
    fn callees_lie_within_their_callers() {
        let stacks = [stack(&["main", "a"], 600), stack(&["main", "b"], 300), stack(&["main"], 100)];
        let mut root = Node::default();
        for one in &stacks {
            root.add(one.frames.iter().map(String::as_str), one);
        }
        let (markup, depth, left_out) = boxes(&root);
        assert_eq!((depth, left_out), (2, 0));
        for expected in ["left:0%;width:100%;top:0px", "left:0%;width:60%;top:19px", "left:60%;width:30%;top:19px"] {
            assert!(markup.contains(expected), "{expected} is missing in {markup}");
        }
    }

    #[test]
    fn a_stack_of_any_depth_and_width_is_bounded() {
        let deep: Vec<String> = (0..100_000).map(|number| format!("f{number}")).collect();
        let deep = Stack { frames: deep, ..stack(&[], 1_000_000) };
        let wide: Vec<Stack> = (0..20_000).map(|number| stack(&[&format!("g{number}")], 1_000)).collect();
        let mut root = Node::default();
        root.add(deep.frames.iter().map(String::as_str), &deep);
        for one in &wide {
            root.add(one.frames.iter().map(String::as_str), one);
        }
        let (markup, depth, left_out) = boxes(&root);
        assert!(depth <= MOST_DEPTH && left_out > 0 && markup.matches("<span").count() <= MOST_BOXES);
    }
}
