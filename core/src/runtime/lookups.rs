//! Looks up host names, each name once at a time. A name server may be slow, or dead, and the call
//! that asks it cannot be ended; so:
//!
//! - **One look-up is under way for each name**, however many callers wait for it, on a
//!   thread of its own. A name that hangs holds up no other.
//! - **It outlasts its callers**: a later caller joins the look-up that is under way. So a name
//!   that takes longer than a connection may is known in the end.
//! - **The addresses of the last good one are kept**, for use while the next is under way, or
//!   where it fails.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use super::threads;
use crate::mutex::lock;
use crate::wakers::Wakers;

/// So many names are remembered; beyond it those that are not being looked up are forgotten.
const REMEMBERED: usize = 256;

/// The addresses of a host, with no port.
type LookupResult = io::Result<Vec<SocketAddr>>;
/// Asks the system. Blocks.
type Resolve = Arc<dyn Fn(&str) -> LookupResult + Send + Sync>;
/// What blocks.
type LookupWork = Box<dyn FnOnce() + Send>;
/// Begins to do that elsewhere.
type Start = Box<dyn Fn(LookupWork) -> io::Result<()> + Send + Sync>;

/// See the [module documentation](self).
pub(crate) struct Lookups {
    ask: Resolve,
    start: Start,
    names: Mutex<HashMap<String, Arc<Mutex<Name>>>>,
}

#[derive(Default)]
struct Name {
    /// The addresses of the last look-up that succeeded.
    good: Vec<SocketAddr>,
    /// Why the last one has failed, if it has.
    failed: Option<(io::ErrorKind, String)>,
    under_way: bool,
    /// How many are over.
    over: u64,
    waiting: Wakers,
}

impl Default for Lookups {
    fn default() -> Lookups {
        Lookups::by(
            |host| (host, 0).to_socket_addrs().map(Vec::from_iter),
            |work| threads::start("quorlock-dns", work).map(drop),
        )
    }
}

impl Lookups {
    /// Look-ups that ask so, on threads that are started so.
    pub(crate) fn by(
        ask: impl Fn(&str) -> LookupResult + Send + Sync + 'static,
        start: impl Fn(LookupWork) -> io::Result<()> + Send + Sync + 'static,
    ) -> Lookups {
        Lookups {
            ask: Arc::new(ask),
            start: Box::new(start),
            names: Mutex::default(),
        }
    }

    /// Begins to look a name up, where that is not under way.
    pub(crate) fn begin(&self, host: &str) -> Lookup {
        let name = self.name(host);
        let (under_way, seen) = {
            let mut name = lock(&name);
            (std::mem::replace(&mut name.under_way, true), name.over)
        };
        if !under_way {
            let (ask, host) = (self.ask.clone(), host.to_owned());
            let told = LookupGuard(name.clone(), None);
            let work = move || {
                let mut told = told;
                told.1 = Some(ask(&host));
            };
            let started = (self.start)(Box::new(work));
            if let Err(none) = started {
                // The answer is dropped with the work, and by that has said that the look-up is
                // over.
                let why = format!("no thread to look the name up: {none}");
                lock(&name).failed = Some((none.kind(), why));
            }
        }
        Lookup { name, seen }
    }

    /// The addresses that a name had when it was last looked up well.
    pub(crate) fn known(&self, host: &str) -> Vec<SocketAddr> {
        let name = lock(&self.names).get(host).cloned();
        name.map_or_else(Vec::new, |name| lock(&name).good.clone())
    }

    /// Whether that name is being looked up, and no address of it is known before that is over.
    pub(crate) fn are_needed_for(&self, host: &str) -> bool {
        let name = lock(&self.names).get(host).cloned();
        name.is_some_and(|name| {
            let name = lock(&name);
            name.under_way && name.good.is_empty()
        })
    }

    fn name(&self, host: &str) -> Arc<Mutex<Name>> {
        let mut names = lock(&self.names);
        if names.len() >= REMEMBERED && !names.contains_key(host) {
            names.retain(|_, name| lock(name).under_way);
        }
        names.entry(host.to_owned()).or_default().clone()
    }
}

/// What a look-up tells when its thread is through with it. Without a word it has failed.
struct LookupGuard(Arc<Mutex<Name>>, Option<LookupResult>);

impl Drop for LookupGuard {
    fn drop(&mut self) {
        let mut name = lock(&self.0);
        let nothing = || Err(io::Error::other("the name was not looked up"));
        match self.1.take().unwrap_or_else(nothing) {
            Ok(found) => (name.good, name.failed) = (found, None),
            Err(error) => name.failed = Some((error.kind(), error.to_string())),
        }
        name.under_way = false;
        name.over += 1;
        let waiting = name.waiting.take();
        drop(name);
        waiting.wake();
    }
}

