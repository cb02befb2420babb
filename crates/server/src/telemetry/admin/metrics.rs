//! The status in the text format of Prometheus (0.0.4): in base units, with one family for values that can be added up
//! or compared.

use super::former::FormerReading;
use super::response_cache::ResponseCaches;
use super::status::{CLASSES, Status};
use crate::counters::upstream_counts::UpstreamReading;
use weir_exposition::{Families, Kind};

/// All families.
pub(super) fn text(status: &Status) -> String {
    use Kind::{Counter, Gauge};
    let mut out = Families::new();
    out.begin("weir_build_info", Gauge, "What runs; always 1.");
    out.sample("weir_build_info", &[("version", status.version)], 1);
    out.one("weir_loops", Gauge, "Event loops, each a thread.", status.loops);
    out.begin("weir_io_info", Gauge, "How plain-text connections that are kept receive and send; always 1.");
    out.sample("weir_io_info", &[("io", status.io.used)], 1);
    let ring = [
        ("joined", status.io.ring_joined),
        ("left", status.io.ring_left),
        ("starved", status.io.ring_starved),
        ("blocked", status.io.ring_blocked),
    ];
    let help = "Connections that went over to io_uring and back, receptions without a buffer, responses without room.";
    out.by("weir_ring_events_total", Counter, help, "event", &ring);
    requests(&mut out, status);
    connections(&mut out, status);
    encrypted(&mut out, status);
    applications(&mut out, status);
    cache(&mut out, status);
    if let Some(caches) = &status.response_cache {
        response_cache(&mut out, caches);
    }
    adaptation(&mut out, status);
    if let Some(log) = &status.log {
        let lines = [("written", log.lines), ("dropped", log.dropped)];
        out.by("weir_log_lines_total", Counter, "Lines of the access log.", "result", &lines);
    }
    if let Some(told) = status.arm_told {
        out.one("weir_arm_requests_total", Counter, "Requests told as business transactions (ARM).", told);
    }
    let reloads = [("done", status.reloads.done), ("failed", status.reloads.failed)];
    out.by("weir_reloads_total", Counter, "Configurations taken up, and refused for mistakes.", "result", &reloads);
    let is_good = u8::from(status.reloads.last_error.is_none());
    out.one("weir_last_reload_successful", Gauge, "Whether the last one was taken up; 1 if there was none.", is_good);
    if let Some(last) = status.reloads.last_unix_s {
        out.one("weir_last_reload_timestamp_seconds", Gauge, "When the last one came.", last);
    }
    let failed = status.reloads.loops_failed;
    let help = "Times that a loop kept its configuration for want of descriptors.";
    out.one("weir_reload_loop_failures_total", Counter, help, failed);
    former(&mut out, status);
    hosts(&mut out, status);
    upstreams(&mut out, status);
    process(&mut out, status);
    out.into_text()
}

fn requests(out: &mut Families, status: &Status) {
    use Kind::Counter;
    let requests = &status.requests;
    let classes = CLASSES.map(|class| (class, requests.by_class.get(class).copied().unwrap_or(0)));
    out.by("weir_responses_total", Counter, "Responses by the class of their status.", "class", &classes);
    let help = "Responses with 503 that are no errors: refused because rules or bounds said so.";
    out.one("weir_refused_by_choice_total", Counter, help, requests.refused_by_choice);
    out.one("weir_sent_bytes_total", Counter, "Bytes handed to sockets, heads included.", requests.sent_bytes);
    for (name, help, count) in [
        ("weir_compressed_responses_total", "Responses with a compressed form.", requests.compressed),
        ("weir_rate_refused_total", "Requests answered with 429.", requests.rate_refused),
        (
            "weir_rate_untracked_total",
            "Requests that no rate was held against, because its table was full.",
            requests.rate_untracked,
        ),
        (
            "weir_auth_busy_total",
            "Requests answered with 503 because too many passwords were to be checked.",
            requests.auth_busy,
        ),
        ("weir_include_errors_total", "Directives of pages that could not be carried out.", requests.include_errors),
        ("weir_pages_assembled_total", "Pages assembled from their parts.", requests.pages_assembled),
    ] {
        out.one(name, Counter, help, count);
    }
}

