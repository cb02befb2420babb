//! The thread that ticks: readings in, decisions out, and everything that comes of them.

use crate::active_actions::ActiveActions;
use crate::adviser::{Published, Shared, wait_for, with_better};
use crate::atoms::{AtomReading, Atoms};
use crate::board::{Board, Mail};
use crate::clients::{self, ClientReading, Clients};
use crate::environment::{AllDropped, CrowdNow, Environment, PopularNow, RuleInForce, RuleName, ServerNow, Work};
use crate::loop_stats::{Dropped, Taken};
use crate::monitor::{Monitor, Readings};
use crate::passed::PassedSessions;
use crate::persister::{Failing, PersisterJob};
use crate::persister_pipe::PersisterPipe;
use crate::remark;
use crate::rulebook::Rulebook;
use crate::server_actions::ServerActions;
use crate::setup::Setup;
use crate::shown::{forecast, links, outcome_name, reading, wait_now};
use crate::upstreams::Upstreams;
use serde_json::json;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weir_adapt::crowd::{Crowd, Kind};
use weir_adapt::log::{Entry, Header, LINE_BYTES_MAX, Recorded};
use weir_adapt::{AtomId, Contests, Decision, Engine, Outcome, Resource, Sketch};
use weir_server::Insight;

/// Readings of atoms that are told under one lock of the rules.
const AT_ONCE: usize = 256;
/// Atoms whose popularity is counted, and those that are shown.
const POPULAR: usize = 1024;
const POPULAR_SHOWN: usize = 20;
/// The most asked atoms whose readings are handed on to other rules.
const HANDED_ATOMS: usize = 256;
/// The most asked atoms whose forecasts are shown.
const FORECAST_ATOMS: usize = 4;
/// From one look at what is expected of clients to the next: loops may wait for it a moment.
const LINKS_EVERY: Duration = Duration::from_secs(5);
/// From one comparison of the methods of forecasts to the next: a second, of ticks that come a little early.
const CONTEST_EVERY: Duration = Duration::from_millis(900);
/// Clients that are shown.
const CLIENTS_SHOWN: usize = 10;
/// The popularity is halved so often.
const HALVE_EVERY: Duration = Duration::from_secs(60);
/// A look is sent to the persister so often.
const KEEP_EVERY: Duration = Duration::from_secs(1);
/// Decisions and active rules that are shown.
const SHOWN: usize = 50;
/// The entries of the recording are fetched so often, as the room for them is bounded.
const FETCH_EVERY: Duration = Duration::from_millis(100);
/// Without a decision, what is in force is shown anew every so many ticks.
const SHOW_EVERY: u64 = 5;

/// Everything that one tick needs.
pub(crate) struct Controller {
    pub(crate) shared: Arc<Shared>,
    pub(crate) board: Arc<Board>,
    pub(crate) monitor: Monitor,
    pub(crate) actions: Option<Box<dyn ServerActions>>,
    pub(crate) persister_pipe: PersisterPipe,
    pub(crate) setup: Setup,
    pub(crate) notice: fn(&str),
    active_actions: ActiveActions,
    atoms: Atoms,
    atom_readings: Vec<AtomReading>,
    clients: Clients,
    client_readings: Vec<ClientReading>,
    taken: Taken,
    passed: PassedSessions,
    crowd: Crowd,
    judged: Instant,
    /// Where the server tells what it knows; none: it does not.
    pub(crate) insight: Option<Insight>,
    upstreams: Upstreams,
    /// When it was asked what is expected of clients.
    asked_links: Option<Instant>,
    contests: Contests,
    /// When methods were compared; none: they were not yet.
    contested: Option<Instant>,
    popular: Sketch,
    halved: Instant,
    last: Instant,
    /// When a look was sent to be kept; none: the next one is.
    kept: Option<Instant>,
    /// Decisions that were too many, and lines that were lost since the last one that was not.
    decisions_dropped: u64,
    lines_lost: u64,
    shown: Environment,
    latest: VecDeque<Decision>,
}

