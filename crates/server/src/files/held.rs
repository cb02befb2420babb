//! Content that a session names: where it lies, which digest it has, and what holds it while the session moves.
//!
//! What stands here belongs to no loop. The thread that moves a session reads and digests; a loop only makes a resource
//! of what that thread has found.

use crate::files::compress;
use crate::files::digest::digest_of;
use crate::files::resource::{Content, Description, Resource};
use crate::files::shared_content::{Shared, SharedContent};
use crate::files::stamp::Stamp;
use crate::http::response::{Digest, ResourceId, Variant};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;

/// Contents that are remembered with their digests: each holds its bytes if it is small, else a descriptor.
const KNOWN_MAX: usize = 32;

/// Where content lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContentKey {
    /// The place of its site in the configuration.
    pub(crate) site: u32,
    /// From the root of that site.
    pub(crate) path: Vec<u8>,
    pub(crate) variant: Variant,
    /// Whether this form was made of the file, rather than lying in one of its own.
    pub(crate) is_made: bool,
}

/// Content that is held.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) key: ContentKey,
    stamp: Stamp,
    bytes: Bytes,
    shared: Arc<Shared>,
}

#[derive(Debug, Clone)]
enum Bytes {
    Memory(Arc<[u8]>),
    File(Arc<File>),
}

/// A file that a loop has opened for a session, and the bounds of its site.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) file: File,
    pub(crate) shared_content: Arc<SharedContent>,
    /// Up to so many bytes are held in memory.
    pub(crate) memory_bytes_max: u64,
    /// Files up to this size are compressed.
    pub(crate) made_bytes_max: u64,
}

impl Held {
    /// What a response is being sent of, which lies in a site of this number.
    ///
    /// # Errors
    ///
    /// The system's refusal of a descriptor.
    pub(crate) fn of(resource: &Resource, site: u32) -> io::Result<Self> {
        let variant = resource.variant;
        let is_made = variant != Variant::Identity && !resource.path.ends_with(variant.suffix());
        let bytes = match &resource.content {
            Content::Memory(bytes) => Bytes::Memory(Arc::clone(bytes)),
            Content::File(file) => Bytes::File(Arc::new(file.try_clone()?)),
        };
        let key = ContentKey { site, path: resource.path.to_vec(), variant, is_made };
        Ok(Self { key, stamp: resource.stamp, bytes, shared: Arc::clone(&resource.shared) })
    }

    /// What lies in an open file; a form that is made is made here again. None where it cannot be that.
    ///
    /// # Errors
    ///
    /// What the file system answers.
    pub(crate) fn load(key: ContentKey, opened: Opened) -> io::Result<Option<Self>> {
        let metadata = opened.file.metadata()?;
        if !metadata.is_file() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let stamp = Stamp::of(&metadata);
        let shared = opened.shared_content.take(stamp);
        let bytes = if key.is_made {
            if stamp.size() > opened.made_bytes_max {
                return Ok(None);
            }
            // Not by what loops share: that would keep the plain bytes as well.
            let mut plain = vec![0; usize::try_from(stamp.size()).unwrap_or(usize::MAX)];
            opened.file.read_exact_at(&mut plain, 0)?;
            let is_same = Stamp::of(&opened.file.metadata()?) == stamp;
            let made = compress::compress(&plain, key.variant).filter(|_| is_same);
            made.map(|bytes| Bytes::Memory(bytes.into()))
        } else if stamp.size() > opened.memory_bytes_max {
            Some(Bytes::File(Arc::new(opened.file)))
        } else {
            shared.fill(&opened.file, stamp, &mut false)?.map(Bytes::Memory)
        };
        Ok(bytes.map(|bytes| Self { key, stamp, bytes, shared }))
    }

    /// Bytes of the content.
    pub(crate) fn size(&self) -> u64 {
        match &self.bytes {
            Bytes::Memory(bytes) => bytes.len() as u64,
            Bytes::File(_) => self.stamp.size(),
        }
    }

    /// The digest of the bytes; none if the file is another one by now, or cannot be read. It is made once of each
    /// file, which may take long.
    pub(crate) fn digest(&self) -> Option<Digest> {
        match &self.bytes {
            Bytes::Memory(bytes) if self.key.is_made => Some(digest_of(bytes)),
            Bytes::Memory(bytes) => Some(self.shared.known_digest().unwrap_or_else(|| digest_of(bytes))),
            Bytes::File(file) => self.shared.digest(Some(file)).filter(|_| self.is_unchanged()),
        }
    }

    /// Whether the file is still what it was.
    pub(crate) fn is_unchanged(&self) -> bool {
        match &self.bytes {
            Bytes::Memory(_) => true,
            Bytes::File(file) => ResourceId::of(file).is_ok_and(|id| id == self.stamp.id),
        }
    }

    /// Appends some of the bytes; false if there are not so many, or they are others by now.
    pub(crate) fn append(&self, start: u64, len: usize, out: &mut Vec<u8>) -> bool {
        match &self.bytes {
            Bytes::Memory(bytes) => {
                let start = usize::try_from(start).unwrap_or(usize::MAX);
                let wanted = start.checked_add(len).and_then(|end| bytes.get(start..end));
                wanted.iter().for_each(|bytes| out.extend_from_slice(bytes));
                wanted.is_some()
            }
            Bytes::File(file) => {
                let before = out.len();
                out.resize(before + len, 0);
                file.read_exact_at(&mut out[before..], start).is_ok() && self.is_unchanged()
            }
        }
    }

    /// The same for the responses of a loop.
    ///
    /// # Errors
    ///
    /// The system's refusal of a descriptor.
    pub(crate) fn resource(&self, digest: Digest) -> io::Result<Rc<Resource>> {
        let content = match &self.bytes {
            Bytes::Memory(bytes) => Content::Memory(Arc::clone(bytes)),
            Bytes::File(file) => Content::File(Rc::new(file.try_clone()?)),
        };
        // The head was made where the response began.
        let of = Description {
            path: self.key.path.as_slice().into(),
            content_type: String::new(),
            own_coding: None,
            variant: self.key.variant,
            varies: false,
            is_governed: false,
            asks_hints: false,
            now_s: 0,
        };
        Ok(Rc::new(Resource::describe(self.stamp, digest, content, Arc::clone(&self.shared), &of)))
    }
}

/// Contents that sessions have named lately, with their digests.
#[derive(Debug, Default)]
pub(crate) struct KnownContents(VecDeque<(Held, Digest)>);

impl KnownContents {
    /// What has this digest and lies there, if it was not changed.
    pub(crate) fn find(&self, key: &ContentKey, digest: Digest) -> Option<Held> {
        let is_it = |(held, known): &&(Held, Digest)| *known == digest && held.key == *key && held.is_unchanged();
        self.0.iter().find(is_it).map(|(held, _)| held.clone())
    }

    /// Remembers one in place of what was known of the same place before; the one that was remembered first goes if
    /// there are too many.
    pub(crate) fn remember(&mut self, held: &Held, digest: Digest) {
        self.0.retain(|(known, of)| known.key != held.key || (*of != digest && known.is_unchanged()));
        if self.0.len() == KNOWN_MAX {
            self.0.pop_front();
        }
        self.0.push_back((held.clone(), digest));
    }
}
