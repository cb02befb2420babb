//! Sampled stacks of a trace, as the tree that a run has of them.

use crate::Event;
use crate::event::shortened;
use crate::lanes::Lanes;
use rustc_hash::FxHashMap;
use weir_wire::Record;
use weir_wire::stack::{Frame, ROOT, StackNode, StackSample, symbol};

/// Nodes of the tree, and names in it.
const NODES_MAX: usize = 1 << 20;
/// Frames of one stack; the outermost beyond are left out.
const DEPTH_MAX: usize = 512;

/// The tree so far.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    nodes: FxHashMap<(u32, Frame), u32>,
    frames: FxHashMap<Box<str>, Frame>,
}

impl Samples {
    /// Takes a stack, the innermost frame first, a line each; it stands for so many nanoseconds.
    pub(crate) fn push(&mut self, event: &Event<'_>, (stack, weight_ns): (&str, u64), lanes: &mut Lanes<'_>) {
        let Some(pid) = event.task else { return lanes.skip("stacks of which task is not told") };
        let (at_ns, lane) = (event.at_ns, event.cpu.unwrap_or(0));
        let mut node = ROOT;
        let frames: Vec<&str> = stack.lines().take(DEPTH_MAX).collect();
        for name in frames.iter().rev() {
            let Some(frame) = self.frame(name, (at_ns, lane), lanes) else {
                return lanes.skip("stacks beyond the bound");
            };
            let next = self.nodes.len() as u32 + 1;
            let is_full = self.nodes.len() >= NODES_MAX;
            node = match self.nodes.get(&(node, frame)) {
                Some(known) => *known,
                None if is_full => return lanes.skip("stacks beyond the bound"),
                None => {
                    let record = StackNode { node: next, parent: node, frame }.write(at_ns);
                    lanes.push(Record { lane, ..record }, &[], None);
                    self.nodes.insert((node, frame), next);
                    next
                }
            };
        }
        let (record, payload) = StackSample { pid, node, at_ns, weight_ns, blocked: false }.write(at_ns);
        lanes.push(Record { lane, ..record }, &payload, None);
    }

    fn frame(&mut self, name: &str, (at_ns, lane): (u64, u32), lanes: &mut Lanes<'_>) -> Option<Frame> {
        let name = shortened(name);
        if let Some(known) = self.frames.get(name) {
            return Some(*known);
        }
        if self.frames.len() >= NODES_MAX {
            return None;
        }
        let frame = Frame::new(Frame::NAMED, self.frames.len() as u64 + 1);
        let (record, payload) = symbol(frame, name, at_ns);
        lanes.push(Record { lane, ..record }, &payload, None);
        self.frames.insert(name.into(), frame);
        Some(frame)
    }
}
