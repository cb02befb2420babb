//! Writes a policy the way all are written; comments stay where they are.

use super::mistake::Findings;
use super::parse::parse;
use super::token::{Kind, Token, spaced, tokens};
use weir_diagnostic::Mistake;

/// Columns of a line; longer rules go on in the next.
const WIDTH: usize = 100;
const INDENT: &str = "    ";

/// Formats a policy that is well-formed; formatting again changes nothing.
///
/// # Errors
/// The mistakes, in the order of the lines, if it is not.
pub fn format_policy(text: &str) -> Result<String, Vec<Mistake>> {
    let mut findings = Findings::new(text);
    parse(text, &mut findings);
    if !findings.mistakes.is_empty() {
        findings.mistakes.sort();
        return Err(findings.mistakes);
    }
    let tokens = tokens(text, &mut findings);
    let mut writer = Writer { text, out: String::new(), depth: 0 };
    let mut at = 0;
    while at < tokens.len() {
        at = writer.piece(&tokens, at);
    }
    Ok(writer.out)
}

struct Writer<'t> {
    text: &'t str,
    out: String,
    depth: usize,
}

impl<'t> Writer<'t> {
    fn word(&self, token: &Token) -> &'t str {
        &self.text[token.start..token.end]
    }

    /// Writes the comment, brace or statement that begins at a token; the number of the token behind it.
    fn piece(&mut self, tokens: &[Token], at: usize) -> usize {
        let first = &tokens[at];
        self.keep_empty_line(at.checked_sub(1).map(|before| &tokens[before]), first);
        if first.kind == Kind::Comment {
            self.line(self.depth, self.word(first).trim_end());
            return at + 1;
        }
        if self.word(first) == "}" {
            self.depth = self.depth.saturating_sub(1);
            self.line(self.depth, "}");
            return self.comment_behind(tokens, at + 1);
        }
        let is_atom = self.word(first) == "atom";
        let ends = |token: &Token| token.kind == Kind::Symbol && self.word(token) == if is_atom { "{" } else { ";" };
        let end = tokens[at..].iter().position(ends).map_or(tokens.len(), |length| at + length + 1);
        self.statement(&tokens[at..end]);
        if is_atom {
            self.depth += 1;
        }
        self.comment_behind(tokens, end)
    }

    fn line(&mut self, depth: usize, text: &str) {
        self.out.push_str(&INDENT.repeat(depth));
        self.out.push_str(text);
        self.out.push('\n');
    }

    /// An empty line between two pieces stays, several become one.
    fn keep_empty_line(&mut self, before: Option<&Token>, first: &Token) {
        let Some(before) = before else { return };
        let between = &self.text[before.end..first.start];
        let closes = self.word(first) == "}" && first.kind == Kind::Symbol;
        if between.matches('\n').count() > 1 && !closes && !self.out.ends_with("{\n") {
            self.out.push('\n');
        }
    }

    /// A comment that stands in the line of what was just written stays there.
    fn comment_behind(&mut self, tokens: &[Token], at: usize) -> usize {
        let Some(comment) = tokens.get(at).filter(|token| token.kind == Kind::Comment) else { return at };
        if self.text[tokens[at - 1].end..comment.start].contains('\n') {
            return at;
        }
        self.out.pop();
        self.out.push_str("  ");
        self.out.push_str(self.word(comment).trim_end());
        self.out.push('\n');
        at + 1
    }

    /// A statement in one line, if it fits there, else one for each of its parts.
    fn statement(&mut self, tokens: &[Token]) {
        let has_comment = tokens.iter().any(|token| token.kind == Kind::Comment);
        let whole = spaced(self.text, tokens);
        if !has_comment && INDENT.len() * self.depth + whole.chars().count() <= WIDTH {
            return self.line(self.depth, &whole);
        }
        let is_rule = self.word(&tokens[0]) == "rule";
        let mut depth = self.depth;
        let mut begin = 0;
        for at in 1..=tokens.len() {
            let comment_before = tokens[at - 1].kind == Kind::Comment;
            let part = tokens.get(at).is_none_or(|token| {
                comment_before || token.kind == Kind::Comment || (is_rule && self.begins_part(tokens, at))
            });
            // A comment stays in the line of the part that it stands behind.
            let beside = tokens.get(at).is_some_and(|token| {
                token.kind == Kind::Comment && !self.text[tokens[at - 1].end..token.start].contains('\n')
            });
            if part && (comment_before || !beside) {
                let written = self.part(&tokens[begin..at]);
                self.line(depth, &written);
                depth = self.depth + 1;
                begin = at;
            }
        }
    }

    /// Whether a line of a long rule begins with this token.
    fn begins_part(&self, tokens: &[Token], at: usize) -> bool {
        let word = |at: usize| {
            let token = &tokens[at];
            if token.kind == Kind::Word { self.word(token) } else { "" }
        };
        // The name of a rule may be any word.
        at > 2 && matches!(word(at), "then" | "elif" | "else" | "for" | "until" | "hold" | "cooldown" | "limit")
    }

    fn part(&self, tokens: &[Token]) -> String {
        match tokens.split_last() {
            Some((last, before)) if last.kind == Kind::Comment && !before.is_empty() => {
                format!("{}  {}", spaced(self.text, before), self.word(last).trim_end())
            }
            _ => spaced(self.text, tokens).trim_end().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_written_the_usual_way_and_keeps_its_comments() {
        let text = "# all of it\npool  main={n1,n2} ; # two\n\n\n\natom \"/v/*\"{variants full>half;\n\
            # why\nrule fit :at start if bandwidth@client in [30kbps,100kbps) then use half else use full;}\n\
            atom \"/**\" { rule long priority 2: every 30s if max queue@main < 2jobs and cpu@all<30% # idle\n\
            then shed 5%, alert \"idle\" for 300s\n cooldown 300s; }";
        let formatted = format_policy(text).expect("well-formed");
        let expected = "\
# all of it
pool main = { n1, n2 };  # two

atom \"/v/*\" {
    variants full > half;
    # why
    rule fit: at start if bandwidth@client in [30kbps, 100kbps) then use half else use full;
}
atom \"/**\" {
    rule long priority 2: every 30s if max queue@main < 2jobs and cpu@all < 30%  # idle
        then shed 5%, alert \"idle\"
        for 300s
        cooldown 300s;
}
";
        assert_eq!(formatted, expected);
        assert_eq!(format_policy(&formatted).as_deref(), Ok(expected));
    }
}
