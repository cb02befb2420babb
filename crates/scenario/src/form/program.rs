//! What users do, as instructions that lead from one to the next.

use crate::behaviour::Tags;
use crate::executors::Planned;
use crate::form::condition::Condition;
use crate::form::feeder::Feeder;
use crate::form::scope::Scope;
use crate::form::slo::Slo;
use crate::form::take::Take;
use crate::form::template::{Template, Values};
use crate::form::think::Think;
use std::sync::Arc;
use std::time::Duration;
use weir_load::{Check, Statuses, Url};

/// A file of scenarios, read.
#[derive(Debug)]
pub struct Scenarios {
    /// What relative addresses begin with.
    pub base: Option<Url>,
    /// Each scenario and what its users do.
    pub list: Vec<(Planned, Arc<Program>)>,
    /// What is done once before.
    pub setup: Option<Arc<Program>>,
    /// What is done once behind.
    pub teardown: Option<Arc<Program>>,
    /// How long setup and teardown may take, each.
    pub around_max: Duration,
    /// Data that users are given.
    pub feeders: Vec<Arc<Feeder>>,
    /// Values that all users begin with.
    pub values: Values,
    /// What is counted apart.
    pub scopes: Vec<Scope>,
    /// What the run must hold.
    pub slos: Vec<Slo>,
    /// Where random numbers begin.
    pub seed: u64,
}

/// What a user does in an iteration.
#[derive(Debug, Default)]
pub struct Program {
    /// The instructions.
    pub ops: Vec<Op>,
    /// How many counters repetitions need.
    pub counters: usize,
}

/// An instruction; places are those of [`Program::ops`].
#[derive(Debug)]
pub enum Op {
    /// Asks and looks at the answer.
    Ask(Box<Step>),
    /// Waits.
    Think(Think),
    /// Goes to a place unless something holds.
    Unless(Condition, usize),
    /// Goes to a place.
    Jump(usize),
    /// Goes to one of several places, by their weights.
    Choose(Vec<(u32, usize)>),
    /// Sets a counter.
    Count(usize, u64),
    /// Goes to a place if a counter has come to nothing; otherwise lowers it.
    Done(usize, usize),
}

/// A request and what is done with its answer.
#[derive(Debug)]
pub struct Step {
    /// Its name.
    pub name: Arc<str>,
    /// The group it stands in, `""` for none.
    pub group: Arc<str>,
    /// Its place in the file.
    pub line: usize,
    /// The method.
    pub method: String,
    /// Where it goes, relative to the base or whole.
    pub url: Template,
    /// What is put behind a `?`, percent-encoded.
    pub query: Vec<(String, Template)>,
    /// Headers.
    pub headers: Vec<(String, Template)>,
    /// `NAME:PASSWORD` of basic authentication (RFC 7617).
    pub user: Option<Template>,
    /// The body.
    pub body: Body,
    /// What is taken of the answer: a name, how, and whether it may lack.
    pub takes: Vec<(String, Take, Need)>,
    /// What is checked and counted.
    pub checks: Vec<(Arc<str>, Check)>,
    /// What must hold for the iteration to go on.
    pub expects: Vec<Check>,
    /// How long it may take.
    pub timeout: Duration,
    /// The most redirects.
    pub redirects_max: u32,
    /// Its tags, the name among them.
    pub tags: Tags,
    /// Where it counts.
    pub scopes: Vec<usize>,
    /// Statuses that are a success.
    pub ok: Option<Arc<Statuses>>,
}

/// Whether something must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The iteration fails without it.
    Must,
    /// Without it the value is empty.
    May,
}

/// A body.
#[derive(Debug)]
pub enum Body {
    /// None.
    Empty,
    /// A text.
    Text(Template),
    /// JSON.
    Json(Json),
    /// A form (`application/x-www-form-urlencoded`).
    Form(Vec<(String, Template)>),
    /// A query of GraphQL.
    Graphql {
        /// The query.
        query: Template,
        /// Its variables.
        variables: Option<Json>,
        /// The operation's name.
        operation: Option<String>,
    },
}

/// JSON whose texts have places for values.
#[derive(Debug)]
pub enum Json {
    /// A text.
    Text(Template),
    /// A list.
    List(Vec<Json>),
    /// An object.
    Object(Vec<(String, Json)>),
    /// A number, a truth, or null.
    Plain(serde_json::Value),
}

impl Json {
    /// The value with a user's values in it.
    #[must_use]
    pub fn fill(&self, values: &Values) -> serde_json::Value {
        match self {
            Self::Text(template) => template.fill(values).into(),
            Self::List(list) => list.iter().map(|value| value.fill(values)).collect(),
            Self::Object(entries) => serde_json::Value::Object(
                entries.iter().map(|(key, value)| (key.clone(), value.fill(values))).collect(),
            ),
            Self::Plain(value) => value.clone(),
        }
    }
}
