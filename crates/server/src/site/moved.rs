//! Content of sessions that move: whether a file of a response is one of this site, and opening it where one comes.

use crate::counters::Counters;
use crate::files::held::Opened;
use crate::files::resource::Resource;
use crate::files::stamp::Stamp;
use crate::policy::advice::NoRules;
use crate::policy::codec_swap::{Stream, StreamPlace};
use crate::policy::policy_client::PolicyClient;
use crate::site::state::Site;
use std::io;
use std::rc::Rc;
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

    /// What goes on with sound of this site, piece by piece, and who is asked about it; no stream where it is no such
    /// sound. A site without rules goes on in the variant that was chosen elsewhere.
    ///
    /// # Errors
    ///
    /// The system's refusal of a descriptor.
    pub(crate) fn stream_moved(
        &self,
        place: StreamPlace,
        resource: &Rc<Resource>,
        (counters, index): (&Counters, usize),
    ) -> io::Result<(Rc<PolicyClient>, Option<Stream>)> {
        let without_rules = || {
            let known = (Arc::default(), Arc::default(), Arc::clone(&self.shared_content));
            Rc::new(PolicyClient::new(Arc::new(NoRules), known, counters.clone(), index))
        };
        let policy_client = self.policy_client.clone().unwrap_or_else(without_rules);
        let family = (Rc::new(self.root.try_clone()?), Arc::clone(&self.shared_content));
        let stream = Stream::go_on(family, place, resource, &policy_client);
        Ok((policy_client, stream))
    }
}
