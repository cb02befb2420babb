//! Workloads whose shape was published: which files there are, how large they are, how often each is asked for.
//!
//! A [`FileSet`] is a rule, not a list: the path and the size of each file follow from its number, so that a set of a
//! million files takes no room. [`fileset::write`] makes its files; a [`Mix`] says how they are asked for.

pub mod crowd;
mod distribution;
mod draw;
pub mod fileset;
pub mod specweb96;
pub mod surge;
mod tally;
mod users;

pub(crate) use crowd::Client;
pub use crowd::Crowd;
pub(crate) use draw::Draw;
pub use fileset::FileSet;
pub use surge::Surge;
pub use tally::MixReport;
pub(crate) use tally::MixTally;
pub(crate) use users::Users;
pub use users::{BETWEEN_S, EMBEDDED, WITHIN_S};

use crate::{Ask, Asks, LoadError, Options, Order, Protocol, Request, Schedule, Url};

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
    /// The requests of the mix, one for each kind of file, as [`Asks::list`] has them; the files are below the path of
    /// `base`, and each request begins as `like`.
    #[must_use]
    pub fn asks(&self, base: &Url, like: &Request) -> Vec<Ask> {
        let path = base.target.split('?').next().unwrap_or_default().trim_end_matches('/');
        let ask = |kind: u32| Ask {
            url: base.with_target(&format!("{path}/{}", self.files.path(kind))),
            request: like.clone(),
            weight: 1,
        };
        (0..self.files.kinds()).map(ask).collect()
    }

    /// Whether it is asked for by users, page by page or in a crowd, instead of file by file.
    #[must_use]
    pub fn has_users(&self) -> bool {
        self.crowd.is_some() || matches!(self.files, FileSet::Surge(_))
    }

    /// Whether the mix can be asked with the other options.
    pub(crate) fn check(&self, asks: &Asks, options: &Options) -> Result<(), LoadError> {
        let wrong = |what| Err(LoadError::Options(what));
        self.files.check()?;
        if asks.list.len() != self.files.kinds() as usize {
            return wrong("a mix asks for the files of its set, and for nothing else");
        }
        if asks.order != Order::InTurn {
            return wrong("a mix says itself in which order files are asked for");
        }
        if options.protocol != Protocol::Http1 {
            return wrong("a mix (--mix) is asked for over HTTP/1.1 only");
        }
        if asks.cookie_jar {
            return wrong("files set no cookies: leave the cookie jar (--cookie-jar) out with a mix (--mix)");
        }
        if self.directories_zipf.is_some() && !matches!(self.files, FileSet::SpecWeb96 { .. }) {
            return wrong("only the directories of specweb96 can be asked for by Zipf's law (--directory-zipf)");
        }
        if self.has_users() && asks.sessions.is_some() {
            return wrong("the users of a mix are all the users there are: leave the sessions out");
        }
        if self.has_users() && (options.pipeline > 1 || !options.keep_alive) {
            return wrong("users ask for one file after the other, over connections that are kept");
        }
        if let Some(crowd) = &self.crowd {
            if let Some(problem) = crowd.problem() {
                return wrong(problem);
            }
            if !matches!(&options.schedule, Schedule::Changing { profile, .. } if *profile == crowd.profile) {
                return wrong("a flash crowd says itself when its clients come: leave rates and arrivals out");
            }
        } else if self.has_users() && options.schedule != Schedule::Closed {
            return wrong("the users of surge are as many as there are connections (-c): leave rates and arrivals out");
        }
        if self.directories_zipf.is_some_and(|exponent| !(exponent > 0.0 && exponent <= 10.0)) {
            return wrong("the exponent of Zipf's law lies above 0 and at most at 10");
        }
        Ok(())
    }
}
