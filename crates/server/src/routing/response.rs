//! The response to a request for a path of a host.

use super::asker::Asker;
use super::client_certificates::Shown;
use super::governed::{Allowed, Governed};
use super::inside::InsideHost;
use super::routed::{Ending, Routed};
use super::routes::mapping::Mapped;
use super::routes::route::Route;
use super::routes::scan::NoTrace;
use super::set_by_routes::SetByRoutes;
use super::settings::{Action, Settings};
use super::tables::Via;
use super::{client_certificates, judge, rewrite};
use crate::counters::LoopCounters;
use crate::exchange::application::{Answerer, Begin, RequestHead};
use crate::exchange::error_page::{self, Extra};
use crate::exchange::life::Exchange;
use crate::files::head::{self, Persistence};
use crate::files::resource::Resource;
use crate::http::client_certificate::CertificateNeed;
use crate::http::request::{Method, Request};
use crate::http::target::{self, Target};
use crate::io::clock::Clock;
use crate::policy::client_peer::ClientPeer;
use crate::routing::host_names;
use crate::routing::hosts::Hosts;
use crate::routing::mount::{below_mount, is_top_without_slash, mount};
use crate::site::looked_up::LookedUp;
use crate::site::{self, Part, Site};
use crate::upstream::cached::Cached;
use crate::upstream::cached_hit;
use crate::upstream::handover::Inside;
use crate::upstream::varied::Varied;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

impl Hosts {
    pub(super) fn must_wait(&mut self, request: &Request<'_>, socket: (IpAddr, bool), clock: &Clock) -> bool {
        let (client, is_secure) = self.client_of(request, socket);
        if judge::is_about_server(request) {
            return false;
        }
        let Some(host) = self.host(host_names::name_of(request)) else { return false };
        let mut decoded = std::mem::take(&mut self.decoded);
        let resolved = target::resolve(request.target, true, &mut decoded).ok();
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
        let must_wait = match (&resolved, self.routes(host)) {
            (Some(found), Some(routes)) => {
                let mut mapped = Mapped::default();
                let routed = self.route(&routes, found, &asker, &mut mapped, &mut NoTrace);
                let asker = Asker { via: routed.via, ..asker };
                let now = if routed.is_mapped { &mapped.target() } else { found };
                match routed.ending {
                    None => self.waits(Some(now), &asker),
                    Some(ending) => ending.asks_password && self.password_waits(now, &asker),
                }
            }
            _ => self.waits(resolved.as_ref(), &asker),
        };
        self.decoded = decoded;
        must_wait
    }

    pub(super) fn respond(
        &mut self,
        request: &Request<'_>,
        peer: &ClientPeer<'_>,
        persistence: Persistence,
        clock: &Clock,
        counters: &LoopCounters,
        out: &mut Exchange,
    ) {
        let extra = Extra { fields: b"", head_only: request.method == Method::Head };
        if self.share.challenges.is_any() && !peer.is_secure {
            // Before tables and redirects: the authority asks for the path of its choice, in the clear.
            let answer = self.share.challenges.http01(request.target);
            if let Some(answer) = answer.filter(|_| matches!(request.method, Method::Get | Method::Head)) {
                return challenge(&answer, extra, clock, persistence, out);
            }
        }
        let name = host_names::name_of(request);
        let host = self.host(name);
        out.record.log.host = host.map(|host| Arc::clone(&self.counts[usize::from(host)]));
        if judge::is_about_server(request) {
            // No table is about the server.
            return site::options(out, clock, persistence);
        }
        if request.target == "*" {
            // It is no path, and stands for the server in OPTIONS only (RFC 9112 section 3.2.4).
            return error_page::write(out, 400, extra, clock, persistence);
        }
        let Some(host) = host else {
            return error_page::write(out, 421, extra, clock, persistence);
        };
        let shown = if self.asks_certificates { self.shown(host, peer, clock) } else { Shown::Unasked };
        if matches!(shown, Shown::OfAnotherHost) {
            return error_page::write_explained(out, client_certificates::ELSEWHERE, extra, clock, persistence);
        }
        let mut decoded = std::mem::take(&mut self.decoded);
        let resolved = target::resolve(request.target, true, &mut decoded).ok();
        let (client, is_secure) = (peer.client, peer.is_secure);
        let asker = Asker { host, request, client, is_secure, via: Via::Nothing, shown: &shown, clock, counters };
        match (&resolved, self.routes(host)) {
            (Some(found), Some(routes)) => {
                self.respond_by_routes(&routes, found, asker, (peer, persistence), out);
            }
            _ => self.respond_to(resolved.as_ref(), None, &asker, (peer, persistence), out),
        }
        self.decoded = decoded;
    }

