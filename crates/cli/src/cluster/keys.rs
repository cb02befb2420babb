//! Keys of a cluster: they are made by `init` and `join`, and stay where they were made.

use super::members::{EXAMPLE, FILE};
use anyhow::{Context, bail};
use std::fs;
use std::io::{self, IsTerminal, Read};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};
use weir_cluster::{Admission, Authority, Identity, NodeName, Role, Token, Tokens};
use weir_terminal::stop::Stop;
use weir_terminal::units;

/// Bytes of a token's text.
const TOKEN_BYTES_MAX: u64 = 4096;
/// How often `admit` looks whether it is to end.
const PAUSE: Duration = Duration::from_millis(50);

const INIT_EXAMPLES: &str = "\
Examples:
  weir cluster init /etc/weir/cluster --name n1
      makes the directory, readable by its user alone: that of weir serve
      (chown -R www-data /etc/weir/cluster); then fill in members.toml there";

/// Make a cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = INIT_EXAMPLES)]
pub(super) struct InitArgs {
    /// The directory for its keys and its list of members; it is made
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// The name of this node: a-z, 0-9 and -
    #[arg(long, value_name = "NAME")]
    name: NodeName,
}

const TOKEN_EXAMPLES: &str = "\
Examples:
  weir cluster token /etc/weir/cluster
      for one more node, within the next hour
  weir cluster token /etc/weir/cluster --director --valid 10m
      for a director";

/// Make a token with which one machine can join.
#[derive(Debug, clap::Args)]
#[command(after_help = TOKEN_EXAMPLES)]
pub(super) struct TokenArgs {
    /// The cluster's directory, on the node of weir cluster init
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// For a director, not for a node
    #[arg(long)]
    director: bool,

    /// How long it can be used [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    valid: Option<Duration>,
}

const ADMIT_EXAMPLES: &str = "\
Examples:
  weir cluster admit /etc/weir/cluster --listen 10.0.0.11:7701
      until Ctrl-C
  weir cluster admit /etc/weir/cluster --listen 10.0.0.11:7701 --count 2
      until two have joined";

/// Let machines with a token join.
#[derive(Debug, clap::Args)]
#[command(after_help = ADMIT_EXAMPLES)]
pub(super) struct AdmitArgs {
    /// The cluster's directory, on the node of weir cluster init
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Address to listen on
    #[arg(long, value_name = "ADDR")]
    listen: SocketAddr,

    /// End after so many have joined
    #[arg(long, value_name = "N")]
    count: Option<u32>,
}

const JOIN_EXAMPLES: &str = "\
Examples:
  weir cluster join /etc/weir/cluster --name n2 --at 10.0.0.11:7701
      asks for the token, and makes the keys of this machine; then copy
      members.toml of the first node";

/// Join a cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = JOIN_EXAMPLES)]
pub(super) struct JoinArgs {
    /// The directory for the keys of this machine; it is made
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// The name of this member: a-z, 0-9 and -
    #[arg(long, value_name = "NAME")]
    name: NodeName,

    /// Where weir cluster admit listens
    #[arg(long, value_name = "ADDR")]
    at: SocketAddr,
}

pub(super) fn init(args: &InitArgs) -> anyhow::Result<ExitCode> {
    Authority::init(&args.folder, &args.name, SystemTime::now())?;
    let members = args.folder.join(FILE);
    fs::write(&members, EXAMPLE).with_context(|| members.display().to_string())?;
    let folder = args.folder.display();
    println!(
        "The keys of node {} and the cluster's authority are in {folder}.\n\
         Next: fill in {}, and let other machines join by\n  \
         weir cluster token {folder}\n  weir cluster admit {folder} --listen ADDRESS",
        args.name,
        members.display()
    );
    Ok(ExitCode::SUCCESS)
}

pub(super) fn token(args: &TokenArgs) -> anyhow::Result<ExitCode> {
    let identity = Identity::load(&args.folder)?;
    // Without the authority no machine could join with it.
    Authority::load(&args.folder).context("only the node of weir cluster init makes tokens")?;
    let role = if args.director { Role::Director } else { Role::Node };
    let valid = args.valid.unwrap_or(Duration::from_secs(3600));
    let token = Tokens::of(&args.folder).make(&identity, role, valid, SystemTime::now())?;
    // The token is shown here only: a machine that has it can join.
    println!("{}", token.to_text().as_str());
    Ok(ExitCode::SUCCESS)
}

pub(super) fn admit(args: &AdmitArgs) -> anyhow::Result<ExitCode> {
    let admission = Admission::open(&args.folder)?;
    let stop = Stop::on_signals().context("handling signals")?;
    let listener = TcpListener::bind(args.listen).with_context(|| args.listen.to_string())?;
    listener.set_nonblocking(true).context("the listening socket")?;
    eprintln!("weir cluster admit: machines with a token can join at {}", listener.local_addr()?);
    let mut joined = 0;
    while !stop.flag().load(Ordering::Relaxed) && args.count.is_none_or(|count| joined < count) {
        let socket = match listener.accept() {
            Ok((socket, _)) => socket,
            Err(_) => {
                std::thread::sleep(PAUSE);
                continue;
            }
        };
        let admitted = socket.set_nonblocking(false).map_err(anyhow::Error::from);
        match admitted.and_then(|()| Ok(admission.admit(socket, SystemTime::now())?)) {
            Ok(member) => {
                joined += 1;
                println!("{} has joined as {}", member.name, member.role.word());
            }
            Err(error) => eprintln!("weir cluster admit: {error:#}"),
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn join(args: &JoinArgs) -> anyhow::Result<ExitCode> {
    if io::stdin().is_terminal() {
        eprintln!("weir cluster join: paste the token, which weir cluster token has printed, then press Enter");
    }
    let mut text = String::new();
    let line = io::BufReader::new(io::stdin().lock().take(TOKEN_BYTES_MAX));
    io::BufRead::read_line(&mut { line }, &mut text).context("the token on standard input")?;
    let token = Token::parse(text.trim())?;
    let identity = weir_cluster::join(args.at, &token, &args.name, &args.folder, SystemTime::now())?;
    let members = args.folder.join(FILE);
    if !members.exists() {
        // It is filled in on the first node, and copied.
        fs::write(&members, EXAMPLE).with_context(|| members.display().to_string())?;
    }
    let (name, role) = (&identity.member.name, identity.member.role.word());
    println!("{name} is a {role} of the cluster; copy {FILE} of the first node to {}", args.folder.display());
    Ok(ExitCode::SUCCESS)
}

/// The identity of a cluster's directory, which must have this role.
pub(super) fn identity(folder: &Path, role: Role) -> anyhow::Result<Identity> {
    let identity = Identity::load(folder)?;
    if identity.member.role != role {
        let (name, is) = (&identity.member.name, identity.member.role.word());
        bail!("{name} has joined as a {is}, not as a {}; join with a token of that kind", role.word());
    }
    Ok(identity)
}
