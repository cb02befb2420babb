//! `weir cluster atoms`: which nodes keep what is asked for most.

use super::control_socket::{self, Asked, Told};
use super::overview::rate;
use super::printed::{other_answer, print_json};
use crate::table::Table;
use std::path::PathBuf;
use std::process::ExitCode;
use weir_report::{bytes, clean};
use weir_terminal::units;

const EXAMPLES: &str = "\
Examples:
  weir cluster atoms /etc/weir/cluster
      which nodes have the files that are asked for most
  weir cluster atoms /etc/weir/cluster --most 1000 --json
      more of them, for programs

PLACED names the nodes that are to keep a file, HAS those that have it now.

Exit status: 0, or 1 if no node runs here or each node keeps everything.";

/// Show which nodes keep which published files.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The cluster's directory
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// How many files, the most asked first
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    most: u32,

    /// As JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let atoms = match control_socket::ask(&args.folder, &Asked::Atoms { most: args.most })? {
        Told::Atoms(atoms) => atoms,
        Told::Refused(why) => anyhow::bail!(why),
        _ => return other_answer(),
    };
    if args.json {
        return print_json("atoms", &atoms);
    }
    let mut table = Table::new(["FILE", "BYTES", "REQ/S", "COPIES", "PLACED", "HAS"]);
    for file in &atoms.files {
        let copies = format!("{}/{}", file.has.len(), file.placed.len());
        let (placed, has) = (file.placed.join(" "), file.has.join(" "));
        table.push([clean(&file.path), bytes(file.bytes), rate(file.requests_per_s), copies, placed, has]);
    }
    let budget = atoms.keeps_bytes.map_or_else(|| "everything".to_owned(), |most| format!("at most {}", bytes(most)));
    let mut lines = vec![format!(
        "{} has {} of {}, keeps {budget}, and is to keep {}",
        atoms.told_by,
        units::counted(atoms.contents, "content"),
        bytes(atoms.content_bytes),
        bytes(atoms.placed_bytes),
    )];
    if atoms.short_of_copies > 0 {
        let short = units::counted(atoms.short_of_copies, "content");
        lines.push(format!("{short} of all sites have too few copies: the budgets are too small"));
    }
    lines.push(String::new());
    lines.extend(table.lines(weir_terminal::output::table_columns()));
    weir_terminal::output::print(&(lines.join("\n") + "\n"))?;
    Ok(ExitCode::SUCCESS)
}
