//! A scenario under way: which of its users works, and when the next iteration begins.

use crate::executors::plan::{Executor, Planned};
use crate::executors::stages::Stages;
use weir_load::Profile;

/// Arrivals that one look takes at most, so that the loop gets its turn in between.
const ARRIVALS_OF_A_LOOK: u32 = 256;

/// A scenario under way; times are nanoseconds of the run's clock.
#[derive(Debug)]
pub struct Course {
    kind: Kind,
    begin_ns: u64,
    /// When no iteration begins any more, and when those under way are cut.
    end_ns: u64,
    cut_ns: u64,
    users: Vec<Worker>,
    working: u32,
    /// Iterations that began, in all.
    begun: u64,
    dropped: u64,
    is_begun: bool,
}

#[derive(Debug)]
enum Kind {
    Constant,
    Ramping { stages: Stages, ramp_down_ns: u64 },
    Shared { iterations: u64 },
    PerUser { iterations: u64 },
    Arrivals { profile: std::sync::Arc<Profile>, free: Vec<u32>, next_ns: Option<u64>, arrived: u64 },
}

/// A user, as its scenario sees it.
#[derive(Debug, Clone, Copy, Default)]
struct Worker {
    work: Work,
    begun: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Work {
    #[default]
    Rests,
    /// Works on an iteration, which is cut at this time if that is sooner than the scenario's.
    Works { cut_ns: u64 },
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A user begins an iteration; at the intended time, in an open loop.
    Begin {
        /// Its place among the scenario's users.
        user: u32,
        /// When the schedule wanted it.
        intended_ns: Option<u64>,
    },
    /// What a user does is cut.
    Cut {
        /// Its place among the scenario's users.
        user: u32,
    },
}

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Course {
    /// A scenario whose run begins at this time.
    #[must_use]
    pub fn new(plan: &Planned, run_begin_ns: u64) -> Self {
        let begin_ns = run_begin_ns.saturating_add(nanoseconds(plan.start));
        let end_ns = begin_ns.saturating_add(nanoseconds(plan.executor.duration()));
        let users = plan.executor.users_max();
        let kind = match &plan.executor {
            Executor::Constant { .. } => Kind::Constant,
            Executor::Ramping { start, stages, ramp_down } => {
                Kind::Ramping { stages: Stages::new(*start, stages), ramp_down_ns: nanoseconds(*ramp_down) }
            }
            Executor::Shared { iterations, .. } => Kind::Shared { iterations: *iterations },
            Executor::PerUser { iterations, .. } => Kind::PerUser { iterations: *iterations },
            Executor::Arrivals { profile, .. } => Kind::Arrivals {
                profile: profile.clone(),
                free: (0..users).rev().collect(),
                next_ns: arrival(profile, begin_ns, 0),
                arrived: 0,
            },
        };
        Self {
            kind,
            begin_ns,
            end_ns,
            cut_ns: end_ns.saturating_add(nanoseconds(plan.graceful_stop)),
            users: vec![Worker::default(); users as usize],
            working: 0,
            begun: 0,
            dropped: 0,
            is_begun: false,
        }
    }

    /// Iterations that began so far.
    #[must_use]
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Iterations of a user that began so far.
    #[must_use]
    pub fn begun_by(&self, user: u32) -> u64 {
        self.users[user as usize].begun
    }

    /// Iterations that found no user.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Users that work on an iteration.
    #[must_use]
    pub fn working(&self) -> u32 {
        self.working
    }

    /// How far it has come, from 0 to 1.
    #[must_use]
    pub fn progress(&self, now_ns: u64) -> f64 {
        let passed =
            now_ns.saturating_sub(self.begin_ns) as f64 / self.end_ns.saturating_sub(self.begin_ns).max(1) as f64;
        let by_iterations = match self.kind {
            Kind::Shared { iterations } => self.begun as f64 / iterations as f64,
            Kind::PerUser { iterations } => self.begun as f64 / (iterations as f64 * self.users.len() as f64),
            _ => 0.0,
        };
        passed.max(by_iterations).min(1.0)
    }

    /// When it began or begins.
    #[must_use]
    pub fn begin_ns(&self) -> u64 {
        self.begin_ns
    }

    /// Whether nothing of it is under way, and nothing more comes.
    #[must_use]
    pub fn is_over(&self, now_ns: u64) -> bool {
        if self.working > 0 {
            return false;
        }
        match &self.kind {
            Kind::Arrivals { next_ns, .. } => next_ns.is_none(),
            _ if now_ns >= self.end_ns => true,
            Kind::Constant | Kind::Ramping { .. } => false,
            Kind::Shared { iterations } => self.begun >= *iterations,
            Kind::PerUser { iterations } => self.users.iter().all(|user| user.begun >= *iterations),
        }
    }

    /// Nothing of it begins any more; what is under way has as long as at its end.
    pub fn end(&mut self, now_ns: u64) {
        let grace_ns = self.cut_ns - self.end_ns;
        self.stop(now_ns, grace_ns);
    }

    /// Nothing of it begins any more; what is under way is cut after this time.
    pub fn stop(&mut self, now_ns: u64, grace_ns: u64) {
        if let Kind::Arrivals { next_ns, .. } = &mut self.kind {
            *next_ns = None;
        }
        self.end_ns = self.end_ns.min(now_ns);
        self.cut_ns = self.cut_ns.min(now_ns.saturating_add(grace_ns));
    }

    /// When it is to be looked at next; `None` if only users' iterations lead on.
    #[must_use]
    pub fn next_ns(&self, now_ns: u64) -> Option<u64> {
        if !self.is_begun {
            return Some(self.begin_ns.min(self.end_ns));
        }
        let ends_ns = if now_ns < self.end_ns { self.end_ns } else { self.cut_ns };
        let ends = (self.working > 0 || now_ns < self.end_ns).then_some(ends_ns);
        let own = match &self.kind {
            Kind::Arrivals { next_ns, .. } => *next_ns,
            _ if now_ns >= self.end_ns => None,
            Kind::Ramping { stages, .. } => {
                let change = stages.at(now_ns.saturating_sub(self.begin_ns)).1.map(|next| self.begin_ns + next);
                [change, self.next_cut_ns()].into_iter().flatten().min()
            }
            _ => None,
        };
        [own, ends].into_iter().flatten().min()
    }

    fn next_cut_ns(&self) -> Option<u64> {
        let cuts = self.users.iter().filter_map(|user| match user.work {
            Work::Works { cut_ns } if cut_ns < u64::MAX => Some(cut_ns),
            _ => None,
        });
        cuts.min()
    }

    /// Says what is due by now.
    pub fn look(&mut self, now_ns: u64, steps: &mut Vec<Step>) {
        if now_ns < self.begin_ns {
            return;
        }
        let begins = !std::mem::replace(&mut self.is_begun, true);
        if now_ns >= self.end_ns {
            // Those that were wanted before its end and found the loop late.
            self.arrive(now_ns, steps);
            return self.cut(now_ns, steps);
        }
        match &mut self.kind {
            Kind::Constant | Kind::PerUser { .. } if begins => {
                (0..self.users.len() as u32).for_each(|user| self.begin(user, None, steps));
            }
            Kind::Shared { iterations } if begins => {
                let first = (*iterations).min(self.users.len() as u64) as u32;
                (0..first).for_each(|user| self.begin(user, None, steps));
            }
            Kind::Ramping { .. } => self.ramp(now_ns, steps),
            Kind::Arrivals { .. } => self.arrive(now_ns, steps),
            _ => {}
        }
    }

    fn begin(&mut self, user: u32, intended_ns: Option<u64>, steps: &mut Vec<Step>) {
        let worker = &mut self.users[user as usize];
        worker.work = Work::Works { cut_ns: u64::MAX };
        worker.begun += 1;
        self.begun += 1;
        self.working += 1;
        steps.push(Step::Begin { user, intended_ns });
    }

    fn ramp(&mut self, now_ns: u64, steps: &mut Vec<Step>) {
        let Kind::Ramping { stages, ramp_down_ns } = &self.kind else { return };
        let (wanted, ramp_down_ns) = (stages.at(now_ns - self.begin_ns).0, *ramp_down_ns);
        for user in 0..self.users.len() as u32 {
            let worker = &mut self.users[user as usize];
            match &mut worker.work {
                Work::Rests if user < wanted => self.begin(user, None, steps),
                Work::Rests => {}
                // It is wanted again, or still.
                Work::Works { cut_ns } if user < wanted => *cut_ns = u64::MAX,
                Work::Works { cut_ns } if *cut_ns == u64::MAX => *cut_ns = now_ns.saturating_add(ramp_down_ns),
                Work::Works { cut_ns } if *cut_ns <= now_ns => steps.push(Step::Cut { user }),
                Work::Works { .. } => {}
            }
        }
    }

    fn arrive(&mut self, now_ns: u64, steps: &mut Vec<Step>) {
        for _ in 0..ARRIVALS_OF_A_LOOK {
            let begin_ns = self.begin_ns;
            let Kind::Arrivals { profile, free, next_ns, arrived } = &mut self.kind else { return };
            let Some(intended_ns) = next_ns.filter(|next_ns| *next_ns <= now_ns) else { return };
            *arrived += 1;
            *next_ns = arrival(profile, begin_ns, *arrived);
            match free.pop() {
                Some(user) => self.begin(user, Some(intended_ns), steps),
                None => self.dropped += 1,
            }
        }
    }

    fn cut(&mut self, now_ns: u64, steps: &mut Vec<Step>) {
        for user in 0..self.users.len() as u32 {
            if let Work::Works { cut_ns } = self.users[user as usize].work
                && (now_ns >= self.cut_ns || now_ns >= cut_ns)
            {
                steps.push(Step::Cut { user });
            }
        }
    }

    /// A user's iteration is over, finished or cut; whether and when it begins another.
    pub fn over(&mut self, user: u32, now_ns: u64, steps: &mut Vec<Step>) {
        let worker = &mut self.users[user as usize];
        let was_to_go = matches!(worker.work, Work::Works { cut_ns } if cut_ns < u64::MAX);
        let begun = worker.begun;
        worker.work = Work::Rests;
        self.working -= 1;
        let again = match &mut self.kind {
            Kind::Arrivals { free, .. } => {
                free.push(user);
                false
            }
            _ if now_ns >= self.end_ns => false,
            Kind::Constant => true,
            Kind::Ramping { .. } => !was_to_go,
            Kind::Shared { iterations } => self.begun < *iterations,
            Kind::PerUser { iterations } => begun < *iterations,
        };
        if again {
            self.begin(user, None, steps);
        }
    }
}

/// When an arrival is wanted, if there is one of this number.
fn arrival(profile: &Profile, begin_ns: u64, number: u64) -> Option<u64> {
    let time_s = profile.time_s_of(number as f64)?;
    Some(begin_ns + (time_s * 1e9) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executors::{Keeps, Stage};
    use std::sync::Arc;
    use std::time::Duration;
    use weir_load::Stretch;

    const S: u64 = 1_000_000_000;

    fn course(executor: Executor) -> Course {
        let plan = Planned {
            name: "s".into(),
            executor,
            start: Duration::from_secs(1),
            graceful_stop: Duration::from_secs(2),
            keeps: Keeps { cookies: false, connections: true },
            tags: Arc::from([]),
        };
        Course::new(&plan, 0)
    }

    fn look(course: &mut Course, now_ns: u64) -> Vec<Step> {
        let mut steps = Vec::new();
        course.look(now_ns, &mut steps);
        steps
    }

    fn over(course: &mut Course, user: u32, now_ns: u64) -> usize {
        let mut steps = Vec::new();
        course.over(user, now_ns, &mut steps);
        steps.len()
    }

    #[test]
    fn constant_users_go_on_until_the_end() {
        let mut course = course(Executor::Constant { users: 2, duration: Duration::from_secs(10) });
        assert_eq!(course.next_ns(0), Some(S));
        assert!(look(&mut course, 0).is_empty());
        assert_eq!(look(&mut course, S).len(), 2);
        assert_eq!(over(&mut course, 0, 5 * S), 1);
        assert_eq!(over(&mut course, 0, 11 * S), 0);
        assert_eq!(course.next_ns(11 * S), Some(13 * S));
        assert_eq!(look(&mut course, 12 * S), []);
        assert_eq!(look(&mut course, 13 * S), [Step::Cut { user: 1 }]);
        assert_eq!(over(&mut course, 1, 13 * S), 0);
        assert!(course.is_over(13 * S));
        assert_eq!(course.begun(), 3);
    }

    #[test]
    fn iterations_are_shared_or_each_users_own() {
        let mut shared = course(Executor::Shared { users: 3, iterations: 4, duration: Duration::from_secs(10) });
        assert_eq!(look(&mut shared, S).len(), 3);
        assert_eq!((over(&mut shared, 1, 2 * S), over(&mut shared, 1, 2 * S), over(&mut shared, 0, 2 * S)), (1, 0, 0));
        assert!(!shared.is_over(2 * S));
        assert_eq!(over(&mut shared, 2, 2 * S), 0);
        assert!(shared.is_over(2 * S));
        let mut own = course(Executor::PerUser { users: 2, iterations: 2, duration: Duration::from_secs(10) });
        assert_eq!(look(&mut own, S).len(), 2);
        assert_eq!((over(&mut own, 0, 2 * S), over(&mut own, 0, 2 * S), over(&mut own, 1, 2 * S)), (1, 0, 1));
        assert_eq!(over(&mut own, 1, 3 * S), 0);
        assert!(own.is_over(3 * S));
    }

    #[test]
    fn arrivals_come_at_their_times_and_are_dropped_without_users() {
        let stretch = Stretch { from_per_s: 10.0, to_per_s: 10.0, duration: Duration::from_secs(1) };
        let profile = Arc::new(Profile::new(&[stretch]).expect("a profile"));
        let mut course = course(Executor::Arrivals { profile, users: 1, users_max: 2 });
        assert_eq!(look(&mut course, S), [Step::Begin { user: 0, intended_ns: Some(S) }]);
        assert_eq!(course.next_ns(S), Some(S + S / 10));
        let steps = look(&mut course, S + 3 * S / 10);
        assert_eq!(steps, [Step::Begin { user: 1, intended_ns: Some(S + S / 10) }]);
        assert_eq!(course.dropped(), 2);
        assert_eq!(over(&mut course, 0, S + 3 * S / 10), 0);
        assert_eq!(look(&mut course, S + 4 * S / 10).len(), 1);
        look(&mut course, 2 * S - 1);
        assert_eq!((course.begun(), course.dropped()), (3, 7));
    }

    #[test]
    fn users_ramp_up_and_down() {
        let stage = |seconds, target| Stage { duration: Duration::from_secs(seconds), target };
        let ramp_down = Duration::from_secs(1);
        let mut course = course(Executor::Ramping { start: 1, stages: vec![stage(2, 3), stage(2, 1)], ramp_down });
        assert_eq!(look(&mut course, S).len(), 1);
        assert_eq!(course.next_ns(S), Some(2 * S));
        assert_eq!(look(&mut course, 2 * S), [Step::Begin { user: 1, intended_ns: None }]);
        assert_eq!(look(&mut course, 3 * S).len(), 1);
        assert_eq!(over(&mut course, 2, 3 * S), 1);
        // At 4 s there are two: the third goes when it has finished, or within a second.
        assert_eq!(look(&mut course, 4 * S), []);
        assert_eq!(course.next_ns(4 * S), Some(5 * S));
        assert_eq!(look(&mut course, 5 * S), [Step::Cut { user: 2 }]);
    }
}
