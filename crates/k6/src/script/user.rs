//! A user: its runtime in a coroutine of its own, as a behaviour.

use super::builtin;
use super::cut::Cut;
use super::host;
use super::loading::OfWorld;
use super::stack::StackArea;
use super::state::{Stage, State, Turn};
use super::world::World;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use rquickjs::promise::PromiseState;
use rquickjs::{Context, Ctx, Error, Function, Module, Object, Runtime, Value};
use std::cell::RefCell;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use weir_scenario::behaviour::{Behaviour, Failure, Iteration, News, Wants};

/// The stack of a user, in bytes: only what is used of it takes memory.
const STACK_BYTES: usize = 1 << 20;
/// What of it JavaScript may use: the host's own functions need the rest.
const SCRIPT_STACK_BYTES: usize = 640 << 10;

/// What a user is made for.
#[derive(Debug, Clone)]
pub(crate) enum Session {
    /// Its script begins, and what it exports is told.
    Probe,
    Setup,
    Iterations,
    Teardown,
    /// `handleSummary` with this data, as JSON.
    Summary(Arc<str>),
}

/// What a script exports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Exports {
    /// The names of its functions.
    pub(crate) functions: Vec<String>,
    /// Its options, as JSON.
    pub(crate) options: Option<String>,
}

/// What `handleSummary` gives: where it goes, and what.
type Summaries = Box<[(String, Vec<u8>)]>;

/// What a session tells beside its wants.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told {
    pub(crate) exports: Exports,
    /// What `handleSummary` gave: where it goes, and what.
    pub(crate) summary: Option<Summaries>,
    /// Why the script was stopped.
    pub(crate) cut: Option<Cut>,
    /// Whether it was the script that threw.
    pub(crate) has_thrown: bool,
}

/// A user with its script.
pub(crate) struct ScriptUser {
    coroutine: Coroutine<Turn, Wants, ()>,
    told: Arc<Mutex<Told>>,
}

impl std::fmt::Debug for ScriptUser {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ScriptUser")
    }
}

// SAFETY: the coroutine's stack and its runtime are reached through this value alone, and neither keeps anything of the
// thread that it runs on; what it shares with others, `World` and `told`, may be shared among threads.
unsafe impl Send for ScriptUser {}

impl ScriptUser {
    /// Makes a user and lets its script begin.
    ///
    /// # Errors
    /// The script cannot begin: what it threw, with its place.
    pub(crate) fn begin(world: Arc<World>, session: Session, number: u32) -> Result<Self, (Failure, Told)> {
        let told = Arc::new(Mutex::new(Told::default()));
        let none = |words: String| (Failure::new(words), Told::default());
        let stack = DefaultStack::new(STACK_BYTES)
            .map_err(|wrong| none(format!("user {number} gets no stack: {wrong}; take fewer users (--vus)")))?;
        let (of_user, area) = (told.clone(), StackArea::of(&stack));
        let mut coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<Turn, Wants>, _: Turn| {
            let state = Rc::new(State::new(world, number, area));
            state.set_yielder(yielder);
            let life = Life { state, told: of_user, session };
            if let Err(wrong) = life.live() {
                let failure = Failure::new(format!("user {number} cannot begin: {wrong}"));
                life.state.suspend(Wants::Over(Err(failure)));
            }
        });
        match coroutine.resume(Turn::Woke) {
            CoroutineResult::Yield(Wants::Over(Ok(()))) => Ok(Self { coroutine, told }),
            CoroutineResult::Yield(Wants::Over(Err(failure))) => {
                let user = Self { coroutine, told };
                let told = user.told();
                Err((failure, told))
            }
            _ => Err(none(format!("user {number} waits while its script begins"))),
        }
    }

    /// What it told beside its wants.
    pub(crate) fn told(&self) -> Told {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn turn(&mut self, turn: Turn) -> Wants {
        if self.coroutine.done() {
            return Wants::Over(Ok(()));
        }
        match self.coroutine.resume(turn) {
            CoroutineResult::Yield(wants) => wants,
            CoroutineResult::Return(()) => Wants::Over(Ok(())),
        }
    }

    /// Runs a session that waits for nothing: one that asks is cut.
    pub(crate) fn run_alone(&mut self, iteration: Iteration) -> Result<(), Failure> {
        let mut wants = self.turn(Turn::Begins(iteration));
        loop {
            wants = match wants {
                Wants::Over(result) => return result,
                Wants::Abort(failure) => return Err(failure),
                Wants::Sleep(duration) => {
                    std::thread::sleep(duration);
                    self.turn(Turn::Woke)
                }
                _ => {
                    let _ = self.turn(Turn::Ends);
                    return Err(Failure::new("requests cannot be made in handleSummary(): make them in teardown()"));
                }
            };
        }
    }
}

