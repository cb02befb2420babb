//! Reading a segment, block by block, past what is damaged.

use crate::block::{self, Block, HEADER_BYTES, MAGIC};
use crate::error::ReadError;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use weir_wire::{SLOT_BYTES, schema};

/// Bytes read at a time.
const READ_BYTES: usize = 64 << 10;
/// In a file that does not begin with our magic, a block must begin within so many bytes, or the file is none of ours.
/// The largest block fits in, so a segment whose first one is damaged is still read.
const FOREIGN_BYTES: u64 = 4 << 20;
/// Bytes that may be checked in vain for each damaged one. Heads within heads, as only malice writes them, would
/// otherwise make reading take quadratic time.
const VAIN_FACTOR: u64 = 64;
const VAIN_BYTES: u64 = 64 << 20;

/// Reads blocks from a file or any other reader.
///
/// A cut end and damaged blocks are skipped and counted, never an error: what was recorded stays readable.
#[derive(Debug)]
pub struct SegmentReader<R> {
    reader: R,
    path: PathBuf,
    /// Bytes read but not yet consumed, from `start` on.
    buffer: Vec<u8>,
    start: usize,
    ended: bool,
    /// The first bytes of the file, once they were looked at.
    begins: Option<Vec<u8>>,
    /// Whether the file is known to be a segment: by its first bytes, or by a whole block.
    ours: bool,
    /// The schema of a later weir that stands in the first head, as long as no block was whole.
    newer: Option<(u16, u16)>,
    damaged_bytes: u64,
    vain_bytes: u64,
    cut: bool,
}

impl<R: Read> SegmentReader<R> {
    /// Reads from `reader`; `path` is only for messages.
    pub fn new(reader: R, path: &Path) -> Self {
        Self {
            reader,
            path: path.to_owned(),
            buffer: Vec::new(),
            start: 0,
            ended: false,
            begins: None,
            ours: false,
            newer: None,
            damaged_bytes: 0,
            vain_bytes: 0,
            cut: false,
        }
    }

    /// The next whole block, `None` at the end.
    ///
    /// # Errors
    /// [`ReadError::Foreign`] if the file is none of ours, [`ReadError::Newer`] if a later weir wrote it,
    /// [`ReadError::Io`] if the system refuses.
    pub fn next_block(&mut self) -> Result<Option<Block>, ReadError> {
        loop {
            self.need(HEADER_BYTES)?;
            let at_begin = self.begins.is_none();
            if at_begin {
                let begins = self.buffer[..self.buffer.len().min(MAGIC.len())].to_vec();
                self.ours = like_magic(&begins);
                self.begins = Some(begins);
            }
            if !self.ours && self.damaged_bytes > FOREIGN_BYTES {
                return Err(self.foreign());
            }
            let Some(head) = self.buffer[self.start..].first_chunk::<HEADER_BYTES>().copied() else {
                return self.end();
            };
            let Some(sizes) = block::sizes(&head) else {
                self.resynchronise();
                continue;
            };
            let body = sizes.dictionary + sizes.slots * SLOT_BYTES;
            self.need(HEADER_BYTES + body)?;
            let from = self.start + HEADER_BYTES;
            let bytes = self.buffer.get(from..from + body);
            self.cut |= bytes.is_none();
            let (major, minor) = block::schema_of(&head);
            let newer = major > schema::VERSION.0;
            match bytes {
                Some(bytes) if block::is_whole(&head, bytes) => {
                    if newer {
                        return Err(ReadError::Newer { path: self.path.clone(), major, minor });
                    }
                    if let Some(block) = block::decode(&head, bytes) {
                        self.start = from + body;
                        // What reached past the end before was then a damaged length, not the end of the file.
                        (self.ours, self.newer, self.cut) = (true, None, false);
                        return Ok(Some(block));
                    }
                }
                // A version that nothing else confirms may as well be a damaged byte; the file's end decides.
                _ if newer && at_begin => self.newer = Some((major, minor)),
                _ => {}
            }
            // Either the head lies about its length or the body is damaged: look for another head behind this one.
            self.vain_bytes += (self.buffer.len() - self.start).min(HEADER_BYTES + body) as u64;
            if self.vain_bytes > VAIN_BYTES + VAIN_FACTOR * self.damaged_bytes {
                self.skip((HEADER_BYTES + body).min(self.buffer.len() - self.start));
            } else {
                self.resynchronise();
            }
        }
    }

    /// Bytes that belonged to no readable block so far.
    #[must_use]
    pub fn damaged_bytes(&self) -> u64 {
        self.damaged_bytes
    }

    /// Whether the file ended in the middle of a block, as after a crash.
    #[must_use]
    pub fn cut(&self) -> bool {
        self.cut
    }

    fn end(&mut self) -> Result<Option<Block>, ReadError> {
        let left = self.buffer.len() - self.start;
        self.cut |= left > 0;
        self.skip(left);
        if let Some((major, minor)) = self.newer {
            return Err(ReadError::Newer { path: self.path.clone(), major, minor });
        }
        // An empty file is what a writer leaves that was killed before its first block.
        if !self.ours && self.damaged_bytes > 0 {
            return Err(self.foreign());
        }
        Ok(None)
    }

    fn foreign(&self) -> ReadError {
        ReadError::Foreign { path: self.path.clone(), begins: self.begins.clone().unwrap_or_default() }
    }

    /// Skips to the next magic within the buffer, or to where one may begin at its end.
    fn resynchronise(&mut self) {
        let ahead = &self.buffer[self.start + 1..];
        let found = ahead.windows(MAGIC.len()).position(|window| window == MAGIC);
        let bytes = found.unwrap_or_else(|| ahead.len().saturating_sub(MAGIC.len() - 1));
        self.skip(1 + bytes);
    }

    fn skip(&mut self, bytes: usize) {
        self.start += bytes;
        self.damaged_bytes += bytes as u64;
    }

    /// Makes `bytes` available behind `start`, or fewer at the end of the file.
    fn need(&mut self, bytes: usize) -> Result<(), ReadError> {
        while self.buffer.len() - self.start < bytes && !self.ended {
            self.buffer.drain(..self.start);
            self.start = 0;
            let missing = bytes - self.buffer.len();
            let more = missing.max(READ_BYTES) as u64;
            self.buffer.reserve_exact(more as usize);
            match self.reader.by_ref().take(more).read_to_end(&mut self.buffer) {
                Ok(read) => self.ended = (read as u64) < more,
                Err(source) if source.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(ReadError::Io { path: self.path.clone(), source }),
            }
        }
        Ok(())
    }
}

/// Whether a file that begins so is taken for a segment: one of the bytes may be damaged, and the file cut.
fn like_magic(begins: &[u8]) -> bool {
    let wrong = begins.iter().zip(MAGIC).filter(|(byte, own)| **byte != *own).count();
    !begins.is_empty() && wrong <= usize::from(begins.len() == MAGIC.len())
}
