//! A user's behaviour, what it is told, and what it wants.

use crate::behaviour::answer::Answer;
use crate::behaviour::ask::Ask;
use crate::behaviour::jar::SharedJar;
use crate::behaviour::socket::{SocketEvent, SocketOrder};
use std::sync::Arc;
use std::time::Duration;

/// What one user does: a state machine without clock and socket, which goes on until it must wait.
///
/// ```text
/// Begins -> Ask -> Answered -> Sleep -> Woke -> ... -> Over -> Begins -> ...
/// ```
pub trait Behaviour: Send {
    /// Takes what has happened and says what it wants now. How long this takes counts as time in scripts.
    fn resume(&mut self, news: News<'_>) -> Wants;
}

/// Makes behaviours: a user's is made when the user is first needed.
pub trait Maker: Send {
    /// The behaviour of a user of a scenario.
    ///
    /// # Errors
    /// [`Failure`], if there can be none; the run ends with it.
    fn make(&mut self, whose: User) -> Result<Box<dyn Behaviour>, Failure>;
}

/// A user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// Runs once before all scenarios.
    Setup,
    /// One of a scenario's.
    Of {
        /// The scenario, by its place in the plan.
        scenario: usize,
        /// The user's number in the run, from 1.
        number: u32,
    },
    /// Runs once behind all scenarios.
    Teardown,
}

/// What has happened.
#[derive(Debug)]
pub enum News<'a> {
    /// A new iteration begins.
    Begins(Iteration),
    /// All that was asked is answered, in the order in which it was asked.
    Answered(&'a mut [Answer]),
    /// What happened to its sockets, in order, where it listens.
    Heard(Vec<SocketEvent>),
    /// The time that was asked for is over, or an order is given.
    Woke,
    /// The iteration is cut, as its time is over: what is wanted is not looked at any more.
    Ends,
}

/// An iteration that begins.
#[derive(Debug, Clone)]
pub struct Iteration {
    /// The scenario, by its place in the plan; 0 in setup and teardown.
    pub scenario: usize,
    /// The user, from 1; 0 in setup and teardown.
    pub user: u32,
    /// Iterations that this user began before in this scenario.
    pub of_user: u64,
    /// Iterations of the scenario that began before.
    pub of_scenario: u64,
    /// Time since the run began.
    pub since_begin: Duration,
    /// How late it begins behind its intended time; nothing where iterations have none.
    pub late: Duration,
    /// The user's cookies.
    pub jar: SharedJar,
}

/// What a behaviour wants.
#[derive(Debug)]
pub enum Wants {
    /// Requests, all at once; the next news comes when all are answered.
    Ask(Vec<Ask>),
    /// To be woken after a time.
    Sleep(Duration),
    /// Something of a socket of its own; it is woken at once.
    Order(SocketOrder),
    /// To be told what happens to its sockets, or to be woken after a time if nothing does until then. They end with
    /// the iteration.
    Listen(Option<Duration>),
    /// The iteration is over.
    Over(Result<(), Failure>),
    /// No iteration of its scenario begins any more, this one included; those under way go on.
    Enough,
    /// The whole run is to end, for this reason; what is under way is cut.
    Abort(Failure),
}

/// Why an iteration did not go as it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{words}")]
pub struct Failure {
    /// What is wrong, with the place in the scenario or script.
    pub words: Arc<str>,
    /// What it failed by.
    pub by: FailedBy,
}

/// What an iteration failed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FailedBy {
    /// By what it did.
    #[default]
    Itself,
    /// It took longer than it may.
    Time,
}

impl Failure {
    /// A failure in these words.
    #[must_use]
    pub fn new(words: impl Into<Arc<str>>) -> Self {
        Self { words: words.into(), by: FailedBy::Itself }
    }
}
