//! The lines of recorded readings, as `weir serve --decisions` writes them, compressed by gzip or not.

use anyhow::{Context, bail};
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use weir_adapt::log;
use weir_terminal::text_file;

/// What a directory has them in.
pub const READINGS: &str = "readings.jsonl";

/// What files begin with that are no lines of text, and what to do with them.
const NO_TEXT: [(&[u8], &str); 6] = [
    (b"\x28\xb5\x2f\xfd", "it is compressed by zstd; decompress it first (zstd -d)"),
    (b"\xfd7zXZ", "it is compressed by xz; decompress it first (xz -d)"),
    (b"BZh", "it is compressed by bzip2; decompress it first (bzip2 -d)"),
    (b"PK\x03\x04", "it is a zip archive; unpack it first"),
    (b"\xff\xfe", "it is text in UTF-16; write it in UTF-8"),
    (b"\xfe\xff", "it is text in UTF-16; write it in UTF-8"),
];
const GZIP: &[u8] = b"\x1f\x8b";
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The whole lines of a file, each within its bound.
pub struct Lines {
    /// The file.
    pub path: PathBuf,
    from: Box<dyn BufRead>,
    /// The last line that was read, from 1.
    pub number: usize,
    /// The last line ends in the middle, and is none of them.
    pub is_cut: bool,
}

impl Lines {
    /// Opens a file, or that of a directory.
    ///
    /// # Errors
    /// It cannot be read, or is no text.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let path = if path.is_dir() { path.join(READINGS) } else { path.to_owned() };
        let file = File::open(&path).with_context(|| path.display().to_string())?;
        let mut file = BufReader::new(file);
        let begin = file.fill_buf().with_context(|| path.display().to_string())?;
        if let Some((_, what)) = NO_TEXT.iter().find(|(magic, _)| begin.starts_with(magic)) {
            bail!("{}: {what}", path.display());
        }
        let is_gzip = begin.starts_with(GZIP);
        let from: Box<dyn BufRead> =
            if is_gzip { Box::new(BufReader::new(MultiGzDecoder::new(file))) } else { Box::new(file) };
        Ok(Self { path, from, number: 0, is_cut: false })
    }

    /// The next line; none at the end.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    #[allow(clippy::should_implement_trait, reason = "it fails")]
    pub fn next(&mut self) -> anyhow::Result<Option<String>> {
        self.number += 1;
        let mut line = Vec::new();
        let most = log::LINE_BYTES_MAX as u64 + 2;
        let read = (&mut self.from).take(most).read_until(b'\n', &mut line);
        let read = match read {
            // What was compressed breaks off in the middle: its last line does, too.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                self.is_cut = true;
                return Ok(None);
            }
            read => read.map_err(|error| self.wrong(error))?,
        };
        if self.number == 1 && line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        let ends = line.ends_with(b"\n");
        if read as u64 == most && !ends {
            bail!(self.wrong(format!("more than {} bytes", log::LINE_BYTES_MAX)));
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
        let line = text.map_err(|error| self.wrong(error))?;
        Ok(Some(line.trim_end_matches(['\n', '\r']).to_owned()))
    }

    /// What is wrong with the last line that was read.
    pub fn wrong(&self, what: impl std::fmt::Display) -> anyhow::Error {
        anyhow::anyhow!("{}:{}: {what}", self.path.display(), self.number)
    }
}
