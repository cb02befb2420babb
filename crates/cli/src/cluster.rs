//! The `weir cluster` command: keys and members of a cluster, its director, and sessions that move.

pub(crate) mod atoms;
mod choice;
pub(crate) mod control_socket;
mod director;
mod director_rules;
mod director_seen;
pub(crate) mod directory_place;
mod directory_seen;
mod etcd_member;
mod events;
mod events_lately;
pub(crate) mod figures;
mod front;
mod front_names;
mod front_web;
pub(crate) mod gossiping;
mod hottest;
pub(crate) mod keyring;
mod keys;
mod last_word;
pub(crate) mod map;
pub(crate) mod members;
mod nodes;
pub(crate) mod overview;
mod pair;
mod pair_replica;
mod printed;
mod publish;
pub(crate) mod published;
pub(crate) mod removed;
mod renewed;
pub(crate) mod rules;
pub(crate) mod rules_published;
mod tables;
mod top;

pub(crate) use events_lately::{LatelyError, events_lately};

use anyhow::Context;
use control_socket::{Asked, Relayed, Told};
use printed::{other_answer, print_json};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};
use weir_terminal::units;

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
  weir cluster front /etc/weir/cluster --proxy 10.0.0.1:80
      the same without privileges, as a proxy; sessions do not move then
  weir keeper --cluster /etc/weir/cluster --interface eth0 --user www-data
      on each node: reads and restores sockets, with CAP_NET_ADMIN only
  weir serve /srv/www --listen 10.0.0.80:80 --cluster /etc/weir/cluster
      on each node: serve, and give and take sessions
  weir cluster move /etc/weir/cluster 198.51.100.7:50123 --to n2
      on the node that has it: move the session of this client; where the
      cluster has several addresses, --service 10.0.0.80:443 says which
  weir cluster drain /etc/weir/cluster --within 10s
      before this node ends: move all of its sessions, send new ones elsewhere;
      --undo takes it back
  weir cluster status /etc/weir/cluster
      what this node has moved, which sites it serves, and how each member of
      etcd stands; on a director's machine, whether that is active
  weir cluster activate /etc/weir/cluster
      on the machine of a director that stands by: make it the active one
  weir cluster events /etc/weir/cluster --follow
      what happens: sessions that move, and nodes that go and come
  weir cluster publish /etc/weir/cluster ./build --site shop
      publish a folder once; all nodes fetch it, and serve it from
      /etc/weir/cluster/sites/shop/current
  weir cluster rollback /etc/weir/cluster --site shop --to 3
      serve an earlier version again, on all nodes
  weir cluster rules /etc/weir/cluster flood.policy
      rules that wake reserve nodes and have sessions switch
  weir cluster top /etc/weir/cluster
      what the nodes do and are asked for most, updated each second

The directory and its keys belong to the user that weir serve runs as.

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
    /// Remove a member: all others refuse its certificate
    Remove(removed::Args),
    /// Have the certificates of this member signed again
    Renew(renewed::Args),
    /// Run the member of etcd of this machine
    Etcd(etcd_member::Args),
    /// Send each connection to a node, and where it moves (as root)
    Director(director::Args),
    /// Send clients to nodes without privileges: by a proxy, redirects or DNS
    Front(front::Args),
    /// Make the director of this machine the active one of two
    Activate(StatusArgs),
    /// Move the session of a client from this node to another
    Move(MoveArgs),
    /// Show the connections that this node has
    Sessions(StatusArgs),
    /// Send new connections elsewhere, and move those of this node
    Drain(DrainArgs),
    /// Show what this node has moved and serves, and how the directory stands
    Status(StatusArgs),
    /// Show what this member did and saw: moves, refusals, decisions
    Events(events::Args),
    /// Publish a folder as the next version of a site, for all nodes
    Publish(publish::PublishArgs),
    /// Show the versions of a site
    Versions(publish::VersionsArgs),
    /// Make an earlier version of a site current
    Rollback(publish::RollbackArgs),
    /// Publish the rules over nodes, or show them
    Rules(rules_published::Args),
    /// Show how each node stands, and which versions it has
    Nodes(nodes::Args),
    /// Show which nodes keep which published files
    Atoms(atoms::Args),
    /// Show what the cluster is asked for, live on a terminal
    Top(top::Args),
}

