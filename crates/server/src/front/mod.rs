//! What stands before the files: which host a request is for, who may come, where it is sent.
//!
//! Without a configuration a request passes with one comparison.

pub(crate) mod access;
pub(crate) mod host_names;
pub(crate) mod pattern;
pub(crate) mod redirect;
pub(crate) mod rewrite;
pub(crate) mod rules;
pub(crate) mod settings;

use crate::clock::Clock;
use crate::counters::LoopCounters;
use crate::error_page::{self, Extra};
use crate::head::Persistence;
use crate::options::Options;
use crate::pending::Pending;
use crate::request::{Method, Request};
use crate::root::Root;
use crate::site::Site;
use crate::target::{self, Target};
use rules::{Rules, SiteKind};
use settings::{Action, Settings};
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

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
        client: IpAddr,
        persistence: Persistence,
        clock: &Clock,
        counters: &LoopCounters,
        out: &mut Pending,
    ) {
        match self {
            Self::Plain(site) => site.respond(request, persistence, clock, counters, out),
            Self::Hosts(hosts) => hosts.respond(request, client, persistence, clock, counters, out),
        }
    }
}

/// The hosts of a configuration as one loop serves them.
#[derive(Debug)]
pub(crate) struct Hosts {
    rules: Arc<Rules>,
    /// In the order of the rules.
    sites: Vec<(SiteKind, Site)>,
    /// What holds, by the host and the set of its tables.
    known: HashMap<(u16, u128), Rc<Settings>>,
    /// The host of the last request, by the name that it gave.
    last_name: Vec<u8>,
    last_host: Option<u16>,
    decoded: Vec<u8>,
    text: Vec<u8>,
}

impl Hosts {
    pub(crate) fn new(rules: Arc<Rules>, options: &Options, files_max: usize) -> io::Result<Self> {
        let mut hosts = Self {
            rules,
            sites: Vec::new(),
            known: HashMap::new(),
            last_name: Vec::new(),
            last_host: None,
            decoded: Vec::new(),
            text: Vec::new(),
        };
        hosts.open_sites(options, files_max)?;
        hosts.last_host = hosts.rules.names.find(b"");
        Ok(hosts)
    }

    /// Opens what the rules name; what was open already stays, with all that it has in memory.
    fn open_sites(&mut self, options: &Options, files_max: usize) -> io::Result<()> {
        let mut before = std::mem::take(&mut self.sites);
        // Each has an equal share of the memory.
        let share = self.rules.sites.len().max(1);
        for wanted in &self.rules.sites {
            let known = before.iter().position(|(kind, _)| *kind == wanted.how);
            if let Some(at) = known {
                self.sites.push(before.swap_remove(at));
                continue;
            }
            let root = match &wanted.directory {
                Some(directory) => Root::of(directory.try_clone()?),
                None => return Err(io::ErrorKind::NotFound.into()),
            };
            let options = Options {
                cache_bytes_max: options.cache_bytes_max / share as u64,
                listing: wanted.how.listing,
                dot_files: wanted.how.dot_files,
                index: wanted.how.index.clone(),
                ..options.clone()
            };
            self.sites.push((wanted.how.clone(), Site::new(root, &options, (files_max / share).max(1))));
        }
        Ok(())
    }

    fn respond(
        &mut self,
        request: &Request<'_>,
        client: IpAddr,
        persistence: Persistence,
        clock: &Clock,
        counters: &LoopCounters,
        out: &mut Pending,
    ) {
        let extra = Extra { fields: b"", head_only: request.method == Method::Head };
        let name = host_names::name_of(request);
        let Some(host) = self.host(name) else {
            return error_page::write(out, 421, extra, clock, persistence);
        };
        let mut decoded = std::mem::take(&mut self.decoded);
        let resolved = target::resolve(request.target, true, &mut decoded);
        let settings = self.settings(host, resolved.as_ref().ok().map(|found| found.path));
        let is_let_in = settings.access.as_ref().is_none_or(|access| access.allows(client));
        match (&settings.action, &resolved) {
            _ if !is_let_in => error_page::write(out, 403, extra, clock, persistence),
            (Action::Files { site, mount_bytes: 0 }, _) | (Action::Files { site, .. }, Err(_)) => {
                self.sites[*site].1.respond(request, persistence, clock, counters, out);
            }
            (Action::Files { site, mount_bytes }, Ok(found)) => {
                let site = &mut self.sites[*site].1;
                mounted(
                    site,
                    &mut self.text,
                    *mount_bytes,
                    found,
                    |site, target, out| {
                        let request = Request { target, ..*request };
                        site.respond(&request, persistence, clock, counters, out);
                    },
                    out,
                );
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
        }
        self.decoded = decoded;
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

/// Has a site respond whose root stands for the first bytes of the path.
fn mounted(
    site: &mut Site,
    text: &mut Vec<u8>,
    mount_bytes: usize,
    found: &Target<'_>,
    respond: impl FnOnce(&mut Site, &str, &mut Pending),
    out: &mut Pending,
) {
    let (mount, rest) = found.path.split_at(mount_bytes.min(found.path.len()));
    text.clear();
    if !rest.starts_with(b"/") {
        text.push(b'/');
    }
    target::encode(rest, text);
    text.extend_from_slice(found.query);
    // The encoding is of ASCII, and a query comes out of a text.
    respond(site, std::str::from_utf8(text).unwrap_or("/"), out);
    if out.status == 301 {
        // The site knows nothing of the path before its root.
        text.clear();
        target::encode(mount.strip_suffix(b"/").unwrap_or(mount), text);
        rewrite::insert_into_location(out, text);
    }
}
