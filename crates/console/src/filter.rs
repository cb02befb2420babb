//! Which requests a list shows: parameters, read into a question in SQL.
//!
//! It stands alone with `parameters.rs`, so that the fuzz target can drive both.

use super::parameters::{ParameterError, Parameters};
use weir_measure::part::Part;

/// Requests of a page.
const MOST_ROWS: u32 = 200;
const ROWS: u32 = 50;
/// Requests that are counted; there may be more.
pub(crate) const MOST_COUNTED: u64 = 1_000_000;

/// Parameters of the list.
const KNOWN: [&str; 17] = [
    "run", "class", "name", "status", "outcome", "joined", "part", "who", "min_ns", "max_ns", "from_ns", "to_ns",
    "sort", "order", "offset", "limit", "client",
];

/// By what requests are sorted: the name of the parameter's value, and the column.
const SORTS: [(&str, &str); 6] = [
    ("response", "response_ns"),
    ("time", "at_ns"),
    ("name", "name"),
    ("status", "status"),
    ("bytes", "response_bytes"),
    ("part", "part_ns"),
];

/// Which requests, in which order, and which page of them.
#[derive(Debug)]
pub(crate) struct Filter {
    conditions: Vec<String>,
    /// What a request must have spent time in, as a condition on its parts.
    part: Option<String>,
    order: String,
    pub(crate) offset: u64,
    pub(crate) limit: u32,
}

impl Filter {
    /// Reads the parameters.
    pub(crate) fn of(parameters: &Parameters) -> Result<Self, ParameterError> {
        parameters.only(&KNOWN)?;
        let mut conditions = Vec::new();
        for (name, column) in [("class", "class"), ("outcome", "outcome"), ("client", "client")] {
            if let Some(text) = parameters.text(name) {
                conditions.push(format!("{column} = {}", quoted(text)));
            }
        }
        if let Some(text) = parameters.text("name") {
            conditions.push(format!("instr(lower(name), lower({})) > 0", quoted(text)));
        }
        for (name, condition) in [
            ("status", "status ="),
            ("joined", "joined ="),
            ("min_ns", "response_ns >="),
            ("max_ns", "response_ns <="),
            ("from_ns", "at_ns + response_ns >="),
            ("to_ns", "at_ns + response_ns <"),
        ] {
            if let Some(number) = parameters.number::<i64>(name)? {
                conditions.push(format!("{condition} {number}"));
            }
        }
        let part = part_of(parameters)?;
        let order = order_of(parameters, part.is_some())?;
        let limit = parameters.number("limit")?.unwrap_or(ROWS);
        if !(1..=MOST_ROWS).contains(&limit) {
            return Err(wrong("limit", "is not from 1 to 200"));
        }
        let offset: u64 = parameters.number("offset")?.unwrap_or(0);
        if i64::try_from(offset).is_err() {
            return Err(wrong("offset", "is no number in its range"));
        }
        Ok(Self { conditions, part, order, offset, limit })
    }

    /// Which requests there are, in SQL.
    fn source(&self) -> String {
        let conditions = self.conditions.iter().map(|one| format!("({one})")).collect::<Vec<_>>().join(" AND ");
        let conditions = if conditions.is_empty() { "1".to_owned() } else { conditions };
        match &self.part {
            Some(part) => format!(
                "requests JOIN (SELECT request_id, sum(duration_ns) AS part_ns FROM parts WHERE {part} \
                 GROUP BY request_id) AS spent ON spent.request_id = requests.id WHERE {conditions}"
            ),
            None => format!("requests WHERE {conditions}"),
        }
    }

    /// The page, in SQL.
    pub(crate) fn question(&self) -> String {
        let part = if self.part.is_some() { ", part_ns" } else { "" };
        format!(
            "SELECT id, at_ns, response_ns, name, class, status, outcome, joined, unjoinable, response_bytes, client{part} \
             FROM {} ORDER BY {} LIMIT {} OFFSET {}",
            self.source(),
            self.order,
            self.limit,
            self.offset
        )
    }

