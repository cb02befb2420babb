//! The rules over nodes at a director: the active one decides which reserve nodes are awake and what is wished of atoms,
//! and gossips that; one that stands by does as the active one says, so that its table sends connections alike.

use super::director_seen::DirectorSeen;
use super::last_word::LastWord;
use super::members::MembersFile;
use super::pair::now_unix_ms;
use super::rules::{self, Look, RulesFile};
use super::rules_published;
use crate::serve_cluster::{readings_of, rule_of};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_adapt::forecast::Method;
use weir_adapt::nodes::{Acted, Choosing, DirectorRules, Done, Dropped, Wished};
use weir_adapt::{Outcome, Policy};
use weir_cluster::{Gossip, HeardMember, NodeNumber};

/// How often rules are evaluated.
const TICK: Duration = Duration::from_millis(500);

/// Ticks from one look at what atoms are asked for to the next: nodes say it each ten seconds.
const ATOM_TICKS: u64 = 10;

/// When this process began, on the clock of its rules: what was done before has a time on it as well, so that a cooldown
/// and a limit go on over a restart.
const BEGUN_MS: u64 = 7 * 86_400_000;

/// Where new connections go.
pub(super) trait Connections: Send + Sync {
    /// Whether heartbeats of a node stay away.
    fn is_down(&self, node: NodeNumber) -> bool;

    /// Has a node of the reserve get new connections, or none.
    fn sleeps(&self, node: NodeNumber, is_so: bool);

    /// Has a rule say how they choose their node, or none. Returns whether it is another one than before.
    fn choose(&self, choosing: Option<Choosing>) -> bool;
}

/// What the thread works with.
pub(super) struct Parts {
    pub(super) members: MembersFile,
    pub(super) gossip: Arc<Gossip>,
    pub(super) seen: Arc<DirectorSeen>,
    /// The epoch in which this director is active.
    pub(super) epoch: Box<dyn Fn() -> Option<u64> + Send>,
    pub(super) connections: Arc<dyn Connections>,
    pub(super) standing_by: StandingBy,
}

/// By what new connections choose their node at a member that decides nothing, as another one is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StandingBy {
    /// It has the weights of the active one.
    HasWeights,
    /// It evaluates the rules that choose by itself: a front serves clients while another one decides.
    Chooses,
}

/// How far it is.
struct Ruling {
    parts: Parts,
    file: RulesFile,
    policy: Option<Policy>,
    /// Those of the epoch in which it is active.
    rules: Option<DirectorRules>,
    begun: Instant,
    last_word: LastWord,
    ticks: u64,
    /// The epoch and number of the word that is followed while another one decides.
    stood_by: Option<(u64, u64)>,
    /// What was gossiped last.
    said: Option<(u64, u64)>,
    /// What had no room with rules that hold no more.
    dropped: Dropped,
    /// Words that were too long to be gossiped.
    unsaid: u64,
}

/// Starts the thread.
pub(super) fn start(folder: &Path, parts: Parts) -> io::Result<()> {
    rules_published::follow(folder, &parts.members)?;
    let file = RulesFile::of(folder, &parts.members);
    let mut ruling = Ruling {
        parts,
        file,
        policy: None,
        rules: None,
        begun: Instant::now(),
        last_word: LastWord::of(folder),
        ticks: 0,
        stood_by: None,
        said: None,
        dropped: Dropped::default(),
        unsaid: 0,
    };
    let body = move || {
        loop {
            ruling.tick();
            std::thread::sleep(TICK);
        }
    };
    std::thread::Builder::new().name("weir-director-rules".to_owned()).spawn(body).map(drop)
}

impl Ruling {
    fn tick(&mut self) {
        let has_changed = self.read();
        let heard = self.parts.gossip.heard();
        let active = (self.parts.epoch)();
        let Some(epoch) = active else {
            return self.stand_by(has_changed, &heard);
        };
        if has_changed || self.rules.as_ref().is_none_or(|rules| rules.wished().epoch != epoch) {
            self.begin(epoch, &heard);
        }
        let acted = self.evaluate(epoch, &heard, true);
        self.say();
        acted.iter().for_each(|acted| self.tell(epoch, acted));
        let dropped = self.dropped.with(self.rules.as_ref().map(DirectorRules::dropped).unwrap_or_default());
        self.parts.seen.rules_dropped(dropped, self.unsaid);
    }

    /// Evaluates the rules, and has connections choose as they say; what they have decided, which counts where this
    /// director `decides` who is awake.
    fn evaluate(&mut self, epoch: u64, heard: &[HeardMember], decides: bool) -> Vec<Acted> {
        let now_ms = self.now_ms();
        let Some(rules) = &mut self.rules else { return Vec::new() };
        let (mut nodes, mut atoms) = rules::seen(&self.parts.members, heard);
        self.ticks += 1;
        if !self.ticks.is_multiple_of(ATOM_TICKS) {
            atoms.clear();
        }
        let connections = &self.parts.connections;
        // Heartbeats tell sooner than gossip.
        for (node, (number, _)) in nodes.iter_mut().zip(&self.parts.members.nodes) {
            node.is_up &= !connections.is_down(*number);
        }
        let acted = rules.tick(now_ms, &nodes, &atoms);
        for (node, (number, _)) in nodes.iter().zip(&self.parts.members.nodes).filter(|_| decides) {
            connections.sleeps(*number, !rules.receives(node));
        }
        let choosing = rules.choosing();
        if connections.choose(choosing.clone()) {
            self.parts.seen.chooses(epoch, choosing.as_ref());
        }
        acted
    }

