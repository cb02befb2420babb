//! libarm, and what is installed and documented for both ARM libraries, as their users have it.
// scripts/test: serves

mod installed;
mod interface;
mod manual;
mod support;
