//! What is decided before any file is looked up: the host of a request, whether the client is let in, and redirects.
//!
//! Without a configuration a request passes with one comparison.

pub(crate) mod auth;
pub(crate) mod fields;
pub(crate) mod host_names;
mod judge;
mod parts;
pub(crate) mod rate;
pub(crate) mod redirect;
pub(crate) mod rewrite;
pub(crate) mod rules;
pub(crate) mod settings;

use crate::counters::LoopCounters;
use crate::counters::host_counts::HostCounts;
use crate::exchange::error_page::{self, Extra};
use crate::exchange::life::Exchange;
use crate::files::atom::Atom;
use crate::files::head::Persistence;
use crate::files::root::Root;
use crate::files::watcher::Watcher;
use crate::http::pattern::Pattern;
use crate::http::request::{Method, Request};
use crate::http::target::{self, Target};
use crate::io::clock::Clock;
use crate::io::epoll::Waker;
use crate::policy::caller::Caller;
use crate::policy::control::Orders;
use crate::site::assembly::{self, Part};
use crate::site::looked_up::LookedUp;
use crate::site::settings::{SiteBounds, SiteKind, SiteWord};
use crate::site::{self, Share, Site};
use auth::Credentials;
use judge::Tables;
use parts::Asker;
use rules::Rules;
use settings::{Action, Settings};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

const NS_PER_MS: u64 = 1_000_000;
/// Combinations of tables that a loop remembers.
const KNOWN_MAX: usize = 1024;

/// What a loop serves.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for each loop, and a box would be a way more to go")]
pub(crate) enum Front {
    /// One directory.
    Plain(Site),
    /// The hosts of a configuration.
    Hosts(Box<Hosts>),
}

impl Front {
    /// Makes the response to any request.
    pub(crate) fn respond(
        &mut self,
        request: &Request<'_>,
        caller: &Caller<'_>,
        persistence: Persistence,
        clock: &Clock,
        counters: &LoopCounters,
        out: &mut Exchange,
    ) {
        match self {
            Self::Plain(site) => {
                if let Some(page) = site.respond(request, caller, persistence, clock, counters, out) {
                    assembly::respond_from_one_site(site, page, request, persistence, clock, counters, out);
                }
            }
            Self::Hosts(hosts) => hosts.respond(request, caller, persistence, clock, counters, out),
        }
    }

    /// Whether the request must wait for the thread that checks its password. The caller parses it again after
    /// [`take_mail`](Self::take_mail) has returned that there are results.
    #[inline]
    pub(crate) fn must_wait(&mut self, request: &Request<'_>, client: IpAddr, clock: &Clock) -> bool {
        match self {
            Self::Hosts(hosts) if request.authorization.is_some() => hosts.must_wait(request, client, clock),
            _ => false,
        }
    }

    /// Whether something was found out about passwords.
    pub(crate) fn take_mail(&mut self, clock: &Clock) -> bool {
        match self {
            Self::Hosts(hosts) => hosts.credentials.take_mail(clock.now_ms),
            Self::Plain(_) => false,
        }
    }

    /// Takes note of files that have changed.
    pub(crate) fn hear(&mut self, watcher: &Watcher, counters: &LoopCounters) {
        let events = match self {
            Self::Plain(site) => {
                let events = watcher.hear(|event| site.hear(event));
                site.settle(counters);
                events
            }
            Self::Hosts(hosts) => {
                // Several hosts may serve the same directory.
                let events = watcher.hear(|event| hosts.sites.iter_mut().for_each(|(_, site)| site.hear(event)));
                hosts.sites.iter_mut().for_each(|(_, site)| site.settle(counters));
                events
            }
        };
        counters.watch_events.add(events);
    }

    /// Does as it is ordered: what caches keep, what they load.
    pub(crate) fn obey(&mut self, orders: &Orders) {
        let pins: Vec<Pattern> = orders.pins().cloned().collect();
        self.each_site(|site| {
            site.pin(&pins);
            orders.warms().for_each(|glob| site.warm(glob));
        });
    }

    /// Has caches ask anew what rules are for, where there are others.
    pub(crate) fn ask_again(&mut self, counters: &LoopCounters) {
        self.each_site(|site| site.ask_again(counters));
    }

