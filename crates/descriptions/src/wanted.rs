//! What the user says beside the file.

use std::collections::BTreeMap;

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Which operations are taken.
    pub selection: Selection,
    /// How many users there are, in place of what the file says.
    pub load: Option<Load>,
    /// Values of variables and parameters, by their names.
    pub set: BTreeMap<String, String>,
    /// A file of variables of Postman (an environment): its name and its text.
    pub variables: Option<(String, String)>,
    /// What addresses begin with, in place of what the file says.
    pub base: Option<String>,
    /// What relative paths of data files are put behind; `None` = the scenario lies beside the description.
    pub folder: Option<String>,
}

/// Which operations are taken.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Selection {
    /// Of OpenAPI those that change nothing (GET, HEAD, OPTIONS, TRACE: RFC 9110 9.2.1); of other forms all.
    #[default]
    Safe,
    /// All.
    All,
    /// Those of these names, `METHOD /path`s, and what is safe of these tags; folders and requests of Postman.
    Only(Vec<String>),
}

/// How many users there are; times as a scenario writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Load {
    /// So many for a time.
    Users(u32, String),
    /// So many share a number of iterations.
    Iterations(u32, u64),
    /// So many iterations in a time, such as `20/s`, for a time.
    Rate(String, String),
}
