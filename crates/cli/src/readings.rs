//! The lines of recorded readings, as `weir serve --decisions` writes them.

use crate::text_file;
use anyhow::{Context, bail};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use weir_adapt::log;

/// What a directory has them in.
pub(crate) const READINGS: &str = "readings.jsonl";

/// The whole lines of a file, each within its bound.
pub(crate) struct Lines {
    pub(crate) path: PathBuf,
    from: BufReader<File>,
    pub(crate) number: usize,
    /// The last line ends in the middle, and is none of them.
    pub(crate) is_cut: bool,
}

impl Lines {
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let path = if path.is_dir() { path.join(READINGS) } else { path.to_owned() };
        let file = File::open(&path).with_context(|| path.display().to_string())?;
        Ok(Self { path, from: BufReader::new(file), number: 0, is_cut: false })
    }

    pub(crate) fn next(&mut self) -> anyhow::Result<Option<String>> {
        self.number += 1;
        let mut line = Vec::new();
        let most = log::LINE_BYTES_MAX as u64 + 2;
        let read = (&mut self.from).take(most).read_until(b'\n', &mut line);
        let read = read.map_err(|error| self.wrong(&error.to_string()))?;
        let ends = line.ends_with(b"\n");
        if read as u64 == most && !ends {
            bail!(self.wrong(&format!("more than {} bytes", log::LINE_BYTES_MAX)));
        }
        if read == 0 {
            return Ok(None);
        }
        if !ends && log::is_cut(&line) {
            self.is_cut = true;
            return Ok(None);
        }
        // Only the first line may begin with a mark, or tell of another encoding.
        let text = if self.number == 1 {
            text_file::text_of(line)
        } else {
            Ok(String::from_utf8(line).map_err(|_| self.wrong("this line is no text (UTF-8)"))?)
        };
        let line = text.map_err(|error| self.wrong(&error.to_string()))?;
        Ok(Some(line.trim_end_matches(['\n', '\r']).to_owned()))
    }

    pub(crate) fn wrong(&self, what: &str) -> anyhow::Error {
        anyhow::anyhow!("{}:{}: {what}", self.path.display(), self.number)
    }
}