/// A look-up that a task waits for.
pub(crate) struct Lookup {
    name: Arc<Mutex<Name>>,
    /// How many were over when it began to wait.
    seen: u64,
}

impl Lookup {
    /// The addresses that the name had when it was last looked up well.
    pub(crate) fn before(&self) -> Vec<SocketAddr> {
        lock(&self.name).good.clone()
    }

    /// The result of the look-up, once it is over.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<LookupResult> {
        let mut name = lock(&self.name);
        if name.over == self.seen {
            return name.waiting.park(cx);
        }
        Poll::Ready(match &name.failed {
            None => Ok(name.good.clone()),
            Some((kind, why)) => Err(io::Error::new(*kind, why.clone())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Look-ups whose threads are played by hand, in the order in which they were started.
    type Started = Arc<Mutex<VecDeque<LookupWork>>>;

    fn by_hand(ask: impl Fn(&str) -> LookupResult + Send + Sync + 'static) -> (Lookups, Started) {
        let started = Started::default();
        let queue = started.clone();
        let start = move |work| {
            lock(&queue).push_back(work);
            Ok(())
        };
        (Lookups::by(ask, start), started)
    }

    fn next(started: &Started) -> LookupWork {
        lock(started).pop_front().expect("a thread was started")
    }

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn poll(lookup: &Lookup) -> Poll<Result<Vec<SocketAddr>, String>> {
        let told = lookup.poll(&Context::from_waker(std::task::Waker::noop()));
        told.map_err(|error| error.to_string())
    }

    #[test]
    fn one_look_up_serves_all_who_ask_meanwhile_and_outlasts_them() {
        let (lookups, started) = by_hand(|_| Ok(vec![address("10.0.0.1:0")]));
        drop(lookups.begin("a"));
        let [second, third] = [lookups.begin("a"), lookups.begin("a")];
        assert!(poll(&second).is_pending() && lookups.are_needed_for("a"));
        let work = next(&started);
        assert!(lock(&started).is_empty(), "looked up twice");
        work();
        for waits in [second, third] {
            assert_eq!(poll(&waits), Poll::Ready(Ok(vec![address("10.0.0.1:0")])));
        }
        // What is known serves meanwhile.
        let again = lookups.begin("a");
        assert!(poll(&again).is_pending() && !lookups.are_needed_for("a"));
    }

    #[test]
    fn a_name_that_hangs_holds_up_no_other() {
        let (lookups, started) = by_hand(|_| Ok(vec![address("10.0.0.1:0")]));
        let hung: Vec<Lookup> = (0..9).map(|i| lookups.begin(&format!("n{i}"))).collect();
        let other = lookups.begin("b");
        lock(&started).pop_back().expect("a thread of its own")();
        assert!(poll(&other).is_ready());
        assert!(hung.iter().all(|hung| poll(hung).is_pending()));
    }

    #[test]
    fn the_last_good_addresses_are_known_while_the_next_look_up_is_under_way_or_has_failed() {
        let told = Mutex::new(VecDeque::from([
            Ok(vec![address("10.0.0.1:0")]),
            Err(io::Error::other("no name server")),
            Ok(vec![address("10.0.0.2:0")]),
        ]));
        let (lookups, started) = by_hand(move |_| lock(&told).pop_front().unwrap());
        assert!(lookups.begin("a").before().is_empty());
        next(&started)();
        let second = lookups.begin("a");
        assert_eq!(second.before(), [address("10.0.0.1:0")]);
        next(&started)();
        assert_eq!(poll(&second), Poll::Ready(Err("no name server".into())));
        assert_eq!(second.before(), [address("10.0.0.1:0")]);
        let third = lookups.begin("a");
        next(&started)();
        assert_eq!(third.before(), [address("10.0.0.2:0")]);
    }

    #[test]
    fn a_look_up_without_a_thread_fails_and_the_next_is_begun() {
        let none = Arc::new(Mutex::new(true));
        let here = none.clone();
        let lookups = Lookups::by(
            |_| Ok(Vec::new()),
            move |work| {
                if *lock(&here) {
                    Err(io::Error::other("too many"))
                } else {
                    work();
                    Ok(())
                }
            },
        );
        let why = "no thread to look the name up: too many".to_owned();
        assert_eq!(poll(&lookups.begin("a")), Poll::Ready(Err(why)));
        *lock(&none) = false;
        assert_eq!(poll(&lookups.begin("a")), Poll::Ready(Ok(Vec::new())));
    }

    #[test]
    fn a_look_up_that_panics_has_failed() {
        let (lookups, started) = by_hand(|_| panic!("of a test"));
        let lookup = lookups.begin("a");
        let work = next(&started);
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        assert!(ended.is_err());
        assert_eq!(
            poll(&lookup),
            Poll::Ready(Err("the name was not looked up".into()))
        );
    }
}
