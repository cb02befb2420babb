//! What the admin address allows beyond telling of requests without their bodies: nothing, unless the options say so.

use std::str::FromStr;
use thiserror::Error;

/// Rights at the admin address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AdminRights {
    /// To end connections and requests.
    pub stop: bool,
    /// To set marks into the activity.
    pub mark: bool,
    /// To have a watch tell the bodies of requests and responses.
    pub bodies: bool,
}

/// There is no such right.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "there is no right `{right}`; there are stop (to end connections and requests), mark (to mark deployments) and bodies (to watch the bodies of requests and responses)"
)]
pub struct UnknownAdminRight {
    /// The word as given.
    pub right: String,
}

impl AdminRights {
    /// These rights, and those of the other.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { stop: self.stop || other.stop, mark: self.mark || other.mark, bodies: self.bodies || other.bodies }
    }
}

impl FromStr for AdminRights {
    type Err = UnknownAdminRight;

    /// A list such as `stop,mark,bodies`.
    fn from_str(text: &str) -> Result<Self, UnknownAdminRight> {
        text.split(',').map(str::trim).try_fold(Self::default(), |rights, right| match right {
            "stop" => Ok(Self { stop: true, ..rights }),
            "mark" => Ok(Self { mark: true, ..rights }),
            "bodies" => Ok(Self { bodies: true, ..rights }),
            _ => Err(UnknownAdminRight { right: right.to_owned() }),
        })
    }
}
