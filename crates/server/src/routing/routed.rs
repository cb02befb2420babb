//! Where the routes of a host lead a request.

use super::asker::Asker;
use super::host_names;
use super::hosts::Hosts;
use super::routes::condition::Scene;
use super::routes::mapping::Mapped;
use super::routes::route::{Act, Candidate, Route};
use super::routes::scan::{self, End, NoTrace, Trace};
use super::set_by_routes::SetByRoutes;
use super::settings::Action;
use super::tables::Via;
use crate::http::target::Target;
use std::sync::Arc;

/// Where the routes of a host have led a request.
#[derive(Debug)]
pub(super) struct Routed {
    /// What is answered in place of what the tables say, where they let the client in.
    pub(super) ending: Option<Ending>,
    /// The route that ended the scan.
    pub(super) by: Option<usize>,
    /// The path is another one than was asked for.
    pub(super) is_mapped: bool,
    pub(super) via: Via,
    pub(super) set: Option<SetByRoutes>,
}

/// What a route answers.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) status: u16,
    /// Lines of the head.
    pub(super) fields: Vec<u8>,
    /// Whether the password of the path is asked for before. A refusal gives nothing away, and on the way to TLS a
    /// password would be sent in the clear.
    pub(super) asks_password: bool,
}

impl Hosts {
    /// Has the routes look at a request for a path. Where they lead to another one it is in `mapped`.
    pub(super) fn route(
        &mut self,
        routes: &[Route],
        found: &Target<'_>,
        asker: &Asker<'_>,
        mapped: &mut Mapped,
        trace: &mut impl Trace,
    ) -> Routed {
        let scene = Scene {
            request: asker.request,
            client: asker.client,
            is_secure: asker.is_secure,
            host: host_names::name_of(asker.request),
            unix_s: asker.clock.unix_s,
        };
        let mut scanned = scan::scan(routes, &scene, found, mapped, trace);
        let end = match (std::mem::replace(&mut scanned.end, End::Tables), scanned.by) {
            (End::Try, Some(by)) => {
                let tried = Tried { number: by, route: &routes[by], scene: &scene, found, asker };
                self.try_files(&tried, &mut scanned.is_mapped, mapped, trace)
            }
            (end, _) => end,
        };
        let asked = scanned.is_mapped.then(|| self.tables(asker.host, found.path));
        let mut via = asked.map_or(Via::Nothing, Via::Mapped);
        let ending = |status, fields, asks_password| Some(Ending { status, fields, asks_password });
        let ending = match end {
            End::Tables | End::Try => None,
            End::User { site, mount_bytes } => {
                via = Via::User(site, mount_bytes, asked);
                None
            }
            End::UserScript { upstream } => {
                via = Via::UserScript(upstream, asked);
                None
            }
            End::Redirect(status, line) => ending(status, line, true),
            End::Https(status, line) => ending(status, line, false),
            End::Fail(status) => ending(status, Vec::new(), false),
        };
        let (sets, varies) = (scanned.sets, scanned.varies);
        let set = (sets | varies != 0).then(|| SetByRoutes {
            rules: Arc::clone(&self.rules),
            host: asker.host,
            sets,
            varies,
        });
        Routed { ending, by: scanned.by, is_mapped: scanned.is_mapped, via, set }
    }

    /// Looks for the first of several files that exists. The last one needs no look.
    fn try_files(
        &mut self,
        tried: &Tried<'_>,
        is_mapped: &mut bool,
        mapped: &mut Mapped,
        trace: &mut impl Trace,
    ) -> End {
        let Tried { number, route, scene, found, asker } = *tried;
        let Act::Try(candidates) = &route.act else { return End::Tables };
        let mut spare = Mapped::default();
        for (place, candidate) in candidates.iter().enumerate() {
            let mapping = match candidate {
                Candidate::File(mapping) => mapping,
                Candidate::Status(status) => return End::Fail(*status),
            };
            let now = if *is_mapped { mapped.target() } else { Target { ..*found } };
            if !mapping.is_same() {
                let values = route.values(scene, &now, mapping.has_captures());
                if let Err(why) = mapping.render(&values, &mut spare) {
                    return End::Fail(scan::status_of(why));
                }
            }
            let path = if mapping.is_same() { now.path } else { &spare.path };
            let is_last = place + 1 == candidates.len();
            let is_there = is_last || self.is_file(path, asker);
            trace.tried(number, path, is_there);
            if !is_there {
                continue;
            }
            if !mapping.is_same() {
                if spare.path.len() > 1 && spare.path.ends_with(b"/") && !found.path.ends_with(b"/") {
                    // The directory is answered with a redirect to its slash, as relative links need it.
                    spare.path.pop();
                }
                std::mem::swap(mapped, &mut spare);
                *is_mapped = true;
            }
            return End::Tables;
        }
        End::Tables
    }

    /// Whether a path leads to a file: below the root that its tables name, or else that of the host.
    fn is_file(&mut self, path: &[u8], asker: &Asker<'_>) -> bool {
        let settings = self.settings(asker.host, Via::Nothing, Some(path));
        let of_host = self.rules.hosts[usize::from(asker.host)].said.action.as_ref();
        let (site, mount_bytes) = match (&settings.action, of_host) {
            (Action::Files { site, mount_bytes }, _) | (_, Some(Action::Files { site, mount_bytes })) => {
                (*site, *mount_bytes)
            }
            _ => return false,
        };
        self.look_up((site, mount_bytes), &Target { path, query: b"" }, asker).file().is_some()
    }

    /// Where routes lead a request for a part of a page; none where they refuse it, or send it elsewhere.
    pub(super) fn route_part<'m>(
        &mut self,
        found: Target<'m>,
        asker: &Asker<'_>,
        mapped: &'m mut Mapped,
    ) -> Option<(Target<'m>, Via)> {
        let Some(routes) = self.routes(asker.host) else { return Some((found, Via::Nothing)) };
        let routed = self.route(&routes, &found, asker, mapped, &mut NoTrace);
        if routed.ending.is_some() {
            return None;
        }
        Some((if routed.is_mapped { mapped.target() } else { found }, routed.via))
    }
}

/// A route that looks for files, and for whom.
#[derive(Clone, Copy)]
struct Tried<'a> {
    number: usize,
    route: &'a Route,
    scene: &'a Scene<'a>,
    found: &'a Target<'a>,
    asker: &'a Asker<'a>,
}
