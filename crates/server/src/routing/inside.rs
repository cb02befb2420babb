//! Paths of a host for requests that an upstream hands over: those that clients cannot ask for, too.

use super::rules::{Rules, SiteRules};
use super::settings::{Action, Settings};
use crate::files::root::Root;
use crate::http::media_type;
use crate::upstream::handover::{Found, Inside};
use std::net::IpAddr;
use std::sync::Arc;

/// A host and a client of it.
#[derive(Debug)]
pub(super) struct InsideHost {
    pub(super) rules: Arc<Rules>,
    pub(super) host: u16,
    pub(super) client: IpAddr,
}

impl Inside for InsideHost {
    fn find(&self, path: &[u8]) -> Found {
        self.look(path, true)
    }
}

impl InsideHost {
    fn look(&self, path: &[u8], may_be_directory: bool) -> Found {
        let Some(host) = self.rules.hosts.get(usize::from(self.host)) else { return Found::Status(404) };
        let tables = host.paths.iter().filter(|(pattern, _)| pattern.matches(path)).map(|(_, said)| said);
        let settings = Settings::of(std::iter::once(&host.said).chain(tables));
        if !settings.lets(self.client) {
            return Found::Status(403);
        }
        match settings.action {
            Action::Files { site, mount_bytes } => match self.rules.sites.get(site) {
                Some(site) => self.file(site, mount_bytes, path, may_be_directory),
                None => Found::Status(404),
            },
            Action::Upstream(number) => match self.rules.upstreams.get(number) {
                Some(common) => Found::Upstream { common: Arc::clone(common), path: path.to_vec() },
                None => Found::Status(404),
            },
            Action::Status(status) => Found::Status(status),
            Action::Redirect(_) | Action::Application(_) => Found::Status(404),
        }
    }

    /// A file of a site, or what stands for a directory.
    fn file(&self, site: &SiteRules, mount_bytes: usize, path: &[u8], may_be_directory: bool) -> Found {
        let rest = path.get(mount_bytes..).unwrap_or_default();
        let below = [b"/", rest.strip_prefix(b"/").unwrap_or(rest)].concat();
        let is_hidden = below.split(|byte| *byte == b'/').any(|part| part.starts_with(b"."));
        let Ok(directory) = site.place.directory().try_clone() else { return Found::Status(503) };
        if is_hidden && !site.how.dot_files {
            return Found::Status(404);
        }
        let root = Root::of(directory).following(site.how.symlinks, &site.how.root);
        if below.ends_with(b"/") {
            let is_there = |name: &&String| root.open_for_stat(&[&*below, name.as_bytes()].concat()).is_ok();
            let index = site.how.index.iter().find(is_there).filter(|_| may_be_directory);
            return index.map_or(Found::Status(404), |name| self.look(&[path, name.as_bytes()].concat(), false));
        }
        match root.open(&below) {
            Ok(file) if file.metadata().is_ok_and(|metadata| metadata.is_file()) => {
                Found::File { file, content_type: media_type::of(&below, &site.how.media_types) }
            }
            _ => Found::Status(404),
        }
    }
}
