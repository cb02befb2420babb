//! Reads a policy: pools, atoms and the frame of rules.

use super::cursor::{Cursor, Parsed, Wrong};
use super::mistake::Findings;
use super::syntax::{Atom, Branch, Name, Pool, Rule, Source, Stability, StabilityPlaces, When};
use super::token::Kind;
use super::units;
use super::units::WrongValue;

/// Bytes of a policy; more are none.
pub const POLICY_BYTES_MAX: usize = 1 << 20;

/// Reads a text; what is wrong goes to the findings, and what could be read is returned all the same.
pub(crate) fn parse<'t>(text: &'t str, findings: &mut Findings<'t>) -> Source {
    let mut source = Source::default();
    if text.len() > POLICY_BYTES_MAX {
        findings.wrong(0, format!("the file has more than {POLICY_BYTES_MAX} bytes"), "divide it");
        return source;
    }
    let mut cursor = Cursor::new(text, findings);
    while !cursor.is_at_end() {
        if cursor.is("pool") {
            match pool(&mut cursor) {
                Ok(pool) => source.pools.push(pool),
                Err(Wrong) => cursor.skip_statement(),
            }
        } else if cursor.is("atom") {
            match atom(&mut cursor) {
                Ok(atom) => source.atoms.push(atom),
                Err(Wrong) => cursor.skip_statement(),
            }
        } else {
            let otherwise = if cursor.is("rule") {
                "rules stand in the braces of an atom: atom \"/news/*\" { rule NAME: … }"
            } else {
                "a policy is made of pools and atoms"
            };
            let Wrong = cursor.expected(&["pool", "atom"], otherwise);
            cursor.skip_to(&["pool", "atom"]);
        }
    }
    source
}

/// `pool NAME = { node, … };`
fn pool(cursor: &mut Cursor<'_, '_>) -> Parsed<Pool> {
    cursor.expect("pool")?;
    let name = cursor.name("a pool's name")?;
    cursor.expect("=")?;
    cursor.expect("{")?;
    let mut nodes = vec![cursor.name("a node")?];
    while cursor.take(",") {
        nodes.push(cursor.name("a node")?);
    }
    cursor.expect_one(&["}", ","])?;
    cursor.expect(";")?;
    Ok(Pool { name, nodes })
}

/// `atom GLOB { [variants …;] rule … }`
fn atom(cursor: &mut Cursor<'_, '_>) -> Parsed<Atom> {
    cursor.expect("atom")?;
    let glob = cursor.text("the atoms that the rules are for, such as \"/news/*\"")?;
    cursor.expect("{")?;
    let mut variants = Vec::new();
    if cursor.take("variants") {
        match list_of_variants(cursor) {
            Ok(read) => variants = read,
            Err(Wrong) => cursor.skip_statement(),
        }
    }
    let mut rules = Vec::new();
    while !cursor.take("}") {
        if cursor.is_at_end() {
            return Err(cursor.expected(&["rule", "}"], "the atom's rules end with `}`"));
        }
        if cursor.is("pool") || cursor.is("atom") {
            // Most likely the brace is missing; what follows is read as what it is.
            let Wrong = cursor.expected(&["rule", "}"], "the atom's rules end with `}`");
            break;
        }
        match rule(cursor) {
            Ok(rule) => rules.push(rule),
            Err(Wrong) => cursor.skip_statement(),
        }
    }
    Ok(Atom { glob, variants, rules })
}

fn list_of_variants(cursor: &mut Cursor<'_, '_>) -> Parsed<Vec<Name>> {
    let mut variants = vec![cursor.name("a variant")?];
    while cursor.take(">") {
        variants.push(cursor.name("a variant")?);
    }
    cursor.expect_one(&[";", ">"])?;
    Ok(variants)
}

/// `rule NAME [priority INT]: … ;`
fn rule(cursor: &mut Cursor<'_, '_>) -> Parsed<Rule> {
    cursor.expect("rule")?;
    let name = cursor.any_name("a rule's name")?;
    let priority = if cursor.take("priority") { cursor.integer(0, 1_000_000)? as i32 } else { 0 };
    cursor.expect_one(&[":", "priority"])?;
    let (when, branches) = if cursor.is("select") {
        cursor.expect("select")?;
        (When::Start, vec![Branch { condition: None, acts: vec![cursor.choice()?] }])
    } else {
        (when(cursor)?, branches(cursor)?)
    };
    let stability = stability(cursor)?;
    cursor.expect(";")?;
    Ok(Rule { name, priority, when, branches, stability })
}

