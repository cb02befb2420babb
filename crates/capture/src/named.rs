//! The names of files as the probes tell them: a key, and the components of the path from the last one backwards.

use weir_wire::watched::NAMED_FILE;
use weir_wire::{Kind, Record, Slot, text_slots};

/// Pieces of a name, as numbered in files.h.
const KEY: usize = 0;
const DEVICE: usize = 1;
const TEXT: usize = 2;
const DEPTH: usize = 6;
const WORDS: usize = 8;
const END: usize = 63;
/// Bytes of a name that a record holds.
const MOST_BYTES: usize = 250;

/// Puts a name together; its pieces stand in a row, but an interrupt's events may stand between.
#[derive(Debug, Default)]
pub(crate) struct Naming {
    time_ns: u64,
    key: Option<u64>,
    device: u64,
    text: [[u64; WORDS]; DEPTH],
}

impl Naming {
    /// Takes a piece; gives the record when it was the last one.
    pub(crate) fn piece(&mut self, time_ns: u64, cpu: u32, piece: usize, argument: u64) -> Option<(Record, Vec<Slot>)> {
        if piece == KEY {
            *self = Self { time_ns, key: Some(argument), ..Self::default() };
        }
        if time_ns != self.time_ns {
            return None;
        }
        match piece {
            DEVICE => self.device = argument,
            END => {
                let key = self.key.take()?;
                let slots = text_slots(&self.path(argument != 0)?);
                let record = Record {
                    time_ns,
                    kind: Kind::Named as u16,
                    flags: NAMED_FILE,
                    lane: cpu,
                    a: key,
                    b: self.device,
                    ..Record::default()
                };
                return Some((record, slots));
            }
            _ => {
                let word = piece.checked_sub(TEXT).filter(|word| *word < DEPTH * WORDS)?;
                self.text[word / WORDS][word % WORDS] = argument;
            }
        }
        None
    }

    /// The path, or its end where it is long or deep; nothing if there was no name.
    fn path(&self, whole: bool) -> Option<String> {
        let mut path = String::new();
        let mut whole = whole;
        for component in &self.text {
            let bytes: Vec<u8> = component.iter().flat_map(|word| word.to_le_bytes()).collect();
            let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            if length == 0 {
                break;
            }
            let name = String::from_utf8_lossy(&bytes[..length]);
            if path.len() + name.len() >= MOST_BYTES {
                whole = false;
                break;
            }
            path.insert_str(0, &name);
            path.insert(0, '/');
        }
        if !whole && !path.is_empty() {
            path.insert(0, '…');
        }
        (!path.is_empty()).then_some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_wire::text_from_slots;

    fn words(text: &str) -> Vec<u64> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(bytes.len().div_ceil(8) * 8, 0);
        bytes.chunks_exact(8).map(|raw| raw.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))).collect()
    }

    fn tell(components: &[&str], whole: bool) -> Option<(Record, String)> {
        let mut naming = Naming::default();
        assert!(naming.piece(5, 1, KEY, 77).is_none() && naming.piece(5, 1, DEVICE, 254 << 20).is_none());
        for (depth, component) in components.iter().enumerate() {
            for (index, word) in words(component).into_iter().enumerate() {
                assert!(naming.piece(5, 1, TEXT + depth * WORDS + index, word).is_none());
                assert!(naming.piece(6, 1, END, 1).is_none(), "a piece of another time is another name's");
            }
        }
        naming.piece(5, 1, END, u64::from(whole)).map(|(record, slots)| (record, text_from_slots(&slots)))
    }

    #[test]
    fn a_path_is_put_together_backwards() {
        let (record, text) = tell(&["index.html", "html", "www"], true).expect("a name");
        assert_eq!((record.a, record.b, record.flags), (77, 254 << 20, NAMED_FILE));
        assert_eq!(text, "/www/html/index.html");
        let (_, text) = tell(&["f", "e", "d", "c", "b", "a"], false).expect("a name");
        assert_eq!(text, "…/a/b/c/d/e/f");
        assert_eq!(tell(&[], true), None);
    }

    #[test]
    fn a_long_path_keeps_its_end() {
        let long = "x".repeat(63);
        let (_, text) = tell(&["leaf", &long, &long, &long, &long], true).expect("a name");
        assert!(text.starts_with('…') && text.ends_with("/leaf") && text.len() <= 255, "{text}");
    }

    proptest! {
        #[test]
        fn no_pieces_break_it(pieces in proptest::collection::vec((0usize..80, any::<u64>(), 0u64..3), 0..200)) {
            let mut naming = Naming::default();
            for (piece, argument, time_ns) in pieces {
                if let Some((_, slots)) = naming.piece(time_ns, 0, piece, argument) {
                    prop_assert!(!text_from_slots(&slots).is_empty() && slots.len() <= weir_wire::MAX_SLOTS);
                }
            }
        }
    }
}
