//! Scenarios of descriptions and recordings: written, or loaded at once.

use super::playing::{Playing, play};
use crate::described::{DescribedArgs, tell};
use crate::load;
use anyhow::Context;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_descriptions::{Draft, Load};
use weir_load::{Trust, Url};
use weir_measure::duration_text::parse_duration;
use weir_scenario::form::{Scenarios, Slo, parse};
use weir_scenario::run::Reaching;

/// The users of a load whose number is not given.
const USERS: u32 = 10;
/// Its time.
const DURATION: &str = "10s";

/// Where a scenario is written, and the load that it has.
#[derive(Debug, clap::Args)]
pub(super) struct DraftedArgs {
    /// Where the scenario is written [default: standard output]
    #[arg(short, long, value_name = "FILE", requires = "from", help_heading = "Description")]
    out: Option<PathBuf>,
    /// Overwrite a file that is there
    #[arg(long, requires = "out", help_heading = "Description")]
    force: bool,
    /// So many users, in place of what the file says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), requires = "from", conflicts_with = "rate", help_heading = "Description")]
    users: Option<u32>,
    /// For so long
    #[arg(long, value_name = "TIME", value_parser = time, requires = "from", help_heading = "Description")]
    duration: Option<String>,
    /// So many iterations in a time, in place of users: 20/s, 90/m
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "from", help_heading = "Description")]
    rate: Option<String>,
}

fn time(text: &str) -> Result<String, &'static str> {
    parse_duration(text).map(|_| text.to_owned()).map_err(|_| "write such as 500ms, 10s or 1m30s")
}

fn rate(text: &str) -> Result<String, &'static str> {
    let parts = text.split_once('/').filter(|(_, unit)| ["s", "m", "min", "h"].contains(unit));
    let number = parts.and_then(|(number, _)| number.parse::<f64>().ok());
    number
        .filter(|number| *number > 0.0 && number.is_finite())
        .map(|_| text.to_owned())
        .ok_or("write such as 20/s or 90/m")
}

impl DraftedArgs {
    fn load(&self) -> Option<Load> {
        let duration = self.duration.clone().unwrap_or_else(|| DURATION.to_owned());
        match (&self.rate, self.users) {
            (Some(rate), _) => Some(Load::Rate(rate.clone(), duration)),
            (None, Some(users)) => Some(Load::Users(users, duration)),
            (None, None) => self.duration.as_ref().map(|_| Load::Users(USERS, duration)),
        }
    }
}

/// `weir scenario --from`: writes the scenario.
pub(super) fn write(described: &DescribedArgs, own: &DraftedArgs, base: Option<&str>) -> anyhow::Result<ExitCode> {
    let Some(file) = &described.from else { return Ok(ExitCode::from(2)) };
    let name = file.display().to_string();
    let written = base_of(base).and_then(|base| {
        let folder = folder_of(described, own, file)?;
        let draft = described.draft(file, own.load(), (base, folder))?;
        put(own, &draft)?;
        Ok(draft)
    });
    let draft = match written {
        Ok(draft) => draft,
        Err(error) => {
            eprintln!("weir scenario: {}", weir_terminal::output::causes(&error));
            return Ok(ExitCode::from(2));
        }
    };
    tell(&name, &draft);
    if let Some(out) = &own.out {
        let losses = draft.losses.len() + draft.losses_more;
        eprintln!("{}: written, {} requests, {losses} losses", out.display(), draft.requests);
    }
    Ok(ExitCode::from(u8::from(!draft.losses.is_empty())))
}

fn base_of(base: Option<&str>) -> anyhow::Result<Option<String>> {
    base.map(|base| Url::parse(base).map(|url| url.to_string().trim_end_matches('/').to_owned()))
        .transpose()
        .context("the address that requests begin with")
}

