//! A policy at work, told about by names and in seconds.
#![allow(dead_code, reason = "each test binary uses its share")]

use weir_adapt::forecast::Method;
use weir_adapt::log::{Entry, Owner, Recorded};
use weir_adapt::{Decision, Engine, Of, Order, Outcome, Policy, Reading, Resource, State};

/// How long readings hold here.
pub(crate) const VALID_MS: u64 = 2_500;

pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) state: State,
    pub(crate) decisions: Vec<Decision>,
    /// Everything that it was told, for a replay.
    pub(crate) told: Vec<Entry>,
    is_told_on: bool,
}

impl World {
    /// At node `n1`.
    pub(crate) fn new(policy: &str) -> Self {
        let (policy, _) =
            Policy::read("test.policy", policy).unwrap_or_else(|mistakes| panic!("{policy}\n{mistakes:#?}"));
        let engine = Engine::new(policy, "n1", Method::default());
        let state = engine.state("n1");
        Self { engine, state, decisions: Vec::new(), told: Vec::new(), is_told_on: true }
    }

    /// Keeps nothing for a replay, which takes time where there are thousands of worlds.
    pub(crate) fn tells_nothing(&mut self) {
        self.is_told_on = false;
    }

    fn tell(&mut self, at_ms: u64, what: Recorded) {
        if self.is_told_on {
            self.told.push(Entry { at_ms, what });
        }
    }

    fn read(&mut self, at_ms: u64, resource: Resource, of: Of, owner: Owner, value: f64) {
        self.engine.read(at_ms, &[Reading { resource, of, value, at_ms, valid_ms: VALID_MS }], &mut self.state);
        self.tell(at_ms, Recorded::Reading { resource, of: owner, value, valid_ms: Some(VALID_MS) });
    }

    pub(crate) fn node(&mut self, at_ms: u64, name: &str, resource: Resource, value: f64) {
        let node = self.engine.node(&mut self.state, name).expect("few nodes");
        self.read(at_ms, resource, Of::Node(node), Owner::Node(name.to_owned()), value);
    }

    pub(crate) fn atom(&mut self, at_ms: u64, path: &str, resource: Resource, value: f64) {
        let atom = self.engine.atom(&mut self.state, path).expect("few atoms");
        self.read(at_ms, resource, Of::Atom(atom), Owner::Atom(path.to_owned()), value);
    }

    pub(crate) fn client(&mut self, at_ms: u64, session: u64, resource: Resource, value: f64) {
        self.read(at_ms, resource, Of::Session(session), Owner::Session(session), value);
    }

    pub(crate) fn begin(&mut self, at_ms: u64, session: u64, path: &str) {
        let atom = self.engine.atom(&mut self.state, path).expect("few atoms");
        assert!(self.engine.begin(&mut self.state, session, atom));
        self.tell(at_ms, Recorded::Begin { session, atom: path.to_owned(), client: None });
    }

    /// How many requests a second a client makes, over all its connections.
    pub(crate) fn asks(&mut self, at_ms: u64, client: &str, rate_per_s: f64) {
        let id = self.engine.client(&mut self.state, client).expect("few clients");
        self.read(at_ms, Resource::Rate, Of::Client(id), Owner::Client(client.to_owned()), rate_per_s);
    }

    /// A session of a client begins.
    pub(crate) fn begin_of(&mut self, at_ms: u64, session: u64, path: &str, client: &str) {
        let atom = self.engine.atom(&mut self.state, path).expect("few atoms");
        let id = self.engine.client(&mut self.state, client).expect("few clients");
        assert!(self.engine.begin_of(&mut self.state, session, atom, Some(id)));
        let client = Some(client.to_owned());
        self.tell(at_ms, Recorded::Begin { session, atom: path.to_owned(), client });
    }

    /// A client is to be forgotten, which it is unless a rule is active for it.
    pub(crate) fn gone(&mut self, at_ms: u64, client: &str) -> bool {
        let is_gone = self.engine.forget_client(&mut self.state, client);
        if is_gone {
            self.tell(at_ms, Recorded::Gone { client: client.to_owned() });
        }
        is_gone
    }

    pub(crate) fn start(&mut self, at_ms: u64, session: u64) {
        self.engine.start(at_ms, session, &mut self.state, &mut self.decisions);
        self.tell(at_ms, Recorded::Start { session });
    }

    /// A reading of its link came, and its rules are looked at.
    pub(crate) fn look(&mut self, at_ms: u64, session: u64) {
        self.engine.evaluate_session(at_ms, session, &mut self.state, &mut self.decisions);
        self.tell(at_ms, Recorded::Look { session });
    }

    pub(crate) fn end(&mut self, at_ms: u64, session: u64) {
        self.engine.end(&mut self.state, session);
        self.tell(at_ms, Recorded::End { session });
    }

    pub(crate) fn up(&mut self, at_ms: u64, name: &str, up: bool) {
        let node = self.engine.node(&mut self.state, name).expect("few nodes");
        self.engine.node_is_up(&mut self.state, node, up);
        self.tell(at_ms, Recorded::Node { name: name.to_owned(), up });
    }

    pub(crate) fn tick(&mut self, at_ms: u64) {
        self.engine.tick(at_ms, &[], &mut self.state, &mut self.decisions);
        self.tell(at_ms, Recorded::Tick);
    }

    /// What was decided since the last time this was asked: "SECONDS RULE OUTCOME: orders".
    pub(crate) fn said(&mut self) -> Vec<String> {
        self.decisions.drain(..).map(|decision| say(&decision)).collect()
    }

    /// The times in milliseconds at which a rule fired.
    pub(crate) fn fired(&self, rule: &str) -> Vec<u64> {
        let of_the_rule = self.decisions.iter().filter(|decision| decision.rule == rule);
        of_the_rule.filter(|decision| decision.outcome.is_fired()).map(|decision| decision.at_ms).collect()
    }
}

/// A decision in a line.
pub(crate) fn say(decision: &Decision) -> String {
    let outcome = match &decision.outcome {
        Outcome::Unknown { .. } => "unknown".to_owned(),
        Outcome::Outranked => "outranked".to_owned(),
        Outcome::Limited => "limited".to_owned(),
        Outcome::Cooling => "cooling".to_owned(),
        Outcome::Superseded => "superseded".to_owned(),
        other => other.to_string(),
    };
    let orders = decision.orders.iter().map(Order::to_string).collect::<Vec<_>>().join(", ");
    format!("{} {} {outcome} {orders}", decision.at_ms / 1000, decision.rule).trim_end().to_owned()
}
