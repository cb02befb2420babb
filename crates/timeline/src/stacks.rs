//! The tree of stacks as a recording tells it, with the names of its frames.

use rustc_hash::FxHashMap;
use std::sync::Arc;
use weir_wire::stack::{Frame, ROOT, StackNode, StackObject};
use weir_wire::{Kind, Record, Slot, text_from_slots};

/// Nodes that are remembered; a stack that would need more ends earlier.
const MOST_NODES: usize = 1 << 20;
/// Names of frames that are remembered; what comes after has the name of its file.
const MOST_NAMES: usize = 1 << 19;
/// Frames of a stack that are given.
const MOST_FRAMES: usize = 512;

/// What a recording tells of stacks.
///
/// It tells everything anew from time to time, under other numbers; here each stack has one number.
#[derive(Debug, Default)]
pub struct Stacks {
    /// By its number less one: its parent, and its frame.
    nodes: Vec<(u32, Frame)>,
    numbers: FxHashMap<(u32, Frame), u32>,
    /// The numbers of the nodes as they are told now.
    told: FxHashMap<u32, u32>,
    names: FxHashMap<Frame, Arc<str>>,
    /// Names that are frames of their own: their frames, and the numbers as they are told now.
    named: FxHashMap<Arc<str>, u64>,
    told_named: FxHashMap<u64, u64>,
    objects: FxHashMap<u16, Arc<str>>,
}

impl Stacks {
    /// Takes a record that tells of frames; others are left alone.
    pub fn push(&mut self, record: &Record, payload: &[Slot]) {
        if let Some(node) = StackNode::read(record) {
            self.node(node);
        } else if record.kind == Kind::StackSymbol as u16 {
            self.symbol(Frame(record.a), &text_from_slots(payload));
        } else if let Some(object) = StackObject::read(record, payload) {
            let name = object.path.rsplit('/').next().unwrap_or_default();
            // Some are in brackets already, as they are no files.
            let name = name.trim_matches(['[', ']']);
            self.objects.insert(object.object, Arc::from(format!("[{name}]")));
        }
    }

    /// The number of a stack by the one that it was told under; [`ROOT`] if it was not.
    #[must_use]
    pub fn number(&self, told: u32) -> u32 {
        self.told.get(&told).copied().unwrap_or(ROOT)
    }

    /// What a stack's frames are called, the outermost first; empty for [`ROOT`].
    ///
    /// Functions of the kernel end in `_[k]`, as other tools of flame charts have it. A function without a name is
    /// called by its file.
    #[must_use]
    pub fn frames(&self, number: u32) -> Vec<Arc<str>> {
        let mut frames = Vec::new();
        let mut at = number;
        while let Some((parent, frame)) = at.checked_sub(1).and_then(|index| self.nodes.get(index as usize))
            && frames.len() < MOST_FRAMES
        {
            frames.push(self.name(*frame));
            at = *parent;
        }
        frames.reverse();
        frames
    }

    /// Whether a stack's innermost frame is the kernel's: the task was in a system call, a fault or an interrupt.
    #[must_use]
    pub fn in_kernel(&self, number: u32) -> bool {
        let innermost = number.checked_sub(1).and_then(|index| self.nodes.get(index as usize));
        innermost.is_some_and(|(_, frame)| frame.object() == Frame::KERNEL)
    }

    /// How many things are held in memory.
    #[must_use]
    pub fn held(&self) -> usize {
        self.nodes.len() + self.told.len() + self.names.len() + self.named.len() + self.told_named.len()
    }

    fn node(&mut self, told: StackNode) {
        let parent = self.number(told.parent);
        let frame = match told.frame.object() {
            Frame::NAMED => {
                let number = self.told_named.get(&told.frame.offset()).copied().unwrap_or(0);
                Frame::new(Frame::NAMED, number)
            }
            _ => told.frame,
        };
        let number = match self.numbers.get(&(parent, frame)) {
            Some(number) => *number,
            None if self.nodes.len() >= MOST_NODES => parent,
            None => {
                self.nodes.push((parent, frame));
                let number = self.nodes.len() as u32;
                self.numbers.insert((parent, frame), number);
                number
            }
        };
        // Of earlier numbers none is told any more.
        if self.told.len() >= 2 * MOST_NODES {
            self.told.clear();
        }
        self.told.insert(told.node, number);
    }

