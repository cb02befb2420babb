//! The processes beside a server: the one that obtains certificates and the one that runs PHP.

use crate::serve_acme::Obtaining;
use crate::serve_php::PhpProcesses;
use weir_server::Options;

/// The processes beside a server, as far as its configuration needs them.
pub(super) struct Beside {
    obtaining: Option<Obtaining>,
    php: Option<PhpProcesses>,
}

impl Beside {
    /// Starts them, before the server is confined.
    pub(super) fn prepare(options: &Options) -> anyhow::Result<Self> {
        Ok(Self { obtaining: Obtaining::prepare(options)?, php: PhpProcesses::prepare(options)? })
    }

    /// Starts to do as they ask, once: from the server's thread, so that it is confined as that is.
    pub(super) fn start(&mut self) {
        self.obtaining.iter_mut().for_each(Obtaining::start);
        self.php.iter_mut().for_each(PhpProcesses::start);
    }

    /// Has everything run that another configuration needs, before the server takes it up.
    pub(super) fn make_ready(&mut self, options: &Options) -> anyhow::Result<()> {
        match &mut self.php {
            Some(php) => php.make_ready(options),
            None if options.php_pools().is_empty() => Ok(()),
            None => anyhow::bail!(
                "a server that was started without `php` cannot run PHP later; restart it, or take it over (--take-over)"
            ),
        }
    }

    /// Hands over what another configuration says.
    pub(super) fn read_again(&mut self, options: Option<&Options>) {
        self.obtaining.iter_mut().for_each(|obtaining| obtaining.read_again(options));
    }

    /// Leaves certificates to the server that has followed; PHP stays for the requests under way.
    pub(super) fn leave_certificates(&mut self) {
        self.obtaining = None;
    }

    /// Has them end with the server.
    pub(super) fn finish(self) {
        self.php.into_iter().for_each(PhpProcesses::finish);
    }
}
