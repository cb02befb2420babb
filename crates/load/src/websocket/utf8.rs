//! Whether a text is UTF-8, in any pieces it comes.

/// The longest form of a character.
const CHARACTER_BYTES_MAX: usize = 4;

/// What has come of a character.
#[derive(Debug, Clone, Default)]
pub(crate) struct Utf8 {
    held: [u8; CHARACTER_BYTES_MAX],
    held_bytes: usize,
}

impl Utf8 {
    /// Takes the next bytes; tells whether the text may still be UTF-8.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) -> bool {
        while self.held_bytes > 0 {
            let Some((first, rest)) = bytes.split_first() else { return true };
            self.held[self.held_bytes] = *first;
            self.held_bytes += 1;
            bytes = rest;
            match std::str::from_utf8(&self.held[..self.held_bytes]) {
                Ok(_) => self.held_bytes = 0,
                // The form of a character is never longer than there is room for.
                Err(error) if error.error_len().is_none() && self.held_bytes < CHARACTER_BYTES_MAX => {}
                Err(_) => return false,
            }
        }
        match std::str::from_utf8(bytes) {
            Ok(_) => true,
            Err(error) if error.error_len().is_none() => {
                let rest = &bytes[error.valid_up_to()..];
                self.held[..rest.len()].copy_from_slice(rest);
                self.held_bytes = rest.len();
                true
            }
            Err(_) => false,
        }
    }

    /// Whether no character is begun.
    pub(crate) fn is_whole(&self) -> bool {
        self.held_bytes == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_say_the_same_as_the_whole(
            bytes in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..12),
                "[a\u{e4}\u{20ac}\u{1f600}]{0,8}".prop_map(String::into_bytes),
            ],
            cut in 0usize..32,
        ) {
            let is_text = std::str::from_utf8(&bytes).is_ok();
            let (one, other) = bytes.split_at(cut.min(bytes.len()));
            let mut utf8 = Utf8::default();
            prop_assert_eq!(utf8.feed(one) && utf8.feed(other) && utf8.is_whole(), is_text);
            let mut utf8 = Utf8::default();
            prop_assert_eq!(bytes.iter().all(|byte| utf8.feed(&[*byte])) && utf8.is_whole(), is_text);
        }
    }
}
