//! What stands before the files: which host a request is for, who may come, where it is sent.
//!
//! Without a configuration a request passes with one comparison.

pub(crate) mod access;
pub(crate) mod auth;
pub(crate) mod host_counts;
pub(crate) mod host_names;
mod parts;
pub(crate) mod pattern;
pub(crate) mod rate;
pub(crate) mod redirect;
pub(crate) mod rewrite;
pub(crate) mod rules;
pub(crate) mod settings;

use crate::assembly::{self, Part};
use crate::atom::Atom;
use crate::caller::Caller;
use crate::clock::Clock;
use crate::control::Orders;
use crate::counters::LoopCounters;
use crate::epoll::Waker;
use crate::error_page::{self, Extra};
use crate::head::Persistence;
use crate::options::Options;
use crate::pending::Pending;
use crate::request::{Method, Request};
use crate::root::Root;
use crate::site::{self, Share, Site};
use crate::target::{self, Target};
use crate::watcher::Watcher;
use auth::{Credentials, Judged};
use host_counts::HostCounts;
use parts::Asker;
use pattern::Pattern;
use rate::Verdict;
use rules::{Rules, SiteKind};
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
    /// Makes the response to a request, whatever it is.
    pub(crate) fn respond(
        &mut self,
        request: &Request<'_>,
        caller: &Caller<'_>,
        persistence: Persistence,
        clock: &Clock,
        counters: &LoopCounters,
        out: &mut Pending,
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

    /// Whether the request must wait until somebody has found out whether its password is right; it is to be parsed
    /// again after [`take_mail`](Self::take_mail) has said that something was found out.
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
    pub(crate) fn reload(&mut self, rules: Arc<Rules>, options: &Options) -> io::Result<()> {
        match self {
            Self::Hosts(hosts) => hosts.reload(rules, options),
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
    /// What holds, by the host and the set of its tables.
    known: HashMap<(u16, u128), Rc<Settings>>,
    /// The host of the last request, by the name that it gave.
    last_name: Vec<u8>,
    last_host: Option<u16>,
    credentials: Credentials,
    decoded: Vec<u8>,
    text: Vec<u8>,
}

impl Hosts {
    pub(crate) fn new(rules: Arc<Rules>, waker: Arc<Waker>, options: &Options, share: Share) -> io::Result<Self> {
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
        hosts.reload(rules, options)?;
        Ok(hosts)
    }

    /// Takes up these rules; what was open already stays, with all that it has in memory.
    fn reload(&mut self, rules: Arc<Rules>, options: &Options) -> io::Result<()> {
        // All that can fail comes first, so that after a failure everything is as it was.
        let roots = rules.sites.iter().map(|site| Ok(Root::of(site.place.directory().try_clone()?)));
        let roots = roots.collect::<io::Result<Vec<Root>>>()?;
        let mut before = std::mem::take(&mut self.sites);
        // Each has an equal part of the memory, the descriptors and the watches.
        let parts = rules.sites.len().max(1);
        let share = Share { files_max: (self.share.files_max / parts).max(1), ..self.share.clone() };
        let watches_max = options.watches_max.div_ceil(parts);
        for (wanted, root) in rules.sites.iter().zip(roots) {
            // The same path may be another directory by now.
            if let Some(at) = before.iter().position(|(kind, site)| *kind == wanted.how && site.is_same_root(&root)) {
                let mut kept = before.swap_remove(at);
                kept.1.limit_watches(watches_max);
                self.sites.push(kept);
                continue;
            }
            let cache_bytes_max = options.cache_bytes_max / parts as u64;
            let mut options = Options { cache_bytes_max, watches_max, ..options.clone() };
            wanted.how.clone().under(&options.site_word).put(&mut options);
            self.sites.push((wanted.how.clone(), Site::new(root, &options, &share)));
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
        let Some(host) = self.host(host_names::name_of(request)) else { return false };
        let mut decoded = std::mem::take(&mut self.decoded);
        let resolved = target::resolve(request.target, true, &mut decoded).ok();
        let settings = self.settings(host, resolved.as_ref().map(|found| found.path));
        // Whoever is refused anyway need not wait, and costs no check.
        let is_refused = settings.access.as_ref().is_some_and(|access| !access.allows(client))
            || settings.rate.as_ref().is_some_and(|rate| rate.is_used_up(client, clock.now_ms * NS_PER_MS));
        let judged = match &settings.auth {
            Some(auth) if !is_refused => Some(self.credentials.judge(auth, request.authorization, clock.now_ms)),
            _ => None,
        };
        let must_wait = match judged {
            _ if is_refused => false,
            Some(Judged::Wait) => true,
            Some(Judged::Wrong | Judged::Busy) => false,
            Some(Judged::Right(_)) | None => {
                resolved.is_some_and(|found| self.parts_must_wait(host, &settings, &found, request, client, clock))
            }
        };
        self.decoded = decoded;
        must_wait
    }

    /// Refuses whoever may not come, comes too often, or does not say who it is: by a status, with fields.
    fn refusal(
        &mut self,
        settings: &Settings,
        request: &Request<'_>,
        client: IpAddr,
        clock: &Clock,
        counters: &LoopCounters,
        out: &mut Pending,
    ) -> Option<(u16, String)> {
        if settings.access.as_ref().is_some_and(|access| !access.allows(client)) {
            return Some((403, String::new()));
        }
        if let Some(rate) = &settings.rate {
            match rate.take(client, clock.now_ms * NS_PER_MS) {
                Verdict::Through => {}
                Verdict::Untracked => counters.rate_untracked.add(1),
                Verdict::Wait { seconds } => {
                    counters.rate_refused.add(1);
                    return Some((429, format!("Retry-After: {seconds}\r\n")));
                }
            }
        }
        let auth = settings.auth.as_ref()?;
        match self.credentials.judge(auth, request.authorization, clock.now_ms) {
            Judged::Right(user) => {
                out.log.user = user;
                None
            }
            Judged::Wrong => Some((401, auth.challenge.clone())),
            Judged::Wait | Judged::Busy => {
                counters.auth_busy.add(1);
                Some((503, "Retry-After: 1\r\n".to_owned()))
            }
        }
    }

    fn respond(
        &mut self,
        request: &Request<'_>,
        caller: &Caller<'_>,
        persistence: Persistence,
        clock: &Clock,
        counters: &LoopCounters,
        out: &mut Pending,
    ) {
        let client = caller.client;
        let extra = Extra { fields: b"", head_only: request.method == Method::Head };
        let name = host_names::name_of(request);
        let Some(host) = self.host(name) else {
            return error_page::write(out, 421, extra, clock, persistence);
        };
        let mut decoded = std::mem::take(&mut self.decoded);
        let resolved = target::resolve(request.target, true, &mut decoded);
        let settings = self.settings(host, resolved.as_ref().ok().map(|found| found.path));
        out.log.host = Some(Arc::clone(&self.counts[usize::from(host)]));
        let refusal = self.refusal(&settings, request, client, clock, counters, out);
        match (&settings.action, &resolved) {
            _ if refusal.is_some() => {
                let (status, fields) = refusal.unwrap_or_default();
                error_page::write(out, status, Extra { fields: fields.as_bytes(), ..extra }, clock, persistence);
            }
            (Action::Files { site, mount_bytes }, resolved) => {
                let found = resolved.as_ref().ok().filter(|_| *mount_bytes > 0);
                let page = match found {
                    // Relative links of its index and its listing would lead beside it.
                    Some(found)
                        if is_top_without_slash(*mount_bytes, found)
                            && matches!(request.method, Method::Get | Method::Head) =>
                    {
                        site::redirect(found, extra, clock, persistence, out);
                        None
                    }
                    None => self.sites[*site].1.respond(request, caller, persistence, clock, counters, out),
                    Some(found) => self.mounted(
                        *site,
                        *mount_bytes,
                        found,
                        |site, target, out| {
                            let request = Request { target, ..*request };
                            site.respond(&request, caller, persistence, clock, counters, out)
                        },
                        out,
                    ),
                };
                if let Some(atom) = page {
                    let mount = found.map_or(&b""[..], |found| mount(*mount_bytes, found)).to_vec();
                    let asker = Asker { host, request, client, clock, counters };
                    self.respond_with_page((*site, &Part { atom, mount }), &settings, &asker, persistence, out);
                }
            }
            // A path that cannot be read is answered as it is everywhere.
            (_, Err(_)) => error_page::write(out, 400, extra, clock, persistence),
            (Action::Redirect(redirect), Ok(found)) => match redirect.location(found, name) {
                Some(field) => {
                    let extra = Extra { fields: &field, ..extra };
                    error_page::write(out, redirect.status, extra, clock, persistence);
                }
                None => error_page::write(out, 414, extra, clock, persistence),
            },
            (Action::Status(status), _) => error_page::write(out, *status, extra, clock, persistence),
        }
        if out.status >= 400
            && let Some(page) = settings.page(out.status)
        {
            rewrite::replace_body(out, page, extra.head_only);
        }
        if !settings.fields.is_empty() {
            settings.fields.apply(out);
            if out.is_chosen() {
                rewrite::keep_private(out);
            }
            if out.advised.as_ref().is_some_and(|advised| advised.is_stale) {
                rewrite::keep_for_nobody(out);
            }
        }
        self.decoded = decoded;
    }

    /// Has a site respond whose root stands for the first bytes of the path.
    fn mounted(
        &mut self,
        site: usize,
        mount_bytes: usize,
        found: &Target<'_>,
        respond: impl FnOnce(&mut Site, &str, &mut Pending) -> Option<Rc<Atom>>,
        out: &mut Pending,
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

    /// What holds for a path, or for one that cannot be read.
    fn settings(&mut self, number: u16, path: Option<&[u8]>) -> Rc<Settings> {
        let host = &self.rules.hosts[usize::from(number)];
        let mut tables = 0_u128;
        for (place, (pattern, _)) in host.paths.iter().enumerate() {
            // Without a path there is no telling which table it would belong to, so that none is left out that
            // keeps somebody away; nothing but an error comes of it.
            if path.is_none_or(|path| pattern.matches(path)) {
                tables |= 1 << place;
            }
        }
        if let Some(settings) = self.known.get(&(number, tables)) {
            return Rc::clone(settings);
        }
        let own = host.paths.iter().enumerate().filter(|(place, _)| tables >> place & 1 == 1);
        let settings = Rc::new(Settings::of(std::iter::once(&host.said).chain(own.map(|(_, (_, said))| said))));
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert((number, tables), Rc::clone(&settings));
        settings
    }
}

/// The path that a root stands for, without a slash at its end.
fn mount<'t>(mount_bytes: usize, found: &Target<'t>) -> &'t [u8] {
    let mount = &found.path[..mount_bytes.min(found.path.len())];
    mount.strip_suffix(b"/").unwrap_or(mount)
}

/// Whether the path is that of the root itself, without the slash that it has as a directory.
fn is_top_without_slash(mount_bytes: usize, found: &Target<'_>) -> bool {
    found.path.len() <= mount_bytes && !found.path.ends_with(b"/")
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
