//! A route: its conditions, and what it does.

use super::condition::{Condition, Scene};
use super::location::Location;
use super::mapping::Mapping;
use super::path_test::PathTest;
use super::pieces::Values;
use crate::http::target::Target;
use std::collections::HashMap;

/// Routes of one host; those of a request are kept as a set of so many bits.
pub(crate) const ROUTES_MAX: usize = 128;

/// One of the routes of a host.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    /// What the path has to be like; pieces are taken from it.
    pub(crate) path: Option<PathTest>,
    /// What else has to hold.
    pub(crate) conditions: Vec<Condition>,
    pub(crate) act: Act,
    /// It sets fields of responses.
    pub(crate) sets_fields: bool,
    /// Only of responses with one of these statuses; empty = of all.
    pub(crate) statuses: Vec<u16>,
    /// What of the request caches have to tell responses apart by: names of fields in one list.
    pub(crate) vary: Option<String>,
    /// Its line in the configuration.
    pub(crate) line: usize,
}

/// What a route does.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Ends the scan: the tables decide.
    Pass,
    /// Puts another path in place of this one, and goes on.
    Map(Mapping),
    /// Sends the client elsewhere.
    Redirect { status: u16, to: Location },
    /// Refuses.
    Fail(u16),
    /// Sets fields at most, and goes on.
    Set,
    /// Serves the directories of users: `/~NAME`, by the name.
    User { sites: HashMap<Vec<u8>, UserSite> },
    /// Serves the first of several files that exists.
    Try(Vec<Candidate>),
    /// Sends the client to the same address over TLS, at this port if it is not the usual one.
    Https { status: u16, port: Option<u16> },
}

/// The directory of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UserSite {
    /// The number of the site.
    pub(crate) site: usize,
    /// The number of the upstream for the scripts in its directory of scripts, if there are any.
    pub(crate) scripts: Option<usize>,
}

/// Where scripts lie in the directory of a user, behind `/~NAME`.
pub(crate) const SCRIPTS_IN_HOMES: &str = "/cgi-bin/";

impl UserSite {
    /// The upstream for a path, of which so many bytes stand for the directory.
    pub(super) fn upstream(self, path: &[u8], mount_bytes: usize) -> Option<usize> {
        self.scripts
            .filter(|_| path.get(mount_bytes..).is_some_and(|below| below.starts_with(SCRIPTS_IN_HOMES.as_bytes())))
    }
}

/// One of several files, or what is answered if there was none before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Candidate {
    File(Mapping),
    Status(u16),
}

/// Why a route does not hold.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Failed<'r> {
    Path(&'r PathTest),
    Condition(&'r Condition),
    /// It is for requests that are not over TLS.
    IsSecure,
    /// It is for paths that begin with `/~`.
    NoTilde,
}

impl Route {
    /// Why it does not hold; none if it does. Second: whether a condition was looked at of which caches must know.
    #[inline]
    pub(crate) fn failed(&self, scene: &Scene<'_>, now: &Target<'_>) -> (Option<Failed<'_>>, bool) {
        if let Some(test) = &self.path
            && !test.matches(now.path)
        {
            return (Some(Failed::Path(test)), false);
        }
        match self.act {
            Act::Https { .. } if scene.is_secure => return (Some(Failed::IsSecure), false),
            Act::User { .. } if !now.path.starts_with(b"/~") => return (Some(Failed::NoTilde), false),
            _ => {}
        }
        let mut varies = false;
        for condition in &self.conditions {
            varies |= condition.varies();
            if !condition.holds(scene, now.path, now.query) {
                return (Some(Failed::Condition(condition)), varies);
            }
        }
        (None, varies)
    }

    /// What the places of its texts stand for.
    pub(crate) fn values<'v>(&self, scene: &Scene<'v>, now: &Target<'v>, has_captures: bool) -> Values<'v> {
        let captured = match &self.path {
            Some(test) if has_captures => test.captures(now.path),
            _ => Default::default(),
        };
        Values { path: now.path, query: now.query, host: scene.host, captured }
    }

    /// What caches have to tell responses apart by, of these conditions: names of fields in one list.
    pub(crate) fn vary_of(conditions: &[Condition]) -> Option<String> {
        let mut names = Vec::new();
        conditions.iter().for_each(|condition| condition.add_vary(&mut names));
        names.sort_unstable();
        names.dedup();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// Whether nothing behind it is looked at where it holds.
    pub(crate) fn is_final(&self) -> bool {
        !matches!(self.act, Act::Map(_) | Act::Set)
    }

    /// What it does, as the configuration says it.
    pub(crate) fn said(&self) -> &'static str {
        match &self.act {
            Act::Pass => "pass",
            Act::Map(_) => "map",
            Act::Redirect { .. } => "redirect",
            Act::Fail(_) => "fail",
            Act::Set => "set_headers",
            Act::User { .. } => "user",
            Act::Try(_) => "try_files",
            Act::Https { .. } => "https",
        }
    }
}
