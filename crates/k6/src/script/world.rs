//! What all users of a run share.

use super::hosts::Hosts;
use super::sources::Sources;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use weir_scenario::metrics::{Metrics, Shared};
use weir_scenario::run::Handle;

/// More different warnings than these are not told.
const WARNINGS_MAX: usize = 100;
/// More groups than these are not listed where they have no checks.
const GROUPS_MAX: usize = 1000;

/// A scenario, as scripts see it.
#[derive(Debug, Clone)]
pub(crate) struct ScenarioOf {
    pub(crate) name: String,
    pub(crate) executor: String,
    /// The function of the script that is an iteration.
    pub(crate) exec: String,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) tags: Vec<(String, String)>,
    pub(crate) start: Duration,
}

/// How scripts run.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) scenarios: Vec<ScenarioOf>,
    /// Tags of all values.
    pub(crate) tags: Vec<(String, String)>,
    pub(crate) user_agent: String,
    pub(crate) redirects_max: u32,
    pub(crate) discard_bodies: bool,
    pub(crate) throws: bool,
    pub(crate) keeps_cookies: bool,
    /// The most requests of a batch at a time, all together and of one host.
    pub(crate) batch: usize,
    pub(crate) batch_of_host: usize,
    /// The options as `exec.test.options` gives them.
    pub(crate) options_json: String,
    /// Whether each request has a connection of its own.
    pub(crate) closes: bool,
    /// How long an iteration takes at least.
    pub(crate) iteration_least: Duration,
    /// Where names lead.
    pub(crate) hosts: Hosts,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            scenarios: Vec::new(),
            tags: Vec::new(),
            user_agent: format!("weir/{} (k6 script)", weir_terminal::VERSION),
            redirects_max: 10,
            discard_bodies: false,
            throws: false,
            keeps_cookies: false,
            batch: 20,
            batch_of_host: 6,
            options_json: "{}".to_owned(),
            closes: false,
            iteration_least: Duration::ZERO,
            hosts: Hosts::default(),
        }
    }
}

/// Bounds of a script.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// How long it may compute without waiting for anything.
    pub(crate) turn: Duration,
    /// The most memory of a user's runtime, in bytes.
    pub(crate) memory_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { turn: Duration::from_secs(10), memory_bytes: 256 << 20 }
    }
}

/// What all users share.
pub(crate) struct World {
    pub(crate) main: PathBuf,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) bounds: Bounds,
    pub(crate) sources: Sources,
    pub(crate) begun: Instant,
    settings: OnceLock<Settings>,
    /// What `setup` gave, as JSON.
    pub(crate) setup_data: OnceLock<String>,
    pub(crate) shared_metrics: Shared,
    /// The live side of the run.
    pub(crate) handle: Arc<Handle>,
    groups: Mutex<Vec<Arc<str>>>,
    shared: Mutex<HashMap<String, Arc<Vec<String>>>>,
    told: Mutex<HashSet<String>>,
    marked_failed: Mutex<Option<String>>,
    aborted: Mutex<Option<String>>,
    pub(crate) writer: fn(&str),
}

impl std::fmt::Debug for World {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("World").field("main", &self.main).finish_non_exhaustive()
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(crate) fn new(main: PathBuf, env: BTreeMap<String, String>, bounds: Bounds) -> Self {
        Self {
            main,
            env,
            bounds,
            sources: Sources::default(),
            begun: Instant::now(),
            settings: OnceLock::new(),
            setup_data: OnceLock::new(),
            shared_metrics: Shared::default(),
            handle: Arc::default(),
            groups: Mutex::default(),
            shared: Mutex::default(),
            told: Mutex::default(),
            marked_failed: Mutex::default(),
            aborted: Mutex::default(),
            writer: |text| eprintln!("{text}"),
        }
    }

    /// The settings; those by default while the options are not known.
    pub(crate) fn settings(&self) -> &Settings {
        static BEFORE: OnceLock<Settings> = OnceLock::new();
        self.settings.get().unwrap_or_else(|| BEFORE.get_or_init(Settings::default))
    }

    /// Sets them, once.
    pub(crate) fn set(&self, settings: Settings) {
        // A second time changes nothing: users hold what they read.
        let _ = self.settings.set(settings);
    }

    pub(crate) fn metrics(&self) -> MutexGuard<'_, Metrics> {
        self.shared_metrics.lock()
    }

    /// Remembers a group, so that the summary has it even without checks.
    pub(crate) fn note_group(&self, path: &Arc<str>) {
        let mut groups = held(&self.groups);
        if groups.len() < GROUPS_MAX && !groups.iter().any(|known| known == path) {
            groups.push(Arc::clone(path));
        }
    }

    /// The paths of all groups, in the order in which users came into them.
    pub(crate) fn groups(&self) -> Vec<Arc<str>> {
        held(&self.groups).clone()
    }

    /// The elements of a shared array, if it is made.
    pub(crate) fn shared(&self, name: &str) -> Option<Arc<Vec<String>>> {
        held(&self.shared).get(name).cloned()
    }

    /// Keeps the elements of a shared array, if none are kept; their number.
    pub(crate) fn share(&self, name: &str, elements: Vec<String>) -> usize {
        held(&self.shared).entry(name.to_owned()).or_insert_with(|| Arc::new(elements)).len()
    }

    /// Tells something once for all users.
    pub(crate) fn tell_once(&self, words: &str) {
        let mut told = held(&self.told);
        if told.len() < WARNINGS_MAX && told.insert(words.to_owned()) {
            self.log("warning", words, "");
        }
    }

    /// Tells why an iteration failed: each reason once.
    pub(crate) fn tell_failure(&self, words: &str, more: &str) {
        let mut told = held(&self.told);
        if told.len() < WARNINGS_MAX && told.insert(words.to_owned()) {
            self.log("error", words, more);
        }
    }

    /// A line of the log, as k6 writes it where no terminal is.
    pub(crate) fn log(&self, level: &str, words: &str, more: &str) {
        let quoted = serde_json::Value::from(words).to_string();
        let time = crate::time::utc_text(std::time::SystemTime::now());
        (self.writer)(&format!("time=\"{time}\" level={level} msg={quoted}{more}"));
    }

    /// A script ends the run; the first reason counts.
    pub(crate) fn abort(&self, words: &str) {
        held(&self.aborted).get_or_insert_with(|| words.to_owned());
    }

    pub(crate) fn aborted(&self) -> Option<String> {
        held(&self.aborted).clone()
    }

    pub(crate) fn mark_failed(&self, words: &str) {
        held(&self.marked_failed).get_or_insert_with(|| words.to_owned());
    }

    pub(crate) fn marked_failed(&self) -> Option<String> {
        held(&self.marked_failed).clone()
    }
}
