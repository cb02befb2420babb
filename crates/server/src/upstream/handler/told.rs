//! How far a request is, told to those who watch it.

use super::{Answer, Relay, Stage};

impl Relay {
    /// Where a server is, as the configuration has it.
    pub(super) fn place_of(&self, server: usize) -> String {
        let rules = &self.upstream.common.rules;
        match rules.servers.get(server) {
            Some(_) if rules.php.is_some() => "php-fpm of this server".to_owned(),
            Some(_) if rules.scripts.is_some() => "a script's runner of this server".to_owned(),
            Some(server) => server.place.to_string(),
            None => "a server".to_owned(),
        }
    }

    /// How far it is, in words.
    pub(super) fn stage_told(&self) -> String {
        let there = |server: usize, over: &str| {
            let what = match self.answer {
                Answer::Awaited if self.is_sent() => "the head of the response is waited for",
                Answer::Awaited => "the request is sent",
                Answer::Begun => "some of the head has come",
                Answer::Body => "the body is passed on",
                Answer::Tunnel => "bytes are passed on both ways",
                Answer::Whole => "the response is whole",
            };
            format!("attempt {} with {} over {over}: {what}", self.tries, self.place_of(server))
        };
        match &self.stage {
            Stage::Holding(_) => "the body is waited for".to_owned(),
            Stage::New => "no place is free".to_owned(),
            Stage::Shed => "the wait for a place would be too long".to_owned(),
            Stage::Queued(..) => "a place is waited for".to_owned(),
            Stage::Placed => "it has a place".to_owned(),
            Stage::Refused(..) => "the server's queue of connections is full: it is asked again".to_owned(),
            Stage::Connecting(_, server) => {
                format!("attempt {}: a connection to {} is made", self.tries, self.place_of(*server))
            }
            Stage::There { server, is_kept: true, .. } => there(*server, "a kept connection"),
            Stage::There { server, is_kept: false, .. } => there(*server, "a new connection"),
            Stage::Joining { server, .. } => {
                format!("attempt {}: a shared connection to {} is waited for", self.tries, self.place_of(*server))
            }
            Stage::OnStream { .. } => match &self.attempt {
                Some(attempt) => there(attempt.server(), "a shared connection"),
                None => "on a shared connection".to_owned(),
            },
            Stage::Giving(_) => "a file answers in place of the upstream".to_owned(),
            Stage::Over => "the upstream is done".to_owned(),
        }
    }
}
