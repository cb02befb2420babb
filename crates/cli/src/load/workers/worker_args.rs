//! `weir worker`: makes parts of runs that `weir load --workers` asks for.

use super::limits::{Limits, Target};
use super::session::{Turn, session};
use super::tls::{Identity, accept};
use anyhow::Context;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Connections whose handshake is under way, at most; more are closed at once.
const HANDSHAKES_MAX: usize = 16;

const EXAMPLES: &str = "\
Examples:
  weir worker --listen 0.0.0.0:7070 --cert worker.pem --ca ca.pem
      make parts of runs for those who show a certificate of that authority
  weir worker --listen 0.0.0.0:7070 --cert worker.pem --ca ca.pem \\
      --allow-target shop.example:443
      the same, and load nothing but this server
  weir load --workers tls:host1:7070,tls:host2:7070 --worker-cert me.pem \\
      --worker-ca ca.pem --rate 5000 URL
      one run by two of them
  weir load --workers host1,host2 --rate 5000 URL
      the same by ssh, which starts weir worker --stdio there

A worker loads only what an orchestrator asks that it trusts: by ssh that is who
may log in, with --listen who shows a certificate of --ca. It reads no file of
its own host, and ends its load when the orchestrator is gone for 5 s.";

/// Make a part of a run for weir load --workers on another host.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Wait for orchestrators at this address: 0.0.0.0:7070
    #[arg(long, value_name = "ADDR", required_unless_present = "stdio", conflicts_with = "stdio", requires_all = ["cert", "ca"])]
    listen: Option<SocketAddr>,
    /// Speak over standard input and output, as ssh connects them
    #[arg(long)]
    stdio: bool,
    /// The certificate that this worker shows (PEM, with its chain; the key may be in the same file)
    #[arg(long, value_name = "FILE", conflicts_with = "stdio")]
    cert: Option<PathBuf>,
    /// Its private key (PEM, not encrypted)
    #[arg(long, value_name = "FILE", requires = "cert", conflicts_with = "stdio")]
    key: Option<PathBuf>,
    /// The certificate authority of orchestrators (PEM)
    #[arg(long, value_name = "FILE", conflicts_with = "stdio")]
    ca: Option<PathBuf>,
    /// Refuse parts of more arrivals a second, and closed loops
    #[arg(long, value_name = "R")]
    most_rate: Option<f64>,
    /// Refuse parts of more connections
    #[arg(long, value_name = "N")]
    most_connections: Option<u32>,
    /// Load only these servers; may be repeated
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',')]
    allow_target: Vec<Target>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let limits =
        Limits { rate_per_s: args.most_rate, connections: args.most_connections, targets: args.allow_target.clone() };
    let (Some(address), Some(cert), Some(ca)) = (args.listen, &args.cert, &args.ca) else {
        let why = session(std::io::stdin(), std::io::stdout(), &limits, Turn::Free);
        return Ok(match why {
            None => ExitCode::SUCCESS,
            Some(why) => {
                eprintln!("weir worker: {why}");
                ExitCode::FAILURE
            }
        });
    };
    let identity = match Identity::read(cert, args.key.as_deref(), ca) {
        Ok(identity) => identity,
        Err(error) => {
            eprintln!("weir worker: {}", weir_terminal::output::causes(&error));
            return Ok(ExitCode::from(2));
        }
    };
    let config = identity.server()?;
    let listener = TcpListener::bind(address).with_context(|| format!("--listen {address}: cannot listen there"))?;
    eprintln!("weir worker: listens at {}", listener.local_addr()?);
    let host = Arc::new(Host { limits, is_busy: AtomicBool::new(false), handshakes: AtomicUsize::new(0) });
    for connection in listener.incoming() {
        let Ok(connection) = connection else {
            // Without a descriptor or memory left there is only to wait.
            std::thread::sleep(std::time::Duration::from_millis(100));
            continue;
        };
        let (host, config) = (Arc::clone(&host), Arc::clone(&config));
        if host.handshakes.fetch_add(1, Ordering::AcqRel) >= HANDSHAKES_MAX {
            host.handshakes.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        std::thread::spawn(move || host.serve(&config, connection));
    }
    Ok(ExitCode::SUCCESS)
}

/// What all connections share.
struct Host {
    limits: Limits,
    is_busy: AtomicBool,
    handshakes: AtomicUsize,
}

impl Host {
    fn serve(&self, config: &Arc<rustls::ServerConfig>, connection: TcpStream) {
        let from = connection.peer_addr().map_or_else(|_| "?".to_owned(), |address| address.to_string());
        let accepted = accept(config, connection);
        self.handshakes.fetch_sub(1, Ordering::AcqRel);
        let pipes = accepted.and_then(|stream| Ok((stream.try_clone()?, stream.try_clone()?, stream)));
        let (reader, writer, stream) = match pipes {
            Ok(pipes) => pipes,
            Err(error) => {
                eprintln!("weir worker: {from}: no session: {}", weir_terminal::output::causes(&error));
                return;
            }
        };
        let turn = if self.is_busy.swap(true, Ordering::AcqRel) { Turn::Busy } else { Turn::Free };
        let why = session(reader, writer, &self.limits, turn);
        // The thread that reads holds the connection open until then; where it has ended, so much the better.
        let _ = stream.shutdown(std::net::Shutdown::Both);
        if turn == Turn::Free {
            self.is_busy.store(false, Ordering::Release);
        }
        eprintln!("weir worker: {from}: {}", why.unwrap_or("all is done"));
    }
}
