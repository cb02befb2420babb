//! The figures of a node process for Prometheus; its server shows them at the admin address.

use super::contents_seen::ContentsSeen;
use crate::cluster::control_socket::Relayed;
use crate::cluster::control_socket::Replicated;
use crate::cluster::figures;
use crate::cluster::overview::MemberNow;
use std::collections::BTreeMap;
use weir_cluster::{BeatCounts, ClockSample, Counts, EventCounts, LinkCountsNow, Outcome, Registry};
use weir_exposition::{Families, Kind};

/// Upper bounds of the durations' histograms, microseconds.
const BOUNDS_US: [u64; 12] =
    [250, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 500_000, 2_000_000, 10_000_000];

/// What a node knows of itself, beside its moves.
#[derive(Debug)]
pub(super) struct Own<'f> {
    /// The director's name, and whether its heartbeats come.
    pub(super) director: (&'f str, bool),
    pub(super) is_draining: bool,
    /// Connections of HTTP/3 that have requests under way; only while the node wants no new ones.
    pub(super) http3: Option<u64>,
    /// How the director's clock stands to this one.
    pub(super) clock: Option<ClockSample>,
    pub(super) links: LinkCountsNow,
    pub(super) heartbeats: BeatCounts,
    pub(super) events: EventCounts,
    pub(super) replicas: Replicated,
    pub(super) contents: &'f ContentsSeen,
    pub(super) relays: Relayed,
    /// How it stands, once it has said so.
    pub(super) reading: Option<MemberNow>,
}

/// All families.
pub(super) fn text(registry: &Registry, own: &Own<'_>) -> String {
    let mut out = Families::new();
    moves(&mut out, &registry.counts());
    let (freeze, total) = registry.durations_us();
    let help = "How long a session stood still while it moved away from this node.";
    histogram(&mut out, "weir_cluster_move_freeze_seconds", help, &freeze);
    let help = "How long it took to move a session away from this node, from the order to its end.";
    histogram(&mut out, "weir_cluster_move_seconds", help, &total);
    let help = "Whether this node wants no new connections.";
    out.one("weir_cluster_draining", Kind::Gauge, help, u8::from(own.is_draining));
    if let Some(http3) = own.http3 {
        let help = "Connections of HTTP/3 with requests under way whose clients were told to go elsewhere.";
        out.one("weir_cluster_draining_http3", Kind::Gauge, help, http3);
    }
    relays(&mut out, &own.relays);
    figures::members(&mut out, &[own.director]);
    if let Some(ClockSample { offset_us, error_us }) = own.clock {
        let of = [("member", own.director.0)];
        let name = "weir_cluster_clock_offset_seconds";
        out.begin(name, Kind::Gauge, "The director's clock less this machine's, as of ten seconds ago at most.");
        out.sample(name, &of, offset_us as f64 / 1e6);
        let name = "weir_cluster_clock_error_seconds";
        out.begin(name, Kind::Gauge, "By how much that may be wrong.");
        out.sample(name, &of, error_us as f64 / 1e6);
    }
    figures::readings(&mut out, own.reading.as_slice());
    figures::links(&mut out, &own.links);
    figures::heartbeats(&mut out, &own.heartbeats);
    figures::events(&mut out, &own.events);
    replicas(&mut out, &own.replicas);
    own.contents.tell(&mut out);
    out.into_text()
}

/// Sessions that outlive their node.
fn replicas(out: &mut Families, counts: &Replicated) {
    let help = "Replicas of this node's sessions: given to another node, dropped on the way or for want of room, not held for \
                the next node that keeps them, and of sessions that end where their server alone is killed.";
    let results = [
        ("sent", counts.sent),
        ("dropped", counts.dropped),
        ("not_held", counts.not_held),
        ("not_guarded", counts.not_guarded),
    ];
    out.by("weir_cluster_replicas_total", Kind::Counter, help, "result", &results);
    let help = "Replicas that this node keeps for others now.";
    out.one("weir_cluster_replicas_kept", Kind::Gauge, help, counts.kept);
    let help = "Sessions of nodes that were down: gone on with here, of these begun a second time, and lost; and sessions \
                discarded here, as others had gone on with them.";
    let results = [
        ("taken_over", counts.taken_over),
        ("begun_anew", counts.begun_anew),
        ("not_looked_at", counts.not_looked_at),
        ("lost", counts.lost),
        ("discarded", counts.discarded),
    ];
    out.by("weir_cluster_takeovers_total", Kind::Counter, help, "result", &results);
    let help = "The longest time for which the packets of a session were held that was taken over.";
    out.one("weir_cluster_takeover_seconds_max", Kind::Gauge, help, counts.longest_us as f64 / 1e6);
    let name = "weir_cluster_sessions_without_replica";
    out.begin(name, Kind::Gauge, "Sessions that send now and would end with this node, by why.");
    for (reason, count) in &counts.left_out {
        out.sample(name, &[("reason", reason)], count);
    }
}