fn connections(out: &mut Families, status: &Status) {
    use Kind::{Counter, Gauge};
    let connections = &status.connections;
    out.one("weir_connections_open", Gauge, "Open connections.", connections.open);
    out.one("weir_connections_open_limit", Gauge, "As many as may be open.", connections.open_max);
    let help = "Connections and streams that became tunnels, such as WebSockets.";
    out.one("weir_tunnels_open", Gauge, help, connections.tunnels);
    let states: Vec<(&str, u64)> = connections.by_state.iter().map(|(name, count)| (*name, *count)).collect();
    let help = "Open connections by what they are about, as of half a second ago at most.";
    out.by("weir_connections_by_state", Gauge, help, "state", &states);
    for (name, help, count) in [
        ("weir_connections_total", "Connections accepted, those refused included.", connections.accepted),
        ("weir_connections_refused_total", "Connections closed because too many were open.", connections.refused),
        (
            "weir_connections_displaced_total",
            "Connections closed to make room for others, because their clients were idle or slow.",
            connections.displaced,
        ),
        (
            "weir_connections_broken_total",
            "Connections lost to an error, or closed in the middle of a response.",
            connections.broken,
        ),
        (
            "weir_connections_timed_out_total",
            "Connections closed because a client was too slow, idle ones included.",
            connections.timeouts,
        ),
        ("weir_accept_pauses_total", "Times that descriptors or memory had run out.", connections.accept_pauses),
        ("weir_responses_cut_off_total", "Responses cut off by the end of the server.", connections.stop_aborted),
        (
            "weir_stopped_by_order_total",
            "Connections and requests that were ended by order at the admin address.",
            connections.stopped_by_order,
        ),
    ] {
        out.one(name, Counter, help, count);
    }
}

fn former(out: &mut Families, status: &Status) {
    let help = "Servers before this one that live on until their tunnels end.";
    out.one("weir_former_servers", Kind::Gauge, help, status.former_servers.len());
    type Of = fn(&FormerReading) -> u64;
    let families: [(&str, &str, Of); 2] = [
        ("weir_former_server_tunnels", "Tunnels of each former server.", |of| of.tunnels),
        ("weir_former_server_responses", "Responses that each former server has under way.", |of| of.responses),
    ];
    for (name, help, of) in families.into_iter().filter(|_| !status.former_servers.is_empty()) {
        out.begin(name, Kind::Gauge, help);
        for server in &status.former_servers {
            out.sample(name, &[("pid", &server.pid.to_string())], of(server));
        }
    }
}

