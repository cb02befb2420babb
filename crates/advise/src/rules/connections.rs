//! Connections: made anew for each request, TLS without resumption, clients that read slowly, pieces that are held back.

use super::case::{Case, Draft, WORTH_IT};
use crate::configuration::{Found, ini};
use crate::finding::{Finding, Setting};
use crate::servers::{Kind, Server};
use weir_measure::part::Part;
use weir_measure::queueing::Saving;

/// From this share of the mean response a wait is looked into.
const WORTH_LOOKING: f64 = 0.05;
/// So begins the name of what held a piece back, in an explanation.
const HELD_BACK: &str = "Nagle's algorithm";

/// `KeepAlive Off` and `keepalive_timeout 0`.
pub(super) fn keep_alive_off(case: &Case<'_>) -> Vec<Finding> {
    let connect_ns = case.observed.part_ns(Part::Connect.name());
    if case.observed.share(connect_ns) < WORTH_IT || case.recorded.no_keep_alive {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, server) in case.servers.list.iter().enumerate() {
        let off = match server.kind {
            Kind::Apache => off_in_apache(server),
            Kind::Nginx => off_in_nginx(server),
            _ => None,
        };
        let Some((found, proposed)) = off else { continue };
        let configuration = &server.configuration;
        let mut settings = vec![Setting::of(number, configuration, &found, proposed)];
        if server.kind == Kind::Apache {
            // Apache's own 5 s hold a prefork process for that long after the last request.
            match configuration.last("KeepAliveTimeout") {
                Some(_) => {}
                None => {
                    settings.push(Setting::added(number, configuration, "KeepAliveTimeout", &found.scope(), "5", "2"));
                }
            }
        }
        findings.push(finding(case, server, settings, connect_ns));
    }
    findings
}

fn off_in_apache(server: &Server) -> Option<(Found<'_>, &'static str)> {
    let found = server.configuration.last("KeepAlive")?;
    (!ini::is_on(found.word())).then_some((found, "On"))
}

fn off_in_nginx(server: &Server) -> Option<(Found<'_>, &'static str)> {
    let timeout = server.configuration.last("keepalive_timeout").filter(|found| is_zero(found.word()));
    let requests =
        server.configuration.last("keepalive_requests").filter(|found| found.word() == "0" || found.word() == "1");
    timeout.map(|found| (found, "65s")).or_else(|| requests.map(|found| (found, "1000")))
}

/// `0`, `0s`, `0ms`.
fn is_zero(time: &str) -> bool {
    let digits = time.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    !digits.is_empty() && digits.chars().all(|digit| digit == '0')
}

fn finding(case: &Case<'_>, server: &Server, settings: Vec<Setting>, connect_ns: f64) -> Finding {
    let accept_ns = case.in_front_ns(Part::AcceptQueue);
    let mut evidence = vec![case.evidence(Part::Connect, connect_ns)];
    if case.observed.share(accept_ns) >= WORTH_IT {
        evidence.push(case.evidence(Part::AcceptQueue, accept_ns));
    }
    let effect = case.effect(
        Saving::of(0.8 * connect_ns, connect_ns + accept_ns / 2.0, connect_ns + accept_ns),
        "connecting and being accepted happen once for a client and not for each request; how much of the accept queue is due to it is not known, so half of it is taken",
    );
    let facts = vec![format!("{} closes every connection after its response", server.label())];
    let reasoning = "clients send their further requests on the connection that they have; browsers hold it open for about a minute".to_owned();
    let against = [
        "an open connection holds a process in Apache's prefork model (a slot otherwise): MaxRequestWorkers must be above the number of open connections",
        "behind a proxy that makes a connection for each request nothing is gained",
    ];
    Draft::new("keep_alive_off", "connections are closed after each response", evidence, effect)
        .set(settings, facts, reasoning, &against)
}

