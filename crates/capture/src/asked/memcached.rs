//! memcached's text protocol (`doc/protocol.txt` in its sources), with meta commands. Its binary protocol, which is
//! deprecated, is not read.

use super::protocol::{Fact, Outcome, Protocol, Seen, Turns};

/// Commands, and whether a block of data follows their line.
const COMMANDS: [(&[u8], bool); 22] = [
    (b"get", false),
    (b"gets", false),
    (b"gat", false),
    (b"gats", false),
    (b"set", true),
    (b"add", true),
    (b"replace", true),
    (b"append", true),
    (b"prepend", true),
    (b"cas", true),
    (b"delete", false),
    (b"incr", false),
    (b"decr", false),
    (b"touch", false),
    (b"stats", false),
    (b"version", false),
    (b"flush_all", false),
    (b"verbosity", false),
    (b"mg", false),
    (b"ms", true),
    (b"md", false),
    (b"ma", false),
];
/// Words of a line that are looked at, and bytes of it.
const LINE_BYTES_MAX: usize = 512;

/// One direction: lines, and blocks of data behind some of them.
#[derive(Debug, Default)]
struct Lines {
    line: Vec<u8>,
    /// Bytes of a block that are still to come, with its line's end.
    block: usize,
    lost: bool,
}

impl Lines {
    /// Takes a call; `take` gets each line and gives the length of the block that follows it.
    fn push(&mut self, seen: Seen<'_>, take: &mut dyn FnMut(&[u8]) -> Option<usize>) {
        let (mut bytes, mut length) = (seen.bytes, seen.length);
        while length > 0 && !self.lost {
            if self.block > 0 {
                let step = self.block.min(length);
                (bytes, length) = (&bytes[step.min(bytes.len())..], length - step);
                self.block -= step;
                continue;
            }
            let Some((first, rest)) = bytes.split_first() else {
                self.lost = true;
                break;
            };
            (bytes, length) = (rest, length - 1);
            if *first == b'\n' {
                self.block = take(&self.line).map_or(0, |block| block.saturating_add(2));
                self.line.clear();
            } else if *first != b'\r' && self.line.len() < LINE_BYTES_MAX {
                self.line.push(*first);
            }
        }
    }
}

/// A connection.
#[derive(Debug, Default)]
pub(super) struct Memcached {
    given: Lines,
    taken: Lines,
    turns: Turns,
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b' ').filter(|word| !word.is_empty())
}

fn command(line: &[u8]) -> Option<(&'static [u8], bool)> {
    let first = words(line).next()?;
    COMMANDS.into_iter().find(|(name, _)| *name == first)
}

/// Whether the first bytes that a client gave are a command.
pub(super) fn begins(bytes: &[u8]) -> bool {
    let end = bytes.windows(2).position(|two| two == b"\r\n");
    let line = &bytes[..end.unwrap_or(bytes.len())];
    let printable = line.iter().all(|byte| (b' '..=b'~').contains(byte));
    let count = words(line).count();
    let fits = match command(line) {
        Some((b"version" | b"stats" | b"flush_all", _)) => count <= 2,
        Some((b"set" | b"add" | b"replace" | b"append" | b"prepend", _)) => count >= 5,
        Some((b"cas", _)) => count >= 6,
        Some((b"incr" | b"decr" | b"touch" | b"gat" | b"gats" | b"ms", _)) => count >= 3,
        Some(_) => count >= 2,
        None => false,
    };
    printable && fits && (end.is_some() || bytes.len() >= 64)
}

impl Memcached {
    fn line_given(&mut self, line: &[u8], tell: &mut dyn FnMut(Fact)) -> Option<usize> {
        let (name, has_block) = command(line)?;
        let last = words(line).last();
        let is_meta = name.len() == 2;
        // Quiet commands have no answer, or only sometimes.
        let quiet = last == Some(b"noreply") || is_meta && words(line).skip(2).any(|word| word == b"q");
        if !quiet {
            let key = self.turns.ask();
            tell(Fact::Asked(key, String::from_utf8_lossy(name).to_ascii_uppercase()));
        }
        let number = |word: Option<&[u8]>| std::str::from_utf8(word?).ok()?.parse::<usize>().ok();
        has_block.then(|| number(words(line).nth(if is_meta { 2 } else { 4 }))).flatten()
    }

    fn line_taken(&mut self, line: &[u8], tell: &mut dyn FnMut(Fact)) -> Option<usize> {
        let key = self.turns.front()?;
        let number = |word: Option<&[u8]>| std::str::from_utf8(word?).ok()?.parse::<usize>().ok();
        let first = words(line).next().unwrap_or_default();
        let outcome = match first {
            b"VALUE" => {
                tell(Fact::Begun(key));
                return number(words(line).nth(3));
            }
            b"STAT" | b"ME" => return None,
            b"ERROR" | b"CLIENT_ERROR" | b"SERVER_ERROR" => {
                Outcome::Failed(String::from_utf8_lossy(first).into_owned())
            }
            _ => Outcome::Fine(None),
        };
        self.turns.end();
        tell(Fact::Ended(key, outcome));
        if first == b"VA" { number(words(line).nth(1)) } else { None }
    }
}

impl Protocol for Memcached {
    fn name(&self) -> &'static str {
        "memcached"
    }

    fn given(&mut self, seen: Seen<'_>, tell: &mut dyn FnMut(Fact)) {
        let mut given = std::mem::take(&mut self.given);
        given.push(seen, &mut |line| self.line_given(line, tell));
        self.given = if given.lost { Lines::default() } else { given };
    }

    fn taken(&mut self, seen: Seen<'_>, tell: &mut dyn FnMut(Fact)) {
        let mut taken = std::mem::take(&mut self.taken);
        taken.push(seen, &mut |line| self.line_taken(line, tell));
        self.taken = taken;
    }

    fn is_lost(&self) -> bool {
        self.taken.lost
    }

    fn resume(&mut self) {
        self.taken = Lines::default();
        self.turns.clear();
    }
}
