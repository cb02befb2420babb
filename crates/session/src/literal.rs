//! Perl's data literals, as configuration files of Perl programs hold them; nothing is evaluated.
//!
//! Read are assignments of literals to variables, `use` lines and calls of HTTP::Monkeywrench; a later literal may
//! name an earlier variable, and texts may be joined with a dot.

use crate::specification::{SyntaxError, quoted};
use std::collections::BTreeMap;

/// Literals may stand in literals so deep.
const DEPTH_MAX: usize = 32;
/// What variables that name variables may grow to, in values.
const VALUES_MAX: usize = 1 << 20;

/// A literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Literal {
    /// `undef`.
    Undef,
    /// A string or a number, as written.
    Text(String),
    /// `qr/…/flags`.
    Regex {
        /// The pattern.
        pattern: String,
        /// What stands behind it.
        flags: String,
    },
    /// `[ … ]` or `( … )`.
    List(Vec<Literal>),
    /// `{ … }`, with its line.
    Map(usize, Vec<(String, Literal)>),
}

impl Literal {
    fn values(&self) -> usize {
        match self {
            Self::List(items) => 1 + items.iter().map(Self::values).sum::<usize>(),
            Self::Map(_, pairs) => 1 + pairs.iter().map(|(_, value)| value.values()).sum::<usize>(),
            _ => 1,
        }
    }
}

/// The literals of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Literals {
    /// Variables (without their sign) and their values, in order; a literal without a variable has an empty name.
    pub named: Vec<(String, Literal)>,
    /// The variables that the last call of the module's `test` names, in order.
    pub tested: Option<Vec<String>>,
}

