//! The syntax of php-fpm's configuration and of php.ini: sections in brackets, `name = value`, comments from `;`.

use super::{Directive, Entry, ParseError, Place};

/// Reads a text. Values before the first section stand outside of any.
///
/// # Errors
/// [`ParseError`] for a section without its closing bracket or a line without a name.
pub(crate) fn parse(text: &str, file: usize) -> Result<Vec<Entry>, ParseError> {
    let mut entries = Vec::new();
    let mut in_section = false;
    for (index, whole) in text.lines().enumerate() {
        let (line, whole) = (index + 1, whole.trim().trim_start_matches('\u{feff}'));
        if whole.is_empty() || whole.starts_with([';', '#']) {
            continue;
        }
        let place = Place { file, line };
        if let Some(rest) = whole.strip_prefix('[') {
            let Some((name, _)) = rest.split_once(']') else {
                return Err(ParseError { line, what: format!("the section {whole:?} has no closing bracket") });
            };
            if std::mem::replace(&mut in_section, true) {
                entries.push(Entry::Close);
            }
            entries.push(Entry::Open(Directive { name: name.trim().to_owned(), raw: String::new(), place }));
            continue;
        }
        let (name, raw) = whole.split_once('=').unwrap_or((whole, ""));
        if name.trim().is_empty() {
            return Err(ParseError { line, what: "a value without a name".to_owned() });
        }
        let raw = without_comment(raw.trim()).to_owned();
        entries.push(Entry::Set(Directive { name: name.trim().to_owned(), raw, place }));
    }
    if in_section {
        entries.push(Entry::Close);
    }
    Ok(entries)
}

/// A value without its quotes.
pub(crate) fn value(raw: &str) -> String {
    let raw = raw.trim();
    let inner = ['"', '\''].iter().find_map(|&quote| raw.strip_prefix(quote)?.strip_suffix(quote));
    inner.unwrap_or(raw).to_owned()
}

/// Whether a value means yes, as PHP understands it.
pub(crate) fn is_on(value: &str) -> bool {
    ["1", "on", "yes", "true"].iter().any(|yes| value.trim().eq_ignore_ascii_case(yes))
}

/// A comment begins at a semicolon outside of quotes.
fn without_comment(raw: &str) -> &str {
    let mut quote = None;
    for (at, character) in raw.char_indices() {
        match (character, quote) {
            ('"' | '\'', None) => quote = Some(character),
            (character, Some(open)) if character == open => quote = None,
            (';', None) => return raw[..at].trim_end(),
            _ => {}
        }
    }
    raw
}

#[cfg(test)]
mod tests {
    use super::super::{Configuration, Syntax};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pools_and_their_values() {
        let text = "; x\n[global]\npid = /run/a.pid\n[www]\npm.max_children = 5 ; few\nphp_admin_value[x] = \"a;b\"\n";
        let entries = parse(text, 0).expect("a configuration");
        let read = Configuration { entries, ..Configuration::empty(Syntax::Ini) };
        assert_eq!(read.sections(), ["global", "www"]);
        let children = read.last("pm.max_children").expect("there");
        assert_eq!((children.word(), children.scope()), ("5", vec!["www".to_owned()]));
        assert_eq!(read.last("php_admin_value[x]").expect("there").word(), "a;b");
        assert!(is_on("On") && is_on("1") && !is_on("0") && !is_on(""));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_line() {
        assert_eq!(parse("\n[a", 0).expect_err("refused").line, 2);
        assert_eq!(parse("=1", 0).expect_err("refused").to_string(), "line 1: a value without a name");
    }

    proptest! {
        #[test]
        fn what_is_written_again_says_the_same(text in "[a-c\\[\\]=;\"' \n.]{0,200}") {
            if let Ok(entries) = parse(&text, 0) {
                let read = Configuration { entries, ..Configuration::empty(Syntax::Ini) };
                let again = Configuration { entries: parse(&read.text(), 0).expect("ours"), ..read.clone() };
                prop_assert_eq!(again.text(), read.text());
            }
        }
    }
}
