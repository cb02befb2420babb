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
const MOST_DEPTH: usize = 128;
/// Frames at the root that this share of a program's time has in common are folded into one, from so many on.
const IN_COMMON: f64 = 0.98;
const LEAST_FOLDED: usize = 3;
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
    /// It stands for frames in common: the number of their fold.
    fold: Option<usize>,
}

impl<'a> Node<'a> {
    /// Adds a stack; without recursion, for stacks may be deep.
    fn add(&mut self, frames: impl Iterator<Item = (&'a str, Option<usize>)>, stack: &Stack) {
        self.ns += stack.ns;
        self.samples += stack.samples;
        let mut node = self;
        for (frame, fold) in frames.take(MOST_DEPTH) {
            node = node.callees.entry(frame).or_default();
            node.ns += stack.ns;
            node.samples += stack.samples;
            node.fold = fold;
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
    let folds = folds(stacks);
    let mut root = Node::default();
    let mut deeper = 0;
    for stack in stacks {
        let fold = folds.iter().position(|fold| stack.frames.starts_with(fold.frames));
        let rest = &stack.frames[fold.map_or(0, |fold| folds[fold].frames.len())..];
        let folded = fold.map(|fold| (folds[fold].name.as_str(), Some(fold)));
        let class = std::iter::once((stack.class.as_str(), None));
        root.add(class.chain(folded).chain(rest.iter().map(|frame| (frame.as_str(), None))), stack);
        deeper = deeper.max((rest.len() + 2).saturating_sub(MOST_DEPTH));
    }
    let drawn = boxes(&root, &folds, index);
    let class = part_named(part).unwrap_or(Part::Unattributed);
    let mut aside = String::new();
    if drawn.left_out > 0 {
        aside.push_str(&format!(", {} narrow boxes left out", drawn.left_out));
    }
    if deeper > 0 {
        aside.push_str(&format!(", up to {deeper} frames deeper down left out"));
    }
    let more = match folds.iter().map(|fold| fold.frames.len()).max() {
        Some(rows) => format!(" + var(--open, 0) * {}px", rows * ROW),
        None => String::new(),
    };
    format!(
        "<div class=\"card figure\"><h3>{}{} <span class=\"aside\">{}; {}, {} samples{aside}</span></h3>{}\
         <div class=\"flame p-{}\" data-zoom=\"code-{index}\" data-ns=\"{}\"><div class=\"pane\" tabindex=\"0\" role=\"group\" \
         aria-label=\"Flame chart of {}; the functions with the most time stand in the table below\">\
         <div class=\"inner\" style=\"height:calc({}px{more})\">{}</div></div></div>{}</div>",
        swatch(class),
        escaped(part),
        escaped(words_of(part)),
        time(root.ns as f64),
        count(root.samples),
        opener(&folds, index),
        class.name(),
        root.ns,
        escaped(part),
        drawn.depth * ROW,
        drawn.markup,
        functions(stacks, root.ns)
    )
}

/// Frames that are drawn as one.
struct Fold<'a> {
    frames: &'a [String],
    name: String,
}

/// The frames in common of each program, which is the first frame of a stack.
fn folds<'a>(stacks: &[&'a Stack]) -> Vec<Fold<'a>> {
    let mut of_program: BTreeMap<&str, Vec<&'a Stack>> = BTreeMap::new();
    for stack in stacks {
        of_program.entry(first(&stack.frames)).or_default().push(stack);
    }
    let folded = of_program.values().map(|stacks| in_common(stacks)).filter(|frames| !frames.is_empty());
    folded
        .map(|frames| Fold {
            frames,
            name: format!("{} frames in common: {} \u{2026} {}", frames.len(), first(frames), last(frames)),
        })
        .collect()
}