    /// Loads some of what was ordered; whether there is more.
    pub(crate) fn warm_some(&mut self, clock: &Clock, counters: &LoopCounters) -> bool {
        let mut has_more = false;
        self.each_site(|site| has_more |= site.warm_some(clock, counters));
        has_more
    }

    fn each_site(&mut self, mut what: impl FnMut(&mut Site)) {
        match self {
            Self::Plain(site) => what(site),
            Self::Hosts(hosts) => hosts.sites.iter_mut().for_each(|(_, site)| what(site)),
        }
    }

    /// Bytes in memory, and entries, that caches keep by order.
    pub(crate) fn pinned(&mut self) -> (u64, u64) {
        let mut sum = (0, 0);
        self.each_site(|site| {
            let (bytes, entries) = site.pinned();
            sum = (sum.0 + bytes, sum.1 + entries);
        });
        sum
    }

    /// Bytes in memory, and entries, of all caches.
    pub(crate) fn fill(&self) -> (u64, u64) {
        match self {
            Self::Plain(site) => site.fill(),
            Self::Hosts(hosts) => {
                hosts.sites.iter().map(|(_, site)| site.fill()).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
            }
        }
    }

    /// Serves the directory that the root's path leads to now, where there are no hosts.
    pub(crate) fn follow(&mut self, directory: &Arc<File>, counters: &LoopCounters) -> io::Result<()> {
        let Self::Plain(site) = self else { return Ok(()) };
        let directory = directory.try_clone()?;
        if !site.is_same_root(&Root::of(directory.try_clone()?)) {
            site.move_to(directory, counters);
        }
        Ok(())
    }

    /// Takes up another configuration; what the sites have in memory stays where it is the same.
    pub(crate) fn reload(&mut self, rules: Arc<Rules>, shared: &SiteBounds, word: &SiteWord) -> io::Result<()> {
        match self {
            Self::Hosts(hosts) => hosts.reload(rules, shared, word),
            Self::Plain(_) => Ok(()),
        }
    }
}

/// The hosts of a configuration as one loop serves them.
#[derive(Debug)]
pub(crate) struct Hosts {
    rules: Arc<Rules>,
    /// How often others were taken up.
    reloads: u64,
    /// What each host has answered, in the order of the rules.
    counts: Vec<Arc<HostCounts>>,
    /// In the order of the rules.
    sites: Vec<(SiteKind, Site)>,
    share: Share,
    /// What holds, by the host and its tables.
    known: HashMap<(u16, Tables), Rc<Settings>>,
    /// The host of the last request, by the name that it gave.
    last_name: Vec<u8>,
    last_host: Option<u16>,
    credentials: Credentials,
    decoded: Vec<u8>,
    text: Vec<u8>,
}

impl Hosts {
    pub(crate) fn new(
        rules: Arc<Rules>,
        waker: Arc<Waker>,
        shared: &SiteBounds,
        word: &SiteWord,
        share: Share,
    ) -> io::Result<Self> {
        let mut hosts = Self {
            rules: Arc::default(),
            reloads: 0,
            counts: Vec::new(),
            credentials: Credentials::new(waker).ok_or(io::ErrorKind::Other)?,
            sites: Vec::new(),
            share,
            known: HashMap::new(),
            last_name: Vec::new(),
            last_host: None,
            decoded: Vec::new(),
            text: Vec::new(),
        };
        hosts.reload(rules, shared, word)?;
        Ok(hosts)
    }

