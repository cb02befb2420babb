//! What a user's runtime and its host share.

use super::cut::Cut;
use super::stack::{StackArea, is_long};
use super::world::World;
use crate::cookies::Jar;
use crate::html::Dom;
use corosensei::Yielder;
use rquickjs::{Ctx, Error, Exception};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_scenario::behaviour::{Answer, Iteration, SocketEvent, SocketOrder, Wants};
use weir_scenario::metrics::{MetricId, Tagged};

/// What a coroutine is resumed with.
pub(super) enum Turn {
    Begins(Iteration),
    /// Valid until the coroutine is suspended again.
    Answered(NonNull<[Answer]>),
    /// What happened to its sockets.
    Heard(Vec<SocketEvent>),
    Woke,
    Ends,
}

/// What of the script runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Init,
    Setup,
    Iteration,
    Teardown,
    Summary,
}

/// Tags or metadata of a user.
pub(super) type Pairs = Vec<(String, String)>;

/// What a runtime and its host share.
pub(crate) struct State {
    pub(super) world: Arc<World>,
    stack: StackArea,
    yielder: Cell<Option<NonNull<Yielder<Turn, Wants>>>>,
    pub(super) stage: Cell<Stage>,
    cut: RefCell<Option<Cut>>,
    turn_began: Cell<Instant>,
    /// Its number in the run, 0 outside of iterations.
    pub(super) number: Cell<u32>,
    pub(super) iteration: RefCell<Option<Iteration>>,
    /// Iterations that it began in all scenarios.
    pub(super) began: Cell<u64>,
    /// The path of its group, `::outer::inner`.
    pub(super) group: RefCell<Arc<str>>,
    /// The metrics of its script, by the numbers that the script has.
    pub(super) metrics: RefCell<Vec<MetricId>>,
    pub(super) tags: RefCell<Pairs>,
    pub(super) metadata: RefCell<Pairs>,
    /// Jars of cookies; the first is the user's own.
    pub(super) jars: RefCell<Vec<Jar>>,
    /// How many sockets it has made.
    pub(super) sockets: Cell<u32>,
    /// The number of the first page of HTML of this iteration, and the pages.
    pub(super) pages: RefCell<(u64, Vec<Rc<Dom>>)>,
    /// What responses that the script keeps take, in bytes.
    pub(super) kept_bytes: Cell<usize>,
}

impl State {
    pub(super) fn new(world: Arc<World>, number: u32, stack: StackArea) -> Self {
        Self {
            world,
            stack,
            yielder: Cell::new(None),
            stage: Cell::new(Stage::Init),
            cut: RefCell::default(),
            turn_began: Cell::new(Instant::now()),
            number: Cell::new(number),
            iteration: RefCell::default(),
            began: Cell::new(0),
            group: RefCell::new(Arc::from("")),
            metrics: RefCell::default(),
            tags: RefCell::default(),
            metadata: RefCell::default(),
            jars: RefCell::new(vec![Jar::default()]),
            sockets: Cell::new(0),
            pages: RefCell::default(),
            kept_bytes: Cell::new(0),
        }
    }

    pub(super) fn set_yielder(&self, yielder: &Yielder<Turn, Wants>) {
        self.yielder.set(Some(NonNull::from(yielder)));
    }

    /// Suspends the coroutine without a look at why it goes on.
    pub(super) fn suspend(&self, wants: Wants) -> Option<Turn> {
        // What the script needed to begin is not needed again.
        if self.stage.get() == Stage::Init || is_long(&wants) {
            self.stack.give_back();
        }
        let turn = self.pass(wants);
        self.turn_began.set(Instant::now());
        turn
    }

    fn pass(&self, wants: Wants) -> Option<Turn> {
        let yielder = self.yielder.get()?;
        // SAFETY: the yielder lives as long as the coroutine, and this runs within it: the script calls the host from
        // nowhere else.
        Some(unsafe { yielder.as_ref() }.suspend(wants))
    }

    /// Suspends the script until what it wants is there.
    pub(super) fn wait(&self, ctx: &Ctx<'_>, wants: Wants) -> Result<Turn, Error> {
        self.may_wait(ctx)?;
        match self.suspend(wants) {
            Some(Turn::Ends) => {
                self.cut(Cut::Ends);
                Err(Cut::throw(ctx))
            }
            Some(turn) => Ok(turn),
            None => Err(Exception::throw_message(ctx, "nothing can be waited for here: the run is over")),
        }
    }

