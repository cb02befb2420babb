//! The kernel's symbols: names of the functions that ask for its locks.

use std::fs;

/// Symbols that are kept; a kernel with all its modules has a third of it.
const MOST_SYMBOLS: usize = 1 << 20;

/// Functions by address.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    /// (address, where the name begins, its length), ascending.
    places: Vec<(u64, u32, u16)>,
    names: String,
}

impl Symbols {
    /// Those of the running kernel; empty where they may not be read.
    pub(crate) fn of_kernel() -> Self {
        Self::parse(&fs::read_to_string("/proc/kallsyms").unwrap_or_default())
    }

    /// Reads the lines of /proc/kallsyms: address, type, name.
    fn parse(text: &str) -> Self {
        let mut symbols = Self::default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(sort), Some(name)) = (words.next(), words.next(), words.next()) else { continue };
            let address = u64::from_str_radix(address, 16).unwrap_or(0);
            let length = u16::try_from(name.len()).unwrap_or(0);
            // Without the privilege every address reads as zero.
            if address == 0 || !matches!(sort, "t" | "T" | "w" | "W") || symbols.places.len() >= MOST_SYMBOLS {
                continue;
            }
            let Ok(begin) = u32::try_from(symbols.names.len()) else { break };
            symbols.places.push((address, begin, length));
            symbols.names.push_str(name);
        }
        symbols.places.sort_unstable();
        symbols
    }

    /// The function that an address lies in.
    pub(crate) fn function(&self, address: u64) -> Option<&str> {
        let after = self.places.partition_point(|(begin, ..)| *begin <= address);
        let (_, begin, length) = *self.places.get(after.checked_sub(1)?)?;
        self.names.get(begin as usize..begin as usize + usize::from(length))
    }

    /// From the address of one symbol to that of another.
    pub(crate) fn range(&self, from: &str, to: &str) -> Option<[u64; 2]> {
        let address = |wanted: &str| {
            let is = |place: &&(u64, u32, u16)| {
                self.names.get(place.1 as usize..place.1 as usize + usize::from(place.2)) == Some(wanted)
            };
            self.places.iter().find(is).map(|place| place.0)
        };
        Some([address(from)?, address(to)?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_address_lies_in_the_function_that_begins_before_it() {
        let symbols =
            Symbols::parse("ff20 T second\nff10 t first\nff18 d data\nff30 T third [module]\nbroken\n0 T none\n");
        assert_eq!(symbols.function(0xff0f), None);
        assert_eq!(symbols.function(0xff1f), Some("first"));
        assert_eq!(symbols.function(0xff20), Some("second"));
        assert_eq!(symbols.function(u64::MAX), Some("third"));
        assert_eq!(symbols.range("first", "third"), Some([0xff10, 0xff30]));
        assert_eq!(symbols.range("first", "fourth"), None);
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(text in "[ -~\n]{0,400}", address: u64) {
            let symbols = Symbols::parse(&text);
            let _ = (symbols.function(address), symbols.range("a", "b"));
        }
    }
}