impl Controller {
    pub(crate) fn new(
        shared: Arc<Shared>,
        board: Arc<Board>,
        (monitor, actions, persister_pipe): (Monitor, Option<Box<dyn ServerActions>>, PersisterPipe),
        setup: Setup,
        notice: fn(&str),
    ) -> Self {
        let now = Instant::now();
        let mut controller = Self {
            shared,
            board,
            monitor,
            actions,
            persister_pipe,
            setup,
            notice,
            active_actions: ActiveActions::default(),
            atoms: Atoms::default(),
            atom_readings: Vec::new(),
            clients: Clients::default(),
            client_readings: Vec::new(),
            taken: Taken::default(),
            passed: PassedSessions::default(),
            crowd: Crowd::default(),
            judged: now,
            insight: None,
            upstreams: Upstreams::default(),
            asked_links: None,
            contests: Contests::default(),
            contested: None,
            popular: Sketch::new(POPULAR),
            halved: now,
            last: now,
            kept: None,
            decisions_dropped: 0,
            lines_lost: 0,
            shown: Environment { server: ServerNow::own(), ..Environment::default() },
            latest: VecDeque::new(),
        };
        let rules = wait_for(&controller.shared.rules);
        controller.atoms.ask(&rules.engine, controller.setup.tick_ms(), controller.setup.is_recorded);
        controller.clients.ask(&rules.engine, controller.setup.tick_ms());
        drop(rules);
        controller.begin_recording();
        controller
    }

    /// Ticks until it is told to stop.
    pub(crate) fn run(&mut self) {
        let tick = self.setup.tick;
        // What the first rates count from: so at the first tick nothing is unknown that will be known at the second.
        self.monitor.look(self.atoms.refused);
        // So the recording is there as soon as the server answers.
        self.send();
        let mut next = Instant::now() + tick;
        loop {
            let fetch = Instant::now() + FETCH_EVERY;
            match self.board.wait_until(if self.setup.is_recorded { next.min(fetch) } else { next }) {
                Mail::Stop => break,
                Mail::Policy(engine) => self.take_up(*engine),
                Mail::Refused(why) => {
                    self.shown.policy.refused = Some(why);
                    self.board.show(&self.shown);
                }
                Mail::Tick if Instant::now() < next => {
                    self.write_entries();
                    self.send();
                }
                Mail::Tick => {
                    self.tick();
                    // After a pause of the whole machine there is nothing to be made up for.
                    next = (next + tick).max(Instant::now());
                }
            }
        }
        self.kept = None;
        self.shown.server.has_ended = true;
        self.tick();
        self.persister_pipe.finish(Duration::from_secs(2));
    }

    /// Other rules hold from now on; what the former ones had ordered ends.
    fn take_up(&mut self, engine: Engine) {
        self.active_actions.take_back(self.actions.as_deref());
        let policy = Arc::new(engine.policy().clone());
        // What was told to the former rules and not written down yet is theirs.
        self.tell_passed();
        self.write_down();
        let mut rules = wait_for(&self.shared.rules);
        let number = rules.number + 1;
        let now_ms = self.shared.now_ms();
        let next =
            Rulebook::new(engine, &self.setup.here, number, self.setup.tick_ms(), now_ms, self.setup.is_recorded);
        let former = std::mem::replace(&mut *rules, next);
        let atoms: Vec<String> = self.popular.most(HANDED_ATOMS).into_iter().map(|one| one.text.to_string()).collect();
        rules.take_over(now_ms, former, &atoms);
        self.atoms.ask(&rules.engine, self.setup.tick_ms(), self.setup.is_recorded);
        self.clients.ask(&rules.engine, self.setup.tick_ms());
        drop(rules);
        // Until the new policy is published the numbers differ, so loops begin no session. Only sessions of the former
        // policy are forgotten.
        for loop_stats in wait_for(&self.shared.all_stats).iter() {
            loop_stats.wait().forget_sessions();
        }
        self.shared.publish(Published::new(policy, number));
        self.active_actions.say_again(self.actions.as_deref());
        self.shown.policy.refused = None;
        self.begin_recording();
    }

    fn begin_recording(&mut self) {
        let rules = wait_for(&self.shared.rules);
        let (policy, valid_ms) = (rules.engine.policy(), rules.valid_ms());
        if self.setup.is_recorded {
            let (rules, clock) = (Some(policy.mark()), self.shared.clock_pair());
            let header = Header { rules, clock, ..Header::new(&self.setup.here, valid_ms) };
            self.persister_pipe.put(PersisterJob::Header, &header.to_line());
        }
        let name = |(rule, line): (&str, usize)| RuleName { rule: rule.to_owned(), line };
        self.shown.policy.names = policy.names().take(SHOWN).map(name).collect();
        drop(rules);
        self.shown.policy.since_unix_ms = self.shared.now_ms();
    }

