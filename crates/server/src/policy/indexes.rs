//! The indexes of sound files that a loop has read.

use crate::files::resource::{Content, Resource};
use crate::http::response::ResourceId;
use crate::media::audio;
use crate::media::audio::index::Index;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

/// Bytes of a file that are looked at for the frame to go on with, before the next piece is sent.
pub(super) const SEARCH_BYTES: u64 = 2 << 20;

/// Files whose frames a loop remembers.
const INDEXES_MAX: usize = 64;

/// Where the frames of files lie, as far as it was found out.
#[derive(Debug, Default)]
pub(crate) struct Indexes(HashMap<ResourceId, Rc<RefCell<Index>>>);

impl Indexes {
    /// That of a file; none if it is no sound that can be swapped.
    pub(super) fn of(&mut self, resource: &Resource) -> io::Result<Option<Rc<RefCell<Index>>>> {
        if let Some(index) = self.0.get(&resource.id) {
            return Ok(Some(Rc::clone(index)));
        }
        let Some(index) = Index::open(&Sound(resource))? else { return Ok(None) };
        if self.0.len() >= INDEXES_MAX {
            // Those that are in use stay with their streams.
            self.0.clear();
        }
        let index = Rc::new(RefCell::new(index));
        self.0.insert(resource.id, Rc::clone(&index));
        Ok(Some(index))
    }
}

/// The bytes of a resource.
pub(super) struct Sound<'a>(pub(super) &'a Resource);

impl audio::Bytes for Sound<'_> {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_at(&self, start: u64, out: &mut [u8]) -> io::Result<usize> {
        match &self.0.content {
            Content::Memory(bytes) => bytes.read_at(start, out),
            Content::File(file) => {
                let mut read = 0;
                while read < out.len() {
                    match file.read_at(&mut out[read..], start + read as u64)? {
                        0 => break,
                        more => read += more,
                    }
                }
                Ok(read)
            }
        }
    }
}