fn moves(out: &mut Families, counts: &Counts) {
    let Counts { given, taken, not_begun, came_back, refused, lost, undecided, asked, .. } = counts;
    let counted = [given, taken, not_begun, came_back, refused, lost, undecided];
    let results: Vec<(&str, u64)> =
        Outcome::ALL.iter().map(|one| one.word()).zip(counted.map(|count| *count)).collect();
    let help = "Moves of sessions by how they ended for this node.";
    out.by("weir_cluster_moves_total", Kind::Counter, help, "result", &results);
    let name = "weir_cluster_moves_failed_total";
    out.begin(name, Kind::Counter, "Those that did not succeed, by why.");
    for ((outcome, reason), count) in &counts.by_reason {
        out.sample(name, &[("result", outcome.word()), ("reason", reason)], count);
    }
    let help = "Questions to the director about moves without an answer.";
    out.one("weir_cluster_director_questions_total", Kind::Counter, help, asked);
    let help = "Moves that were not written down as events, as too many waited.";
    out.one("weir_cluster_move_events_dropped_total", Kind::Counter, help, counts.events_dropped);
}

fn relays(out: &mut Families, relays: &Relayed) {
    let Relayed { makes, sends, begun, ended, broken, shortened } = relays;
    let help = "Responses that this node makes and another one sends, or the other way round.";
    let now = [("makes", *makes), ("sends", *sends)];
    out.by("weir_cluster_relays", Kind::Gauge, help, "side", &now);
    let help = "Responses that this node has begun to make for another one, that have ended, and that were broken off.";
    let counted = [("begun", *begun), ("ended", *ended), ("broken", *broken)];
    out.by("weir_cluster_relays_total", Kind::Counter, help, "result", &counted);
    let help = "Responses that go on without this node, which had passed them on from one node to another one.";
    out.one("weir_cluster_relays_shortened_total", Kind::Counter, help, *shortened);
}

fn histogram(out: &mut Families, name: &str, help: &str, durations_us: &weir_load::Histogram) {
    let mut counts: BTreeMap<u64, u64> = BOUNDS_US.iter().map(|bound| (*bound, 0)).collect();
    for value in durations_us.iter_recorded() {
        let middle = durations_us.median_equivalent(value.value_iterated_to());
        for (_, count) in counts.range_mut(middle..) {
            *count += value.count_at_value();
        }
    }
    out.begin(name, Kind::Histogram, help);
    let below = counts.iter().map(|(bound, count)| (*bound as f64 / 1e6, *count));
    let sum_s = durations_us.mean() * durations_us.len() as f64 / 1e6;
    out.histogram(name, &[], below.chain([(f64::INFINITY, durations_us.len())]), sum_s);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_left_out_and_all_results_are_there() {
        let (registry, _events) = Registry::new(1);
        let contents = ContentsSeen::default();
        let own = Own {
            director: ("front", true),
            is_draining: true,
            http3: Some(4),
            clock: None,
            links: LinkCountsNow::default(),
            heartbeats: BeatCounts::default(),
            events: EventCounts { written: 3, ..EventCounts::default() },
            replicas: Replicated {
                taken_over: 2,
                longest_us: 40_500,
                left_out: BTreeMap::from([("it is over TLS".to_owned(), 1)]),
                ..Replicated::default()
            },
            contents: &contents,
            relays: Relayed { makes: 2, ..Relayed::default() },
            reading: None,
        };
        let told = text(&registry, &own);
        assert!(told.contains("weir_cluster_moves_total{result=\"given\"} 0\n"), "{told}");
        assert!(told.contains("weir_cluster_moves_total{result=\"undecided\"} 0\n"), "{told}");
        assert!(told.contains("weir_cluster_relays{side=\"makes\"} 2\n"), "{told}");
        assert!(told.contains("weir_cluster_move_freeze_seconds_bucket{le=\"+Inf\"} 0\n"), "{told}");
        assert!(told.contains("weir_cluster_member_up{member=\"front\"} 1\n") && !told.contains("clock"), "{told}");
        for line in [
            "weir_cluster_takeovers_total{result=\"taken_over\"} 2\n",
            "weir_cluster_takeover_seconds_max 0.0405\n",
            "weir_cluster_sessions_without_replica{reason=\"it is over TLS\"} 1\n",
            "weir_cluster_replicas_kept 0\n",
            "weir_cluster_draining_http3 4\n",
            "weir_cluster_relays_shortened_total 0\n",
        ] {
            assert!(told.contains(line), "{line} {told}");
        }
        assert!(told.contains("weir_cluster_contents_total{result=\"evicted\"} 0\n"), "{told}");
        let clock = Some(ClockSample { offset_us: -1_500, error_us: 80 });
        let told = text(&registry, &Own { clock, ..own });
        assert!(told.contains("weir_cluster_clock_offset_seconds{member=\"front\"} -0.0015\n"), "{told}");
        assert!(told.contains("weir_cluster_events_total{result=\"written\"} 3\n"), "{told}");
    }
}