fn encrypted(out: &mut Families, status: &Status) {
    use Kind::{Counter, Gauge};
    if let Some(tls) = &status.tls {
        let full = tls.handshakes.saturating_sub(tls.resumed);
        let handshakes = [("full", full), ("resumed", tls.resumed), ("failed", tls.failed)];
        out.by("weir_tls_handshakes_total", Counter, "Handshakes of TLS.", "result", &handshakes);
        let name = "weir_certificate_expiry_timestamp_seconds";
        out.begin(name, Gauge, "Until when a certificate is valid.");
        for one in &tls.certificates {
            if let Some(until) = one.not_after_unix_s {
                let first = one.names.first().map_or("", String::as_str);
                out.sample(name, &[("file", &one.file), ("name", first)], until);
            }
        }
        let name = "weir_acme_failures";
        for (number, one) in tls.obtained.iter().enumerate() {
            if number == 0 {
                out.begin(name, Gauge, "Attempts to obtain a certificate that failed one after the other.");
            }
            out.sample(name, &[("host", &one.host)], one.failures);
        }
        let help = "Whether the certificates in use are those of the files.";
        out.one("weir_certificates_current", Gauge, help, u8::from(tls.error.is_none()));
    }
    let http2 = &status.http2;
    out.one("weir_http2_connections_open", Gauge, "Open connections of HTTP/2.", http2.connections_open);
    out.one("weir_http2_streams_open", Gauge, "Requests under way over HTTP/2.", http2.streams_open);
    let http3 = &status.http3;
    out.one("weir_http3_connections_open", Gauge, "Open connections of HTTP/3.", http3.connections_open);
    out.one("weir_http3_streams_open", Gauge, "Requests under way over HTTP/3.", http3.streams_open);
    for (name, help, count) in [
        ("weir_http2_connections_total", "Connections that spoke HTTP/2.", http2.connections),
        ("weir_http2_streams_total", "Requests that came over HTTP/2.", http2.streams),
        ("weir_http2_errors_total", "Connections closed because the client broke the protocol.", http2.errors),
        ("weir_http2_abuses_total", "Connections closed because the client asked much in vain.", http2.abuses),
        ("weir_http2_streams_broken_total", "Responses cut off because their file changed.", http2.streams_broken),
        ("weir_http3_connections_total", "Connections that spoke HTTP/3.", http3.connections),
        ("weir_http3_streams_total", "Requests that came over HTTP/3.", http3.streams),
        ("weir_http3_errors_total", "Connections closed because the client broke the protocol.", http3.errors),
        ("weir_http3_abuses_total", "Connections closed because the client asked much in vain.", http3.abuses),
        ("weir_http3_streams_broken_total", "Responses cut off because their file changed.", http3.streams_broken),
        ("weir_quic_retries_total", "Clients that had to show first that their address is theirs.", http3.retries),
        ("weir_quic_unsent_total", "Datagrams that the system did not take.", http3.datagrams_unsent),
        ("weir_quic_handed_on_total", "Datagrams for the server before this one.", http3.datagrams_handed_on),
    ] {
        out.one(name, Counter, help, count);
    }
}

fn applications(out: &mut Families, status: &Status) {
    let applications = &status.applications;
    let done = applications.requests.saturating_sub(applications.failed).saturating_sub(applications.cancelled);
    let results = [("done", done), ("failed", applications.failed), ("cancelled", applications.cancelled)];
    let help = "Requests answered by applications: done, given up by the application, or left by the client.";
    out.by("weir_application_requests_total", Kind::Counter, help, "result", &results);
}

fn cache(out: &mut Families, status: &Status) {
    use Kind::{Counter, Gauge};
    let cache = &status.cache;
    let looked_up = [("hit", cache.hits), ("miss", cache.misses)];
    out.by("weir_cache_requests_total", Counter, "Requests for content, by where it was.", "result", &looked_up);
    out.one("weir_cache_bytes", Gauge, "Bytes in the caches of all loops.", cache.bytes);
    out.one("weir_cache_limit_bytes", Gauge, "As many as there may be.", cache.bytes_max);
    out.one("weir_cache_entries", Gauge, "Entries in the caches of all loops.", cache.entries);
    for (name, help, count) in [
        ("weir_cache_fills_total", "Files read into memory.", cache.fills),
        ("weir_cache_evictions_total", "Entries removed to make room.", cache.evictions),
        ("weir_cache_stale_total", "Entries removed because the file had changed or gone.", cache.stale),
        ("weir_compression_refused_total", "Compressed forms put off, as too many waited.", cache.forms_refused),
        ("weir_watch_events_total", "Changes in watched directories.", cache.watch_events),
        ("weir_watch_overflows_total", "Times that the kernel could not tell all of them.", cache.watch_overflows),
        ("weir_watches_refused_total", "Directories that could not be watched.", cache.watches_refused),
    ] {
        out.one(name, Counter, help, count);
    }
}

