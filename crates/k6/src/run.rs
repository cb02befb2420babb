//! A run, from the script to the exit status.

use crate::arguments::Arguments;
use crate::options::{Named, OptionError, Plan, plan};
use crate::outcome::{About, Kept};
use crate::output::{OfRun, Writing};
use crate::script::{ScriptUser, Session, World};
use crate::wrong::Wrong;
use crate::{heading, output, reaching};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_scenario::behaviour::{Behaviour, Failure, Iteration, Maker, SharedJar, User};
use weir_scenario::metrics::Threshold;
use weir_scenario::run::{Ended, Reaching, Report, RunPlan};
use weir_terminal::stop::Stop;

/// How often the user's wish to end is looked at.
const TICK: Duration = Duration::from_millis(50);
/// How often thresholds are looked at that end a run.
const LOOK: Duration = Duration::from_secs(2);

/// What became of a run.
pub(crate) struct Made {
    pub(crate) report: Report,
    pub(crate) plan: Plan,
    pub(crate) thresholds: Vec<Kept>,
    pub(crate) world: Arc<World>,
    /// Whether the user, or a threshold, ended it.
    pub(crate) is_stopped_by_user: bool,
    pub(crate) is_stopped_by_threshold: bool,
    pub(crate) has_own_summary: bool,
}

/// Makes the users of a run.
struct Users(Arc<World>);

impl Maker for Users {
    fn make(&mut self, whose: User) -> Result<Box<dyn Behaviour>, Failure> {
        let (session, number) = match whose {
            User::Setup => (Session::Setup, 0),
            User::Of { number, .. } => (Session::Iterations, number),
            User::Teardown => (Session::Teardown, 0),
        };
        match ScriptUser::begin(Arc::clone(&self.0), session, number) {
            Ok(user) => Ok(Box::new(user)),
            Err((failure, _)) => Err(failure),
        }
    }
}

/// An iteration that is none of a scenario's.
pub(crate) fn alone() -> Iteration {
    Iteration {
        scenario: 0,
        user: 0,
        of_user: 0,
        of_scenario: 0,
        since_begin: Duration::ZERO,
        late: Duration::ZERO,
        jar: SharedJar::default(),
    }
}

/// Makes a run.
pub(crate) fn run(arguments: &Arguments) -> Result<Made, Wrong> {
    let main = std::path::absolute(&arguments.script).map_err(|wrong| Wrong::unread(&arguments.script, &wrong))?;
    let world = World::new(main, arguments.environment(), arguments.bounds);
    let world = Arc::new(world);
    world.sources.file(&world.main).map_err(|wrong| Wrong::source(wrong.to_string()))?;
    let probe = ScriptUser::begin(Arc::clone(&world), Session::Probe, 0);
    let exports = match probe {
        Ok(user) => user.told().exports,
        Err((failure, told)) => return Err(Wrong::begin(&world, &failure, &told)),
    };
    let named = Named {
        functions: exports.functions,
        without_setup: arguments.without_setup,
        without_teardown: arguments.without_teardown,
        without_thresholds: arguments.without_thresholds,
    };
    let of_options = |wrong: OptionError| Wrong::options(&world, &wrong);
    let mut given = arguments.given.clone();
    if let Some(path) = &arguments.config {
        given.config = options_of(path)?;
    }
    let plan = plan(exports.options.as_deref(), &given, &named).map_err(of_options)?;
    let thresholds = keep(&world, &plan).map_err(of_options)?;
    let (reaching, mapped) = reaching::reaching(&plan).map_err(of_options)?;
    let mut settings = plan.settings.clone();
    settings.hosts = mapped;
    world.set(settings);
    arguments.without_effect.iter().chain(&plan.without_effect).for_each(|words| world.tell_once(words));
    if !arguments.quiet {
        heading::heading(arguments, &plan)?;
    }
    let writings = open_outputs(arguments, &world, &plan)?;
    let has_own_summary = named.functions.iter().any(|name| name == "handleSummary");
    let made = drive(Arc::clone(&world), plan, thresholds, reaching);
    // What takes the values ends, and with it the threads that write them.
    drop(world.metrics().points.take());
    writings.into_iter().filter_map(Writing::end).for_each(|words| world.log("warning", &words, ""));
    made.map(|made| Made { has_own_summary, ..made })
}

/// Has values go out one by one, where that is asked for.
fn open_outputs(arguments: &Arguments, world: &World, plan: &Plan) -> Result<Vec<Writing>, Wrong> {
    if arguments.outputs.is_empty() {
        return Ok(Vec::new());
    }
    let mut of_run = OfRun { tags: plan.settings.tags.clone(), ..OfRun::default() };
    for (key, text, _) in &plan.thresholds {
        of_run.thresholds.entry(key.clone()).or_default().push(text.clone());
    }
    let opened = output::open(&arguments.outputs, of_run).map_err(|wrong| Wrong::source(wrong.to_string()))?;
    world.metrics().points = Some(opened.points);
    Ok(opened.writings)
}

