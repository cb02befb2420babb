//! `weir` alone on a terminal: what runs here, what is allowed, and what can be done, in five lines.

use crate::known_programs::{Sort, sort_of};
use std::io::IsTerminal;
use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weir_capture::{Listener, Listening, listening};
use weir_report::clean;

/// How long processes may be looked at: the whole answer is there within 0.3 s.
const LOOK: Duration = Duration::from_millis(200);
/// Servers and ports that are named; the others are counted.
const SERVERS_MAX: usize = 4;
const PORTS_MAX: usize = 3;
/// Ports of web servers whose processes may not be seen, the likeliest first.
const USUAL: [u16; 6] = [80, 443, 8080, 8443, 8000, 3000];
const TLS: [u16; 2] = [443, 8443];

/// Whether the program was called with nothing else, by a user at a terminal.
pub(crate) fn is_asked() -> bool {
    std::env::args_os().len() == 1 && std::io::stdout().is_terminal()
}

/// Looks and answers.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let found = listening(Instant::now() + LOOK);
    let columns = weir_terminal::output::table_columns();
    let lines = lines(&found, &Allowed::here());
    let cut: Vec<String> = lines.iter().map(|line| crate::table::cut(line, columns)).collect();
    weir_terminal::output::print(&(cut.join("\n") + "\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// What recording needs of this machine, as far as it is known without loading probes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Allowed {
    /// Requests can be followed, on this kernel.
    All(String),
    /// Rights are missing: these.
    NoRights(String),
    /// The kernel cannot.
    NoKernel(String),
}

impl Allowed {
    fn here() -> Self {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let kernel = format!("Linux {}", release.trim());
        if !Path::new("/sys/kernel/btf/vmlinux").exists() {
            return Self::NoKernel(format!("{kernel} has no BTF"));
        }
        match weir_capture::missing_privilege() {
            Some(missing) => Self::NoRights(missing),
            None => Self::All(kernel),
        }
    }

    fn words(&self) -> String {
        match self {
            Self::All(kernel) => {
                format!("requests can be followed by kernel probes: rights and BTF are there, {kernel}")
            }
            Self::NoRights(missing) => format!("no kernel probes ({missing}): run weir by sudo to follow requests"),
            Self::NoKernel(why) => format!("no kernel probes: {why}; /proc is read, and no request is followed"),
        }
    }
}

/// The server that is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Offered {
    port: u16,
    ip: IpAddr,
}

/// The five lines.
fn lines(found: &Listening, allowed: &Allowed) -> [String; 5] {
    let offered = offered(found);
    let commands = match (offered, allowed) {
        (None, _) => [
            ("weir serve .".to_owned(), "serve this directory, to try all this with"),
            ("weir load http://127.0.0.1:8080/".to_owned(), "how fast does a server answer?"),
        ],
        (Some(server), Allowed::All(_)) => [
            (format!("weir explain --port {}", server.port), "where does each request's time go?"),
            ("weir top".to_owned(), "all servers of this host, live"),
        ],
        (Some(server), Allowed::NoRights(_)) => [
            (format!("sudo weir explain --port {}", server.port), "where does each request's time go?"),
            (format!("weir load -n 100 {}", url(server)), "how fast does it answer? needs no rights"),
        ],
        (Some(server), Allowed::NoKernel(_)) => [
            (format!("weir load -n 100 {}", url(server)), "how fast does it answer?"),
            ("weir compare --help".to_owned(), "which one is faster, really?"),
        ],
    };
    let [first, second] = commands.map(|(command, why)| format!("{command:<42} {why}"));
    let more = format!("{:<42} {}", "weir doctor", "what limits this machine? (weir help: all commands)");
    [format!("servers: {}", servers(found)), format!("allowed: {}", allowed.words()), first, second, more]
}

/// The server that most likely serves the web.
fn offered(found: &Listening) -> Option<Offered> {
    let serving = found.servers.iter().map(|server| (sort_of(&server.program).0, server));
    let serving = serving.filter(|(sort, _)| *sort != Sort::NoRequests);
    let best = serving.min_by_key(|(sort, server)| (*sort, server.places.keys().map(|place| place.port).min()));
    let known = best.map(|(sort, server)| (sort, server.places.iter().min_by_key(|(place, _)| place.port)));
    let of_known = |sort: Sort| {
        known
            .filter(|(of, _)| *of <= sort)
            .and_then(|(_, place)| place)
            .map(|(place, ip)| Offered { port: place.port, ip: *ip })
    };
    let hidden = USUAL.iter().find_map(|port| {
        found
            .hidden
            .iter()
            .find(|(place, _)| place.port == *port)
            .map(|(place, ip)| Offered { port: place.port, ip: *ip })
    });
    of_known(Sort::WebServer).or(hidden).or_else(|| of_known(Sort::Unknown))
}

