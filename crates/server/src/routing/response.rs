//! The response to a request for a path of a host.

use super::asker::Asker;
use super::settings::{Action, Settings};
use super::{judge, rewrite};
use crate::counters::LoopCounters;
use crate::exchange::application::{Answerer, Begin, RequestHead};
use crate::exchange::error_page::{self, Extra};
use crate::exchange::life::Exchange;
use crate::files::head::Persistence;
use crate::files::resource::Resource;
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
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

impl Hosts {
    pub(super) fn must_wait(&mut self, request: &Request<'_>, socket: IpAddr, clock: &Clock) -> bool {
        let client = self.client_of(request, socket);
        if judge::is_about_server(request) {
            return false;
        }
        let Some(host) = self.host(host_names::name_of(request)) else { return false };
        let mut decoded = std::mem::take(&mut self.decoded);
        let resolved = target::resolve(request.target, true, &mut decoded).ok();
        let must_wait = self.waits(host, request, resolved.as_ref(), client, clock);
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
        let mut decoded = std::mem::take(&mut self.decoded);
        let resolved = target::resolve(request.target, true, &mut decoded).ok();
        let asker = Asker { host, request, client: peer.client, clock, counters };
        let mut settings = self.settings(host, resolved.as_ref().map(|found| found.path));
        let mut action = settings.action.clone();
        let mut refusal = self.unwelcome(&settings, &[], &asker);
        let (mut looked_up, mut file) = (None, None);
        if refusal.is_none()
            && let Some(found) = &resolved
            && let Some(index) = self.index(&settings, found, &asker)
        {
            refusal = self.unwelcome(&index.settings, &settings.rates, &asker);
            settings = index.settings;
            match index.file.and_then(|file| judge::instead_of_file(&action, &settings.action, (name, found), file)) {
                Some((other, path)) => (action, file) = (other, Some(path)),
                None => looked_up = Some(index.looked_up),
            }
        }
        refusal = refusal.or_else(|| self.unknown(&settings, &asker, out));
        if let Some((status, fields)) = refusal {
            error_page::write(out, status, Extra { fields: fields.as_bytes(), ..extra }, clock, persistence);
        } else if let Some(found) = &resolved {
            let of_file = file.as_ref().map(|file| Target { path: file, query: found.query });
            let asked = of_file.as_ref().map_or((found, false), |target| (target, true));
            let way = Way { action, looked_up, asked, peer, persistence };
            if let Some(other) = self.respond_by(way, &settings, &asker, out) {
                settings = other;
            }
        } else {
            error_page::write(out, 400, extra, clock, persistence);
        }
        finish(&settings, extra.head_only, peer.is_secure, out);
        self.decoded = decoded;
    }

    /// Does with a request that is let in as its tables say; other settings, where those of a directory hold for it.
    fn respond_by(
        &mut self,
        way: Way<'_>,
        settings: &Rc<Settings>,
        asker: &Asker<'_>,
        out: &mut Exchange,
    ) -> Option<Rc<Settings>> {
        let Asker { request, clock, counters, .. } = *asker;
        let Way { action, looked_up, asked: (found, is_other), peer, persistence } = way;
        let extra = Extra { fields: b"", head_only: request.method == Method::Head };
        let (site, mount_bytes) = match action {
            Action::Files { site, mount_bytes } => (site, mount_bytes),
            Action::Redirect(redirect) => {
                match redirect.location(found, host_names::name_of(request)) {
                    Some(field) => {
                        let extra = Extra { fields: &field, ..extra };
                        error_page::write(out, redirect.status, extra, clock, persistence);
                    }
                    None => error_page::write(out, 414, extra, clock, persistence),
                }
                return None;
            }
            Action::Status(status) => {
                error_page::write(out, status, extra, clock, persistence);
                return None;
            }
            Action::Upstream(number) => {
                let by = (peer.is_secure, persistence);
                if let Some(begin) = self.upstream(number, (found, is_other), by, settings, asker, out) {
                    choose(Answerer::Local(begin), settings, extra.head_only, peer.is_secure, out);
                }
                return None;
            }
            Action::Application(application) => {
                choose(Answerer::Application(application), settings, extra.head_only, peer.is_secure, out);
                return None;
            }
        };
        let (looked_up, is_plain) = self.neighbours(settings, (site, mount_bytes), looked_up, found, asker);
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
        let page = if !is_other && is_get && is_top_without_slash(mount_bytes, found) {
            // Relative links of its index and its listing would lead beside it.
            site::redirect(found, extra, clock, persistence, out);
            None
        } else if mount_bytes == 0 && !is_other {
            respond(&mut self.sites[site].1, request, out)
        } else {
            let respond =
                |site: &mut Site, target: &str, out: &mut Exchange| respond(site, &Request { target, ..*request }, out);
            self.mounted(site, mount_bytes, found, respond, out)
        };
        if let Some(resource) = page {
            let mount = mount(mount_bytes, found).to_vec();
            self.respond_with_page((site, &Part { resource, mount }), settings, asker, persistence, out);
            return None;
        }
        if out.status != 301 {
            return None;
        }
        let (settings, (status, fields)) = self.instead_of_directory(found, asker, out)?;
        out.response.reset();
        error_page::write(out, status, Extra { fields: fields.as_bytes(), ..extra }, clock, persistence);
        Some(settings)
    }

    /// What begins the answer of an upstream; none if its cache has answered.
    fn upstream(
        &self,
        number: usize,
        (found, is_other): (&Target<'_>, bool),
        (is_secure, persistence): (bool, Persistence),
        settings: &Settings,
        asker: &Asker<'_>,
        out: &mut Exchange,
    ) -> Option<Rc<dyn Begin>> {
        let front = settings.cache.and_then(|cache| self.fronts.get(cache)?.as_ref());
        if let Some(front) = front {
            let Asker { request, client, clock, .. } = *asker;
            let head = RequestHead { request, client, peer: client, is_secure };
            if cached_hit::answer(&mut front.borrow_mut(), &head, clock, persistence, out) {
                return None;
            }
        }
        let inner = self.upstreams[number].entrance(found, is_other);
        let Some(front) = front.map(Rc::clone) else { return Some(inner) };
        let (background, links) = (Rc::clone(&self.background), Rc::clone(&self.links));
        Some(Rc::new(Cached { front, inner, background, links }))
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

/// Has something answer the request otherwise than by files; what the tables say of its head comes upon it later.
fn choose(answerer: Answerer, settings: &Rc<Settings>, head_only: bool, is_secure: bool, out: &mut Exchange) {
    let settings = Rc::clone(settings);
    out.choose(answerer, Box::new(move |out: &mut Exchange| finish(&settings, head_only, is_secure, out)));
}

/// What is done with a request.
struct Way<'a> {
    action: Action,
    /// What was looked up already for the target.
    looked_up: Option<LookedUp>,
    /// What is asked for, and whether it is another path than the request's own.
    asked: (&'a Target<'a>, bool),
    peer: &'a ClientPeer<'a>,
    persistence: Persistence,
}

/// Puts the page for an error, and the fields, into a response that was made.
fn finish(settings: &Settings, head_only: bool, is_secure: bool, out: &mut Exchange) {
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
    if !fields.is_empty() {
        fields.apply(out, is_secure);
        if out.record.is_chosen() {
            rewrite::keep_private(out);
        }
        if out.record.advised.as_ref().is_some_and(|advised| advised.is_stale) {
            rewrite::keep_for_nobody(out);
        }
    }
}