const MOVE_EXAMPLES: &str = "\
Examples:
  weir cluster move /etc/weir/cluster 198.51.100.7:50123 --to n2
      the client's address as weir cluster sessions shows it
  weir cluster move /etc/weir/cluster 198.51.100.7:50123 --to n2 \\
      --service 10.0.0.80:443
      where the cluster has several addresses";

/// Move the session of a client from this node to another.
#[derive(Debug, clap::Args)]
#[command(after_help = MOVE_EXAMPLES)]
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

const DRAIN_EXAMPLES: &str = "\
Examples:
  weir cluster drain /etc/weir/cluster
      to all other nodes, in turn; ends with 1 if sessions are left after 30 s
  weir cluster drain /etc/weir/cluster --to n2 --within 10s
      to one node
  weir cluster drain /etc/weir/cluster --undo
      takes new connections again";

/// Send new connections elsewhere, and move those of this node.
#[derive(Debug, clap::Args)]
#[command(after_help = DRAIN_EXAMPLES)]
struct DrainArgs {
    /// The cluster's directory
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// The node that is to go on with all of them [default: all others, in turn]
    #[arg(long, value_name = "NODE")]
    to: Option<String>,

    /// How long it is tried [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    within: Option<Duration>,

    /// Take new connections again
    #[arg(long, conflicts_with_all = ["to", "within"])]
    undo: bool,
}

const STATUS_EXAMPLES: &str = "\
Examples:
  weir cluster sessions /etc/weir/cluster
      the connections of this node
  weir cluster status /etc/weir/cluster --json
      what it has moved, for programs";

/// Show what this node knows.
#[derive(Debug, clap::Args)]
#[command(after_help = STATUS_EXAMPLES)]
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
        Command::Remove(args) => removed::run(&args),
        Command::Renew(args) => renewed::run(&args),
        Command::Etcd(args) => etcd_member::run(&args),
        Command::Director(args) => director::run(&args),
        Command::Front(args) => front::run(&args),
        Command::Activate(args) => activate(&args),
        Command::Move(args) => move_session(args),
        Command::Sessions(args) => sessions(&args),
        Command::Drain(args) => drain(args),
        Command::Status(args) => status(&args),
        Command::Events(args) => events::run(&args),
        Command::Publish(args) => publish::publish(&args),
        Command::Versions(args) => publish::versions(&args),
        Command::Rollback(args) => publish::rollback(&args),
        Command::Rules(args) => rules_published::run(&args),
        Command::Nodes(args) => nodes::run(&args),
        Command::Atoms(args) => atoms::run(&args),
        Command::Top(args) => top::run(&args),
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
        _ => other_answer(),
    }
}

fn sessions(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let open = match control_socket::ask(&args.folder, &Asked::Sessions)? {
        Told::Sessions(open) => open,
        Told::Refused(why) => anyhow::bail!(why),
        _ => return other_answer(),
    };
    if args.json {
        return print_json("sessions", &open);
    }
    for one in &open {
        println!("{:<46} {:<30} {}", one.client, one.service, if one.is_sending { "sending" } else { "waiting" });
    }
    println!("{}", units::counted(open.len() as u64, "connection"));
    Ok(ExitCode::SUCCESS)
}