    /// One tick.
    pub(crate) fn tick(&mut self) {
        let began = Instant::now();
        let seconds = began.duration_since(self.last).as_secs_f64().max(1e-3);
        self.last = began;
        self.take_statistics();
        let node = self.monitor.look(self.atoms.refused);
        self.atoms.readings(seconds, &mut self.atom_readings);
        let rules_us = self.tell(&node, seconds);
        let decisions = self.write_down();
        remark::decided(&decisions);
        self.carry_out(&decisions);
        self.judge();
        self.show(&node, &decisions, rules_us);
        self.shown.work.all_us_last = micros(began.elapsed());
        self.board.show(&self.shown);
        self.persister_pipe.put(PersisterJob::Flush, "");
        self.send();
    }

    /// Sends what waits for the persister, and tells of the persister's end.
    fn send(&mut self) {
        let was_there = self.persister_pipe.is_open();
        self.persister_pipe.send();
        if let Some(pid) = self.persister_pipe.gone.filter(|_| was_there) {
            (self.notice)(&format!(
                "the process that keeps and tells ({pid}) has ended: recording, environment and alerts are lost, and \
                 counted, until this server is started again"
            ));
        }
    }

    /// Takes what the loops have seen, from one loop after the other.
    fn take_statistics(&mut self) {
        let all_stats = wait_for(&self.shared.all_stats).clone();
        let mut dropped = Dropped { undecided: self.shared.undecided.load(Ordering::Relaxed), ..Dropped::default() };
        for (number, loop_stats) in all_stats.iter().enumerate() {
            let mut stats = loop_stats.wait();
            stats.take(&mut self.taken, self.atoms.is_full());
            dropped.add(stats.dropped());
            // The loop does not wait for the lock, so the controller releases it before it works on the content.
            drop(stats);
            self.atoms.take(number, &self.taken, &mut self.crowd, &mut self.popular);
            self.clients.take(&self.taken.seen);
            if self.taken.ended.is_empty() && self.taken.links.is_empty() {
                continue;
            }
            let mut rules = wait_for(&self.shared.rules);
            let now_ms = self.shared.now_ms();
            for session in self.taken.ended.drain(..) {
                rules.end(now_ms, session);
            }
            for (session, link) in self.taken.links.drain(..) {
                rules.read_link(now_ms, session, link);
            }
        }
        dropped.paths += self.atoms.dropped;
        dropped.clients += self.clients.uncounted;
        self.shown.dropped.loop_stats = dropped;
        if self.halved.elapsed() >= HALVE_EVERY {
            self.halved = Instant::now();
            self.popular.halve();
        }
    }

    /// Tells the rules what was read and has them look; how many microseconds the look took.
    fn tell(&mut self, node: &Readings, seconds: f64) -> u64 {
        self.tell_passed();
        let readings = std::mem::take(&mut self.atom_readings);
        for some in readings.chunks(AT_ONCE) {
            let mut rules = wait_for(&self.shared.rules);
            let now_ms = self.shared.now_ms();
            self.atoms.tell(now_ms, some, &mut rules);
            drop(rules);
            self.make_room();
        }
        self.atom_readings = readings;
        self.tell_clients(seconds);
        let mut rules = wait_for(&self.shared.rules);
        let now_ms = self.shared.now_ms();
        self.atoms.make_room(|path| rules.forget_atom(now_ms, path));
        drop(rules);
        let mut rules = wait_for(&self.shared.rules);
        let now_ms = self.shared.now_ms();
        for (resource, value) in node {
            rules.read_here(now_ms, *resource, *value);
        }
        if let Some(insight) = &self.insight {
            for (name, readings) in self.upstreams.readings(insight.upstreams(), seconds) {
                rules.read_node(now_ms, &name, &readings);
            }
        }
        self.active_actions.hold_workers(self.actions.as_deref());
        let began = Instant::now();
        rules.tick(now_ms);
        self.shared.ticked();
        let rules_us = micros(began.elapsed());
        drop(rules);
        wait_for(&self.shared.all_stats).iter().for_each(|loop_stats| loop_stats.wait().ticked());
        rules_us
    }

