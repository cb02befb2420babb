//! Tells how a request is routed, by the functions that route it.

use super::asker::Asker;
use super::client_certificates::Shown;
use super::explanation::{RouteAnswer, RouteExplanation, RouteStep, RouteTable, RoutedHost};
use super::hosts::Hosts;
use super::routed::Routed;
use super::routes::condition::{Scene, shown};
use super::routes::mapping::Mapped;
use super::routes::route::{Failed, Route};
use super::routes::scan::Trace;
use super::settings::{Action, Said, Settings};
use super::sources::KEPT_BACK;
use super::tables::{Index, Via};
use super::{explain_upstream, judge};
use crate::http::client_certificate::CertificateNeed;
use crate::http::request::{Method, Request};
use crate::http::target::{self, Target};
use crate::io::clock::Clock;
use crate::routing::host_names;
use crate::routing::mount::{is_top_without_slash, mount};
use crate::site::looked_up::Leads;
use std::net::IpAddr;
use std::path::Path;
use std::rc::Rc;

/// Takes note of what a scan does.
struct Steps<'r> {
    routes: &'r [Route],
    steps: Vec<RouteStep>,
}

impl Trace for Steps<'_> {
    fn failed(&mut self, route: usize, why: Failed<'_>, scene: &Scene<'_>, now: &Target<'_>) {
        let (condition, actual) = match why {
            Failed::Path(test) => (format!("path {test}"), shown(now.path)),
            Failed::Condition(condition) => (condition.to_string(), condition.actual(scene, now.path, now.query)),
            Failed::IsSecure => ("scheme http".to_owned(), "https".to_owned()),
            Failed::NoTilde => ("path /~NAME".to_owned(), shown(now.path)),
        };
        self.push(route, false, Some((condition, actual)));
    }

    fn holds(&mut self, route: usize) {
        self.push(route, true, None);
    }

    fn mapped(&mut self, _: usize, now: &Target<'_>) {
        self.did(format!("the path becomes {}", plain(now)));
    }

    fn tried(&mut self, _: usize, path: &[u8], is_there: bool) {
        let word = if is_there { "taken" } else { "not there" };
        self.did(format!("{} {word}", shown(path)));
    }
}

impl Steps<'_> {
    fn push(&mut self, route: usize, holds: bool, why: Option<(String, String)>) {
        let Route { line, .. } = self.routes[route];
        let (condition, actual) = why.unzip();
        let act = self.routes[route].said();
        self.steps.push(RouteStep { number: route + 1, line, act, holds, condition, actual, did: Vec::new() });
    }

    fn did(&mut self, what: String) {
        if let Some(step) = self.steps.last_mut() {
            step.did.push(what);
        }
    }
}

/// A path and its query as people read them.
fn plain(now: &Target<'_>) -> String {
    shown(&[now.path, now.query].concat())
}

/// Paths of a request whose tables hold.
struct Paths<'p> {
    asked: &'p [u8],
    now: &'p [u8],
    file: Option<&'p [u8]>,
}

impl Hosts {
    /// Tells how a request is routed. Nothing is taken of a rate, and no password is checked.
    pub(crate) fn explain(&mut self, request: &Request<'_>, socket: (IpAddr, bool), clock: &Clock) -> RouteExplanation {
        let (client, is_secure) = self.client_of(request, socket);
        let name = host_names::name_of(request);
        let host = self.host(name);
        if judge::is_about_server(request) {
            return answered(Some(204), "the request is about the server: no table is for it");
        }
        let Some(host) = host else {
            return answered(Some(421), "no host has the name, and none takes all others");
        };
        let lower = name.to_ascii_lowercase();
        let routed_host = RoutedHost {
            name: self.rules.hosts[usize::from(host)].name.to_string(),
            asked: String::from_utf8_lossy(name).into_owned(),
            found_by: self.rules.names.found_by(&lower).unwrap_or_default(),
        };
        let mut decoded = Vec::new();
        let resolved = target::resolve(request.target, true, &mut decoded);
        let counters = Rc::clone(&self.trial);
        let asker = Asker {
            host,
            request,
            client,
            is_secure,
            via: Via::Nothing,
            shown: &Shown::Unasked,
            clock,
            counters: &counters,
        };
        let mut told = match resolved {
            Ok(found) => self.explain_path(&found, asker),
            Err(_) => answered(Some(400), "the path cannot be read, or leads upwards"),
        };
        told.host = Some(routed_host);
        told.client = (client != socket.0).then_some(client);
        told
    }

