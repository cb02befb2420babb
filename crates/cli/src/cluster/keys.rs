//! Keys of a cluster: they are made by `init` and `join`, and stay where they were made.

use super::directory_place::directory_lines;
use super::etcd_member::{self, EtcdAddress, EtcdFile};
use super::members::{EXAMPLE, FILE, example};
use anyhow::{Context, bail, ensure};
use std::fs;
use std::io::{self, IsTerminal, Read};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};
use weir_cluster::{Admission, Authority, EtcdSeat, Identity, Joined, Joining, NodeName, Role, Token, Tokens};
use weir_terminal::stop::Stop;
use weir_terminal::units;

/// Bytes of a token's text.
const TOKEN_BYTES_MAX: u64 = 4096;
/// How often `admit` looks whether it is to end.
const PAUSE: Duration = Duration::from_millis(50);
/// How long certificates of members are valid.
const CERTIFICATES_FOR: Duration = Duration::from_secs(365 * 86_400);
const CERTIFICATES_FOR_MIN: Duration = Duration::from_secs(60);
const CERTIFICATES_FOR_MAX: Duration = Duration::from_secs(3_650 * 86_400);

const INIT_EXAMPLES: &str = "\
Examples:
  weir cluster init /etc/weir/cluster --name n1
      makes the directory, readable by its user alone: that of weir serve
      (chown -R www-data /etc/weir/cluster); then fill in members.toml there
  sudo -u www-data weir cluster init /etc/weir/cluster --name n1 \\
      --etcd-member 10.0.0.11
      also starts an etcd at this address of the machine, in which nodes agree
      on published versions; Debian has it in the package etcd-server
  weir cluster init /etc/weir/cluster --name n1 --etcd https://10.0.0.5:2379
      with an etcd that there is

Without --etcd-member and --etcd the versions are in a file, for nodes that run
on this machine.";

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

    /// Run an etcd at this address of the machine; ADDR:PORT for other ports than 2379 and the next
    #[arg(long, value_name = "ADDR")]
    etcd_member: Option<EtcdAddress>,

    /// URL of an etcd that there is; repeatable
    #[arg(long, value_name = "URL", conflicts_with = "etcd_member")]
    etcd: Vec<String>,

    /// Leave the etcd to weir-etcd.service, and do not start it
    #[arg(long, requires = "etcd_member")]
    no_start: bool,

    /// How long the certificates of members are valid, 1 minute to 10 years; they are renewed before [default: 365 days]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    certificates_for: Option<Duration>,
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
      members.toml of the first node
  weir cluster join /etc/weir/cluster --name n2 --at 10.0.0.11:7701 \\
      --etcd-member 10.0.0.12
      also starts one more member of the cluster's etcd here; three of them
      outlive the loss of one";

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

    /// Run a member of the cluster's etcd at this address of the machine; ADDR:PORT for other ports than 2379 and the
    /// next
    #[arg(long, value_name = "ADDR")]
    etcd_member: Option<EtcdAddress>,

    /// Leave the etcd to weir-etcd.service, and do not start it
    #[arg(long, requires = "etcd_member")]
    no_start: bool,
}

pub(super) fn init(args: &InitArgs) -> anyhow::Result<ExitCode> {
    let InitArgs { folder, name, etcd_member, etcd, .. } = args;
    if etcd_member.is_some() && !etcd_member::is_installed() {
        bail!("etcd is not installed; install it (on Debian the package etcd-server), or leave --etcd-member out");
    }
    let life = args.certificates_for.unwrap_or(CERTIFICATES_FOR);
    ensure!(
        (CERTIFICATES_FOR_MIN..=CERTIFICATES_FOR_MAX).contains(&life),
        "certificates cannot be valid for {} s; give 1 minute to 10 years",
        life.as_secs()
    );
    let (authority, identity) = Authority::init_for(folder, name, life, SystemTime::now())?;
    let mut urls = etcd.clone();
    if let Some(address) = etcd_member {
        authority.make_etcd_keys(folder, name, address.client.ip(), SystemTime::now())?;
        let file = EtcdFile::first(name.as_str(), *address, &etcd_token(&identity));
        file.write(folder)?;
        urls.push(file.url());
    }
    let members = folder.join(FILE);
    fs::write(&members, example(&directory_lines(&urls))).with_context(|| members.display().to_string())?;
    let shown = folder.display();
    println!("The keys of node {name} and the cluster's authority are in {shown}.");
    if etcd_member.is_some() {
        start_etcd(folder, args.no_start)?;
    } else if urls.is_empty() {
        println!(
            "Published versions are in a file (SQLite), for nodes on this machine only; {}",
            if etcd_member::is_installed() {
                "etcd is installed: --etcd-member ADDRESS would use it."
            } else {
                "for nodes on several machines install etcd (on Debian etcd-server), and use --etcd-member ADDRESS."
            }
        );
    } else {
        println!("Published versions are in the etcd at {}.", urls.join(", "));
    }
    println!(
        "Next: fill in {}, and let other machines join by\n  \
         weir cluster token {shown}\n  weir cluster admit {shown} --listen ADDRESS",
        members.display()
    );
    Ok(ExitCode::SUCCESS)
}

/// What distinguishes the etcd of this cluster from others.
fn etcd_token(identity: &Identity) -> String {
    let digits: String = identity.authority_fingerprint()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("weir-{digits}")
}

/// Starts the etcd of this machine, or says how a service does.
fn start_etcd(folder: &Path, no_start: bool) -> anyhow::Result<()> {
    if no_start {
        println!("Start its etcd by systemctl enable --now weir-etcd, or weir cluster etcd {}.", folder.display());
        return Ok(());
    }
    let pid = etcd_member::start(folder)?;
    println!(
        "etcd runs in the background, supervised by process {pid}. From the next start of this machine on\n\
         weir-etcd.service runs it (systemctl enable weir-etcd); weir cluster etcd {} --end ends it.",
        folder.display()
    );
    Ok(())
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
    let mut admission = Admission::open(&args.folder)?;
    if args.folder.join(etcd_member::FILE).exists() {
        admission = admission.with_etcd(vec![EtcdFile::read(&args.folder)?.url()]);
    }
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
    if args.etcd_member.is_some() && !etcd_member::is_installed() {
        bail!("etcd is not installed; install it (on Debian the package etcd-server), or leave --etcd-member out");
    }
    let joining = Joining::new(args.at, &token, &args.name);
    let joining = joining.with_etcd(args.etcd_member.map(|address| address.client.ip()));
    let Joined { identity, etcd } = joining.join(&args.folder, SystemTime::now())?;
    let mut urls = Vec::new();
    if let (Some(address), Some(EtcdSeat { urls: known, .. })) = (args.etcd_member, etcd) {
        let token = etcd_token(&identity);
        urls = etcd_member::enter(&args.folder, args.name.as_str(), address, (&token, known))?;
    }
    let members = args.folder.join(FILE);
    if !members.exists() {
        // It is filled in on the first node, and copied.
        fs::write(&members, EXAMPLE).with_context(|| members.display().to_string())?;
    }
    let (name, role) = (&identity.member.name, identity.member.role.word());
    println!("{name} is a {role} of the cluster; copy {FILE} of the first node to {}", args.folder.display());
    if !urls.is_empty() {
        start_etcd(&args.folder, args.no_start)?;
        println!("Name all members of etcd in {FILE} of all members of the cluster:\n{}", directory_lines(&urls));
    }
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