    /// Tells how much each client asks for, where some rule wants to know.
    fn tell_clients(&mut self, seconds: f64) {
        let mut readings = std::mem::take(&mut self.client_readings);
        let mut rules = wait_for(&self.shared.rules);
        self.clients.readings(self.shared.now_ms(), seconds, &mut rules, &mut readings);
        drop(rules);
        for some in readings.chunks(AT_ONCE) {
            let mut rules = wait_for(&self.shared.rules);
            let now_ms = self.shared.now_ms();
            for (number, name, rate_per_s) in some {
                // There is room: the rules know no others than those that are followed.
                rules.read_client(now_ms, *number, name, *rate_per_s);
            }
            drop(rules);
            self.make_room();
        }
        self.client_readings = readings;
    }

    /// Tells the rules of the sessions that were only counted since the last tick, before new readings come.
    fn tell_passed(&mut self) {
        if !self.setup.is_recorded {
            return;
        }
        self.shared.telling();
        let all_stats = wait_for(&self.shared.all_stats).clone();
        for loop_stats in &all_stats {
            loop_stats.wait().take_passed(&mut self.passed);
            let mut rules = wait_for(&self.shared.rules);
            let now_ms = self.shared.now_ms();
            for (path, link, sessions) in self.passed.drain() {
                rules.passed(now_ms, &path, link, sessions);
            }
            drop(rules);
            self.make_room();
        }
    }

    /// Fetches what is to be written down where there is little room left for more.
    fn make_room(&mut self) {
        let is_full = wait_for(&self.shared.rules).is_half_full();
        if is_full {
            self.write_entries();
            self.send();
        }
    }

    /// Hands what was told to the persister.
    fn write_entries(&mut self) {
        let (entries, lost) = wait_for(&self.shared.rules).take_entries();
        self.lines_lost += lost;
        for entry in &entries {
            self.line(entry);
        }
    }

    /// The same with what was decided.
    fn write_down(&mut self) -> Vec<Decision> {
        // Before the entries: a decision stands behind what it was made on.
        let (decisions, dropped) = wait_for(&self.shared.rules).take_decisions();
        self.decisions_dropped += dropped;
        self.write_entries();
        if self.setup.is_recorded {
            for decision in &decisions {
                self.line(&Entry { at_ms: decision.at_ms, what: Recorded::Decided(Box::new(decision.clone())) });
            }
        }
        decisions
    }

    fn line(&mut self, entry: &Entry) {
        if self.lines_lost > 0 {
            let lost = Entry { at_ms: entry.at_ms, what: Recorded::Lost { lines: self.lines_lost } };
            if self.persister_pipe.put(PersisterJob::Line, &lost.to_line()) {
                self.lines_lost = 0;
            }
        }
        let mut line = entry.to_line();
        if let Recorded::Decided(decision) = &entry.what
            && line.len() > LINE_BYTES_MAX
        {
            // Of very many readings none are cited: what was decided counts.
            let decision = Decision { readings: Vec::new(), ..Decision::clone(decision) };
            line = Entry { at_ms: entry.at_ms, what: Recorded::Decided(Box::new(decision)) }.to_line();
        }
        if line.len() > LINE_BYTES_MAX || !self.persister_pipe.put(PersisterJob::Line, &line) {
            self.lines_lost += 1;
        }
    }

