//! The rules over nodes at a node: which of its sessions switch, and whether it serves, drains or sleeps.

use super::gate::Open;
use super::node::Own;
use super::ruled::{Ends, lock};
use crate::cluster::rules::{self, Look, RulesFile};
use crate::cluster::rules_published;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use weir_adapt::Decision;
use weir_adapt::forecast::Method;
use weir_adapt::nodes::{Heeded, NodeRules, NodeState, SessionSeen, Switch, Switched};
use weir_cluster::{Directing, HeardMember};
use weir_keeper::Flow;

/// How often rules are evaluated: as often as nodes say how they stand.
const TICK: Duration = Duration::from_secs(1);
/// How long a node that is to sleep gives sessions away; the others end with their clients.
const DRAIN_MAX: Duration = Duration::from_secs(30);
/// Sessions that are given away before the director's word is looked at again.
const DRAINED_AT_A_TIME: usize = 256;
/// Looks that find no session before there is none.
const LOOKS: u32 = 2;

/// How far the thread is.
struct Following {
    begun: Instant,
    file: RulesFile,
    rules: Option<NodeRules<Ends>>,
    state: NodeState,
    /// Since when it drains.
    drains_since: Instant,
    empty_looks: u32,
}

impl Own {
    /// Evaluates the rules of the file in the cluster's directory, and follows the director, until the process ends.
    pub(super) fn follow_rules(&self, folder: &Path) {
        let mut following = Following {
            begun: Instant::now(),
            file: RulesFile::of(folder, &self.members),
            rules: None,
            state: NodeState::Awake,
            drains_since: Instant::now(),
            empty_looks: 0,
        };
        if let Err(error) = rules_published::follow(folder, &self.members) {
            self.gate.tell(&format!("published rules are not followed: {error}"));
        }
        loop {
            let next = Instant::now() + TICK;
            self.read_rules(&mut following);
            let heard = self.gossip.heard();
            self.heed(&mut following, &heard);
            match following.state {
                NodeState::Draining => self.go_to_sleep(&mut following, next),
                NodeState::Awake => self.switch_sessions(&mut following, &heard),
                NodeState::Asleep => {}
            }
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    }

    fn read_rules(&self, following: &mut Following) {
        let fault = match following.file.look() {
            Look::Same => return,
            Look::Gone => {
                following.rules = None;
                None
            }
            Look::New(policy) => {
                lock(&self.ruling.now).rules = policy.rules() as u64;
                let (method, times) = (Method::default(), self.members.pace.rule_times());
                following.rules = Some(NodeRules::new(*policy, method, times, &self.name));
                None
            }
            Look::Wrong(why) => Some(why),
        };
        match &fault {
            Some(why) => self.gate.tell(&format!("{why}\nthe rules over nodes stay as they were")),
            None => self.gate.tell(if following.rules.is_some() {
                "the rules over nodes hold"
            } else {
                "there are no rules over nodes any more"
            }),
        }
        let mut now = lock(&self.ruling.now);
        if following.rules.is_none() {
            now.rules = 0;
        }
        now.fault = fault;
    }

    /// Does what the director's newest word says of this node, and tells so.
    fn heed(&self, following: &mut Following, heard: &[HeardMember]) {
        self.ruling.hear(rules::newest_word(&self.members, heard, |_| true));
        let (epoch, number, is_awake) = {
            let word = lock(&self.ruling.word);
            (word.epoch, word.number, word.awake.get(&self.name).copied().unwrap_or(true))
        };
        let before = following.state;
        following.state = match (before, is_awake) {
            (_, true) => NodeState::Awake,
            (NodeState::Awake, false) => NodeState::Draining,
            (state, false) => state,
        };
        if following.state != before {
            (following.drains_since, following.empty_looks) = (Instant::now(), 0);
            self.seen.ruled(None, epoch, following.state.word(), "");
            tracing::info!(state = following.state.word(), epoch, "the director has said so");
        }
        self.tell_state(following.state, (epoch, number));
        let copies = following.rules.as_ref().map(|rules| {
            let word = lock(&self.ruling.word);
            rules::copies(rules.policy(), &self.members, &word)
        });
        let wishes = copies.unwrap_or_default();
        lock(&self.ruling.now).copies = wishes.0.iter().map(|(of, copies)| (of.clone(), copies.count)).collect();
        if let Some(sites) = &self.sites {
            sites.keeping.set_wishes(wishes);
        }
    }

    fn tell_state(&self, state: NodeState, (epoch, number): (u64, u64)) {
        // Also before any word: a director that begins need not wait then.
        self.gossip.set_rules(&Heeded { epoch, number, state }.to_text());
        let mut now = lock(&self.ruling.now);
        (now.state, now.follows) = (state.word().to_owned(), (epoch, number));
    }

    /// Gives sessions away until none is left.
    fn go_to_sleep(&self, following: &mut Following, until: Instant) {
        while Instant::now() < until {
            let left = match self.give_some_away(DRAINED_AT_A_TIME) {
                Ok(left) => left,
                Err(error) => return tracing::warn!(%error, "sessions are not given away"),
            };
            following.empty_looks = if left == 0 { following.empty_looks + 1 } else { 0 };
            let is_late = following.drains_since.elapsed() >= DRAIN_MAX;
            if following.empty_looks >= LOOKS || is_late {
                following.state = NodeState::Asleep;
                let (epoch, number) = {
                    let word = lock(&self.ruling.word);
                    (word.epoch, word.number)
                };
                let why = if left == 0 { String::new() } else { format!("{left} connections stay") };
                self.seen.ruled(None, epoch, NodeState::Asleep.word(), &why);
                return self.tell_state(NodeState::Asleep, (epoch, number));
            }
            // What could not move, and a connection that is on its way, are looked for again.
            std::thread::sleep(TICK / 4);
        }
    }

    /// Has sessions go on at other nodes, where rules say so.
    fn switch_sessions(&self, following: &mut Following, heard: &[HeardMember]) {
        let Some(rules) = &mut following.rules else { return };
        let open = match self.gate.sessions() {
            Ok(open) => open,
            Err(error) => return tracing::warn!(%error, "the server tells no sessions"),
        };
        let sessions = self.sessions_of(&open);
        let now_ms = following.begun.elapsed().as_millis() as u64;
        let (nodes, atoms) = rules::seen(&self.members, heard);
        let switches = rules.tick(now_ms, &nodes, &atoms, &sessions);
        let switched: Vec<(Ends, Switched)> = std::thread::scope(|scope| {
            let moves = switches.iter().map(|switch| scope.spawn(move || (switch.key, self.switch(switch))));
            let moves: Vec<_> = moves.collect();
            moves.into_iter().filter_map(|one| one.join().ok()).collect()
        });
        let mut now = lock(&self.ruling.now);
        for (key, what) in &switched {
            rules.switched(key, *what, now_ms);
            match what {
                Switched::Moved => now.switched += 1,
                Switched::Failed => now.failed += 1,
            }
        }
        now.put_off = rules.put_off();
    }

    /// The sessions of the services that send a file.
    fn sessions_of(&self, open: &[Open]) -> Vec<SessionSeen<Ends>> {
        let all: BTreeSet<Ends> = open.iter().map(|open| (open.client, open.service)).collect();
        self.ruling.arrivals.keep(&all);
        let sending = open.iter().filter(|open| self.members.services.contains(&open.service));
        let seen = sending.filter_map(|open| {
            let key = (open.client, open.service);
            Some(SessionSeen { key, path: open.path.clone()?, is_taken: self.ruling.arrivals.has(&key) })
        });
        seen.collect()
    }

    fn switch(&self, switch: &Switch<Ends>) -> Switched {
        let Switch { key: (client, service), to, decision } = switch;
        let epoch = self.director.epoch();
        let given = to.parse().map_err(anyhow::Error::from).and_then(|name| {
            let number = self.members.number(&name)?;
            Ok(self.mover.give(&Flow { client: *client, service: *service }, number)?)
        });
        let (done, what) = match given {
            Ok(_) => (format!("{client} goes on at {to}"), Switched::Moved),
            Err(error) => (format!("{client} stays: {error:#}"), Switched::Failed),
        };
        self.seen.ruled(Some(rule_of(decision)), epoch, &done, &readings_of(decision));
        what
    }
}

/// The rule of a decision, with its place.
pub(crate) fn rule_of(decision: &Decision) -> String {
    format!("{}:{} {}", decision.file, decision.line, decision.rule)
}

/// The readings of a decision, in words.
pub(crate) fn readings_of(decision: &Decision) -> String {
    decision.readings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
