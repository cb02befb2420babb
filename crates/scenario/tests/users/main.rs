//! Users against a server: what they ask, what they are told, and what is counted.
// scripts/test: punctual

mod open;
mod plain;
mod played;
mod server;
mod sockets;

use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_load::LoadReport;
use weir_scenario::behaviour::{Answer, Ask, Behaviour, Failure, Iteration, Maker, News, User, Wants};
use weir_scenario::executors::{Executor, Keeps, Planned};
use weir_scenario::metrics::Shared;
use weir_scenario::run::{Handle, Reaching, Report, RunPlan, run};

/// What a test's user is told.
pub(crate) enum Told<'a> {
    Begins(&'a Iteration),
    /// The number of the answers in the iteration, and the last ones.
    Answered(usize, &'a mut [Answer]),
    Woke,
}

/// Users that all do the same.
pub(crate) struct Same(pub(crate) Arc<dyn Fn(Told<'_>) -> Wants + Send + Sync>);

struct One {
    does: Arc<dyn Fn(Told<'_>) -> Wants + Send + Sync>,
    answered: usize,
}

impl Maker for Same {
    fn make(&mut self, _: User) -> Result<Box<dyn Behaviour>, Failure> {
        Ok(Box::new(One { does: Arc::clone(&self.0), answered: 0 }))
    }
}

impl Behaviour for One {
    fn resume(&mut self, news: News<'_>) -> Wants {
        match news {
            News::Begins(iteration) => {
                self.answered = 0;
                (self.does)(Told::Begins(&iteration))
            }
            News::Answered(answers) => {
                self.answered += 1;
                (self.does)(Told::Answered(self.answered, answers))
            }
            News::Woke | News::Heard(_) => (self.does)(Told::Woke),
            News::Ends => Wants::Over(Ok(())),
        }
    }
}

/// A plan of one scenario.
pub(crate) fn plan(executor: Executor) -> RunPlan {
    RunPlan {
        scenarios: vec![Planned {
            name: "all".into(),
            executor,
            start: Duration::ZERO,
            graceful_stop: Duration::from_secs(10),
            keeps: Keeps { cookies: false, connections: true },
            tags: Arc::from([]),
        }],
        setup: false,
        teardown: false,
        setup_max: Duration::from_secs(10),
        teardown_max: Duration::from_secs(10),
        reaching: Reaching::default(),
        stop_grace: Duration::from_secs(1),
    }
}

pub(crate) fn shared(users: u32, iterations: u64) -> Executor {
    Executor::Shared { users, iterations, duration: Duration::from_secs(60) }
}

/// Runs users that all do the same.
pub(crate) fn go(
    plan: RunPlan,
    does: impl Fn(Told<'_>) -> Wants + Send + Sync + 'static,
) -> (Report, LoadReport, Shared) {
    let metrics = Shared::default();
    let handle = Arc::new(Handle::default());
    let (report, load) = run(plan, Box::new(Same(Arc::new(does))), &metrics, &handle).expect("a run");
    (report, load, metrics)
}

/// Users that ask for these, one after the other.
pub(crate) fn go_through(plan: RunPlan, asks: Vec<Ask>) -> (Report, Vec<Answer>, Shared) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let (report, _, metrics) = go(plan, move |news| {
        let at = match news {
            Told::Begins(_) => 0,
            Told::Answered(count, answers) => {
                told.lock().expect("no panic").extend(answers.iter().cloned());
                count
            }
            Told::Woke => 0,
        };
        match asks.get(at) {
            Some(ask) => Wants::Ask(vec![ask.clone()]),
            None => Wants::Over(Ok(())),
        }
    });
    let seen = std::mem::take(&mut *seen.lock().expect("no panic"));
    (report, seen, metrics)
}