fn when(cursor: &mut Cursor<'_, '_>) -> Parsed<When> {
    if cursor.take("at") {
        cursor.expect("start")?;
        return Ok(When::Start);
    }
    if cursor.take("during") {
        return Ok(When::During);
    }
    if cursor.take("every") {
        return Ok(When::Every(cursor.duration_ms()?));
    }
    Err(cursor.expected(
        &["select", "at", "during", "every"],
        "say first when it is looked at: during if …, or every 5s if …",
    ))
}

fn branches(cursor: &mut Cursor<'_, '_>) -> Parsed<Vec<Branch>> {
    cursor.expect("if")?;
    let mut branches = Vec::new();
    loop {
        let condition = Some(cursor.condition()?);
        if cursor.is_action() {
            let what = format!("`then` is missing before `{}`", cursor.now());
            return Err(cursor.wrong(cursor.place(), what, "write then between the condition and what is done"));
        }
        cursor.expect_one(&["then", "and", "or"])?;
        branches.push(Branch { condition, acts: cursor.acts()? });
        if !cursor.take("elif") {
            break;
        }
    }
    if cursor.take("else") {
        if cursor.is("if") {
            return Err(cursor.wrong(cursor.place(), "`else if` is one word here", "write elif"));
        }
        branches.push(Branch { condition: None, acts: cursor.acts()? });
    }
    Ok(branches)
}

/// The clauses behind what is done, each at most once.
fn stability(cursor: &mut Cursor<'_, '_>) -> Parsed<Stability> {
    let mut stability = Stability::default();
    loop {
        let at = cursor.place();
        let Some(which) = StabilityPlaces::WORDS.iter().position(|word| cursor.is(word)) else {
            if cursor.is(";") {
                return Ok(stability);
            }
            let known = [&[";", ",", "elif", "else"][..], &StabilityPlaces::WORDS].concat();
            return Err(cursor.expected(&known, "the rule ends with `;`"));
        };
        let word = StabilityPlaces::WORDS[which];
        cursor.expect(word)?;
        if stability.places.0[which].replace(at).is_some() {
            return Err(cursor.wrong(at, format!("the rule has `{word}` twice"), "leave one of them"));
        }
        match word {
            "for" => stability.for_ms = Some(cursor.duration_ms()?),
            "until" => stability.until = Some(cursor.condition()?),
            "hold" => stability.hold_ms = Some(cursor.duration_ms()?),
            "cooldown" => stability.cooldown_ms = Some(cursor.duration_ms()?),
            _ => {
                let times = cursor.integer(1, 256)?;
                cursor.expect("per")?;
                stability.limit = Some((times, cursor.duration_ms()?));
            }
        }
    }
}

impl Cursor<'_, '_> {
    /// A whole number within bounds.
    pub(crate) fn integer(&mut self, least: u32, most: u32) -> Parsed<u32> {
        let at = self.place();
        if !matches!(self.kind(), Kind::Number | Kind::Quantity) {
            return Err(self.expected_a("a whole number", &format!("write one from {least} to {most}")));
        }
        match self.now().parse() {
            Ok(number) if (least..=most).contains(&number) => {
                self.next();
                Ok(number)
            }
            _ => {
                let what = format!("`{}` is no whole number from {least} to {most}", self.now());
                Err(self.wrong(at, what, "write one of these, without a unit"))
            }
        }
    }

    /// A duration in milliseconds.
    pub(crate) fn duration_ms(&mut self) -> Parsed<u64> {
        let at = self.place();
        if !matches!(self.kind(), Kind::Number | Kind::Quantity) {
            return Err(self.expected_a("a duration", "write one such as 10s or 500ms"));
        }
        let written = self.now().to_owned();
        match units::duration_ms(&written) {
            Ok(duration) => {
                self.next();
                Ok(duration)
            }
            Err(WrongValue::Unit) => Err(self.wrong_unit(&written, &units::duration_names().collect::<Vec<_>>())),
            Err(WrongValue::Number) => {
                let what = format!("`{written}` is no duration from 1ms to a week, in whole milliseconds");
                Err(self.wrong(at, what, "write one such as 10s or 500ms"))
            }
        }
    }

    /// Tells that a unit is missing or unknown.
    pub(crate) fn wrong_unit(&mut self, written: &str, units: &[&str]) -> Wrong {
        let (number, unit) = units::split(written);
        let known = || format!("write {}{}", if units.len() > 1 { "one of " } else { "" }, units.join(", "));
        let at = self.place();
        if unit.is_empty() {
            self.wrong(at, format!("`{number}` has no unit"), format!("{} directly behind it", known()))
        } else {
            let other = units::converted(number, unit, units).map(|value| format!("write {value}"));
            let meant = || units::meant(unit, units).map(|unit| format!("did you mean `{unit}`?"));
            let remedy = other.or_else(meant).unwrap_or_else(known);
            self.wrong(at + number.len(), format!("`{unit}` is not known as a unit here"), remedy)
        }
    }
}
