//! The sample of `trace.dat` with the pages of each CPU repeated, later each time: trace-cmd.dat.v7(5).
//!
//! The sample stays at the begin of the file, so that what describes tracepoints stays where it is. Behind it come a
//! section of pages, packed as in the sample, and one of options, which names the new pages; the header names that one.

use crate::sample::bytes;
use std::io::{Cursor, Seek, SeekFrom, Write};
use weir_formats::{Markers, read_trace_dat};

const BUFFER: u16 = 3;
const SECTION_HEAD: usize = 16;
const LEVEL: i32 = 3;

/// Numbers of the sample, which are little-endian.
struct At<'a>(&'a [u8], usize);

impl<'a> At<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let taken = &self.0[self.1..self.1 + count];
        self.1 += count;
        taken
    }

    fn number(&mut self, bytes: usize) -> u64 {
        self.take(bytes).iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    fn text(&mut self) -> &'a [u8] {
        let end = self.0[self.1..].iter().position(|byte| *byte == 0).expect("a text ends");
        self.take(end + 1)
    }
}

/// Packed pieces, unpacked.
fn unpacked(pieces: &[u8]) -> std::io::Result<Vec<u8>> {
    let (mut at, mut whole) = (At(pieces, 0), Vec::new());
    while at.1 < pieces.len() {
        let (size, unpacked) = (at.number(4) as usize, at.number(4) as usize);
        whole.extend(zstd::bulk::decompress(at.take(size), unpacked)?);
    }
    Ok(whole)
}

/// All options, without the one that ends them.
fn options(all: &[u8], mut at: usize) -> std::io::Result<Vec<(u16, Vec<u8>)>> {
    let mut options = Vec::new();
    while at != 0 {
        let mut head = At(all, at + 2);
        let is_packed = head.number(2) & 1 != 0;
        head.number(4);
        let size = head.number(8) as usize;
        let section = head.take(size);
        let section = if is_packed { unpacked(section)? } else { section.to_vec() };
        let mut rest = At(&section, 0);
        at = 0;
        while rest.1 < section.len() {
            let (option, size) = (rest.number(2) as u16, rest.number(4) as usize);
            let data = rest.take(size);
            match option {
                0 => at = At(data, 0).number(8) as usize,
                _ => options.push((option, data.to_vec())),
            }
        }
    }
    Ok(options)
}

/// A CPU's pages, as they lie in the sample.
struct Pages {
    bytes: Vec<u8>,
    page_bytes: usize,
}

impl Pages {
    /// Writes them again and again until they take so many bytes: the number of pieces, then each with its size.
    fn write(&mut self, bytes: u64, span_ns: u64, to: &mut (impl Write + Seek)) -> std::io::Result<u64> {
        let begin = to.stream_position()?;
        let (mut pieces, mut written) = (0u32, 4);
        to.write_all(&[0; 4])?;
        while written < bytes {
            let packed = zstd::bulk::compress(&self.bytes, LEVEL)?;
            to.write_all(&(packed.len() as u32).to_le_bytes())?;
            to.write_all(&(self.bytes.len() as u32).to_le_bytes())?;
            to.write_all(&packed)?;
            written += 8 + packed.len() as u64;
            pieces += 1;
            // A page begins with its time; what its events say is how much later they are.
            for page in self.bytes.chunks_mut(self.page_bytes) {
                let at_ns = At(page, 0).number(8) + span_ns;
                page[..8].copy_from_slice(&at_ns.to_le_bytes());
            }
        }
        to.seek(SeekFrom::Start(begin))?;
        to.write_all(&pieces.to_le_bytes())?;
        to.seek(SeekFrom::Start(begin + written))?;
        Ok(written - 4)
    }
}

/// Writes the trace with so many bytes, or somewhat more.
pub(crate) fn write(megabytes: u64, to: &mut (impl Write + Seek)) -> Result<(), Box<dyn std::error::Error>> {
    let mut all = bytes("trace.dat.gz")?;
    let mut span = (u64::MAX, 0);
    read_trace_dat(Cursor::new(&all), &Markers::default(), |event| {
        if event.at_ns > 0 {
            span = (span.0.min(event.at_ns), span.1.max(event.at_ns));
        }
    })?;
    let mut head = At(&all, b"\x17\x08\x44tracing".len());
    assert_eq!(head.text(), b"7\0", "the sample's version");
    head.number(2 + 4);
    assert_eq!(head.text(), b"zstd\0", "the sample's packing");
    head.text();
    let options_at = head.1;
    let mut options = options(&all, head.number(8) as usize)?;
    let (_, buffer) = options.iter_mut().find(|(option, _)| *option == BUFFER).expect("the sample has pages");
    let mut told = At(buffer, 8);
    told.text();
    told.text();
    let (page_bytes, cpus) = (told.number(4) as usize, told.number(4) as usize);
    let places = told.1;
    let section = to.stream_position()? + all.len() as u64;
    let mut changed = buffer.clone();
    changed[..8].copy_from_slice(&section.to_le_bytes());
    let mut cpu_pages = Vec::new();
    for cpu in 0..cpus {
        let mut place = At(buffer, places + cpu * 20 + 4);
        let (offset, size) = (place.number(8) as usize, place.number(8) as usize);
        // The number of pieces before them is not counted.
        let pages = unpacked(&all[offset + 4..offset + 4 + size])?;
        cpu_pages.push(Pages { bytes: pages, page_bytes });
    }
    to.write_all(&all)?;
    // The kind of the section and that it is packed, as the sample says them.
    let old_section = At(buffer, 0).number(8) as usize;
    to.write_all(&all[old_section..old_section + 8])?;
    to.write_all(&[0; 8])?;
    for (cpu, pages) in cpu_pages.iter_mut().enumerate().filter(|(_, pages)| !pages.bytes.is_empty()) {
        let offset = to.stream_position()?;
        let size = pages.write((megabytes << 20) / cpus as u64, span.1 - span.0 + 1_000_000, to)?;
        let place = places + cpu * 20 + 4;
        changed[place..place + 8].copy_from_slice(&offset.to_le_bytes());
        changed[place + 8..place + 16].copy_from_slice(&size.to_le_bytes());
    }
    let end = to.stream_position()?;
    to.seek(SeekFrom::Start(section + 8))?;
    to.write_all(&(end - section - SECTION_HEAD as u64).to_le_bytes())?;
    to.seek(SeekFrom::Start(end))?;
    *buffer = changed;
    let mut body = Vec::new();
    for (option, data) in &options {
        body.extend_from_slice(&option.to_le_bytes());
        body.extend_from_slice(&(data.len() as u32).to_le_bytes());
        body.extend_from_slice(data);
    }
    // The end: no further section.
    body.extend_from_slice(&[0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    to.write_all(&[0; 8])?;
    to.write_all(&(body.len() as u64).to_le_bytes())?;
    to.write_all(&body)?;
    all.truncate(0);
    to.seek(SeekFrom::Start(options_at as u64))?;
    to.write_all(&end.to_le_bytes())?;
    to.flush()?;
    Ok(())
}
