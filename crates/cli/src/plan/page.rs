//! What the HTML page of a plan shows.

use super::planned::Planned;
use super::{table, words};
use weir_plan::{Cluster, NODES_MAX, Partition, Policy, Repeated, Scenario};
use weir_report::{PlannedCurve, PlannedPoint, PlannedRow, bytes, nanoseconds, percent};

/// The charts show at least this many nodes.
const NODES_SHOWN: u32 = 10;

/// What the charts show, simulated for them alone.
pub(super) struct Curves {
    by_nodes: Vec<PlannedCurve>,
    by_replicas: Vec<PlannedCurve>,
    replicas_on: u32,
}

impl Curves {
    /// Curves around a plan for `nodes` nodes.
    pub(super) fn of(scenario: &Scenario<'_>, planned: &Planned<'_>, nodes: u32) -> Self {
        let by = Partition::Balanced;
        let most = (2 * nodes).clamp(NODES_SHOWN, NODES_MAX.min(2 * NODES_SHOWN).max(nodes));
        let point = |nodes: u32, at: u32, policy: &Policy| {
            let cluster = Cluster { nodes, ..planned.cluster };
            point(at, &scenario.repeat(&cluster, policy, None))
        };
        let mut policies = vec![("everything on each", Policy::Full), ("each object on one", Policy::Partition(by))];
        let chosen = planned.best().map(|best| best.policy).filter(|policy| matches!(policy, Policy::Top { .. }));
        let chosen_words = chosen.map(|policy| words::what_where(&policy)).unwrap_or_default();
        policies.extend(chosen.map(|policy| (&*chosen_words, policy)));
        let by_nodes = policies.into_iter().map(|(name, policy)| PlannedCurve {
            name: name.to_owned(),
            points: (1..=most).map(|at| point(at, at, &policy)).collect(),
        });
        let replicas_on = nodes.max(NODES_SHOWN.min(most));
        let copies = [("first copies balanced by work", by), ("all by chance", Partition::Random)];
        let by_replicas = copies.into_iter().map(|(name, by)| PlannedCurve {
            name: name.to_owned(),
            points: (1..=replicas_on).map(|at| point(replicas_on, at, &Policy::Replicas { copies: at, by })).collect(),
        });
        Self { by_nodes: by_nodes.collect(), by_replicas: by_replicas.collect(), replicas_on }
    }
}

fn point(at: u32, figures: &Repeated) -> PlannedPoint {
    let delay = figures.waiting_mean_ns;
    PlannedPoint {
        at,
        waiting_ns: [delay.low, delay.mean, delay.high],
        waiting_share: figures.waiting_share.mean,
        storage: figures.storage.mean as u64,
    }
}

pub(super) fn page(planned: &Planned<'_>, curves: Curves, subject: String) -> weir_report::Planned {
    let shown = planned.best().or(planned.found.tried.first());
    let figures = shown.map(|one| {
        let figures = &one.figures;
        let figure = |name: &str, value: String, aside: &str| (name.to_owned(), value, aside.to_owned());
        vec![
            figure("Nodes", one.nodes.to_string(), &one.policy.to_string()),
            figure("p95", nanoseconds(figures.response_p95_ns.mean), "of the responses"),
            figure("p99", nanoseconds(figures.response_p99_ns.mean), "of the responses"),
            figure("Queueing", nanoseconds(figures.waiting_mean_ns.mean), "on average"),
            figure("Busiest node", percent(figures.utilisation_max.mean), "of its time"),
            figure("Storage", bytes(figures.storage.mean as u64), "on all nodes"),
        ]
    });
    let rows = table::rows(planned).into_iter().map(|one| PlannedRow {
        nodes: one.nodes,
        what: words::what_where(&one.policy),
        waiting_ns: one.figures.waiting_mean_ns.mean,
        response_ns: [one.figures.response_p50_ns, one.figures.response_p95_ns, one.figures.response_p99_ns]
            .map(|figure| figure.mean),
        busiest: one.figures.utilisation_max.mean,
        storage: one.figures.storage.mean as u64,
        is_met: planned.limits.map(|_| one.is_met),
        is_best: planned.best().is_some_and(|best| std::ptr::eq(best, one)),
    });
    weir_report::Planned {
        subject,
        answer: words::answer(planned) + ".",
        figures: figures.unwrap_or_default(),
        rows: rows.collect(),
        by_nodes: curves.by_nodes,
        by_replicas: curves.by_replicas,
        replicas_on: curves.replicas_on,
        evidence: words::evidence(planned).into_iter().map(|(key, words)| (key.to_owned(), words)).collect(),
        warnings: planned.warnings.clone(),
    }
}
