//! The way to one server: the sockets' other end, what is said to a proxy there, and the encryption behind it.

use crate::connect::endpoint::Endpoint;
use crate::connect::endpoints::Endpoints;
use crate::connect::kernel::{Transport, without_port};
use crate::connect::names::{LATER_MAX, Name};
use crate::connect::trust;
use crate::options::means::Means;
use crate::reach::Reach;
use crate::reach::answer::Credentials;
use crate::reach::answer::{Destination, Language};
use crate::reach::dialogue::Dialogue;
use crate::reach::proxy::{Proxy, ProxyKind};
use crate::reach::resolve::Again;
use crate::reach::{http_connect, resolve};
use crate::{LoadError, Protocol, Url};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// The way to one server.
#[derive(Debug)]
pub(crate) struct Route {
    /// Where connections go, in the order in which they are tried.
    pub(crate) endpoints: Arc<Endpoints>,
    /// The name that they are of, if they are to be asked for again.
    pub(crate) named: Option<Name>,
    /// Addresses that they come from, taken in turn; the kernel's choice where there are none.
    pub(crate) sources: Vec<SocketAddr>,
    /// What is said to a proxy before anything else.
    pub(crate) tunnel: Option<Tunnel>,
    pub(crate) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// The proxy, without its secrets.
    pub(crate) proxy: Option<String>,
    /// What carries connections.
    pub(crate) transport: Transport,
}

/// A dialogue that is always the same.
#[derive(Debug)]
pub(crate) struct Tunnel {
    language: Language,
    to: Destination,
    credentials: Option<Credentials>,
}

impl Tunnel {
    /// Its beginning; that it can be said was tried when the route was made.
    pub(crate) fn begin(&self) -> io::Result<Dialogue> {
        Ok(Dialogue::new(self.language, &self.to, self.credentials.as_ref())?)
    }
}

impl Route {
    /// Finds the way to a URL.
    pub(crate) fn to(url: &Url, options: &Means) -> Result<Self, LoadError> {
        let reach = &options.reach;
        let find = |host: &str, port| resolve::addresses(host, port, reach.family, &reach.resolve);
        let (host, port) = match &reach.connect_to {
            Some(place) => (place.host.as_str(), place.port),
            None => (url.host.as_str(), url.port),
        };
        let mut tunnel = None;
        let (named_host, named_port) = match &reach.proxy {
            Some(proxy) => (proxy.host.as_str(), proxy.port),
            None => (host, port),
        };
        let mut endpoints: Vec<Endpoint> = match (&reach.unix, &reach.proxy) {
            (Some(path), _) => {
                let unfit = |cause| LoadError::UnixSocket { path: path.clone(), cause };
                vec![Endpoint::unix(path).map_err(unfit)?]
            }
            (None, Some(proxy)) => {
                // HTTP/2 without encryption is nothing that an HTTP proxy passes on by itself.
                let http1 = matches!(options.protocol, Protocol::Http1);
                if url.encrypted || !http1 || proxy.kind != ProxyKind::Http {
                    let address = match proxy.kind.wants_address() {
                        true => Some(address_for(proxy, &find(host, port)?)?),
                        false => None,
                    };
                    let to = Destination { host: host.to_owned(), port, address };
                    let made = Tunnel { language: proxy.kind.language(), to, credentials: proxy.credentials.clone() };
                    made.begin().map_err(|error| proxy_error(proxy, error.to_string()))?;
                    tunnel = Some(made);
                }
                find(&proxy.host, proxy.port)?.into_iter().map(Endpoint::from).collect()
            }
            (None, None) => find(host, port)?.into_iter().map(Endpoint::from).collect(),
        };
        let sources = sources(reach)?;
        if !sources.is_empty() {
            let of_source = |endpoint: &Endpoint| {
                let is_v4 = endpoint.address().map(|address| address.is_ipv4());
                sources.iter().any(|source| Some(source.is_ipv4()) == is_v4)
            };
            endpoints.retain(of_source);
            if endpoints.is_empty() {
                return Err(LoadError::Options(
                    "the server has no address of the source addresses' version (--source): one is IPv4, the other IPv6",
                ));
            }
        }
        let tls = match url.encrypted {
            true => {
                let tls = &options.protocol.over(&reach.tls);
                let name = trust::server_name(tls.name.as_ref().unwrap_or(&url.host))?;
                Some((trust::client_config(&options.trust, tls, options.connections, options.protocol)?, name))
            }
            false => None,
        };
        let transport = match options.protocol {
            Protocol::Http3 { .. } => Transport::Datagrams,
            Protocol::Http1 | Protocol::Http2 { .. } => Transport::Streams,
        };
        let is_again = reach.again != Again::Never && reach.unix.is_none();
        let named = (is_again && resolve::is_asked(named_host, named_port, &reach.resolve)).then(|| {
            let fits = |is_v4: bool| sources.is_empty() || sources.iter().any(|source| source.is_ipv4() == is_v4);
            let (host, family) = (named_host.to_owned(), reach.family);
            Name { host, port: named_port, family, fits: (fits(true), fits(false)) }
        });
        let endpoints = Arc::new(Endpoints::new(endpoints, if named.is_some() { LATER_MAX } else { 0 }));
        let proxy = reach.proxy.as_ref().map(ToString::to_string);
        Ok(Self { endpoints, named, sources, tunnel, tls, proxy, transport })
    }

