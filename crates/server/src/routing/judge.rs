//! Whether a request is allowed: by the tables of the path that it asks for, and by those of the file that answers in
//! its place, such as the index of a directory.

use super::auth::Judged;
use super::client_certificates::{common_name, lacking};
use super::rate::{Rate, Verdict};
use super::redirect;
use super::settings::{Action, Settings, is_among};
use crate::exchange::life::Exchange;
use crate::http::request::{Method, Request};
use crate::http::target::Target;
use crate::io::clock::Clock;
use crate::routing::asker::{Asker, NS_PER_MS};
use crate::routing::hosts::Hosts;
use crate::routing::mount::{below_mount, mount};
use crate::routing::tables::{Index, Refusal, Tables, Via};
use crate::site::looked_up::LookedUp;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

impl Hosts {
    /// What holds for a path, or for one that cannot be read.
    pub(super) fn settings(&mut self, number: u16, via: Via, path: Option<&[u8]>) -> Rc<Settings> {
        let of = match (path.map(|path| self.tables(number, path)), via) {
            (None, _) => Tables::Unreadable,
            (Some(path), Via::Nothing) => Tables::Path(path),
            (Some(path), via) => Tables::Routed(via, path, None),
        };
        self.settings_of(number, of)
    }

    /// What holds where a file answers in place of a path.
    pub(super) fn settings_of_file(&mut self, number: u16, via: Via, path: &[u8], file: &[u8]) -> Rc<Settings> {
        let (of_path, of_file) = (self.tables(number, path), self.tables(number, file));
        let of = match via {
            Via::Nothing if of_path == of_file => Tables::Path(of_path),
            Via::Nothing => Tables::File(of_path, of_file),
            via => Tables::Routed(via, of_path, (of_path != of_file).then_some(of_file)),
        };
        self.settings_of(number, of)
    }

    /// The tables that a path is for, a bit each.
    pub(super) fn tables(&self, number: u16, path: &[u8]) -> u128 {
        let paths = &self.rules.hosts[usize::from(number)].paths;
        let of_path = paths.iter().enumerate().filter(|(_, (pattern, _))| pattern.matches(path));
        of_path.fold(0, |tables, (place, _)| tables | 1 << place)
    }

    fn settings_of(&mut self, number: u16, of: Tables) -> Rc<Settings> {
        if let Some(settings) = self.known.get(&(number, of)) {
            return Rc::clone(settings);
        }
        let host = &self.rules.hosts[usize::from(number)];
        let put = |tables: u128| {
            let own = host.paths.iter().enumerate().filter(|(place, _)| tables >> place & 1 == 1);
            Settings::of(std::iter::once(&host.said).chain(own.map(|(_, (_, said))| said)))
        };
        let settings = Rc::new(match of {
            Tables::Path(tables) => put(tables),
            Tables::File(path, file) => Settings::of_file(&put(path), &put(file), put(path | file)),
            Tables::Routed(via, path, file) => {
                // What keeps clients from the path that was asked for keeps them from where a route has led to.
                let of_path = match via.asked() {
                    Some(asked) => Settings::of_file(&put(asked), &put(path), put(asked | path)),
                    None => put(path),
                };
                let mut settings = match file {
                    Some(file) => {
                        let both = put(via.asked().unwrap_or(0) | path | file);
                        Settings::of_file(&of_path, &put(file), both)
                    }
                    None => of_path,
                };
                // The directory of a user takes the place of a root, and of nothing that closes it.
                match (via, &settings.action) {
                    (Via::User(site, mount_bytes, _), Action::Files { .. }) => {
                        settings.action = Action::Files { site, mount_bytes };
                    }
                    (Via::UserScript(upstream, _), Action::Files { .. }) => {
                        settings.action = Action::Upstream(upstream);
                    }
                    _ => {}
                }
                settings
            }
            // There is no telling which table the path would belong to: none is left out that keeps a client away, and
            // none has a say on how the error looks that comes of it.
            Tables::Unreadable => Settings::of_unreadable(put(u128::MAX), put(0)),
        });
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert((number, of), Rc::clone(&settings));
        settings
    }

    /// Looks the index of a directory up, where tables tell it from the directory.
    pub(super) fn index(&mut self, settings: &Rc<Settings>, found: &Target<'_>, asker: &Asker<'_>) -> Option<Index> {
        let Action::Files { site, mount_bytes } = settings.action else { return None };
        if !self.tells_index(asker.host, (site, mount_bytes), found.path) {
            return None;
        }
        let looked_up = self.look_up((site, mount_bytes), found, asker);
        let above = if mount_bytes > 0 { mount(mount_bytes, found) } else { b"" };
        let file = looked_up.file().map(|file| [above, file].concat());
        let settings = match &file {
            Some(file) => self.settings_of_file(asker.host, asker.via, found.path, file),
            None => Rc::clone(settings),
        };
        // Other methods are for scripts alone.
        let is_meant = is_for_content(asker.request) || matches!(settings.action, Action::Upstream(_));
        is_meant.then_some(Index { looked_up, file, settings })
    }

