//! Sampled stacks: a tree of frames, samples that point to its nodes, and what the frames are called.

use crate::{Kind, Record, Slot, text_from_slots, text_slots};

/// Flag of a sample: the task was blocked.
pub const BLOCKED: u8 = 1;
/// The node that is every stack's root; it has no frame.
pub const ROOT: u32 = 0;

/// Where a frame is: an object's number in the high 16 bits, an offset within it in the low 48.
///
/// An object is a file that code is mapped from, the offset is that in the file; so the frames of all processes that
/// run a program are the same, wherever it is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame(pub u64);

impl Frame {
    /// The kernel; offsets count from its text's begin.
    pub const KERNEL: u16 = 0;
    /// Code that is mapped from no file, such as a compiler's at run time.
    pub const NO_FILE: u16 = 0xfffe;
    /// Not an address but a name that the source made up, such as a function of an interpreter; the offset is a number.
    pub const NAMED: u16 = 0xffff;

    /// A place in an object.
    #[must_use]
    pub fn new(object: u16, offset: u64) -> Self {
        Self(u64::from(object) << 48 | offset & 0xffff_ffff_ffff)
    }

    /// The object.
    #[must_use]
    pub fn object(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// The place in it.
    #[must_use]
    pub fn offset(self) -> u64 {
        self.0 & 0xffff_ffff_ffff
    }
}

/// A task's stack at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackSample {
    /// The task.
    pub pid: u32,
    /// The node of its innermost frame.
    pub node: u32,
    /// When, nanoseconds: the record itself has the time at which it was told.
    pub at_ns: u64,
    /// The time between two samples, which this one stands for, nanoseconds.
    pub weight_ns: u64,
    /// Whether the task was blocked; such a stack is told once for as long as the task stays blocked.
    pub blocked: bool,
}

impl StackSample {
    /// The sample of a record, if it is one.
    #[must_use]
    pub fn read(record: &Record, payload: &[Slot]) -> Option<Self> {
        let slot = payload.first().filter(|_| record.kind == Kind::StackSample as u16)?;
        let (pid, node) = record.a_halves();
        let blocked = record.flags & BLOCKED != 0;
        Some(Self { pid, node, at_ns: record.b, weight_ns: slot[0], blocked })
    }

    /// Its record, told at `time_ns`, with its payload.
    #[must_use]
    pub fn write(self, time_ns: u64) -> (Record, [Slot; 1]) {
        let record = Record {
            time_ns,
            kind: Kind::StackSample as u16,
            flags: if self.blocked { BLOCKED } else { 0 },
            slots: 1,
            a: u64::from(self.pid) | u64::from(self.node) << 32,
            b: self.at_ns,
            ..Record::default()
        };
        (record, [[self.weight_ns, 0, 0, 0]])
    }
}

/// A node of the tree of stacks: a frame called by its parent's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackNode {
    /// Its number, above its parent's.
    pub node: u32,
    /// The caller's node, [`ROOT`] for an outermost frame.
    pub parent: u32,
    /// The frame.
    pub frame: Frame,
}

impl StackNode {
    /// The node of a record, if it is one. A parent that is not below its node is damage: there could be a circle.
    #[must_use]
    pub fn read(record: &Record) -> Option<Self> {
        let (node, parent) = record.a_halves();
        let sound = record.kind == Kind::StackNode as u16 && parent < node;
        sound.then_some(Self { node, parent, frame: Frame(record.b) })
    }

    /// Its record.
    #[must_use]
    pub fn write(self, time_ns: u64) -> Record {
        Record {
            time_ns,
            kind: Kind::StackNode as u16,
            a: u64::from(self.node) | u64::from(self.parent) << 32,
            b: self.frame.0,
            ..Record::default()
        }
    }
}

/// A file that code is mapped from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackObject {
    /// Its number in frames.
    pub object: u16,
    /// The linker's identification of its content, at most 24 bytes; empty where it has none.
    pub build_id: Vec<u8>,
    /// Its path where it was mapped, the end of it where it is long.
    pub path: String,
}

/// The bytes of a path that find room.
const MOST_PATH: usize = 7 * 32 - 1;
/// The bytes of a build id that find room beside its length.
const MOST_BUILD_ID: usize = 24;

