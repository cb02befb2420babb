//! The table that says what actual events mean: which request, accept or finish an interaction between which objects.

use crate::condition::Condition;
use crate::field::Field;
use crate::pattern::Pattern;
use weir_diagnostic::Mistake;
use weir_wire::{KINDS, Kind};

/// Our own table, in the form in which users write theirs.
pub const OURS: &str = include_str!("ours.toml");
/// Interactions, rules and classes of objects that tables may have together.
pub(crate) const MOST_INTERACTIONS: usize = 256;
pub(crate) const MOST_RULES: usize = 2048;
pub(crate) const MOST_CLASSES: usize = 256;

/// A class of objects, by its place in [`Table::classes`].
pub(crate) type Class = u16;
/// Tasks: the logical entities that have CPUs and work for transactions.
pub(crate) const TASK: Class = 0;
/// What asks from outside.
pub(crate) const CLIENT: Class = 1;
/// What answers outside: the other end of a connection is not in the run.
pub(crate) const EXTERNAL: Class = 2;
/// Functions, by the number of a text.
pub(crate) const FUNCTION: Class = 3;
const KNOWN_CLASSES: [&str; 4] = ["task", "client", "external", "function"];

/// What a rule makes of its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// The requester asks.
    Request,
    /// The object begins.
    Accept,
    /// The object is done.
    Finish,
    /// The requester pauses until it hears of the outcome.
    Wait,
    /// The call before of the same requester ends, and this one is asked for and begins.
    Next,
    /// All at once, told at the end: it began some time ago.
    Use,
    /// Data came to an end of a connection.
    Arrive,
    /// A task took data from an end.
    Take,
    /// A task gave data to an end.
    Give,
}

const VERBS: [(&str, Verb); 9] = [
    ("request", Verb::Request),
    ("accept", Verb::Accept),
    ("finish", Verb::Finish),
    ("wait", Verb::Wait),
    ("next", Verb::Next),
    ("use", Verb::Use),
    ("arrive", Verb::Arrive),
    ("take", Verb::Take),
    ("give", Verb::Give),
];

/// By which of the two an accept finds its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Requester,
    Object,
}

/// A way in which objects interact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interaction {
    /// Its name in the table.
    pub name: String,
    /// Its column of Table 1.
    pub pattern: Pattern,
    /// The bit in [`Kind::Watched`] of the optional source that tells of it, 0 for one that is always there.
    pub(crate) source: u64,
    pub(crate) by: By,
}

/// How a rule names an object: a class, and the field with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) class: Class,
    pub(crate) number: Option<Field>,
}

/// When a use that is told at its end began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Began {
    Before(Field),
    Between(Field, Option<Field>),
}

/// A row: an event of this kind, if the condition holds, is this verb between these two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) kind: Kind,
    pub(crate) when: Condition,
    pub(crate) verb: Verb,
    pub(crate) interaction: u16,
    pub(crate) requester: Named,
    pub(crate) object: Named,
    pub(crate) began: Option<Began>,
    /// Only if it was asked for: an accept without a request is not one, and a finish without an accept is none.
    pub(crate) asked: bool,
    /// The requester slept: the request is a wake-up.
    pub(crate) wakes: bool,
}

/// The rules of one source or several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub(crate) interactions: Vec<Interaction>,
    pub(crate) classes: Vec<String>,
    pub(crate) rules: Vec<Rule>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    interaction: Vec<toml::Spanned<InteractionText>>,
    #[serde(default)]
    rule: Vec<toml::Spanned<RuleText>>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct InteractionText {
    name: toml::Spanned<String>,
    pattern: toml::Spanned<String>,
    source: Option<toml::Spanned<String>>,
    by: Option<toml::Spanned<String>>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    event: toml::Spanned<String>,
    when: Option<toml::Spanned<String>>,
    r#do: toml::Spanned<String>,
    interaction: toml::Spanned<String>,
    requester: toml::Spanned<String>,
    object: toml::Spanned<String>,
    took: Option<toml::Spanned<String>>,
    from: Option<toml::Spanned<String>>,
    to: Option<toml::Spanned<String>>,
    #[serde(default)]
    asked: bool,
    #[serde(default)]
    wakes: bool,
}

/// The optional sources, by their bits.
const SOURCES: [(&str, u64); 4] = [("disk", 1), ("locks", 2), ("interrupts", 4), ("timers", 8)];