/// What is put before paths of data: nothing where the scenario lies beside the description.
fn folder_of(described: &DescribedArgs, own: &DraftedArgs, file: &Path) -> anyhow::Result<Option<String>> {
    let folder = std::fs::canonicalize(described.folder()).with_context(|| file.display().to_string())?;
    let out = own.out.as_deref().and_then(Path::parent).filter(|parent| !parent.as_os_str().is_empty());
    let out = std::fs::canonicalize(out.unwrap_or(Path::new("."))).context("--out")?;
    Ok((folder != out).then(|| folder.display().to_string()))
}

fn put(own: &DraftedArgs, draft: &Draft) -> anyhow::Result<()> {
    let Some(out) = &own.out else { return weir_terminal::output::print(&draft.text).map_err(Into::into) };
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    if !own.force {
        options.create_new(true);
    }
    // Passwords of the description stand in the scenario, too.
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(out).with_context(|| {
        let hint = if out.exists() && !own.force { " is there already; add --force to overwrite it" } else { "" };
        format!("{}{hint}", out.display())
    })?;
    file.write_all(draft.text.as_bytes()).with_context(|| out.display().to_string())
}

/// `weir load --from`: plays the scenario at once.
pub(crate) fn load(args: &load::Args) -> anyhow::Result<ExitCode> {
    let made = made(args);
    let (scenarios, slos, name) = match made {
        Ok(made) => made,
        Err(error) => {
            eprintln!("weir load: {}", weir_terminal::output::causes(&error));
            return Ok(ExitCode::from(2));
        }
    };
    let plain = args.plain();
    let trust = match plain.ca {
        _ if plain.is_insecure => Trust::Anything,
        Some(file) => Trust::File(file.to_owned()),
        None => Trust::System,
    };
    let reaching = Reaching { trust, cpu: plain.cpu, ..Reaching::default() };
    let (json, quiet) = (plain.json, plain.quiet);
    play(&scenarios, &slos, Playing { command: "weir load", name, reaching, junit: None, json, quiet })
}

fn made(args: &load::Args) -> anyhow::Result<(Scenarios, Vec<Slo>, String)> {
    let described = args.described();
    let file = described.from.as_deref().context("--from is missing")?;
    let plain = args.plain();
    let load = match (plain.rate, plain.requests) {
        (Some(_), Some(_)) => anyhow::bail!("-n has no effect with --rate of a scenario; leave it out, and give -d"),
        (None, Some(_)) if plain.duration.is_some() => {
            anyhow::bail!("-n has no effect with -d of a scenario; leave one of them out")
        }
        (Some(_), None) if plain.users.is_some() => {
            anyhow::bail!(
                "-c has no effect with --rate of a scenario, whose users are as many as are needed; leave it out"
            )
        }
        (Some(rate), None) => Some(Load::Rate(format!("{rate}/s"), time_of(plain.duration))),
        (None, Some(iterations)) => Some(Load::Iterations(plain.users.unwrap_or(USERS), iterations)),
        (None, None) if plain.users.is_some() || plain.duration.is_some() => {
            Some(Load::Users(plain.users.unwrap_or(USERS), time_of(plain.duration)))
        }
        (None, None) => None,
    };
    let base = base_of(plain.url)?;
    let draft = described.draft(file, load, (base, None))?;
    let name = file.display().to_string();
    tell(&name, &draft);
    let scenarios = parse(&draft.text, &described.folder(), None).map_err(|mistakes| {
        let lines: Vec<String> = mistakes.iter().map(|mistake| format!("the scenario of {name}:{mistake}")).collect();
        anyhow::anyhow!("{}", lines.join("\n"))
    })?;
    anyhow::ensure!(
        scenarios.base.is_some() || !draft.needs_base,
        "{name} names no server; give its URL: weir load --from {name} http://HOST:PORT/"
    );
    let mut slos = Vec::new();
    for text in plain.slos {
        slos.push(Slo::parse(&text, &scenarios.scopes).with_context(|| format!("--slo '{text}'"))?);
    }
    Ok((scenarios, slos, name))
}

fn time_of(duration: Option<std::time::Duration>) -> String {
    duration.map_or_else(|| DURATION.to_owned(), |duration| format!("{}ms", duration.as_millis()))
}
