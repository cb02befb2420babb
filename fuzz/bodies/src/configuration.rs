//! Servers' configurations, and the queries of a database.

use crate::servers::{Configuration, Syntax, apache, assignments, ini, nginx};
use crate::statements;

/// A configuration in any of the syntaxes: what was read and written again says the same.
pub fn server_configuration(input: &[u8]) {
    let Some((&choice, text)) = input.split_first() else { return };
    let text = String::from_utf8_lossy(text);
    let (syntax, parse): (Syntax, fn(&str, usize) -> _) = match choice % 4 {
        0 => (Syntax::Apache, apache::parse),
        1 => (Syntax::Nginx, nginx::parse),
        2 => (Syntax::Ini, ini::parse),
        _ => (Syntax::Assignments, assignments::parse),
    };
    let Ok(entries) = parse(&text, 0) else { return };
    let read = Configuration { entries, ..Configuration::empty(syntax) };
    for name in read.sections() {
        let _ = read.all(name);
    }
    let lines = text.lines().count();
    for found in read.all("listen") {
        assert!((1..=lines).contains(&found.directive.place.line), "a directive stands where there is no line");
    }
    // Apache's lines can be joined by a backslash, which is not written again; the other syntaxes lose nothing.
    if syntax != Syntax::Apache {
        let again = parse(&read.text(), 0).expect("what we wrote is read");
        let again = Configuration { entries: again, ..Configuration::empty(syntax) };
        assert_eq!(again.text(), read.text());
    }
}

/// Directives of business transactions for `weir serve`: what is wrong is told with a line that is there, and a reason.
pub fn arm_directives(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Err(error) = text.parse::<weir_server::ArmRules>() {
        // A section that is not closed is told of the last line, which an empty text does not have.
        assert!((1..=text.lines().count().max(1)).contains(&error.line), "line {} is not there", error.line);
        assert!(!error.what.is_empty(), "no reason");
    }
}

/// A query: an index that is proposed has columns, and its statement is one line.
pub fn sql(input: &[u8]) {
    let query = String::from_utf8_lossy(input);
    let _ = statements::reads_a_table(&query);
    if let Some(candidate) = statements::candidate(&query) {
        assert!(!candidate.columns.is_empty() && !candidate.table.is_empty());
        assert!(candidate.statement(true).ends_with(");"));
    }
}

/// A configuration of `weir serve`: every mistake has a place in the text, and what is accepted once is so again.
pub fn weir_configuration(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    // Nothing is there, so that no file of this machine is opened by a relative path.
    let folder = std::path::Path::new("/nonexistent");
    match weir_server::parse_configuration(text, folder) {
        Ok(_) => assert!(weir_server::parse_configuration(text, folder).is_ok()),
        Err(mistakes) => {
            assert!(!mistakes.is_empty());
            let lines = text.split('\n').count();
            for mistake in mistakes {
                assert!((1..=lines).contains(&mistake.line) && mistake.column >= 1, "{mistake}");
                let line = text.split('\n').nth(mistake.line - 1).unwrap_or_default();
                assert!(mistake.column <= line.chars().count() + 1, "{mistake}");
                assert!(!mistake.what.is_empty() && !mistake.remedy.is_empty(), "{mistake}");
            }
        }
    }
}
