//! Users, their data, and their steps.

use crate::model::address::Address;
use crate::model::text::Text;

/// The servers whose requests are counted to find the common one.
const ORIGINS_MAX: usize = 1000;

/// A scenario.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// What relative addresses begin with.
    pub(crate) base: Option<String>,
    /// Values that all users begin with.
    pub(crate) vars: Vec<(String, String)>,
    /// Values that variables of the environment have: a name, and the variable.
    pub(crate) env: Vec<(String, String)>,
    pub(crate) data: Vec<Data>,
    pub(crate) groups: Vec<Group>,
    pub(crate) setup: Vec<Step>,
    pub(crate) teardown: Vec<Step>,
}

/// A file of values.
#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) name: String,
    pub(crate) file: String,
    /// Keys and values as TOML writes them.
    pub(crate) keys: Vec<(&'static str, String)>,
}

/// Users who do the same.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) line: usize,
    pub(crate) name: String,
    /// Keys and values as TOML writes them, which say how many users there are and when; none: as the user says.
    pub(crate) load: Vec<(&'static str, String)>,
    /// What users keep: `cookies`, `connections`.
    pub(crate) keep: Vec<&'static str>,
    pub(crate) steps: Vec<Step>,
}

/// A step.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) line: usize,
    /// A condition without which it is passed over, as a scenario writes it.
    pub(crate) when: Option<String>,
    pub(crate) repeat: Option<u64>,
    pub(crate) does: Does,
}

/// What a step does.
#[derive(Debug, Clone)]
pub(crate) enum Does {
    Ask(Box<Ask>),
    Steps(Option<String>, Vec<Step>),
    Choose(Vec<Choice>),
    Think(String),
}

/// A way that is chosen by its weight.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pub(crate) weight: u32,
    pub(crate) steps: Vec<Step>,
}

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) name: String,
    pub(crate) method: String,
    pub(crate) address: Address,
    pub(crate) headers: Vec<(String, Text)>,
    /// `NAME:PASSWORD` of basic authentication.
    pub(crate) user: Option<Text>,
    pub(crate) body: Option<Body>,
    pub(crate) takes: Vec<Take>,
    pub(crate) checks: Vec<String>,
    pub(crate) redirects: Option<u32>,
    pub(crate) timeout: Option<String>,
}

/// A body.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    Text(Text),
    /// A query of GraphQL with its variables as JSON, and its operation.
    Graphql {
        query: Text,
        variables: Option<serde_json::Value>,
        operation: Option<String>,
    },
}

/// What is taken of an answer.
#[derive(Debug, Clone)]
pub(crate) struct Take {
    pub(crate) name: String,
    /// As a scenario writes it.
    pub(crate) what: String,
    /// Whether the iteration ends without it.
    pub(crate) must: bool,
}

impl Step {
    pub(crate) fn new(line: usize, does: Does) -> Self {
        Self { line, when: None, repeat: None, does }
    }

    fn requests(&self) -> usize {
        match &self.does {
            Does::Ask(_) => 1,
            Does::Steps(_, steps) => steps.iter().map(Self::requests).sum(),
            Does::Choose(ways) => ways.iter().flat_map(|way| &way.steps).map(Self::requests).sum(),
            Does::Think(_) => 0,
        }
    }

    /// Calls a function for each request.
    pub(crate) fn each<'s>(&'s self, call: &mut impl FnMut(&'s Ask)) {
        match &self.does {
            Does::Ask(ask) => call(ask),
            Does::Steps(_, steps) => steps.iter().for_each(|step| step.each(call)),
            Does::Choose(ways) => ways.iter().flat_map(|way| &way.steps).for_each(|step| step.each(call)),
            Does::Think(_) => {}
        }
    }
}

impl Ask {
    /// A request without headers and body.
    pub(crate) fn new(name: impl Into<String>, method: impl Into<String>, address: Address) -> Self {
        Self {
            name: name.into(),
            method: method.into(),
            address,
            headers: Vec::new(),
            user: None,
            body: None,
            takes: Vec::new(),
            checks: Vec::new(),
            redirects: None,
            timeout: None,
        }
    }

    pub(crate) fn has_header(&self, name: &str) -> bool {
        self.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name))
    }

    /// Adds a header; values of one that is there are put into one (RFC 9110 5.3, of cookies RFC 6265 4.2.1).
    pub(crate) fn add_header(&mut self, name: &str, value: Text) {
        match self.headers.iter_mut().find(|(own, _)| own.eq_ignore_ascii_case(name)) {
            Some((_, before)) => {
                before.push(if name.eq_ignore_ascii_case("cookie") { "; " } else { ", " });
                before.append(&value);
            }
            None => self.headers.push((name.to_owned(), value)),
        }
    }

    /// All of its texts.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &Text> {
        let body = match &self.body {
            Some(Body::Text(text) | Body::Graphql { query: text, .. }) => Some(text),
            None => None,
        };
        let headers = self.headers.iter().map(|(_, value)| value);
        std::iter::once(&self.address.rest).chain(headers).chain(&self.user).chain(body)
    }

    /// What keeps it from being sent, in words.
    pub(crate) fn fault(&self) -> Option<String> {
        let is_token = |text: &str| {
            !text.is_empty()
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
        };
        if !is_token(&self.method) || self.method == "CONNECT" {
            return Some(format!("{:?} is no method that can be measured", self.method));
        }
        for (name, value) in &self.headers {
            let line = format!("{name}: {}", value.template());
            if let Err(error) = weir_load::Request::header(&line) {
                return Some(error.to_string());
            }
        }
        None
    }
}

impl Plan {
    /// How many requests it has.
    pub(crate) fn requests(&self) -> usize {
        self.steps().map(Step::requests).sum()
    }

    /// All outermost steps.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.groups.iter().flat_map(|group| &group.steps).chain(&self.setup).chain(&self.teardown)
    }

    /// Takes out groups without steps, which a scenario may not have.
    pub(crate) fn prune(&mut self) {
        for steps in [&mut self.setup, &mut self.teardown] {
            prune(steps);
        }
        self.groups.iter_mut().for_each(|group| prune(&mut group.steps));
        self.groups.retain(|group| !group.steps.is_empty());
    }

    /// The server of most requests.
    pub(crate) fn common_origin(&self) -> Option<String> {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for step in self.steps() {
            step.each(&mut |ask| {
                let Some(origin) = ask.address.origin.as_deref() else { return };
                let is_full = counts.len() >= ORIGINS_MAX;
                match counts.iter_mut().find(|(own, _)| *own == origin) {
                    Some((_, count)) => *count += 1,
                    None if is_full => {}
                    None => counts.push((origin, 1)),
                }
            });
        }
        // Of equally many the first.
        counts.iter().rev().max_by_key(|(_, count)| *count).map(|(origin, _)| (*origin).to_owned())
    }
}

fn prune(steps: &mut Vec<Step>) {
    for step in steps.iter_mut() {
        match &mut step.does {
            Does::Steps(_, within) => prune(within),
            Does::Choose(ways) => {
                ways.iter_mut().for_each(|way| prune(&mut way.steps));
                ways.retain(|way| !way.steps.is_empty());
            }
            Does::Ask(_) | Does::Think(_) => {}
        }
    }
    steps.retain(|step| match &step.does {
        Does::Steps(_, within) => !within.is_empty(),
        Does::Choose(ways) => !ways.is_empty(),
        Does::Ask(_) | Does::Think(_) => true,
    });
}
