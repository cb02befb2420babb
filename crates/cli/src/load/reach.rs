//! The options that say how a server is reached.

use super::files::Files;
use anyhow::Context;
use std::net::IpAddr;
use std::path::PathBuf;
use weir_load::Reach;
use weir_load::reach::{Again, Family, Pin, Place, Proxy, Resolved, Select, Tls, TlsVersion};
use weir_terminal::units::duration;

/// How the server is reached.
#[derive(Debug, clap::Args)]
pub(super) struct ReachArgs {
    /// Present this client certificate (PEM, followed by its chain; the key may be in the same file)
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    cert: Option<PathBuf>,
    /// The client certificate's private key (PEM, not encrypted)
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "TLS")]
    key: Option<PathBuf>,
    /// Send this name (SNI) instead of the URL's host; the certificate must be for it, too
    #[arg(long, value_name = "NAME", conflicts_with = "no_sni", help_heading = "TLS")]
    sni: Option<String>,
    /// Send no name (SNI); the certificate must be for the URL's host all the same
    #[arg(long, help_heading = "TLS")]
    no_sni: bool,
    /// Resume the TLS sessions of former connections, as returning users do
    #[arg(long, overrides_with = "no_resume", help_heading = "TLS")]
    resume: bool,
    /// A full handshake for each connection, as new users have it [default]
    #[arg(long, overrides_with = "resume", help_heading = "TLS")]
    no_resume: bool,
    /// Accept only a certificate with this public key: sha256:HEX or sha256:BASE64; may be repeated. With --insecure,
    /// nothing else is checked
    #[arg(long, value_name = "PIN", help_heading = "TLS")]
    pin: Vec<Pin>,
    /// Offer only this version of TLS
    #[arg(long, value_name = "1.2|1.3", value_parser = tls_version, help_heading = "TLS")]
    tls: Option<TlsVersion>,
    /// Offer only these cipher suites, the preferred first, by their standard names or OpenSSL's
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = "TLS")]
    ciphers: Vec<String>,
    /// Connect to this Unix socket (@NAME: in the abstract namespace); the URL gives the Host header and the path
    #[arg(long, value_name = "PATH", help_heading = "Reach")]
    unix: Option<PathBuf>,
    /// Addresses of this host that connections come from, taken in turn
    #[arg(long, value_name = "ADDR,…", value_delimiter = ',', help_heading = "Reach")]
    source: Vec<IpAddr>,
    /// IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6", help_heading = "Reach")]
    ipv4: bool,
    /// IPv6 only
    #[arg(short = '6', long, help_heading = "Reach")]
    ipv6: bool,
    /// Use these addresses for this host instead of asking the resolver; may be repeated
    #[arg(long, value_name = "HOST:PORT:ADDR,…", help_heading = "Reach")]
    resolve: Vec<Resolved>,
    /// Ask the resolver again: never; each, for each connection; or TIME, for the first connection so long after the last
    /// answer [default: never]
    #[arg(long, value_name = "never|each|TIME", value_parser = again, help_heading = "Reach")]
    resolve_again: Option<Again>,
    /// Which of a name's addresses a connection goes to: in-turn, random, or first [default: in-turn]
    #[arg(long, value_name = "WHICH", value_parser = select, help_heading = "Reach")]
    select_address: Option<Select>,
    /// Connect to this place instead of the URL's host and port, which the request and TLS still name
    #[arg(long, value_name = "HOST:PORT", help_heading = "Reach")]
    connect_to: Option<Place>,
    /// Go through this proxy: http://, socks5:// (socks5h:// resolves the name there), socks4:// (socks4a://), each
    /// with [user:password@]host:port
    #[arg(long, value_name = "URL", help_heading = "Reach")]
    proxy: Option<Proxy>,
}

/// The names of these options, as those of others are known that say how to load.
pub(super) const OF_REACHING: [&str; 18] = [
    "cert",
    "key",
    "sni",
    "no_sni",
    "resume",
    "no_resume",
    "pin",
    "tls",
    "ciphers",
    "unix",
    "source",
    "ipv4",
    "ipv6",
    "resolve",
    "resolve_again",
    "select_address",
    "connect_to",
    "proxy",
];

fn tls_version(text: &str) -> anyhow::Result<TlsVersion> {
    match text {
        "1.2" => Ok(TlsVersion::Tls12),
        "1.3" => Ok(TlsVersion::Tls13),
        _ => anyhow::bail!("there are 1.2 and 1.3"),
    }
}

fn again(text: &str) -> anyhow::Result<Again> {
    match text {
        "never" => Ok(Again::Never),
        "each" => Ok(Again::Each),
        time => duration(time).map(Again::After).context("it is never, each, or a time such as 30s"),
    }
}

