//! What a director has said last, on its disk: one that is started again goes on with it, where no other one has heard it.
//!
//! The file has a line `weir-last-word 1 EPOCH WRITTEN_UNIX_MS`, and then the word as it is gossiped, if there was one.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use weir_adapt::nodes::Wished;

/// The file in the cluster's directory.
const FILE: &str = "director.word";
const FORMAT: &str = "weir-last-word 1";
/// What stands last: without it the file is cut.
const END: &str = "end\n";
/// Bytes that are read: a word is far shorter.
const BYTES_MAX: u64 = 1 << 20;

/// The place of a director's last word.
#[derive(Debug, Clone)]
pub(super) struct LastWord(PathBuf);

/// What was said last.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Remembered {
    /// The newest epoch that this director has begun.
    pub(super) epoch: u64,
    /// Its last word, and when it was said: milliseconds since 1970.
    pub(super) word: Option<(Wished, u64)>,
}

impl LastWord {
    /// That of the director with this directory.
    pub(super) fn of(folder: &Path) -> Self {
        Self(folder.join(FILE))
    }

    /// What is remembered; nothing at the first start, or if the file is none, which is said.
    pub(super) fn read(&self) -> Option<Remembered> {
        let mut text = String::new();
        let read = File::open(&self.0).and_then(|file| file.take(BYTES_MAX).read_to_string(&mut text));
        match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                eprintln!("weir cluster director: {} cannot be read: {error}; rules begin anew", self.0.display());
                return None;
            }
            Ok(_) => {}
        }
        let remembered = parse(&text);
        if remembered.is_none() {
            eprintln!("weir cluster director: {} is no last word of a director; rules begin anew", self.0.display());
        }
        remembered
    }

    /// Remembers the epoch that begins, with the last word of the one before.
    pub(super) fn begin(&self, epoch: u64) {
        let before = self.read().filter(|before| before.epoch < epoch);
        self.write(epoch, before.as_ref().and_then(|before| before.word.as_ref()).map(|(word, at)| (word, *at)));
    }

    /// Remembers what is said now.
    pub(super) fn say(&self, word: &Wished, now_unix_ms: u64) {
        self.write(word.epoch, Some((word, now_unix_ms)));
    }

    /// Writes it in one step. A disk that is full holds nothing up.
    fn write(&self, epoch: u64, word: Option<(&Wished, u64)>) {
        let at_unix_ms = word.map_or(0, |(_, at)| at);
        let text = format!(
            "{FORMAT} {epoch} {at_unix_ms}\n{}{END}",
            word.map_or_else(String::new, |(word, _)| word.to_text())
        );
        let beside = self.0.with_extension("new");
        let written = File::create(&beside).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        if let Err(error) = written.and_then(|()| fs::rename(&beside, &self.0)) {
            eprintln!(
                "weir cluster director: {} cannot be written: {error}; a restart knows less of what was said",
                self.0.display()
            );
        }
    }
}

fn parse(text: &str) -> Option<Remembered> {
    let (head, word) = text.strip_suffix(END)?.split_once('\n')?;
    let mut numbers = head.strip_prefix(FORMAT)?.strip_prefix(' ')?.split(' ').map(str::parse::<u64>);
    let (epoch, at_unix_ms) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    if numbers.next().is_some() {
        return None;
    }
    let word = if word.is_empty() { None } else { Some((Wished::parse(word).ok()?, at_unix_ms)) };
    Some(Remembered { epoch, word })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(epoch: u64, number: u64) -> Wished {
        Wished {
            epoch,
            number,
            awake: [("n3".to_owned(), true)].into(),
            fired_ms_ago: [("more".to_owned(), 7)].into(),
            ..Wished::default()
        }
    }

    #[test]
    fn a_director_that_begins_again_has_the_word_of_the_epoch_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let last = LastWord::of(folder.path());
        assert_eq!(last.read(), None);
        last.begin(10);
        assert_eq!(last.read(), Some(Remembered { epoch: 10, word: None }));
        last.say(&word(10, 1), 1_000);
        last.say(&word(10, 2), 2_000);
        last.begin(12);
        assert_eq!(last.read(), Some(Remembered { epoch: 12, word: Some((word(10, 2), 2_000)) }));
        last.say(&word(12, 1), 3_000);
        assert_eq!(last.read(), Some(Remembered { epoch: 12, word: Some((word(12, 1), 3_000)) }));
    }

    #[test]
    fn what_is_no_word_is_not_believed() {
        let whole = format!("{FORMAT} 12 3000\n{}{END}", word(10, 2).to_text());
        assert!(parse(&whole).is_some());
        for end in 0..whole.len() {
            assert_eq!(parse(&whole[..end]), None, "{:?}", &whole[..end]);
        }
        for text in [
            "",
            "\n",
            "weir-last-word 2 1 1\nend\n",
            "weir-last-word 1 1\nend\n",
            "weir-last-word 1 1 1 1\nend\n",
            "x\nend\n",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join(FILE), "something else").expect("writes");
        assert_eq!(LastWord::of(folder.path()).read(), None);
    }
}
