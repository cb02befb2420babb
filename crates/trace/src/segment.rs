//! Reading a segment, block by block, past whatever is damaged.

use crate::block::{self, Block, HEADER_BYTES, MAGIC};
use crate::error::ReadError;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use weir_wire::{SLOT_BYTES, schema};

/// Reads blocks from a file or any other reader.
///
/// A cut end and damaged blocks are skipped and counted, never an error: what was recorded stays readable.
#[derive(Debug)]
pub struct SegmentReader<R> {
    reader: R,
    path: PathBuf,
    /// Bytes read but not yet consumed.
    buffer: Vec<u8>,
    start: usize,
    begun: bool,
    damaged_bytes: u64,
    cut: bool,
}

impl<R: Read> SegmentReader<R> {
    /// Reads from `reader`; `path` is only for messages.
    pub fn new(reader: R, path: &Path) -> Self {
        Self { reader, path: path.to_owned(), buffer: Vec::new(), start: 0, begun: false, damaged_bytes: 0, cut: false }
    }

    /// The next whole block, `None` at the end.
    ///
    /// # Errors
    /// [`ReadError::Foreign`] if the file is none of ours, [`ReadError::Newer`] if a later weir wrote it,
    /// [`ReadError::Io`] if the system refuses.
    pub fn next_block(&mut self) -> Result<Option<Block>, ReadError> {
        loop {
            self.need(HEADER_BYTES)?;
            let ahead = &self.buffer[self.start..];
            let Some(head) = ahead.first_chunk::<HEADER_BYTES>() else {
                return self.end();
            };
            let Some(sizes) = block::sizes(head) else {
                if !self.begun {
                    return Err(ReadError::Foreign { path: self.path.clone(), begins: head[..8].to_vec() });
                }
                self.resynchronise();
                continue;
            };
            let (head, (major, minor)) = (*head, block::schema_of(head));
            if major > schema::VERSION.0 {
                return Err(ReadError::Newer { path: self.path.clone(), major, minor });
            }
            self.begun = true;
            let body = sizes.dictionary + sizes.slots * SLOT_BYTES;
            self.need(HEADER_BYTES + body)?;
            let from = self.start + HEADER_BYTES;
            let decoded = self.buffer.get(from..from + body).and_then(|body| block::decode(&head, body));
            let whole = self.buffer.len() >= from + body;
            match decoded {
                Some(block) => {
                    self.start = from + body;
                    return Ok(Some(block));
                }
                // Either the head lies about its length or the file ends here: look for another head behind this one.
                None => {
                    self.cut |= !whole;
                    self.resynchronise();
                }
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
        if left > 0 && !self.begun {
            let begins = self.buffer[self.start..].iter().take(8).copied().collect();
            return Err(ReadError::Foreign { path: self.path.clone(), begins });
        }
        self.cut |= left > 0;
        self.damaged_bytes += left as u64;
        self.start = self.buffer.len();
        Ok(None)
    }

    /// Skips to the next magic within the buffer, or past it.
    fn resynchronise(&mut self) {
        let from = self.start + 1;
        let found = self.buffer[from..].windows(MAGIC.len()).position(|window| window == MAGIC);
        let next = found.map_or(self.buffer.len().saturating_sub(MAGIC.len() - 1).max(from), |offset| from + offset);
        self.damaged_bytes += (next - self.start) as u64;
        self.start = next;
    }

    /// Makes `bytes` available behind `start`, or fewer at the end of the file.
    fn need(&mut self, bytes: usize) -> Result<(), ReadError> {
        if self.buffer.len() - self.start >= bytes {
            return Ok(());
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        let missing = (bytes - self.buffer.len()) as u64;
        match self.reader.by_ref().take(missing).read_to_end(&mut self.buffer) {
            Ok(_) => Ok(()),
            Err(source) if source.kind() == ErrorKind::Interrupted => self.need(bytes),
            Err(source) => Err(ReadError::Io { path: self.path.clone(), source }),
        }
    }
}