/// TLS without session cache and tickets: every connection pays for a whole handshake.
pub(super) fn no_resumption(case: &Case<'_>) -> Vec<Finding> {
    let observed = case.observed;
    let is_tls = case.recorded.url.as_deref().unwrap_or(&observed.subject).starts_with("https://");
    let connect_ns = observed.part_ns(Part::Connect.name());
    if !is_tls || observed.share(connect_ns) < WORTH_IT {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, server) in case.servers.list.iter().enumerate() {
        let (cache, tickets, proposed) = match server.kind {
            Kind::Nginx => ("ssl_session_cache", "ssl_session_tickets", "shared:weir:10m"),
            Kind::Apache => ("SSLSessionCache", "SSLSessionTickets", "shmcb:ssl_scache(512000)"),
            _ => continue,
        };
        let configuration = &server.configuration;
        let off = |found: &Option<Found<'_>>| {
            found.as_ref().is_some_and(|found| ["off", "none"].contains(&found.word().to_ascii_lowercase().as_str()))
        };
        let (cached, ticketed) = (configuration.last(cache), configuration.last(tickets));
        // Tickets are on unless switched off; the cache is off unless switched on.
        if !off(&ticketed) || cached.as_ref().is_some_and(|_| !off(&cached)) {
            continue;
        }
        let scope: Vec<String> = if server.kind == Kind::Nginx { vec!["http".to_owned()] } else { Vec::new() };
        let setting = match &cached {
            Some(found) => Setting::of(number, configuration, found, proposed),
            None => Setting::added(number, configuration, cache, &scope, "none", proposed),
        };
        let effect = case.effect(
            Saving::shares(connect_ns, 0.0, 0.4, 0.8),
            "a resumed handshake has no signature and, before TLS 1.3, one round trip less: 40 to 80 % of the handshake, nothing for a client that comes once",
        );
        let mut facts = vec![format!("{} keeps no sessions: {cache} is off and {tickets} is off", server.label())];
        let modules = configuration.all("LoadModule");
        if server.kind == Kind::Apache && !modules.iter().any(|found| found.word() == "socache_shmcb_module") {
            facts.push(
                "the cache needs the module socache_shmcb, which is not loaded (a2enmod socache_shmcb)".to_owned(),
            );
        }
        let reasoning =
            "a megabyte keeps about 4000 sessions; ten suffice for 40,000 clients in the time that sessions last"
                .to_owned();
        let against =
            ["kept sessions weaken forward secrecy as long as they last", "clients that come only once gain nothing"];
        let draft = Draft::new(
            "tls_without_resumption",
            "every TLS connection pays for a whole handshake",
            vec![case.evidence(Part::Connect, connect_ns)],
            effect,
        );
        let finding = draft.set(vec![setting], facts, reasoning, &against);
        findings.push(finding.without_trial("the trial's load keeps its connections open, so it would show nothing; reconnecting clients are what gains"));
    }
    findings
}

/// Clients that take their responses slowly hold a worker meanwhile.
pub(super) fn slow_client(case: &Case<'_>) -> Vec<Finding> {
    let observed = case.observed;
    let wait_ns = observed.part_ns(Part::WaitNetwork.name());
    // A wait for a named address of a server's port is a downstream, not a client.
    let downstream_ns = observed.of_whom(Part::WaitNetwork.name(), is_server_address);
    let client_ns = (wait_ns - downstream_ns).max(0.0);
    let mean_bytes = observed.bytes as f64 / observed.requests.max(1) as f64;
    if observed.share(client_ns) < WORTH_LOOKING || mean_bytes < 16_384.0 {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, server) in case.servers.of(Kind::Apache).chain(case.servers.of(Kind::Nginx)) {
        let configuration = &server.configuration;
        // A response that fits the socket's buffer leaves the worker free at once.
        let wanted = ((mean_bytes * 1.25) as u64).next_power_of_two().clamp(64 << 10, 4 << 20);
        let setting = match server.kind {
            Kind::Apache => match configuration.last("SendBufferSize") {
                Some(found) if found.word().parse::<u64>().is_ok_and(|now| now == 0 || now >= wanted) => continue,
                Some(found) => Setting::of(number, configuration, &found, &wanted.to_string()),
                None => Setting::added(
                    number,
                    configuration,
                    "SendBufferSize",
                    &[],
                    "0 (the system's)",
                    &wanted.to_string(),
                ),
            },
            _ => {
                let Some(listen) = configuration
                    .last("listen")
                    .filter(|found| !found.words.iter().any(|word| word.starts_with("sndbuf=")))
                else {
                    continue;
                };
                let proposed = format!("{} sndbuf={}k", listen.directive.raw, wanted >> 10);
                Setting::of(number, configuration, &listen, &proposed)
            }
        };
        let queues = case.in_front_ns(Part::AcceptQueue) + case.in_front_ns(Part::WorkerQueue);
        let effect = case.effect(
            Saving::of(0.0, queues / 2.0, queues + client_ns),
            "the client's own time stays; what goes away is the wait of others for the worker that it held, half of the queueing as a guess",
        );
        let mut facts = vec![format!(
            "a response has {:.0} KiB on average; what does not fit the socket's buffer keeps a worker of {} waiting for the client",
            mean_bytes / 1024.0,
            server.label()
        )];
        let reasoning = format!("the mean response and a quarter, as a power of two: {} KiB", wanted >> 10);
        let bound = largest_buffer().filter(|&bound| bound < wanted);
        if let Some(bound) = bound {
            facts.push(format!(
                "the kernel gives a socket {} KiB at most (net.core.wmem_max), and one that is set no longer grows by itself: raise that first",
                bound >> 10
            ));
        }
        let against = [
            "each connection may take that much of the kernel's memory; net.core.wmem_max bounds it",
            "a process-per-connection server is better put behind one that buffers responses, such as nginx with proxy_buffering",
        ];
        let draft = Draft::new(
            "slow_client",
            "clients read slowly and hold workers meanwhile",
            vec![case.evidence(Part::WaitNetwork, client_ns)],
            effect,
        );
        let mut finding = draft.set(vec![setting], facts, reasoning, &against).without_trial(
            "the trial's load reads at full speed, so it would show nothing; slow clients are what gains",
        );
        finding.commands.extend(bound.map(|_| format!("sysctl -w net.core.wmem_max={wanted}")));
        findings.push(finding);
    }
    findings
}

