//! How the files of a set are asked for.

use crate::workload::crowd::Crowd;
use crate::workload::fileset::FileSet;
use crate::{ListedRequest, Request, Url};

/// How the files of a set are asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix {
    /// The files.
    pub files: FileSet,
    /// Where the random numbers begin: the same seed asks for the same files.
    pub seed: u64,
    /// With this exponent directories follow Zipf's law: the r-th is asked for in proportion to 1/r^exponent. `None` =
    /// all equally often.
    pub directories_zipf: Option<f64>,
    /// A flash crowd that asks for them; arrivals are its clients.
    pub crowd: Option<Crowd>,
}

impl Mix {
    /// The requests of the mix, one for each kind of file, as [`crate::Requests::list`] has them; the files are below
    /// the path of `base`, and each request begins as `like`.
    #[must_use]
    pub fn requests(&self, base: &Url, like: &Request) -> Vec<ListedRequest> {
        let path = base.target.split('?').next().unwrap_or_default().trim_end_matches('/');
        let listed = |kind: u32| ListedRequest {
            url: base.with_target(&format!("{path}/{}", self.files.path(kind))),
            request: like.clone(),
            weight: 1,
        };
        (0..self.files.kinds()).map(listed).collect()
    }

    /// Whether it is asked for by users, page by page or in a crowd, instead of file by file.
    #[must_use]
    pub fn has_users(&self) -> bool {
        self.crowd.is_some() || matches!(self.files, FileSet::Surge(_))
    }
}
