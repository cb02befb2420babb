//! The settings of a request: those of its host, overridden by each table of its path in turn.

use super::auth::Auth;
use super::fields::{self, Fields};
use super::rate::Rate;
use super::redirect::Redirect;
use super::rewrite::Page;
use crate::exchange::application::ApplicationHandle;
use crate::http::access::Access;
use crate::http::client_certificate::{CertificateFields, CertificateNeed};
use std::net::IpAddr;
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
    /// It is answered by servers elsewhere: an index into [`super::rules::Rules::upstreams`].
    Upstream(usize),
    /// It is answered by an application of the program that runs the server.
    Application(ApplicationHandle),
}

/// What one table of the configuration says; what it does not say is as before.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said {
    pub(crate) action: Option<Action>,
    /// Names and values of fields.
    pub(crate) set: Vec<(String, String)>,
    /// The same of errors only.
    pub(crate) set_of_errors: Vec<(String, String)>,
    pub(crate) remove: Vec<String>,
    /// By status; 0 stands for all errors that have no page of their own.
    pub(crate) pages: Vec<(u16, Arc<Page>)>,
    pub(crate) access: Option<Arc<Access>>,
    /// None within = no password is asked for.
    pub(crate) auth: Option<Option<Arc<Auth>>>,
    /// None within = no limit.
    pub(crate) rate: Option<Option<Arc<Rate>>>,
    /// Where responses of upstreams are kept: an index into [`super::rules::Rules::caches`]. None within = nowhere.
    pub(crate) cache: Option<Option<usize>>,
    /// Whether no client may ask for the path.
    pub(crate) is_internal: Option<bool>,
    /// What is wanted of clients' certificates.
    pub(crate) certificate: Option<CertificateNeed>,
    /// Fields by which upstreams are told of them.
    pub(crate) certificate_fields: Option<Arc<CertificateFields>>,
}

impl Said {
    /// The fields of successes and redirects.
    fn of_success(&self) -> Vec<&(String, String)> {
        self.set.iter().collect()
    }

    /// The fields of errors: those that are said of them, and of the others those that are not about the content. A
    /// table that answers with a status means that answer by all of its fields.
    fn of_error(&self) -> Vec<&(String, String)> {
        let is_own = |name: &str| self.set_of_errors.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        let is_for_errors = matches!(self.action, Some(Action::Status(_)));
        let set = self
            .set
            .iter()
            .filter(|(name, value)| !is_own(name) && (is_for_errors || !fields::is_of_content(name, value)));
        set.chain(&self.set_of_errors).collect()
    }
}

/// What tables say of fields, one upon the other.
fn put_together<'s>(tables: &[&'s Said], of: impl Fn(&'s Said) -> Vec<&'s (String, String)>) -> Fields {
    let (mut set, mut removed): (Vec<&(String, String)>, Vec<&String>) = (Vec::new(), Vec::new());
    for said in tables {
        let own = of(said);
        let is_named =
            |name: &str| own.iter().map(|(name, _)| name).chain(&said.remove).any(|own| own.eq_ignore_ascii_case(name));
        set.retain(|(name, _)| !is_named(name));
        removed.retain(|name| !is_named(name));
        removed.extend(&said.remove);
        set.extend(own);
    }
    Fields::new(&set, &removed)
}

/// What holds in the end.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) action: Action,
    /// What is changed in the heads of successes and redirects.
    pub(crate) fields: Fields,
    /// What is changed in those of errors.
    pub(crate) error_fields: Fields,
    pages: Vec<(u16, Arc<Page>)>,
    /// All of them must let a client in.
    pub(crate) access: Vec<Arc<Access>>,
    pub(crate) auth: Option<Arc<Auth>>,
    /// Each of them counts a request.
    pub(crate) rates: Vec<Arc<Rate>>,
    /// Where responses of upstreams are kept.
    pub(crate) cache: Option<usize>,
    /// No client may ask for it; an upstream can hand a request over to it.
    pub(crate) is_internal: bool,
    /// What is wanted of clients' certificates.
    pub(crate) certificate: CertificateNeed,
    /// Fields by which upstreams are told of them.
    pub(crate) certificate_fields: Option<Arc<CertificateFields>>,
}

