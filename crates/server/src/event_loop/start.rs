//! A loop on its way into its thread.

use crate::config::options::Options;
use crate::counters::Counters;
use crate::counters::host_counts::HostLedger;
use crate::counters::rounds::Rounds;

use crate::event_loop::sessions::Sessions;
use crate::event_loop::stopping::Stopping;
use crate::event_loop::{EventLoop, LoopRole};
use crate::exchange::wakes::Wakes;
use crate::files::root::Root;

use crate::files::shared_content::SharedContent;
use crate::files::watcher::Watcher;

use crate::io::epoll::{Epoll, Waker};
use crate::io::listen::Listener;
use crate::io::open::Open;

use crate::loop_state::{LoopState, Watching};
use crate::policy::control::Controls;
use crate::policy::insight::Contents;
use crate::policy::link_prior::Priors;
use crate::policy::policy_client::PolicyClient;
use crate::policy::throttle::Throttles;

use crate::process::reload::Reloads;

use crate::quic::{self, Former, QuicSocket};
use crate::routing::fields::Fields;
use crate::routing::{Hosts, Router};
use crate::site::{Share, Site};

use crate::telemetry::arm_requests::ArmRequests;
use crate::telemetry::response_log::ResponseLog;
use crate::telemetry::watching::Hub;
use crate::transport::ring::Ring;
use crate::upstream::context::UpstreamContext;
use crate::upstream::links::Links;

use std::rc::Rc;
use std::sync::Arc;

/// A loop on its way into its thread.
pub(super) struct Start {
    pub(super) reloads: Arc<Reloads>,
    /// With the loop's number.
    pub(super) hosts: HostLedger,
    pub(super) epoll: Epoll,
    pub(super) ring: Option<Ring>,
    pub(super) waker: Arc<Waker>,
    pub(super) listeners: Vec<Listener>,
    /// Sockets, what they need, and what is said of them elsewhere.
    pub(super) quic: (Vec<QuicSocket>, Option<Arc<quinn_proto::ServerConfig>>, Arc<Former>, Fields),
    pub(super) root: Root,
    pub(super) tls: Option<Arc<rustls::ServerConfig>>,
    pub(super) log: Option<ResponseLog>,
    pub(super) arm: Option<ArmRequests>,
    pub(super) shared_content: Arc<SharedContent>,
    /// What is expected of clients.
    pub(super) priors: Arc<Priors>,
    pub(super) contents: Arc<Contents>,
    pub(super) role: LoopRole,
    pub(super) controls: Arc<Controls>,
    pub(super) watching: Arc<Hub>,
    pub(super) upstreams: Arc<UpstreamContext>,
    pub(super) sessions: Arc<Sessions>,
}

impl Start {
    /// Serves until the server stops.
    pub(super) fn run(
        self,
        options: &Options,
        counters: &Counters,
        open: &Arc<Open>,
        stopping: &Stopping,
        files_max: usize,
    ) -> std::io::Result<()> {
        let epoll = Rc::new(self.epoll);
        let links = Links::new(Rc::clone(&epoll), self.upstreams);
        let watcher = Rc::new(if options.watches_max > 0 { Watcher::new() } else { Watcher::deaf() });
        let index = self.hosts.index;
        let policy_client = options.adviser.as_ref().map(|adviser| {
            let known = (Arc::clone(&self.priors), Arc::clone(&self.contents), Arc::clone(&self.shared_content));
            Rc::new(PolicyClient::new(Arc::clone(adviser), known, counters.clone(), index))
        });
        let (shared_content, hosts) = (self.shared_content, self.hosts);
        let challenges = options.challenges.clone();
        let share = Share { shared_content, watcher: Rc::clone(&watcher), hosts, challenges, files_max, policy_client };
        // Before there are upstreams, which tell their gates by what this loop is called.
        let wakes = Wakes::new(Arc::clone(&self.waker));
        links.use_wakes(&wakes);
        let router = match &options.hosts {
            None => Router::Plain(Site::new(self.root, &options.site_kind(), &options.site_bounds(), &share)),
            Some(rules) => {
                let (bounds, word) = (options.site_bounds(), &options.site_word);
                Router::Hosts(Box::new(Hosts::new(
                    Arc::clone(&rules.0),
                    Arc::clone(&self.waker),
                    &bounds,
                    word,
                    (share, Rc::clone(&links)),
                )?))
            }
        };
        let others = (self.reloads, watcher, wakes);
        let mut state = LoopState::new(router, self.log, self.arm, options, counters.clone(), index, others);
        let (sockets, config, former, alt_svc) = self.quic;
        state.alt_svc = alt_svc;
        state.throttles = Throttles::new(&options.throttles, Arc::clone(&self.controls), index);
        state.controls = self.controls;
        state.watching = Watching::new(self.watching);
        self.ring.as_ref().map_or(Ok(()), Ring::enable)?;
        links.use_ring(self.ring.is_some());
        state.ring = self.ring;
        let endpoint = |(config, socket)| quic::Endpoint::new(socket, config, &former);
        let quic = config.iter().cycle().zip(sockets).map(endpoint).collect();
        let role = (self.role, options.counts_waits().then(Rounds::default));
        let (open, sessions) = (Arc::clone(open), Arc::clone(&self.sessions));
        let event_loop = EventLoop::new((epoll, links), self.listeners, quic, self.tls, (state, open), role, sessions);
        let event_loop = if options.moves_sessions { event_loop.moving() } else { event_loop };
        let outcome = event_loop.run(&self.waker, stopping);
        self.sessions.end(index);
        outcome
    }
}
