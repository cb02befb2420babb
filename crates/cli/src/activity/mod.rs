//! The `weir activity` command: what a server did, minute by minute, as a picture, a table or JSON.

mod picture;

use crate::admin_client::{AdminAddress, encoded};
use anyhow::Context;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};
use weir_report::clean;
use weir_server::{ACTIVITY_HOURS_MAX, Activity, ShownActivity};
use weir_terminal::output;

const EXAMPLES: &str = "\
Examples:
  weir activity unix:admin.sock
      the last 24 hours of a server started with --admin unix:admin.sock
      --activity FILE
  weir activity --hours 672 unix:admin.sock
      four weeks at a glance
  weir activity /var/lib/weir/activity
      from the file, also while no server runs
  weir activity --token token 127.0.0.1:9100
      over TCP, with the file of the token
  weir activity --json unix:admin.sock | jq .marks
      for a program
  weir activity --mark 'release 1.4' unix:admin.sock
      mark a deployment; the server must be started with --admin-may mark

Where a program reads it prints a table in place of the picture.

Exit status: 0 if it was read or marked, 1 if the server or file could not be
read or the server refused, 2 for wrong usage.";

/// Show what a server did, minute by minute, with starts, stops, reloads and deployments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The server's --admin address, unix:PATH or ADDRESS:PORT, or its --activity file
    #[arg(value_name = "ADDR|FILE")]
    source: String,

    /// File with the token that an address of TCP requires
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,

    /// Show this many hours; minutes are kept for 2400, hours for 26280
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=i64::from(ACTIVITY_HOURS_MAX)))]
    hours: u32,

    /// Mark a deployment in these words
    #[arg(long, value_name = "WORDS")]
    mark: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What a server answers.
#[derive(Debug, Deserialize)]
struct Answer {
    #[serde(flatten)]
    shown: ShownActivity,
    writing: Writing,
}

/// How its writing goes.
#[derive(Debug, Default, Deserialize)]
struct Writing {
    failing: Option<String>,
    waiting_minutes: u64,
    lost_minutes: u64,
}

/// Steps of a table.
const TABLE_STEPS: u32 = 24;

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let address = AdminAddress::of(&args.source, args.token.as_deref())?;
    if let Some(words) = &args.mark {
        let address = AdminAddress::required(&args.source, args.token.as_deref())?;
        address.json::<serde_json::Value>("POST", &format!("/mark?text={}", encoded(words)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_picture = picture::is_wanted();
    let steps = if is_picture { picture::steps(output::columns()) } else { TABLE_STEPS };
    if args.json {
        return print_json(args, address.as_ref());
    }
    let Answer { shown, writing } = match address {
        Some(address) => address.json("GET", &format!("/activity.json?hours={}&steps={steps}", args.hours))?,
        None => Answer { shown: of_file(&args.source, args.hours, steps)?, writing: Writing::default() },
    };
    let mut text = if is_picture { picture::picture(&shown, args.hours) } else { picture::table(&shown) };
    text += &told(&shown, &writing);
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn print_json(args: &Args, address: Option<&AdminAddress>) -> anyhow::Result<ExitCode> {
    // A minute each where they are few enough, as far as a program can be meant to read them.
    let steps = (args.hours * 60).min(weir_server::ACTIVITY_STEPS_MAX);
    let mut json: serde_json::Value = match address {
        Some(address) => address.json("GET", &format!("/activity.json?hours={}&steps={steps}", args.hours))?,
        None => serde_json::to_value(of_file(&args.source, args.hours, steps)?)?,
    };
    json["schema"] = "weir-activity/1".into();
    output::print(&format!("{json}\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn of_file(path: &str, hours: u32, steps: u32) -> anyhow::Result<ShownActivity> {
    let activity = Activity::read(Path::new(path))?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(ShownActivity::new(&activity, hours, steps, since.as_secs()))
}

/// A server's answer with what the picture shows besides: the whole, and in each step what came in a minute.
pub(crate) fn of_page(mut told: serde_json::Value) -> anyhow::Result<serde_json::Value> {
    let shown: ShownActivity = serde_json::from_value(told.clone()).context("its activity cannot be read")?;
    told["whole"] = serde_json::to_value(picture::sum(&shown.steps))?;
    for (figures, step) in shown.steps.iter().zip(told["steps"].as_array_mut().into_iter().flatten()) {
        for (name, count) in [
            ("requests_per_min", figures.requests),
            ("sent_bytes_per_min", figures.sent_bytes),
            ("client_errors_per_min", figures.client_errors),
            ("server_errors_per_min", figures.server_errors),
        ] {
            step[name] = picture::each_minute(count, &shown).into();
        }
    }
    Ok(told)
}

/// What is wrong with what is kept.
fn told(shown: &ShownActivity, writing: &Writing) -> String {
    let mut text = String::new();
    if shown.torn_records > 0 {
        text += &format!("{} records were torn, and are left out\n", shown.torn_records);
    }
    if let Some(why) = &writing.failing {
        text += &format!(
            "the server cannot write its file: {}; {} minutes wait in memory\n",
            clean(why),
            writing.waiting_minutes
        );
    }
    if writing.lost_minutes > 0 {
        text += &format!("{} minutes were lost, as the file could not be written for a day\n", writing.lost_minutes);
    }
    text
}