impl Table {
    /// Our own table.
    ///
    /// # Panics
    /// Never: a test reads it.
    #[must_use]
    pub fn ours() -> Self {
        let mut table = Self {
            interactions: Vec::new(),
            classes: KNOWN_CLASSES.iter().map(|name| (*name).to_owned()).collect(),
            rules: Vec::new(),
        };
        table.extend(OURS).unwrap_or_else(|mistakes| panic!("our own table: {}", mistakes[0]));
        table
    }

    /// Adds the rules of a text. An interaction that has the name of one that is there replaces it with all its rules.
    ///
    /// # Errors
    /// All mistakes of the text, each with its line, in the order of the lines; the table is then as before.
    pub fn extend(&mut self, text: &str) -> Result<(), Vec<Mistake>> {
        let mut reading = Reading { text, mistakes: Vec::new() };
        let file: File = match toml::from_str(text) {
            Ok(file) => file,
            Err(error) => {
                let remedy = "write [[interaction]] and [[rule]] as docs/reference/objects.md shows them";
                let at = error.span().map_or(0, |span| span.start);
                reading.wrong(at, error.message().replace('\n', ", "), remedy.to_owned());
                return Err(reading.mistakes);
            }
        };
        let mut table = self.clone();
        for interaction in &file.interaction {
            table.add_interaction(&mut reading, interaction);
        }
        for rule in &file.rule {
            table.add_rule(&mut reading, rule);
        }
        if reading.mistakes.is_empty() {
            *self = table;
            return Ok(());
        }
        reading.mistakes.sort();
        Err(reading.mistakes)
    }