fn response_cache(out: &mut Families, caches: &ResponseCaches) {
    use Kind::{Counter, Gauge};
    let requests =
        [("hit", caches.hits), ("stale", caches.stale), ("miss", caches.misses), ("bypass", caches.bypassed)];
    let help = "Requests for upstreams behind a cache, by what it had.";
    out.by("weir_response_cache_requests_total", Counter, help, "result", &requests);
    for (name, help, count) in [
        ("weir_response_cache_collapsed_total", "Misses that waited for another one.", caches.collapsed),
        ("weir_response_cache_stored_total", "Responses that were stored.", caches.stored),
        ("weir_response_cache_freshened_total", "Stored responses that a 304 freshened.", caches.freshened),
        ("weir_response_cache_evictions_total", "Stored responses that went for want of room.", caches.evictions),
        ("weir_response_cache_invalidated_total", "Stored responses that became invalid.", caches.invalidated),
        ("weir_response_cache_no_room_total", "Responses that were not stored for want of room.", caches.no_room),
        ("weir_response_cache_disk_errors_total", "Responses that were lost as the disk failed.", caches.disk_errors),
    ] {
        out.one(name, Counter, help, count);
    }
    out.one("weir_response_cache_entries", Gauge, "Stored responses.", caches.entries);
    let bytes = [("memory", caches.memory_bytes), ("disk", caches.disk_bytes)];
    out.by("weir_response_cache_bytes", Gauge, "Bytes of stored responses.", "place", &bytes);
    let bytes_max = [("memory", caches.memory_bytes_max), ("disk", caches.disk_bytes_max)];
    out.by("weir_response_cache_limit_bytes", Gauge, "As many as there may be.", "place", &bytes_max);
}

fn adaptation(out: &mut Families, status: &Status) {
    use Kind::{Counter, Gauge};
    let adaptation = &status.adaptation;
    for (name, help, count) in [
        ("weir_advised_total", "Requests that an adviser was asked about.", adaptation.asked),
        ("weir_advice_refused_total", "Those of them that were refused with 503.", adaptation.refused),
        ("weir_advice_stale_total", "Answers with what was there without a look that was due.", adaptation.stale),
        ("weir_variants_total", "Responses with a variant of the file.", adaptation.variants),
        ("weir_variants_missing_total", "Variants asked for that are not there.", adaptation.variants_missing),
        ("weir_swappable_total", "Responses that can go on in another variant.", adaptation.swappable),
        ("weir_swaps_total", "Times that one did.", adaptation.swaps),
        ("weir_swaps_refused_total", "Variants that none could go on in.", adaptation.swaps_refused),
        ("weir_link_looks_total", "Looks at how fast clients take their responses.", adaptation.looks),
        ("weir_links_evicted_total", "Connections whose readings were given up.", adaptation.links_evicted),
        ("weir_link_priors_evicted_total", "Expectations that were given up.", adaptation.priors_evicted),
        ("weir_throttle_queued_total", "Requests that waited for others.", adaptation.throttle_queued),
        ("weir_throttle_refused_total", "Requests refused as too many were there.", adaptation.throttle_refused),
        ("weir_throttle_gone_total", "Requests whose client went away meanwhile.", adaptation.throttle_gone),
        ("weir_cache_warmed_total", "Files loaded by order, in each loop.", adaptation.warmed),
        ("weir_cache_warm_dropped_total", "Files that were not, as too many waited.", adaptation.warm_dropped),
    ] {
        out.one(name, Counter, help, count);
    }
    for (name, help, count) in [
        ("weir_link_priors", "Addresses and networks of which something is expected.", adaptation.priors),
        ("weir_throttle_running", "Requests of throttled paths under way.", adaptation.throttle_running),
        ("weir_throttle_waiting", "Requests that wait for them.", adaptation.throttle_waiting),
        ("weir_cache_pinned_bytes", "Bytes that the caches of all loops keep by order.", adaptation.pinned_bytes),
        ("weir_cache_pinned_entries", "Entries that they keep.", adaptation.pinned_entries),
        ("weir_loops_reserve", "Event loops of the reserve.", adaptation.loops_reserve),
        ("weir_loops_reserve_serving", "Those of them that serve.", adaptation.loops_serving),
    ] {
        out.one(name, Gauge, help, count);
    }
}

