//! What a user does, apart from how its requests are made.

mod answer;
mod ask;
mod fields;
mod jar;
mod socket;
mod user;

pub use answer::{Answer, AnsweredBy, Failing, Redirected, Timings};
pub use ask::{Ask, Cookies, Kept, Tags};
pub use fields::Fields;
pub use jar::{Jar, SharedJar};
pub use socket::{Counting, SocketEvent, SocketNews, SocketOpening, SocketOrder};
pub use user::{Behaviour, FailedBy, Failure, Iteration, Maker, News, User, Wants};
