//! Single keys of a terminal.

use std::collections::VecDeque;

/// The terminal behind standard input.
const INPUT: i32 = libc::STDIN_FILENO;
/// Bytes that are read at a time; more wait for the next look.
const READ: usize = 64;

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    /// One of ASCII's letters, small.
    Letter(u8),
    /// The arrow.
    Up,
    /// The arrow.
    Down,
    /// Escape by itself.
    Escape,
}

/// A terminal that gives each key at once and shows none; as it was before when this is dropped.
#[derive(Debug)]
pub(super) struct Keyboard {
    before: libc::termios,
    keys: VecDeque<Key>,
}

impl Keyboard {
    /// Takes the terminal of standard input.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn open() -> std::io::Result<Self> {
        // SAFETY: the structure is plain numbers, of which any are valid.
        let mut before: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a termios of ours, which the call fills.
        if unsafe { libc::tcgetattr(INPUT, &raw mut before) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        let mut now = before;
        // Ctrl-C stays a signal.
        now.c_lflag &= !(libc::ICANON | libc::ECHO);
        (now.c_cc[libc::VMIN], now.c_cc[libc::VTIME]) = (0, 0);
        // SAFETY: the pointer is to a termios of ours, which the call reads.
        if unsafe { libc::tcsetattr(INPUT, libc::TCSANOW, &raw const now) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(Self { before, keys: VecDeque::new() })
    }

    /// The next key that was pressed, without waiting.
    pub(super) fn next(&mut self) -> Option<Key> {
        if self.keys.is_empty() {
            let mut bytes = [0u8; READ];
            // SAFETY: the buffer is ours, and as long as is said.
            let read = unsafe { libc::read(INPUT, bytes.as_mut_ptr().cast(), bytes.len()) };
            self.keys.extend(keys(&bytes[..usize::try_from(read).unwrap_or(0)]));
        }
        self.keys.pop_front()
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        // SAFETY: as when it was taken.
        unsafe { libc::tcsetattr(INPUT, libc::TCSANOW, &raw const self.before) };
    }
}

/// The keys that bytes of a terminal mean (ECMA-48's sequences for arrows); others mean none.
fn keys(mut bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while let Some(first) = bytes.first() {
        let (key, length) = match (first, bytes) {
            (0x1b, [_, b'[' | b'O', b'A', ..]) => (Some(Key::Up), 3),
            (0x1b, [_, b'[' | b'O', b'B', ..]) => (Some(Key::Down), 3),
            (0x1b, [_, b'[' | b'O', rest @ ..]) => {
                let parameters = rest.iter().take_while(|byte| !(0x40..=0x7e).contains(*byte)).count();
                (None, (3 + parameters).min(bytes.len()))
            }
            (0x1b, _) => (Some(Key::Escape), 1),
            (byte, _) if byte.is_ascii_alphabetic() => (Some(Key::Letter(byte.to_ascii_lowercase())), 1),
            _ => (None, 1),
        };
        keys.extend(key);
        bytes = &bytes[length..];
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn arrows_letters_and_escape_are_told_and_the_rest_is_not() {
        let told = keys(b"q\x1b[AP\x1bOB\x1b[3~\x1b[1;5Cj\x07\x1b");
        let expected = [Key::Letter(b'q'), Key::Up, Key::Letter(b'p'), Key::Down, Key::Letter(b'j'), Key::Escape];
        assert_eq!(told, expected);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_to_their_end(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            prop_assert!(keys(&bytes).len() <= bytes.len());
        }
    }
}
