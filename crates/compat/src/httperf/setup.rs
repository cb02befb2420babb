//! What the command line means for the engine.

use super::arguments::{Arguments, CONNECTIONS_MAX, PIPED_MAX, Work, unescaped};
use super::calls::Calls;
use super::period::Period;
use super::printing::Printing;
use super::session_driver::{Manner, SessionDriver};
use super::uris::{FileSet, Uris};
use super::watch::{SAMPLE_NS, Shared, Watch};
use super::workload::Workload;
use crate::system::{LIST_BYTES_MAX, connections_of_a_rate, error_text};
use anyhow::{anyhow, bail};
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::Duration;
use weir_load::directed::Directed;
use weir_load::host::{self, HostError};
use weir_load::reach::TlsVersion;
use weir_load::sessions::{Think, parse_sessions};
use weir_load::{
    ListedRequest, Options, Request, Schedule, Sockets, StopRule, Trust, Url, parse_server_list, parse_uri_log,
};
use weir_terminal::text_file::{read_lines, unmarked};

/// A time without end, where no `--timeout` is given.
const NO_TIMEOUT: Duration = Duration::from_secs(86_400);
/// The most addresses of a range of `--myaddr`.
const SOURCES_MAX: u32 = 65_536;

/// The port that is asked.
pub(super) fn port(arguments: &Arguments) -> u16 {
    arguments.port.unwrap_or(if arguments.ssl { 443 } else { 80 })
}

/// The engine's options; what is counted goes to `shared`.
pub(super) fn options(arguments: &Arguments, shared: &Shared) -> anyhow::Result<Options> {
    let servers = servers(arguments)?;
    let url = |host: &String| Url {
        encrypted: arguments.ssl,
        host: host.clone(),
        port: port(arguments),
        target: "/".to_owned(),
    };
    let urls: Vec<Url> = servers.iter().map(url).collect();
    let mut options = Options::new(urls[0].clone());
    // The director's places: for each server one whose replies have contents, and one whose replies have none.
    for url in &urls {
        for method in ["GET", "HEAD"] {
            let request = Request { method: method.to_owned(), ..Request::default() };
            options.requests.list.push(ListedRequest { url: url.clone(), request, weight: 1 });
        }
    }
    options.hang_up = true;
    options.stop = StopRule::Requests(arguments.arrivals());
    options.connections = connections_of_a_rate(urls.len() as u64);
    options.schedule = match &arguments.period {
        Period::Sequential => Schedule::Closed,
        Period::Fixed(rate_per_s) => Schedule::Fixed { rate_per_s: *rate_per_s },
        uneven => Schedule::Recorded(uneven.times_ns(arguments.arrivals(), arguments.client.0)?),
    };
    let seconds = Duration::from_secs_f64;
    options.timeout = NO_TIMEOUT;
    if arguments.timeout_s > 0.0 {
        options.timeout = seconds(arguments.timeout_s + arguments.think_timeout_s);
    } else if arguments.think_timeout_s > 0.0 {
        options.timeout = seconds(arguments.think_timeout_s);
    }
    options.sockets = Sockets {
        send_buffer: Some(arguments.send_buffer),
        receive_buffer: Some(arguments.recv_buffer),
        reset: arguments.close_with_reset,
        all_ports: arguments.hog,
        connect_timeout: Some(if arguments.timeout_s > 0.0 { seconds(arguments.timeout_s) } else { NO_TIMEOUT }),
    };
    for source in &arguments.sources {
        options.reach.sources.extend(source_addresses(source)?);
    }
    if arguments.ssl {
        encryption(arguments, &mut options)?;
    }
    let printing = Printing {
        requests: arguments.print_requests,
        replies: arguments.print_replies,
        verbose: arguments.verbose > 0,
    };
    let (workload, uris) = (workload(arguments, &urls[0])?, uris(arguments)?);
    {
        let mut inner = shared.lock().unwrap_or_else(PoisonError::into_inner);
        inner.keep_content = printing.wants_content() || matches!(workload, Workload::Pages { .. });
        let (client, clients) = arguments.client;
        inner.counts.first_sample_ns = SAMPLE_NS * (u64::from(client) + 1) / u64::from(clients);
    }
    options.observers = vec![Box::new(Watch::new(shared))];
    let manner = Manner {
        calls: Calls::new(arguments, headers(arguments)?),
        servers,
        max_connections: arguments.max_connections.unwrap_or(CONNECTIONS_MAX),
        max_piped: arguments.max_piped.unwrap_or(if arguments.http_version == "1.0" { 1 } else { PIPED_MAX }),
        failure_status: arguments.failure_status,
        retry: arguments.retry,
        cookies: arguments.cookies,
        directory: arguments.uri[..arguments.uri.rfind('/').map_or(0, |at| at + 1)].to_owned(),
        printing,
    };
    let driver = SessionDriver::new(manner, workload, uris, shared.clone());
    // As the original: within a session, and where there are none not at all.
    let resumes = driver.has_sessions() && !arguments.tls.no_reuse;
    let links_of_a_user = if resumes { driver.links() } else { 0 };
    options.directed = Some(Directed { director: Box::new(driver), at_a_time: 1, links_of_a_user, ways: None });
    Ok(options)
}

