//! The usual experiment: B held against A.
use crate::command_line::CommandLine;
use crate::metric::Measured;
use crate::plan::{ServerSpec, Subject};

/// Two subjects named A and B, as parts of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// Of what is measured.
    pub measured: Measured,
    /// One server, or two.
    pub servers: Vec<ServerSpec>,
    /// A and B.
    pub subjects: Vec<Subject>,
}

impl Pair {
    /// Two servers under the same load.
    #[must_use]
    pub fn of_servers(a: CommandLine, b: CommandLine, load: &CommandLine) -> Self {
        Self {
            measured: Measured::Server,
            servers: vec![ServerSpec::new("server A", a), ServerSpec::new("server B", b)],
            subjects: vec![subject("A", 0, load), subject("B", 1, load)],
        }
    }

    /// One server twice, with [what runs beside it](Self::beside) as the difference.
    #[must_use]
    pub fn of_one_server(server: CommandLine, load: &CommandLine) -> Self {
        Self {
            measured: Measured::Server,
            servers: vec![ServerSpec::new("the server", server)],
            subjects: vec![subject("A", 0, load), subject("B", 0, load)],
        }
    }

    /// Two load commands against one server; what is measured is the CPU time of the commands.
    #[must_use]
    pub fn of_generators(a: &CommandLine, b: &CommandLine, server: CommandLine) -> Self {
        Self {
            measured: Measured::Generator,
            servers: vec![ServerSpec::new("the server", server)],
            subjects: vec![subject("A", 0, a), subject("B", 0, b)],
        }
    }

    /// The same with these commands beside.
    #[must_use]
    pub fn beside(mut self, a: Option<CommandLine>, b: Option<CommandLine>) -> Self {
        for (subject, beside) in self.subjects.iter_mut().zip([a, b]) {
            subject.beside = beside;
        }
        self
    }
}

fn subject(name: &str, server: usize, load: &CommandLine) -> Subject {
    Subject { name: name.to_owned(), server, load: load.clone(), beside: None }
}