    /// Whether a path is a directory's, and some file that may stand for it has other tables than it.
    #[inline]
    fn tells_index(&self, number: u16, (site, mount_bytes): (usize, usize), directory: &[u8]) -> bool {
        let is_directory = directory.ends_with(b"/") || directory.len() <= mount_bytes;
        if !is_directory || self.rules.hosts[usize::from(number)].paths.is_empty() {
            return false;
        }
        let of_directory = self.tables(number, directory);
        let slash: &[u8] = if directory.ends_with(b"/") { b"" } else { b"/" };
        let names = self.sites[site].1.index_names().iter();
        names
            .map(|name| [directory, slash, name].concat())
            .any(|file| self.tables(number, &file) != of_directory || self.is_source(number, &file))
    }

    /// Looks a file up, where tables may be for its compressed neighbours; whether some neighbour has tables that keep
    /// the client from it, so that the file is sent as it is.
    pub(super) fn neighbours(
        &mut self,
        settings: &Settings,
        (site, mount_bytes): (usize, usize),
        looked_up: Option<LookedUp>,
        found: &Target<'_>,
        asker: &Asker<'_>,
    ) -> (Option<LookedUp>, bool) {
        let tells = self.rules.hosts[usize::from(asker.host)].tells_neighbours;
        if !tells || asker.request.accept_encoding.is_none() || !is_for_content(asker.request) {
            return (looked_up, false);
        }
        let looked_up = match looked_up {
            Some(looked_up) => looked_up,
            None => self.look_up((site, mount_bytes), found, asker),
        };
        let above = if mount_bytes > 0 { mount(mount_bytes, found) } else { b"" };
        let file = looked_up.file().map(|file| [above, file].concat()).unwrap_or_default();
        let is_closed = looked_up.neighbours().into_iter().any(|ending| {
            let own = self.settings(asker.host, asker.via, Some(&[&file, ending].concat()));
            let asks = own
                .auth
                .as_ref()
                .is_some_and(|auth| settings.auth.as_ref().is_none_or(|passed| !Arc::ptr_eq(auth, passed)));
            own.action != Action::Files { site, mount_bytes }
                || !own.allows(asker.client)
                || lacking(&own, asker.shown).is_some()
                || asks
        });
        (Some(looked_up), is_closed)
    }

    pub(super) fn look_up(
        &mut self,
        (site, mount_bytes): (usize, usize),
        found: &Target<'_>,
        asker: &Asker<'_>,
    ) -> LookedUp {
        let mut text = std::mem::take(&mut self.text);
        below_mount(mount_bytes, found, &mut text);
        let target = std::str::from_utf8(&text).unwrap_or("/");
        let looked_up = self.sites[site].1.look_up(target, asker.clock, asker.counters);
        self.text = text;
        looked_up
    }

    /// Refuses a client that may not come, or comes too often: the rates of `counted` have counted the request already.
    pub(super) fn unwelcome(
        &self,
        settings: &Settings,
        counted: &[Arc<Rate>],
        Asker { client, clock, counters, shown, .. }: &Asker<'_>,
    ) -> Option<Refusal> {
        if settings.is_internal {
            return Some((404, String::new()));
        }
        if !settings.allows(*client) {
            return Some((403, String::new()));
        }
        if let Some((status, _)) = lacking(settings, shown) {
            return Some((status, String::new()));
        }
        for rate in settings.rates.iter().filter(|rate| !is_among(rate, counted)) {
            match rate.take(*client, clock.now_ms * NS_PER_MS) {
                Verdict::Through => {}
                Verdict::Untracked => counters.rate_untracked.add(1),
                Verdict::Wait { seconds } => {
                    counters.rate_refused.add(1);
                    return Some((429, format!("Retry-After: {seconds}\r\n")));
                }
            }
        }
        None
    }

    /// Refuses a client that does not say who it is.
    pub(super) fn unknown(
        &mut self,
        settings: &Settings,
        Asker { request, clock, counters, shown, .. }: &Asker<'_>,
        out: &mut Exchange,
    ) -> Option<Refusal> {
        if let Some(name) = common_name(settings, shown) {
            name.clone_into(&mut out.record.log.user);
        }
        let auth = settings.auth.as_ref()?;
        match self.credentials.judge(auth, request.authorization, clock.now_ms) {
            Judged::Right(user) => {
                out.record.log.user = user;
                None
            }
            Judged::Wrong => Some((401, auth.challenge.clone())),
            Judged::Wait | Judged::Busy => {
                counters.auth_busy.add(1);
                Some((503, "Retry-After: 1\r\n".to_owned()))
            }
        }
    }

    /// Whether a client is refused that need not wait then, and costs no check; nothing is taken of a rate.
    fn is_unwelcome(&self, settings: &Settings, client: IpAddr, clock: &Clock) -> bool {
        let now_ns = clock.now_ms * NS_PER_MS;
        !settings.allows(client) || settings.rates.iter().any(|rate| rate.is_used_up(client, now_ns))
    }

