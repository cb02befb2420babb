//! Variables of Postman: `{{name}}`, of the collection, of an environment, and of the user.

use crate::model::{Text, name_of};
use crate::report::Report;
use crate::tree::{Node, read_json};
use crate::wanted::Wanted;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// How often values that hold variables are looked into.
const DEPTH_MAX: usize = 10;
/// The longest value.
const LENGTH_MAX: usize = 1 << 20;

/// Names, each with a value or with a variable of the environment.
type Pairs = Vec<(String, String)>;

/// Where the value of a variable comes from.
#[derive(Debug, Clone)]
enum Source {
    /// It is this text.
    Text(String),
    /// It is secret: a variable of the environment has it.
    Secret,
}

/// The variables that are known.
#[derive(Debug)]
pub(super) struct Variables {
    known: BTreeMap<String, Source>,
    used: RefCell<BTreeSet<String>>,
}

/// A variable that has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it needs {{{{{name}}}}}, which has no value")]
pub(super) struct Unset {
    pub(super) name: String,
}

impl Variables {
    /// Reads those of the collection, of the environment, and of the user, each before those that come first.
    pub(super) fn read(root: &Node, wanted: &Wanted, report: &Report) -> Option<Self> {
        let mut known = BTreeMap::new();
        for variable in root.list_of("variable") {
            take(variable, &mut known);
        }
        if let Some((name, text)) = &wanted.variables {
            let own = Report::default();
            let Some(environment) = read_json(text, &own) else {
                report.wrong((1, 1), format!("--variables {name} is no JSON"), "give an environment of Postman");
                return None;
            };
            let values = environment.list_of("values");
            if values.is_empty() {
                report.wrong((1, 1), format!("--variables {name} has no values"), "give an environment of Postman");
                return None;
            }
            values.iter().for_each(|variable| take(variable, &mut known));
        }
        known.extend(wanted.set.iter().map(|(name, value)| (name.clone(), Source::Text(value.clone()))));
        Some(Self { known, used: RefCell::default() })
    }

    /// A text in which variables are places for values.
    ///
    /// # Errors
    /// [`Unset`]: one of them has no value.
    pub(super) fn text(&self, text: &str) -> Result<Text, Unset> {
        let mut out = Text::default();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once("{{") {
            let Some((name, after)) = behind.split_once("}}") else { break };
            out.push(before);
            match name.trim() {
                "$guid" | "$randomUUID" => out.push_value("uuid"),
                name => match self.known.get(name) {
                    Some(_) => {
                        self.used.borrow_mut().insert(name.to_owned());
                        out.push_value(&name_of(name));
                    }
                    None => return Err(Unset { name: name.to_owned() }),
                },
            }
            rest = after;
        }
        out.push(rest);
        Ok(out)
    }

    /// An address: variables at its begin that say the server are put in.
    ///
    /// # Errors
    /// [`Unset`]: one of them has no value.
    pub(super) fn address(&self, text: &str) -> Result<Text, Unset> {
        let server = text.find("://").map_or(0, |at| at + 3);
        let end = text[server..].find(['/', '?']).map_or(text.len(), |at| server + at);
        let begin = self.whole(&text[..end], 0);
        let mut address = match begin {
            Some(begin) => Text::plain(begin),
            None => self.text(&text[..end])?,
        };
        address.append(&self.text(&text[end..])?);
        Ok(address)
    }

    /// A text with all values in it; none where one is secret or not there.
    fn whole(&self, text: &str, depth: usize) -> Option<String> {
        if depth > DEPTH_MAX || text.len() > LENGTH_MAX {
            return None;
        }
        let (mut out, mut rest) = (String::new(), text);
        while let Some((before, behind)) = rest.split_once("{{") {
            let Some((name, after)) = behind.split_once("}}") else { break };
            out.push_str(before);
            match self.known.get(name.trim())? {
                Source::Text(value) => out.push_str(&self.whole(value, depth + 1)?),
                Source::Secret => return None,
            }
            if out.len() > LENGTH_MAX {
                return None;
            }
            rest = after;
        }
        out.push_str(rest);
        Some(out)
    }

    /// The values that are used: those that the scenario has, and those of the environment.
    pub(super) fn into_used(self) -> (Pairs, Pairs) {
        let (mut vars, mut env) = (Vec::new(), Vec::new());
        for name in self.used.borrow().iter() {
            match self.known.get(name) {
                Some(Source::Text(value)) => {
                    vars.push((name_of(name), self.whole(value, 0).unwrap_or_else(|| value.clone())));
                }
                Some(Source::Secret) => {
                    let fits =
                        |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' };
                    env.push((name_of(name), name.chars().map(fits).collect()));
                }
                None => {}
            }
        }
        // Names that differ in letters that no name has are one.
        vars.dedup_by(|one, other| one.0 == other.0);
        env.retain(|(name, _)| !vars.iter().any(|(own, _)| own == name));
        env.dedup_by(|one, other| one.0 == other.0);
        (vars, env)
    }
}

fn take(variable: &Node, known: &mut BTreeMap<String, Source>) {
    let Some(name) = variable.text_of("key").or_else(|| variable.text_of("id")) else { return };
    let is_off = variable.is_true("disabled") || variable.get("enabled").is_some() && !variable.is_true("enabled");
    if is_off {
        return;
    }
    let source = match (variable.text_of("type"), variable.get("value").and_then(Node::scalar)) {
        (Some("secret"), _) => Source::Secret,
        (_, Some(text)) => Source::Text(text),
        (_, None) => return,
    };
    known.insert(name.to_owned(), source);
}
