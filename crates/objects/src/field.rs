//! The fields of an event, by the names that the table of kinds gives its operands.

use weir_wire::{Kind, Record, Slot};

/// What the record itself does not hold, but what is known at its time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Context {
    /// The task that has the record's CPU, 0 if none or unknown.
    pub(crate) running: u32,
    /// The number of the record's text among all texts, 0 for none.
    pub(crate) text: u64,
    /// What a hit of a probe means, bits as in [`weir_wire::probe`].
    pub(crate) roles: u16,
}

/// Where a field's value stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    A { shift: u8, bits: u8 },
    B { shift: u8, bits: u8 },
    Payload(usize),
    Lane,
    Flags,
    Running,
    Text,
    Roles,
}

/// Fields that every event has.
const OF_ALL: [(&str, Field); 5] = [
    ("lane", Field::Lane),
    ("flags", Field::Flags),
    ("running", Field::Running),
    ("a", Field::A { shift: 0, bits: WORD_BITS }),
    ("b", Field::B { shift: 0, bits: WORD_BITS }),
];
/// Fields of events with a text.
const OF_TEXTS: [(&str, Field); 2] = [("text", Field::Text), ("roles", Field::Roles)];
const WORD_BITS: u8 = 64;

impl Field {
    /// The field of a kind that has this name.
    pub(crate) fn of_name(kind: Kind, name: &str) -> Option<Self> {
        fields(kind).into_iter().find(|(own, _)| own == name).map(|(_, field)| field)
    }

    #[inline]
    pub(crate) fn value(self, record: &Record, payload: &[Slot], context: &Context) -> u64 {
        let cut = |word: u64, shift: u8, bits: u8| {
            let moved = word >> shift;
            if bits >= WORD_BITS { moved } else { moved & ((1 << bits) - 1) }
        };
        match self {
            Self::A { shift, bits } => cut(record.a, shift, bits),
            Self::B { shift, bits } => cut(record.b, shift, bits),
            Self::Payload(word) => payload.get(word / 4).map_or(0, |slot| slot[word % 4]),
            Self::Lane => u64::from(record.lane),
            Self::Flags => u64::from(record.flags),
            Self::Running => u64::from(context.running),
            Self::Text => context.text,
            Self::Roles => u64::from(context.roles),
        }
    }
}

/// All fields of a kind.
pub(crate) fn fields(kind: Kind) -> Vec<(String, Field)> {
    let spec = kind.spec();
    let mut fields: Vec<(String, Field)> = OF_ALL.iter().map(|(name, field)| ((*name).to_owned(), *field)).collect();
    let words = |text: &str| pieces(text);
    fields.extend(words(spec.a).into_iter().map(|(name, shift, bits)| (name, Field::A { shift, bits })));
    fields.extend(words(spec.b).into_iter().map(|(name, shift, bits)| (name, Field::B { shift, bits })));
    if spec.b.starts_with("dictionary id") {
        fields.extend(OF_TEXTS.iter().map(|(name, field)| ((*name).to_owned(), *field)));
    }
    // A payload of plain words has a name for each; one of other things has words that are no names.
    let names: Vec<&str> = spec.payload.split(", ").collect();
    if names.iter().all(|name| is_name(name)) {
        fields.extend(names.iter().enumerate().map(|(word, name)| ((*name).to_owned(), Field::Payload(word))));
    }
    fields
}

/// The names of an operand with where they begin and how many bits they have: "pid | tgid << 32".
fn pieces(operand: &str) -> Vec<(String, u8, u8)> {
    let mut pieces: Vec<(String, u8)> = Vec::new();
    for piece in operand.split(" | ") {
        let (name, shift) = piece.split_once(" << ").unwrap_or((piece, "0"));
        let name = name.split(" (").next().unwrap_or_default();
        if let (true, Ok(shift)) = (is_name(name), shift.parse::<u8>()) {
            pieces.push((name.to_owned(), shift.min(WORD_BITS - 1)));
        }
    }
    let ends: Vec<u8> = pieces.iter().skip(1).map(|(_, shift)| *shift).chain([WORD_BITS]).collect();
    let with_ends = pieces.into_iter().zip(ends);
    with_ends.map(|((name, shift), end)| (name, shift, end.saturating_sub(shift))).collect()
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_table_of_kinds_says() {
        let switch = |name| Field::of_name(Kind::Switch, name);
        assert_eq!(switch("next_pid"), Some(Field::A { shift: 32, bits: 32 }));
        assert_eq!(switch("syscall"), Some(Field::B { shift: 8, bits: 24 }));
        assert_eq!(switch("prev_state"), Some(Field::B { shift: 0, bits: 8 }));
        assert_eq!(switch("telepathy"), None);
        assert_eq!(Field::of_name(Kind::DiskRequest, "duration_ns"), Some(Field::B { shift: 0, bits: 40 }));
        assert_eq!(Field::of_name(Kind::Asked, "pid"), Some(Field::Payload(1)));
        assert_eq!(Field::of_name(Kind::FileWait, "key"), Some(Field::B { shift: 0, bits: 64 }));
        let record = Record { a: 7 | 8 << 32, b: 1 | 0x1ff << 8, lane: 3, ..Record::default() };
        let value = |name| switch(name).map(|field| field.value(&record, &[], &Context::default()));
        assert_eq!((value("prev_pid"), value("next_pid"), value("lane")), (Some(7), Some(8), Some(3)));
    }
}