/// The last piece of a response waits until the client has acknowledged the one before: TCP_NODELAY is off.
pub(super) fn held_back(case: &Case<'_>) -> Vec<Finding> {
    let observed = case.observed;
    let held_ns = observed.of_whom(Part::ResponseTransit.name(), |who| who.starts_with(HELD_BACK));
    if observed.share(held_ns) < WORTH_LOOKING {
        return Vec::new();
    }
    let effect = case.effect(
        Saving::shares(held_ns, 0.8, 0.95, 1.0),
        "the piece goes out at once in place of waiting for the client's delayed acknowledgement (40 ms on Linux)",
    );
    let evidence = vec![case.evidence(Part::ResponseTransit, held_ns)];
    let draft =
        Draft::new("tcp_nodelay", "TCP_NODELAY is off: the last piece of responses is held back", evidence, effect);
    let reasoning = "Nagle's algorithm sends a small piece only when none is on its way; a response that is written in \
                     several pieces meets the client's delayed acknowledgement";
    let against = ["a program that writes many tiny pieces sends more packets then: better one write, or writev"];
    let off = case.servers.of(Kind::Nginx).find_map(|(number, server)| {
        let found = server.configuration.last("tcp_nodelay").filter(|found| !ini::is_on(found.word()))?;
        Some((server, Setting::of(number, &server.configuration, &found, "on")))
    });
    if let Some((server, setting)) = off {
        let facts = vec![format!("{} leaves Nagle's algorithm on", server.label())];
        return vec![draft.set(vec![setting], facts, reasoning.to_owned(), &against)];
    }
    let commands = vec![
        "in the program: setsockopt(TCP_NODELAY) on each accepted connection".to_owned(),
        "or in the program: write head and body in one call (writev, a buffered writer), or set TCP_CORK around them"
            .to_owned(),
    ];
    let facts = vec!["the kernel held the piece back although the connection had room for it".to_owned()];
    vec![draft.told(
        commands,
        facts,
        reasoning.to_owned(),
        &against,
        "it is the program's own option, no server's setting",
    )]
}

/// Bytes that a program may set as a socket's buffer; the kernel takes twice as many for its own accounts.
fn largest_buffer() -> Option<u64> {
    std::fs::read_to_string("/proc/sys/net/core/wmem_max").ok()?.trim().parse().ok()
}

/// An address with a port below those that clients get, unless it is said to be a client's.
fn is_server_address(who: &str) -> bool {
    !who.starts_with("a client")
        && who.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok()).is_some_and(|port| port < 32_768)
}