impl Behaviour for ScriptUser {
    fn resume(&mut self, news: News<'_>) -> Wants {
        let turn = match news {
            News::Begins(iteration) => Turn::Begins(iteration),
            News::Answered(answers) => Turn::Answered(NonNull::from(answers)),
            News::Heard(events) => Turn::Heard(events),
            News::Woke => Turn::Woke,
            News::Ends => Turn::Ends,
        };
        self.turn(turn)
    }
}

impl Drop for ScriptUser {
    fn drop(&mut self) {
        // A coroutine that is suspended within the engine must not be unwound: its script is cut until it returns. The
        // second time ends the loop between iterations.
        for _ in 0..2 {
            if self.coroutine.started() && !self.coroutine.done() {
                let _ = self.coroutine.resume(Turn::Ends);
            }
        }
    }
}

/// The life of a user, within its coroutine.
struct Life {
    state: Rc<State>,
    told: Arc<Mutex<Told>>,
    session: Session,
}

impl Life {
    /// Makes the runtime and lives in it until the end.
    fn live(&self) -> Result<(), Error> {
        let world = &self.state.world;
        let runtime = Runtime::new()?;
        runtime.set_memory_limit(world.bounds.memory_bytes);
        runtime.set_max_stack_size(SCRIPT_STACK_BYTES);
        let state = self.state.clone();
        runtime.set_interrupt_handler(Some(Box::new(move || state.must_stop())));
        runtime.set_loader(OfWorld(world.clone()), OfWorld(world.clone()));
        let context = Context::full(&runtime)?;
        context.with(|ctx| {
            let begun = self.begin(&ctx);
            let mut wants = match &begun {
                Ok(_) => Wants::Over(Ok(())),
                Err(wrong) => Wants::Over(Err(self.failure(&ctx, wrong))),
            };
            while let Some(Turn::Begins(iteration)) = self.state.suspend(wants) {
                wants = match &begun {
                    Ok(script) => self.session(&ctx, script, &iteration),
                    Err(_) => Wants::Over(Ok(())),
                };
            }
        });
        Ok(())
    }

