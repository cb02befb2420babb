//! The director: users, their times, and the phases of a run.
//!
//! ```text
//! arrives -> setup -> all scenarios -> teardown -> over
//! ```
//!
//! Each call of the loop leads to at most one behaviour that asks, so that its request goes out before the next behaviour
//! takes its time; the others wait for their turn at once behind it.

use crate::behaviour::{Failure, Maker, User};
use crate::executors::Course;
use crate::metrics::{Builtin, Shared};
use crate::run::handle::Handle;
use crate::run::incoming::Watch;
use crate::run::plan::{LINKS_OF_A_USER, RunPlan};
use crate::run::report::{Causes, Ended, Lateness, Report, ScenarioCounts};
use crate::run::scripts::{ScriptTime, monotonic_ns};
use crate::run::timers::{Timer, Timers};
use crate::run::user::UserState;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weir_load::Outcome;
use weir_load::directed::{Directed, Director, Orders, Ways};

/// Behaviours that are asked in one turn of the loop before it looks at what came.
const ASKED_IN_A_TURN: u32 = 32;
/// How long the loop then has for that, in nanoseconds.
const TURN_NS: u64 = 20_000;
/// How often what shows progress is brought up to date.
const TICK_NS: u64 = 100_000_000;
/// Ticks between two samples of the number of users.
const TICKS_OF_A_SAMPLE: u64 = 10;
/// The most servers of a run.
const SERVERS_MAX: usize = 256;

/// Where the run leaves its report.
pub(crate) type Told = Arc<Mutex<Option<Report>>>;

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Before,
    Setup,
    Running,
    Teardown,
    Over,
}

/// Runs users.
pub(crate) struct Runner {
    pub(crate) plan: RunPlan,
    pub(crate) maker: Box<dyn Maker>,
    pub(crate) metrics: Shared,
    pub(crate) handle: Arc<Handle>,
    pub(crate) watch: Watch,
    pub(crate) ways: Ways,
    pub(crate) users: Vec<UserState>,
    /// The first user of each scenario; before them is the one of setup and teardown.
    pub(crate) firsts: Vec<u32>,
    pub(crate) courses: Vec<Course>,
    /// For when each course is to be looked at, as its timer has it.
    pub(crate) course_ns: Vec<u64>,
    pub(crate) counts: Vec<ScenarioCounts>,
    pub(crate) timers: Timers,
    /// Users that begin an iteration, with its intended time, and whether there is a timer for them.
    pub(crate) ready: VecDeque<(u32, Option<u64>)>,
    pub(crate) scripts: ScriptTime,
    pub(crate) phase: Phase,
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) overdue_ns: u64,
    pub(crate) links_busy: usize,
    pub(crate) ended: Ended,
    pub(crate) around: Option<Failure>,
    pub(crate) around_until_ns: u64,
    pub(crate) causes: Causes,
    pub(crate) unanswered: Causes,
    pub(crate) lateness: Lateness,
    pub(crate) resent: u64,
    pub(crate) cut_answers: u64,
    budget: u32,
    ticks: u64,
    told: Told,
}

impl Runner {
    pub(crate) fn new(
        plan: RunPlan,
        maker: Box<dyn Maker>,
        metrics: Shared,
        handle: Arc<Handle>,
        watch: Watch,
        told: Told,
    ) -> Self {
        let mut users = vec![UserState::new(User::Setup)];
        let (mut firsts, mut counts) = (Vec::new(), Vec::new());
        for (scenario, planned) in plan.scenarios.iter().enumerate() {
            let first = users.len() as u32;
            firsts.push(first);
            let own = first..first + planned.executor.users_max();
            users.extend(own.map(|number| UserState::new(User::Of { scenario, number })));
            let name = Arc::clone(&planned.name);
            counts.push(ScenarioCounts {
                name,
                begun: 0,
                finished: 0,
                failed: 0,
                cut: 0,
                unfed: 0,
                dropped: 0,
                users_max: 0,
            });
        }
        Self {
            plan,
            maker,
            metrics,
            handle,
            watch,
            ways: Ways::new(SERVERS_MAX),
            users,
            firsts,
            courses: Vec::new(),
            course_ns: Vec::new(),
            counts,
            timers: Timers::default(),
            ready: VecDeque::new(),
            scripts: ScriptTime::default(),
            phase: Phase::Before,
            begin_ns: 0,
            end_ns: 0,
            overdue_ns: u64::MAX,
            links_busy: 0,
            ended: Ended::Planned,
            around: None,
            around_until_ns: u64::MAX,
            causes: Causes::default(),
            unanswered: Causes::default(),
            lateness: Lateness::default(),
            resent: 0,
            cut_answers: 0,
            budget: ASKED_IN_A_TURN,
            ticks: 0,
            told,
        }
    }

    /// The director as the engine wants it.
    pub(crate) fn directed(self) -> Directed {
        let ways = Some(self.ways.clone());
        Directed { director: Box::new(self), at_a_time: 1, links_of_a_user: LINKS_OF_A_USER, ways }
    }

    /// Asks the loop to wake for what is due next.
    fn arm(&mut self, now_ns: u64, orders: &mut Orders) {
        if self.phase == Phase::Over {
            return;
        }
        if let Some((at_ns, token)) = self.timers.arm() {
            orders.wake(Duration::from_nanos(at_ns.saturating_sub(now_ns)), token);
        }
    }