    fn carry_out(&mut self, decisions: &[Decision]) {
        let published = self.shared.published();
        let outcomes = self.active_actions.carry_out(decisions, &published.policy, self.actions.as_deref());
        if outcomes.advice_changed {
            self.shared.publish(published.with(&self.active_actions));
        }
        for (session, atom, variant, decided) in outcomes.variants {
            let Some(pattern) = published.policy.pattern_of(&atom) else { continue };
            let variant = with_better(published.policy.variants(pattern), &variant);
            let all_stats = wait_for(&self.shared.all_stats);
            // A session that has ended meanwhile needs no other variant.
            let _ = all_stats.iter().any(|loop_stats| loop_stats.wait().want(session, &variant, decided));
        }
        for decision in decisions {
            let acted = matches!(decision.outcome, Outcome::Fired | Outcome::Released | Outcome::Superseded);
            if acted && let Ok(text) = serde_json::to_string(decision) {
                self.persister_pipe.put(PersisterJob::Decision, &text);
            }
            for order in decision.orders.iter().filter(|_| decision.outcome.is_fired()) {
                if let weir_adapt::Order::Alert { text } = order {
                    let what = format!("{text} (rule {}, {}:{})", decision.rule, decision.file, decision.line);
                    let readings: Vec<String> = decision.readings.iter().map(ToString::to_string).collect();
                    let more = json!({ "rule": decision.rule, "line": decision.line,
                        "subject": decision.subject.to_string(), "readings": readings });
                    self.alert(&what, text, &more);
                }
            }
        }
    }

    /// Alerts people. A failure to do so does not stop the controller.
    fn alert(&mut self, words: &str, text: &str, more: &serde_json::Value) {
        (self.notice)(&format!("alert: {words}"));
        let alert = json!({ "at_unix_ms": self.shared.now_ms(), "node": self.setup.here, "text": text, "more": more });
        self.persister_pipe.put(PersisterJob::Alert, &alert.to_string());
    }

    /// Says what the requests of late are, and alerts when that has changed for the worse.
    fn judge(&mut self) {
        if self.judged.elapsed() < self.setup.judge_every {
            return;
        }
        self.judged = Instant::now();
        let (interval, judgement) = self.crowd.judge();
        let kind = match judgement.kind {
            Kind::Calm => "calm",
            Kind::FlashCrowd => "flash_crowd",
            Kind::Attack => "attack",
            Kind::Unclear => "unclear",
        };
        let has_changed = self.shown.crowd.kind != kind;
        let shown = judgement.to_string();
        self.shown.crowd = CrowdNow {
            kind: kind.to_owned(),
            shown: shown.clone(),
            requests: interval.requests,
            clients: interval.clients,
            networks_known: interval.networks_known,
            few_files: interval.few_files,
        };
        if has_changed && judgement.kind != Kind::Calm {
            self.alert(&shown, &shown, &json!({ "interval": interval, "signs": judgement.signs, "kind": kind }));
        }
    }

