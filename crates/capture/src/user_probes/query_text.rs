//! Queries without private values: literals and comments go, and lists of literals count as one.
//!
//! So the text says which query it is, and never with which values. Where a database's settings decide whether a text
//! literal has ended (a backslash before a quote), everything after it is hidden.

/// How a database writes queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// PostgreSQL: `"` quotes names, `$tag$` quotes text, comments nest.
    PostgreSql,
    /// MariaDB and MySQL: `"` quotes text, a backquote names, `#` begins a comment.
    MySql,
}

/// The longest text that is given, bytes.
const LONGEST: usize = 1000;
/// What stands for a literal.
const HIDDEN: char = '?';
/// What stands for what was cut off.
const CUT: char = '…';

/// A query with `?` in the place of each literal, on one line, cut after 1000 bytes; `is_cut` if the text goes on beyond
/// what was read.
#[must_use]
pub fn normalised(query: &str, dialect: Dialect, is_cut: bool) -> String {
    let mut scanner = Scanner { rest: query, dialect, out: String::with_capacity(query.len().min(LONGEST)) };
    let whole = scanner.run();
    let mut out = scanner.out;
    out.truncate(out.trim_end().len());
    shortened(&mut out, is_cut || !whole);
    out
}

/// What a server calls a request, without its query: from `GET /a?b HTTP/1.1` or `/a?b`.
#[must_use]
pub fn without_query(request: &str) -> String {
    // The protocol goes first, for a query may hold anything.
    let named =
        request.rsplit_once(' ').filter(|(_, last)| last.starts_with("HTTP/")).map_or(request, |(name, _)| name);
    let mut name = match named.split_once('?') {
        Some((name, _)) => name.to_owned(),
        None => named.to_owned(),
    };
    name.retain(|symbol| !symbol.is_control());
    shortened(&mut name, false);
    name
}

/// A text on one line and within the bound, otherwise as it is.
#[must_use]
pub(super) fn whole(text: &str, is_cut: bool) -> String {
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    shortened(&mut text, is_cut);
    text
}

fn shortened(text: &mut String, is_cut: bool) {
    let cut = text.len() > LONGEST;
    if cut {
        let end = (0..=LONGEST).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    if cut || is_cut {
        text.push(CUT);
    }
}

struct Scanner<'q> {
    rest: &'q str,
    dialect: Dialect,
    out: String,
}