    /// What tells these rules from all others: FNV-1a over what they say, without the words of comments.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let words = format!("{self:?}");
        words
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
    }

    /// The interactions, in the order of the tables.
    #[must_use]
    pub fn interactions(&self) -> &[Interaction] {
        &self.interactions
    }

    /// Whether any rule tells that an interaction's objects are done: else their time is not recorded.
    pub(crate) fn finishes(&self, interaction: u16) -> bool {
        self.has(interaction, &[Verb::Finish, Verb::Next, Verb::Use, Verb::Give])
    }

    /// Whether any rule tells that an interaction's objects begin: else what waits for them is not recorded.
    pub(crate) fn accepts(&self, interaction: u16) -> bool {
        self.has(interaction, &[Verb::Accept, Verb::Next, Verb::Use, Verb::Take])
    }

    /// Whether an interaction goes over connections.
    pub(crate) fn talks(&self, interaction: u16) -> bool {
        self.has(interaction, &[Verb::Take, Verb::Give])
    }

    /// Whether an interaction has a rule of one of these verbs.
    pub(crate) fn has(&self, interaction: u16, verbs: &[Verb]) -> bool {
        self.rules.iter().any(|rule| rule.interaction == interaction && verbs.contains(&rule.verb))
    }

    fn add_interaction(&mut self, reading: &mut Reading<'_>, told: &toml::Spanned<InteractionText>) {
        let InteractionText { name, pattern, source, by } = told.get_ref();
        let words: Vec<&str> = Pattern::ALL.iter().map(|(_, word)| *word).collect();
        let Some(pattern) = reading.one_of(pattern, "pattern", &words).and_then(Pattern::of_word) else { return };
        let names: Vec<&str> = SOURCES.iter().map(|(name, _)| *name).collect();
        let source = match source {
            Some(told) => match reading.one_of(told, "source", &names) {
                Some(word) => SOURCES.iter().find(|(name, _)| *name == word).map_or(0, |(_, bit)| *bit),
                None => return,
            },
            None => 0,
        };
        let by = match by {
            Some(told) => match reading.one_of(told, "by", &["requester", "object"]) {
                Some("object") => By::Object,
                Some(_) => By::Requester,
                None => return,
            },
            None => By::Requester,
        };
        let made = Interaction { name: name.get_ref().clone(), pattern, source, by };
        if let Some(index) = self.interactions.iter().position(|other| other.name == made.name) {
            self.rules.retain(|rule| usize::from(rule.interaction) != index);
            self.interactions[index] = made;
        } else if self.interactions.len() < MOST_INTERACTIONS {
            self.interactions.push(made);
        } else {
            let remedy = format!("tables may have {MOST_INTERACTIONS} together");
            reading.wrong(told.span().start, "one interaction too many".to_owned(), remedy);
        }
    }

    fn add_rule(&mut self, reading: &mut Reading<'_>, told: &toml::Spanned<RuleText>) {
        let rule = told.get_ref();
        let kinds: Vec<&str> = KINDS.iter().map(|spec| spec.name).collect();
        let kind = reading.one_of(&rule.event, "event", &kinds);
        let kind = kind.and_then(|name| KINDS.iter().find(|spec| spec.name == name));
        let Some(kind) = kind.and_then(|spec| Kind::from_code(spec.code)) else { return };
        let verbs: Vec<&str> = VERBS.iter().map(|(word, _)| *word).collect();
        let verb = reading.one_of(&rule.r#do, "do", &verbs);
        let names: Vec<String> = self.interactions.iter().map(|one| one.name.clone()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let interaction = reading.one_of(&rule.interaction, "interaction", &names);
        let interaction = interaction.and_then(|name| names.iter().position(|other| *other == name));
        let requester = self.named(reading, kind, &rule.requester);
        let object = self.named(reading, kind, &rule.object);
        let when = rule.when.as_ref().map_or(Some(Condition::default()), |told| {
            let parsed = Condition::parse(kind, told.get_ref());
            parsed.map_err(|(what, remedy)| reading.wrong(told.span().start, what, remedy)).ok()
        });
        let (Some(verb), Some(interaction), Some(requester), Some(object), Some(when)) =
            (verb, interaction, requester, object, when)
        else {
            return;
        };
        let verb = VERBS.iter().find(|(word, _)| *word == verb).map_or(Verb::Request, |(_, verb)| *verb);
        let Ok(began) = began(reading, kind, verb, told) else { return };
        let missing = if [Verb::Arrive, Verb::Take, Verb::Give].contains(&verb) && object.number.is_none() {
            Some("an end of a connection needs its number: write object = \"socket:FIELD\"")
        } else if verb == Verb::Next && self.interactions[interaction].pattern != Pattern::Call {
            Some("\"next\" is for interactions of the pattern \"call\"; write \"accept\"")
        } else {
            None
        };
        if let Some(remedy) = missing {
            reading.wrong(
                told.span().start,
                format!("the rule cannot do {:?}", rule.r#do.get_ref()),
                remedy.to_owned(),
            );
        } else if self.rules.len() >= MOST_RULES {
            let remedy = format!("tables may have {MOST_RULES} together");
            reading.wrong(told.span().start, "one rule too many".to_owned(), remedy);
        } else {
            let (asked, wakes, interaction) = (rule.asked, rule.wakes, interaction as u16);
            self.rules.push(Rule { kind, when, verb, interaction, requester, object, began, asked, wakes });
        }
    }

    /// "task:next_pid", or "client" for a class with one object, or one whose number is not told.
    fn named(&mut self, reading: &mut Reading<'_>, kind: Kind, told: &toml::Spanned<String>) -> Option<Named> {
        let (class, number) =
            told.get_ref().split_once(':').map_or((told.get_ref().as_str(), None), |(class, name)| (class, Some(name)));
        let number = match number.map(|name| crate::condition::field(kind, name)) {
            Some(Ok(field)) => Some(field),
            Some(Err((what, remedy))) => {
                reading.wrong(told.span().start, what, remedy);
                return None;
            }
            None => None,
        };
        let known = self.classes.iter().position(|name| name == class);
        let is_name = |text: &str| {
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        if known.is_none() && (!is_name(class) || self.classes.len() >= MOST_CLASSES) {
            let remedy =
                format!("write CLASS or CLASS:FIELD, as in \"task:running\", of at most {MOST_CLASSES} classes");
            reading.wrong(told.span().start, format!("{:?} names no object", told.get_ref()), remedy);
            return None;
        }
        let class = known.unwrap_or_else(|| {
            self.classes.push(class.to_owned());
            self.classes.len() - 1
        });
        Some(Named { class: class as Class, number })
    }
}

/// When a use began; none for other verbs.
fn began(
    reading: &mut Reading<'_>,
    kind: Kind,
    verb: Verb,
    told: &toml::Spanned<RuleText>,
) -> Result<Option<Began>, ()> {
    let RuleText { took, from, to, .. } = told.get_ref();
    let mut field = |told: &Option<toml::Spanned<String>>| match told {
        Some(name) => match crate::condition::field(kind, name.get_ref()) {
            Ok(field) => Ok(Some(field)),
            Err((what, remedy)) => {
                reading.wrong(name.span().start, what, remedy);
                Err(())
            }
        },
        None => Ok(None),
    };
    let (took, from, to) = (field(took)?, field(from)?, field(to)?);
    match (verb, took, from, to) {
        (Verb::Use, Some(took), None, None) => Ok(Some(Began::Before(took))),
        (Verb::Use, None, Some(from), to) => Ok(Some(Began::Between(from, to))),
        (Verb::Use, ..) => {
            let remedy = "give either took = \"FIELD\" (nanoseconds), or from = \"FIELD\" and perhaps to = \"FIELD\"";
            reading.wrong(told.span().start, "a use whose begin is not clear".to_owned(), remedy.to_owned());
            Err(())
        }
        (_, None, None, None) => Ok(None),
        _ => {
            let remedy = "leave took, from and to out, or write do = \"use\"";
            reading.wrong(told.span().start, "only a use begins before its event".to_owned(), remedy.to_owned());
            Err(())
        }
    }
}

/// A text while it is read.
struct Reading<'t> {
    text: &'t str,
    mistakes: Vec<Mistake>,
}

impl Reading<'_> {
    fn wrong(&mut self, at: usize, what: String, remedy: String) {
        let before = self.text.get(..at.min(self.text.len())).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        self.mistakes.push(Mistake { line, column, what, remedy });
    }

    /// The word, if it is one of those that are known here.
    fn one_of<'w>(&mut self, told: &toml::Spanned<String>, key: &str, words: &[&'w str]) -> Option<&'w str> {
        let word = told.get_ref().as_str();
        let found = words.iter().find(|known| **known == word).copied();
        if found.is_none() {
            let near = weir_diagnostic::nearest(word, words.iter().copied());
            let remedy = near
                .map_or_else(|| format!("it is one of {}", words.join(", ")), |near| format!("did you mean {near:?}?"));
            self.wrong(told.span().start, format!("{word:?} is no {key} here"), remedy);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_table_is_read() {
        let table = Table::ours();
        assert!(
            table.interactions.iter().any(|one| one.name == "conversation" && one.pattern == Pattern::ClientServer)
        );
        assert_eq!(table.classes[usize::from(FUNCTION)], "function");
        // Every interaction has a rule.
        for index in 0..table.interactions.len() {
            assert!(table.rules.iter().any(|rule| usize::from(rule.interaction) == index));
        }
    }

    #[test]
    fn an_interaction_of_the_same_name_replaces_ours_and_its_rules() {
        let mut table = Table::ours();
        let before = table.rules.len();
        let text = "[[interaction]]\nname = \"disk\"\npattern = \"sync-io\"\n";
        table.extend(text).expect("a good text");
        assert_eq!(table.rules.len(), before - 1);
        assert!(table.interactions.iter().any(|one| one.name == "disk" && one.pattern == Pattern::SyncIo));
    }

    #[test]
    fn each_mistake_has_its_line_and_a_remedy_and_changes_nothing() {
        let rule = |more: &str| {
            format!(
                "[[rule]]\nevent = \"fork\"\ndo = \"accept\"\ninteraction = \"fork\"\nrequester = \"task\"\nobject = \"task:child_pid\"\n{more}"
            )
        };
        let mistakes: [(&str, String, usize); 12] = [
            ("no TOML", "[[rule]\n".to_owned(), 1),
            ("an unknown key", rule("colour = 3\n"), 7),
            ("no such event", rule("").replace("\"fork\"\ndo", "\"sched_swich\"\ndo"), 2),
            ("no such verb", rule("").replace("accept", "acept"), 3),
            ("no such interaction", rule("").replace("interaction = \"fork\"", "interaction = \"spoon\""), 4),
            ("no such field", rule("").replace("child_pid", "grandchild"), 6),
            ("no class", rule("").replace("\"task\"", "\"two words\""), 5),
            ("a condition that is none", rule("when = \"flags\"\n"), 7),
            ("a use without a begin", rule("").replace("accept", "use"), 1),
            ("a begin without a use", rule("took = \"child_tgid\"\n"), 1),
            ("next of no call", rule("").replace("accept", "next"), 1),
            ("no pattern", "[[interaction]]\nname = \"x\"\npattern = \"clairvoyance\"\n".to_owned(), 3),
        ];
        for (what, text, line) in mistakes {
            let mut table = Table::ours();
            let wrong = table.extend(&text).expect_err(what);
            assert_eq!(wrong[0].line, line, "{what}: {wrong:?}");
            assert!(!wrong[0].remedy.is_empty(), "{what}");
            assert_eq!(table, Table::ours(), "{what}");
        }
    }
}
