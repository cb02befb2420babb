//! Figures for Prometheus that nodes and the director have alike: links, heartbeats, members and events.

use super::overview::MemberNow;
use weir_cluster::{BeatCounts, EventCounts, LinkCountsNow};
use weir_exposition::{Families, Kind};

/// What a member counts at its links.
pub(crate) fn links(out: &mut Families, counts: &LinkCountsNow) {
    let requests = [
        ("answered", counts.requests),
        ("busy", counts.requests_busy),
        ("timed_out", counts.timed_out),
        ("queue_full", counts.queue_full),
        ("bad_message", counts.bad_messages),
    ];
    let help = "Requests between members: taken to be answered, refused as too many were, without an answer in time, \
                without room to be sent, and messages that were none.";
    out.by("weir_cluster_link_requests_total", Kind::Counter, help, "result", &requests);
    let refused = [
        ("no_certificate", counts.refused_no_certificate),
        ("untrusted", counts.refused_untrusted),
        ("removed", counts.refused_removed),
        ("other_member", counts.refused_other_member),
        ("handshake", counts.handshake_failed),
        ("too_many", counts.refused_too_many),
        ("connect", counts.connect_failed),
    ];
    let help = "Links between members that did not come about, by why.";
    out.by("weir_cluster_links_refused_total", Kind::Counter, help, "reason", &refused);
}

/// What a member counts of its heartbeats.
pub(crate) fn heartbeats(out: &mut Families, counts: &BeatCounts) {
    let results = [
        ("sent", counts.sent),
        ("not_sent", counts.send_failed),
        ("alive", counts.alive),
        ("greeting", counts.greetings),
        ("forged", counts.forged),
        ("replayed", counts.replayed),
        ("other", counts.other),
    ];
    let help = "Heartbeats: sent, not sent, signs of life, those of members that do not know this start yet, and those \
                that were refused.";
    out.by("weir_cluster_heartbeats_total", Kind::Counter, help, "result", &results);
    let help = "Times that this member itself stood still for longer than a heartbeat's interval.";
    out.one("weir_cluster_heartbeat_pauses_total", Kind::Counter, help, counts.pauses);
}

/// Which members send heartbeats to this one.
pub(crate) fn members(out: &mut Families, members: &[(&str, bool)]) {
    let up: Vec<(&str, u8)> = members.iter().map(|(name, is_up)| (*name, u8::from(*is_up))).collect();
    out.by("weir_cluster_member_up", Kind::Gauge, "Whether a member's heartbeats come.", "member", &up);
}

/// The readings of nodes that are there, as they were heard last, and their age.
pub(crate) fn readings(out: &mut Families, members: &[MemberNow]) {
    type Of = fn(&MemberNow) -> Option<f64>;
    let families: [(&str, &str, Of); 12] = [
        ("reading_age_seconds", "How long ago the node's reading came.", |of| of.age_s),
        ("requests_per_second", "Requests that the node answers.", |of| Some(of.reading?.requests_per_s)),
        ("open_connections", "Connections that are open at the node.", |of| Some(of.reading?.open_connections as f64)),
        ("active", "Sessions with a response under way at the node.", |of| Some(of.reading?.sending_sessions as f64)),
        ("sent_bytes_per_second", "Bytes that the node sends.", |of| Some(of.reading?.sent_bytes_per_s as f64)),
        ("cpu_share", "The part of its CPUs that the node's server uses.", |of| Some(of.reading?.cpu_share)),
        ("queue", "Requests that wait at the node.", |of| Some(of.reading?.strain?.queue)),
        ("wait_seconds", "How long a request waits at the node, in the mean.", |of| Some(of.reading?.strain?.wait_s)),
        ("memory_bytes", "Memory in use on the node's machine.", |of| Some(of.reading?.strain?.mem_bytes as f64)),
        ("memory_share", "The part of that memory that is in use.", |of| Some(of.reading?.strain?.mem_share)),
        ("errors_per_second", "Requests that fail at the node.", |of| Some(of.reading?.strain?.errors_per_s)),
        ("error_share", "The part of its requests that fail.", |of| Some(of.reading?.strain?.error_share)),
    ];
    for (name, help, of) in families {
        out.begin(&format!("weir_cluster_node_{name}"), Kind::Gauge, help);
        for member in members.iter().filter(|member| member.state.is_there()) {
            if let Some(value) = of(member) {
                out.sample(&format!("weir_cluster_node_{name}"), &[("member", &member.name)], value);
            }
        }
    }
}

/// What became of a member's events.
pub(crate) fn events(out: &mut Families, counts: &EventCounts) {
    let results = [("written", counts.written), ("dropped", counts.dropped), ("failed", counts.failed)];
    let help = "Events: written down, dropped as too many waited, or not taken by the disk.";
    out.by("weir_cluster_events_total", Kind::Counter, help, "result", &results);
}
