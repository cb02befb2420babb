//! The folder of an experiment: its plan, and every block from the moment at which it is complete.
//!
//! Blocks are lines of JSON, appended one by one, so that whatever ends an experiment costs at most the block that was
//! being measured; a last line that was cut off is passed over.
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::outcome::Block;
use crate::plan::Plan;

const PLAN: &str = "plan.json";
const BLOCKS: &str = "blocks.jsonl";

/// Why the folder of an experiment cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// The system refuses.
    #[error("{}: {source}", path.display())]
    Io {
        /// Of what.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It has results already.
    #[error(
        "{} has the results of an experiment; go on with it by --resume, or name another folder",
        .0.display()
    )]
    Used(PathBuf),
    /// There is no end of an experiment in it.
    #[error(
        "{} has no experiment that has come to an end; weir compare --resume goes on with one that was interrupted",
        .0.display()
    )]
    NoEnd(PathBuf),
    /// A file that this program did not write, or that was changed.
    #[error("{} line {line}: {message}; name the folder of an experiment that was begun with --results", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
}

/// The folder, open for further blocks.
#[derive(Debug)]
pub struct Results {
    folder: PathBuf,
    blocks: File,
}

impl Results {
    /// Makes the folder and writes the plan into it.
    ///
    /// # Errors
    /// [`ResultsError::Used`] when there are results in it, and the system's refusals.
    pub fn create(folder: &Path, plan: &Plan) -> Result<Self, ResultsError> {
        let failed = |path: PathBuf| move |source| ResultsError::Io { path, source };
        fs::create_dir_all(folder).map_err(failed(folder.to_owned()))?;
        let (plan_path, blocks_path) = (folder.join(PLAN), folder.join(BLOCKS));
        if plan_path.exists() || blocks_path.exists() {
            return Err(ResultsError::Used(folder.to_owned()));
        }
        // A plan is numbers and texts, all of which JSON has.
        let text = serde_json::to_string_pretty(plan).map_err(io::Error::from);
        text.and_then(|text| fs::write(&plan_path, text + "\n")).map_err(failed(plan_path))?;
        let blocks =
            OpenOptions::new().create_new(true).append(true).open(&blocks_path).map_err(failed(blocks_path))?;
        Ok(Self { folder: folder.to_owned(), blocks })
    }

    /// Opens the folder of an experiment to go on with it: its plan and its blocks so far.
    ///
    /// # Errors
    /// [`ResultsError::Content`] for what no experiment wrote, and the system's refusals.
    pub fn resume(folder: &Path) -> Result<(Self, Plan, Vec<Block>), ResultsError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| ResultsError::Io { path, source }
        };
        let (plan_path, blocks_path) = (folder.join(PLAN), folder.join(BLOCKS));
        let text = fs::read_to_string(&plan_path).map_err(failed(&plan_path))?;
        let plan: Plan = serde_json::from_str(&text).map_err(|error| ResultsError::Content {
            path: plan_path.clone(),
            line: error.line(),
            message: error.to_string(),
        })?;
        let text = fs::read_to_string(&blocks_path).map_err(failed(&blocks_path))?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut blocks = Vec::new();
        for (index, line) in text[..whole].lines().enumerate() {
            let content =
                |message: String| ResultsError::Content { path: blocks_path.clone(), line: index + 1, message };
            let block: Block = serde_json::from_str(line).map_err(|error| content(error.to_string()))?;
            if block.case >= plan.cases.len() {
                return Err(content(format!("there is no case {}", block.case)));
            }
            blocks.push(block);
        }
        let mut file = OpenOptions::new().append(true).open(&blocks_path).map_err(failed(&blocks_path))?;
        // What was cut off would make the next line unreadable.
        file.set_len(whole as u64).and_then(|()| file.flush()).map_err(failed(&blocks_path))?;
        Ok((Self { folder: folder.to_owned(), blocks: file }, plan, blocks))
    }

    /// Appends a block.
    ///
    /// # Errors
    /// The system's: a full disk, as a rule.
    pub fn keep(&mut self, block: &Block) -> io::Result<()> {
        let line = serde_json::to_string(block)? + "\n";
        // In one write, so that a line is there as a whole or is the cut one at the end.
        self.blocks.write_all(line.as_bytes())
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}