fn drain(args: DrainArgs) -> anyhow::Result<ExitCode> {
    let DrainArgs { folder, to, within, undo } = args;
    let within = within.unwrap_or(Duration::from_secs(30));
    let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
    let asked = if undo { Asked::Undrain } else { Asked::Drain { to, within_ms } };
    match control_socket::ask(&folder, &asked)? {
        Told::Undrained => {
            println!("the node takes new connections again");
            Ok(ExitCode::SUCCESS)
        }
        Told::Drained { moved, left, relays, http3, took_ms, reasons } => {
            let took = took_ms as f64 / 1e3;
            println!(
                "{} moved in {took:.2} s, {left} left; new connections go to other nodes",
                units::counted(moved, "session")
            );
            for (reason, count) in &reasons {
                println!("{count:>8}  {reason}");
            }
            if relays > 0 {
                println!(
                    "{relays:>8}  of the moved responses go on being made here, as an upstream was asked here; they break \
                     off if the node ends: drain it again with more time"
                );
            }
            if http3 > 0 {
                let (connections, have) = if http3 == 1 { ("connection", "has") } else { ("connections", "have") };
                println!(
                    "{http3:>8}  {connections} of HTTP/3 {have} requests under way, which end with the node: drain it again \
                     with more time"
                );
            }
            Ok(if left == 0 && relays == 0 && http3 == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Told::Refused(why) => {
            eprintln!("weir cluster drain: {why}");
            Ok(ExitCode::FAILURE)
        }
        _ => other_answer(),
    }
}

fn status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let directory = directory_seen::directory_now(&args.folder)?;
    let told = control_socket::ask(&args.folder, &Asked::Status);
    if args.json {
        let warnings = keyring::warnings(&args.folder, SystemTime::now());
        return status_json(&told?, directory.as_ref(), &warnings);
    }
    // Also where no member runs on this machine.
    directory.iter().flat_map(directory_seen::DirectoryNow::lines).for_each(|line| println!("{line}"));
    keyring::warnings(&args.folder, SystemTime::now()).iter().for_each(|warning| println!("{warning}"));
    let told = told?;
    if matches!(told, Told::Director { .. }) {
        return show_director(&told);
    }
    let Told::Status {
        node,
        draining,
        given,
        taken,
        not_begun,
        came_back,
        refused,
        lost,
        undecided,
        reasons,
        replicas,
        rules,
        relays,
        published,
        director,
    } = told
    else {
        return other_answer();
    };
    println!("node {node}{}", if draining { ", which is drained: it gets no new connections" } else { "" });
    if let Some(director) = director {
        println!("director {director} is active");
    }
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
    if relays != Relayed::default() {
        println!(
            "{:>8}  responses that are made here and sent by other nodes ({} begun, {} ended, {} broken off, {} go on \
             without this node)",
            relays.makes, relays.begun, relays.ended, relays.broken, relays.shortened
        );
        println!("{:>8}  responses that other nodes make and this one sends", relays.sends);
    }
    show_replicas(&replicas);
    show_ruled(&rules);
    if let Some(published) = &published {
        show_published(published);
    }
    Ok(ExitCode::SUCCESS)
}

/// The status for programs, with the directory as a member of it.
fn status_json(
    told: &Told,
    directory: Option<&directory_seen::DirectoryNow>,
    warnings: &[String],
) -> anyhow::Result<ExitCode> {
    let mut told = serde_json::to_value(told).context("JSON")?;
    let key = if told.get("status").is_some() { "status" } else { "director" };
    let Some(status) = told.get_mut(key).and_then(serde_json::Value::as_object_mut) else { return other_answer() };
    status.insert("directory".to_owned(), serde_json::to_value(directory).context("JSON")?);
    status.insert("warnings".to_owned(), serde_json::to_value(warnings).context("JSON")?);
    print_json("status", status)
}

/// What the rules over nodes have a node do, if there are any.
fn show_ruled(ruled: &control_socket::Ruled) {
    let control_socket::Ruled { rules, state, follows, switched, failed, put_off, copies, fault } = ruled;
    if let Some(fault) = fault {
        println!("rules over nodes are not used: {fault}");
    }
    if *rules == 0 && follows.0 == 0 {
        return;
    }
    println!("{} over nodes; this node is {state}", units::counted(*rules, "rule"));
    for (count, what) in [
        (switched, "sessions that rules moved to other nodes"),
        (failed, "that rules were to move, and that stayed"),
        (put_off, "times that a session had to wait for others"),
    ] {
        println!("{count:>8}  {what}");
    }
    for (of, count) in copies {
        println!("{count:>8}  copies wished of {of}");
    }
}

fn activate(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    match control_socket::ask(&args.folder, &Asked::Activate)? {
        Told::Activated { epoch } if args.json => print_json("activated", &serde_json::json!({ "epoch": epoch })),
        Told::Activated { epoch } => {
            println!("the director of this machine is active in epoch {epoch}");
            Ok(ExitCode::SUCCESS)
        }
        Told::Refused(why) => {
            eprintln!("weir cluster activate: {why}");
            Ok(ExitCode::FAILURE)
        }
        _ => other_answer(),
    }
}

/// Shows how a director stands.
fn show_director(told: &Told) -> anyhow::Result<ExitCode> {
    let Told::Director { director, active_in_epoch, active, other, .. } = told else { return other_answer() };
    let Told::Director { replicated, not_replicated, steered, confirmed, reclaimed, .. } = told else {
        return other_answer();
    };
    match (active_in_epoch, active) {
        (Some(epoch), _) => println!("director {director} is active in epoch {epoch}"),
        (None, Some(active)) => println!("director {director} stands by; {active} was the last to be active"),
        (None, None) => println!("director {director} stands by; none is active yet"),
    }
    if let Some((name, is_up)) = other {
        println!("director {name} {}", if *is_up { "sends heartbeats" } else { "is not heard" });
    }
    for (count, what) in [
        (steered, "flows steered"),
        (confirmed, "moves confirmed"),
        (reclaimed, "flows that their node has again"),
        (replicated, "connections known from the other director's table"),
        (not_replicated, "connections of it that this table did not take"),
    ] {
        println!("{count:>8}  {what}");
    }
    Ok(ExitCode::SUCCESS)
}

fn show_replicas(replicas: &control_socket::Replicated) {
    for (count, what) in [
        (replicas.sent, "replicas of sessions given to another node"),
        (replicas.kept, "replicas kept for other nodes now"),
        (replicas.dropped, "replicas dropped: their sessions end with their node"),
        (replicas.not_held, "replicas given once only, as this node holds too many"),
        (replicas.guarded, "sessions guarded by the keeper now, which outlive their server"),
        (replicas.not_guarded, "replicated sessions that end where their server alone is killed"),
        (replicas.taken_over, "sessions of nodes or servers that had ended taken over"),
        (replicas.begun_anew, "times that one of these began anew, as its client had more"),
        (replicas.not_looked_at, "of these that nothing looks at, as they are too many"),
        (replicas.lost, "sessions of nodes that were down lost"),
        (replicas.discarded, "sessions discarded here, as another node had taken them over"),
    ] {
        println!("{count:>8}  {what}");
    }
    if replicas.taken_over > 0 {
        println!("the longest takeover held the client for {:.1} ms", replicas.longest_us as f64 / 1e3);
    }
    for (reason, count) in &replicas.reasons {
        println!("  {count} lost: {reason}");
    }
    for (reason, count) in &replicas.left_out {
        println!("  {} without a replica now: {reason}", units::counted(*count, "session"));
    }
}

fn show_published(published: &control_socket::Followed) {
    match published.stale_s {
        Some(seconds) => {
            println!(
                "the directory ({}) has not answered for {seconds} s: what came before is served",
                published.directory
            );
        }
        None => println!("the directory ({}) answers", published.directory),
    }
    for site in &published.sites {
        let (name, version, bytes) = (&site.site, site.version, site.bytes);
        println!("site {name}: version {version}, {}, {bytes} bytes", units::counted(site.files, "file"));
        if let Some(fault) = &site.fault {
            println!("  not the current one: {fault}");
        }
    }
}