/// A file that an option names.
fn file(option: &str, path: &str) -> anyhow::Result<Vec<u8>> {
    let bytes =
        std::fs::read(path).map_err(|error| anyhow!("--{option}: can't open {path}: {}", error_text(&error)))?;
    unmarked(&bytes).map(<[u8]>::to_vec).map_err(|error| anyhow!("--{option}: {path}: {error}"))
}

fn servers(arguments: &Arguments) -> anyhow::Result<Vec<String>> {
    let Some(path) = &arguments.servers else {
        return Ok(vec![server(&arguments.server).map_err(|error| anyhow!("--server: {error}"))?]);
    };
    let list = parse_server_list(&file("servers", path)?).map_err(|error| anyhow!("--servers: {path}: {error}"))?;
    list.iter()
        .map(|name| server(name))
        .collect::<Result<_, _>>()
        .map_err(|error| anyhow!("--servers: {path}: {error}"))
}

/// A server as the resolver knows it; the original takes addresses without brackets.
fn server(name: &str) -> Result<String, HostError> {
    match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(address) => host::bracketed(address),
        None if name.contains(':') => host::bracketed(name),
        None => host::named(name),
    }
}

fn uris(arguments: &Arguments) -> anyhow::Result<Uris> {
    Ok(match (&arguments.log, &arguments.set) {
        (Some((wraps, path)), _) => {
            let list = parse_uri_log(&file("wlog", path)?).map_err(|error| anyhow!("--wlog: {path}: {error}"))?;
            Uris::Log { list, next: 0, wraps: *wraps }
        }
        (None, Some((files, rate))) => Uris::Set(FileSet::new(&arguments.uri, *files, *rate, arguments.client)),
        (None, None) => Uris::One(arguments.uri.clone()),
    })
}

fn workload(arguments: &Arguments, url: &Url) -> anyhow::Result<Workload> {
    let burst = arguments.burst;
    Ok(match &arguments.work {
        Work::Connections => Workload::Connections { calls: arguments.calls, burst },
        Work::Bursts(_, calls, think) => {
            Workload::Bursts { calls: *calls, burst, think: Duration::from_secs_f64(*think) }
        }
        Work::Pages(_, pages, think) => Workload::Pages { pages: *pages, think: Duration::from_secs_f64(*think) },
        Work::Listed(_, think, path) => {
            let text = read_lines(Path::new(path), LIST_BYTES_MAX)
                .map_err(|error| anyhow!("--wsesslog: can't open {path}: {error}"))?;
            let think = Think::Fixed(Duration::from_secs_f64(*think));
            let (requests, sessions) = parse_sessions(&text, Some(url), &Request::default(), think)
                .map_err(|error| anyhow!("--wsesslog: {path}: {error}"))?;
            if let Some(other) = requests.iter().find(|listed| !listed.url.is_same_host(url)) {
                bail!("--wsesslog: {path}: {}: paths of the server are wanted", other.url);
            }
            Workload::Listed { requests, sessions, next: 0 }
        }
    })
}

