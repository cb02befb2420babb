//! What a configuration says of a gateway.

use std::path::PathBuf;

/// The ending of a script's name unless the configuration says others.
#[cfg(test)]
const ENDING: &str = ".php";
/// The file that answers a path with a slash at its end unless the configuration says another.
#[cfg(test)]
const INDEX: &str = "index.php";

/// How the variables of a request are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gateway {
    /// Where scripts are, by the name that the program has for it: DOCUMENT_ROOT.
    pub(crate) root: PathBuf,
    pub(crate) split: Split,
    /// Variables besides, or in place of, those that the server makes: names and values.
    pub(crate) params: Vec<(String, String)>,
    /// Bytes of a script's path that `root` stands for; what is behind them begins with a slash.
    pub(crate) alias_bytes: usize,
    /// Whether scripts get Authorization where the server has checked the password.
    pub(crate) passes_authorization: bool,
}

/// What of a path names the program, and what is left to it as PATH_INFO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Split {
    /// A file below the root is the script.
    Script {
        /// Endings of its name, each with its dot. At least one.
        endings: Vec<String>,
        /// The script within a directory that is asked for with a slash at its end; without it there is none.
        index: Option<String>,
    },
    /// The first file behind this part of a path is the script, by any name. It begins and ends with a slash.
    Any { mount: String },
    /// One program answers all paths below this one, which begins with a slash and does not end with one; empty for the
    /// whole host. No file is looked at.
    Application { mount: String },
}

impl Gateway {
    /// Scripts of PHP below a directory.
    #[cfg(test)]
    pub(crate) fn php(root: PathBuf) -> Self {
        let split = Split::Script { endings: vec![ENDING.to_owned()], index: Some(INDEX.to_owned()) };
        Self { root, split, params: Vec::new(), alias_bytes: 0, passes_authorization: false }
    }

    /// A program that answers everything below a path.
    #[cfg(test)]
    pub(crate) fn application(root: PathBuf, mount: String) -> Self {
        Self {
            root,
            split: Split::Application { mount },
            params: Vec::new(),
            alias_bytes: 0,
            passes_authorization: false,
        }
    }
}