    fn symbol(&mut self, frame: Frame, name: &str) {
        let has_room = self.names.len() < MOST_NAMES;
        if frame.object() != Frame::NAMED {
            if has_room {
                self.names.insert(frame, Arc::from(name));
            }
            return;
        }
        let number = match self.named.get(name) {
            Some(number) => *number,
            // Its number may have been another name's in the generation before: now it is none's.
            None if !has_room => 0,
            None => {
                let (number, name) = (self.named.len() as u64 + 1, Arc::<str>::from(name));
                self.named.insert(Arc::clone(&name), number);
                self.names.insert(Frame::new(Frame::NAMED, number), name);
                number
            }
        };
        if self.told_named.len() < MOST_NAMES || self.told_named.contains_key(&frame.offset()) {
            self.told_named.insert(frame.offset(), number);
        }
    }

    fn name(&self, frame: Frame) -> Arc<str> {
        let name = self.names.get(&frame);
        match (frame.object(), name) {
            (Frame::KERNEL, Some(name)) => Arc::from(format!("{name}_[k]")),
            (Frame::KERNEL, None) => Arc::from("[kernel]_[k]"),
            (_, Some(name)) => Arc::clone(name),
            (object, None) => self.objects.get(&object).map_or_else(|| Arc::from("[no file]"), Arc::clone),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_wire::stack::symbol;

    fn tell(stacks: &mut Stacks, (record, slots): (Record, Vec<Slot>)) {
        stacks.push(&record, &slots);
    }

    fn names(stacks: &Stacks, told: u32) -> Vec<String> {
        stacks.frames(stacks.number(told)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_stack_has_one_number_however_often_it_is_told() {
        let mut stacks = Stacks::default();
        let object = StackObject { object: 1, build_id: vec![1], path: "/usr/sbin/nginx".to_owned() };
        let (record, slots) = object.write(0);
        stacks.push(&record, &slots);
        let php = |number| Frame::new(Frame::NAMED, number);
        for (base, number) in [(10, 1), (20, 2)] {
            tell(&mut stacks, symbol(php(number), "php: render (a.php:3)", 0));
            tell(&mut stacks, symbol(php(3 - number), "php: other (a.php:9)", 0));
            let frames = [Frame::new(1, 100), php(number), Frame::new(Frame::KERNEL, 7), Frame::new(1, 300)];
            for (index, frame) in frames.into_iter().enumerate() {
                let (node, parent) = (base + index as u32, if index == 0 { ROOT } else { base + index as u32 - 1 });
                stacks.push(&StackNode { node, parent, frame }.write(0), &[]);
            }
        }
        tell(&mut stacks, symbol(Frame::new(1, 100), "main", 0));
        tell(&mut stacks, symbol(Frame::new(Frame::KERNEL, 7), "schedule", 0));
        assert_eq!(stacks.number(13), stacks.number(23));
        assert_eq!([22, 23, 99].map(|told| stacks.in_kernel(stacks.number(told))), [true, false, false]);
        assert_eq!(names(&stacks, 23), ["main", "php: render (a.php:3)", "schedule_[k]", "[nginx]"]);
        assert_eq!((stacks.number(99), names(&stacks, 99).len()), (ROOT, 0));
    }

    #[test]
    fn a_name_without_room_is_none_and_not_another_ones() {
        let mut stacks = Stacks::default();
        let php = Frame::new(Frame::NAMED, 1);
        tell(&mut stacks, symbol(php, "php: first", 0));
        for offset in 0..MOST_NAMES as u64 {
            tell(&mut stacks, symbol(Frame::new(1, offset), "f", 0));
        }
        // A generation later the same number is another name's.
        tell(&mut stacks, symbol(php, "php: second", 0));
        stacks.push(&StackNode { node: 1, parent: ROOT, frame: php }.write(0), &[]);
        assert_eq!(names(&stacks, 1), ["[no file]"]);
        tell(&mut stacks, symbol(php, "php: first", 0));
        stacks.push(&StackNode { node: 2, parent: ROOT, frame: php }.write(0), &[]);
        assert_eq!(names(&stacks, 2), ["php: first"]);
        assert!(stacks.names.len() <= MOST_NAMES);
    }

    proptest! {
        #[test]
        fn no_records_break_it(records in proptest::collection::vec(
            (0x0500u16..0x0506, any::<[u64; 2]>(), 0u32..40, proptest::collection::vec(any::<Slot>(), 0..4)), 0..200)
        ) {
            let mut stacks = Stacks::default();
            for (kind, [a, b], small, payload) in records {
                // Small numbers meet each other, and large ones are what damage looks like.
                let a = if a % 2 == 0 { u64::from(small % 8) | u64::from(small / 8) << 32 } else { a };
                stacks.push(&Record { kind, a, b, ..Record::default() }, &payload);
                prop_assert!(stacks.frames(stacks.number(small)).len() <= MOST_FRAMES);
            }
        }
    }
}
