//! The `weir record-session` command.

use anyhow::{Context, bail};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weir_session::client::Trust;
use weir_session::recorder::{Options, Recorder};
use weir_session::recording::Recording;
use weir_session::{convert, har};
use weir_terminal::output;
use weir_terminal::stop::Stop;

/// How often we look for something to write, and for the end.
const LOOK: Duration = Duration::from_millis(50);
/// How often the recording is written, unless writing takes a large share of that time.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// Writing takes at most one part in this many of the time.
const WRITE_SHARE: u32 = 20;

const EXAMPLES: &str = "\
Examples:
  weir record-session --to https://shop.example --out shopping.har
      then open http://127.0.0.1:8080/ in a browser, click, and end with Ctrl-C
  weir webtest shopping.har
      send the same requests again
  weir record-session --to http://127.0.0.1:8000 --out login.wt
      as a specification of HTTP::WebTest (.pl: of HTTP::Monkeywrench,
      .sessions: for httperf --wsesslog)
  weir record-session --to http://127.0.0.1 --out user.har --session-cookie sid
      a file for each user: user-1.har, user-2.har, ...

Secrets are masked: Authorization, cookies, and fields, parameters and headers
with names such as password or token. A replay says which of them it lacks.
WebSockets are refused. Addresses in pages are not rewritten, so links that name
the server's own address bypass the recording.

Exit status: 0 if something was recorded, 1 if nothing was or a file cannot be
written, 2 for wrong usage.";

/// Record what a browser does with a site: a proxy that passes requests on and records them.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The server to record
    #[arg(long, value_name = "URL")]
    to: url::Url,

    /// Where to listen, with plain HTTP
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    listen: String,

    /// The file to write: .har, .wt, .pl or .sessions
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,

    /// Write a file for each value of this cookie, numbered: FILE-1.har, ...
    #[arg(long, value_name = "NAME")]
    session_cookie: Option<String>,

    /// Write secrets as they are
    #[arg(long)]
    keep_secrets: bool,

    /// The most requests to keep; further ones are passed on and counted
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    requests_max: usize,

    /// Memory for what is kept, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 128)]
    memory_mib: u32,

    /// Keep only the size of bodies longer than this, in KiB
    #[arg(long, value_name = "KIB", default_value_t = 512)]
    body_kib: u32,

    /// Trust the certificate authorities in FILE (PEM) instead of the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// Accept any certificate
    #[arg(long, conflicts_with = "ca")]
    insecure: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Err(error) = usable(args) {
        eprintln!("weir: {}", output::causes(&error));
        return Ok(ExitCode::from(2));
    }
    let stop = Stop::on_signals()?;
    let mut recorder = Recorder::start(Options {
        listen: args.listen.clone(),
        to: args.to.clone(),
        session_cookie: args.session_cookie.clone(),
        keep_secrets: args.keep_secrets,
        entries_max: args.requests_max,
        bytes_max: u64::from(args.memory_mib) << 20,
        body_bytes_max: (args.body_kib as usize) << 10,
        trust: match &args.ca {
            Some(path) => Trust::File(path.clone()),
            None if args.insecure => Trust::Anything,
            None => Trust::System,
        },
    })?;
    eprintln!("recording {} at http://{}/; Ctrl-C ends it", args.to, recorder.address());
    let (mut written, mut next) = (0, Instant::now() + WRITE_EVERY);
    while !stop.asked() {
        std::thread::sleep(LOOK);
        let version = recorder.version();
        if version != written && Instant::now() >= next {
            let begin = Instant::now();
            write(&recorder, args)?;
            written = version;
            next = Instant::now() + WRITE_EVERY.max(begin.elapsed() * WRITE_SHARE);
        }
    }
    recorder.stop();
    // A handler whose client is still connected may add to the recording: at least what we count is written.
    let counts = recorder.counts();
    let files = write(&recorder, args)?;
    for (count, what) in [
        (counts.dropped, "not kept: the limit of --requests-max or --memory-mib was reached"),
        (counts.refused, "refused: another protocol, or too large"),
        (counts.failed, "without a response of the server"),
    ] {
        if count > 0 {
            eprintln!("{count} requests were {what}");
        }
    }
    if counts.secrets > 0 && !args.keep_secrets {
        eprintln!("{} secrets are masked; --keep-secrets would write them", counts.secrets);
    }
    if counts.kept == 0 {
        eprintln!("nothing was recorded");
        return Ok(ExitCode::FAILURE);
    }
    eprintln!("recorded {} requests in {}", counts.kept, files.join(", "));
    Ok(ExitCode::SUCCESS)
}

/// Whether server and file are such as can be recorded and written.
fn usable(args: &Args) -> anyhow::Result<()> {
    if !["http", "https"].contains(&args.to.scheme()) || args.to.host_str().is_none() {
        bail!("--to {}: write http://HOST or https://HOST", args.to);
    }
    if args.to.path() != "/" || args.to.query().is_some() {
        bail!("--to {}: a server without a path; the browser asks for paths", args.to);
    }
    writer(&args.out)?;
    let folder = args.out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        bail!("{}: there is no such directory", folder.display());
    }
    Ok(())
}

/// What writes files of this name.
fn writer(path: &Path) -> anyhow::Result<fn(&Recording) -> String> {
    let end = path.extension().map(|end| end.to_string_lossy().to_ascii_lowercase());
    Ok(match end.as_deref() {
        Some("har") => har::write,
        Some("wt") => convert::webtest,
        Some("pl" | "mw") => convert::monkeywrench,
        Some("sessions") => convert::sessions,
        _ => bail!("--out {}: its name ends with .har, .wt, .pl or .sessions", path.display()),
    })
}

/// Writes what has been recorded up to now; the names of the files.
fn write(recorder: &Recorder, args: &Args) -> anyhow::Result<Vec<String>> {
    let writer = writer(&args.out)?;
    let mut names = Vec::new();
    for (session, recording) in recorder.recordings() {
        let path = if args.session_cookie.is_some() { numbered(&args.out, session) } else { args.out.clone() };
        let named = || path.display().to_string();
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Renamed when it is whole: a reader finds the former file or this one, also where we are killed meanwhile.
        let mut file = tempfile::Builder::new().prefix(".weir-").tempfile_in(folder).with_context(named)?;
        file.write_all(writer(&recording).as_bytes()).with_context(named)?;
        file.as_file().sync_data().with_context(named)?;
        file.persist(&path).with_context(named)?;
        names.push(path.display().to_string());
    }
    Ok(names)
}

/// `user.har` as `user-2.har`.
fn numbered(path: &Path, number: usize) -> PathBuf {
    let part = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    path.with_file_name(format!("{}-{number}.{}", part(path.file_stem()), part(path.extension())))
}
