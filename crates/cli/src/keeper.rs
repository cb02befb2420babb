//! The `weir keeper` command: the process of a node that reads and restores sockets, with one capability.

use crate::cluster::members::MembersFile;
use crate::serve_policy::ids;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_keeper::{KeeperOptions, KeeperProcess};

/// Where it is asked, if no option says otherwise.
pub(crate) const SOCKET: &str = "/run/weir-keeper.sock";

const EXAMPLES: &str = "\
Examples:
  weir keeper --cluster /etc/weir/cluster --interface eth0 --user www-data
      for the server that runs as www-data
  weir keeper --service 10.0.0.80:80 --interface eth0 --user www-data
      for this address, without a cluster's directory

It is started as root. It attaches a filter to the interface, which holds the
packets of a connection that moves, and then keeps CAP_NET_ADMIN only. A hold
ends by itself after 5 s.

Exit status: 1 if it cannot start, 2 for wrong usage.";

/// Read and restore sockets for a server whose sessions move.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The cluster's directory, whose members.toml names the addresses of the service
    #[arg(long, value_name = "DIR", required_unless_present = "service")]
    cluster: Option<PathBuf>,

    /// Address of a service whose connections it may touch; repeatable
    #[arg(long, value_name = "ADDR", conflicts_with = "cluster")]
    service: Vec<SocketAddr>,

    /// Network interface by which clients' packets come in; repeatable
    #[arg(long, value_name = "NAME", required = true)]
    interface: Vec<String>,

    /// The Unix socket at which the server's node process asks it
    #[arg(long, value_name = "FILE", default_value = SOCKET)]
    socket: PathBuf,

    /// The user of the server, who alone may ask it [default: the user that starts it]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,

    /// Mark (SO_MARK) of restored sockets, for a route with a larger first window (initcwnd)
    #[arg(long, value_name = "N", default_value_t = 0)]
    mark: u32,
}

/// Serves until it is killed.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let services = match &args.cluster {
        Some(folder) => MembersFile::read(folder)?.services,
        None => args.service.clone(),
    };
    let ids = args.user.as_deref().map(ids).transpose()?;
    // SAFETY: the call takes nothing and cannot fail.
    let allowed = ids.map_or_else(|| unsafe { libc::geteuid() }, |(uid, _)| uid);
    let interfaces: Vec<&str> = args.interface.iter().map(String::as_str).collect();
    let options =
        KeeperOptions { mark: args.mark, ..KeeperOptions::new(&args.socket, &interfaces, &services, allowed) };
    let keeper = KeeperProcess::start(&options)?;
    eprintln!("weir keeper: ready at {} for {}", args.socket.display(), shown(&services));
    keeper.serve()?;
    Ok(ExitCode::SUCCESS)
}

fn shown(services: &[SocketAddr]) -> String {
    let services: Vec<String> = services.iter().map(SocketAddr::to_string).collect();
    services.join(" and ")
}

/// The socket that a server's options name.
pub(crate) fn socket(given: Option<&Path>) -> PathBuf {
    given.map_or_else(|| PathBuf::from(SOCKET), Path::to_owned)
}
