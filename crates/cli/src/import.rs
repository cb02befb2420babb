//! The `weir import` command: writes a configuration of weir from one of another web server, or a run from a trace of
//! another tool.

use crate::import_trace::{self, TraceArgs};
use anyhow::Context;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_import::{BYTES_MAX, Entry, Files, Imported, Kind, Wanted, import};
use weir_server::{ConfigurationError, read_configuration};
use weir_terminal::{output, text_file};

const EXAMPLES: &str = "\
Examples:
  weir import /etc/nginx/nginx.conf
      writes weir.toml, and lists what it could not carry over
  weir import Caddyfile --out site/weir.toml
      from Caddy, elsewhere
  weir import /var/www/html/.htaccess --php 127.0.0.1:9000
      from Apache, with those of the directories below, and where PHP answers
  weir import --from nginx site.conf --out -
      on standard output
  weir check weir.toml && weir serve weir.toml
      then
  weir import perf.data --run imported && weir view imported
      a trace of perf, trace-cmd, ftrace, LTTng, Perfetto, Chrome, Java's flight
      recorder or OpenTelemetry, as a run
  weir import ust --run imported --request-begin begin/id --request-end end/id
      requests by the events that mark them

Each loss is printed with FILE:LINE:COLUMN, what is lost and the remedy, and
stands in the written file. What keeps clients away and cannot be carried over
is written as a refusal (403).

Exit status: 0 if all was carried over, 1 if the file is written with losses
or weir check finds a mistake in it, 2 if nothing is written. Of a trace: 0 if
it was read to its end, 1 if it is cut and the run has what came before.";

/// Files that lie below a directory and are looked at.
const ENTRIES_MAX: usize = 20_000;
const DEPTH_MAX: usize = 16;
const MATCHES_MAX: usize = 256;

/// Write a configuration from one of nginx, Apache (.htaccess) or Caddy, or a run from a trace
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// nginx.conf or a site of it, .htaccess, a Caddyfile; with --run a trace, of CTF its directory
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Which server it is for; without it, by its name and content
    #[arg(long, value_name = "SERVER", value_parser = kind)]
    from: Option<Kind>,

    /// Where the configuration is written; - is standard output
    #[arg(long, value_name = "FILE", default_value = "weir.toml")]
    out: PathBuf,

    /// Overwrite a file that is there
    #[arg(long)]
    force: bool,

    /// The directory that .htaccess is about; without it, where it lies
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,

    /// Where PHP answers for .htaccess [default: unix:/run/php/php-fpm.sock]
    #[arg(long, value_name = "ADDRESS")]
    php: Option<String>,

    #[command(flatten)]
    trace: TraceArgs,
}

fn kind(text: &str) -> anyhow::Result<Kind> {
    [Kind::Nginx, Kind::Caddy, Kind::Htaccess]
        .into_iter()
        .find(|kind| kind.name() == text)
        .context("write nginx, caddy or htaccess")
}

/// Files of this machine.
struct Disk;

impl Files for Disk {
    fn read(&self, path: &str) -> Option<String> {
        text_file::read(Path::new(path), BYTES_MAX as u64).ok()
    }

    fn matching(&self, pattern: &str) -> Vec<String> {
        let mut found = vec![String::new()];
        for segment in pattern.split('/').filter(|segment| !segment.is_empty()) {
            found = found.iter().flat_map(|folder| matching_in(folder, segment)).take(MATCHES_MAX).collect();
        }
        found.retain(|path| Path::new(path).is_file());
        found
    }

    fn entry(&self, path: &str) -> Option<Entry> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(if metadata.is_dir() { Entry::Directory } else { Entry::File })
    }

    fn below(&self, directory: &str, name: &str) -> Vec<String> {
        let (mut found, mut looked_at) = (Vec::new(), 0);
        below(Path::new(directory), name, 0, &mut looked_at, &mut found);
        found.sort();
        found
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// The entries of a directory that are like a segment of a pattern, in order.
fn matching_in(folder: &str, segment: &str) -> Vec<String> {
    if !segment.contains(['*', '?', '[']) {
        let path = format!("{folder}/{segment}");
        return if Path::new(&path).exists() { vec![path] } else { Vec::new() };
    }
    let entries = std::fs::read_dir(if folder.is_empty() { "/" } else { folder }).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|name| !name.starts_with('.') && is_like(name.as_bytes(), segment.as_bytes())).collect();
    names.sort();
    names.into_iter().map(|name| format!("{folder}/{name}")).collect()
}

/// Whether a name is like a pattern of the shell.
fn is_like(name: &[u8], pattern: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => is_like(name, rest) || !name.is_empty() && is_like(&name[1..], pattern),
        (Some((b'?', rest)), Some((_, behind))) => is_like(behind, rest),
        (Some((b'[', rest)), Some((letter, behind))) => {
            let Some(end) = rest.iter().position(|byte| *byte == b']') else { return false };
            let (class, is_not) = match rest[..end].strip_prefix(b"!") {
                Some(class) => (class, true),
                None => (&rest[..end], false),
            };
            let is_range = |triple: &[u8]| triple[1] == b'-' && (triple[0]..=triple[2]).contains(letter);
            let is_in = class.contains(letter) || class.windows(3).any(is_range);
            is_in != is_not && is_like(behind, &rest[end + 1..])
        }
        (Some((own, rest)), Some((letter, behind))) => own == letter && is_like(behind, rest),
        _ => false,
    }
}

