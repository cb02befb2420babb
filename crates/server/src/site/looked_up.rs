//! Looks up what a path leads to before it is answered, so that the rules of the file that answers can be applied.

use crate::counters::LoopCounters;
use crate::exchange::error_page::{self, Extra};
use crate::exchange::life::Exchange;
use crate::files::head::Persistence;
use crate::files::resource::Resource;
use crate::http::coding::CODINGS;
use crate::http::request::{Method, Request};
use crate::http::target::{self, BadTarget};
use crate::io::clock::Clock;
use crate::policy::client_peer::ClientPeer;
use crate::site::asked::Asked;
use crate::site::destination::Destination;
use crate::site::state::Site;
use std::rc::Rc;

/// What a target leads to: it is looked up once, so that what is judged is what is sent.
pub(crate) struct LookedUp(Result<Destination, BadTarget>);

/// What a target leads to, for an explanation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Leads {
    /// A file, by its path within the site.
    File(Vec<u8>),
    /// A directory without an index.
    Directory,
    /// A directory asked for without its slash.
    ToSlash,
    Failed(u16),
    Malformed,
    /// A name that is not served.
    Closed,
}

impl LookedUp {
    /// What it is.
    pub(crate) fn leads(&self) -> Leads {
        match &self.0 {
            Ok(Destination::Resource(resource) | Destination::Doubtful(resource, _)) => {
                Leads::File(resource.path.to_vec())
            }
            Ok(Destination::Directory(..) | Destination::Listed) => Leads::Directory,
            Ok(Destination::Redirect) => Leads::ToSlash,
            Ok(Destination::Elsewhere(file)) => Leads::File(file.path().to_vec()),
            Ok(Destination::Failed(status)) => Leads::Failed(*status),
            Ok(Destination::Answered) => Leads::Failed(500),
            Err(BadTarget::Malformed) => Leads::Malformed,
            Err(BadTarget::Closed) => Leads::Closed,
        }
    }

    /// The path of the file that answers, within its site; none where no file does.
    pub(crate) fn file(&self) -> Option<&[u8]> {
        match &self.0 {
            Ok(Destination::Resource(resource)) => Some(&resource.path),
            _ => None,
        }
    }

    /// The endings of the compressed neighbours that may be sent in place of that file.
    pub(crate) fn neighbours(&self) -> Vec<&'static [u8]> {
        let Ok(Destination::Resource(resource)) = &self.0 else { return Vec::new() };
        let found = resource.encodings.as_ref().map(|encodings| encodings.neighbours()).unwrap_or_default();
        let there = CODINGS.into_iter().zip(found).filter(|(_, stamp)| stamp.is_some());
        there.map(|(coding, _)| coding.suffix()).collect()
    }
}

impl Site {
    /// Names of files that stand for their directory.
    pub(crate) fn index_names(&self) -> &[Vec<u8>] {
        &self.index
    }

    /// Finds what a target leads to, as a GET of it does.
    pub(crate) fn look_up(&mut self, target: &str, clock: &Clock, counters: &LoopCounters) -> LookedUp {
        let mut decoded = std::mem::take(&mut self.decoded);
        let destination = target::resolve(target, self.dot_files, &mut decoded).map(|found| {
            self.looked_ns = 0;
            match self.destination(found.path, clock, counters) {
                // Another file may stand for the directory by now.
                Destination::Doubtful(resource, _) => self.look(found.path, Some(resource), clock, counters),
                destination => destination,
            }
        });
        self.decoded = decoded;
        LookedUp(destination)
    }

    /// Makes the response to a GET or HEAD of what was looked up for its target; as [`respond`](Self::respond) does.
    #[must_use]
    pub(crate) fn respond_with(
        &mut self,
        looked_up: LookedUp,
        request: &Request<'_>,
        peer: &ClientPeer<'_>,
        persistence: Persistence,
        (clock, counters): (&Clock, &LoopCounters),
        out: &mut Exchange,
    ) -> Option<Rc<Resource>> {
        let extra = Extra { fields: b"", head_only: request.method == Method::Head };
        let mut decoded = std::mem::take(&mut self.decoded);
        let mut page = None;
        match (target::resolve(request.target, self.dot_files, &mut decoded), looked_up.0) {
            (Ok(found), Ok(destination)) => {
                let asked = Asked { request, peer, path: found.path, persistence, clock, counters };
                page = self.answer(asked, &found, destination, out);
            }
            (Err(BadTarget::Malformed), _) | (_, Err(BadTarget::Malformed)) => {
                error_page::write(out, 400, extra, clock, persistence);
            }
            (Err(BadTarget::Closed), _) | (_, Err(BadTarget::Closed)) => {
                error_page::write(out, 404, extra, clock, persistence);
            }
        }
        self.decoded = decoded;
        page
    }
}
