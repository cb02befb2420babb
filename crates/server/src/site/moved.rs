//! Content of sessions that move: whether a file of a response is one of this site, and opening it where one comes.

use crate::files::held::Opened;
use crate::files::resource::Resource;
use crate::files::stamp::Stamp;
use crate::site::state::Site;
use std::io;
use std::sync::Arc;

impl Site {
    /// Whether the file that a response is sent of lies at its path below this root, and is what it was.
    pub(crate) fn holds(&self, resource: &Resource) -> bool {
        let found = self.root.open_for_stat(&resource.path).and_then(|file| file.metadata());
        found.is_ok_and(|metadata| Stamp::of(&metadata).is_of(resource.id))
    }

    /// Opens the file that a session names.
    ///
    /// # Errors
    ///
    /// What the file system answers, also where the path leads out of the root.
    pub(crate) fn open_moved(&self, path: &[u8]) -> io::Result<Opened> {
        Ok(Opened {
            file: self.root.open(path)?,
            shared_content: Arc::clone(&self.shared_content),
            memory_bytes_max: self.memory_bytes_max,
            made_bytes_max: self.compression.bytes_max,
        })
    }
}