fn hosts(out: &mut Families, status: &Status) {
    if status.hosts.is_empty() {
        return;
    }
    let name = "weir_host_responses_total";
    out.begin(name, Kind::Counter, "Responses of each host, by the class of their status.");
    for host in &status.hosts {
        for (class, count) in &host.by_class {
            out.sample(name, &[("host", &host.name), ("class", class)], count);
        }
    }
    let name = "weir_host_sent_bytes_total";
    out.begin(name, Kind::Counter, "Bytes of responses of each host, heads included.");
    for host in &status.hosts {
        out.sample(name, &[("host", &host.name)], host.sent_bytes);
    }
}

fn upstreams(out: &mut Families, status: &Status) {
    use Kind::{Counter, Gauge};
    if status.upstreams.is_empty() {
        return;
    }
    type Of = fn(&UpstreamReading) -> u64;
    let families: [(&str, Kind, &str, Of); 15] = [
        ("requests_total", Counter, "Requests to each upstream.", |of| of.requests),
        ("failed_total", Counter, "Attempts to have an upstream answer that failed.", |of| of.failed),
        ("retries_total", Counter, "Requests that were sent to another server of their upstream.", |of| of.tried_again),
        ("refused_total", Counter, "Requests that found the queue full, or waited in it too long.", |of| of.refused),
        ("connects_total", Counter, "Connections that were begun with each upstream.", |of| of.connects),
        ("requests_under_way", Gauge, "Requests under way to each upstream.", |of| of.under_way.into()),
        ("requests_waiting", Gauge, "Requests that wait for a place at an upstream.", |of| of.waiting.into()),
        ("connections", Gauge, "Open connections with each upstream, idle ones included.", |of| of.connections.into()),
        ("servers_out", Gauge, "Servers of an upstream that are not asked.", |of| of.servers_out.into()),
        ("places", Gauge, "Requests that may be under way to each upstream.", |of| of.places.into()),
        ("shed_total", Counter, "Requests that were refused at once, as they would have waited too long.", |of| {
            of.shed
        }),
        ("queued_total", Counter, "Requests that had to wait for a place.", |of| of.queued),
        ("queue_left_total", Counter, "Requests whose clients left while they waited.", |of| of.left),
        ("queue_wait_nanoseconds_total", Counter, "Time that requests waited for a place.", |of| of.waited_ns),
        ("service_nanoseconds_total", Counter, "Time that requests held their places.", |of| of.served_ns),
    ];
    for (name, kind, help, of) in families {
        let name = format!("weir_upstream_{name}");
        out.begin(&name, kind, help);
        for upstream in &status.upstreams {
            out.sample(&name, &[("upstream", &upstream.name)], of(upstream));
        }
    }
}

/// By the names that all clients of Prometheus use.
fn process(out: &mut Families, status: &Status) {
    use Kind::{Counter, Gauge};
    let process = &status.process;
    out.one("process_start_time_seconds", Gauge, "When the process started.", status.started_unix_s);
    out.one("process_cpu_seconds_total", Counter, "Time on a CPU, of all threads.", process.cpu_s);
    for (name, help, value) in [
        ("process_resident_memory_bytes", "Memory that is there.", process.resident_bytes),
        ("process_open_fds", "Open descriptors.", process.open_files),
        ("process_max_fds", "As many as there may be.", process.open_files_max),
    ] {
        if let Some(value) = value {
            out.one(name, Gauge, help, value);
        }
    }
}
