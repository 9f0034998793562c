//! One link's subscription of its client's inbox: the channel on which nodes tell
//! waiters that their turn has come.

use std::sync::Arc;

use super::pushes::Push;
use crate::node::Subscriber;
use crate::token::Rng;

/// The name of a new inbox. No client can guess it, and no two clients share one: a node names a
/// waiter by its inbox and a number that the client gave it.
pub(crate) fn channel(namespace: &str, rng: &dyn Rng) -> Arc<[u8]> {
    let mut id = [0; 16];
    rng.fill(&mut id);
    format!("{namespace}#in:{:032x}", u128::from_be_bytes(id))
        .into_bytes()
        .into()
}

/// The subscription of a client's inbox on one node, over whatever connection
/// its link has.
pub(crate) struct Subscription {
    /// The subscriber that is given the node's messages.
    subscriber: Option<Arc<dyn Subscriber>>,
    node: usize,
    state: SubscriptionState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SubscriptionState {
    /// No connection has had the subscription, or the node does not permit one.
    Never,
    /// The connection in use has it.
    Stands,
    /// A connection had the subscription, and is lost or in doubt.
    Lost,
}

impl Subscription {
    pub(crate) fn new(node: usize) -> Subscription {
        Subscription {
            subscriber: None,
            node,
            state: SubscriptionState::Never,
        }
    }

    /// Whether there is a subscriber.
    pub(crate) fn is_wanted(&self) -> bool {
        self.subscriber.is_some()
    }

    /// Subscribes `subscriber`, from the next connection on.
    pub(crate) fn begin(&mut self, subscriber: Arc<dyn Subscriber>) {
        self.subscriber = Some(subscriber);
    }

    /// Takes the subscriber, for the next connection's task.
    pub(crate) fn leave(&mut self) -> Option<Arc<dyn Subscriber>> {
        self.subscriber.take()
    }

    /// Removes the subscriber.
    pub(crate) fn end(&mut self) {
        self.subscriber = None;
    }

    /// There is a new connection, which has `subscribed` the inbox or has not.
    pub(crate) fn connected(&mut self, subscribed: bool) {
        self.state = if subscribed {
            SubscriptionState::Stands
        } else {
            SubscriptionState::Never
        };
        if let (true, Some(subscriber)) = (subscribed, &self.subscriber) {
            subscriber.on_subscribed(self.node);
        }
    }

    /// Marks the subscription as lost, with its connection. No waiter is notified: until there is
    /// another connection a waiter's timer does all that can be done.
    pub(crate) fn lost(&mut self) {
        if self.state == SubscriptionState::Stands {
            self.state = SubscriptionState::Lost;
        }
    }

    /// Whether a connection is to be made although no request asks for one.
    pub(crate) fn wants_connection(&self) -> bool {
        let subscriber = self.subscriber.as_ref();
        self.state == SubscriptionState::Lost && subscriber.is_some_and(|s| s.is_awaited(self.node))
    }

    /// Takes a push of any connection; false for a stray one.
    pub(crate) fn take(&self, push: Push) -> bool {
        if let (Push::Message(hint), Some(subscriber)) = (push, &self.subscriber) {
            subscriber.on_message(self.node, hint);
        }
        push != Push::Stray
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::mutex::lock;
    use crate::node::Hint;
    use crate::token::SystemRng;

    fn called(number: u64) -> Push {
        Push::Message(Hint { number, slot: None })
    }

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

    impl Subscriber for Heard {
        fn on_message(&self, node: usize, hint: Hint) {
            self.note(format!("{node}: {}", hint.number));
        }
        fn on_subscribed(&self, node: usize) {
            self.note(format!("{node}: subscribed"));
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
        let subscriber = Arc::new(Heard::default());
        let mut subscription = Subscription::new(3);
        subscription.begin(subscriber.clone());
        subscription.lost();
        subscription.connected(true);
        assert!(subscription.take(called(7)));
        assert!(!subscription.take(Push::Stray));
        subscription.lost();
        // The connection in doubt still brings messages.
        assert!(subscription.take(called(8)));
        subscription.lost();
        subscription.connected(false);
        subscription.lost();
        subscription.connected(true);
        subscription.end();
        subscription.lost();
        assert!(subscription.take(called(9)));
        assert_eq!(
            *lock(&subscriber.what),
            ["3: subscribed", "3: 7", "3: 8", "3: subscribed"]
        );
    }

    #[test]
    fn only_what_was_heard_and_is_awaited_is_worth_a_connection() {
        for awaited in [true, false] {
            let mut subscription = Subscription::new(0);
            subscription.begin(Arc::new(Heard {
                awaited,
                ..Heard::default()
            }));
            assert!(
                !subscription.wants_connection(),
                "nothing was asked of it yet"
            );
            subscription.connected(true);
            assert!(!subscription.wants_connection(), "it stands");
            subscription.lost();
            assert_eq!(subscription.wants_connection(), awaited);
            subscription.connected(false);
            subscription.lost();
            assert!(
                !subscription.wants_connection(),
                "the node does not permit it"
            );
            subscription.connected(true);
            subscription.lost();
            subscription.end();
            assert!(!subscription.wants_connection(), "nobody is told");
        }
    }
}
