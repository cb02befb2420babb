//! The servers of a front: one that redirects each request to a node, and one that passes requests on.

use super::pair::lock;
use anyhow::{Context, anyhow};
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use weir_cluster::{Locality, NodeNumber};
use weir_keeper::maglev;
use weir_server::{
    Aborted, Application, CertificateFiles, Handler, ListenAddr, Options, Reloader, Reply, RequestBody, RequestHead,
    Server, Wake, parse_configuration,
};

/// Weights of upstreams are those of the nodes in parts of this: a change of some percent is no new configuration.
const WEIGHT_PART: u16 = 50;
/// What is served behind what the front does itself: nothing.
const REDIRECTS: &str = "[[host]]\n[[host.path]]\nprefix = \"/\"\nstatus = 404\n";

/// How a front brings requests to nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Proxy,
    Redirect,
}

/// Which node a request is redirected to.
#[derive(Debug)]
pub(super) struct Spread {
    locality: Locality,
    urls: BTreeMap<NodeNumber, String>,
    now: Mutex<Arc<Now>>,
}

/// The nodes that are there.
#[derive(Debug, Default)]
struct Now {
    table: Vec<u16>,
    nodes: usize,
}

impl Spread {
    /// No node is there yet.
    pub(super) fn new(urls: BTreeMap<NodeNumber, String>) -> Self {
        Self { locality: Locality::default(), urls, now: Mutex::default() }
    }

    pub(super) fn set(&self, weights: &BTreeMap<NodeNumber, u16>) {
        let there: Vec<(u16, u16)> = weights.iter().map(|(node, weight)| (*node, *weight)).collect();
        let nodes = there.iter().filter(|(_, weight)| *weight > 0).count();
        *lock(&self.now) = Arc::new(Now { table: maglev::weighted_table(&there), nodes });
    }

    /// The url of the node for a request.
    fn url(&self, path: &[u8], client: impl Hash) -> Option<&str> {
        let now = Arc::clone(&lock(&self.now));
        let mut hasher = DefaultHasher::new();
        client.hash(&mut hasher);
        let entry = self.locality.entry(path, hasher.finish(), now.nodes);
        now.table.get(entry).and_then(|node| self.urls.get(node)).map(String::as_str)
    }
}

/// Answers each request with the place of a node.
struct Redirects(Arc<Spread>);

impl fmt::Debug for Redirects {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Redirects")
    }
}

/// One answer.
#[derive(Debug)]
enum Redirect {
    To(String),
    /// The target is no path.
    NoPath,
    /// No node is there.
    NoNode,
}

impl Application for Redirects {
    fn begin(&self, head: &RequestHead<'_>, _: Wake) -> Box<dyn Handler> {
        let target = head.target();
        let path = target.split('?').next().unwrap_or(target);
        Box::new(match self.0.url(path.as_bytes(), head.client()) {
            _ if !target.starts_with('/') => Redirect::NoPath,
            Some(url) => Redirect::To(format!("{url}{target}")),
            None => Redirect::NoNode,
        })
    }
}

impl Handler for Redirect {
    fn go_on(&mut self, body: &mut RequestBody, reply: &mut Reply) -> Result<(), Aborted> {
        // The client sends it to the node once more.
        body.take(body.bytes().len());
        if reply.has_begun() {
            return Ok(());
        }
        let text = ("Content-Type", "text/plain; charset=utf-8");
        let (status, field, words) = match self {
            // The next request may belong to another node.
            Self::To(location) => (307, ("Location", location.as_str()), ""),
            Self::NoPath => (400, text, "this server redirects paths alone\n"),
            Self::NoNode => (503, ("Retry-After", "1"), "no node of the cluster is there\n"),
        };
        let fields = [field, ("Cache-Control", "no-store")];
        reply.begin(status, &fields, Some(words.len() as u64)).map_err(|_| Aborted)?;
        reply.write(words.as_bytes());
        reply.end(&[]).map_err(|_| Aborted)
    }
}

/// Makes the options of a server for nodes with these weights.
type Configure = dyn Fn(&BTreeMap<NodeNumber, u16>) -> anyhow::Result<Options>;

