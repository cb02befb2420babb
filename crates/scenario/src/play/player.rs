//! A user that follows a program.

use crate::behaviour::{
    Answer, AnsweredBy, Ask, Behaviour, Cookies, Failure, Iteration, Kept, Maker, News, User, Wants,
};
use crate::form::{Body, Feeder, Need, Op, Program, Scenarios, Step, Values};
use crate::metrics::{Builtin, Shared};
use crate::play::tallies::Tallies;
use std::sync::{Arc, Mutex, PoisonError};
use weir_load::{Request, Url, UrlError};

/// Instructions without a request or a time to think between them.
const OPS_AT_ONCE: u32 = 1_000_000;

/// Makes the users of a file of scenarios.
#[derive(Debug)]
pub struct Players {
    common: Arc<Common>,
    programs: Vec<Arc<Program>>,
    setup: Arc<Program>,
    teardown: Arc<Program>,
}

#[derive(Debug)]
struct Common {
    base: Option<Url>,
    feeders: Vec<Arc<Feeder>>,
    values: Values,
    /// What setup has taken, for all users.
    handed: Mutex<Values>,
    metrics: Shared,
    tallies: Tallies,
    seed: u64,
}

impl Players {
    /// Users that count into these.
    #[must_use]
    pub fn new(scenarios: &Scenarios, metrics: Shared, tallies: Tallies) -> Self {
        let common = Common {
            base: scenarios.base.clone(),
            feeders: scenarios.feeders.clone(),
            values: scenarios.values.clone(),
            handed: Mutex::default(),
            metrics,
            tallies,
            seed: scenarios.seed,
        };
        Self {
            common: Arc::new(common),
            programs: scenarios.list.iter().map(|(_, program)| Arc::clone(program)).collect(),
            setup: scenarios.setup.clone().unwrap_or_default(),
            teardown: scenarios.teardown.clone().unwrap_or_default(),
        }
    }
}

impl Maker for Players {
    fn make(&mut self, whose: User) -> Result<Box<dyn Behaviour>, Failure> {
        let (program, role, number) = match whose {
            User::Setup => (&self.setup, Role::Setup, 0),
            User::Of { scenario, number } => (&self.programs[scenario], Role::User, number),
            User::Teardown => (&self.teardown, Role::Teardown, 0),
        };
        let random = fastrand::Rng::with_seed(self.common.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(number));
        Ok(Box::new(Player {
            common: Arc::clone(&self.common),
            program: Arc::clone(program),
            role,
            values: Values::new(),
            counters: vec![0; program.counters],
            at: 0,
            status: 0,
            random,
        }))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Setup,
    User,
    Teardown,
}

/// Why nothing can be asked at an address.
#[derive(Debug, thiserror::Error)]
enum AddressError {
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error("{address:?} is relative, and the file has no base; give it one, or write the whole address")]
    Relative { address: String },
}

/// A user.
#[derive(Debug)]
struct Player {
    common: Arc<Common>,
    program: Arc<Program>,
    role: Role,
    values: Values,
    counters: Vec<u64>,
    /// The next instruction.
    at: usize,
    /// The status of the answer before.
    status: u16,
    random: fastrand::Rng,
}

impl Behaviour for Player {
    fn resume(&mut self, news: News<'_>) -> Wants {
        match news {
            News::Begins(iteration) => match self.begin(&iteration) {
                true => self.go_on(),
                false => Wants::Enough,
            },
            News::Answered(answers) => match answers.first() {
                Some(answer) => match self.look_at(answer) {
                    Ok(()) => self.go_on(),
                    Err(failure) => Wants::Over(Err(failure)),
                },
                None => self.go_on(),
            },
            // It has no sockets.
            News::Woke | News::Heard(_) => self.go_on(),
            News::Ends => Wants::Over(Ok(())),
        }
    }
}

impl Player {
    /// Begins an iteration; `false` where there is no data for it.
    fn begin(&mut self, iteration: &Iteration) -> bool {
        let common = Arc::clone(&self.common);
        self.values.clone_from(&common.values);
        self.values.extend(common.handed.lock().unwrap_or_else(PoisonError::into_inner).clone());
        self.values.insert("user".to_owned(), iteration.user.to_string());
        self.values.insert("iteration".to_owned(), iteration.of_scenario.to_string());
        self.values.insert("uuid".to_owned(), uuid(&mut self.random));
        (self.at, self.status) = (0, 0);
        let user = u64::from(iteration.user.saturating_sub(1));
        self.role != Role::User
            || common.feeders.iter().all(|feeder| feeder.feed(user, &mut self.random, &mut self.values))
    }