    /// Takes up these rules; what was open already stays, with all that it has in memory.
    fn reload(&mut self, rules: Arc<Rules>, shared: &SiteBounds, word: &SiteWord) -> io::Result<()> {
        // All that can fail comes first, so that after a failure everything is as it was.
        let roots = rules.sites.iter().map(|site| Ok(Root::of(site.place.directory().try_clone()?)));
        let roots = roots.collect::<io::Result<Vec<Root>>>()?;
        let mut before = std::mem::take(&mut self.sites);
        // Each has an equal part of the memory, the descriptors and the watches.
        let parts = rules.sites.len().max(1);
        let share = Share { files_max: (self.share.files_max / parts).max(1), ..self.share.clone() };
        let bounds = shared.shared_by(parts);
        for (wanted, root) in rules.sites.iter().zip(roots) {
            // The same path may be another directory by now.
            if let Some(at) = before.iter().position(|(kind, site)| *kind == wanted.how && site.is_same_root(&root)) {
                let mut kept = before.swap_remove(at);
                kept.1.limit_watches(bounds.watches_max);
                self.sites.push(kept);
                continue;
            }
            let site = Site::new(root, &wanted.how.clone().under(word), &bounds, &share);
            self.sites.push((wanted.how.clone(), site));
        }
        self.counts =
            self.share.hosts.enter(&rules.hosts.iter().map(|host| Arc::clone(&host.name)).collect::<Vec<_>>());
        self.rules = rules;
        self.reloads += 1;
        self.known.clear();
        self.last_name.clear();
        self.last_host = self.rules.names.find(b"");
        Ok(())
    }

    fn must_wait(&mut self, request: &Request<'_>, client: IpAddr, clock: &Clock) -> bool {
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

    fn respond(
        &mut self,
        request: &Request<'_>,
        caller: &Caller<'_>,
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
        let asker = Asker { host, request, client: caller.client, clock, counters };
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
            let way = Way { action, looked_up, asked, caller, persistence };
            if let Some(other) = self.respond_by(way, &settings, &asker, out) {
                settings = other;
            }
        } else {
            error_page::write(out, 400, extra, clock, persistence);
        }
        finish(&settings, extra.head_only, caller.is_secure, out);
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
        let Way { action, looked_up, asked: (found, is_other), caller, persistence } = way;
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
            Action::Application(application) => {
                let (settings, is_secure) = (Rc::clone(settings), caller.is_secure);
                let finish = move |out: &mut Exchange| finish(&settings, extra.head_only, is_secure, out);
                out.choose(application, Box::new(finish));
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
            Some(looked_up) => site.respond_with(looked_up, request, caller, persistence, (clock, counters), out),
            None => site.respond(request, caller, persistence, clock, counters, out),
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
        if let Some(atom) = page {
            let mount = mount(mount_bytes, found).to_vec();
            self.respond_with_page((site, &Part { atom, mount }), settings, asker, persistence, out);
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

    /// Has a site respond whose root stands for the first bytes of the path.
    fn mounted(
        &mut self,
        site: usize,
        mount_bytes: usize,
        found: &Target<'_>,
        respond: impl FnOnce(&mut Site, &str, &mut Exchange) -> Option<Rc<Atom>>,
        out: &mut Exchange,
    ) -> Option<Rc<Atom>> {
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

    fn host(&mut self, name: &[u8]) -> Option<u16> {
        if *name != *self.last_name {
            self.text.clear();
            self.text.extend(name.iter().map(u8::to_ascii_lowercase));
            self.last_host = self.rules.names.find(&self.text);
            self.last_name.clear();
            self.last_name.extend_from_slice(name);
        }
        self.last_host
    }
}

/// What is done with a request.
struct Way<'a> {
    action: Action,
    /// What was looked up already for the target.
    looked_up: Option<LookedUp>,
    /// What is asked for, and whether it is another path than the request's own.
    asked: (&'a Target<'a>, bool),
    caller: &'a Caller<'a>,
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

/// The path that a root stands for, without a slash at its end.
fn mount<'t>(mount_bytes: usize, found: &Target<'t>) -> &'t [u8] {
    let mount = &found.path[..mount_bytes.min(found.path.len())];
    mount.strip_suffix(b"/").unwrap_or(mount)
}

/// Whether the path is that of a mounted root itself, without the slash that it has as a directory.
fn is_top_without_slash(mount_bytes: usize, found: &Target<'_>) -> bool {
    mount_bytes > 0 && found.path.len() <= mount_bytes && !found.path.ends_with(b"/")
}

/// The target below a root that stands for the first bytes of the path, with its query.
fn below_mount(mount_bytes: usize, found: &Target<'_>, text: &mut Vec<u8>) {
    let rest = &found.path[mount_bytes.min(found.path.len())..];
    text.clear();
    if !rest.starts_with(b"/") {
        text.push(b'/');
    }
    target::encode(rest, text);
    text.extend_from_slice(found.query);
}
