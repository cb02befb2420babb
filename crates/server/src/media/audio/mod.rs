//! Sound in frames: MPEG-1 and MPEG-2 Layer III (ISO 11172-3, 13818-3), AAC in ADTS (ISO 14496-3 annex 1.A). The
//! parsers find what is needed to go on in another file at the same moment: where frames begin, how long they last, and
//! which bytes of earlier frames they need. Nothing is decoded.

pub(crate) mod carrier;
pub(crate) mod frame;
pub(crate) mod index;

use std::io;

/// Bytes of a file, wherever they are.
pub(crate) trait Bytes {
    /// Bytes of the whole.
    fn size(&self) -> u64;

    /// Fills `out` from `start` on; fewer bytes at the end of the file only.
    ///
    /// # Errors
    ///
    /// What the file system answers.
    fn read_at(&self, start: u64, out: &mut [u8]) -> io::Result<usize>;
}

impl Bytes for [u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, start: u64, out: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(start).ok().and_then(|start| self.get(start..)).unwrap_or_default();
        let len = rest.len().min(out.len());
        out[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
}
