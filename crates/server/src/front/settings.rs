//! What holds for a request: what its host and the tables of its path say, one upon the other.

use super::access::Access;
use super::auth::Auth;
use super::rate::Rate;
use super::redirect::Redirect;
use super::rewrite::{Fields, Page};
use std::sync::Arc;

/// What is done with a request that is let in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// It is for a file of this site; the first bytes of its path, which stand for the site's root, are taken off.
    Files { site: usize, mount_bytes: usize },
    /// It is sent elsewhere.
    Redirect(Arc<Redirect>),
    /// It is answered with this status.
    Status(u16),
}

/// What one table of the configuration says; what it does not say is as before.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said {
    pub(crate) action: Option<Action>,
    /// Names and values of fields.
    pub(crate) set: Vec<(String, String)>,
    pub(crate) remove: Vec<String>,
    /// By status; 0 stands for all errors that have no page of their own.
    pub(crate) pages: Vec<(u16, Arc<Page>)>,
    pub(crate) access: Option<Arc<Access>>,
    /// None within = nobody is asked who it is.
    pub(crate) auth: Option<Option<Arc<Auth>>>,
    /// None within = no limit.
    pub(crate) rate: Option<Option<Arc<Rate>>>,
}

/// What holds in the end.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) action: Action,
    pub(crate) fields: Fields,
    pages: Vec<(u16, Arc<Page>)>,
    pub(crate) access: Option<Arc<Access>>,
    pub(crate) auth: Option<Arc<Auth>>,
    pub(crate) rate: Option<Arc<Rate>>,
}

impl Settings {
    /// Puts tables together; the last word on anything counts.
    #[expect(single_use_lifetimes, reason = "an iterator's item cannot do without")]
    pub(crate) fn of<'s>(tables: impl Iterator<Item = &'s Said>) -> Self {
        let mut settings = Self {
            action: Action::Status(404),
            fields: Fields::default(),
            pages: Vec::new(),
            access: None,
            auth: None,
            rate: None,
        };
        let mut set: Vec<&(String, String)> = Vec::new();
        for said in tables {
            settings.action = said.action.clone().unwrap_or(settings.action);
            settings.access = said.access.clone().or(settings.access);
            settings.auth = said.auth.clone().unwrap_or(settings.auth);
            settings.rate = said.rate.clone().unwrap_or(settings.rate);
            settings.pages.retain(|(status, _)| said.pages.iter().all(|(own, _)| own != status));
            settings.pages.extend(said.pages.iter().cloned());
            let is_named = |name: &str| {
                let set = said.set.iter().map(|(name, _)| name);
                set.chain(&said.remove).any(|own| own.eq_ignore_ascii_case(name))
            };
            set.retain(|(name, _)| !is_named(name));
            settings.fields.removed.retain(|name| !is_named(name));
            settings.fields.removed.extend(said.remove.iter().chain(said.set.iter().map(|(name, _)| name)).cloned());
            set.extend(&said.set);
        }
        settings.fields.added =
            set.iter().flat_map(|(name, value)| format!("{name}: {value}\r\n").into_bytes()).collect();
        settings
    }

    /// The page for an error of this status.
    pub(crate) fn page(&self, status: u16) -> Option<&Arc<Page>> {
        if self.pages.is_empty() || status < 400 {
            return None;
        }
        let of = |wanted: u16| self.pages.iter().find(|(status, _)| *status == wanted).map(|(_, page)| page);
        of(status).or_else(|| of(0))
    }
}

#[cfg(test)]
mod tests {
    use super::super::rate::RateLimit;
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn the_last_word_counts() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let page = |text: &str| Arc::new(Page { content_type: "text/plain".to_owned(), text: text.into() });
        let host = Said {
            action: Some(Action::Status(410)),
            set: vec![pair("A", "1"), pair("B", "1")],
            remove: vec!["Server".to_owned()],
            pages: vec![(404, page("host")), (0, page("any"))],
            access: Some(Arc::default()),
            auth: Some(Some(Arc::new(Auth::new("r", HashMap::new())))),
            rate: Some(Some(Arc::new(Rate::new(RateLimit { interval_ns: 1, burst: 1, bits: [32, 64] })))),
        };
        let path = Said {
            set: vec![pair("a", "2"), pair("server", "x")],
            remove: vec!["b".to_owned()],
            pages: vec![(404, page("path"))],
            auth: Some(None),
            ..Said::default()
        };
        let settings = Settings::of([&host, &path].into_iter());
        assert_eq!(settings.action, Action::Status(410));
        assert_eq!(settings.fields.added, b"a: 2\r\nserver: x\r\n");
        assert_eq!(settings.fields.removed, ["A", "b", "a", "server"].map(str::to_owned)[1..]);
        let text = |status| settings.page(status).map(|page| page.text.clone());
        assert_eq!(text(404).as_deref(), Some(&b"path"[..]));
        assert_eq!(text(500).as_deref(), Some(&b"any"[..]));
        assert_eq!(text(304), None);
        assert!(settings.access.is_some() && settings.auth.is_none() && settings.rate.is_some());
    }
}