    fn show(&mut self, node: &Readings, decisions: &[Decision], rules_us: u64) {
        for decision in decisions {
            let outcomes: &mut BTreeMap<String, u64> = self.shown.decided.entry(decision.rule.clone()).or_default();
            *outcomes.entry(outcome_name(&decision.outcome).to_owned()).or_default() += 1;
            self.latest.push_front(decision.clone());
        }
        self.latest.truncate(SHOWN);
        let work = self.shown.work;
        let popular = self.popular.most(POPULAR_SHOWN);
        let now_ms = self.shared.now_ms();
        let mut rules = wait_for(&self.shared.rules);
        if !decisions.is_empty() || work.ticks.is_multiple_of(SHOW_EVERY) {
            let active = rules.engine.active(now_ms, &rules.state, SHOWN);
            self.shown.in_force = active
                .into_iter()
                .map(|active| RuleInForce {
                    rule: active.rule,
                    line: active.line,
                    subject: active.subject.to_string(),
                    since_unix_ms: active.since_ms,
                    readings: active.readings.iter().map(ToString::to_string).collect(),
                })
                .collect();
            self.shown.decisions = self.latest.iter().cloned().collect();
        }
        // Only atoms that the rules know already, so that a look changes nothing.
        let most = popular.iter().take(FORECAST_ATOMS).filter(|popular| self.is_told(&popular.text));
        let mut most: Vec<AtomId> = most.filter_map(|popular| rules.atom(&popular.text)).collect();
        if rules.engine.contested(&most).1 > 0 {
            // Of so many forecasts those of one atom are enough.
            most.truncate(1);
        }
        let forecasts = rules.engine.forecasts(now_ms, &rules.state, &most);
        self.shown.passed_over = rules.state.counts();
        let policy = rules.engine.policy();
        (self.shown.policy.file, self.shown.policy.rules) = (policy.file().to_owned(), policy.rules());
        let sessions = rules.state.sessions();
        drop(rules);
        let methods_over = self.contest(&most);
        self.shown.forecasts = forecasts.into_iter().map(|now| forecast(now, &self.contests)).collect();
        self.shown.work = Work {
            ticks: work.ticks + 1,
            tick_ms: self.setup.tick_ms(),
            rules_us_last: rules_us,
            rules_us_max: work.rules_us_max.max(rules_us),
            all_us_last: work.all_us_last,
            atoms: self.atoms.len(),
            sessions,
            clients: self.clients.len(),
            loops_more: self.active_actions.loops_more(),
            forecasts_alone: methods_over,
        };
        let here = &self.setup.here;
        let mut readings: Vec<_> = node.iter().map(|(resource, value)| reading(*resource, here, *value)).collect();
        for popular in &popular {
            let number = self.atoms.find(&popular.text);
            let of = |reading: &&AtomReading| Some(reading.0) == number;
            let own = self.atom_readings.iter().filter(of);
            readings.extend(own.map(|(_, resource, value, _)| reading(*resource, &popular.text, *value)));
        }
        for (_, name, rate_per_s) in clients::most(&self.client_readings, CLIENTS_SHOWN) {
            readings.push(reading(Resource::Rate, &format!("client {name}"), *rate_per_s));
        }
        self.shown.waits = self.monitor.waits().iter().map(wait_now).collect();
        let shown = &mut self.shown;
        if let Some(insight) = &self.insight {
            insight.want(&popular.iter().map(|one| &*one.text).collect::<Vec<_>>());
        }
        let popular = popular.into_iter().map(|one| {
            let described = self.insight.as_ref().and_then(|insight| insight.described(&one.text));
            PopularNow {
                rate_per_s: self.atoms.rate_per_s(&one.text),
                bytes: described.map(|described| described.bytes),
                sha256: described.and_then(|described| Some(described.digest?.to_string())),
                text: one.text.into(),
                count: one.count,
                error: one.error,
            }
        });
        if let Some(insight) = &self.insight
            && self.asked_links.is_none_or(|asked| asked.elapsed() >= LINKS_EVERY)
        {
            self.asked_links = Some(Instant::now());
            shown.links = links(insight);
        }
        (shown.readings, shown.popular, shown.here) = (readings, popular.collect(), here.clone());
        (shown.at_unix_ms, shown.refused) = (now_ms, self.atoms.refused);
        shown.popular_error_max = self.popular.error_max();
        let report = &self.persister_pipe.report;
        let mut failing = report.failing.clone();
        failing.extend(
            self.persister_pipe.gone.map(|pid| Failing::new("clerk", &format!("its process, {pid}, has ended"))),
        );
        shown.dropped = AllDropped {
            loop_stats: shown.dropped.loop_stats,
            lines: self.persister_pipe.lines_lost(),
            persister_pipe: self.persister_pipe.others_lost(),
            records: report.records_lost,
            alerts: report.alerts_lost,
            decisions: self.decisions_dropped,
            evicted: self.clients.evicted,
            persister_gone: self.persister_pipe.gone.is_some(),
            failing,
        };
        if self.persister_pipe.is_open() && self.kept.is_none_or(|kept| kept.elapsed() >= KEEP_EVERY) {
            self.kept = Some(Instant::now());
            let look = self.shown.json();
            self.persister_pipe.put(PersisterJob::Look, &look);
        }
    }

    /// Has the methods of forecasts foretell what rules have foretold, beside each other; on how many of these there is
    /// no room for that.
    fn contest(&mut self, atoms: &[AtomId]) -> usize {
        let (contested, over) = wait_for(&self.shared.rules).engine.contested(atoms);
        if self.contested.is_none_or(|contested| contested.elapsed() >= CONTEST_EVERY) {
            self.contested = Some(Instant::now());
            for of in contested {
                // One at a time, as loops ask the rules meanwhile.
                let rules = wait_for(&self.shared.rules);
                rules.engine.contest(self.shared.now_ms(), &rules.state, of, &mut self.contests);
            }
        }
        over
    }

    /// Whether the rules have been told of an atom at this tick.
    fn is_told(&self, path: &str) -> bool {
        let number = self.atoms.find(path);
        self.atom_readings.iter().any(|reading| Some(reading.0) == number)
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
