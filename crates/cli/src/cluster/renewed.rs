//! `weir cluster renew`: has the certificates of this member signed again.

use super::keyring::{Keys, rough};
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;
use weir_cluster::{Authority, Identity, authority_validity};

const EXAMPLES: &str = "\
Examples:
  weir cluster renew /etc/weir/cluster
      has the certificate of this member signed again, and that of its etcd
  weir cluster renew /etc/weir/cluster --authority
      on the node of weir cluster init: has the authority sign its own one again

A member that runs does it by itself when a third of the life of its certificate
is left. The node of weir cluster init signs, and has to run; what runs here
shows the new certificate within a second, without a restart. The keys stay.
That of the authority is valid for 30 years. Copy the new one to the other
members when it suits: of two certificates of one key, either is believed.

Exit status: 0 if it is renewed, 1 if no node has signed.";

/// Have the certificates of this member signed again.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The cluster's directory
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Renew the certificate of the cluster's authority, which is here
    #[arg(long)]
    authority: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.authority {
        return renew_authority(&args.folder);
    }
    let has_etcd = Keys::of_command(&args.folder)?.renew()?;
    let identity = Identity::load(&args.folder)?;
    let validity = identity.validity().context("the new certificate cannot be read; report this")?;
    let etcd = if has_etcd { " and that of its etcd are" } else { " is" };
    println!(
        "the certificate of {}{etcd} renewed; it ends in {}",
        identity.member.name,
        rough(validity.left(SystemTime::now()))
    );
    Ok(ExitCode::SUCCESS)
}

fn renew_authority(folder: &Path) -> anyhow::Result<ExitCode> {
    Authority::renew_itself(folder, SystemTime::now())?;
    let validity = authority_validity(folder).context("the new certificate cannot be read; report this")?;
    println!(
        "the certificate of the cluster's authority is renewed; it ends in {}\n\
         copy authority.crt from {} to the directory of each other member, and start etcd there again; until then the one \
         of before is believed as well. Tokens that were made before are of no use any more",
        rough(validity.left(SystemTime::now())),
        folder.display()
    );
    Ok(ExitCode::SUCCESS)
}