fn url(server: Offered) -> String {
    let scheme = if TLS.contains(&server.port) { "https" } else { "http" };
    let host = match server.ip {
        IpAddr::V4(ip) if ip.is_unspecified() => "127.0.0.1".to_owned(),
        IpAddr::V4(ip) => ip.to_string(),
        // Sockets of IPv6 without an address of their own take IPv4, too, unless told otherwise.
        IpAddr::V6(ip) if ip.is_unspecified() => "localhost".to_owned(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    format!("{scheme}://{host}:{}/", server.port)
}

/// The servers in words, without their arguments, which may hold secrets.
fn servers(found: &Listening) -> String {
    let mut told: Vec<&Listener> = found.servers.iter().collect();
    told.sort_by_key(|server| (sort_of(&server.program).0, server.ports().first().copied()));
    let mut words: Vec<String> = told.iter().take(SERVERS_MAX).map(|server| one(server)).collect();
    if told.len() > SERVERS_MAX {
        words.push(format!("{} more", told.len() - SERVERS_MAX));
    }
    if !found.hidden.is_empty() {
        let ports: Vec<u16> = found.hidden.keys().map(|place| place.port).collect();
        words.push(format!("others' on {}", numbers(&ports)));
    }
    if words.is_empty() {
        words.push("none listens on a TCP port".to_owned());
    }
    if !found.complete {
        words.push("not all processes were looked at".to_owned());
    }
    words.join("; ")
}

fn one(server: &Listener) -> String {
    let ports: Vec<u16> = server.ports().into_iter().collect();
    let what = match sort_of(&server.program).1 {
        "" => String::new(),
        what if what == server.program => String::new(),
        what => format!(", {what}"),
    };
    format!("{} (pid {}{what}) on {}", clean(&server.program), server.root, numbers(&ports))
}

fn numbers(ports: &[u16]) -> String {
    let mut ports = ports.to_vec();
    ports.sort_unstable();
    ports.dedup();
    let shown: Vec<String> = ports.iter().take(PORTS_MAX).map(u16::to_string).collect();
    match ports.len() {
        0..=PORTS_MAX => shown.join(", "),
        all => format!("{} and {} more", shown.join(", "), all - PORTS_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};
    use std::net::{Ipv4Addr, Ipv6Addr};
    use weir_capture::Place;

    fn server(program: &str, root: u32, ports: &[u16]) -> Listener {
        let place = |port: &u16| (Place { netns: 1, port: *port }, IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let (places, pids) = (ports.iter().map(place).collect(), BTreeSet::from([root]));
        Listener { root, program: program.to_owned(), places, pids }
    }

    fn found(servers: Vec<Listener>) -> Listening {
        Listening { servers, hidden: BTreeMap::new(), complete: true }
    }

    #[test]
    fn the_web_server_is_offered_with_what_the_rights_allow() {
        let all = [server("sshd", 5, &[22]), server("postgres", 9, &[5432]), server("nginx", 81, &[80, 443])];
        let found = found(all.to_vec());
        let told = lines(&found, &Allowed::All("Linux 6.18".to_owned()));
        assert_eq!(
            told[0],
            "servers: nginx (pid 81, web server) on 80, 443; postgres (pid 9, database) on 5432; sshd (pid 5, shells) on 22"
        );
        assert!(told[2].starts_with("weir explain --port 80 ") && told[3].starts_with("weir top "), "{told:?}");
        let told = lines(&found, &Allowed::NoRights("missing CAP_BPF".to_owned()));
        assert!(told[2].starts_with("sudo weir explain --port 80 "), "{told:?}");
        assert!(told[3].starts_with("weir load -n 100 http://127.0.0.1:80/ "), "{told:?}");
        let told = lines(&found, &Allowed::NoKernel("Linux 4.19 has no BTF".to_owned()));
        assert!(told[2].starts_with("weir load -n 100 http://127.0.0.1:80/ "), "{told:?}");
    }

    #[test]
    fn without_a_server_one_is_offered() {
        for servers in [Vec::new(), vec![server("sshd", 5, &[22])]] {
            let told = lines(&found(servers), &Allowed::All("Linux 6.18".to_owned()));
            assert!(told[2].starts_with("weir serve . "), "{told:?}");
        }
    }

    #[test]
    fn a_port_whose_process_may_not_be_seen_is_offered_with_sudo() {
        let place = |port| (Place { netns: 1, port }, IpAddr::V6(Ipv6Addr::UNSPECIFIED));
        let hidden = BTreeMap::from([place(5432), place(443)]);
        let found = Listening { hidden, servers: vec![server("python3", 7, &[9999])], complete: true };
        let told = lines(&found, &Allowed::NoRights("missing CAP_BPF".to_owned()));
        assert!(told[0].ends_with("; others' on 443, 5432"), "{told:?}");
        assert!(told[2].starts_with("sudo weir explain --port 443 "), "{told:?}");
        assert!(told[3].starts_with("weir load -n 100 https://localhost:443/ "), "{told:?}");
    }
}