    /// The source of the connection of this number.
    pub(crate) fn source(&self, endpoint: &Endpoint, number: u64) -> Option<SocketAddr> {
        if self.sources.is_empty() {
            return None;
        }
        let is_v4 = endpoint.address()?.is_ipv4();
        let fitting = || self.sources.iter().filter(|source| source.is_ipv4() == is_v4);
        fitting().nth((number % (fitting().count() as u64).max(1)) as usize).copied()
    }

    /// Why no connection can be made, in the words that fit what was tried.
    pub(crate) fn unreachable(&self, endpoint: usize, cause: io::Error) -> LoadError {
        let endpoint = &self.endpoints[endpoint];
        match (&self.proxy, endpoint.address()) {
            (Some(proxy), _) => {
                LoadError::Proxy { proxy: proxy.clone(), cause: format!("{endpoint} cannot be reached ({cause})") }
            }
            (None, Some(address)) if self.transport == Transport::Datagrams => {
                LoadError::UnreachableByUdp { address, cause }
            }
            (None, Some(address)) => LoadError::Unreachable { address, cause },
            (None, None) => LoadError::UnixSocket { path: endpoint.to_string().into(), cause },
        }
    }

    /// Whether a socket is all that is needed before the first request.
    pub(crate) fn is_plain(&self) -> bool {
        self.tunnel.is_none() && self.tls.is_none()
    }
}

/// A request as it goes over the wire to this server: through an HTTP proxy, plain ones name the whole URL (RFC 9112
/// 3.2.2) and say who asks.
pub(crate) fn through_proxy(request: Vec<u8>, url: &Url, reach: &Reach) -> Vec<u8> {
    let Some(proxy) = reach.proxy.as_ref().filter(|proxy| proxy.kind == ProxyKind::Http && !url.encrypted) else {
        return request;
    };
    // The request was built here: its first line has a method, a target and a version.
    let target_at = request.iter().position(|byte| *byte == b' ').map_or(0, |at| at + 1);
    let line_end = request.windows(2).position(|two| two == b"\r\n").map_or(0, |at| at + 2);
    let authorization = proxy.credentials.as_ref().map(http_connect::authorization).unwrap_or_default();
    let origin = format!("http://{}", url.authority());
    let parts: [&[u8]; 5] = [
        &request[..target_at],
        origin.as_bytes(),
        &request[target_at..line_end],
        authorization.as_bytes(),
        &request[line_end..],
    ];
    parts.concat()
}

/// What a proxy that wants an address is told: the first that it can be told of.
fn address_for(proxy: &Proxy, found: &[SocketAddr]) -> Result<IpAddr, LoadError> {
    let fits = |address: &&SocketAddr| proxy.kind != ProxyKind::Socks4 || address.is_ipv4();
    match found.iter().find(fits) {
        Some(address) => Ok(address.ip()),
        None => Err(proxy_error(proxy, "SOCKS 4 knows IPv4 addresses only, and the server has none".to_owned())),
    }
}

fn proxy_error(proxy: &Proxy, cause: String) -> LoadError {
    LoadError::Proxy { proxy: proxy.to_string(), cause }
}

/// The source addresses, each tried: one that is not this host's would fail every connection.
fn sources(reach: &Reach) -> Result<Vec<SocketAddr>, LoadError> {
    for address in &reach.sources {
        let tried = socket2::Socket::new(
            if address.is_ipv4() { socket2::Domain::IPV4 } else { socket2::Domain::IPV6 },
            socket2::Type::STREAM,
            None,
        )
        .and_then(|socket| {
            without_port(socket.as_raw_fd())?;
            socket.bind(&SocketAddr::new(*address, 0).into())
        });
        tried.map_err(|cause| LoadError::Source { address: *address, cause })?;
    }
    Ok(reach.sources.iter().map(|address| SocketAddr::new(*address, 0)).collect())
}
