//! Explains how a configuration routes a request, without a server.

use super::options::Options;
use crate::certificates::challenges::Challenges;
use crate::counters::host_counts::HostLedger;
use crate::counters::php_watch::PhpWatch;
use crate::files::shared_content::SharedContent;
use crate::files::watcher::Watcher;
use crate::http::parse;
use crate::http::request::{AllFields, Head, is_token};
use crate::http::target;
use crate::io::clock::Clock;
use crate::io::epoll::{Epoll, Waker};
use crate::routing::Hosts;
use crate::routing::explanation::RouteExplanation;
use crate::site::Share;
use crate::upstream::context::UpstreamContext;
use crate::upstream::links::Links;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use thiserror::Error;

/// Files that are kept open for one explanation.
const FILES_MAX: usize = 64;

/// A request that is to be explained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteQuestion {
    /// `http://HOST/PATH?QUERY`, `https://...`, or a path.
    pub url: String,
    /// Such as `GET`.
    pub method: String,
    /// Fields beside Host, which the URL says; without a host in the URL it may be among them.
    pub fields: Vec<(String, String)>,
    /// The client's address.
    pub client: IpAddr,
    /// Seconds since 1970; none for now.
    pub unix_s: Option<u64>,
}

impl RouteQuestion {
    /// A GET from this machine, now.
    pub fn new(url: &str) -> Self {
        let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Self { url: url.to_owned(), method: "GET".to_owned(), fields: Vec::new(), client, unix_s: None }
    }
}

/// Why a request cannot be explained.
#[derive(Debug, Error)]
pub enum RouteQuestionError {
    /// The URL has neither of the schemes that are served, nor is it a path.
    #[error("`{0}` is no URL; write http://HOST/PATH, https://HOST/PATH or /PATH")]
    Url(String),
    /// A field has no name, or a value that cannot be sent.
    #[error("`{0}` is no field; write 'NAME: VALUE'")]
    Field(String),
    /// The server would refuse the request before it looks at hosts.
    #[error("the request is refused with {0} before a host is looked for; mend the URL, the method or the fields")]
    Refused(u16),
    /// Without a configuration there is one directory, and nothing to explain.
    #[error("the server has no configuration with hosts; start it with one")]
    NoHosts,
    /// The system refuses what the explanation needs.
    #[error("{0}; have the system give more descriptors or memory")]
    System(#[from] io::Error),
}

/// Tells how the hosts of a configuration route a request: by the functions that a server routes it by.
///
/// # Errors
///
/// The question is no request, or the options have no hosts.
pub fn explain_route(options: &Options, question: &RouteQuestion) -> Result<RouteExplanation, RouteQuestionError> {
    let rules = options.hosts.as_ref().ok_or(RouteQuestionError::NoHosts)?;
    let first = rules.names().next().filter(|name| *name != "*").unwrap_or("localhost").replace('*', "any");
    let (head, is_secure) = head(question, &first)?;
    let mut request = match parse::parse(head.as_bytes(), &options.limits) {
        Head::Complete(request, _) => request,
        Head::Rejected(status) => return Err(RouteQuestionError::Refused(status)),
        // The head ends with its empty line, so this is a request line that has none of the forms.
        Head::Partial => return Err(RouteQuestionError::Refused(400)),
    };
    request.all = AllFields::Head(head.as_bytes());
    let share = Share {
        shared_content: Arc::new(SharedContent::new()),
        watcher: Rc::new(Watcher::deaf()),
        hosts: HostLedger::default(),
        files_max: FILES_MAX,
        policy_client: None,
        challenges: Challenges::default(),
    };
    let waker = Arc::new(Waker::new()?);
    // No server is asked, so none of their names is looked up.
    let links = Links::new(Rc::new(Epoll::new()?), UpstreamContext::new(&[], |_| {}, <[PhpWatch; 2]>::default())?);
    let (bounds, word) = (options.site_bounds(), &options.site_word);
    let mut hosts = Hosts::new(Arc::clone(&rules.0), waker, &bounds, word, (share, links))?;
    let mut clock = Clock::new();
    clock.unix_s = question.unix_s.unwrap_or(clock.unix_s);
    let mut told = hosts.explain(&request, (question.client, is_secure), &clock);
    let mut decoded = Vec::new();
    if let Ok(found) = target::resolve(request.target, true, &mut decoded) {
        // The first that a path is of counts, and it is the path that was asked for.
        let throttle = options.throttles.iter().find(|throttle| throttle.is_for(found.path));
        told.limits.extend(throttle.map(|throttle| format!("throttle: {} ({})", throttle.glob(), throttle.said())));
    }
    Ok(told)
}

/// The request as a client would send it, and whether over TLS.
fn head(question: &RouteQuestion, first: &str) -> Result<(String, bool), RouteQuestionError> {
    let url = question.url.split('#').next().unwrap_or_default();
    let (is_secure, rest) = match url.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
        _ if url.starts_with('/') => (false, url),
        _ => return Err(RouteQuestionError::Url(question.url.clone())),
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, target) = rest.split_at(end);
    let slash = if target.starts_with('/') { "" } else { "/" };
    let has_host = question.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("host"));
    let mut head = format!("{} {slash}{target} HTTP/1.1\r\n", question.method);
    if !has_host {
        let host = if authority.is_empty() { first } else { authority };
        head.push_str(&format!("Host: {host}\r\n"));
    }
    for (name, value) in &question.fields {
        let is_sent = value.bytes().all(|byte| byte >= b' ' && byte != 0x7f);
        if !is_token(name.as_bytes()) || !is_sent {
            return Err(RouteQuestionError::Field(format!("{name}: {value}")));
        }
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    Ok((head, is_secure))
}