    /// Whether the request waits until it was found out whether its password is right.
    pub(super) fn waits(&mut self, found: Option<&Target<'_>>, asker: &Asker<'_>) -> bool {
        let Asker { host, request, client, clock, via, .. } = *asker;
        let of_path = self.settings(host, via, found.map(|found| found.path));
        if self.is_unwelcome(&of_path, client, clock) {
            return false;
        }
        let settings = match (found, &of_path.action) {
            (Some(found), Action::Files { site, mount_bytes })
                if self.tells_index(host, (*site, *mount_bytes), found.path) =>
            {
                self.index(&of_path, found, asker).map_or(of_path, |index| index.settings)
            }
            _ => of_path,
        };
        if self.is_unwelcome(&settings, client, clock) {
            return false;
        }
        let judged =
            settings.auth.as_ref().map(|auth| self.credentials.judge(auth, request.authorization, clock.now_ms));
        match (judged, found) {
            (Some(Judged::Wait), _) => true,
            (Some(Judged::Wrong | Judged::Busy), _) | (_, None) => false,
            (Some(Judged::Right(_)) | None, Some(found)) => {
                self.directory_waits(found, asker) || self.parts_must_wait(&settings, found, asker)
            }
        }
    }

    /// The same where a route answers in place of the content.
    pub(super) fn password_waits(&mut self, found: &Target<'_>, asker: &Asker<'_>) -> bool {
        let settings = self.settings(asker.host, asker.via, Some(found.path));
        let Some(auth) = settings.auth.as_ref().filter(|_| !self.is_unwelcome(&settings, asker.client, asker.clock))
        else {
            return false;
        };
        self.credentials.judge(auth, asker.request.authorization, asker.clock.now_ms) == Judged::Wait
    }

    /// The same for a path that may be a directory's without its slash.
    fn directory_waits(&mut self, found: &Target<'_>, asker: &Asker<'_>) -> bool {
        let Asker { host, request, clock, via, .. } = *asker;
        if found.path.ends_with(b"/") || self.rules.hosts[usize::from(host)].paths.is_empty() {
            return false;
        }
        let settings = self.settings_of_file(host, via, found.path, &[found.path, b"/"].concat());
        let judged =
            settings.auth.as_ref().map(|auth| self.credentials.judge(auth, request.authorization, clock.now_ms));
        judged == Some(Judged::Wait)
    }

    /// What a client gets that is sent to a directory which it may not have: what the directory would say. With the
    /// settings for it; none where it may be sent there.
    pub(super) fn instead_of_directory(
        &mut self,
        found: &Target<'_>,
        asker: &Asker<'_>,
        out: &mut Exchange,
    ) -> Option<(Rc<Settings>, Refusal)> {
        if found.path.ends_with(b"/") || self.rules.hosts[usize::from(asker.host)].paths.is_empty() {
            return None;
        }
        let directory = [found.path, b"/"].concat();
        let settings = self.settings_of_file(asker.host, asker.via, found.path, &directory);
        let lacks = lacking(&settings, asker.shown);
        let refusal = if let Some((status, _)) = lacks {
            Some((status, String::new()))
        } else if settings.allows(asker.client) {
            self.unknown(&settings, asker, out).or(match settings.action {
                Action::Status(status) => Some((status, String::new())),
                _ => None,
            })
        } else {
            Some((if settings.is_internal { 404 } else { 403 }, String::new()))
        };
        Some((settings, refusal?))
    }
}

/// What is done with a request for a directory by the tables of the file that stands for it, with the path of that
/// file; none where that is to send the file.
pub(super) fn instead_of_file(
    of_directory: &Action,
    of_file: &Action,
    (host, found): (&[u8], &Target<'_>),
    file: Vec<u8>,
) -> Option<(Action, Vec<u8>)> {
    if of_file == of_directory {
        return None;
    }
    if let Action::Redirect(redirect) = of_file {
        let target = Target { path: &file, query: found.query };
        // What sends clients from the file to its directory is not for the directory.
        if redirect.location(&target, host).is_some_and(|field| redirect::leads_to(&field, host, found.path)) {
            return None;
        }
    }
    Some((of_file.clone(), file))
}

/// Whether a request is for the content of its target.
fn is_for_content(request: &Request<'_>) -> bool {
    matches!(request.method, Method::Get | Method::Head)
}

/// Whether a request is about the server as a whole (RFC 9110 section 9.3.7): OPTIONS of `*`, or of an absolute form
/// with neither path nor query, which a proxy would make `*` of (RFC 9112 section 3.2.4).
pub(super) fn is_about_server(request: &Request<'_>) -> bool {
    if request.method != Method::Options {
        return false;
    }
    let rest = request.target.split_once("://").map(|(_, rest)| rest);
    request.target == "*"
        || !request.target.starts_with('/')
            && rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(['/', '?', '#']))
}

/// Combinations of tables that a loop remembers.
const KNOWN_MAX: usize = 1024;
