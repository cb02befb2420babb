//! Sessions under way: which burst each is at, and when it goes on.

use crate::counts::sessions::SessionTally;
use crate::directed::director::Directed;
use crate::engine::stage::Stage;
use crate::plan::run_plan::Plan;
use crate::requests::cookies::CookieJar;
use crate::schedule::scheduler::NEVER;
use crate::workload::crowd_clients::Client;
use crate::workload::users::Users;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The sessions of one loop.
#[derive(Debug)]
pub(crate) struct ActiveSessions {
    /// Which of the list comes next, and how far behind it the one after that is: together the loops keep the order.
    next: u64,
    step: u64,
    pub(crate) running: Vec<ActiveSession>,
    pub(crate) free: Vec<u32>,
    /// When those that think go on.
    pub(crate) wakes: BinaryHeap<Reverse<(u64, u32)>>,
    random: fastrand::Rng,
    /// Users whose steps are computed: each goes on without end, and each page counts as a session.
    pub(crate) users: Option<Users>,
    pub(crate) tally: SessionTally,
    /// The director that decides instead of the list, if there is one; the times in `wakes` are then the director's.
    pub(crate) stage: Option<Stage>,
}

/// One session under way.
#[derive(Debug, Default)]
pub(crate) struct ActiveSession {
    /// Its place in the list of the plan.
    pub(crate) session: u32,
    /// The burst that is under way, or that comes when it has thought.
    pub(crate) burst: u32,
    pub(crate) begin_ns: u64,
    pub(crate) answers: u32,
    /// Whether a response had a status that is not expected.
    pub(crate) is_unexpected: bool,
    /// Parts that are still to come of the page of a user whose steps are computed.
    pub(crate) parts: u32,
    pub(crate) client: Client,
    /// The slot of its connection while it thinks, if that is still open; over HTTP/2 while it has one at all.
    pub(crate) connection: Option<u32>,
    /// Whether it thinks, over HTTP/2, where its connection does not tell.
    pub(crate) thinks: bool,
    /// Its cookies while it has no connection.
    pub(crate) jar: Option<CookieJar>,
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Completed,
    Failed,
    /// Its user clicked stop.
    Stopped,
    /// The run's end cut it.
    Unfinished,
}

/// What comes after the responses of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The next one, after a pause; `begins` if it is the first of another page.
    Go {
        think_ns: u64,
        begins: bool,
    },
    End(End),
}

impl ActiveSession {
    /// A response came.
    pub(crate) fn answered(&mut self, is_expected: bool) {
        self.answers += 1;
        self.is_unexpected |= !is_expected;
    }
}

impl ActiveSessions {
    /// The sessions of loop `lane` of `lanes`, at most `most` at a time; `None` where there are none.
    pub(crate) fn new(plan: &Plan, lane: u32, lanes: u32, most: u32) -> Option<Box<Self>> {
        let users = plan.users.as_ref().map(|mix| Users::new(mix, lane, plan.sources));
        let seed = match (&plan.sessions, &plan.users) {
            (Some(sessions), _) => sessions.seed,
            (None, Some(mix)) => mix.seed,
            (None, None) => return None,
        };
        Some(Box::new(Self {
            next: u64::from(lane),
            step: u64::from(lanes),
            running: std::iter::repeat_with(ActiveSession::default).take(most as usize).collect(),
            free: (0..most).rev().collect(),
            wakes: BinaryHeap::with_capacity(most as usize),
            random: fastrand::Rng::with_seed(seed.wrapping_add(u64::from(lane) << 32)),
            users,
            tally: SessionTally::new(),
            stage: None,
        }))
    }

    /// Without a list: a director decides what is asked.
    pub(crate) fn directed(directed: Directed) -> Box<Self> {
        Box::new(Self {
            next: 0,
            step: 1,
            running: Vec::new(),
            free: Vec::new(),
            wakes: BinaryHeap::new(),
            random: fastrand::Rng::with_seed(0),
            users: None,
            tally: SessionTally::new(),
            stage: Some(Stage::new(directed)),
        })
    }

    /// When the first of those that think goes on.
    #[inline]
    pub(crate) fn next_wake_ns(&self) -> u64 {
        self.wakes.peek().map_or(NEVER, |Reverse((wake_ns, _))| *wake_ns)
    }

    /// The run begins.
    pub(crate) fn begins(&mut self, start_ns: u64) {
        if let Some(users) = &mut self.users {
            users.begins(start_ns);
        }
    }

    /// Which of the source addresses the connection of a session comes from, if that is its own.
    pub(crate) fn network(&self, session: u32) -> Option<u64> {
        self.users.as_ref().filter(|users| users.go())?;
        self.running.get((session as usize).checked_sub(1)?).map(|active| active.client.network)
    }