    /// Runs the init context.
    fn begin<'js>(&self, ctx: &Ctx<'js>) -> Result<Script<'js>, Error> {
        self.state.begin_turn();
        let host = host::install(ctx, &self.state)?;
        self.state.world.sources.module(ctx, builtin::START)?.eval()?.1.finish::<()>()?;
        let main = serde_json::Value::from(self.state.world.main.display().to_string());
        let entry = format!("import * as main from {main}; globalThis.__weir.main = main;");
        Module::evaluate(ctx.clone(), "weir:entry", entry)?.finish::<()>()?;
        let main: Object = host.get("main")?;
        let is_common = main.contains_key("__common")?;
        let exports = if is_common { main.get("default")? } else { main };
        let script = Script { turn: host.get("turn")?, reset: host.get("reset")?, exports, data: RefCell::default() };
        if matches!(self.session, Session::Probe) {
            let told = script.told(ctx)?;
            self.told.lock().unwrap_or_else(PoisonError::into_inner).exports = told;
        }
        Ok(script)
    }

    /// One iteration, or what stands in its place.
    fn session<'js>(&self, ctx: &Ctx<'js>, script: &Script<'js>, iteration: &Iteration) -> Wants {
        let begun = Instant::now();
        let state = &self.state;
        state.begin_turn();
        state.prepare(iteration);
        let done = match &self.session {
            Session::Probe => Ok(()),
            Session::Setup => self.setup(ctx, script),
            Session::Iterations => self.iterate(ctx, script, iteration),
            Session::Teardown => self.teardown(ctx, script),
            Session::Summary(data) => self.summary(ctx, script, data),
        };
        let result = done.map_err(|wrong| self.failure(ctx, &wrong));
        if let (Err(failure), Session::Iterations, true) =
            (&result, &self.session, !matches!(state.cut_so_far(), Some(Cut::Ends | Cut::Abort(_))))
        {
            let scenario = state.world.settings().scenarios.get(iteration.scenario);
            let (name, executor) = scenario.map_or(("", ""), |one| (one.name.as_str(), one.executor.as_str()));
            let more = format!(" executor={executor} scenario={name} source=stacktrace");
            state.world.tell_failure(&failure.words, &more);
        }
        if let (Session::Iterations, Ok(())) = (&self.session, &result) {
            self.rest(begun);
        }
        let cut = state.take_cut();
        if let Some(Cut::Abort(words)) = &cut {
            let words = if words.is_empty() { "test.abort() was called".to_owned() } else { words.clone() };
            state.world.abort(&words);
            return Wants::Abort(Failure::new(words));
        }
        Wants::Over(result)
    }

    /// Waits until the iteration has taken as long as it must at least.
    fn rest(&self, begun: Instant) {
        let least = self.state.world.settings().iteration_least;
        let left = least.saturating_sub(begun.elapsed());
        if !left.is_zero() && matches!(self.state.suspend(Wants::Sleep(left)), Some(Turn::Ends)) {
            self.state.cut(Cut::Ends);
        }
    }

    fn setup<'js>(&self, ctx: &Ctx<'js>, script: &Script<'js>) -> Result<(), Error> {
        self.state.stage.set(Stage::Setup);
        self.state.enter("setup");
        let given = self.call(ctx, script, "setup", ())?;
        let text = ctx.json_stringify(given)?.map(|text| text.to_string()).transpose()?;
        // Setup runs once.
        let _ = self.state.world.setup_data.set(text.unwrap_or_default());
        Ok(())
    }

    fn teardown<'js>(&self, ctx: &Ctx<'js>, script: &Script<'js>) -> Result<(), Error> {
        self.state.stage.set(Stage::Teardown);
        self.state.enter("teardown");
        let data = self.data(ctx)?;
        self.call(ctx, script, "teardown", (data,)).map(|_| ())
    }

    fn iterate<'js>(&self, ctx: &Ctx<'js>, script: &Script<'js>, iteration: &Iteration) -> Result<(), Error> {
        let settings = self.state.world.settings();
        let scenario = settings.scenarios.get(iteration.scenario);
        let globals = ctx.globals();
        globals.set("__ITER", self.state.began.get() - 1)?;
        let exec = scenario.map_or("default", |scenario| scenario.exec.as_str());
        if let Some(scenario) = scenario.filter(|scenario| !scenario.env.is_empty()) {
            let env: Object = globals.get("__ENV")?;
            scenario.env.iter().try_for_each(|(name, value)| env.set(name.as_str(), value.as_str()))?;
        }
        let known = script.data.borrow().clone();
        let data = match known {
            Some(data) => data,
            None => {
                let data = self.data(ctx)?;
                script.data.replace(Some(data.clone()));
                data
            }
        };
        self.call(ctx, script, exec, (data,)).map(|_| ())
    }

    /// What setup gave, as this user's own value.
    fn data<'js>(&self, ctx: &Ctx<'js>) -> Result<Value<'js>, Error> {
        match self.state.world.setup_data.get().filter(|text| !text.is_empty()) {
            Some(text) => ctx.json_parse(text.as_str()),
            None => Ok(Value::new_undefined(ctx.clone())),
        }
    }

    fn summary<'js>(&self, ctx: &Ctx<'js>, script: &Script<'js>, data: &str) -> Result<(), Error> {
        self.state.stage.set(Stage::Summary);
        let given = self.call(ctx, script, "handleSummary", (ctx.json_parse(data)?,))?;
        let mut outputs = Vec::new();
        if let Some(given) = given.as_object() {
            for pair in given.props::<String, Value>() {
                let (name, value) = pair?;
                if let Some(bytes) = host::bytes_of(&value)? {
                    outputs.push((name, bytes));
                }
            }
        }
        self.told.lock().unwrap_or_else(PoisonError::into_inner).summary = Some(outputs.into());
        Ok(())
    }

    /// Calls a function of the script and goes on until nothing of it is left to do.
    fn call<'js, A>(&self, ctx: &Ctx<'js>, script: &Script<'js>, name: &str, arguments: A) -> Result<Value<'js>, Error>
    where
        A: rquickjs::function::IntoArgs<'js>,
    {
        script.reset.call::<_, ()>(())?;
        let function: Function = script.exports.get(name)?;
        let given: Value = function.call(arguments)?;
        loop {
            while ctx.execute_pending_job() {
                if self.state.is_cut() {
                    return Err(Cut::throw(ctx));
                }
            }
            if self.state.is_cut() {
                return Err(Cut::throw(ctx));
            }
            if !script.turn.call::<_, bool>(())? {
                break;
            }
        }
        match given.as_promise() {
            Some(promise) => match promise.state() {
                // Nothing is left that could resolve it: k6 ends the iteration, too.
                PromiseState::Pending => Ok(Value::new_undefined(ctx.clone())),
                PromiseState::Resolved | PromiseState::Rejected => {
                    promise.result::<Value>().unwrap_or(Err(Error::Unknown))
                }
            },
            None => Ok(given),
        }
    }

    /// What is wrong, in words, with its place.
    fn failure(&self, ctx: &Ctx<'_>, wrong: &Error) -> Failure {
        let thrown = if wrong.is_exception() { ctx.catch() } else { Value::new_undefined(ctx.clone()) };
        let cut = self.state.cut_so_far();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.cut.clone_from(&cut);
        let words = match (cut, wrong.is_exception()) {
            (Some(Cut::Ends), _) => "the iteration was cut, as its time was over".to_owned(),
            (Some(Cut::TooLong(bound)), _) => format!(
                "the script computed for {} without waiting for anything and was stopped{}; change it, or allow it by \
                 --script-limit",
                crate::time::short(bound),
                host::place_of(&thrown),
            ),
            (Some(Cut::Abort(words)), _) => words,
            (None, true) => {
                told.has_thrown = true;
                host::words_of(ctx, &thrown)
            }
            (None, false) => wrong.to_string(),
        };
        Failure::new(words)
    }
}

/// A script that has begun.
struct Script<'js> {
    exports: Object<'js>,
    turn: Function<'js>,
    reset: Function<'js>,
    /// What setup gave, once an iteration has asked for it.
    data: RefCell<Option<Value<'js>>>,
}

impl<'js> Script<'js> {
    fn told(&self, ctx: &Ctx<'js>) -> Result<Exports, Error> {
        let mut exports = Exports::default();
        for name in self.exports.keys::<String>() {
            let name = name?;
            if self.exports.get::<_, Value>(name.as_str())?.is_function() {
                exports.functions.push(name);
            }
        }
        let options: Value = self.exports.get("options")?;
        if !options.is_undefined() && !options.is_null() {
            exports.options = ctx.json_stringify(options)?.map(|text| text.to_string()).transpose()?;
        }
        Ok(exports)
    }
}
