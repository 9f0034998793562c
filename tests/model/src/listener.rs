//! Whoever listens on inboxes of the server, and what they hear.

use std::io;

use crate::calls::INBOXES;
use crate::server::{Plain, Server, command};

/// A connection that subscribes.
#[derive(Debug)]
pub struct Listener {
    server: Server,
    on: [bool; INBOXES.len()],
}

impl Listener {
    pub fn new(mut server: Server) -> io::Result<Listener> {
        // A connection without any subscription would answer otherwise.
        server.send(&command(&[b"SUBSCRIBE", b"always"]))?;
        server.row()?;
        let on = [false; INBOXES.len()];
        Ok(Listener { server, on })
    }

    /// Listens on an inbox, or does no more. Returns whether that is new.
    pub fn set(&mut self, inbox: usize, on: bool) -> io::Result<bool> {
        if self.on[inbox] == on {
            return Ok(false);
        }
        self.on[inbox] = on;
        let verb: &[u8] = if on { b"SUBSCRIBE" } else { b"UNSUBSCRIBE" };
        self.server.send(&command(&[verb, INBOXES[inbox]]))?;
        self.server.row()?;
        Ok(true)
    }

    /// Listens on nothing.
    pub fn clear(&mut self) -> io::Result<()> {
        (0..INBOXES.len()).try_for_each(|inbox| self.set(inbox, false).map(drop))
    }

    /// What has been published: inboxes and messages.
    pub fn heard(&mut self) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        // Its answer comes behind them.
        self.server.send(&command(&[b"PING"]))?;
        let mut heard = Vec::new();
        loop {
            let words = self.server.row()?;
            let mut words = words.into_iter().map(|word| match word {
                Plain::Text(Some(text)) => text,
                _ => Vec::new(),
            });
            match (words.next().as_deref(), words.next(), words.next()) {
                (Some(b"message"), Some(inbox), Some(text)) => heard.push((inbox, text)),
                _ => return Ok(heard),
            }
        }
    }
}
