//! `weir cluster renew`: has the certificates of this member signed again.

use super::keyring::{Keys, rough};
use anyhow::Context;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;
use weir_cluster::Identity;

const EXAMPLES: &str = "\
Examples:
  weir cluster renew /etc/weir/cluster
      has the certificate of this member signed again, and that of its etcd

A member that runs does it by itself when a third of the life of its certificate
is left. The node of weir cluster init signs, and has to run; what runs here
shows the new certificate within a second, without a restart. The keys stay.

Exit status: 0 if it is renewed, 1 if no node has signed.";

/// Have the certificates of this member signed again.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The cluster's directory
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
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
