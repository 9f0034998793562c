//! A client's inbox: the channel on which nodes tell its waiters that their
//! turn has come, and what one link knows of it.

use std::sync::Arc;

use super::Mail;
use super::pushes::Push;
use crate::token::Rng;

/// The name of a new inbox. Nobody can guess it, and no two clients share one:
/// a waiter is named by its inbox and a number that the client gave it.
pub(crate) fn channel(namespace: &str, rng: &dyn Rng) -> Arc<[u8]> {
    let mut id = [0; 16];
    rng.fill(&mut id);
    format!("{namespace}#in:{:032x}", u128::from_be_bytes(id))
        .into_bytes()
        .into()
}

/// Who is told what comes in over one link's connections, and whether anything
/// can.
pub(crate) struct Ear {
    mail: Option<Arc<dyn Mail>>,
    node: usize,
    hears: Hears,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Hears {
    /// There has been no subscription, or the node does not permit one.
    Never,
    /// The connection in use has subscribed.
    Now,
    /// One had, and is lost or in doubt.
    Again,
}

impl Ear {
    pub(crate) fn new(node: usize) -> Ear {
        Ear {
            mail: None,
            node,
            hears: Hears::Never,
        }
    }

    /// Whether anybody is to be told.
    pub(crate) fn is_open(&self) -> bool {
        self.mail.is_some()
    }

    /// From the next connection on, `mail` is told.
    pub(crate) fn open(&mut self, mail: Arc<dyn Mail>) {
        self.mail = Some(mail);
    }

    /// Nobody is told any more.
    pub(crate) fn close(&mut self) {
        self.mail = None;
    }

    /// There is a new connection.
    pub(crate) fn connected(&mut self, listening: bool) {
        self.hears = if listening { Hears::Now } else { Hears::Never };
        if let (true, Some(mail)) = (listening, &self.mail) {
            mail.on_listening(self.node);
        }
    }

    /// The connection in use is lost, or in doubt.
    pub(crate) fn lost(&mut self) {
        if self.hears != Hears::Now {
            return;
        }
        self.hears = Hears::Again;
        if let Some(mail) = &self.mail {
            mail.on_deaf(self.node);
        }
    }

    /// Whether a connection is to be made although no request asks for one.
    pub(crate) fn wants_connection(&self) -> bool {
        let awaited = |mail: &Arc<dyn Mail>| mail.is_awaited(self.node);
        self.hears == Hears::Again && self.mail.as_ref().is_some_and(awaited)
    }

    /// Takes a push of any connection; false for a stray one.
    pub(crate) fn take(&self, push: Push) -> bool {
        if let (Push::Message(number), Some(mail)) = (push, &self.mail) {
            mail.on_message(self.node, number);
        }
        push != Push::Stray
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::sync::lock;
    use crate::token::SystemRng;

    #[derive(Default)]
    struct Heard {
        what: Mutex<Vec<String>>,
        awaited: bool,
    }

    impl Heard {
        fn note(&self, what: String) {
            lock(&self.what).push(what);
        }
    }

    impl Mail for Heard {
        fn on_message(&self, node: usize, number: u64) {
            self.note(format!("{node}: {number}"));
        }
        fn on_listening(&self, node: usize) {
            self.note(format!("{node}: listening"));
        }
        fn on_deaf(&self, node: usize) {
            self.note(format!("{node}: deaf"));
        }
        fn is_awaited(&self, _: usize) -> bool {
            self.awaited
        }
    }

    #[test]
    fn no_two_inboxes_have_one_name() {
        let (a, b) = (channel("ns:", &SystemRng), channel("ns:", &SystemRng));
        assert_ne!(a, b);
        let id = a.strip_prefix(b"ns:#in:").unwrap();
        assert_eq!(id.len(), 32);
        assert!(
            id.iter()
                .all(|d| d.is_ascii_hexdigit() && !d.is_ascii_uppercase())
        );
    }

    #[test]
    fn a_subscription_is_told_from_its_beginning_to_its_end() {
        let mail = Arc::new(Heard::default());
        let mut ear = Ear::new(3);
        ear.open(mail.clone());
        ear.lost();
        ear.connected(true);
        assert!(ear.take(Push::Message(7)));
        assert!(!ear.take(Push::Stray));
        ear.lost();
        // What the connection in doubt still brings.
        assert!(ear.take(Push::Message(8)));
        ear.lost();
        ear.connected(false);
        ear.lost();
        ear.connected(true);
        ear.close();
        ear.lost();
        assert!(ear.take(Push::Message(9)));
        assert_eq!(
            *lock(&mail.what),
            ["3: listening", "3: 7", "3: deaf", "3: 8", "3: listening"]
        );
    }

    #[test]
    fn only_what_was_heard_and_is_awaited_is_worth_a_connection() {
        for awaited in [true, false] {
            let mut ear = Ear::new(0);
            ear.open(Arc::new(Heard {
                awaited,
                ..Heard::default()
            }));
            assert!(!ear.wants_connection(), "nothing was asked of it yet");
            ear.connected(true);
            assert!(!ear.wants_connection(), "it hears");
            ear.lost();
            assert_eq!(ear.wants_connection(), awaited);
            ear.connected(false);
            ear.lost();
            assert!(!ear.wants_connection(), "the node does not permit it");
            ear.connected(true);
            ear.lost();
            ear.close();
            assert!(!ear.wants_connection(), "closed");
        }
    }
}