    /// Clients that came, and those of them that came with a crowd.
    pub(crate) fn came(&self) -> (u64, u64) {
        self.users.as_ref().map_or((0, 0), Users::came)
    }

    /// Begins one of the list, if there is room for it; gives the number that it has while it is under way.
    pub(crate) fn begin(&mut self, session: u32, intended_ns: u64) -> Option<u32> {
        let id = self.free.pop()?;
        self.running[id as usize] = ActiveSession { session, begin_ns: intended_ns, ..ActiveSession::default() };
        Some(id)
    }

    /// How many are under way.
    pub(crate) fn under_way(&self) -> usize {
        self.stage.as_ref().map_or(self.running.len() - self.free.len(), |stage| stage.under_way)
    }

    /// Counts a response with this status over a connection; returns whether a director decides what follows.
    pub(crate) fn count_answer(&mut self, session: u32, connection: u64, status: u16, is_expected: bool) -> bool {
        match &mut self.stage {
            Some(stage) => stage.answered(session, connection, status),
            None => self.running[session as usize - 1].answered(is_expected),
        }
        self.stage.is_some()
    }

    /// Takes the cookies of a session that has no connection any more.
    pub(crate) fn keep_jar(&mut self, session: u32, jar: CookieJar) {
        self.running[session as usize - 1].jar = Some(jar);
    }

    /// The cookies of a session, if it has some from former connections.
    pub(crate) fn take_jar(&mut self, session: u32) -> Option<CookieJar> {
        self.running[session as usize - 1].jar.take()
    }

    /// A session's connection ended while it thought.
    pub(crate) fn lose_connection(&mut self, session: u32) {
        match &mut self.stage {
            Some(stage) => stage.lose_connection(session),
            None => self.running[session as usize - 1].connection = None,
        }
    }

    /// Which session of the list begins next.
    pub(crate) fn choose(&mut self, sessions: usize) -> u32 {
        // Where users' steps are computed there is no list.
        let place = self.next % sessions.max(1) as u64;
        self.next += self.step;
        place as u32
    }

    /// What comes after a burst of a session of the list.
    pub(crate) fn next_burst(&mut self, id: u32, plan: &Plan, is_over: bool) -> Step {
        let active = &mut self.running[id as usize];
        let bursts = plan.session(active.session).bursts();
        let think = bursts[active.burst as usize].think;
        active.burst += 1;
        match active.burst as usize == bursts.len() {
            true => Step::End(End::Completed),
            false if is_over => Step::End(End::Unfinished),
            false => Step::Go { think_ns: think.draw_ns(&mut self.random), begins: false },
        }
    }

    /// What comes after a part of a page of a user whose steps are computed.
    pub(crate) fn next_part(&mut self, id: u32, now_ns: u64, end_ns: u64, is_last: bool) -> Step {
        let active = &mut self.running[id as usize];
        let Some(users) = &mut self.users else { return Step::End(End::Completed) };
        if active.parts > 0 {
            active.parts -= 1;
            return Step::Go { think_ns: users.within_ns(), begins: false };
        }
        if is_last {
            return Step::End(End::Completed);
        }
        if users.go() {
            return Step::End(End::Completed);
        }
        let (parts, think_ns) = (users.parts(), users.between_ns());
        self.count(id, End::Completed, now_ns, now_ns <= end_ns);
        let active = &mut self.running[id as usize];
        (active.parts, active.answers, active.is_unexpected) = (parts, 0, false);
        active.begin_ns = now_ns.saturating_add(think_ns);
        Step::Go { think_ns, begins: true }
    }

    /// A session is over.
    pub(crate) fn end(&mut self, id: u32, end: End, now_ns: u64, in_time: bool) {
        self.count(id, end, now_ns, in_time);
        self.free.push(id);
    }

    fn count(&mut self, id: u32, end: End, now_ns: u64, in_time: bool) {
        let active = &mut self.running[id as usize];
        let took_ns = now_ns.saturating_sub(active.begin_ns);
        let tally = &mut self.tally;
        match end {
            End::Completed => {
                tally.completed += 1;
                tally.completed_in_time += u64::from(in_time);
                match active.is_unexpected {
                    true => tally.unexpected += 1,
                    false => tally.lifetime.saturating_record(took_ns),
                }
            }
            End::Failed => {
                tally.failed += 1;
                tally.fail_time.saturating_record(took_ns);
            }
            End::Stopped => tally.stopped += 1,
            // A user between two pages has none that is unfinished.
            End::Unfinished => tally.unfinished += u64::from(active.answers > 0),
        }
        if end != End::Unfinished {
            let place = (active.answers as usize).min(tally.answers.len() - 1);
            tally.answers[place] += 1;
        }
    }
}
