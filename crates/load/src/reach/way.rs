//! How a server is reached: over which socket, through what, and under which protection.

use crate::reach::proxy::{Proxy, ProxyKind};
use crate::reach::resolve::{Again, Family, Place, Resolved, Select, is_asked};
use crate::reach::tls::Tls;
use crate::{LoadError, Url};
use std::net::IpAddr;
use std::path::PathBuf;

/// How a server is reached; by default directly, over TCP, with what the URL says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reach {
    /// How a connection is encrypted where the URL is `https`.
    pub tls: Tls,
    /// A Unix socket to connect to instead of the URL's host; `@name` for one that is in no file system.
    pub unix: Option<PathBuf>,
    /// Addresses of this host that connections come from, taken in turn; the kernel's choice where there are none.
    pub sources: Vec<IpAddr>,
    /// Which addresses of a name are used.
    pub family: Family,
    /// Names whose addresses are given instead of being resolved.
    pub resolve: Vec<Resolved>,
    /// Whether names are resolved again while the run goes on.
    pub again: Again,
    /// Which of a name's addresses a connection goes to.
    pub select: Select,
    /// Where to connect to instead of the URL's host and port.
    pub connect_to: Option<Place>,
    /// The proxy that connections go through.
    pub proxy: Option<Proxy>,
}

impl Reach {
    /// Whether it can be done for all of these servers.
    pub(crate) fn check(&self, urls: &[&Url]) -> Result<(), LoadError> {
        let wrong = |what| Err(LoadError::Options(what));
        let tls = &self.tls;
        if !tls.is_default() && !urls.iter().any(|url| url.encrypted) {
            return wrong("options of TLS (such as --cert, --sni, --pin, --tls) need an https:// URL");
        }
        if tls.key.is_some() && tls.certificate.is_none() {
            return wrong("a private key (--key) needs its certificate (--cert)");
        }
        if !tls.is_default() {
            // Wrong names and files are found before anything is sent.
            tls.provider()?;
            tls.identity()?;
        }
        if self.unix.is_some()
            && (self.proxy.is_some()
                || self.connect_to.is_some()
                || !self.resolve.is_empty()
                || !self.sources.is_empty()
                || self.family != Family::Any
                || self.again != Again::Never
                || self.select != Select::InTurn)
        {
            return wrong("a Unix socket (--unix) has no addresses, names or proxies: leave their options out");
        }
        self.check_again(urls)?;
        let absolute = self.proxy.as_ref().is_some_and(|proxy| proxy.kind == ProxyKind::Http)
            && urls.iter().any(|url| !url.encrypted);
        if absolute && self.connect_to.is_some() {
            return wrong("an HTTP proxy connects to what an http:// URL names; --connect-to needs https:// or SOCKS");
        }
        Ok(())
    }

    /// Whether there is a name to be resolved again.
    fn check_again(&self, urls: &[&Url]) -> Result<(), LoadError> {
        let wrong = |what| Err(LoadError::Options(what));
        if self.again == Again::Never {
            return Ok(());
        }
        if self.proxy.as_ref().is_some_and(|proxy| proxy.kind.wants_address()) {
            return wrong(
                "this proxy is told an address once: resolve names again (--resolve-again) there, by socks5h:// or \
                 socks4a://",
            );
        }
        let is_asked = |host: &str, port| is_asked(host, port, &self.resolve);
        let has_name = match (&self.proxy, &self.connect_to) {
            (Some(proxy), _) => is_asked(&proxy.host, proxy.port),
            (None, Some(place)) => is_asked(&place.host, place.port),
            (None, None) => urls.iter().any(|url| is_asked(&url.host, url.port)),
        };
        if !has_name {
            return wrong("there is no name to be resolved again (--resolve-again): the addresses were given");
        }
        Ok(())
    }
}
