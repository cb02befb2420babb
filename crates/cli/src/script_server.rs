//! The `weir script-server` command: runs scripts for web servers of other hosts.

mod configuration;
mod reloading;

use crate::serve_policy::ids;
use crate::{serve_scripts, side_pools};
use anyhow::Context;
use configuration::{need_descriptors, notice, pools, settings, warn};
use reloading::Reloading;
use signal_hook::consts::SIGHUP;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_script_server::{Running, Settings};
use weir_server::{ConfigurationError, PhpWatch, ScriptServerOptions, read_script_server};
use weir_terminal::stop::Stop;

const EXAMPLES: &str = "\
Examples:
  weir script-server scripts.toml
      run the scripts of this host for the web servers that show a certificate
  weir script-server --check scripts.toml
      look for mistakes, certificates included, and run nothing
  kill -HUP $(pidof weir)
      read the file again; with mistakes in it all stays as it is
  kill -TERM $(pidof weir)
      end; requests under way may go on for five seconds

scripts.toml:
  listen = \"0.0.0.0:9443\"
  certificate = \"scripts.pem\"   # and key: what this host shows
  key = \"scripts.key\"
  ca = \"ca.pem\"                 # the authorities of web servers' certificates
  names = [\"web.example.org\"]   # whose certificates are taken; else all

  [[scripts]]
  prefix = \"/cgi-bin/\"
  root = \"/srv/cgi-bin\"
  cgi = true                    # or cgiplus, rte, isapi; as in weir serve

weir.toml of the web server:
  [[host.path]]
  prefix = \"/cgi-bin/\"
  [host.path.fastcgi]
  to = \"tls:scripts.example.org:9443\"
  endings = []
  ca = \"ca.pem\"
  client_certificate = \"web.pem\"
  client_key = \"web.key\"

The path that a client asks for is looked up below root on this host; files
that the web server names are not believed.

It confines itself as weir serve does: scripts alone are started, by a process
beside it that is not confined.

Exit status: 0 if it was asked to stop, 1 if it cannot listen, run the scripts
or use its configuration, or if the process that runs them is gone, 2 for wrong
usage.";

/// The user of a script server that root has started, as Debian names that of web servers.
const USER: &str = "www-data";

/// Run scripts for web servers of other hosts, by FastCGI over mutual TLS
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The configuration of the script server
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Look for mistakes and run nothing
    #[arg(long)]
    check: bool,

    /// Do not confine the server to the files and system calls that it needs
    #[arg(long)]
    no_sandbox: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = match read_script_server(&args.file) {
        Ok(options) => options,
        Err(error) => {
            match &error {
                ConfigurationError::Mistaken { .. } => eprintln!("{error}"),
                ConfigurationError::Unreadable { .. } => eprintln!("weir script-server: {error}"),
            }
            return Ok(ExitCode::FAILURE);
        }
    };
    warn(&args.file, &options);
    let user = user(&options);
    if let (None, Some(named)) = (&user, &options.user) {
        notice(&format!("it stays the user that started it, and does not become {named}: only root could"));
    }
    // A user that is not there is told before anything starts.
    user.as_deref().map(ids).transpose()?;
    let settings = settings(&options);
    if args.check {
        Running::check(&settings)?;
        println!("{}: script server without mistakes", args.file.display());
        return Ok(ExitCode::SUCCESS);
    }
    serve(args, options, &settings, user.as_deref())
}

/// Listens and answers until it is asked to end.
fn serve(
    args: &Args,
    options: ScriptServerOptions,
    settings: &Settings,
    user: Option<&str>,
) -> anyhow::Result<ExitCode> {
    let stop = Stop::on_signals()?;
    let hung_up = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGHUP, Arc::clone(&hung_up)).context("handling signals")?;
    // It listens first: a mistake there shows before any script could run.
    let running = Running::bind(settings, notice)?;
    let pools = pools(&options);
    let mut processes = serve_scripts::begin(pools, user.map(str::to_owned), (PhpWatch::default(), notice))?;
    need_descriptors(&options);
    if let Some(user) = user {
        weir_server::become_user(user).with_context(|| format!("becoming the user {user}"))?;
    }
    let is_confined = !args.no_sandbox;
    notice(&if is_confined {
        format!("the server {}", weir_server::confine_script_server(&args.file, &options))
    } else {
        "the server is not confined (--no-sandbox)".to_owned()
    });
    // The threads that start from here on are confined likewise.
    processes.start();
    let how = if settings.tls.is_some() { "TLS, certificates wanted" } else { "in the clear" };
    notice(&format!("listens on {} ({how})", running.address()?));
    let mut reloading = Reloading { file: &args.file, options, reloader: running.reloader(), is_confined };
    let mut is_lost = false;
    let counts = running.run(stop.flag(), || {
        if hung_up.swap(false, Ordering::Relaxed) {
            reloading.read_again(&mut processes);
        }
        is_lost = processes.is_lost();
        !is_lost
    });
    // The process that runs scripts removes their sockets and engines.
    processes.finish();
    notice(&format!("ended: {counts}"));
    let cut = counts.cut.load(Ordering::Relaxed);
    tracing::info!(cut, "script server ended");
    Ok(if is_lost { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Whose rights it has while it serves; none for those that it was started with.
fn user(options: &ScriptServerOptions) -> Option<String> {
    side_pools::is_root().then(|| options.user.clone().unwrap_or_else(|| USER.to_owned()))
}