fn select(text: &str) -> anyhow::Result<Select> {
    match text {
        "in-turn" => Ok(Select::InTurn),
        "random" => Ok(Select::Random),
        "first" => Ok(Select::First),
        _ => anyhow::bail!("it is in-turn, random or first"),
    }
}

impl ReachArgs {
    /// What they mean.
    pub(super) fn reach(&self, files: &Files) -> anyhow::Result<Reach> {
        let place = |option: &str, file: Option<&PathBuf>| match file {
            None => Ok(None),
            Some(file) => {
                files.place(file).map(Some).with_context(|| format!("{option}: cannot read {}", file.display()))
            }
        };
        Ok(Reach {
            tls: Tls {
                certificate: place("--cert", self.cert.as_ref())?,
                key: place("--key", self.key.as_ref())?,
                name: self.sni.clone(),
                send_name: !self.no_sni,
                resume: self.resume,
                pins: self.pin.clone(),
                version: self.tls,
                ciphers: self.ciphers.clone(),
                ..Tls::default()
            },
            unix: self.unix.clone(),
            sources: self.source.clone(),
            family: match (self.ipv4, self.ipv6) {
                (true, _) => Family::V4,
                (_, true) => Family::V6,
                _ => Family::Any,
            },
            resolve: self.resolve.clone(),
            again: self.resolve_again.unwrap_or_default(),
            select: self.select_address.unwrap_or_default(),
            connect_to: self.connect_to.clone(),
            proxy: self.proxy.clone(),
        })
    }
}

/// The way in words, for the report's heading; empty where it is the usual one.
pub(super) fn words(reach: &Reach) -> String {
    let mut words = String::new();
    if let Some(path) = &reach.unix {
        words.push_str(&format!(", over the Unix socket {}", path.display()));
    }
    if let Some(proxy) = &reach.proxy {
        words.push_str(&format!(", through the proxy {proxy}"));
    }
    if let Some(place) = &reach.connect_to {
        words.push_str(&format!(", connected to {}:{}", place.host, place.port));
    }
    match reach.again {
        Again::Never => {}
        Again::Each => words.push_str(", its name resolved for each connection"),
        Again::After(time) => words.push_str(&format!(", its name resolved again after {time:?}")),
    }
    match reach.sources.as_slice() {
        [] => {}
        [source] => words.push_str(&format!(", from {source}")),
        sources => words.push_str(&format!(", from {} addresses in turn", sources.len())),
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        reach: ReachArgs,
    }

    fn reach(line: &str) -> Result<Reach, String> {
        let words = std::iter::once("load").chain(line.split(' ').filter(|word| !word.is_empty()));
        Cli::try_parse_from(words)
            .map_err(|error| error.to_string())
            .and_then(|cli| cli.reach.reach(&Files::Here).map_err(|error| error.to_string()))
    }

    #[test]
    fn arguments_become_a_way() {
        assert_eq!(reach(""), Ok(Reach::default()));
        let pin = "sha256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
        let tls = reach(&format!("--cert c --key k --sni n --resume --pin {pin} --pin {pin} --tls 1.3 --ciphers a,b"));
        let tls = tls.expect("valid").tls;
        assert_eq!((tls.pins.len(), tls.resume, tls.version), (2, true, Some(TlsVersion::Tls13)));
        assert_eq!((tls.name.as_deref(), tls.ciphers.len()), (Some("n"), 2));
        assert!(!reach("--resume --no-resume").expect("the last counts").tls.resume);
        let way = reach("--source 127.0.0.2,::1 -6 --resolve h:80:::1 --connect-to [::1]:8080").expect("valid");
        assert_eq!((way.sources.len(), way.family, way.resolve.len()), (2, Family::V6, 1));
        assert_eq!(words(&way), ", connected to ::1:8080, from 2 addresses in turn");
        let through = reach("--proxy socks5h://me:secret@h:1").expect("valid");
        assert_eq!(words(&through), ", through the proxy socks5h://h:1");
        assert_eq!(words(&reach("--unix @name").expect("valid")), ", over the Unix socket @name");
    }

    #[test]
    fn mistakes_are_explained() {
        for (line, words) in [
            ("--key k", "--cert"),
            ("--sni n --no-sni", "cannot be used with"),
            ("-4 -6", "cannot be used with"),
            ("--pin sha256:00", "openssl"),
            ("--tls 1.1", "1.2 and 1.3"),
            ("--source here", "--source"),
            ("--resolve h:80", "HOST:PORT:ADDRESS"),
            ("--connect-to h", "HOST:PORT"),
            ("--proxy h:80", "socks5h://"),
        ] {
            let mistake = reach(line).expect_err(line);
            assert!(mistake.contains(words), "{line}: {mistake}");
        }
    }
}
