//! What components may use of the machine: nothing but what the command line names.

use wasmtime_wasi::{FsPerms, WasiCtxBuilder};

/// What all components may use.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    /// Environment variables, and their values.
    pub(crate) env: Vec<(String, String)>,
    /// Directories, and whether they may be written to.
    pub(crate) directories: Vec<(String, bool)>,
    /// Servers that may be asked.
    pub(crate) hosts: Vec<HostGrant>,
}

/// A server that components may ask.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HostGrant {
    /// In lower case.
    name: String,
    /// None stands for 80 and 443.
    port: Option<u16>,
}

impl HostGrant {
    /// Reads HOST or HOST:PORT, where an IPv6 address stands in brackets.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let authority: http::uri::Authority = text.parse().ok()?;
        let has_user = text.contains('@');
        let port = authority.port_u16();
        // A port that is no number is part of the text, and the parsed authority has none.
        let is_whole = text.len() == authority.host().len() + port.map_or(0, |port| 1 + port.to_string().len());
        (!has_user && is_whole && !authority.host().is_empty())
            .then(|| Self { name: authority.host().to_ascii_lowercase(), port })
    }

    fn allows(&self, name: &str, port: u16) -> bool {
        self.name.eq_ignore_ascii_case(name) && self.port.map_or(port == 80 || port == 443, |own| own == port)
    }
}

impl Grants {
    /// Whether a component may ask this server.
    pub(crate) fn allow(&self, uri: &http::Uri) -> bool {
        let Some(authority) = uri.authority().filter(|authority| !authority.as_str().contains('@')) else {
            return false;
        };
        let usual = if uri.scheme() == Some(&http::uri::Scheme::HTTPS) { 443 } else { 80 };
        let port = authority.port_u16().unwrap_or(usual);
        self.hosts.iter().any(|host| host.allows(authority.host(), port))
    }

    /// Gives an instance what is granted. Fails if a directory is gone.
    pub(crate) fn give(&self, context: &mut WasiCtxBuilder) -> wasmtime::Result<()> {
        context.envs(&self.env).allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);
        for (path, is_writable) in &self.directories {
            let rights = if *is_writable { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
            context.preopened_dir(path, path, rights)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(grant: &str, uri: &str) -> bool {
        let hosts = vec![HostGrant::parse(grant).expect("a host")];
        Grants { hosts, ..Grants::default() }.allow(&uri.parse().expect("an address"))
    }

    #[test]
    fn a_grant_is_of_one_host_and_its_ports() {
        assert!(allows("Example.org", "http://example.ORG/a"));
        assert!(allows("example.org", "https://example.org/"));
        assert!(allows("[::1]:8080", "http://[::1]:8080/"));
        assert!(allows("example.org:443", "https://example.org/"));
        for (grant, uri) in [
            ("example.org", "http://example.org:8080/"),
            ("example.org:443", "http://example.org/"),
            ("example.org", "http://www.example.org/"),
            ("example.org", "http://example.org.evil/"),
            ("example.org", "http://example.org@evil/"),
            ("example.org", "http://a@example.org/"),
            ("example.org", "/"),
        ] {
            assert!(!allows(grant, uri), "{grant} allows {uri}");
        }
    }

    #[test]
    fn only_hosts_are_granted() {
        for text in ["", "a@b", "a:x", "a:99999", "http://a", "a/b", ":80"] {
            assert_eq!(HostGrant::parse(text), None, "{text}");
        }
    }
}
