//! Gives a running server another configuration.

use crate::certificates::settings::ObtainOptions;
use crate::config::explanation::{RouteQuestion, RouteQuestionError, explain_route};
use crate::config::options::Options;
use crate::counters::upstream_counts::UpstreamReading;
use crate::error::TlsError;
use crate::files::root::place::{Look, Place, may_be_listed};
use crate::policy::insight::UpstreamAccess;
use crate::policy::settings::PolicyOptions;
use crate::policy::throttle::Throttle;
use crate::process::caches;
use crate::telemetry::admin::reloads::{Asked, ReloadHistory, Reloading};
use crate::telemetry::admin::response_cache::{Purge, ResponseCaches};
use crate::upstream::cache::store::Cache;
use crate::upstream::common::Common;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Hands a new configuration to a running server; see [`crate::Server::reloader`].
#[derive(Debug, Clone)]
pub struct Reloader(pub(crate) Arc<Reloads>);

/// The configuration that holds, and how often it was changed.
#[derive(Debug)]
pub(crate) struct Reloads {
    generation: AtomicU64,
    /// The root of a server without hosts.
    place: Arc<Place>,
    options: Mutex<Arc<Options>>,
    history: Mutex<ReloadHistory>,
}

impl Reloader {
    pub(crate) fn new(options: &Arc<Options>, place: Arc<Place>) -> Self {
        Self(Arc::new(Reloads {
            generation: AtomicU64::new(0),
            place,
            options: Mutex::new(Arc::clone(options)),
            history: Mutex::default(),
        }))
    }

    /// Has every loop take up hosts, paths, bounds, limits, times, certificates and the log of `options`, for the
    /// requests and handshakes from then on. No connection is closed by it. Returns what was changed but holds only
    /// after a restart.
    pub fn reload(&self, mut options: Options) -> Vec<&'static str> {
        let mut current = self.0.options.lock().unwrap_or_else(PoisonError::into_inner);
        let before = &**current;
        let changed = [
            ("listen", before.listen != options.listen),
            ("tls (whether there is any)", before.certificates.is_empty() != options.certificates.is_empty()),
            ("acme (all but which hosts)", !is_same_but_for_its_hosts(before, &options)),
            ("tls.listen_clear", before.listen_clear != options.listen_clear),
            ("tls.listen_quic", before.listen_quic != options.listen_quic),
            ("tls.http3", before.http3 != options.http3),
            ("loops", before.loops != options.loops.max(1)),
            ("reserve_loops", before.reserve_loops != options.reserve_loops),
            ("io", before.io != options.io),
            ("cache", before.cache_bytes_max != options.cache_bytes_max),
            ("arm", before.arm != options.arm),
            ("policy (all but what the file says)", !is_same_but_for_its_file(before, &options)),
            ("admin", before.admin != options.admin),
            ("admin.may", before.admin_rights != options.admin_rights),
            ("admin.history", before.history != options.history),
            ("activity", before.activity != options.activity),
            ("user", before.user != options.user),
            ("sandbox", before.sandbox != options.sandbox),
            ("releases", before.releases != options.releases),
            ("log (whether there is one)", before.access_log.is_some() != options.access_log.is_some()),
            ("limits.connections", before.limits.connections_max != options.limits.connections_max),
            (
                "limits.connections_per_address",
                before.limits.connections_per_address_max != options.limits.connections_per_address_max,
            ),
        ];
        options.loops = before.loops;
        options.reserve_loops = before.reserve_loops;
        options.adviser.clone_from(&before.adviser);
        options.challenges = before.challenges.clone();
        options.tickets = before.tickets.clone();
        options.php = before.php.clone();
        options.scripts = before.scripts.clone();
        options.throttles = Throttle::succeed(&before.throttles, options.throttles);
        options.cache_bytes_max = before.cache_bytes_max;
        if let (Some(before), Some(now)) = (&before.hosts, &mut options.hosts) {
            now.go_on_with(before);
        }
        caches::take_over(before, &options);
        *current = Arc::new(options);
        let generation = self.0.generation.fetch_add(1, Ordering::Release) + 1;
        tracing::info!(generation, "configuration handed to the loops");
        self.0.note(|history| {
            history.done += 1;
            history.last_error = None;
        });
        changed.into_iter().filter(|(_, is_changed)| *is_changed).map(|(what, _)| what).collect()
    }

    /// Looks where the paths of the roots lead to, and has every loop serve the directories that they lead to now.
    /// Returns what came of it, in words. A server that runs does so every second by itself.
    pub fn follow_roots(&self) -> Vec<String> {
        self.0.follow_roots(true)
    }

    /// Takes note that another configuration was not taken up, and why.
    pub fn refused(&self, why: &str) {
        tracing::info!(why, "configuration refused");
        self.0.note(|history| {
            history.failed += 1;
            history.last_error = Some(why.to_owned());
        });
    }
}

/// Whether rules are used as before, apart from the name of their file: the program that made the adviser reads it
/// again.
fn is_same_but_for_its_file(before: &Options, now: &Options) -> bool {
    let but_for_its_file = |options: &Options| {
        let policy = options.policy.clone();
        policy.map(|policy| PolicyOptions { file: PathBuf::new(), ..policy })
    };
    but_for_its_file(before) == but_for_its_file(now)
}

/// Whether certificates are obtained as before, apart from the hosts: the program that obtains them hears of these.
fn is_same_but_for_its_hosts(before: &Options, now: &Options) -> bool {
    let but_for_its_hosts = |options: &Options| {
        let obtain = options.obtain.clone();
        obtain.map(|obtain| ObtainOptions { hosts: Vec::new(), ..obtain })
    };
    but_for_its_hosts(before) == but_for_its_hosts(now)
}