/// Reads a file; `variable` answers `$ENV{NAME}`.
///
/// # Errors
/// The first thing that is neither a literal nor one of the statements that are passed over, with its line.
pub fn parse(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Literals, SyntaxError> {
    let mut reader = Reader { text, at: 0, variable, known: BTreeMap::new(), values: 0 };
    let mut found = Literals::default();
    loop {
        reader.skip_blank();
        let rest = reader.rest();
        if rest.is_empty() || ["__END__", "__DATA__"].iter().any(|end| rest.starts_with(end)) {
            return Ok(found);
        }
        reader.statement(&mut found)?;
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    variable: &'t dyn Fn(&str) -> Option<String>,
    known: BTreeMap<String, Literal>,
    values: usize,
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn next(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn wrong<T>(&self, what: impl Into<String>) -> Result<T, SyntaxError> {
        let line = 1 + self.text[..self.at].bytes().filter(|byte| *byte == b'\n').count();
        Err(SyntaxError { line, what: what.into() })
    }

    fn near(&self) -> String {
        self.rest().lines().next().unwrap_or_default().chars().take(40).collect()
    }

    /// White space, comments and documentation.
    fn skip_blank(&mut self) {
        loop {
            let rest = self.rest();
            self.at += rest.len() - rest.trim_start().len();
            let rest = self.rest();
            let at_line_begin = self.at == 0 || self.text[..self.at].ends_with('\n');
            if rest.starts_with('#') {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if at_line_begin && rest.starts_with('=') && rest[1..].starts_with(|next: char| next.is_alphabetic())
            {
                let end = rest.find("\n=cut").map_or(rest.len(), |cut| {
                    let after = &rest[cut + 1..];
                    cut + 1 + after.find('\n').unwrap_or(after.len())
                });
                self.at += end;
            } else {
                return;
            }
        }
    }

    fn takes(&mut self, sign: &str) -> bool {
        self.skip_blank();
        let takes = self.rest().starts_with(sign);
        if takes {
            self.at += sign.len();
        }
        takes
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let rest = self.rest();
        let takes = rest.starts_with(word) && !rest[word.len()..].starts_with(is_word);
        if takes {
            self.at += word.len();
        }
        takes
    }

    /// A name, possibly of a package.
    fn name(&mut self) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|letter| !is_word(letter) && letter != ':').unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn statement(&mut self, found: &mut Literals) -> Result<(), SyntaxError> {
        if self.takes(";") {
            return Ok(());
        }
        if ["use", "no", "package", "require"].into_iter().any(|word| self.takes_word(word)) {
            return self.skip_statement();
        }
        let declared = ["my", "our", "local"].into_iter().any(|word| self.takes_word(word));
        self.skip_blank();
        if let Some(sign @ ('$' | '@' | '%')) = self.next() {
            let begin = self.at;
            self.at += 1;
            let name = self.name().to_owned();
            if self.takes("=") && !self.rest().starts_with(['=', '~']) {
                self.skip_blank();
                if self.rest().starts_with("HTTP::Monkeywrench->") {
                    return self.call(found);
                }
                let mut value = self.value(0)?;
                if sign == '%'
                    && let Literal::List(items) = value
                {
                    value = self.map(items)?;
                }
                self.known.insert(name.clone(), value.clone());
                found.named.push((name, value));
                return self.end_of_statement();
            }
            self.skip_blank();
            if self.rest().starts_with("->") {
                return self.call(found);
            }
            self.at = begin;
        } else if declared || self.rest().starts_with("HTTP::Monkeywrench->") {
            return self.call(found);
        } else if self.rest().starts_with(['[', '{', '(', '1']) {
            let value = self.value(0)?;
            if !matches!(value, Literal::Text(_)) {
                found.named.push((String::new(), value));
            }
            return self.end_of_statement();
        }
        let near = self.near();
        self.wrong(format!(
            "`{near}` is not evaluated; only literals assigned to variables, `use` lines and calls of HTTP::Monkeywrench \
             are read: leave the rest out"
        ))
    }

    /// A call of the module: the variables that it names are noted.
    fn call(&mut self, found: &mut Literals) -> Result<(), SyntaxError> {
        let begin = self.at;
        self.skip_statement()?;
        let statement = &self.text[begin..self.at];
        if let Some((_, arguments)) = statement.split_once("->test") {
            let names = arguments.split(['$', '@', '%']).skip(1);
            let names = names.map(|name| name.split(|letter| !is_word(letter)).next().unwrap_or_default().to_owned());
            found.tested = Some(names.collect());
        }
        Ok(())
    }

    fn skip_statement(&mut self) -> Result<(), SyntaxError> {
        match self.rest().find(';') {
            Some(end) => {
                self.at += end + 1;
                Ok(())
            }
            None => self.wrong("the statement has no semicolon at its end"),
        }
    }

    fn end_of_statement(&mut self) -> Result<(), SyntaxError> {
        self.skip_blank();
        if self.rest().is_empty() || self.takes(";") {
            return Ok(());
        }
        let near = self.near();
        self.wrong(format!("a semicolon is expected before `{near}`"))
    }

    fn value(&mut self, depth: usize) -> Result<Literal, SyntaxError> {
        let mut value = self.term(depth)?;
        while self.takes(".") {
            let next = self.term(depth)?;
            let (Literal::Text(begin), Literal::Text(end)) = (value, next) else {
                return self.wrong("only texts can be joined with a dot");
            };
            value = Literal::Text(begin + &end);
        }
        Ok(value)
    }

    fn term(&mut self, depth: usize) -> Result<Literal, SyntaxError> {
        if depth == DEPTH_MAX {
            return self.wrong(format!("literals stand in literals more than {DEPTH_MAX} deep"));
        }
        self.skip_blank();
        let Some(letter) = self.next() else { return self.wrong("a value is expected at the end of the file") };
        match letter {
            '[' => Ok(Literal::List(self.items(']', depth)?)),
            '(' => Ok(Literal::List(self.items(')', depth)?)),
            '{' => {
                let line = 1 + self.text[..self.at].bytes().filter(|byte| *byte == b'\n').count();
                let items = self.items('}', depth)?;
                match self.map(items)? {
                    Literal::Map(_, pairs) => Ok(Literal::Map(line, pairs)),
                    other => Ok(other),
                }
            }
            '\'' | '"' => {
                let (text, length) = match quoted::parse(self.rest(), letter, self.variable) {
                    Ok(read) => read,
                    Err(error) => return self.wrong(error.to_string()),
                };
                self.at += length;
                Ok(Literal::Text(text))
            }
            '\\' | '$' | '@' | '%' => self.named_before(),
            '0'..='9' | '-' | '+' => Ok(Literal::Text(self.number())),
            letter if is_word(letter) => self.word(),
            _ => {
                let near = self.near();
                self.wrong(format!("a literal is expected, not `{near}`"))
            }
        }
    }

    fn number(&mut self) -> String {
        let rest = self.rest();
        let end = rest[1..].find(|letter| !is_word(letter) && letter != '.').map_or(rest.len(), |end| end + 1);
        self.at += end;
        rest[..end].to_owned()
    }

    /// The value of a variable that was assigned before.
    fn named_before(&mut self) -> Result<Literal, SyntaxError> {
        let begin = self.at;
        self.at += self.rest().len() - self.rest().trim_start_matches(['\\', '$', '@', '%']).len();
        let sign = &self.text[begin..self.at];
        let name = self.name();
        if name == "ENV" && sign == "$" {
            let named = self.rest().strip_prefix('{').and_then(|rest| rest.split_once('}'));
            let Some((named, _)) = named else { return self.wrong("$ENV{NAME} is expected") };
            self.at += named.len() + 2;
            let key = named.trim().trim_matches(['\'', '"']);
            return match (self.variable)(key) {
                Some(value) => Ok(Literal::Text(value)),
                None => self.wrong(format!("the environment variable {key} is not set")),
            };
        }
        let Some(value) = self.known.get(name) else {
            return self.wrong(format!("{sign}{name} has no literal before; Perl is not evaluated: write the value"));
        };
        self.values += value.values();
        if self.values > VALUES_MAX {
            return self.wrong(format!("more than {VALUES_MAX} values by variables that name variables"));
        }
        Ok(value.clone())
    }

    /// `undef`, `qr//`, `q{}`, `qw()`, or a word that names a key.
    fn word(&mut self) -> Result<Literal, SyntaxError> {
        let begin = self.at;
        let name = self.name();
        let delimited = ["q", "qq", "qr", "qw"].contains(&name);
        let key_follows = self.rest().trim_start().starts_with("=>");
        if delimited && !key_follows {
            let rest = self.rest();
            // Only signs that touch, or brackets behind white space, are taken: `q` could be a key, too.
            self.at += rest.len() - rest.trim_start().len();
            let text = self.delimited()?;
            return match name {
                "q" => Ok(Literal::Text(text.to_owned())),
                "qw" => Ok(Literal::List(text.split_whitespace().map(|word| Literal::Text(word.to_owned())).collect())),
                "qr" => {
                    let rest = self.rest();
                    let end = rest.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(rest.len());
                    self.at += end;
                    Ok(Literal::Regex { pattern: text.to_owned(), flags: rest[..end].to_owned() })
                }
                _ => {
                    let quoted = format!("\"{}\"", text.replace('"', "\\\""));
                    match quoted::parse(&quoted, '"', self.variable) {
                        Ok((text, _)) => Ok(Literal::Text(text)),
                        Err(error) => self.wrong(error.to_string()),
                    }
                }
            };
        }
        if key_follows {
            return Ok(Literal::Text(name.to_owned()));
        }
        if name == "undef" {
            return Ok(Literal::Undef);
        }
        self.at = begin;
        self.wrong(format!("`{name}` is not a literal, and Perl is not evaluated: write its value, a text in quotes"))
    }

    /// What stands between two delimiters, brackets within brackets counted.
    fn delimited(&mut self) -> Result<&'t str, SyntaxError> {
        let rest = self.rest();
        let Some(open) = rest.chars().next().filter(|open| !is_word(*open) && !open.is_whitespace()) else {
            return self.wrong("a delimiter is expected");
        };
        let close = match open {
            '(' => ')',
            '[' => ']',
            '{' => '}',
            '<' => '>',
            other => other,
        };
        let (mut depth, mut escaped) = (1, false);
        for (at, letter) in rest.char_indices().skip(1) {
            match letter {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                _ if letter == close => {
                    depth -= 1;
                    if depth == 0 {
                        self.at += at + letter.len_utf8();
                        return Ok(&rest[open.len_utf8()..at]);
                    }
                }
                _ if letter == open => depth += 1,
                _ => {}
            }
        }
        self.wrong(format!("{open} has no closing {close}"))
    }

    fn items(&mut self, close: char, depth: usize) -> Result<Vec<Literal>, SyntaxError> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.skip_blank();
            match self.next() {
                None => return self.wrong(format!("a closing {close} is missing")),
                Some(letter) if letter == close => {
                    self.at += 1;
                    return Ok(items);
                }
                Some(',') => self.at += 1,
                Some('=') if self.rest().starts_with("=>") => self.at += 2,
                Some(_) => {
                    items.push(self.value(depth + 1)?);
                    self.skip_blank();
                    let separated = self.rest().starts_with(',') || self.rest().starts_with("=>");
                    if !separated && !self.rest().starts_with(close) {
                        let near = self.near();
                        return self.wrong(format!("a comma or {close} is expected before `{near}`"));
                    }
                }
            }
        }
    }

    /// Keys and values in turn.
    fn map(&self, items: Vec<Literal>) -> Result<Literal, SyntaxError> {
        let mut pairs = Vec::with_capacity(items.len() / 2);
        let mut items = items.into_iter();
        while let Some(key) = items.next() {
            let Literal::Text(key) = key else { return self.wrong("a key is a text") };
            let Some(value) = items.next() else { return self.wrong(format!("the key {key} has no value")) };
            pairs.push((key, value));
        }
        Ok(Literal::Map(1 + self.text[..self.at].bytes().filter(|byte| *byte == b'\n').count(), pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Literals, SyntaxError> {
        parse(text, &|name| (name == "PORT").then(|| "81".to_owned()))
    }

    fn text(value: &str) -> Literal {
        Literal::Text(value.to_owned())
    }

    #[test]
    fn a_program_of_the_modules_users_is_read() {
        let source = "#!/usr/bin/perl -w\nuse strict;\nuse HTTP::Monkeywrench;\n\n=pod\n\nmy $no = [];\n\n=cut\n\n\
            my $base = 'http://a:' . $ENV{PORT};\nmy $one = [\n\t{ name => 'Front', url => $base . '/', # comment\n\
            \t  params => { q => 'x', 'y' => \"z\\n\" }, success_res => [qr/Mon\\/key/i, 'text',], n => -1.5 },\n];\n\
            our @two = ( { url => q{http://b/{x}}, w => [qw(a b)], u => undef } );\n\
            my %settings = ( show_cookies => 1 );\nHTTP::Monkeywrench->test(\\%settings, \\@two, $one);\n1;\n__END__\n{";
        let read = read(source).unwrap();
        let names: Vec<&str> = read.named.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["base", "one", "two", "settings"]);
        assert_eq!(read.tested, Some(["settings", "two", "one"].map(str::to_owned).to_vec()));
        let Literal::List(clicks) = &read.named[1].1 else { panic!("{read:?}") };
        let Literal::Map(13, pairs) = &clicks[0] else { panic!("{clicks:?}") };
        assert_eq!(pairs[1], ("url".to_owned(), text("http://a:81/")));
        let regex = Literal::Regex { pattern: "Mon\\/key".to_owned(), flags: "i".to_owned() };
        assert_eq!(pairs[3], ("success_res".to_owned(), Literal::List(vec![regex, text("text")])));
        assert_eq!(pairs[4].1, text("-1.5"));
    }

    #[test]
    fn what_is_no_literal_is_refused_with_its_line() {
        for (source, line, told) in [
            ("my $a = [\n foo(),\n];", 2, "not a literal"),
            ("my $a = [ $b ];", 1, "$b has no literal"),
            ("print 1;", 1, "not evaluated"),
            ("my $a = [ 'x' 'y' ];", 1, "a comma"),
            ("my $a = [\n\n", 3, "closing ]"),
            ("my $a = { 'x' };", 1, "no value"),
            ("my $a = `rm x`;", 1, "literal is expected"),
            ("my $a = qr/x", 1, "no closing"),
        ] {
            let error = read(source).unwrap_err();
            assert!(error.line == line && error.what.contains(told), "{source}: {error}");
        }
    }

    #[test]
    fn variables_that_name_variables_stay_bounded() {
        let mut source = "my $a0 = ['x','x','x','x','x','x','x','x'];\n".to_owned();
        for n in 1..20 {
            let before = format!("$a{}, ", n - 1).repeat(8);
            source.push_str(&format!("my $a{n} = [{before}];\n"));
        }
        assert!(read(&source).unwrap_err().what.contains("values"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(source in "[a-z$@%=(){}\\[\\]'\"qwr/,.;> \n\\\\]{0,60}") {
            let _either = read(&source);
        }

        #[test]
        fn texts_come_back(value in "\\PC{0,20}") {
            let quoted = value.replace('\\', "\\\\").replace('\'', "\\'");
            let read = read(&format!("my $a = '{quoted}';")).unwrap();
            prop_assert_eq!(&read.named[0].1, &Literal::Text(value));
        }
    }
}
