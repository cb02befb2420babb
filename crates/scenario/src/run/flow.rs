//! Phases of a run, iterations, and what behaviours want.

use crate::behaviour::{Answer, FailedBy, Failure, Iteration, News, SocketEvent, User, Wants};
use crate::executors::{Course, Step};
use crate::metrics::Builtin;
use crate::run::director::{Phase, Runner};
use crate::run::plan::LINKS_OF_A_USER;
use crate::run::report::Ended;
use crate::run::scripts::monotonic_ns;
use crate::run::timers::Timer;
use crate::run::user::{Busy, Doing, Stage};
use std::time::Duration;
use weir_load::directed::Orders;

/// The user of setup and teardown.
pub(crate) const AROUND: u32 = 0;

/// What a behaviour is told, with what it owns.
pub(crate) enum Told {
    Begins(Iteration),
    Answered(Vec<Answer>),
    Heard(Vec<SocketEvent>),
    Woke,
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Runner {
    /// The run begins.
    pub(crate) fn begin(&mut self, now_ns: u64, orders: &mut Orders) {
        if self.plan.setup {
            self.phase = Phase::Setup;
            self.begin_around(User::Setup, now_ns, orders);
        } else {
            self.begin_scenarios(now_ns, orders);
        }
    }

    fn begin_around(&mut self, whose: User, now_ns: u64, orders: &mut Orders) {
        let most = if whose == User::Setup { self.plan.setup_max } else { self.plan.teardown_max };
        self.around_until_ns = now_ns.saturating_add(nanoseconds(most));
        let user = &mut self.users[AROUND as usize];
        user.whose = whose;
        user.behaviour = None;
        user.jar.lock().clear();
        self.begin_iteration(AROUND, None, orders);
    }

    fn begin_scenarios(&mut self, now_ns: u64, orders: &mut Orders) {
        self.phase = Phase::Running;
        self.begin_ns = now_ns;
        self.courses = self.plan.scenarios.iter().map(|planned| Course::new(planned, now_ns)).collect();
        self.course_ns = vec![u64::MAX; self.courses.len()];
        (0..self.courses.len()).for_each(|scenario| self.look_at_course(scenario, now_ns, orders));
        self.begin_ready(orders);
    }

    /// Looks at what is due in a scenario, and when to look again.
    pub(crate) fn look_at_course(&mut self, scenario: usize, now_ns: u64, orders: &mut Orders) {
        if self.phase != Phase::Running {
            return;
        }
        let mut steps = Vec::new();
        self.courses[scenario].look(now_ns, &mut steps);
        if self.course_ns[scenario] <= now_ns {
            self.course_ns[scenario] = u64::MAX;
        }
        self.take_steps(scenario, &steps, orders);
        self.time_course(scenario, now_ns);
        self.see_whether_over(now_ns, orders);
    }

    /// Sets the timer of a scenario, if it has none that is soon enough.
    fn time_course(&mut self, scenario: usize, now_ns: u64) {
        if let Some(next_ns) = self.courses.get(scenario).and_then(|course| course.next_ns(now_ns))
            && next_ns < self.course_ns[scenario]
        {
            self.course_ns[scenario] = next_ns;
            self.timers.push(next_ns, Timer::Course { scenario: scenario as u32 });
        }
    }

    fn take_steps(&mut self, scenario: usize, steps: &[Step], orders: &mut Orders) {
        for step in steps {
            match *step {
                Step::Begin { user, intended_ns } => {
                    if self.ready.is_empty() {
                        self.timers.push(0, Timer::Ready);
                    }
                    self.ready.push_back((self.firsts[scenario] + user, intended_ns));
                }
                Step::Cut { user } => self.cut_iteration(self.firsts[scenario] + user, orders),
            }
        }
        let working = self.courses[scenario].working();
        let counts = &mut self.counts[scenario];
        counts.users_max = counts.users_max.max(working);
    }

    /// The next of the users that begin an iteration does so.
    pub(crate) fn begin_ready(&mut self, orders: &mut Orders) {
        let Some((user, intended_ns)) = self.ready.pop_front() else { return };
        if !self.ready.is_empty() {
            self.timers.push(0, Timer::Ready);
        }
        self.begin_iteration(user, intended_ns, orders);
    }

    fn begin_iteration(&mut self, user: u32, intended_ns: Option<u64>, orders: &mut Orders) {
        let now_ns = monotonic_ns();
        let whose = self.users[user as usize].whose;
        if self.users[user as usize].behaviour.is_none() {
            let made = self.maker.make(whose);
            self.scripts.took(monotonic_ns() - now_ns);
            match made {
                Ok(behaviour) => self.users[user as usize].behaviour = Some(behaviour),
                Err(failure) => {
                    self.ended = Ended::Unmade(failure);
                    return self.finish(orders);
                }
            }
        }
        let now_ns = monotonic_ns();
        let lag_ns = intended_ns.map_or(0, |intended_ns| now_ns.saturating_sub(intended_ns));
        if intended_ns.is_some() {
            self.lateness.add(lag_ns);
        }
        let lately_ns = self.scripts.lately().min(lag_ns);
        let own = &mut self.users[user as usize];
        own.begin_ns = now_ns;
        own.lag_ns = lag_ns - lately_ns;
        own.doing = Doing::Works;
        own.epoch = own.epoch.wrapping_add(1);
        let jar = own.jar.clone();
        let (scenario, number, of_user, of_scenario) = match whose {
            User::Of { scenario, number } => {
                let course = &self.courses[scenario];
                let of_user = course.begun_by(user - self.firsts[scenario]) - 1;
                (scenario, number, of_user, self.counts[scenario].begun)
            }
            User::Setup | User::Teardown => (0, 0, 0, 0),
        };
        if let User::Of { scenario, .. } = whose {
            self.counts[scenario].begun += 1;
        }
        let since_begin = Duration::from_nanos(now_ns.saturating_sub(self.begin_ns.max(1)));
        let late = Duration::from_nanos(lag_ns);
        let iteration = Iteration { scenario, user: number, of_user, of_scenario, since_begin, late, jar };
        self.resume(user, Told::Begins(iteration), orders);
    }

    /// A user's sleep is over.
    pub(crate) fn woke(&mut self, user: u32, epoch: u32, orders: &mut Orders) {
        let own = &self.users[user as usize];
        if own.epoch == epoch && matches!(own.doing, Doing::Works | Doing::Listens) {
            self.users[user as usize].doing = Doing::Works;
            self.resume(user, Told::Woke, orders);
        }
    }

    /// Asks a behaviour, and does what it wants.
    pub(crate) fn resume(&mut self, user: u32, mut told: Told, orders: &mut Orders) {
        let Some(mut behaviour) = self.users[user as usize].behaviour.take() else { return };
        loop {
            let before_ns = monotonic_ns();
            let wants = behaviour.resume(match &mut told {
                Told::Begins(iteration) => News::Begins(iteration.clone()),
                Told::Answered(answers) => News::Answered(answers),
                Told::Heard(events) => News::Heard(std::mem::take(events)),
                Told::Woke => News::Woke,
            });
            let now_ns = monotonic_ns();
            self.scripts.took(now_ns - before_ns);
            match wants {
                // A socket does at once what it can.
                Wants::Order(order) => {
                    self.order_socket(user, order, now_ns, orders);
                    told = Told::Woke;
                }
                Wants::Listen(_) if self.users[user as usize].sockets.has_news() => {
                    told = Told::Heard(self.users[user as usize].sockets.take_news());
                }
                wants => {
                    self.users[user as usize].behaviour = Some(behaviour);
                    return self.carry_out(user, wants, now_ns, orders);
                }
            }
        }
    }

    fn carry_out(&mut self, user: u32, wants: Wants, now_ns: u64, orders: &mut Orders) {
        match wants {
            Wants::Ask(asks) if !asks.is_empty() => self.ask(user, asks, now_ns, orders),
            Wants::Ask(_) | Wants::Order(_) => self.sleep(user, Duration::ZERO, now_ns),
            Wants::Sleep(time) => self.sleep(user, time, now_ns),
            Wants::Listen(time) => {
                if let Some(time) = time {
                    self.sleep(user, time, now_ns);
                }
                self.users[user as usize].doing = Doing::Listens;
            }
            Wants::Over(result) => self.iteration_over(user, result, now_ns, orders),
            Wants::Enough => self.no_more(user, now_ns, orders),
            Wants::Abort(failure) => {
                self.iteration_over(user, Err(failure.clone()), now_ns, orders);
                if self.phase == Phase::Running {
                    self.stop_all(Ended::Aborted(failure), now_ns, orders);
                }
            }
        }
    }

    fn sleep(&mut self, user: u32, time: Duration, now_ns: u64) {
        let own = &mut self.users[user as usize];
        let time_ns = nanoseconds(time);
        // What the iteration began late is no longer part of what follows.
        let caught_up_ns = own.lag_ns.min(time_ns);
        own.lag_ns -= caught_up_ns;
        own.doing = Doing::Works;
        let epoch = own.epoch;
        self.timers.push(now_ns.saturating_add(time_ns - caught_up_ns), Timer::Sleep { user, epoch });
    }

    fn iteration_over(&mut self, user: u32, result: Result<(), Failure>, now_ns: u64, orders: &mut Orders) {
        self.end_sockets(user, orders);
        let own = &mut self.users[user as usize];
        own.doing = Doing::Rests;
        own.epoch = own.epoch.wrapping_add(1);
        let took_ns = now_ns.saturating_sub(own.begin_ns);
        let User::Of { scenario, .. } = own.whose else { return self.around_over(result, now_ns, orders) };
        {
            let mut metrics = self.metrics.lock();
            let tags = Some(&self.plan.scenarios[scenario].tags);
            metrics.count(Builtin::Iterations, 1.0, &tags);
            metrics.count(Builtin::IterationDuration, took_ns as f64 / 1e6, &tags);
        }
        self.handle.iterations.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        match result {
            Ok(()) => self.counts[scenario].finished += 1,
            Err(failure) => {
                self.counts[scenario].failed += 1;
                self.causes.count(&failure.words);
            }
        }
        self.rest(user, scenario, now_ns, orders);
    }

    /// A scenario has no more iterations, as there is no data for them.
    fn no_more(&mut self, user: u32, now_ns: u64, orders: &mut Orders) {
        let own = &mut self.users[user as usize];
        own.doing = Doing::Rests;
        let User::Of { scenario, .. } = own.whose else { return self.around_over(Ok(()), now_ns, orders) };
        self.counts[scenario].unfed += 1;
        self.courses[scenario].end(now_ns);
        self.rest(user, scenario, now_ns, orders);
        self.time_course(scenario, now_ns);
    }

    /// A user has no iteration any more.
    fn rest(&mut self, user: u32, scenario: usize, now_ns: u64, orders: &mut Orders) {
        let keeps = self.plan.scenarios[scenario].keeps;
        if !keeps.cookies {
            self.users[user as usize].jar.lock().clear();
        }
        if !keeps.connections {
            let links = std::mem::take(&mut self.users[user as usize].links);
            (0..links.len() as u32).for_each(|link| orders.close(user * LINKS_OF_A_USER + link));
            orders.forget(user * LINKS_OF_A_USER);
        }
        let mut steps = Vec::new();
        self.courses[scenario].over(user - self.firsts[scenario], now_ns, &mut steps);
        self.take_steps(scenario, &steps, orders);
        self.see_whether_over(now_ns, orders);
    }

    /// The iteration of a user is cut.
    fn cut_iteration(&mut self, user: u32, orders: &mut Orders) {
        let now_ns = monotonic_ns();
        self.ready.retain(|(ready, _)| *ready != user);
        self.abandon_asks(user, orders);
        self.end_sockets(user, orders);
        if let Some(behaviour) = &mut self.users[user as usize].behaviour {
            behaviour.resume(News::Ends);
            self.scripts.took(monotonic_ns() - now_ns);
        }
        let own = &mut self.users[user as usize];
        own.doing = Doing::Rests;
        own.epoch = own.epoch.wrapping_add(1);
        if let User::Of { scenario, .. } = own.whose {
            self.counts[scenario].cut += 1;
            self.handle.interrupted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.rest(user, scenario, now_ns, orders);
        }
    }

    /// Requests of a user that are under way have no answer any more.
    pub(crate) fn abandon_asks(&mut self, user: u32, orders: &mut Orders) {
        let own = &mut self.users[user as usize];
        if !matches!(own.doing, Doing::Waits(_)) {
            return;
        }
        let Doing::Waits(waits) = std::mem::replace(&mut own.doing, Doing::Works) else { return };
        for pending in waits.pending {
            if let Stage::OnLink(link) = pending.stage {
                own.links[link as usize].busy = Busy::Nothing;
                own.links[link as usize].is_open = false;
                self.links_busy -= 1;
                orders.close(user * LINKS_OF_A_USER + link);
            }
        }
    }

    /// Nothing more begins; what is under way has a moment.
    pub(crate) fn stop_all(&mut self, ended: Ended, now_ns: u64, orders: &mut Orders) {
        self.ended = ended;
        let grace_ns = match self.ended {
            Ended::Aborted(_) => 0,
            _ => nanoseconds(self.plan.stop_grace),
        };
        for scenario in 0..self.courses.len() {
            self.courses[scenario].stop(now_ns, grace_ns);
            self.look_at_course(scenario, now_ns, orders);
        }
    }

    fn see_whether_over(&mut self, now_ns: u64, orders: &mut Orders) {
        let is_over = self.phase == Phase::Running && self.courses.iter().all(|course| course.is_over(now_ns));
        if !is_over {
            return;
        }
        self.end_ns = now_ns;
        let mut dropped = 0;
        for course in &self.courses {
            dropped += course.dropped();
        }
        if dropped > 0 {
            self.metrics.lock().count(Builtin::DroppedIterations, dropped as f64, &None::<&crate::behaviour::Tags>);
        }
        if self.plan.teardown && !matches!(self.ended, Ended::Unmade(_)) {
            self.phase = Phase::Teardown;
            self.begin_around(User::Teardown, now_ns, orders);
        } else {
            self.finish(orders);
        }
    }

    /// Setup or teardown is over.
    fn around_over(&mut self, result: Result<(), Failure>, now_ns: u64, orders: &mut Orders) {
        self.around_until_ns = u64::MAX;
        match (self.phase, result) {
            (Phase::Setup, Ok(())) => self.begin_scenarios(now_ns, orders),
            (Phase::Setup, Err(failure)) => {
                self.ended = Ended::Setup(failure.clone());
                self.around = Some(failure);
                self.finish(orders);
            }
            (_, result) => {
                self.around = result.err();
                self.finish(orders);
            }
        }
    }

    /// Setup or teardown took longer than it may.
    pub(crate) fn around_too_long(&mut self, orders: &mut Orders) {
        let now_ns = monotonic_ns();
        let (name, most) = match self.phase {
            Phase::Setup => ("setup", self.plan.setup_max),
            _ => ("teardown", self.plan.teardown_max),
        };
        self.cut_iteration(AROUND, orders);
        let words = format!("{name} took longer than {most:?}: give it more time, or less to do");
        self.around_over(Err(Failure { words: words.into(), by: FailedBy::Time }), now_ns, orders);
    }
}