    /// Follows the program until it must wait.
    fn go_on(&mut self) -> Wants {
        let program = Arc::clone(&self.program);
        for _ in 0..OPS_AT_ONCE {
            let Some(op) = program.ops.get(self.at) else { return self.end() };
            self.at += 1;
            match op {
                Op::Ask(step) => {
                    return match self.ask(step) {
                        Ok(ask) => Wants::Ask(vec![ask]),
                        Err(failure) => Wants::Over(Err(failure)),
                    };
                }
                Op::Think(think) => return Wants::Sleep(think.draw(&mut self.random)),
                Op::Unless(condition, place) => {
                    if !condition.holds(&self.values, self.status) {
                        self.at = *place;
                    }
                }
                Op::Jump(place) => self.at = *place,
                Op::Choose(ways) => self.at = choose(ways, &mut self.random),
                Op::Count(counter, times) => self.counters[*counter] = *times,
                Op::Done(counter, place) => match self.counters[*counter].checked_sub(1) {
                    Some(left) => self.counters[*counter] = left,
                    None => self.at = *place,
                },
            }
        }
        Wants::Over(Err(Failure::new("steps repeat without a request or a time to think: put one among them")))
    }

    fn end(&mut self) -> Wants {
        if self.role == Role::Setup {
            let mut handed = self.common.handed.lock().unwrap_or_else(PoisonError::into_inner);
            handed.clone_from(&self.values);
        }
        Wants::Over(Ok(()))
    }

    fn ask(&mut self, step: &Step) -> Result<Ask, Failure> {
        let values = &self.values;
        let mut address = step.url.fill(values);
        for (place, (name, value)) in step.query.iter().enumerate() {
            address.push(if place == 0 && !address.contains('?') { '?' } else { '&' });
            let encode = crate::form::encode;
            address.push_str(&format!("{}={}", encode(name), encode(&value.fill(values))));
        }
        let url = self.url(&address).map_err(|error| failure(step, &error.to_string()))?;
        let mut headers: Vec<_> = step.headers.iter().map(|(name, value)| (name.clone(), value.fill(values))).collect();
        if let Some(user) = &step.user {
            let given = user.fill(values);
            let (name, password) = given.split_once(':').unwrap_or((&given, ""));
            headers.push(Request::basic(name, password).map_err(|error| failure(step, &error.to_string()))?);
        }
        let (body, kind) = body(&step.body, values);
        if let Some(kind) = kind
            && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        {
            headers.push(("Content-Type".to_owned(), kind.to_owned()));
        }
        Ok(Ask {
            method: step.method.clone(),
            url,
            at: None,
            headers,
            body,
            timeout: step.timeout,
            redirects_max: step.redirects_max,
            tags: Arc::clone(&step.tags),
            keep: Kept::Body,
            cookies: Cookies::default(),
            expected: step.ok.clone(),
        })
    }

    /// An address as it stands, or behind the base.
    fn url(&self, address: &str) -> Result<Url, AddressError> {
        // A path or a query may hold an address, too.
        if address.split_once("://").is_some_and(|(scheme, _)| !scheme.contains(['/', '?', '#'])) {
            return Ok(Url::parse(address)?);
        }
        let base = self.common.base.as_ref();
        let base = base.ok_or_else(|| AddressError::Relative { address: address.to_owned() })?;
        let before = base.target.split('?').next().unwrap_or("/").trim_end_matches('/');
        Ok(base.with_target(&format!("{before}/{}", address.trim_start_matches('/'))))
    }

