//! Slow queries, and the index that one may lack.

use super::case::{Case, Draft};
use super::sql;
use crate::finding::{Evidence, Finding};
use crate::observed::Query;
use crate::servers::Kind;
use weir_measure::queueing::Saving;
use weir_report::nanoseconds;

/// From this share of the mean response a query is looked into.
const WORTH_LOOKING: f64 = 0.05;
/// A query that takes less is not slow, however often it is run.
const SLOW_NS: f64 = 500_000.0;
/// Queries that are mentioned.
const MOST_QUERIES: usize = 3;
/// Characters of a query in a title.
const TITLE: usize = 60;

/// Queries that take a large share of the response.
pub(super) fn missing_index(case: &Case<'_>) -> Vec<Finding> {
    let observed = case.observed;
    let of_response = |query: &Query| query.mean_ns * query.count as f64 / observed.requests.max(1) as f64;
    let large = observed
        .queries
        .iter()
        .filter(|query| query.mean_ns >= SLOW_NS && observed.share(of_response(query)) >= WORTH_LOOKING);
    large.take(MOST_QUERIES).map(|query| finding(case, query, of_response(query))).collect()
}

fn finding(case: &Case<'_>, query: &Query, ns: f64) -> Finding {
    let observed = case.observed;
    let is_postgres = Kind::of(&query.server) != Some(Kind::Mariadb);
    let candidate = sql::candidate(&query.text);
    let part = if observed.part_ns("wait_process") >= ns { "wait_process" } else { "run" };
    let text = format!(
        "{:.1} % of the mean response is this query of {}: {} of {} ({} a run, at most {}, {:.1} runs a request)",
        100.0 * observed.share(ns),
        query.server,
        nanoseconds(ns),
        nanoseconds(observed.response_ns()),
        nanoseconds(query.mean_ns),
        nanoseconds(query.max_ns as f64),
        query.count as f64 / observed.requests.max(1) as f64
    );
    let evidence = Evidence {
        part,
        mean_ns: ns,
        share: observed.share(ns),
        slow_ns: observed.slow_part_ns(part),
        who: vec![(query.server.clone(), 1.0)],
        text,
    };
    let mut facts = vec![format!("the query: {}", query.text)];
    let explain = if is_postgres { "EXPLAIN (ANALYZE, BUFFERS)" } else { "ANALYZE" };
    let mut commands = vec![format!("{explain} {};", query.text.trim_end_matches(';'))];
    let short: String = query.text.chars().take(TITLE).collect();
    let (title, saving, basis, reasoning) = match &candidate {
        Some(candidate) => {
            commands.push(candidate.statement(is_postgres));
            facts.push(format!("it compares {} of {}", candidate.columns.join(", "), candidate.table));
            (
                format!("a slow query, perhaps without an index: {short}"),
                Saving::shares(ns, 0.0, 0.8, 0.98),
                "nothing if an index serves it already, nearly all of it if the whole table is read each time: EXPLAIN tells which",
                "if EXPLAIN shows a Seq Scan (`type: ALL` in MariaDB) that drops most of its rows, this index lets the query read only those that it wants; put real values in the place of ? first".to_owned(),
            )
        }
        None => (
            format!("a slow query: {short}"),
            Saving::shares(ns, 0.0, 0.0, 0.5),
            "not known without its plan",
            if sql::reads_a_table(&query.text) {
                "it compares no column that an index could hold: its plan tells what it does".to_owned()
            } else {
                "it reads no table, so no index helps: what it calls takes the time".to_owned()
            },
        ),
    };
    let against = [
        "each index makes every INSERT and UPDATE of its table slower, and takes disk",
        "a column with few different values gains nothing from an index of its own",
    ];
    let draft = Draft::new(
        if candidate.is_some() { "missing_index" } else { "slow_query" },
        title,
        vec![evidence],
        case.effect(saving, basis),
    );
    draft.told(commands, facts, reasoning, &against, "a database is never tried on its owner's data: make the index on a copy, or in a transaction that is rolled back, and compare the plans")
}