/// The frames at the root that nearly all of the time has in common; none if they are too few to be in the way.
fn in_common<'a>(stacks: &[&'a Stack]) -> &'a [String] {
    let whole: u64 = stacks.iter().map(|stack| stack.ns).sum();
    let Some(longest) = stacks.iter().max_by_key(|stack| stack.ns) else { return &[] };
    // Of each stack, how many frames it has in common with the longest one; the last frame of a stack is where it
    // differs from others, even if it has all of theirs.
    let of = |stack: &Stack| {
        let equal = stack.frames.iter().zip(&longest.frames).take_while(|(own, other)| own == other).count();
        equal.min(stack.frames.len().saturating_sub(1))
    };
    let mut lengths: Vec<(usize, u64)> = stacks.iter().map(|stack| (of(stack), stack.ns)).collect();
    lengths.sort_unstable();
    // The longest beginning without which less than the rest would be left.
    let mut without = 0;
    let mut common = 0;
    for (length, ns) in lengths {
        common = length;
        without += ns;
        if share(without as f64, whole as f64) > 1.0 - IN_COMMON {
            break;
        }
    }
    if common >= LEAST_FOLDED { &longest.frames[..common] } else { &[] }
}

fn first(frames: &[String]) -> &str {
    frames.first().map_or("", String::as_str)
}

fn last(frames: &[String]) -> &str {
    frames.last().map_or("", String::as_str)
}