    fn explain_path(&mut self, found: &Target<'_>, asker: Asker<'_>) -> RouteExplanation {
        let routes = self.routes(asker.host).unwrap_or_else(|| Rc::new([]));
        let (mut mapped, mut steps) = (Mapped::default(), Steps { routes: &routes, steps: Vec::new() });
        let routed = self.route(&routes, found, &asker, &mut mapped, &mut steps);
        let steps = steps.steps;
        let asker = Asker { via: routed.via, ..asker };
        let now = if routed.is_mapped { &mapped.target() } else { found };
        let mut settings = self.settings(asker.host, asker.via, Some(now.path));
        let mut action = settings.action.clone();
        let (mut index, mut instead) = (None, None);
        if routed.ending.is_none()
            && let Some(Index { looked_up, file, settings: own }) = self.index(&settings, now, &asker)
        {
            let name = host_names::name_of(asker.request);
            let other = file.clone().and_then(|file| judge::instead_of_file(&action, &own.action, (name, now), file));
            settings = own;
            index = Some((file, other.is_none().then(|| looked_up.leads())));
            if let Some((other, path)) = other {
                (action, instead) = (other, Some(path));
            }
        }
        let file = index.as_ref().and_then(|(file, _)| file.as_deref());
        let paths = Paths { asked: found.path, now: now.path, file };
        let (refusal, limits) = self.limits(&settings, &routed, &asker);
        let leads = index.as_ref().and_then(|(_, leads)| leads.clone());
        let mut answer = match &routed.ending {
            Some(ending) => by_route(&routed, ending.status, &ending.fields, &routes),
            None => {
                let of_file = instead.as_ref().map(|path| Target { path, query: now.query });
                let requested = routed.is_mapped.then_some(found);
                let asked = (of_file.as_ref().unwrap_or(now), requested.is_some() || of_file.is_some());
                self.answer(&action, asked, (requested, leads), &asker)
            }
        };
        if let Some((status, why)) = refusal {
            let behind = std::mem::take(&mut answer);
            let what = match behind.status {
                // With the password that comes.
                _ if status == 401 => format!("{why}; then: {}", behind.in_words()),
                _ => why,
            };
            answer = RouteAnswer { status: Some(status), what, ..RouteAnswer::default() };
        }
        let fields = self.fields_of(&settings, &routed, answer.status, &asker);
        RouteExplanation {
            answer,
            host: None,
            client: None,
            path: Some(String::from_utf8_lossy(found.path).into_owned()),
            routes: steps,
            mapped: routed.is_mapped.then(|| String::from_utf8_lossy(&[now.path, now.query].concat()).into_owned()),
            tables: self.tables_told(&paths, asker.host),
            limits,
            fields,
        }
    }

