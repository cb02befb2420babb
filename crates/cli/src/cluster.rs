//! The `weir cluster` command: keys and members of a cluster, its director, and sessions that move.

pub(crate) mod control_socket;
mod director;
mod keys;
pub(crate) mod members;

use anyhow::Context;
use control_socket::{Asked, Told};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  weir cluster init /etc/weir/cluster --name n1
      make a cluster, whose first node is n1
  weir cluster token /etc/weir/cluster
      allow one more node to join within the next hour
  weir cluster admit /etc/weir/cluster --listen 10.0.0.11:7701
      let machines with a token join, until Ctrl-C
  weir cluster join /etc/weir/cluster --name n2 --at 10.0.0.11:7701
      join; the token is read from standard input
  weir cluster director /etc/weir/cluster --interface eth0
      send each connection to a node, and where it moves
  weir keeper --cluster /etc/weir/cluster --interface eth0 --user www-data
      on each node: reads and restores sockets, with CAP_NET_ADMIN only
  weir serve /srv/www --listen 10.0.0.80:80 --cluster /etc/weir/cluster
      on each node: serve, and give and take sessions
  weir cluster move /etc/weir/cluster 198.51.100.7:50123 --to n2
      on the node that has it: move the session of this client
  weir cluster status /etc/weir/cluster
      what this node has moved

Exit status: 0 if it is done, 1 if it failed, 2 for wrong usage.";

/// Several machines that serve one site, and sessions that move between them.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Make a cluster: its authority, and the keys of its first node
    Init(keys::InitArgs),
    /// Make a token with which one machine can join
    Token(keys::TokenArgs),
    /// Let machines with a token join, until Ctrl-C
    Admit(keys::AdmitArgs),
    /// Join a cluster; the token is read from standard input
    Join(keys::JoinArgs),
    /// Send each connection to a node, and where it moves (as root)
    Director(director::Args),
    /// Move the session of a client from this node to another
    Move(MoveArgs),
    /// Show what this node has moved
    Status(StatusArgs),
}

/// Move the session of a client from this node to another.
#[derive(Debug, clap::Args)]
struct MoveArgs {
    /// The cluster's directory
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// The client's address and port, as ss or the access log have it
    #[arg(value_name = "CLIENT")]
    client: SocketAddr,

    /// The node that is to go on with it
    #[arg(long, value_name = "NODE")]
    to: String,

    /// The address that the client has connected to, where the cluster has several
    #[arg(long, value_name = "ADDR")]
    service: Option<SocketAddr>,
}

/// Show what this node has moved.
#[derive(Debug, clap::Args)]
struct StatusArgs {
    /// The cluster's directory
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Does what a subcommand says.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Init(args) => keys::init(&args),
        Command::Token(args) => keys::token(&args),
        Command::Admit(args) => keys::admit(&args),
        Command::Join(args) => keys::join(&args),
        Command::Director(args) => director::run(&args),
        Command::Move(args) => move_session(args),
        Command::Status(args) => status(&args),
    }
}

fn move_session(args: MoveArgs) -> anyhow::Result<ExitCode> {
    let MoveArgs { folder, client, to, service } = args;
    match control_socket::ask(&folder, &Asked::Move { client, service, to: to.clone() })? {
        Told::Moved { freeze_us, total_us, remade_bytes } => {
            let [freeze, total] = [freeze_us, total_us].map(|us| us as f64 / 1e3);
            println!(
                "the session of {client} goes on at {to}: it moved in {total:.2} ms, and stood still for {freeze:.2} ms"
            );
            if remade_bytes > 0 {
                println!("{remade_bytes} bytes that the client had not acknowledged were made again there");
            }
            Ok(ExitCode::SUCCESS)
        }
        Told::Refused(why) => {
            eprintln!("weir cluster move: {why}");
            Ok(ExitCode::FAILURE)
        }
        Told::Status { .. } => anyhow::bail!("the node answers something else; run the same weir everywhere"),
    }
}

fn status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let told = control_socket::ask(&args.folder, &Asked::Status)?;
    if args.json {
        let json = serde_json::to_string_pretty(&told).context("JSON")?;
        println!("{json}");
        return Ok(ExitCode::SUCCESS);
    }
    let Told::Status { node, given, taken, not_begun, came_back, refused, lost, undecided, reasons } = told else {
        anyhow::bail!("the node answers something else; run the same weir everywhere");
    };
    println!("node {node}");
    for (count, what) in [
        (given, "sessions given to other nodes"),
        (taken, "sessions taken from other nodes"),
        (not_begun, "moves that did not begin: the session went on here"),
        (came_back, "moves that came back: the session went on here"),
        (refused, "sessions refused: they went on at their old node"),
        (lost, "sessions lost"),
        (undecided, "moves that the director has not decided"),
    ] {
        println!("{count:>8}  {what}");
    }
    if !reasons.is_empty() {
        println!("why, the last ones:");
        reasons.iter().for_each(|reason| println!("  {reason}"));
    }
    Ok(ExitCode::SUCCESS)
}
