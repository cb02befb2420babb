//! The processes beside a server: those that obtain certificates, run PHP, run scripts, and move sessions.

use crate::keeper;
use crate::serve_acme::Obtaining;
use crate::serve_cluster::{ClusterNode, FromElsewhere, NodeFigures};
use crate::serve_php::{self, PhpProcesses};
use crate::serve_scripts::{self, ScriptProcesses};
use std::path::PathBuf;
use std::sync::Arc;
use weir_server::{Options, Server};

/// The processes beside a server, as far as its configuration needs them.
pub(super) struct Beside {
    obtaining: Option<Obtaining>,
    php: Option<PhpProcesses>,
    scripts: Option<ScriptProcesses>,
    node: Option<ClusterNode>,
}

/// What the node process of a cluster tells and brings.
type OfNode<'n> = (&'n Arc<NodeFigures>, &'n Arc<FromElsewhere>);

impl Beside {
    /// Starts them, before the server is confined.
    pub(super) fn prepare(
        options: &Options,
        (cluster, keeper, (figures, elsewhere)): (&Option<PathBuf>, &Option<PathBuf>, OfNode<'_>),
        server: &Server,
    ) -> anyhow::Result<Self> {
        let keeper = keeper::socket(keeper.as_deref());
        let node = |folder: &PathBuf| {
            let of_server = (server.control(), server.counters(), server.reloader());
            ClusterNode::prepare(folder, keeper, of_server, options, (Arc::clone(figures), Arc::clone(elsewhere)))
        };
        Ok(Self {
            obtaining: Obtaining::prepare(options)?,
            php: serve_php::prepare(options)?,
            scripts: serve_scripts::prepare(options)?,
            node: cluster.as_ref().map(node).transpose()?,
        })
    }

    /// Starts to do as they ask, once: from the server's thread, so that it is confined as that is.
    pub(super) fn start(&mut self) {
        self.obtaining.iter_mut().for_each(Obtaining::start);
        self.php.iter_mut().for_each(PhpProcesses::start);
        self.scripts.iter_mut().for_each(ScriptProcesses::start);
        self.node.iter_mut().for_each(ClusterNode::start);
    }

    /// Has everything run that another configuration needs, before the server takes it up.
    pub(super) fn make_ready(&mut self, options: &Options) -> anyhow::Result<()> {
        match &mut self.php {
            Some(php) => serve_php::make_ready(php, options)?,
            None if options.php_pools().is_empty() => {}
            None => anyhow::bail!(
                "a server that was started without `php` cannot run PHP later; restart it, or take it over (--take-over)"
            ),
        }
        match &mut self.scripts {
            Some(scripts) => serve_scripts::make_ready(scripts, options),
            None if options.script_pools().is_empty() => Ok(()),
            None => anyhow::bail!(
                "a server that was started without scripts cannot run any later; restart it, or take it over \
                 (--take-over)"
            ),
        }
    }

    /// Hands over what another configuration says.
    pub(super) fn read_again(&mut self, options: Option<&Options>) {
        self.obtaining.iter_mut().for_each(|obtaining| obtaining.read_again(options));
    }

    /// Leaves certificates to the server that has followed; PHP and scripts stay for the requests under way.
    pub(super) fn leave_certificates(&mut self) {
        self.obtaining = None;
    }

    /// Has them end with the server.
    pub(super) fn finish(self) {
        self.php.into_iter().for_each(PhpProcesses::finish);
        self.scripts.into_iter().for_each(ScriptProcesses::finish);
    }
}