impl Scanner<'_> {
    /// Scans to the end; false if the rest had to be hidden.
    fn run(&mut self) -> bool {
        while let Some(first) = self.rest.chars().next() {
            let known = match first {
                _ if first.is_whitespace() => self.space(),
                '\'' => self.literal('\''),
                '"' if self.dialect == Dialect::MySql => self.literal('"'),
                '"' => self.quoted_name('"'),
                '`' => self.quoted_name('`'),
                '-' if self.begins_line_comment() => self.line_comment(),
                '#' if self.dialect == Dialect::MySql => self.line_comment(),
                '/' if self.rest.starts_with("/*") => self.block_comment(),
                '$' if self.dialect == Dialect::PostgreSql => self.dollar(),
                '0'..='9' => self.number(),
                '.' if self.rest[1..].starts_with(|next: char| next.is_ascii_digit()) && !self.follows_name() => {
                    self.number()
                }
                _ if is_name(first) => self.word(),
                _ => self.symbol(first),
            };
            if !known {
                return false;
            }
        }
        true
    }

    fn take(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn space(&mut self) -> bool {
        self.rest = self.rest.trim_start();
        if !self.out.is_empty() && !self.out.ends_with(' ') {
            self.out.push(' ');
        }
        true
    }

    /// A literal was left out; of several in a row, one is shown.
    fn hide(&mut self) -> bool {
        let before = self.out.trim_end();
        if let Some(list) = before.strip_suffix(',').map(str::trim_end)
            && list.ends_with(HIDDEN)
        {
            self.out.truncate(list.len());
        } else if !before.ends_with(HIDDEN) {
            self.out.push(HIDDEN);
        }
        true
    }

    fn symbol(&mut self, symbol: char) -> bool {
        self.take(symbol.len_utf8());
        // A placeholder is as good as a literal.
        if symbol == HIDDEN {
            return self.hide();
        }
        self.out.push(if symbol.is_control() { ' ' } else { symbol });
        // Rows of literals are a list of one.
        if symbol == ')'
            && let Some(list) = self.out.strip_suffix("(?)").map(str::trim_end)
            && let Some(list) = list.strip_suffix(',').map(str::trim_end)
            && list.ends_with("(?)")
        {
            self.out.truncate(list.len());
        }
        true
    }

    /// A text literal up to its closing quote; a doubled quote is part of it.
    fn literal(&mut self, quote: char) -> bool {
        self.take(1);
        loop {
            let Some(at) = self.rest.find([quote, '\\']) else {
                // It goes on beyond what was read.
                self.rest = "";
                return self.hide();
            };
            let escape = self.rest[at..].starts_with('\\');
            self.take(at + 1);
            match self.rest.chars().next() {
                // Whether this quote ends the literal, the database's settings decide.
                Some(next) if escape && (next == quote || next == '\\') => {
                    self.rest = "";
                    self.hide();
                    return false;
                }
                _ if escape => {}
                Some(next) if next == quote => self.take(1),
                _ => return self.hide(),
            }
        }
    }

    /// A name in quotes, which stays.
    fn quoted_name(&mut self, quote: char) -> bool {
        let Some(end) = self.rest[1..].find(quote) else {
            self.rest = "";
            return false;
        };
        let (name, rest) = self.rest.split_at(end + 2);
        self.out.extend(name.chars().map(|symbol| if symbol.is_control() { ' ' } else { symbol }));
        self.rest = rest;
        true
    }

    fn begins_line_comment(&self) -> bool {
        let after = self.rest.strip_prefix("--");
        match self.dialect {
            Dialect::PostgreSql => after.is_some(),
            // For MySQL only where something empty follows, else it is two signs.
            Dialect::MySql => after
                .is_some_and(|after| after.chars().next().is_none_or(|next| next.is_whitespace() || next.is_control())),
        }
    }

    fn line_comment(&mut self) -> bool {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        self.take(end);
        self.space()
    }

    fn block_comment(&mut self) -> bool {
        self.take(2);
        let mut depth = 1;
        while depth > 0 {
            let Some(at) = self.rest.find(['*', '/']) else {
                self.rest = "";
                return false;
            };
            self.take(at);
            if self.rest.starts_with("*/") {
                depth -= 1;
                self.take(2);
            } else if self.rest.starts_with("/*") && self.dialect == Dialect::PostgreSql {
                depth += 1;
                self.take(2);
            } else {
                self.take(1);
            }
        }
        self.space()
    }

    /// PostgreSQL's `$1` and `$tag$text$tag$`.
    fn dollar(&mut self) -> bool {
        let tag =
            self.rest[1..].find(|symbol: char| !is_name(symbol) || symbol == '$').map_or(self.rest.len(), |at| at + 1);
        let is_text =
            self.rest[tag..].starts_with('$') && !self.rest[1..].starts_with(|first: char| first.is_ascii_digit());
        if !is_text {
            self.take(tag);
            return self.hide();
        }
        let (delimiter, text) = self.rest.split_at(tag + 1);
        self.rest = text.find(delimiter).map_or("", |end| &text[end + delimiter.len()..]);
        self.hide()
    }

    fn number(&mut self) -> bool {
        let mut end = 0;
        let mut before = ' ';
        for symbol in self.rest.chars() {
            let sign = matches!(symbol, '+' | '-') && matches!(before, 'e' | 'E') && !self.rest.starts_with("0x");
            if !(symbol.is_alphanumeric() || symbol == '.' || symbol == '_' || sign) {
                break;
            }
            (before, end) = (symbol, end + symbol.len_utf8());
        }
        self.take(end);
        self.hide()
    }

    /// A word, or the letter before a literal of a special sort.
    fn word(&mut self) -> bool {
        let end = self.rest.find(|symbol: char| !is_name(symbol)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        let special = matches!(word, "e" | "E" | "b" | "B" | "x" | "X" | "n" | "N") && rest.starts_with('\'');
        let unicode = matches!(word, "u" | "U") && rest.starts_with("&'");
        self.rest = rest;
        if special || unicode {
            self.take(usize::from(unicode));
            return self.literal('\'');
        }
        self.out.push_str(word);
        true
    }

    fn follows_name(&self) -> bool {
        self.out.ends_with(|last: char| is_name(last) || matches!(last, '"' | '`'))
    }
}

fn is_name(symbol: char) -> bool {
    symbol.is_alphanumeric() || symbol == '_' || symbol == '$'
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn literals_go_and_names_stay() {
        for (query, expected) in [
            ("SELECT * FROM t1 WHERE id = 42 AND name = 'O''Brien'", "SELECT * FROM t1 WHERE id = ? AND name = ?"),
            ("select  a,\n\tb from \"T\" -- who\n where x IN (1, 2,3)", "select a, b from \"T\" where x IN (?)"),
            ("INSERT INTO t VALUES (1, 'a'), (2, 'b'),(3,'c')", "INSERT INTO t VALUES (?)"),
            (
                "SELECT $1::int, t.c FROM s.t WHERE d > 1.5e-3 LIMIT 10",
                "SELECT ?::int, t.c FROM s.t WHERE d > ? LIMIT ?",
            ),
            ("SELECT $x$secret$x$, $$more$$, E'a\\n', x'ff'", "SELECT ?"),
            ("SELECT pg_sleep(0.05) /* by: me /* nested */ */;", "SELECT pg_sleep(?) ;"),
            ("UPDATE t SET a=.5,b=0x1F,c=-7 WHERE d#>>'{a}' = 'b'", "UPDATE t SET a=?,b=?,c=-? WHERE d#>>? = ?"),
            ("SELECT 'unfinished secret", "SELECT ?"),
            ("", ""),
        ] {
            assert_eq!(normalised(query, Dialect::PostgreSql, false), expected);
        }
        for (query, expected) in [
            ("SELECT `a b` FROM t WHERE x = \"secret\" # why", "SELECT `a b` FROM t WHERE x = ?"),
            ("SELECT 5--3, 6 -- rest", "SELECT ?--?"),
            ("SELECT ? FROM t WHERE a IN (?, ?, ?)", "SELECT ? FROM t WHERE a IN (?)"),
        ] {
            assert_eq!(normalised(query, Dialect::MySql, false), expected);
        }
    }

    #[test]
    fn what_may_or_may_not_be_text_is_hidden() {
        for dialect in [Dialect::PostgreSql, Dialect::MySql] {
            assert_eq!(normalised("SELECT 'a\\' , secret '", dialect, false), "SELECT ?…");
            assert_eq!(normalised("SELECT 'a\\\\' , secret '", dialect, false), "SELECT ?…");
        }
        assert_eq!(normalised("SELECT a FROM", Dialect::PostgreSql, true), "SELECT a FROM…");
        assert_eq!(normalised("a /* open secret", Dialect::MySql, false), "a…");
    }

    #[test]
    fn requests_lose_their_query() {
        for (request, name) in [
            ("GET /a/b?token=1 HTTP/1.1", "GET /a/b"),
            ("GET /a HTTP/1.0", "GET /a"),
            ("/index.php?x=1 2", "/index.php"),
            ("/a", "/a"),
            ("POST /a?x HTTP/1.1 HTTP/1.1", "POST /a"),
        ] {
            assert_eq!(without_query(request), name);
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(query in "\\PC{0,200}", cut: bool) {
            for dialect in [Dialect::PostgreSql, Dialect::MySql] {
                let text = normalised(&query, dialect, cut);
                prop_assert!(text.len() <= LONGEST + CUT.len_utf8());
                prop_assert!(!text.contains(char::is_control));
            }
        }

        /// Nothing of a literal is shown if the program writes the literal as it must.
        #[test]
        fn no_value_is_shown(value in "[A-Z'\" ;,()#$/*-]{0,40}", number: u64, mysql: bool) {
            let dialect = if mysql { Dialect::MySql } else { Dialect::PostgreSql };
            let query = format!("select a from t where b = '{}' and c = {number} order by d", value.replace('\'', "''"));
            prop_assert_eq!(normalised(&query, dialect, false), "select a from t where b = ? and c = ? order by d");
        }

        /// Normalised once is normalised for good.
        #[test]
        fn twice_is_once(query in "[a-z0-9 ,()?'=.]{0,80}") {
            let once = normalised(&query, Dialect::PostgreSql, false);
            prop_assert_eq!(normalised(&once, Dialect::PostgreSql, false), once);
        }
    }
}