impl Settings {
    /// Puts tables together; the last word on anything counts.
    #[expect(single_use_lifetimes, reason = "an iterator's item cannot do without")]
    pub(crate) fn of<'s>(tables: impl Iterator<Item = &'s Said>) -> Self {
        let mut settings = Self {
            action: Action::Status(404),
            fields: Fields::default(),
            error_fields: Fields::default(),
            pages: Vec::new(),
            access: Vec::new(),
            auth: None,
            rates: Vec::new(),
            cache: None,
            is_internal: false,
            certificate: CertificateNeed::None,
            certificate_fields: None,
        };
        let tables: Vec<&Said> = tables.collect();
        for said in &tables {
            settings.action = said.action.clone().unwrap_or(settings.action);
            if let Some(access) = &said.access {
                settings.access = vec![Arc::clone(access)];
            }
            settings.auth = said.auth.clone().unwrap_or(settings.auth);
            settings.cache = said.cache.unwrap_or(settings.cache);
            settings.is_internal = said.is_internal.unwrap_or(settings.is_internal);
            settings.certificate = said.certificate.unwrap_or(settings.certificate);
            settings.certificate_fields = said.certificate_fields.clone().or(settings.certificate_fields);
            if let Some(rate) = &said.rate {
                settings.rates = rate.iter().cloned().collect();
            }
            settings.pages.retain(|(status, _)| said.pages.iter().all(|(own, _)| own != status));
            settings.pages.extend(said.pages.iter().cloned());
        }
        settings.fields = put_together(&tables, Said::of_success);
        settings.error_fields = put_together(&tables, Said::of_error);
        settings
    }

    /// What holds where a file answers in place of the path that was asked for: both must let a client in, what is done
    /// is what the file's tables say, and of all tables that are for one of them the last word on a field or page
    /// counts.
    pub(crate) fn of_file(path: &Self, file: &Self, both: Self) -> Self {
        let mut settings = both;
        settings.action = file.action.clone();
        settings.is_internal = path.is_internal || file.is_internal;
        settings.certificate = path.certificate.max(file.certificate);
        settings.access = path.access.clone();
        settings.access.extend(file.access.iter().filter(|own| !is_among(own, &path.access)).cloned());
        settings.rates = path.rates.clone();
        settings.rates.extend(file.rates.iter().filter(|own| !is_among(own, &path.rates)).cloned());
        // A request brings one password: of two that are asked for, the last word counts.
        settings.auth = match (&path.auth, &file.auth) {
            (Some(_), Some(_)) => settings.auth.or_else(|| file.auth.clone()),
            (one, other) => one.clone().or_else(|| other.clone()),
        };
        settings
    }

    /// What holds for a path that cannot be read: all tables may keep a client from it, and what the host says of
    /// fields and pages is how the error looks.
    pub(crate) fn of_unreadable(all: Self, host: Self) -> Self {
        Self { fields: host.fields, error_fields: host.error_fields, pages: host.pages, ..all }
    }

    /// Whether a client may come.
    pub(crate) fn allows(&self, client: IpAddr) -> bool {
        !self.is_internal && self.lets(client)
    }

    /// Whether its networks may come; a path within the server is closed to them beside that.
    pub(crate) fn lets(&self, client: IpAddr) -> bool {
        self.access.iter().all(|access| access.allows(client))
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

pub(crate) fn is_among<T>(one: &Arc<T>, of: &[Arc<T>]) -> bool {
    of.iter().any(|other| Arc::ptr_eq(one, other))
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
            ..Said::default()
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
        let (added, removed) = settings.fields.lines();
        assert_eq!(added, "a: 2\r\nserver: x\r\n");
        assert_eq!(removed, ["b", "a", "server"]);
        let text = |status| settings.page(status).map(|page| page.text.clone());
        assert_eq!(text(404).as_deref(), Some(&b"path"[..]));
        assert_eq!(text(500).as_deref(), Some(&b"any"[..]));
        assert_eq!(text(304), None);
        assert_eq!((settings.access.len(), settings.auth.is_none(), settings.rates.len()), (1, true, 1));
    }

    #[test]
    fn fields_of_errors_are_said_by_themselves() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let host = Said { set: vec![pair("X", "1"), pair("Cache-Control", "no-store")], ..Said::default() };
        let life = pair("Cache-Control", "max-age=9, immutable");
        let assets = Said { set: vec![life.clone()], ..Said::default() };
        let gone = Said { action: Some(Action::Status(410)), set: vec![life.clone()], ..Said::default() };
        let errors =
            Said { set: vec![life], set_of_errors: vec![pair("cache-control", "max-age=1")], ..Said::default() };
        let fields = |list: &[&Said]| {
            let settings = Settings::of(list.iter().copied());
            [settings.fields, settings.error_fields].map(|fields| {
                let mut out =
                    crate::exchange::life::Exchange { head_bytes: 19, ..crate::exchange::life::Exchange::default() };
                out.response.head = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
                fields.apply(&mut out, true);
                String::from_utf8_lossy(&out.response.head[17..]).replace("\r\n", ";")
            })
        };
        let long = "X: 1;Cache-Control: max-age=9, immutable;;";
        assert_eq!(fields(&[&host, &assets]), [long, "X: 1;Cache-Control: no-store;;"]);
        assert_eq!(fields(&[&host, &gone]), [long, long]);
        assert_eq!(fields(&[&host, &errors]), [long, "X: 1;cache-control: max-age=1;;"]);
    }

    #[test]
    fn a_file_that_answers_for_a_path_is_never_easier_to_get_than_by_its_own_path() {
        let auth = |realm| Some(Some(Arc::new(Auth::new(realm, HashMap::new()))));
        let rate = || Some(Some(Arc::new(Rate::new(RateLimit { interval_ns: 1, burst: 1, bits: [32, 64] }))));
        let one = Said { access: Some(Arc::default()), auth: auth("1"), rate: rate(), ..Said::default() };
        let other = Said { auth: auth("2"), action: Some(Action::Status(403)), rate: rate(), ..Said::default() };
        let open = Said { auth: Some(None), rate: Some(None), access: Some(Arc::default()), ..Said::default() };
        let of = |list: &[&Said]| Settings::of(list.iter().copied());
        let file = |path: &[&Said], file: &[&Said], both: &[&Said]| Settings::of_file(&of(path), &of(file), of(both));
        let challenge = |settings: &Settings| settings.auth.as_ref().map(|auth| auth.challenge.contains("\"2\""));
        for (path, of_file, both, asks, networks, rates) in [
            (vec![&one], vec![], vec![&one], Some(false), 1, 1),
            (vec![], vec![&one], vec![&one], Some(false), 1, 1),
            (vec![&one], vec![&one], vec![&one], Some(false), 1, 1),
            (vec![&one], vec![&other], vec![&one, &other], Some(true), 1, 2),
            (vec![&one], vec![&other], vec![&other, &one], Some(false), 1, 2),
            // What opens one of them does not open the other.
            (vec![&one, &open], vec![&one], vec![&one, &open], Some(false), 2, 1),
            (vec![&one], vec![&one, &open], vec![&one, &open], Some(false), 2, 1),
        ] {
            let settings = file(&path, &of_file, &both);
            assert_eq!((challenge(&settings), settings.access.len(), settings.rates.len()), (asks, networks, rates));
        }
        assert_eq!(file(&[&one], &[&other], &[&other, &one]).action, Action::Status(403));
    }
}