/// What opens the folded frames; it works without a script.
fn opener(folds: &[Fold<'_>], index: usize) -> String {
    if folds.is_empty() {
        return String::new();
    }
    let each: Vec<String> = folds
        .iter()
        .map(|fold| {
            let (from, to) = (short(first(fold.frames), MOST_NAME), short(last(fold.frames), MOST_NAME));
            format!("{} from {from} to {to}", fold.frames.len())
        })
        .collect();
    format!(
        "<p class=\"opener\"><input type=\"checkbox\" id=\"open-{index}\"> <label for=\"open-{index}\">show the frames that stacks \
         have in common: {}</label></p>",
        each.join(", ")
    )
}

/// The boxes of a chart.
struct Boxes {
    markup: String,
    /// Rows, the folded frames being one.
    depth: usize,
    /// Boxes that are too narrow, or too many.
    left_out: usize,
}

/// A node that is to be drawn, from where on, and how many rows opening the fold above it moves it down.
type Below<'n, 'a> = (u64, &'n Node<'a>, usize);

/// The boxes from the top down.
fn boxes(root: &Node<'_>, folds: &[Fold<'_>], index: usize) -> Boxes {
    let mut drawn = Boxes { markup: String::new(), depth: 0, left_out: 0 };
    let mut boxes = 0;
    let mut row: Vec<Below<'_, '_>> = vec![(0, root, 0)];
    while !row.is_empty() {
        let mut below = Vec::new();
        for (from_ns, node, shift) in row {
            let mut at_ns = from_ns;
            let mut callees: Vec<(&&str, &Node<'_>)> = node.callees.iter().collect();
            callees.sort_by_key(|(_, callee)| std::cmp::Reverse(callee.ns));
            for (name, callee) in callees {
                let part = share(callee.ns as f64, root.ns as f64);
                let folded = callee.fold.map_or(&[][..], |fold| folds[fold].frames);
                let needed = 1 + folded.len();
                if part < LEAST_SHARE || boxes + needed > MOST_BOXES {
                    drawn.left_out += 1;
                    continue;
                }
                boxes += needed;
                let place = Place { left: share(at_ns as f64, root.ns as f64), width: part, row: drawn.depth };
                let hint = format!(
                    ": {}, {}, {} samples",
                    nanoseconds(callee.ns as f64),
                    percent(part),
                    count(callee.samples)
                );
                if callee.fold.is_some() {
                    drawn.markup.push_str(&place.fold(name, &hint, index));
                } else {
                    drawn.markup.push_str(&place.frame(name, &hint, "", shift));
                }
                for (down, frame) in folded.iter().enumerate() {
                    let own = Place { row: place.row + 1 + down, ..place };
                    drawn.markup.push_str(&own.frame(frame, &hint, "f-in", 0));
                }
                below.push((at_ns, callee, shift + folded.len()));
                at_ns += callee.ns;
            }
        }
        row = below;
        drawn.depth += usize::from(!row.is_empty());
    }
    drawn
}

/// A box's place, as shares of the chart's width.
#[derive(Clone, Copy)]
struct Place {
    left: f64,
    width: f64,
    row: usize,
}

impl Place {
    /// A frame's box; opening what is folded moves it down by `shift` rows.
    fn frame(self, name: &str, hint: &str, class: &str, shift: usize) -> String {
        let top = match shift {
            0 => format!("{}px", self.row * ROW),
            shift => format!("calc({}px + var(--open, 0) * {}px)", self.row * ROW, shift * ROW),
        };
        format!(
            "<span class=\"f f{} {class}\" style=\"left:{};width:{};top:{top}\" title=\"{}{}\">{}</span>",
            shade(name),
            fraction(self.left),
            fraction(self.width),
            short(name, MOST_HINT),
            escaped(hint),
            short(name, MOST_NAME)
        )
    }

    /// The box of the folded frames, which opens them.
    fn fold(self, name: &str, hint: &str, index: usize) -> String {
        format!(
            "<label class=\"f f-fold\" for=\"open-{index}\" style=\"left:{};width:{};top:{}px\" title=\"{}{}\">{}</label>",
            fraction(self.left),
            fraction(self.width),
            self.row * ROW,
            short(name, MOST_HINT),
            escaped(hint),
            short(name, MOST_NAME)
        )
    }
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
            root.add(one.frames.iter().map(|frame| (frame.as_str(), None)), one);
        }
        let Boxes { markup, depth, left_out } = boxes(&root, &[], 0);
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
        root.add(deep.frames.iter().map(|frame| (frame.as_str(), None)), &deep);
        for one in &wide {
            root.add(one.frames.iter().map(|frame| (frame.as_str(), None)), one);
        }
        let Boxes { markup, depth, left_out } = boxes(&root, &[], 0);
        assert!(depth <= MOST_DEPTH && left_out > 0 && markup.matches("<span").count() <= MOST_BOXES);
    }

    #[test]
    fn frames_that_all_have_in_common_are_one_box_that_opens() {
        let path = ["start", "main", "loop", "handle"];
        let with = |last: &[&str], ns| stack(&[&path[..], last].concat(), ns);
        let stacks = [with(&["a", "b"], 600), with(&["c"], 390), stack(&["idle"], 400)];
        let shown = chart(3, "run", &stacks.iter().collect::<Vec<_>>());
        assert_eq!(shown.matches("class=\"f f-fold\"").count(), 1, "{shown}");
        for (name, top) in [("a", "calc(38px + var(--open, 0) * 76px)"), ("b", "calc(57px + var(--open, 0) * 76px)")] {
            assert!(shown.contains(&format!("top:{top}\" title=\"{name}:")), "{name} is not below the fold in {shown}");
        }
        // What has other frames at its root stays where it is.
        assert!(shown.contains("top:19px\" title=\"idle:"), "{shown}");
        assert_eq!(shown.matches(" f-in\"").count(), 4);
        assert!(
            shown.contains("height:calc(76px + var(--open, 0) * 76px)") && shown.contains("id=\"open-3\""),
            "{shown}"
        );
        // Another program has other frames in common; what differs from all of its own program's stays whole.
        let other = ["boot", "serve", "poll", "read"].map(str::to_owned).to_vec();
        let two = [with(&["a"], 600), with(&["b"], 300), Stack { frames: other.clone(), ..stack(&[], 200) }];
        assert_eq!(
            folds(&two.iter().collect::<Vec<_>>()).iter().map(|fold| fold.frames.len()).collect::<Vec<_>>(),
            [3, 4]
        );
        let few = Stack { frames: vec!["start".to_owned(), "elsewhere".to_owned()], ..stack(&[], 5) };
        assert_eq!(in_common(&[&two[0], &two[1], &few]).len(), 4, "0.6 % take another way");
        let short = [stack(&["main", "a"], 600), stack(&["main", "b"], 300)];
        assert!(!chart(0, "run", &short.iter().collect::<Vec<_>>()).contains("f-fold"), "one frame is in no way");
    }
}
