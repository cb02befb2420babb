//! Where the blocks of a segment lie, by their heads alone: with it a window of time is read without all before it.

use crate::block::{self, HEADER_BYTES, MAGIC};
use crate::error::ReadError;
use crate::segment::SegmentReader;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Take};
use std::path::Path;
use weir_wire::SLOT_BYTES;

/// Where a block lies in its segment, and the time that it spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockPlace {
    /// Bytes of the file before it.
    pub offset: u64,
    /// Its bytes, head and body.
    pub bytes: u64,
    /// Time of its earliest record, nanoseconds.
    pub base_ns: u64,
    /// Time of its latest record, nanoseconds.
    pub end_ns: u64,
    /// Records that it holds.
    pub records: u32,
    /// Its CRC-32, by which contents are told apart.
    pub crc: u32,
}

/// Looks up the blocks of a segment in the order of the file, reading 64 bytes of each.
///
/// From the last head behind which no other follows, the rest of the file is one place that spans all time: a reader
/// that begins there finds the whole blocks in it, as [`SegmentReader`] does.
///
/// # Errors
/// [`ReadError::Io`] if the system refuses.
pub fn block_places(path: &Path) -> Result<Vec<BlockPlace>, ReadError> {
    let io = |source| ReadError::Io { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(io)?;
    let length = file.metadata().map_err(io)?.len();
    let mut places = Vec::new();
    let mut offset = 0;
    while offset < length {
        file.seek(SeekFrom::Start(offset)).map_err(io)?;
        let mut head = [0; HEADER_BYTES];
        let left = usize::try_from(length - offset).unwrap_or(usize::MAX).min(HEADER_BYTES);
        file.read_exact(&mut head[..left]).map_err(io)?;
        let bytes_of = |sizes: block::Sizes| (HEADER_BYTES + sizes.dictionary + sizes.slots * SLOT_BYTES) as u64;
        let bytes = block::sizes(&head).filter(|_| left == HEADER_BYTES).map(bytes_of);
        let Some(bytes) = bytes.filter(|bytes| *bytes <= length - offset) else {
            // Unless the file just ends here, it may be the head before that lies about its length.
            let is_cut = head[..left].starts_with(&MAGIC[..left.min(MAGIC.len())]);
            let before = if is_cut { None } else { places.pop() };
            let offset = before.map_or(offset, |before: BlockPlace| before.offset);
            let (base_ns, end_ns) = (0, u64::MAX);
            places.push(BlockPlace { offset, bytes: length - offset, base_ns, end_ns, records: 0, crc: 0 });
            break;
        };
        let (base_ns, end_ns, records, crc) = block::summary_of(&head);
        places.push(BlockPlace { offset, bytes, base_ns, end_ns, records, crc });
        offset += bytes;
    }
    Ok(places)
}

/// A reader of some bytes of a segment that begin with a block.
///
/// # Errors
/// [`ReadError::Io`] if the system refuses.
pub fn read_from(path: &Path, offset: u64, bytes: u64) -> Result<SegmentReader<Take<File>>, ReadError> {
    let io = |source| ReadError::Io { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(io)?;
    file.seek(SeekFrom::Start(offset)).map_err(io)?;
    Ok(SegmentReader::new(file.take(bytes), path))
}