    /// What an action comes to, for a path that is the request's own or another one.
    fn answer(
        &mut self,
        action: &Action,
        (now, is_other): (&Target<'_>, bool),
        (requested, leads): (Option<&Target<'_>>, Option<Leads>),
        asker: &Asker<'_>,
    ) -> RouteAnswer {
        let says = |status, what: &str| RouteAnswer { status, what: what.to_owned(), ..RouteAnswer::default() };
        match action {
            Action::Status(status) => says(Some(*status), "a table says this status"),
            Action::Application(_) => says(None, "an application answers"),
            Action::Upstream(number) => {
                let common = &self.rules.upstreams[*number];
                explain_upstream::answer(common, now, is_other, asker.request.target)
            }
            Action::Redirect(redirect) => match redirect.location(now, host_names::name_of(asker.request)) {
                Some(line) => {
                    let location = Some(address(&line));
                    let what = "a table redirects".to_owned();
                    RouteAnswer { status: Some(redirect.status), what, location, ..RouteAnswer::default() }
                }
                None => says(Some(414), "the address that a table redirects to is too long"),
            },
            Action::Files { site, mount_bytes } => {
                let is_get = matches!(asker.request.method, Method::Get | Method::Head);
                if asker.request.method == Method::Options {
                    return says(Some(204), "files answer OPTIONS alike");
                }
                if !is_get {
                    return says(Some(405), "files are for GET and HEAD");
                }
                let slashed = requested.unwrap_or(now);
                let has_slash = slashed.path.ends_with(b"/");
                if !has_slash && is_top_without_slash(*mount_bytes, now) {
                    return to_slash(slashed);
                }
                let leads = leads.unwrap_or_else(|| self.look_up((*site, *mount_bytes), now, asker).leads());
                if let Leads::File(file) = &leads
                    && self.is_source(asker.host, file)
                {
                    return says(Some(404), KEPT_BACK);
                }
                self.answer_of_file(leads, (*site, *mount_bytes), now, slashed)
            }
        }
    }

    fn answer_of_file(
        &self,
        leads: Leads,
        (site, mount_bytes): (usize, usize),
        now: &Target<'_>,
        slashed: &Target<'_>,
    ) -> RouteAnswer {
        let kind = &self.rules.sites[site].how;
        let below = |path: &[u8]| {
            let text = String::from_utf8_lossy(path).into_owned();
            Some(kind.root.join(Path::new(text.trim_start_matches('/'))).display().to_string())
        };
        let above = if mount_bytes > 0 { mount(mount_bytes, now).len() } else { 0 };
        let looked_for = below(now.path.get(above..).unwrap_or_default());
        let says = |status, what: &str, file| RouteAnswer {
            status: Some(status),
            what: what.to_owned(),
            file,
            ..RouteAnswer::default()
        };
        match leads {
            Leads::File(path) => says(200, "a file answers", below(&path)),
            Leads::Directory if kind.listing => says(200, "the directory is listed", looked_for),
            Leads::Directory => says(403, "the directory has no index, and is not listed", looked_for),
            Leads::ToSlash if slashed.path.ends_with(b"/") => to_slash(now),
            Leads::ToSlash => to_slash(slashed),
            Leads::Failed(404) => says(404, "there is no such file", looked_for),
            Leads::Failed(status) => says(status, "the file cannot be read", looked_for),
            Leads::Malformed => says(400, "the path cannot be read", None),
            Leads::Closed => says(404, "names with a dot are not served", looked_for),
        }
    }

    /// What keeps the client away, if anything does, and everything that may.
    fn limits(&self, settings: &Settings, routed: &Routed, asker: &Asker<'_>) -> (Option<(u16, String)>, Vec<String>) {
        let mut limits = Vec::new();
        let mut refusal = None;
        if !settings.access.is_empty() {
            let word = if settings.allows(asker.client) { "lets in" } else { "keeps away" };
            limits.push(format!("network: allow and deny {word} {}", asker.client));
            if !settings.allows(asker.client) {
                refusal = Some((403, format!("the networks of a table keep {} away", asker.client)));
            }
        }
        if settings.certificate != CertificateNeed::None {
            let word = if settings.certificate == CertificateNeed::Require { "required" } else { "asked for" };
            limits.push(format!("certificate: one of the client is {word}; what it shows is not known here"));
        }
        for rate in &settings.rates {
            limits.push(format!("rate: {}", rate.limit()));
        }
        if let Some(auth) = &settings.auth {
            let is_asked = routed.ending.as_ref().is_none_or(|ending| ending.asks_password);
            let realm = auth.realm();
            let word = if is_asked { "" } else { ", which this answer does not wait for" };
            limits.push(format!("password: of the realm \"{realm}\"{word}"));
            if is_asked && refusal.is_none() {
                refusal = Some((401, format!("a password of the realm \"{realm}\" is asked for")));
            }
        }
        (refusal, limits)
    }

    fn fields_of(&self, settings: &Settings, routed: &Routed, status: Option<u16>, asker: &Asker<'_>) -> Vec<String> {
        let status = status.unwrap_or(200);
        let fields = if status < 400 { &settings.fields } else { &settings.error_fields };
        let mut told = fields.told();
        if let Some(set) = &routed.set {
            set.of(status).for_each(|fields| told.extend(fields.told()));
        }
        if !asker.is_secure {
            told.retain(|line| !line.to_ascii_lowercase().starts_with("strict-transport-security:"));
        }
        told
    }

    /// The tables that hold, with what each says.
    fn tables_told(&self, paths: &Paths<'_>, host: u16) -> Vec<RouteTable> {
        let host = &self.rules.hosts[usize::from(host)];
        let of_host =
            RouteTable { table: "[[host]]".to_owned(), line: host.line, of: "all paths", says: self.says(&host.said) };
        let mut told = vec![of_host];
        for (number, (pattern, said)) in host.paths.iter().enumerate() {
            let is_mapped = paths.now != paths.asked;
            let of = if pattern.matches(paths.now) {
                if is_mapped { "the path that a route has led to" } else { "the path" }
            } else if is_mapped && pattern.matches(paths.asked) {
                "the path that was asked for"
            } else if paths.file.is_some_and(|file| pattern.matches(file)) {
                "the file that answers"
            } else {
                continue;
            };
            let (text, line) = host.labels.get(number).cloned().unwrap_or_default();
            told.push(RouteTable { table: format!("[[host.path]] {text}"), line, of, says: self.says(said) });
        }
        told
    }

    /// What a table says, in the words of the configuration.
    fn says(&self, said: &Said) -> Vec<String> {
        let mut words = Vec::new();
        match &said.action {
            Some(Action::Files { site, .. }) => {
                words.push(format!("root {}", self.rules.sites[*site].how.root.display()));
            }
            Some(Action::Redirect(redirect)) => words.push(format!("redirect {}", redirect.status)),
            Some(Action::Status(status)) => words.push(format!("status {status}")),
            Some(Action::Application(_)) => words.push("application".to_owned()),
            Some(Action::Upstream(number)) => words.push(explain_upstream::said(&self.rules.upstreams[*number].rules)),
            None => {}
        }
        let names =
            |list: &[(String, String)]| list.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>().join(", ");
        for (word, list) in [("set_headers", &said.set), ("set_error_headers", &said.set_of_errors)] {
            if !list.is_empty() {
                words.push(format!("{word} {}", names(list)));
            }
        }
        if !said.remove.is_empty() {
            words.push(format!("remove_headers {}", said.remove.join(", ")));
        }
        if !said.pages.is_empty() {
            words.push("error_pages".to_owned());
        }
        if said.access.is_some() {
            words.push("allow and deny".to_owned());
        }
        match &said.auth {
            Some(Some(auth)) => words.push(format!("auth \"{}\"", auth.realm())),
            Some(None) => words.push("auth false".to_owned()),
            None => {}
        }
        match &said.rate {
            Some(Some(rate)) => words.push(format!("rate {}", rate.limit())),
            Some(None) => words.push("rate false".to_owned()),
            None => {}
        }
        words
    }
}

impl RouteAnswer {
    /// The answer in one line.
    pub fn in_words(&self) -> String {
        let status = self.status.map(|status| format!("{status}: ")).unwrap_or_default();
        let location = self.location.as_ref().map(|to| format!(" to {to}")).unwrap_or_default();
        let file = self.file.as_ref().map(|file| format!(": {file}")).unwrap_or_default();
        format!("{status}{}{location}{file}", self.what)
    }
}

fn answered(status: Option<u16>, what: &str) -> RouteExplanation {
    let answer = RouteAnswer { status, what: what.to_owned(), ..RouteAnswer::default() };
    RouteExplanation { answer, ..RouteExplanation::default() }
}

/// What a route answers that ends the scan.
fn by_route(routed: &Routed, status: u16, fields: &[u8], routes: &[Route]) -> RouteAnswer {
    let number = routed.by.map_or(0, |by| by + 1);
    let act = routed.by.and_then(|by| routes.get(by)).map_or("", Route::said);
    let location = (!fields.is_empty()).then(|| address(fields));
    RouteAnswer {
        status: Some(status),
        what: format!("route {number} ({act}) answers"),
        location,
        ..RouteAnswer::default()
    }
}

/// The redirect to a directory's slash.
fn to_slash(target: &Target<'_>) -> RouteAnswer {
    let mut location = Vec::new();
    target::encode(target.path, &mut location);
    location.push(b'/');
    location.extend_from_slice(target.query);
    RouteAnswer {
        status: Some(301),
        what: "a directory has a slash at its end: the client is sent".to_owned(),
        location: Some(String::from_utf8_lossy(&location).into_owned()),
        ..RouteAnswer::default()
    }
}

/// The address of a line of a head.
fn address(line: &[u8]) -> String {
    let line = line.strip_prefix(b"Location: ").unwrap_or(line);
    String::from_utf8_lossy(line.trim_ascii_end()).into_owned()
}
