//! What a server says of itself at its begin and at its end.

use std::io::Write;
use weir_server::{Counts, Server};

/// Says what is served where.
pub(super) fn begins(server: &Server, log_is_stdout: bool) {
    for local in server.locals() {
        tracing::info!(%local, "socket bound");
    }
    if let Some(local) = server.admin_local() {
        tracing::info!(%local, "socket of the status page bound");
    }
    announce(&greeting(server), log_is_stdout);
}

/// What is served where, in one line.
fn greeting(server: &Server) -> String {
    let urls: Vec<String> = server.locals().iter().map(ToString::to_string).collect();
    let loops = server.loops();
    let plural = if loops == 1 { "" } else { "s" };
    let hosts: Vec<&str> = server.hosts().collect();
    let what = match hosts.as_slice() {
        [] => server.root().display().to_string(),
        hosts => hosts.join(", "),
    };
    let told = server.admin_local().map_or_else(String::new, |local| format!("; it tells of itself at {local}"));
    let instead = server.without_ring().map_or_else(String::new, |error| format!(" (io_uring: {error})"));
    let io = server.io();
    format!("serving {what} at {} with {loops} loop{plural} by {io}{instead}{told}", urls.join(" "))
}

/// What was done until the end, in one line.
pub(super) fn farewell(counts: &Counts) -> String {
    let dropped = [
        (counts.connections_refused, "connections refused"),
        (counts.connections_displaced, "connections closed to make room"),
        (counts.connections_broken, "connections broken"),
        (counts.tls_failed, "TLS handshakes failed"),
        (counts.http2_errors, "connections of HTTP/2 in error"),
        (counts.http2_abuses, "connections of HTTP/2 that asked for too much in vain"),
        (counts.http2_streams_broken, "streams of HTTP/2 cut off"),
        (counts.http3_errors, "connections of HTTP/3 in error"),
        (counts.http3_abuses, "connections of HTTP/3 that asked for too much in vain"),
        (counts.http3_streams_broken, "streams of HTTP/3 cut off"),
        (counts.quic_unsent, "datagrams of QUIC that could not be sent"),
        (counts.applications_failed, "requests given up by applications"),
        (counts.applications_cancelled, "requests of applications left by their clients"),
        (counts.timeouts, "timeouts"),
        (counts.accept_pauses, "pauses in accepting"),
        (counts.stop_aborted, "responses cut off"),
        (counts.stopped_by_order, "connections and requests ended by order"),
        (counts.log_dropped, "log lines dropped"),
    ];
    let mut line = format!(
        "stopped after {} requests on {} connections, {} bytes; cache: {} hits, {} misses, {} evictions",
        counts.requests,
        counts.connections,
        counts.bytes_sent,
        counts.cache_hits,
        counts.cache_misses,
        counts.cache_evictions
    );
    for (count, what) in dropped.into_iter().filter(|(count, _)| *count > 0) {
        line.push_str(&format!("; {count} {what}"));
    }
    line
}

/// Prints a line; that it cannot be written is no reason to stop serving.
pub(super) fn announce(line: &str, to_stderr: bool) {
    let _ = if to_stderr { writeln!(std::io::stderr(), "{line}") } else { writeln!(std::io::stdout(), "{line}") };
}
