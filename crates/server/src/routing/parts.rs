//! The parts of pages with includes, where hosts have rules: a part is subject to the same rules as a request for it
//! from the client that asked for the page, with the same address and the same password.

use super::asker::Asker;
use super::auth::Judged;
use super::client_certificates::lacking;
use super::rate::{Rate, Verdict};
use super::routes::mapping::Mapped;
use super::settings::{Action, Settings, is_among};
use super::{host_names, judge};
use crate::exchange::error_page::{self, Extra};
use crate::exchange::life::Exchange;
use crate::files::head::Persistence;
use crate::http::client_certificate::CertificateNeed;
use crate::http::request::Method;
use crate::http::target::{self, Target};
use crate::routing::asker::NS_PER_MS;
use crate::routing::hosts::Hosts;
use crate::routing::mount::{below_mount, is_top_without_slash, mount};
use crate::site::Part;
use crate::site::assembly::{self, Parts, Wanted};
use std::sync::Arc;

/// The parts of one page.
struct OfHost<'a> {
    hosts: &'a mut Hosts,
    asker: &'a Asker<'a>,
    /// The rates that have counted this request: it is one for each, however many parts it takes.
    counted: Vec<Arc<Rate>>,
    /// Nothing is answered yet: rates are looked at and not used up.
    is_trial: bool,
    /// Another client may be refused one of them.
    is_for_some: bool,
    /// The password for a part is being checked.
    must_wait: bool,
    /// Too many are.
    is_busy: bool,
}

impl Hosts {
    /// Assembles a page and makes the response of it.
    #[cold]
    pub(super) fn respond_with_page(
        &mut self,
        (site, page): (usize, &Part),
        settings: &Settings,
        asker: &Asker<'_>,
        persistence: Persistence,
        out: &mut Exchange,
    ) {
        let Asker { request, clock, counters, .. } = *asker;
        let host = (self.reloads, asker.host);
        let wanted = Wanted { page, host, method: request.method, persistence, clock, counters };
        if wanted.answer_with_kept(self.sites[site].1.kept(), out) {
            return;
        }
        let mut parts = OfHost {
            hosts: self,
            asker,
            counted: settings.rates.clone(),
            is_trial: false,
            is_for_some: false,
            must_wait: false,
            is_busy: false,
        };
        let assembled = assembly::assemble(&mut parts, page, asker.request, asker.clock, asker.counters);
        if parts.is_busy || parts.must_wait {
            // A page without parts that the client might see would be a wrong one.
            asker.counters.auth_busy.add(1);
            let extra = Extra { fields: b"Retry-After: 1\r\n", head_only: asker.request.method == Method::Head };
            return error_page::write(out, 503, extra, asker.clock, persistence);
        }
        wanted.answer_with_new(&assembled, self.sites[site].1.kept(), out);
    }

    /// Whether the request is for a page of which some part waits until its password has been checked, as it is
    /// another one than the page's own.
    pub(super) fn parts_must_wait(&mut self, settings: &Settings, found: &Target<'_>, asker: &Asker<'_>) -> bool {
        let Asker { host, request, clock, counters, .. } = *asker;
        let Action::Files { site, mount_bytes } = settings.action else { return false };
        let is_other = |auth: &Arc<_>| settings.auth.as_ref().is_none_or(|own| !Arc::ptr_eq(own, auth));
        let rules = Arc::clone(&self.rules);
        let of_host = &rules.hosts[usize::from(host)];
        let mut said = std::iter::once(&of_host.said).chain(of_host.paths.iter().map(|(_, said)| said));
        if !matches!(request.method, Method::Get | Method::Head)
            || !said.any(|said| said.auth.iter().flatten().any(is_other))
        {
            return false;
        }
        let Some(page) = self.find(site, mount_bytes, found, asker).filter(|page| page.resource.template.is_some())
        else {
            return false;
        };
        let mut parts = OfHost {
            hosts: self,
            asker,
            counted: settings.rates.clone(),
            is_trial: true,
            is_for_some: false,
            must_wait: false,
            is_busy: false,
        };
        assembly::assemble(&mut parts, &page, request, clock, counters);
        parts.must_wait
    }

    /// The file that a path of the host leads to.
    fn find(&mut self, site: usize, mount_bytes: usize, found: &Target<'_>, asker: &Asker<'_>) -> Option<Part> {
        if is_top_without_slash(mount_bytes, found) {
            return None;
        }
        let mut text = std::mem::take(&mut self.text);
        below_mount(mount_bytes, found, &mut text);
        let target = std::str::from_utf8(&text).unwrap_or("/");
        let resource = self.sites[site].1.part(target, asker.clock, asker.counters);
        self.text = text;
        let mount = if mount_bytes > 0 { mount(mount_bytes, found).to_vec() } else { Vec::new() };
        let resource = resource.filter(|resource| !self.is_source(asker.host, &resource.path));
        Some(Part { resource: resource?, mount })
    }
}

impl OfHost<'_> {
    /// Whether the client may have what these settings hold for.
    fn is_let_in(&mut self, settings: &Settings) -> bool {
        let Asker { client, clock, counters, request, shown, .. } = *self.asker;
        let is_certified = settings.certificate == CertificateNeed::Require;
        self.is_for_some |= !settings.access.is_empty() || settings.auth.is_some() || is_certified;
        if !settings.allows(client) || lacking(settings, shown).is_some() {
            return false;
        }
        for rate in &settings.rates {
            if is_among(rate, &self.counted) {
                continue;
            }
            self.is_for_some = true;
            let now_ns = clock.now_ms * NS_PER_MS;
            if self.is_trial {
                if rate.is_used_up(client, now_ns) {
                    return false;
                }
            } else {
                match rate.take(client, now_ns) {
                    Verdict::Through => {}
                    Verdict::Untracked => counters.rate_untracked.add(1),
                    Verdict::Wait { .. } => {
                        counters.rate_refused.add(1);
                        return false;
                    }
                }
            }
            self.counted.push(Arc::clone(rate));
        }
        let Some(auth) = &settings.auth else { return true };
        match self.hosts.credentials.judge(auth, request.authorization, clock.now_ms) {
            Judged::Right(_) => return true,
            Judged::Wrong => {}
            Judged::Wait => self.must_wait = true,
            Judged::Busy => self.is_busy = true,
        }
        false
    }
}

impl Parts for OfHost<'_> {
    fn part(&mut self, target: &str) -> Option<Part> {
        let mut decoded = Vec::new();
        let found = target::resolve(target, true, &mut decoded).ok()?;
        // What routes do may depend on the request.
        self.is_for_some |= self.hosts.routes(self.asker.host).is_some();
        let mut mapped = Mapped::default();
        let (found, via) = self.hosts.route_part(found, self.asker, &mut mapped)?;
        let settings = self.hosts.settings(self.asker.host, via, Some(found.path));
        if !self.is_let_in(&settings) {
            return None;
        }
        let Action::Files { site, mount_bytes } = settings.action else { return None };
        let part = self.hosts.find(site, mount_bytes, &found, self.asker)?;
        let file = part.path();
        if file != found.path {
            // The index of a directory, which has tables of its own.
            let of_file = self.hosts.settings_of_file(self.asker.host, via, found.path, &file);
            let name = host_names::name_of(self.asker.request);
            let is_other = judge::instead_of_file(&settings.action, &of_file.action, (name, &found), file).is_some();
            if is_other || !self.is_let_in(&of_file) {
                return None;
            }
        }
        Some(part)
    }

    fn are_for_all(&self) -> bool {
        !self.is_for_some
    }
}