/// The headers that are added to each call: those given, and the lines of a file.
fn headers(arguments: &Arguments) -> anyhow::Result<Vec<u8>> {
    let mut headers = arguments.header.as_deref().map(unescaped).unwrap_or_default();
    if let Some(path) = &arguments.header_file {
        headers.extend(header_lines(&file("add-header-file", path)?));
    }
    Ok(headers)
}

/// Lines that are not empty, each with the line end of HTTP.
fn header_lines(bytes: &[u8]) -> Vec<u8> {
    let lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end).filter(|line| !line.is_empty());
    lines.flat_map(|line| [line, b"\r\n"].concat()).collect()
}

/// The addresses of this host that `--myaddr` names: one, or a range `FIRST-LAST`.
fn source_addresses(source: &str) -> anyhow::Result<Vec<IpAddr>> {
    let ends = source.split_once('-').map(|(first, last)| (first.parse::<Ipv4Addr>(), last.parse::<Ipv4Addr>()));
    if let Some((Ok(first), Ok(last))) = ends {
        let (first, last) = (u32::from(first), u32::from(last));
        if last < first || last - first >= SOURCES_MAX {
            bail!("--myaddr {source}: a range of at most {SOURCES_MAX} addresses is wanted");
        }
        return Ok((first..=last).map(|address| IpAddr::V4(address.into())).collect());
    }
    match (source, 0).to_socket_addrs().map(|mut found| found.next()) {
        Ok(Some(address)) => Ok(vec![address.ip()]),
        Ok(None) => bail!("--myaddr {source}: there is no such address"),
        Err(error) => bail!("--myaddr {source}: {}", error_text(&error)),
    }
}

/// What the options of TLS mean.
fn encryption(arguments: &Arguments, options: &mut Options) -> anyhow::Result<()> {
    let (given, tls) = (&arguments.tls, &mut options.reach.tls);
    options.trust = match given.authorities.as_ref().or(given.authorities_path.as_ref()) {
        _ if !given.verify => Trust::Anything,
        Some(file) => Trust::File(PathBuf::from(file)),
        None => Trust::System,
    };
    tls.name.clone_from(&given.name);
    tls.certificate = given.certificate.as_ref().map(PathBuf::from);
    tls.key = given.key.as_ref().map(PathBuf::from);
    tls.ciphers.clone_from(&given.ciphers);
    tls.version = match given.protocol.as_deref() {
        // The original's TLSv1 means each version of TLS.
        None | Some("auto" | "TLSv1") => None,
        Some("TLSv1.2") => Some(TlsVersion::Tls12),
        Some("TLSv1.3") => Some(TlsVersion::Tls13),
        Some(other) => bail!("--ssl-protocol {other}: auto, TLSv1, TLSv1.2 or TLSv1.3 is wanted"),
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_of_sources_and_files_of_headers_are_read() {
        let addresses = source_addresses("127.0.0.254-127.0.1.1").expect("a range");
        let told: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        assert_eq!(told, ["127.0.0.254", "127.0.0.255", "127.0.1.0", "127.0.1.1"]);
        assert_eq!(source_addresses("localhost").expect("a name").len(), 1);
        assert!(source_addresses("127.0.0.2-127.0.0.1").is_err() && source_addresses("1.0.0.0-2.0.0.0").is_err());
        assert_eq!(header_lines(b"A: b\r\n\n C: d \nE: f"), b"A: b\r\n C: d\r\nE: f\r\n");
    }

    proptest! {
        #[test]
        fn no_line_of_headers_ends_the_head(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let lines = header_lines(&bytes);
            prop_assert!(!lines.windows(4).any(|part| part == b"\r\n\r\n") && !lines.starts_with(b"\r\n"));
        }
    }
}