impl StackObject {
    /// The object of a record, if it is one.
    #[must_use]
    pub fn read(record: &Record, payload: &[Slot]) -> Option<Self> {
        let (first, text) = payload.split_first().filter(|_| record.kind == Kind::StackObject as u16)?;
        let bytes = first.iter().take(MOST_BUILD_ID / 8).flat_map(|word| word.to_le_bytes());
        let length = (record.b as usize).min(MOST_BUILD_ID);
        Some(Self { object: record.a as u16, build_id: bytes.take(length).collect(), path: text_from_slots(text) })
    }

    /// Its record with its payload.
    #[must_use]
    pub fn write(&self, time_ns: u64) -> (Record, Vec<Slot>) {
        let id = &self.build_id[..self.build_id.len().min(MOST_BUILD_ID)];
        let mut first = Slot::default();
        for (word, bytes) in first.iter_mut().zip(id.chunks(8)) {
            *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
        let mut begin = self.path.len().saturating_sub(MOST_PATH);
        while !self.path.is_char_boundary(begin) {
            begin += 1;
        }
        let mut slots = vec![first];
        slots.extend(text_slots(&self.path[begin..]));
        let record = Record {
            time_ns,
            kind: Kind::StackObject as u16,
            slots: slots.len() as u8,
            a: u64::from(self.object),
            b: id.len() as u64,
            ..Record::default()
        };
        (record, slots)
    }
}

/// The name of a frame, as a record with its payload; a name of more than 255 bytes is cut.
#[must_use]
pub fn symbol(frame: Frame, name: &str, time_ns: u64) -> (Record, Vec<Slot>) {
    let slots = text_slots(name);
    let kind = Kind::StackSymbol as u16;
    (Record { time_ns, kind, slots: slots.len() as u8, a: frame.0, ..Record::default() }, slots)
}

/// A remark on the sampling, with the samples that it cost, as a record with its payload.
#[must_use]
pub fn note(samples: u64, text: &str, time_ns: u64) -> (Record, Vec<Slot>) {
    let slots = text_slots(text);
    let kind = Kind::StackNote as u16;
    (Record { time_ns, kind, slots: slots.len() as u8, a: samples, ..Record::default() }, slots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn samples_and_nodes_survive_the_round_trip(
            (pid, node, at_ns, weight_ns, blocked) in any::<(u32, u32, u64, u64, bool)>(),
            frame in any::<u64>(),
            parent in any::<u32>(),
        ) {
            let sample = StackSample { pid, node, at_ns, weight_ns, blocked };
            let (record, slots) = sample.write(7);
            prop_assert_eq!(StackSample::read(&record, &slots), Some(sample));
            let entry = StackNode { node, parent, frame: Frame(frame) };
            prop_assert_eq!(StackNode::read(&entry.write(7)), (parent < node).then_some(entry));
            let frame = Frame(frame);
            prop_assert_eq!(Frame::new(frame.object(), frame.offset()), frame);
        }

        #[test]
        fn objects_survive_up_to_their_bounds(
            object in any::<u16>(), build_id in proptest::collection::vec(any::<u8>(), 0..30), path in ".{0,300}",
        ) {
            let told = StackObject { object, build_id, path };
            let (record, slots) = told.write(7);
            let back = StackObject::read(&record, &slots).expect("an object");
            prop_assert!(slots.len() <= crate::MAX_SLOTS);
            prop_assert_eq!(&back.build_id[..], &told.build_id[..told.build_id.len().min(24)]);
            prop_assert!(told.path.ends_with(&back.path));
            prop_assert!(back.path.len() == told.path.len() || back.path.len() > 215);
        }

        #[test]
        fn no_words_break_the_readers(slot in any::<[u64; 4]>(), payload in proptest::collection::vec(any::<[u64; 4]>(), 0..9)) {
            for kind in [Kind::StackSample, Kind::StackNode, Kind::StackObject] {
                let record = Record { kind: kind as u16, ..Record::from_slot(slot) };
                let _ = (StackSample::read(&record, &payload), StackObject::read(&record, &payload));
                prop_assert!(StackNode::read(&record).is_none_or(|node| node.parent < node.node));
            }
        }
    }
}