    /// Has a socket do something at once. The script has not waited: its time goes on.
    pub(super) fn order(&self, ctx: &Ctx<'_>, order: SocketOrder) -> Result<(), Error> {
        self.may_wait(ctx)?;
        if let Some(Turn::Ends) = self.pass(Wants::Order(order)) {
            self.cut(Cut::Ends);
            return Err(Cut::throw(ctx));
        }
        Ok(())
    }

    fn may_wait(&self, ctx: &Ctx<'_>) -> Result<(), Error> {
        if self.stage.get() == Stage::Init {
            let words = "requests, sockets and sleep are not allowed while the script begins (init context): move them into \
                         the default function or setup()";
            return Err(Exception::throw_message(ctx, words));
        }
        if self.is_cut() {
            return Err(Cut::throw(ctx));
        }
        Ok(())
    }

    /// Stops the script where it is.
    pub(super) fn cut(&self, why: Cut) {
        self.cut.borrow_mut().get_or_insert(why);
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut.borrow().is_some()
    }

    pub(super) fn cut_so_far(&self) -> Option<Cut> {
        self.cut.borrow().clone()
    }

    pub(super) fn take_cut(&self) -> Option<Cut> {
        self.cut.borrow_mut().take()
    }

    /// Goes into a group of the one that it is in; the path of that.
    pub(super) fn enter(&self, name: &str) -> Arc<str> {
        let path: Arc<str> = format!("{}::{name}", self.group.borrow()).into();
        self.world.note_group(&path);
        self.group.replace(path)
    }

    /// Begins an iteration.
    pub(super) fn prepare(&self, iteration: &Iteration) {
        self.stage.set(Stage::Iteration);
        self.began.set(self.began.get() + 1);
        self.cut.replace(None);
        let mut pages = self.pages.borrow_mut();
        pages.0 += pages.1.len() as u64;
        pages.1.clear();
        if !self.group.borrow().is_empty() {
            *self.group.borrow_mut() = Arc::from("");
        }
        let is_other = self.iteration.borrow().as_ref().is_some_and(|before| before.scenario != iteration.scenario);
        if is_other {
            self.tags.borrow_mut().clear();
        }
        *self.iteration.borrow_mut() = Some(iteration.clone());
        if !self.world.settings().keeps_cookies {
            self.jars.borrow_mut()[0].clear();
        }
    }

    pub(super) fn begin_turn(&self) {
        self.turn_began.set(Instant::now());
    }

    /// Whether the script must stop: asked by the engine every few thousand steps.
    pub(super) fn must_stop(&self) -> bool {
        if self.is_cut() {
            return true;
        }
        let bound: Duration = self.world.bounds.turn;
        let is_over = self.turn_began.get().elapsed() > bound;
        if is_over {
            self.cut(Cut::TooLong(bound));
        }
        is_over
    }

    /// Whether a value of this user has a tag; those of `own` come first.
    pub(super) fn has_tag(&self, own: &[(String, String)], name: &str, wanted: &str) -> bool {
        let find =
            |pairs: &[(String, String)]| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value == wanted);
        if let Some(is) = find(own).or_else(|| find(&self.tags.borrow())) {
            return is;
        }
        let settings = self.world.settings();
        let scenario = self.iteration.borrow().as_ref().and_then(|one| settings.scenarios.get(one.scenario));
        if let Some(is) = scenario.and_then(|scenario| find(&scenario.tags)).or_else(|| find(&settings.tags)) {
            return is;
        }
        match name {
            "scenario" => scenario.is_some_and(|scenario| scenario.name == wanted),
            "group" => **self.group.borrow() == *wanted,
            _ => false,
        }
    }
}

/// The tags of a value of a user.
pub(super) struct UserTags<'a> {
    pub(super) state: &'a State,
    /// Those of the value alone.
    pub(super) own: &'a [(String, String)],
}

impl Tagged for UserTags<'_> {
    fn is(&self, name: &str, value: &str) -> bool {
        self.state.has_tag(self.own, name, value)
    }

    fn each(&self, take: &mut dyn FnMut(&str, &str)) {
        let state = self.state;
        let mut all = |pairs: &[(String, String)]| pairs.iter().for_each(|(name, value)| take(name, value));
        all(self.own);
        all(&state.tags.borrow());
        let settings = state.world.settings();
        let scenario = state.iteration.borrow().as_ref().and_then(|one| settings.scenarios.get(one.scenario));
        // Setup and teardown are of no scenario.
        let scenario = scenario.filter(|_| state.stage.get() == Stage::Iteration);
        if let Some(scenario) = scenario {
            all(&scenario.tags);
        }
        all(&settings.tags);
        if let Some(scenario) = scenario {
            take("scenario", &scenario.name);
        }
        take("group", &state.group.borrow());
    }
}