    /// Deals with what is due, until a behaviour was asked.
    fn due(&mut self, now_ns: u64, orders: &mut Orders) {
        while let Some(timer) = self.timers.pop(now_ns) {
            let asked_before = self.scripts.calls;
            match timer {
                Timer::Sleep { user, epoch } => self.woke(user, epoch, orders),
                Timer::Names { user, epoch } => self.look_for_names(user, epoch, now_ns, orders),
                Timer::Socket { user, socket } => self.look_at_socket(user, socket, now_ns, orders),
                Timer::Course { scenario } => self.look_at_course(scenario as usize, now_ns, orders),
                Timer::Overdue => self.look_at_overdue(now_ns, orders),
                Timer::Tick => self.tick(now_ns, orders),
                Timer::Ready => self.begin_ready(orders),
            }
            if self.scripts.calls > asked_before {
                self.budget = self.budget.saturating_sub(1);
                return;
            }
        }
    }

    /// Brings what shows progress up to date, and sees whether the user ended the run.
    fn tick(&mut self, now_ns: u64, orders: &mut Orders) {
        let working: u32 = self.courses.iter().map(Course::working).sum();
        self.handle.users.store(working, Ordering::Relaxed);
        self.handle.dropped.store(self.courses.iter().map(Course::dropped).sum(), Ordering::Relaxed);
        if self.phase == Phase::Running && self.ticks.is_multiple_of(TICKS_OF_A_SAMPLE) {
            let mut metrics = self.metrics.lock();
            metrics.count(Builtin::Vus, f64::from(working), &None::<&crate::behaviour::Tags>);
            metrics.count(Builtin::VusMax, (self.users.len() - 1) as f64, &None::<&crate::behaviour::Tags>);
        }
        self.ticks += 1;
        if self.handle.is_stopped() && self.phase == Phase::Running && self.ended == Ended::Planned {
            self.stop_all(Ended::Stopped, now_ns, orders);
        }
        if self.handle.is_stopped() && self.phase == Phase::Setup {
            self.ended = Ended::Stopped;
            return self.finish(orders);
        }
        if now_ns >= self.around_until_ns {
            self.around_too_long(orders);
        }
        self.timers.push(now_ns + TICK_NS, Timer::Tick);
    }

    /// Leaves the report.
    fn tell(&mut self) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_some() {
            return;
        }
        for (counts, course) in self.counts.iter_mut().zip(&self.courses) {
            (counts.begun, counts.dropped) = (course.begun(), course.dropped());
        }
        let end_ns = if self.end_ns > 0 { self.end_ns } else { monotonic_ns() };
        *told = Some(Report {
            scenarios: self.counts.clone(),
            duration: Duration::from_nanos(if self.begin_ns > 0 { end_ns.saturating_sub(self.begin_ns) } else { 0 }),
            ended: self.ended.clone(),
            around: self.around.clone(),
            causes: self.causes.list(),
            unanswered: self.unanswered.list(),
            scripts: Duration::from_nanos(self.scripts.all_ns),
            longest_script: Duration::from_nanos(self.scripts.longest_ns),
            script_calls: self.scripts.calls,
            taken_out: Duration::from_nanos(self.scripts.taken_out_ns),
            lateness: self.lateness.clone(),
            resent: self.resent,
            cut_answers: self.cut_answers,
        });
    }

    /// The run is over; what is under way of users that can do no more is given up.
    pub(crate) fn finish(&mut self, orders: &mut Orders) {
        self.phase = Phase::Over;
        for user in 0..self.users.len() as u32 {
            self.abandon_asks(user, orders);
            self.end_sockets(user, orders);
        }
        self.tell();
        orders.stop();
        orders.over();
    }
}

impl Director for Runner {
    fn arrives(&mut self, _: u64, orders: &mut Orders) {
        let now_ns = monotonic_ns();
        self.timers.push(now_ns, Timer::Tick);
        self.begin(now_ns, orders);
        self.arm(now_ns, orders);
    }

    fn answered(&mut self, _: u32, _: u64, _: u16) {}

    fn idle(&mut self, link: u32, kept: bool, orders: &mut Orders) {
        self.link_answered(link, kept, orders);
        self.arm(monotonic_ns(), orders);
    }

    fn came(&mut self, link: u32, bytes: &[u8], orders: &mut Orders) {
        self.socket_came(link, bytes, orders);
        self.arm(monotonic_ns(), orders);
    }

    fn ended(&mut self, link: u32, outcome: Outcome, orders: &mut Orders) {
        self.link_ended(link, outcome, orders);
        self.arm(monotonic_ns(), orders);
    }

    fn turns(&mut self) {
        self.budget = ASKED_IN_A_TURN;
        self.scripts.turns();
    }

    fn wakes(&mut self, token: u32, orders: &mut Orders) {
        if !self.timers.woke(token) || self.phase == Phase::Over {
            return;
        }
        let now_ns = monotonic_ns();
        if self.budget == 0 {
            // What came meanwhile is looked at before.
            let (_, token) = self.timers.arm_at(now_ns + TURN_NS);
            orders.wake(Duration::from_nanos(TURN_NS), token);
            return;
        }
        self.due(now_ns, orders);
        self.arm(monotonic_ns(), orders);
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        if self.phase != Phase::Over {
            self.ended = Ended::Stopped;
            self.tell();
        }
    }
}