/// What a look at the path of a root comes to, in words; none where nothing is to be told.
fn told(place: &Place, look: Look, is_confined: bool) -> Option<String> {
    let path = place.path().display();
    match look {
        Look::Same | Look::Failed(_, false) => None,
        Look::Moved(to) => Some(format!("{path} leads to {} now, and that is served", to.display())),
        Look::Failed(error, true) => {
            let is_out_of_reach =
                is_confined && error.kind() == ErrorKind::PermissionDenied && may_be_listed(place.path());
            let why = if is_out_of_reach {
                "it is out of reach of the confined server; restart that with --releases DIR (releases = \"DIR\"), the \
                 directory that releases lie in"
                    .to_owned()
            } else {
                format!("{error}; have it lead to a directory that can be read")
            };
            Some(format!("{path}: {why}. What was served from it before is served on"))
        }
    }
}

impl UpstreamAccess for Reloads {
    fn readings(&self) -> Vec<UpstreamReading> {
        self.upstreams()
    }

    fn order_workers(&self, name: &str, workers: Option<u32>) {
        let options = self.options.lock().unwrap_or_else(PoisonError::into_inner);
        let all = options.hosts.iter().flat_map(|hosts| &hosts.0.upstreams);
        all.filter(|common| common.rules.name == name).for_each(|common| common.order_workers(workers));
    }
}

impl Reloading for Reloads {
    fn history(&self) -> ReloadHistory {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn explain(&self, asked: &Asked) -> Result<String, (u16, String)> {
        let options = Arc::clone(&self.options.lock().unwrap_or_else(PoisonError::into_inner));
        let mut question = RouteQuestion::new(&asked.url);
        question.method = asked.method.clone().unwrap_or(question.method);
        question.client = asked.from.unwrap_or(question.client);
        let told = explain_route(&options, &question).map_err(|error| {
            let status = match error {
                RouteQuestionError::System(_) => 503,
                RouteQuestionError::NoHosts => 404,
                _ => 400,
            };
            (status, error.to_string())
        })?;
        serde_json::to_string(&told).map_err(|error| (500, error.to_string()))
    }

    fn throttles(&self) -> Vec<Throttle> {
        self.options.lock().unwrap_or_else(PoisonError::into_inner).throttles.clone()
    }

    fn upstreams(&self) -> Vec<UpstreamReading> {
        let options = self.options.lock().unwrap_or_else(PoisonError::into_inner);
        let all = options.hosts.iter().flat_map(|hosts| &hosts.0.upstreams);
        let mut once: Vec<&Arc<Common>> = Vec::new();
        for common in all {
            if !once.iter().any(|known| Arc::ptr_eq(&known.gate, &common.gate)) {
                once.push(common);
            }
        }
        once.into_iter().map(|common| common.reading()).collect()
    }

    fn response_caches(&self) -> ResponseCaches {
        caches::sum(&self.caches())
    }

    fn purge(&self, what: &Purge) -> usize {
        caches::purge(&self.caches(), what)
    }
}

impl Reloads {
    /// Has all caches of upstreams' responses forget everything; how many responses that were.
    pub(crate) fn purge_all(&self) -> usize {
        caches::purge_all(&self.caches())
    }

    /// The caches of upstreams' responses.
    fn caches(&self) -> Vec<Arc<Cache>> {
        let options = Arc::clone(&self.options.lock().unwrap_or_else(PoisonError::into_inner));
        caches::open(&options)
    }

    /// The root of a server without hosts.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Looks where the paths of the roots lead to; what there is to be told. `is_asked` = failures are told at once.
    pub(crate) fn follow_roots(&self, is_asked: bool) -> Vec<String> {
        let options = Arc::clone(&self.options.lock().unwrap_or_else(PoisonError::into_inner));
        let looks: Vec<_> = match &options.hosts {
            Some(rules) => rules.0.sites.iter().map(|site| (&site.place, site.place.follow(is_asked))).collect(),
            None => vec![(&*self.place, self.place.follow(is_asked))],
        };
        let moved =
            looks.iter().find_map(|(place, look)| if let Look::Moved(to) = look { Some((place, to)) } else { None });
        if let Some((place, to)) = moved {
            let generation = self.generation.fetch_add(1, Ordering::Release) + 1;
            let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
            history.roots_moved += 1;
            history.last_root = Some(format!("{} leads to {}", place.path().display(), to.display()));
            drop(history);
            tracing::info!(generation, "a root leads elsewhere");
        }
        looks.into_iter().filter_map(|(place, look)| told(place, look, options.sandbox == Some(true))).collect()
    }

    /// Takes note of changed certificates: whether they are used, or why not.
    pub(crate) fn note_certificates(&self, outcome: &Result<(), TlsError>) {
        let error = outcome.as_ref().err().map(ToString::to_string);
        self.history.lock().unwrap_or_else(PoisonError::into_inner).certificates_error = error;
    }

    fn note(&self, what: impl FnOnce(&mut ReloadHistory)) {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.last_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs());
        what(&mut history);
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The configuration, if it is newer than that of the generation, which moves on to it.
    pub(crate) fn newer(&self, generation: &mut u64) -> Option<Arc<Options>> {
        let newest = self.generation();
        if newest == *generation {
            return None;
        }
        *generation = newest;
        Some(Arc::clone(&self.options.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}
