//! A file for a page.

use crate::files::resource::Resource;
use std::rc::Rc;

/// A file for a page, or a page.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) resource: Rc<Resource>,
    /// What its site's root stands for in the paths of the host, without a slash at the end; mostly nothing.
    pub(crate) mount: Vec<u8>,
}

impl Part {
    /// Where it lies, decoded, as requests have it.
    pub(crate) fn path(&self) -> Vec<u8> {
        [&self.mount, &*self.resource.path].concat()
    }
}
