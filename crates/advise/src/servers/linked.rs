//! Which servers stand behind a server, by the addresses in their configurations.

use super::roots::{all_of, first_of};
use super::{Kind, Process, Server, php_fpm};
use crate::configuration::{Configuration, Files};
use std::path::{Path, PathBuf};
use weir_capture::Target;

/// Where a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP port, with the host as it is written.
    Tcp(String, u16),
}

impl Address {
    /// As php-fpm and nginx write it: a path, `host:port`, or a port alone.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_start_matches("unix:");
        if text.starts_with('/') {
            return Some(Self::Unix(PathBuf::from(text)));
        }
        let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
        port.parse().ok().map(|port| Self::Tcp(host.to_owned(), port))
    }

    /// Whether both mean the same socket; hosts are not compared, since each may write its own name for it.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unix(one), Self::Unix(other)) => one == other,
            (Self::Tcp(_, one), Self::Tcp(_, other)) => one == other,
            _ => false,
        }
    }
}

/// Directives that name a server behind.
const PASSING: [&str; 12] = [
    "fastcgi_pass",
    "proxy_pass",
    "uwsgi_pass",
    "scgi_pass",
    "server",
    "sethandler",
    "proxypass",
    "proxypassmatch",
    "balancermember",
    "proxyset",
    "rewriterule",
    "proxy",
];

/// The addresses that a front server passes requests to.
pub(crate) fn addresses(configuration: &Configuration) -> Vec<Address> {
    let mut found: Vec<Address> = Vec::new();
    for name in PASSING {
        // `server` in nginx is a block, too; only one that is no block names an address.
        for directive in configuration.all(name) {
            for address in directive.words.iter().flat_map(|word| addresses_in(word)) {
                if !found.iter().any(|other| other.is(&address)) {
                    found.push(address);
                }
            }
        }
    }
    found
}

/// The addresses in a word such as `proxy:unix:/run/php.sock|fcgi://localhost` or `http://127.0.0.1:8080/`.
fn addresses_in(word: &str) -> Vec<Address> {
    if let Some((_, rest)) = word.split_once("unix:") {
        let end = rest.find(|end: char| end == '|' || end == ':' || end.is_whitespace()).unwrap_or(rest.len());
        return Address::parse(&rest[..end])
            .filter(|address| matches!(address, Address::Unix(_)))
            .into_iter()
            .collect();
    }
    let authority = match word.split_once("://") {
        Some((_, rest)) => rest.split('/').next().unwrap_or(rest),
        None => word,
    };
    let is_address =
        authority.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    is_address.then(|| Address::parse(authority)).flatten().into_iter().collect()
}

/// The addresses on which a php-fpm's pools listen, each with its pool.
pub(crate) fn listens(configuration: &Configuration) -> Vec<(String, Address)> {
    let listens = configuration.all("listen");
    listens.iter().filter_map(|found| Some((found.scope().pop()?, Address::parse(found.word())?))).collect()
}

/// The first processes of the servers behind one.
pub(super) fn behind(server: &Server, processes: &[(u32, u32)]) -> Vec<u32> {
    if !matches!(server.kind, Kind::Apache | Kind::Nginx) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut sockets = Vec::new();
    for address in addresses(&server.configuration) {
        match address {
            Address::Tcp(_, port) => {
                let listeners = Target::of_port(port).map(|target| target.pids).unwrap_or_default();
                found.extend(listeners.into_iter().filter_map(|pid| first_of(pid, processes)));
            }
            Address::Unix(path) => sockets.push(path),
        }
    }
    if !sockets.is_empty() {
        found.extend(all_of(Kind::PhpFpm, processes).into_iter().filter(|&pid| listens_on_any(pid, &sockets)));
    }
    found
}

fn listens_on_any(pid: u32, sockets: &[PathBuf]) -> bool {
    let Some(process) = Process::read(pid) else { return false };
    let (configuration, _) = php_fpm::configuration(&process, &Files::below(process.root.clone()));
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    listens(&configuration).iter().any(|(_, address)| match address {
        Address::Unix(path) => sockets.iter().any(|socket| real(socket) == real(path)),
        Address::Tcp(..) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::{Syntax, apache, nginx};

    #[test]
    fn addresses_behind_nginx_and_apache() {
        let text = "http { upstream a { server 10.0.0.1:81 weight=2; } server { listen 80; location / { fastcgi_pass unix:/run/a.sock; }\n\
                    location /b { proxy_pass http://127.0.0.1:8080/x; } } }";
        let read =
            Configuration { entries: nginx::parse(text, 0).expect("ours"), ..Configuration::empty(Syntax::Nginx) };
        let found = addresses(&read);
        assert!(
            found.contains(&Address::Unix("/run/a.sock".into()))
                && found.contains(&Address::Tcp("127.0.0.1".into(), 8080))
        );
        assert!(found.contains(&Address::Tcp("10.0.0.1".into(), 81)) && found.len() == 3);
        let text = "<FilesMatch \"x\">\nSetHandler \"proxy:unix:/run/b.sock|fcgi://localhost/\"\n</FilesMatch>\nProxyPass / fcgi://127.0.0.1:9000/srv/\n";
        let read =
            Configuration { entries: apache::parse(text, 0).expect("ours"), ..Configuration::empty(Syntax::Apache) };
        assert_eq!(addresses(&read), [Address::Unix("/run/b.sock".into()), Address::Tcp("127.0.0.1".into(), 9000)]);
    }
}