    /// Has the routes of a host look at a request before its tables do.
    fn respond_by_routes(
        &mut self,
        routes: &[Route],
        found: &Target<'_>,
        asker: Asker<'_>,
        to: (&ClientPeer<'_>, Persistence),
        out: &mut Exchange,
    ) {
        let mut mapped = Mapped::default();
        let routed = self.route(routes, found, &asker, &mut mapped, &mut NoTrace);
        let asker = Asker { via: routed.via, ..asker };
        let requested = routed.is_mapped.then_some(found);
        let now = if routed.is_mapped { &mapped.target() } else { found };
        self.respond_to(Some(now), Some((&routed, requested)), &asker, to, out);
    }

    /// Answers for a path, or for one that cannot be read; where routes have led to it, with what they have done and
    /// the path that was asked for if it is another one.
    #[inline]
    fn respond_to(
        &mut self,
        resolved: Option<&Target<'_>>,
        routed: Option<(&Routed, Option<&Target<'_>>)>,
        asker: &Asker<'_>,
        (peer, persistence): (&ClientPeer<'_>, Persistence),
        out: &mut Exchange,
    ) {
        let Asker { host, request, clock, via, .. } = *asker;
        let extra = Extra { fields: b"", head_only: request.method == Method::Head };
        let name = host_names::name_of(request);
        let ending = routed.and_then(|(routed, _)| routed.ending.as_ref());
        let set = routed.and_then(|(routed, _)| routed.set.as_ref());
        let mut settings = self.settings(host, via, resolved.map(|found| found.path));
        let mut action = settings.action.clone();
        let mut refusal = self.unwelcome(&settings, &[], asker);
        let (mut looked_up, mut file) = (None, None);
        if refusal.is_none()
            && ending.is_none()
            && let Some(found) = resolved
            && let Some(index) = self.index(&settings, found, asker)
        {
            refusal = self.unwelcome(&index.settings, &settings.rates, asker);
            settings = index.settings;
            match index.file.and_then(|file| judge::instead_of_file(&action, &settings.action, (name, found), file)) {
                Some((other, path)) => (action, file) = (other, Some(path)),
                None => looked_up = Some(index.looked_up),
            }
        }
        if ending.is_none_or(|ending| ending.asks_password) {
            refusal = refusal.or_else(|| self.unknown(&settings, asker, out));
        }
        if let Some((status, fields)) = refusal {
            let extra = Extra { fields: fields.as_bytes(), ..extra };
            match client_certificates::lacking(&settings, asker.shown) {
                Some(why) if why.0 == status => error_page::write_explained(out, why, extra, clock, persistence),
                _ => error_page::write(out, status, extra, clock, persistence),
            }
        } else if let Some(Ending { status, fields, .. }) = ending {
            error_page::write(out, *status, Extra { fields, ..extra }, clock, persistence);
        } else if let Some(found) = resolved {
            let requested = routed.and_then(|(_, requested)| requested);
            let of_file = file.as_ref().map(|file| Target { path: file, query: found.query });
            let asked = of_file.as_ref().map_or((found, requested.is_some()), |target| (target, true));
            let way = Way { looked_up, asked, requested, set, peer, persistence };
            if let Some(other) = self.respond_by(action, way, &settings, asker, out) {
                settings = other;
            }
        } else {
            error_page::write(out, 400, extra, clock, persistence);
        }
        finish(&settings, set, extra.head_only, peer.is_secure, out);
    }

    /// Does with a request that is let in as its tables say; other settings, where those of a directory hold for it.
    fn respond_by(
        &mut self,
        action: Action,
        way: Way<'_>,
        settings: &Rc<Settings>,
        asker: &Asker<'_>,
        out: &mut Exchange,
    ) -> Option<Rc<Settings>> {
        let Asker { request, clock, .. } = *asker;
        let (found, peer, persistence) = (way.asked.0, way.peer, way.persistence);
        let extra = Extra { fields: b"", head_only: request.method == Method::Head };
        match action {
            Action::Files { site, mount_bytes } => {
                self.respond_with_files(way, (site, mount_bytes), settings, asker, out)
            }
            Action::Redirect(redirect) => {
                match redirect.location(found, host_names::name_of(request)) {
                    Some(field) => {
                        let extra = Extra { fields: &field, ..extra };
                        error_page::write(out, redirect.status, extra, clock, persistence);
                    }
                    None => error_page::write(out, 414, extra, clock, persistence),
                }
                None
            }
            Action::Status(status) => {
                error_page::write(out, status, extra, clock, persistence);
                None
            }
            Action::Upstream(number) => {
                // The request keeps its target, which scripts are told of beside the path that a route has led to.
                let (is_other, is_secure) = (way.asked.1, peer.is_secure);
                let to = (found, is_other, way.requested.is_some());
                let Governed::Goes(allowed) = self.govern(found.path, asker, (peer, persistence), out) else {
                    return None;
                };
                let by = (is_secure, persistence, allowed);
                if let Some(begin) = self.upstream(number, to, by, settings, asker, out) {
                    choose(Answerer::Local(begin), way.set, settings, (extra.head_only, is_secure), out);
                    client_certificates::certify(settings, asker.shown, out);
                }
                None
            }
            Action::Application(application) => {
                choose(Answerer::Application(application), way.set, settings, (extra.head_only, peer.is_secure), out);
                client_certificates::certify(settings, asker.shown, out);
                if way.requested.is_some() {
                    out.ask_for(written(found));
                }
                None
            }
        }
    }

    /// Has the site of a root respond; other settings, where those of a directory hold for the response.
    fn respond_with_files(
        &mut self,
        way: Way<'_>,
        (site, mount_bytes): (usize, usize),
        settings: &Rc<Settings>,
        asker: &Asker<'_>,
        out: &mut Exchange,
    ) -> Option<Rc<Settings>> {
        let Asker { request, clock, counters, .. } = *asker;
        let Way { looked_up, asked: (found, is_other), requested, set, peer, persistence } = way;
        let extra = Extra { fields: b"", head_only: request.method == Method::Head };
        let (looked_up, is_plain) = self.neighbours(settings, (site, mount_bytes), looked_up, found, asker);
        if self.leads_to_source(asker.host, found.path, looked_up.as_ref()) {
            error_page::write(out, 404, extra, clock, persistence);
            return None;
        }
        let plain;
        let request = if is_plain {
            plain = Request { accept_encoding: None, ..*request };
            &plain
        } else {
            request
        };
        let respond = |site: &mut Site, request: &Request<'_>, out: &mut Exchange| match looked_up {
            Some(looked_up) => site.respond_with(looked_up, request, peer, persistence, (clock, counters), out),
            None => site.respond(request, peer, persistence, clock, counters, out),
        };
        let is_get = matches!(request.method, Method::Get | Method::Head);
        // Clients are sent to the slash of what they have asked for, which may have been put in place of it.
        let slashed = requested.unwrap_or(found);
        let has_no_slash = requested.is_some_and(|requested| !requested.path.ends_with(b"/"));
        let page = if (!is_other || has_no_slash) && is_get && is_top_without_slash(mount_bytes, found) {
            // Relative links of its index and its listing would lead beside it.
            site::redirect(slashed, extra, clock, persistence, out);
            None
        } else if mount_bytes == 0 && !is_other {
            respond(&mut self.sites[site].1, request, out)
        } else {
            let respond =
                |site: &mut Site, target: &str, out: &mut Exchange| respond(site, &Request { target, ..*request }, out);
            self.mounted(site, mount_bytes, found, respond, out)
        };
        if out.is_awaited() {
            // Content that lies elsewhere is answered for later, and what tables say of the head comes upon it then.
            let (settings, set) = (Rc::clone(settings), set.cloned());
            let (head_only, is_secure) = (extra.head_only, peer.is_secure);
            out.finish_with(Box::new(move |out| finish(&settings, set.as_ref(), head_only, is_secure, out)));
            return None;
        }
        if let Some(resource) = page {
            let mount = mount(mount_bytes, found).to_vec();
            self.respond_with_page((site, &Part { resource, mount }), settings, asker, persistence, out);
            return None;
        }
        if out.status != 301 {
            return None;
        }
        let instead = self.instead_of_directory(found, asker, out);
        if instead.is_none() && has_no_slash {
            out.response.reset();
            site::redirect(slashed, extra, clock, persistence, out);
        }
        let (settings, (status, fields)) = instead?;
        out.response.reset();
        error_page::write(out, status, Extra { fields: fields.as_bytes(), ..extra }, clock, persistence);
        Some(settings)
    }

    /// What begins the answer of an upstream; none if its cache has answered.
    fn upstream(
        &self,
        number: usize,
        (found, is_other, is_mapped): (&Target<'_>, bool, bool),
        (is_secure, persistence, allowed): (bool, Persistence, Allowed),
        settings: &Settings,
        asker: &Asker<'_>,
        out: &mut Exchange,
    ) -> Option<Rc<dyn Begin>> {
        // What a route has led elsewhere is not found by its target, so that no cache knows it.
        // What an upstream says to one client that it knows is not for others.
        let cache = settings.cache.filter(|_| !is_mapped && settings.certificate == CertificateNeed::None);
        let front = cache.and_then(|cache| self.fronts.get(cache)?.as_ref());
        let is_chosen = allowed.variant.is_some();
        if let Some(front) = front.filter(|_| !is_chosen) {
            let Asker { request, client, clock, .. } = *asker;
            let head = RequestHead {
                request,
                client,
                peer: client,
                is_secure,
                socket: None,
                ends: None,
                user: None,
                arm: None,
            };
            if cached_hit::answer(&mut front.borrow_mut(), (&head, allowed.stale_max_s), clock, persistence, out) {
                return None;
            }
        }
        let (rules, host, client) = (Arc::clone(&self.rules), asker.host, asker.client);
        let inside = move || -> Rc<dyn Inside> { Rc::new(InsideHost { rules, host, client }) };
        let inner = self.upstreams[number].entrance(found, is_other, inside);
        let inner: Rc<dyn Begin> = match front.map(Rc::clone) {
            Some(front) => {
                let (background, links) = (Rc::clone(&self.background), Rc::clone(&self.links));
                Rc::new(Cached { front, inner, background, links, stale_max_s: allowed.stale_max_s })
            }
            None => inner,
        };
        Some(match allowed.variant.filter(|_| matches!(asker.request.method, Method::Get | Method::Head)) {
            Some(variant) => Rc::new(Varied { inner, variant }),
            None => inner,
        })
    }

    /// Has a site respond whose root stands for the first bytes of the path.
    fn mounted(
        &mut self,
        site: usize,
        mount_bytes: usize,
        found: &Target<'_>,
        respond: impl FnOnce(&mut Site, &str, &mut Exchange) -> Option<Rc<Resource>>,
        out: &mut Exchange,
    ) -> Option<Rc<Resource>> {
        let text = &mut self.text;
        below_mount(mount_bytes, found, text);
        // The encoding is of ASCII, and a query comes out of a text.
        let page = respond(&mut self.sites[site].1, std::str::from_utf8(text).unwrap_or("/"), out);
        if out.status == 301 {
            // The site knows nothing of the path before its root.
            text.clear();
            target::encode(mount(mount_bytes, found), text);
            rewrite::insert_into_location(out, text);
        }
        page
    }
}

/// Has something answer the request otherwise than by files; what routes and tables say of its head comes upon it later.
fn choose(
    answerer: Answerer,
    set: Option<&SetByRoutes>,
    settings: &Rc<Settings>,
    (head_only, is_secure): (bool, bool),
    out: &mut Exchange,
) {
    let (settings, set) = (Rc::clone(settings), set.cloned());
    out.choose(
        answerer,
        Box::new(move |out: &mut Exchange| finish(&settings, set.as_ref(), head_only, is_secure, out)),
    );
}

/// The answer to a challenge of an authority (RFC 8555 section 8.3).
fn challenge(answer: &str, extra: Extra<'_>, clock: &Clock, persistence: Persistence, out: &mut Exchange) {
    out.status = 200;
    let fields = format!("Content-Type: application/octet-stream\r\nContent-Length: {}\r\n", answer.len());
    head::other(&mut out.response.head, 200, &[fields.as_bytes()], clock, persistence);
    out.head_bytes = out.response.head.len() as u64;
    if !extra.head_only {
        out.response.head.extend_from_slice(answer.as_bytes());
    }
}

/// What is done with a request.
struct Way<'a> {
    /// What was looked up already for the target.
    looked_up: Option<LookedUp>,
    /// What is asked for, and whether it is another path than the request's own.
    asked: (&'a Target<'a>, bool),
    /// What the client has asked for, where a route has put something else in its place.
    requested: Option<&'a Target<'a>>,
    /// Fields that routes set.
    set: Option<&'a SetByRoutes>,
    peer: &'a ClientPeer<'a>,
    persistence: Persistence,
}

/// A path and its query as a request has them.
fn written(found: &Target<'_>) -> String {
    let mut text = Vec::new();
    target::encode(found.path, &mut text);
    text.extend_from_slice(found.query);
    // The encoding is of ASCII, and a query comes out of a text.
    String::from_utf8(text).unwrap_or_default()
}

/// Puts the page for an error, and the fields, into a response that was made.
fn finish(settings: &Settings, set: Option<&SetByRoutes>, head_only: bool, is_secure: bool, out: &mut Exchange) {
    if out.status == 0 {
        // An application answers later.
        return;
    }
    // The page of an error of its own an application gives itself.
    if out.status >= 400
        && !out.is_awaited()
        && let Some(page) = settings.page(out.status)
    {
        rewrite::replace_body(out, page, head_only);
    }
    let fields = if out.status < 400 { &settings.fields } else { &settings.error_fields };
    let is_set = !fields.is_empty();
    if is_set {
        fields.apply(out, is_secure);
    }
    if set.is_some_and(|set| set.apply(out, is_secure)) || is_set {
        if out.record.is_chosen() {
            rewrite::keep_private(out);
        }
        if out.record.advised.as_ref().is_some_and(|advised| advised.is_stale) {
            rewrite::keep_for_nobody(out);
        }
    }
}
