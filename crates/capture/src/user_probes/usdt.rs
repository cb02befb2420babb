//! Static probes that programs bring along (USDT, `sys/sdt.h`): notes in the ELF file that tell places and arguments.
//!
//! The format is SystemTap's (notes of owner `stapsdt`, type 3): place, base, semaphore, then provider, name and
//! arguments as texts that end with a zero byte.

use super::register::Register;

/// A place of a static probe, addresses as the note tells them, before the file was moved by prelinking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Address of the nop.
    pub place: u64,
    /// Address of the section `.stapsdt.base` when the note was written.
    pub base: u64,
    /// Address of the counter that switches the probe on, 0 for a probe that is always on.
    pub semaphore: u64,
    /// Who defines the probe.
    pub provider: String,
    /// Its name.
    pub name: String,
    /// Where its arguments are, in the order in which they were given; `None` for one in a form that is not read.
    pub arguments: Vec<Option<Argument>>,
}

/// Where an argument is when a probe is hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argument {
    /// How to come by its value.
    pub from: From,
    /// Its size in bytes: 1, 2, 4 or 8.
    pub bytes: u8,
    /// Whether it is to be extended by its sign.
    pub signed: bool,
}

impl Argument {
    /// The register that is read for it.
    #[must_use]
    pub fn register(self) -> Option<Register> {
        match self.from {
            From::Constant(_) => None,
            From::Register(register) | From::Memory(register, _) => Some(register),
        }
    }
}

/// How to come by a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// It is this.
    Constant(i64),
    /// It is in a register.
    Register(Register),
    /// It is in memory, so far from where a register points.
    Memory(Register, i32),
}

/// The type of a note that tells a static probe.
pub const NOTE_TYPE: u32 = 3;
/// Arguments of a probe that are looked at; `sys/sdt.h` allows as many.
const MOST_ARGUMENTS: usize = 12;

/// Reads a note's content; `None` if it is not whole.
#[must_use]
pub fn note(content: &[u8]) -> Option<Note> {
    let (head, texts) = content.split_at_checked(24)?;
    let word = |at: usize| head[8 * at..8 * at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let mut texts = texts.split(|byte| *byte == 0);
    let mut next = || texts.next().map(|text| String::from_utf8_lossy(text).into_owned());
    let (provider, name, arguments) = (next()?, next()?, next()?);
    if provider.is_empty() || name.is_empty() {
        return None;
    }
    let arguments = arguments.split_ascii_whitespace().take(MOST_ARGUMENTS).map(argument).collect();
    Some(Note { place: word(0), base: word(1), semaphore: word(2), provider, name, arguments })
}

/// An argument as the assembler wrote it, such as `8@%rdi`, `-4@-144(%rbp)` or `4@$7`.
#[must_use]
pub fn argument(text: &str) -> Option<Argument> {
    let (size, place) = text.split_once('@')?;
    let (signed, bytes) = match size.strip_prefix('-') {
        Some(bytes) => (true, bytes),
        None => (false, size),
    };
    let bytes = bytes.parse().ok().filter(|bytes| matches!(bytes, 1 | 2 | 4 | 8))?;
    let from = if let Some(constant) = place.strip_prefix('$') {
        From::Constant(constant.parse().ok()?)
    } else if let Some(register) = place.strip_prefix('%') {
        From::Register(Register::named(register)?)
    } else {
        let (offset, register) = place.strip_suffix(')')?.split_once("(%")?;
        // Without an index: those are rare, and what cannot be read is better left out than guessed.
        let offset = if offset.is_empty() { 0 } else { offset.parse().ok()? };
        From::Memory(Register::named(register)?, offset)
    };
    Some(Argument { from, bytes, signed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn content(words: [u64; 3], texts: &[u8]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).chain(texts.iter().copied()).collect()
    }

    #[test]
    fn a_note_tells_place_and_arguments() {
        let bytes = content([0x1234, 0x5000, 0], b"postgresql\0query__start\08@%rbx -4@-144(%rbp) 4@$-7 8@(%rsp)\0");
        let note = note(&bytes).expect("a whole note");
        assert_eq!((note.place, note.base, note.semaphore), (0x1234, 0x5000, 0));
        assert_eq!((note.provider.as_str(), note.name.as_str()), ("postgresql", "query__start"));
        let expected = [
            (From::Register(Register::named("rbx").expect("a register")), 8, false),
            (From::Memory(Register::named("rbp").expect("a register"), -144), 4, true),
            (From::Constant(-7), 4, false),
            (From::Memory(Register::named("rsp").expect("a register"), 0), 8, false),
        ];
        let found: Vec<_> = note.arguments.iter().map(|one| one.expect("a known form")).collect();
        assert_eq!(found, expected.map(|(from, bytes, signed)| Argument { from, bytes, signed }));
    }

    #[test]
    fn forms_that_are_not_read_leave_a_gap_and_halves_are_refused() {
        for unknown in ["8@symbol(%rip)", "8@8(%rax,%rcx,4)", "3@%rax", "8@%xmm0", "8%rax", "@", ""] {
            assert_eq!(argument(unknown), None, "{unknown}");
        }
        let whole = content([1, 2, 3], b"p\0n\0\0");
        assert!(note(&whole).is_some_and(|note| note.arguments.is_empty()));
        assert_eq!(note(&whole[..20]), None);
        assert_eq!(note(&content([1, 2, 3], b"p\0")), None);
        assert_eq!(note(&content([1, 2, 3], b"\0\0\0")), None);
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(note) = note(&bytes) {
                prop_assert!(note.arguments.len() <= MOST_ARGUMENTS && !note.name.is_empty());
            }
        }

        /// What an assembler may write of an argument in memory comes back.
        #[test]
        fn offsets_come_back(offset in -100_000i32..100_000, register in "(rax|r1[0-5]|rbp|rsp)", signed: bool, size in 0usize..4) {
            let bytes = [1u8, 2, 4, 8][size];
            let text = format!("{}{bytes}@{offset}(%{register})", if signed { "-" } else { "" });
            let from = From::Memory(Register::named(&register).expect("a register"), offset);
            prop_assert_eq!(argument(&text), Some(Argument { from, bytes, signed }));
        }
    }
}
