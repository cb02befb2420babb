//! Requests of a run: a page of those that a filter lets through, and a single one with its steps.

use crate::filter::{Filter, MOST_COUNTED};
use crate::opened::Opened;
use crate::questions::{objects, value};
use crate::refusal::Refusal;
use serde_json::{Value, json};

/// Steps of a request that are told.
const MOST_STEPS: usize = 5000;

/// A page of requests, each with its parts.
pub(crate) fn page(opened: &Opened, filter: &Filter) -> Result<Value, Refusal> {
    opened.ask(|tables| {
        let mut rows = objects(tables, &filter.question(), usize::MAX)?;
        let counted = tables.rows(&filter.counting())?;
        let counted: u64 =
            counted.first().and_then(|row| row.first()).and_then(|count| count.parse().ok()).unwrap_or(0);
        let ids: Vec<String> = rows.iter().filter_map(|row| Some(row.get("id")?.to_string())).collect();
        let sums = format!(
            "SELECT request_id, part, sum(duration_ns) AS ns FROM parts WHERE request_id IN ({}) GROUP BY 1, 2",
            ids.join(", ")
        );
        let parts = objects(tables, &sums, usize::MAX)?;
        for row in &mut rows {
            let own = parts.iter().filter(|part| part["request_id"] == row["id"]);
            let own: serde_json::Map<String, Value> =
                own.filter_map(|part| Some((part["part"].as_str()?.to_owned(), part["ns"].clone()))).collect();
            row["parts_ns"] = Value::Object(own);
        }
        Ok(json!({
            "requests": rows,
            "count": counted.min(MOST_COUNTED),
            "count_is_cut": counted > MOST_COUNTED,
            "offset": filter.offset,
            "limit": filter.limit,
        }))
    })
}

/// A request and its steps.
pub(crate) fn single(opened: &Opened, id: u64) -> Result<Value, Refusal> {
    let request =
        format!("SELECT * FROM requests WHERE id = {}", i64::try_from(id).map_err(|_| Refusal::NoRequest(id))?);
    let steps = format!(
        "SELECT at_ns, duration_ns, part, pid, process, waiter, culprit, host_name FROM parts WHERE request_id = {id} \
         ORDER BY at_ns LIMIT {}",
        MOST_STEPS + 1
    );
    let sums = format!(
        "SELECT part, culprit, sum(duration_ns) AS ns, count(*) AS steps FROM parts WHERE request_id = {id} \
         GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT {MOST_STEPS}"
    );
    let found = opened.ask(|tables| {
        let Some(request) = objects(tables, &request, 1)?.pop() else { return Ok(None) };
        let mut steps = objects(tables, &steps, usize::MAX)?;
        let is_cut = steps.len() > MOST_STEPS;
        steps.truncate(MOST_STEPS);
        let sums = objects(tables, &sums, usize::MAX)?;
        Ok(Some(json!({ "request": request, "steps": steps, "steps_are_cut": is_cut, "sums": sums })))
    })?;
    found.ok_or(Refusal::NoRequest(id))
}

/// Values of a column for the choice of a filter, most frequent first.
pub(crate) fn choices(opened: &Opened) -> Result<Value, Refusal> {
    const MOST: usize = 200;
    opened.ask(|tables| {
        let mut of = |column: &str| {
            let sql = format!("SELECT {column}, count(*) FROM requests GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {MOST}");
            let mut all = Vec::new();
            tables.ask(&sql, &mut |_| {}, &mut |row| {
                all.push(Value::Array(row.iter().map(value).collect()));
                true
            })?;
            Ok::<_, weir_query::QueryError>(Value::Array(all))
        };
        Ok(json!({ "class": of("class")?, "status": of("status")?, "outcome": of("outcome")? }))
    })
}
