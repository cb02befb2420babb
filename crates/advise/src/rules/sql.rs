//! As much of SQL as it takes to propose an index: tables, and the columns that a query compares.

/// Characters of a query that are read.
const MOST_CHARACTERS: usize = 20_000;
/// Columns of an index that is proposed.
const MOST_COLUMNS: usize = 4;

/// An index that could serve a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The table, as the query writes it.
    pub(crate) table: String,
    /// Columns or expressions, those compared for equality first.
    pub(crate) columns: Vec<String>,
}

impl Candidate {
    /// The statement that makes it.
    pub(crate) fn statement(&self, is_postgres: bool) -> String {
        let concurrently = if is_postgres { " CONCURRENTLY" } else { "" };
        let table = self.table.rsplit('.').next().unwrap_or(&self.table);
        let plain = |text: &str| {
            text.chars()
                .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' })
                .collect::<String>()
        };
        let names: Vec<String> = self.columns.iter().map(|column| plain(column).trim_matches('_').to_owned()).collect();
        let name = format!("{}_{}", plain(table).trim_matches('_'), names.join("_"));
        format!("CREATE INDEX{concurrently} {name} ON {} ({});", self.table, self.columns.join(", "))
    }
}

/// The index that a query asks for: the columns of one table that it compares with values. `None` where it compares
/// nothing, or where it cannot be told which table a column belongs to.
pub(crate) fn candidate(query: &str) -> Option<Candidate> {
    let tokens = tokens(query);
    let tables = tables(&tokens);
    let compared = compared(&tokens);
    // The table whose columns are compared most; a column without its table's name belongs to the only one there is.
    let owner = |column: &Column| -> Option<String> {
        match &column.table {
            Some(name) => {
                tables.iter().find(|table| table.alias.eq_ignore_ascii_case(name)).map(|table| table.name.clone())
            }
            None if tables.len() == 1 => tables.first().map(|table| table.name.clone()),
            None => None,
        }
    };
    let mut best: Option<(usize, Candidate)> = None;
    for table in &tables {
        let own: Vec<&Column> =
            compared.iter().filter(|column| owner(column).as_deref() == Some(table.name.as_str())).collect();
        let mut columns: Vec<String> = Vec::new();
        // One range can end an index's use; further ones are only filters.
        let ranges = own.iter().filter(|column| !column.is_equal).take(1);
        for column in own.iter().filter(|column| column.is_equal).chain(ranges) {
            if !columns.contains(&column.name) && columns.len() < MOST_COLUMNS {
                columns.push(column.name.clone());
            }
        }
        if !columns.is_empty() && best.as_ref().is_none_or(|(count, _)| columns.len() > *count) {
            best = Some((columns.len(), Candidate { table: table.name.clone(), columns }));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Whether a query reads any table at all.
pub(crate) fn reads_a_table(query: &str) -> bool {
    !tables(&tokens(query)).is_empty()
}

struct Table {
    name: String,
    alias: String,
}

struct Column {
    table: Option<String>,
    name: String,
    is_equal: bool,
}

/// Words, quoted names, numbers and signs; strings and comments are gone.
fn tokens(query: &str) -> Vec<String> {
    let characters: Vec<char> = query.chars().take(MOST_CHARACTERS).collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&first) = characters.get(at) {
        let begin = at;
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        let end_of = |mut at: usize, fits: &dyn Fn(char) -> bool| {
            while characters.get(at).is_some_and(|&c| fits(c)) {
                at += 1;
            }
            at
        };
        match first {
            c if c.is_whitespace() => {
                at += 1;
                continue;
            }
            '-' if characters.get(at + 1) == Some(&'-') => {
                at = end_of(at, &|c| c != '\n');
                continue;
            }
            '/' if characters.get(at + 1) == Some(&'*') => {
                at += 2;
                while at < characters.len() && !(characters[at] == '*' && characters.get(at + 1) == Some(&'/')) {
                    at += 1;
                }
                at = (at + 2).min(characters.len());
                continue;
            }
            '\'' | '"' | '`' => {
                at = (end_of(at + 1, &|c| c != first) + 1).min(characters.len());
                let text: String = characters[begin..at].iter().collect();
                tokens.push(if first == '\'' { "?".to_owned() } else { text });
                continue;
            }
            c if is_word(c) => at = end_of(at, &is_word),
            '<' | '>' | '=' | '!' | '~' => at = end_of(at, &|c| matches!(c, '<' | '>' | '=' | '!' | '~' | '*')),
            ':' => at = end_of(at, &|c| c == ':'),
            _ => at += 1,
        }
        tokens.push(characters[begin..at].iter().collect());
    }
    tokens
}

fn is_name(token: &str) -> bool {
    token.starts_with(['"', '`']) || (token.starts_with(|c: char| c.is_alphabetic() || c == '_') && !is_keyword(token))
}

fn is_keyword(token: &str) -> bool {
    const KEYWORDS: [&str; 46] = [
        "select", "from", "where", "and", "or", "not", "in", "is", "null", "like", "ilike", "between", "join", "inner",
        "left", "right", "outer", "full", "cross", "on", "using", "as", "group", "order", "by", "having", "limit",
        "offset", "update", "set", "delete", "insert", "into", "values", "union", "all", "distinct", "case", "when",
        "then", "else", "end", "asc", "desc", "only", "lateral",
    ];
    KEYWORDS.iter().any(|keyword| token.eq_ignore_ascii_case(keyword))
}

/// A name with its schema or table before it, and the index behind it.
fn dotted(tokens: &[String], at: usize) -> Option<(String, usize)> {
    let mut name = tokens.get(at).filter(|token| is_name(token))?.clone();
    let mut next = at + 1;
    while tokens.get(next).is_some_and(|token| token == ".") && tokens.get(next + 1).is_some_and(|token| is_name(token))
    {
        name = format!("{name}.{}", tokens[next + 1]);
        next += 2;
    }
    Some((name, next))
}

fn tables(tokens: &[String]) -> Vec<Table> {
    let mut tables = Vec::new();
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| token.eq_ignore_ascii_case(word));
    let mut at = 0;
    while at < tokens.len() {
        let opens = is(at, "from") || is(at, "join") || (is(at, "update") && at == 0);
        at += 1;
        if !opens {
            continue;
        }
        loop {
            if is(at, "only") || is(at, "lateral") {
                at += 1;
            }
            let Some((name, next)) = dotted(tokens, at) else { break };
            // A function that gives rows is no table.
            if is(next, "(") {
                break;
            }
            let aliased = if is(next, "as") { next + 1 } else { next };
            let alias = tokens.get(aliased).filter(|token| is_name(token));
            at = if alias.is_some() { aliased + 1 } else { next };
            let alias = alias.cloned().unwrap_or_else(|| name.rsplit('.').next().unwrap_or(&name).to_owned());
            tables.push(Table { name, alias });
            if !is(at, ",") {
                break;
            }
            at += 1;
        }
    }
    tables
}

/// Columns that are compared with values behind WHERE, and those of joins.
fn compared(tokens: &[String]) -> Vec<Column> {
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| token.eq_ignore_ascii_case(word));
    let mut columns = Vec::new();
    let mut within = false;
    let mut at = 0;
    while at < tokens.len() {
        if is(at, "where") || is(at, "on") {
            within = true;
        } else if ["group", "order", "limit", "having", "select", "set"].iter().any(|word| is(at, word)) {
            within = false;
        }
        let Some((name, mut next)) = dotted(tokens, at).filter(|_| within) else {
            at += 1;
            continue;
        };
        let mut expression = None;
        // A function of one column is what the index must hold.
        if is(next, "(") {
            let inner = dotted(tokens, next + 1).filter(|(_, end)| is(*end, ")"));
            let Some((column, end)) = inner else {
                at = next + 1;
                continue;
            };
            expression = Some(column);
            next = end + 1;
        }
        let (path, function) = expression.map_or((name.clone(), None), |column| (column, Some(name)));
        // A cast does not change which column it is.
        if is(next, "::") {
            next += 2;
        }
        let operator = tokens.get(next).map_or("", String::as_str).to_ascii_lowercase();
        let is_equal = ["=", "in", "is"].contains(&operator.as_str());
        let is_range = ["<", ">", "<=", ">=", "between", "like"].contains(&operator.as_str());
        if is_equal || is_range {
            let (table, column) = match path.rsplit_once('.') {
                Some((table, column)) => {
                    (Some(table.rsplit('.').next().unwrap_or(table).to_owned()), column.to_owned())
                }
                None => (None, path),
            };
            let name = function.map_or(column.clone(), |function| format!("{function}({column})"));
            columns.push(Column { table, name, is_equal });
        }
        at = next.max(at + 1);
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn statement(query: &str) -> Option<String> {
        candidate(query).map(|candidate| candidate.statement(true))
    }

    #[test]
    fn an_index_for_the_columns_that_are_compared() {
        assert_eq!(
            statement("SELECT * FROM orders WHERE customer = ? AND placed > ? ORDER BY placed LIMIT ?").as_deref(),
            Some("CREATE INDEX CONCURRENTLY orders_customer_placed ON orders (customer, placed);")
        );
        assert_eq!(
            statement("select o.id from shop.orders o join items as i on i.order_id = o.id where i.sku in (?, ?) and o.state = 'open'").as_deref(),
            Some("CREATE INDEX CONCURRENTLY items_order_id_sku ON items (order_id, sku);")
        );
        assert_eq!(
            statement("SELECT 1 FROM users WHERE lower(email) = $1 -- x = 1").as_deref(),
            Some("CREATE INDEX CONCURRENTLY users_lower_email ON users (lower(email));")
        );
        assert_eq!(
            statement("UPDATE t SET a = ? WHERE \"B\" = ?").as_deref(),
            Some("CREATE INDEX CONCURRENTLY t_b ON t (\"B\");")
        );
    }

    #[test]
    fn no_index_where_nothing_is_compared_or_the_column_may_be_of_either_table() {
        assert_eq!(statement("SELECT pg_sleep(?)"), None);
        assert_eq!(statement("SELECT * FROM a, b WHERE x = ?"), None);
        assert_eq!(statement("SELECT * FROM a"), None);
        assert!(!reads_a_table("SELECT pg_sleep(?)") && reads_a_table("SELECT 1 FROM a"));
        assert!(!reads_a_table("SELECT * FROM generate_series(?, ?)"));
    }

    proptest! {
        #[test]
        fn any_text_is_read(query in "[a-cS\"'`().,=<>?$*/ \n-]{0,80}") {
            let _ = candidate(&query);
            let _ = candidate(&format!("SELECT * FROM a WHERE {query}"));
        }

        #[test]
        fn every_column_compared_for_equality_is_in_the_index(names in prop::collection::btree_set("c[0-9]{1,4}", 1..4)) {
            let conditions: Vec<String> = names.iter().map(|name| format!("{name} = ?")).collect();
            let found = candidate(&format!("SELECT 1 FROM t WHERE {}", conditions.join(" AND "))).expect("columns are compared");
            prop_assert_eq!(found.columns.into_iter().collect::<std::collections::BTreeSet<_>>(), names);
        }
    }
}