    /// Looks at an answer: checks, what is expected, what is taken.
    fn look_at(&mut self, answer: &Answer) -> Result<(), Failure> {
        let program = Arc::clone(&self.program);
        let Some(Op::Ask(step)) = program.ops.get(self.at.wrapping_sub(1)) else { return Ok(()) };
        self.status = answer.status();
        let mut ends = None;
        let mut failed = match &answer.by {
            AnsweredBy::Nothing(failing) => {
                ends = Some(failing.words.clone());
                ends.clone()
            }
            AnsweredBy::Status(status) => answer.is_failed().then(|| format!("status {status}")),
        };
        if ends.is_none() {
            let unfit = self.check(step, answer);
            failed = failed.or(unfit);
            ends = step
                .expects
                .iter()
                .find_map(|check| Some(format!("expected {}: {}", check.text(), judge(check, answer)?)));
            let body = String::from_utf8_lossy(&answer.body);
            let mut json = None;
            if ends.is_none() && matches!(step.body, Body::Graphql { .. }) {
                ends = graphql_errors(&body);
            }
            for (name, take, need) in &step.takes {
                match take.of(answer, &body, &mut json) {
                    Some(value) => drop(self.values.insert(name.clone(), value)),
                    None if *need == Need::May => drop(self.values.insert(name.clone(), String::new())),
                    None => {
                        ends = ends.or_else(|| {
                            Some(format!("nothing to take for {name} in an answer of status {}", self.status))
                        });
                    }
                }
            }
            failed = failed.or_else(|| ends.clone());
        }
        let told = failed.as_deref();
        self.common.tallies.count(&step.scopes, (answer.latency_ns, answer.timings.waiting_ns), told);
        ends.map_or(Ok(()), |words| Err(failure(step, &words)))
    }

    /// Makes the checks of a step; gives what came instead in the first that does not hold.
    fn check(&self, step: &Step, answer: &Answer) -> Option<String> {
        let mut first = None;
        for (name, check) in &step.checks {
            let unfit = judge(check, answer);
            let mut metrics = self.common.metrics.lock();
            metrics.checks.count(&step.group, name, unfit.is_none(), || unfit.clone());
            metrics.count(Builtin::Checks, f64::from(u8::from(unfit.is_none())), &step.tags);
            first = first.or_else(|| unfit.map(|words| format!("{}: {words}", check.text())));
        }
        first
    }
}

fn judge(check: &weir_load::Check, answer: &Answer) -> Option<String> {
    check.unfit(answer.status(), answer.headers.iter(), &answer.body)
}

fn failure(step: &Step, words: &str) -> Failure {
    Failure::new(format!("{} (line {}): {words}", step.name, step.line))
}

/// The errors of a GraphQL answer (GraphQL specification 7.1).
fn graphql_errors(body: &str) -> Option<String> {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(body) else {
        return Some("the answer is no JSON, as GraphQL's are".to_owned());
    };
    let first = value.get("errors")?.as_array()?.first()?;
    let message = first.get("message").and_then(|message| message.as_str());
    Some(format!("GraphQL error: {}", message.map_or_else(|| first.to_string(), str::to_owned)))
}

/// A body, and its type.
fn body(body: &Body, values: &Values) -> (Vec<u8>, Option<&'static str>) {
    match body {
        Body::Empty => (Vec::new(), None),
        Body::Text(template) => (template.fill(values).into_bytes(), None),
        Body::Json(json) => (json.fill(values).to_string().into_bytes(), Some("application/json")),
        Body::Form(fields) => {
            let encode = crate::form::encode;
            let pairs: Vec<_> = fields
                .iter()
                .map(|(name, value)| format!("{}={}", encode(name), encode(&value.fill(values))))
                .collect();
            (pairs.join("&").into_bytes(), Some("application/x-www-form-urlencoded"))
        }
        Body::Graphql { query, variables, operation } => {
            let mut asked = serde_json::json!({ "query": query.fill(values) });
            if let Some(variables) = variables {
                asked["variables"] = variables.fill(values);
            }
            if let Some(operation) = operation {
                asked["operationName"] = operation.as_str().into();
            }
            (asked.to_string().into_bytes(), Some("application/json"))
        }
    }
}

fn choose(ways: &[(u32, usize)], random: &mut fastrand::Rng) -> usize {
    let all: u64 = ways.iter().map(|(weight, _)| u64::from(*weight)).sum();
    let mut drawn = random.u64(0..all.max(1));
    for (weight, place) in ways {
        match drawn.checked_sub(u64::from(*weight)) {
            Some(left) => drawn = left,
            None => return *place,
        }
    }
    // The weights sum up to more than what is drawn.
    ways.last().map_or(0, |(_, place)| *place)
}

/// A random UUID (RFC 9562 5.4).
fn uuid(random: &mut fastrand::Rng) -> String {
    let bits = random.u128(..) & !(0xf << 76) & !(0x3 << 62) | 4 << 76 | 2 << 62;
    let digits = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..])
}
