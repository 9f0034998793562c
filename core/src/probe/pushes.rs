//! Doors to what nodes send without being asked.

use std::io;
use std::sync::Arc;

use crate::client::Client;
use crate::node::redis::pushes::Push;
use crate::node::redis::wire::{Input, ServerMessage};
use crate::node::{Hint, Link};

/// What came, as a connection tells it apart.
#[derive(Clone, Debug, PartialEq)]
pub enum PushKind {
    /// The answer to a request.
    Reply,
    /// A message for a waiter.
    Message(Hint),
    /// The inbox is subscribed.
    Subscribed,
    /// Nothing that a node tells.
    Stray,
}

/// A connection's input, for a client whose inbox is `channel`.
#[allow(missing_debug_implementations)]
pub struct PushStream(Input);

impl PushStream {
    /// Nothing has arrived so far.
    pub fn new(channel: &[u8]) -> PushStream {
        PushStream(Input::new(channel.into()))
    }

    /// Takes what has arrived; adds what is whole to `came`.
    ///
    /// # Errors
    ///
    /// What no server sends: the connection is given up.
    pub fn take(&mut self, bytes: &[u8], came: &mut Vec<PushKind>) -> io::Result<()> {
        self.0.add(bytes);
        while let Some(next) = self.0.next()? {
            came.push(match next {
                ServerMessage::Reply(_) => PushKind::Reply,
                ServerMessage::Push(Push::Message(call)) => PushKind::Message(call),
                ServerMessage::Push(Push::Subscribed) => PushKind::Subscribed,
                ServerMessage::Push(Push::Stray | Push::Listens) => PushKind::Stray,
            });
        }
        Ok(())
    }

    /// How many bytes it holds that are not done with.
    pub fn held(&self) -> usize {
        self.0.held()
    }
}

/// The links of a client, in the order of its nodes: before its first request
/// they can be [subscribed](Link::subscribe) to.
pub fn links(client: &Client) -> &[Arc<dyn Link>] {
    client.links()
}
