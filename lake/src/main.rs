//! `weir-parquet`: the tables of recorded runs as a data set of Parquet files, partitioned by host, day and run.
//!
//! `DIR/TABLE/host=HOST/day=YYYY-MM-DD/run=NAME/part-0.parquet`, as DuckDB, DataFusion and Spark read it. `weir export
//! --parquet` runs this program.

mod dataset;
mod day;
mod error;
mod table_file;

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use weir_query::QueryError;

const EXAMPLES: &str = "\
Examples:
  weir-parquet runs/a lake
      the tables of a run as a data set in the folder lake
  weir-parquet runs/b lake --name shop-2
      another run in the same data set, under a name of its own
  weir-parquet runs/a lake --table requests --table parts
      these tables alone

Exit status: 0 if all was written, 1 if not, 2 for wrong usage.";

/// Write the tables of a recorded run as a data set of Parquet files
#[derive(Debug, Parser)]
#[command(name = "weir-parquet", version, after_help = EXAMPLES)]
struct Args {
    /// The run directory
    #[arg(value_name = "RUN")]
    run: PathBuf,

    /// The data set's folder, new or with other runs
    #[arg(value_name = "DIR")]
    lake: PathBuf,

    /// The run's name in the data set [default: the name of its directory]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Only this table [default: all]
    #[arg(long = "table", value_name = "NAME")]
    tables: Vec<String>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let written = weir_query::Queries::open(&args.run, Arc::new(|_| true)).map_err(error::LakeError::from).and_then(
        |mut queries| {
            let name = args.name.clone().or_else(|| dataset::name_of(&args.run));
            dataset::write(&mut queries, &args.lake, name.as_deref().unwrap_or("run"), &args.tables)
        },
    );
    match written {
        Ok(written) => {
            written.iter().for_each(|one| println!("{}: {} rows", one.path.display(), one.rows));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("weir-parquet: {error}");
            let is_usage =
                matches!(error, error::LakeError::Query(QueryError::NoTable { .. }) | error::LakeError::NoTable { .. });
            ExitCode::from(if is_usage { 2 } else { 1 })
        }
    }
}
