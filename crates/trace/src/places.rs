//! Where the blocks of a segment lie, by their heads alone: with it a window of time is read without all before it.

use crate::block::{self, HEADER_BYTES};
use crate::error::ReadError;
use crate::segment::SegmentReader;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Take};
use std::path::Path;
use weir_wire::SLOT_BYTES;

/// Where a block lies in its segment, and the time that it spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockPlace {
    /// Bytes of the file before it.
    pub offset: u64,
    /// Its bytes, head and body, as far as the file holds them.
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
/// From where the heads do not follow each other any more, the rest of the file is one place that spans all time: a
/// reader that begins there finds the whole blocks in it, as [`SegmentReader`] does.
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
        let whole = match file.read_exact(&mut head) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => false,
            Err(error) => return Err(io(error)),
        };
        let Some(sizes) = block::sizes(&head).filter(|_| whole) else {
            places.push(BlockPlace {
                offset,
                bytes: length - offset,
                base_ns: 0,
                end_ns: u64::MAX,
                records: 0,
                crc: 0,
            });
            break;
        };
        let bytes = (HEADER_BYTES + sizes.dictionary + sizes.slots * SLOT_BYTES) as u64;
        let (base_ns, end_ns, records, crc) = block::summary_of(&head);
        // The last one may be cut.
        places.push(BlockPlace { offset, bytes: bytes.min(length - offset), base_ns, end_ns, records, crc });
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
