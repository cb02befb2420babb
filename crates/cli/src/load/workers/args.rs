//! The options of `weir load` that name its workers.

use super::super::usage::Usage;
use super::place::Place;
use super::tls::Identity;
use anyhow::anyhow;
use std::path::PathBuf;

/// Who makes the run.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct WorkersArgs {
    /// Have these hosts make the run together, each an equal part of its arrivals and connections: HOST, USER@HOST (by
    /// ssh), tls:HOST:PORT (a weir worker --listen), local:N (N processes of this host); may be repeated
    #[arg(long, value_name = "HOST,…", value_delimiter = ',', help_heading = "Workers")]
    pub(super) workers: Vec<Place>,
    /// The certificate that this host shows to workers of tls: (PEM, with its chain; the key may be in the same file)
    #[arg(long, value_name = "FILE", requires = "workers", help_heading = "Workers")]
    pub(super) worker_cert: Option<PathBuf>,
    /// Its private key (PEM, not encrypted)
    #[arg(long, value_name = "FILE", requires = "worker_cert", help_heading = "Workers")]
    pub(super) worker_key: Option<PathBuf>,
    /// The certificate authority of such workers (PEM)
    #[arg(long, value_name = "FILE", requires = "workers", help_heading = "Workers")]
    pub(super) worker_ca: Option<PathBuf>,
    /// The weir on hosts that ssh reaches [default: weir, found in the PATH there]
    #[arg(long, value_name = "PATH", requires = "workers", help_heading = "Workers")]
    pub(super) remote_weir: Option<String>,
    /// Configuration of ssh in place of yours: ports, users, keys
    #[arg(long, value_name = "FILE", requires = "workers", help_heading = "Workers")]
    pub(super) ssh_config: Option<PathBuf>,
}

/// One worker that is to be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reached {
    pub(super) name: String,
    pub(super) place: Place,
}

impl WorkersArgs {
    /// Whether workers make the run.
    pub(crate) fn wanted(&self) -> bool {
        !self.workers.is_empty()
    }

    /// Each worker with its name.
    pub(super) fn reached(&self) -> Vec<Reached> {
        let mut all = Vec::new();
        for place in &self.workers {
            match place {
                Place::Local(count) => {
                    let from = all.len();
                    let one = |number| Reached {
                        name: format!("local-{}", from + number as usize + 1),
                        place: Place::Local(1),
                    };
                    all.extend((0..*count).map(one));
                }
                Place::Ssh(host) => all.push(Reached { name: host.clone(), place: place.clone() }),
                Place::Tls { host, port } => all.push(Reached { name: format!("{host}:{port}"), place: place.clone() }),
            }
        }
        // Several on one host are told apart.
        let names: Vec<String> = all.iter().map(|reached| reached.name.clone()).collect();
        for (index, reached) in all.iter_mut().enumerate() {
            if names.iter().filter(|name| **name == reached.name).count() > 1 {
                let number = names[..index].iter().filter(|name| **name == reached.name).count();
                reached.name = format!("{}#{}", reached.name, number + 1);
            }
        }
        all
    }

    /// How this host shows itself to workers of `tls:`; none where there are no such workers.
    pub(super) fn identity(&self) -> Result<Option<Identity>, Usage> {
        if !self.workers.iter().any(|place| matches!(place, Place::Tls { .. })) {
            return match (&self.worker_cert, &self.worker_ca) {
                (None, None) => Ok(None),
                _ => Err(anyhow!("--worker-cert, --worker-ca: no worker is tls:HOST:PORT; leave them out").into()),
            };
        }
        let (Some(cert), Some(ca)) = (&self.worker_cert, &self.worker_ca) else {
            return Err(anyhow!(
                "--workers tls:HOST:PORT: both sides show certificates: give --worker-cert FILE and --worker-ca FILE"
            )
            .into());
        };
        Ok(Some(Identity::read(cert, self.worker_key.as_deref(), ca)?))
    }

    /// Refuses what has no effect with these workers.
    pub(super) fn check(&self) -> Result<(), Usage> {
        let has_ssh = self.workers.iter().any(|place| matches!(place, Place::Ssh(_)));
        if !has_ssh && (self.remote_weir.is_some() || self.ssh_config.is_some()) {
            return Err(anyhow!("--remote-weir, --ssh-config: no worker is reached by ssh; leave them out").into());
        }
        Ok(())
    }
}