    /// The rules of this epoch, or of this file, are over.
    fn end(&mut self) {
        if let Some(rules) = self.rules.take() {
            self.dropped = self.dropped.with(rules.dropped());
        }
    }

    /// Reads the file again; whether other rules hold.
    fn read(&mut self) -> bool {
        match self.file.look() {
            Look::Same => false,
            Look::New(policy) => {
                eprintln!("weir cluster director: {} of {} hold", policy.rules(), rules::FILE);
                self.policy = Some(*policy);
                true
            }
            Look::Gone => {
                eprintln!("weir cluster director: there are no rules over nodes any more");
                // One without rules: it wakes all nodes, and wishes nothing.
                self.policy = Policy::read(rules::FILE, "").ok().map(|(policy, _)| policy);
                true
            }
            Look::Wrong(why) => {
                eprintln!("weir cluster director: {why}\nweir cluster director: the rules stay as they were");
                false
            }
        }
    }

    /// Begins an epoch, or other rules in it, from what was said last.
    fn begin(&mut self, epoch: u64, heard: &[HeardMember]) {
        let Some(policy) = self.policy.clone() else { return };
        let own = self.rules.as_ref().map(|rules| (rules.wished().clone(), 0));
        let last = own.or_else(|| {
            let heard = rules::newest_word(&self.parts.members, heard, |of| of <= epoch);
            let said = self.said_before(epoch);
            heard.into_iter().chain(said).max_by_key(|(wished, _)| (wished.epoch, wished.number))
        });
        let now_ms = self.now_ms();
        let last: Option<(&Wished, u64)> = last.as_ref().map(|(wished, age_ms)| (wished, *age_ms));
        let (method, times) = (Method::default(), self.parts.members.pace.rule_times());
        self.end();
        self.rules = Some(DirectorRules::new(policy, method, times, (epoch, now_ms), last));
    }

    /// What this director has said last, up to an epoch, before it was started again; and how long ago.
    fn said_before(&self, epoch: u64) -> Option<(Wished, u64)> {
        let (word, at_unix_ms) = self.last_word.read()?.word?;
        // A clock that was set back makes it younger: cooldowns are longer then.
        (word.epoch <= epoch).then(|| (word, now_unix_ms().saturating_sub(at_unix_ms)))
    }

    fn now_ms(&self) -> u64 {
        BEGUN_MS + self.begun.elapsed().as_millis() as u64
    }

    /// Sends connections where the active director does.
    fn stand_by(&mut self, has_changed: bool, heard: &[HeardMember]) {
        let word = rules::newest_word(&self.parts.members, heard, |_| true).map(|(word, _)| word);
        match self.parts.standing_by {
            StandingBy::HasWeights => {
                self.end();
                self.parts.connections.choose(None);
            }
            StandingBy::Chooses => {
                let of = |word: &Wished| (word.epoch, word.number);
                let newest = word.as_ref().map_or((0, 0), of);
                // Which nodes are awake is as the newest word says, and not as the rules here would decide.
                if has_changed || self.rules.is_none() || self.stood_by != Some(newest) {
                    self.stood_by = Some(newest);
                    self.end();
                    self.begin(newest.0, heard);
                }
                drop(self.evaluate(newest.0, heard, false));
            }
        }
        let Some(word) = word else { return };
        for (number, (reached, _)) in &self.parts.members.nodes {
            let is_awake = word.awake.get(reached.member.name.as_str()).copied().unwrap_or(true);
            self.parts.connections.sleeps(*number, !is_awake);
        }
    }

    /// Gossips what is wished, once it is another thing.
    fn say(&mut self) {
        let Some(rules) = &self.rules else { return };
        let wished = rules.wished();
        let word = (wished.epoch, wished.number);
        // The first word comes once it is known how the reserve stands.
        if wished.number > 0 && self.said != Some(word) {
            self.said = Some(word);
            self.last_word.say(wished, now_unix_ms());
            if !self.parts.gossip.set_rules(&wished.to_text()) {
                self.unsaid += 1;
                eprintln!("weir cluster director: more is wished of nodes and atoms than can be gossiped");
            }
        }
    }

    /// Writes down what was decided.
    fn tell(&self, epoch: u64, acted: &Acted) {
        let Acted { decision, done } = acted;
        if let Outcome::Unknown { .. } = decision.outcome {
            // A cluster that has just begun says nothing for a while.
            return tracing::debug!(%decision, "a rule over nodes does not fire");
        }
        let words: Vec<String> = done.iter().map(words).collect();
        let words = if words.is_empty() { decision.outcome.to_string() } else { words.join(", ") };
        eprintln!("weir cluster director: {}: {words}", decision.rule);
        self.parts.seen.ruled(epoch, rule_of(decision), &words, &readings_of(decision));
    }
}

fn words(done: &Done) -> String {
    match done {
        Done::Woken(nodes) => format!("{} woken", nodes.join(" and ")),
        Done::Drained(nodes) => format!("{} drained, to sleep", nodes.join(" and ")),
        Done::Wished(what) => format!("{what} wished"),
        Done::Ended(what) => format!("{what} ends"),
        Done::Alert(text) => format!("alert: {text}"),
        Done::Nothing(why) => format!("nothing: {why}"),
    }
}