    /// How many there are, in SQL; counting ends at a bound.
    pub(crate) fn counting(&self) -> String {
        format!("SELECT count(*) FROM (SELECT 1 FROM {} LIMIT {})", self.source(), MOST_COUNTED + 1)
    }
}

fn wrong(name: &str, wrong: &'static str) -> ParameterError {
    ParameterError::new(name, wrong)
}

/// What was asked of a request's parts.
fn part_of(parameters: &Parameters) -> Result<Option<String>, ParameterError> {
    let Some(name) = parameters.text("part") else {
        return if parameters.text("who").is_some() { Err(wrong("who", "needs part as well")) } else { Ok(None) };
    };
    if !Part::ALL.iter().any(|part| part.name() == name) {
        return Err(wrong("part", "is no part of the response time"));
    }
    let who = parameters.text("who").map(|who| format!(" AND {}", blamed(who))).unwrap_or_default();
    Ok(Some(format!("part = {}{who}", quoted(name))))
}

/// A condition for a culprit as the explanation names it: several processes of one name stand there as one.
fn blamed(who: &str) -> String {
    let several = who.rsplit_once(" (").filter(|(_, rest)| {
        rest.strip_suffix(" processes)").is_some_and(|count| count.chars().all(|digit| digit.is_ascii_digit()))
    });
    match several {
        Some((name, _)) => {
            let start = format!("{name} (");
            format!("substr(culprit, 1, {}) = {}", start.chars().count(), quoted(&start))
        }
        None => format!("culprit = {}", quoted(who)),
    }
}

fn order_of(parameters: &Parameters, has_part: bool) -> Result<String, ParameterError> {
    let sort = parameters.text("sort").unwrap_or(if has_part { "part" } else { "response" });
    let column = SORTS.iter().find(|(name, _)| *name == sort).map(|(_, column)| *column);
    let column = column.ok_or_else(|| wrong("sort", "is none of response, time, name, status, bytes, part"))?;
    if sort == "part" && !has_part {
        return Err(wrong("sort", "by part needs part as well"));
    }
    let order = match parameters.text("order").unwrap_or("desc") {
        "asc" => "ASC",
        "desc" => "DESC",
        _ => return Err(wrong("order", "is neither asc nor desc")),
    };
    // The number makes the order a whole one, so that pages do not overlap.
    Ok(format!("{column} {order}, id"))
}

/// A text as SQL has it. It holds no zero byte: parameters refuse that.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filter(query: &str) -> Result<Filter, ParameterError> {
        Parameters::of(query).and_then(|parameters| Filter::of(&parameters))
    }

    #[test]
    fn a_filter_becomes_a_question() {
        let sql = filter("run=a&class=GET%20/it%27s&min_ns=5&part=wait_cpu&who=rustc%20(2%20processes)&limit=7")
            .expect("a filter")
            .question();
        for piece in [
            "class = 'GET /it''s'",
            "response_ns >= 5",
            "substr(culprit, 1, 7) = 'rustc ('",
            "part_ns DESC, id LIMIT 7",
        ] {
            assert!(sql.contains(piece), "{piece} is not in {sql}");
        }
    }

    #[test]
    fn what_a_filter_cannot_mean_is_refused() {
        for query in [
            "part=elsewhere",
            "who=x",
            "sort=part",
            "sort=id",
            "order=up",
            "limit=0",
            "limit=201",
            "status=x",
            "colour=red",
            "offset=9223372036854775808",
        ] {
            assert!(filter(query).is_err(), "{query}");
        }
    }

    proptest! {
        /// No text ends the string that holds it.
        #[test]
        fn texts_stay_texts(text in "[^\0]{0,40}") {
            let quoted = quoted(&text);
            let within = &quoted[1..quoted.len() - 1];
            prop_assert_eq!(within.replace("''", ""), text.replace('\'', ""));
            prop_assert_eq!(within.replace("''", "'"), text);
        }
    }
}