/// The options of a file of them.
fn options_of(path: &Path) -> Result<serde_json::Map<String, serde_json::Value>, Wrong> {
    let text = std::fs::read_to_string(path).map_err(|wrong| Wrong::unread(path, &wrong))?;
    let read: serde_json::Value = serde_json::from_str(&text)
        .map_err(|wrong| Wrong::source(format!("{}:{}:{}: {wrong}", path.display(), wrong.line(), wrong.column())))?;
    match read {
        serde_json::Value::Object(options) => Ok(options),
        _ => Err(Wrong::source(format!("{}: options are a JSON object, as {{\"vus\": 10}}", path.display()))),
    }
}

/// Has the engine run it, and looks at thresholds and at the user's wishes meanwhile.
fn drive(world: Arc<World>, plan: Plan, thresholds: Vec<Kept>, reaching: Reaching) -> Result<Made, Wrong> {
    let run_plan = RunPlan {
        scenarios: plan.scenarios.clone(),
        setup: plan.has_setup,
        teardown: plan.has_teardown,
        setup_max: plan.limits.setup,
        teardown_max: plan.limits.teardown,
        reaching,
        // As in k6, what is under way is cut.
        stop_grace: Duration::ZERO,
    };
    let handle = Arc::clone(&world.handle);
    let stop = Stop::on_signals().map_err(|wrong| Wrong::system(&wrong))?;
    let (is_over, by_threshold) = (AtomicBool::new(false), AtomicBool::new(false));
    let outcome = std::thread::scope(|scope| {
        let looker = scope.spawn(|| {
            let mut next = Instant::now() + LOOK;
            let mut asked = false;
            while !is_over.load(Ordering::Relaxed) {
                std::thread::park_timeout(TICK);
                if stop.asked() && !asked {
                    asked = true;
                    handle.stop();
                }
                if Instant::now() >= next {
                    next += LOOK;
                    if must_end(&world, &thresholds) {
                        by_threshold.store(true, Ordering::Relaxed);
                        handle.stop();
                    }
                }
            }
        });
        let users = Box::new(Users(Arc::clone(&world)));
        let outcome = weir_scenario::run::run(run_plan, users, &world.shared_metrics, &handle);
        is_over.store(true, Ordering::Relaxed);
        looker.thread().unpark();
        outcome
    });
    let (report, _) = outcome.map_err(|wrong| Wrong::run(&wrong))?;
    let is_stopped_by_threshold = by_threshold.load(Ordering::Relaxed);
    let is_stopped_by_user = stop.asked() && matches!(report.ended, Ended::Stopped);
    Ok(Made { report, plan, thresholds, world, is_stopped_by_user, is_stopped_by_threshold, has_own_summary: false })
}

/// Whether a threshold is missed that ends the run.
fn must_end(world: &World, thresholds: &[Kept]) -> bool {
    let since = world.begun.elapsed();
    let metrics = world.metrics();
    thresholds.iter().any(|kept| {
        let is_time = kept.abort_after.is_some_and(|after| after <= since);
        let sink = metrics.find(&kept.metric).and_then(|id| metrics.part(id, &kept.tags));
        is_time && sink.is_some_and(|sink| !kept.threshold.holds(sink, since))
    })
}

/// Has the values kept apart that thresholds are about.
fn keep(world: &World, plan: &Plan) -> Result<Vec<Kept>, OptionError> {
    let mut metrics = world.metrics();
    let mut all = Vec::new();
    let expected = vec![("expected_response".to_owned(), "true".to_owned())];
    let duration = weir_scenario::metrics::Builtin::HttpReqDuration.id();
    metrics.keep_apart(duration, expected).map_err(|wrong| OptionError::Metric { key: String::new(), wrong })?;
    for (key, text, abort_after) in &plan.thresholds {
        let selector = crate::selector::selector(key).ok_or_else(|| OptionError::Selector { key: key.clone() })?;
        let (name, mut tags) = selector;
        tags.sort();
        let id = metrics.find(name).ok_or_else(|| OptionError::NoMetric { name: name.to_owned() })?;
        let kind = metrics[id].kind;
        let threshold =
            Threshold::parse(text, kind).map_err(|wrong| OptionError::Threshold { key: key.clone(), wrong })?;
        if !tags.is_empty() {
            let many = |wrong| OptionError::Metric { key: key.clone(), wrong };
            metrics.keep_apart(id, tags.clone()).map_err(many)?;
        }
        let (key, metric) = (key.clone(), name.to_owned());
        all.push(Kept { key, metric, tags, threshold, abort_after: *abort_after });
    }
    Ok(all)
}

impl Made {
    /// What the summary is made of.
    pub(crate) fn about(&self, has_colours: bool) -> About<'_> {
        About { plan: &self.plan, thresholds: &self.thresholds, duration: self.report.duration, has_colours }
    }

    /// The metrics whose thresholds are missed, each once.
    pub(crate) fn missed(&self) -> Vec<&str> {
        let metrics = self.world.metrics();
        let mut all: Vec<&str> = Vec::new();
        for kept in &self.thresholds {
            let sink = metrics.find(&kept.metric).and_then(|id| metrics.part(id, &kept.tags));
            let is_missed = sink.is_some_and(|sink| !kept.threshold.holds(sink, self.report.duration));
            if is_missed && !all.contains(&kept.key.as_str()) {
                all.push(&kept.key);
            }
        }
        all
    }
}