/// A server of a front, in a thread of its own.
pub(super) struct Web {
    way: Way,
    listen: ListenAddr,
    options: Box<Configure>,
    reloader: Reloader,
    /// The weights of the configuration that holds.
    configured: BTreeMap<NodeNumber, u16>,
    ends: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Web {
    /// Listens at an address; with certificates over TLS, and by HTTP/3 as well.
    ///
    /// # Errors
    /// If that cannot be done.
    pub(super) fn start(
        way: Way,
        listen: ListenAddr,
        certificates: Vec<CertificateFiles>,
        (folder, spread): (&Path, &Arc<Spread>),
    ) -> anyhow::Result<Self> {
        let nodes: Vec<NodeNumber> = spread.urls.keys().copied().collect();
        let (folder, spread): (PathBuf, _) = (folder.to_owned(), Arc::clone(spread));
        let at = listen.clone();
        let options = move |weights: &BTreeMap<NodeNumber, u16>| {
            let text = if way == Way::Proxy { proxying(&spread.urls, weights) } else { REDIRECTS.to_owned() };
            let mut options = parse_configuration(&text, &folder).map_err(|mistakes| anyhow!("{mistakes:?}"))?;
            (options.listen, options.http3) = (vec![at.clone()], !certificates.is_empty());
            options.certificates.clone_from(&certificates);
            // This process has links, and a confined thread could not be given back.
            options.sandbox = Some(false);
            if way == Way::Redirect {
                let hosts = options
                    .hosts
                    .take()
                    .and_then(|hosts| hosts.with_application("**", Arc::new(Redirects(Arc::clone(&spread)))));
                options.hosts = Some(hosts.context("the rules of redirects")?);
            }
            Ok(options)
        };
        // Until it is heard which nodes are there, all are.
        let configured: BTreeMap<NodeNumber, u16> = nodes.into_iter().map(|node| (node, 1)).collect();
        let server = Server::bind(options(&configured)?)?;
        let (reloader, ends) = (server.reloader(), Arc::<AtomicBool>::default());
        let until = Arc::clone(&ends);
        let run = move || {
            if let Err(error) = server.run(&until) {
                eprintln!("weir cluster front: {error}");
            }
        };
        let thread = std::thread::Builder::new().name("weir-front-web".to_owned()).spawn(run)?;
        Ok(Self { way, listen, options: Box::new(options), reloader, configured, ends, thread })
    }

    /// Passes requests on by these weights.
    pub(super) fn follow(&mut self, weights: &BTreeMap<NodeNumber, u16>) {
        let parts: BTreeMap<NodeNumber, u16> =
            weights.iter().filter(|(_, weight)| **weight > 0).map(|(node, weight)| (*node, part(*weight))).collect();
        // With none left the requests go where they went: a node may be there and not be heard.
        if self.way == Way::Redirect || parts.is_empty() || parts == self.configured {
            return;
        }
        match (self.options)(&parts) {
            Ok(options) => {
                self.reloader.reload(options);
                self.configured = parts;
            }
            Err(error) => eprintln!("weir cluster front: the nodes stay as they were: {error:#}"),
        }
    }

    pub(super) fn words(&self) -> String {
        let way = if self.way == Way::Proxy { "a proxy" } else { "redirects" };
        format!("{way} at {}", self.listen)
    }

    /// Ends it, as soon as what is under way is over.
    pub(super) fn end(self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
    }
}

fn part(weight: u16) -> u16 {
    (weight / WEIGHT_PART).max(1)
}

/// The configuration of a proxy before these nodes.
fn proxying(urls: &BTreeMap<NodeNumber, String>, weights: &BTreeMap<NodeNumber, u16>) -> String {
    let server = |(node, url): (&NodeNumber, &String)| {
        let weight = weights.get(node)?;
        Some(format!("{{ to = {url:?}, weight = {weight} }}"))
    };
    let servers: Vec<String> = urls.iter().filter_map(server).collect();
    format!(
        "[[host]]\n[[host.path]]\nprefix = \"/\"\n[host.path.proxy]\nname = \"cluster\"\nbalance = \"waiting\"\nto = [{}]\n",
        servers.join(", ")
    )
}
