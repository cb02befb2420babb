//! What a user does, apart from how its requests are made.

mod answer;
mod ask;
mod fields;
mod jar;
mod user;

pub use answer::{Answer, AnsweredBy, Failing, Redirected, Timings};
pub use ask::{Ask, Cookies, Kept, Tags};
pub use fields::Fields;
pub use jar::{Jar, SharedJar};
pub use user::{Behaviour, Failure, Iteration, Maker, News, User, Wants};
