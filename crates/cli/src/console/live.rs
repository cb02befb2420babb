//! A running server of `weir console`, asked as the commands `activity`, `requests`, `connections`, `env` and `watch`
//! ask it. The token is known here alone.

use crate::admin_client::{AdminAddress, encoded};
use crate::{activity, environment, watch_requests};
use serde_json::{Value, json};
use std::fmt;
use std::io::Read;
use std::path::Path;
use weir_console::{Ended, LiveError, LiveServer, Question};
use weir_report::clean;
use weir_server::{AdminDoor, RequestFilter, WatchCategories, WatchCategory};

/// A server at its admin address.
pub(super) struct Server {
    admin: AdminAddress,
}

// Without the token, which is part of the address.
impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Server").field(&self.admin.text()).finish()
    }
}

impl Server {
    pub(super) fn new(address: &str, token: Option<&Path>) -> anyhow::Result<Self> {
        Ok(Self { admin: AdminAddress::required(address, token)? })
    }

    /// That of this process.
    pub(super) fn within(door: AdminDoor) -> Self {
        Self { admin: AdminAddress::within(door) }
    }

    fn answered(&self, method: &str, target: &str) -> Result<Value, LiveError> {
        match self.admin.ask(method, target).map_err(|error| silent(&error))? {
            (200, body) => serde_json::from_str(&body)
                .map_err(|_| LiveError::Silent(format!("{}: its answer is no JSON", self.admin.text()))),
            (status, words) => Err(LiveError::Refused { status, words: clean(words.trim()) }),
        }
    }
}

impl LiveServer for Server {
    fn address(&self) -> &str {
        self.admin.text()
    }

    fn categories(&self) -> (Vec<&'static str>, Vec<&'static str>) {
        let names = |has: &dyn Fn(WatchCategory) -> bool| {
            WatchCategory::ALL.into_iter().filter(|one| has(*one)).map(WatchCategory::name).collect()
        };
        let usual: Vec<&str> = watch_requests::USUAL_CATEGORIES.split(',').collect();
        (names(&|_| true), names(&|one| usual.contains(&one.name())))
    }

    fn ask(&self, question: &Question<'_>) -> Result<Value, LiveError> {
        match *question {
            Question::Activity { hours, steps } => {
                let told = self.answered("GET", &format!("/activity.json?hours={hours}&steps={steps}"))?;
                activity::of_page(told).map_err(|error| silent(&error))
            }
            Question::Requests { filter, limit } => {
                self.answered("GET", &format!("/requests.json?limit={limit}&filter={}", encoded(filter)))
            }
            Question::Now => match self.answered("GET", "/now.json") {
                Err(LiveError::Refused { status: 404, .. }) => Err(LiveError::Refused {
                    status: 404,
                    words: "the server is of a version before it told this; put a newer one in its place".to_owned(),
                }),
                answered => answered,
            },
            Question::Connections { client: "" } => self.answered("GET", "/connections.json"),
            Question::Connections { client } => {
                self.answered("GET", &format!("/connections.json?client={}", encoded(client)))
            }
            Question::Rules => match self.answered("GET", "/environment.json") {
                Ok(told) => Ok(json!({ "sections": environment::sections(&told) })),
                Err(LiveError::Refused { status: 404, .. }) => Err(LiveError::Refused {
                    status: 404,
                    words: "the server has no rules; start it with weir serve --policy FILE".to_owned(),
                }),
                Err(error) => Err(error),
            },
        }
    }

    fn stop(&self, what: Ended<'_>) -> Result<Value, LiveError> {
        let (name, value) = match what {
            Ended::Connection(id) => ("connection", id),
            Ended::Request(id) => ("request", id),
            Ended::Client(client) => ("client", client),
        };
        self.answered("POST", &format!("/stop?{name}={}", encoded(value)))
    }

    fn watch(&self, filter: &str, show: &str) -> Result<Box<dyn Read + Send>, LiveError> {
        let filter: RequestFilter = filter.parse().map_err(refused)?;
        let show: WatchCategories = show.parse().map_err(refused)?;
        watch_requests::of_page(&self.admin, &filter, show).map_err(|error| silent(&error))
    }
}

fn silent(error: &anyhow::Error) -> LiveError {
    LiveError::Silent(format!("{error:#}"))
}

/// What the server would refuse, in its words.
fn refused(error: impl fmt::Display) -> LiveError {
    LiveError::Refused { status: 400, words: error.to_string() }
}