fn below(folder: &Path, name: &str, depth: usize, looked_at: &mut usize, found: &mut Vec<String>) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        *looked_at += 1;
        if *looked_at > ENTRIES_MAX {
            return;
        }
        let path = entry.path();
        if path.is_dir() && depth < DEPTH_MAX {
            below(&path, name, depth + 1, looked_at, found);
        } else if depth > 0 && entry.file_name() == name {
            found.extend(path.to_str().map(str::to_owned));
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(run) = &args.trace.run {
        return import_trace::run(&args.file, run, &args.trace);
    }
    let imported = match imported(args) {
        Ok(imported) => imported,
        Err(error) => {
            eprintln!("weir import: {}", output::causes(&error));
            return Ok(ExitCode::from(2));
        }
    };
    if let Err(error) = write(args, &imported) {
        eprintln!("weir import: {}", output::causes(&error));
        return Ok(ExitCode::from(2));
    }
    imported.losses.iter().for_each(|loss| eprintln!("{loss}"));
    let is_good = args.out == Path::new("-") || is_accepted(&args.out);
    let losses = imported.losses.len();
    if args.out != Path::new("-") {
        let out = args.out.display();
        match losses {
            0 => eprintln!("{out}: written; all is carried over"),
            1 => eprintln!("{out}: written with a loss, which stands at its head"),
            more => eprintln!("{out}: written with {more} losses, which stand at its head"),
        }
    }
    Ok(ExitCode::from(u8::from(losses > 0 || !is_good)))
}

fn imported(args: &Args) -> anyhow::Result<Imported> {
    let name = args.file.display().to_string();
    let text = text_file::read(&args.file, BYTES_MAX as u64).with_context(|| name.clone())?;
    let kind = args.from.or_else(|| Kind::recognise(&name, &text));
    let kind = kind.with_context(|| {
        format!("{name}: it is not told which server it is for; add --from nginx, caddy or htaccess")
    })?;
    anyhow::ensure!(
        kind == Kind::Htaccess || args.root.is_none() && args.php.is_none(),
        "--root and --php are for .htaccess, and {name} is of {kind}; leave them out"
    );
    let path = std::fs::canonicalize(&args.file).with_context(|| name.clone())?;
    let absolute = |path: &Path| std::fs::canonicalize(path).with_context(|| path.display().to_string());
    let text_of = |path: &Path| {
        path.to_str().map(str::to_owned).with_context(|| format!("{}: its name is no text", path.display()))
    };
    // Where .htaccess is a link, it is about the directory of the link.
    let folder = match (kind, args.file.parent()) {
        (Kind::Htaccess, Some(parent)) if parent.as_os_str().is_empty() => absolute(Path::new("."))?,
        (Kind::Htaccess, Some(parent)) => absolute(parent)?,
        _ => path.parent().unwrap_or(Path::new("/")).to_owned(),
    };
    let root = args.root.as_deref().map(absolute).transpose()?;
    let wanted =
        Wanted { folder: text_of(&folder)?, root: root.as_deref().map(text_of).transpose()?, php: args.php.clone() };
    Ok(import(kind, &name, &text, &wanted, &Disk)?)
}

fn write(args: &Args, imported: &Imported) -> anyhow::Result<()> {
    if args.out == Path::new("-") {
        output::print(&imported.text)?;
        anyhow::ensure!(
            imported.beside.is_empty(),
            "it names files that are written beside it; give --out a file in their directory"
        );
        return Ok(());
    }
    let folder = args.out.parent().unwrap_or(Path::new(""));
    let files = imported.beside.iter().map(|(name, text)| (folder.join(name), text));
    for (path, text) in std::iter::once((args.out.clone(), &imported.text)).chain(files) {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        if !args.force {
            options.create_new(true);
        }
        // Passwords may stand in what lies beside it.
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, if path == args.out { 0o644 } else { 0o600 });
        let mut file = options.open(&path).with_context(|| {
            let hint = if path.exists() && !args.force { " is there already; add --force to overwrite it" } else { "" };
            format!("{}{hint}", path.display())
        })?;
        file.write_all(text.as_bytes()).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Whether the server takes the written file, such as whether the directories that it names are on this machine.
fn is_accepted(path: &Path) -> bool {
    match read_configuration(path) {
        Ok(_) => true,
        Err(ConfigurationError::Mistaken { mistakes, .. }) => {
            let file = path.display();
            mistakes.iter().for_each(|mistake| eprintln!("{file}:{mistake}"));
            false
        }
        Err(error) => {
            eprintln!("{error}");
            false
        }
    }
}
