//! Descriptions and recordings of other tools that a load is made of.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use weir_descriptions::{BYTES_MAX, Draft, Files, Kind, Load, Selection, Wanted, draft};
use weir_terminal::text_file;

/// The options that say of what a scenario is made.
#[derive(Debug, clap::Args)]
pub(crate) struct DescribedArgs {
    /// Make a scenario of this file: a description of OpenAPI (YAML, JSON), a collection of Postman, command lines of
    /// curl, a test plan of JMeter (.jmx), or an HTTP Archive (.har)
    #[arg(long, value_name = "FILE", help_heading = "Description")]
    pub(crate) from: Option<PathBuf>,
    /// What the file of --from is, where its content does not say it: openapi, postman, curl, jmeter, har
    #[arg(long = "as", value_name = "FORM", value_parser = form, requires = "from", help_heading = "Description")]
    form: Option<Kind>,
    /// All operations of OpenAPI, those that may change data included
    #[arg(long, requires = "from", conflicts_with = "only", help_heading = "Description")]
    all: bool,
    /// Only this operation of OpenAPI (operationId, or METHOD /path) or what is safe of this tag; only this folder or
    /// request of Postman; may be repeated
    #[arg(long, value_name = "NAME", requires = "from", help_heading = "Description")]
    only: Vec<String>,
    /// The value of a variable, of a parameter, or of a security scheme; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, requires = "from", help_heading = "Description")]
    set: Vec<(String, String)>,
    /// Variables of Postman: a file of an environment
    #[arg(long, value_name = "FILE", requires = "from", help_heading = "Description")]
    variables: Option<PathBuf>,
}

fn form(text: &str) -> Result<Kind, &'static str> {
    let found = Kind::ALL.into_iter().find(|kind| kind.name() == text);
    found.ok_or("write openapi, postman, curl, jmeter or har")
}

fn pair(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Why no scenario is made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DescribedError {
    /// The file cannot be read.
    #[error("{name}: {cause}")]
    Unreadable {
        /// The file.
        name: String,
        /// What is wrong.
        cause: text_file::TextFileError,
    },
    /// Its content does not say what it is.
    #[error(
        "{name}: this is no description that is known: OpenAPI, a collection of Postman, command lines of curl, a plan of \
         JMeter, an HTTP Archive; add --as FORM if it is one of them"
    )]
    Unknown {
        /// The file.
        name: String,
    },
    /// An option has no effect on such a file.
    #[error("{name} is {kind}: {option}; leave it out")]
    Option {
        /// The file.
        name: String,
        /// What it is.
        kind: Kind,
        /// The option, and what it is of.
        option: &'static str,
    },
    /// The file makes no scenario.
    #[error(transparent)]
    Description(#[from] weir_descriptions::DescriptionError),
}

/// Files beside the description.
struct Beside {
    folder: PathBuf,
}

impl Files for Beside {
    fn read(&self, path: &str, most: u64) -> Option<String> {
        text_file::read(&self.folder.join(path), most).ok()
    }
}

impl DescribedArgs {
    /// The directory of the description.
    pub(crate) fn folder(&self) -> PathBuf {
        let parent = self.from.as_deref().and_then(Path::parent).filter(|parent| !parent.as_os_str().is_empty());
        parent.unwrap_or(Path::new(".")).to_owned()
    }

    /// The scenario of `file`, with this load and base in place of its own; `folder` is put before relative paths of
    /// data, if it is given.
    pub(crate) fn draft(
        &self,
        file: &Path,
        load: Option<Load>,
        (base, folder): (Option<String>, Option<String>),
    ) -> Result<Draft, DescribedError> {
        let name = file.display().to_string();
        let read = |file: &Path| {
            let name = file.display().to_string();
            text_file::read(file, BYTES_MAX as u64).map_err(|cause| DescribedError::Unreadable { name, cause })
        };
        let text = read(file)?;
        let kind = self.form.or_else(|| Kind::recognise(&text));
        let kind = kind.ok_or_else(|| DescribedError::Unknown { name: name.clone() })?;
        self.fits(&name, kind)?;
        let variables = match &self.variables {
            Some(file) => Some((file.display().to_string(), read(file)?)),
            None => None,
        };
        let selection = match (self.all, self.only.is_empty()) {
            (true, _) => Selection::All,
            (false, false) => Selection::Only(self.only.clone()),
            (false, true) => Selection::Safe,
        };
        let set: BTreeMap<String, String> = self.set.iter().cloned().collect();
        let wanted = Wanted { selection, load, set, variables, base, folder };
        Ok(draft(kind, &name, &text, &wanted, &Beside { folder: self.folder() })?)
    }

    /// Refuses options that have no effect on such a file.
    fn fits(&self, name: &str, kind: Kind) -> Result<(), DescribedError> {
        let refused = [
            (self.all && kind != Kind::OpenApi, "--all is of OpenAPI, and all of its requests are taken anyway"),
            (
                !self.only.is_empty() && !matches!(kind, Kind::OpenApi | Kind::Postman),
                "--only is of OpenAPI and Postman",
            ),
            (!self.set.is_empty() && matches!(kind, Kind::Curl | Kind::Har), "--set has no variable to set"),
            (self.variables.is_some() && kind != Kind::Postman, "--variables is of Postman"),
        ];
        match refused.into_iter().find(|(is, _)| *is) {
            Some((_, option)) => Err(DescribedError::Option { name: name.to_owned(), kind, option }),
            None => Ok(()),
        }
    }
}

/// Tells what is not in a scenario, on standard error.
pub(crate) fn tell(name: &str, draft: &Draft) {
    for told in draft.losses.iter().chain(&draft.left_out) {
        eprintln!("{name}:{told}");
    }
    if draft.losses_more > 0 {
        eprintln!("{name}: and {} losses more", draft.losses_more);
    }
}
