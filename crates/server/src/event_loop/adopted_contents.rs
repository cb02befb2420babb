//! What connections that came from other servers are sent of.

use crate::files::held::Held;
use crate::files::resource::Resource;
use crate::http::response::{Digest, Variant};
use std::io;
use std::rc::{Rc, Weak};

/// What connections that came are sent of, so that many of one file share a descriptor.
#[derive(Debug, Default)]
pub(super) struct AdoptedContents(Vec<(Digest, Variant, Weak<Resource>)>);

impl AdoptedContents {
    pub(super) fn resource(&mut self, held: &Held, digest: Option<Digest>) -> io::Result<Rc<Resource>> {
        let Some(digest) = digest else { return held.resource(Digest([0; 32])) };
        self.0.retain(|(.., resource)| resource.strong_count() > 0);
        let variant = held.key.variant;
        let is_it = |resource: &Rc<Resource>| *resource.path == *held.key.path && resource.is_unchanged();
        let known = self.0.iter().filter(|(of, form, _)| (*of, *form) == (digest, variant));
        if let Some(resource) = known.filter_map(|(.., resource)| resource.upgrade()).find(is_it) {
            return Ok(resource);
        }
        let resource = held.resource(digest)?;
        self.0.push((digest, variant, Rc::downgrade(&resource)));
        Ok(resource)
    }
}
