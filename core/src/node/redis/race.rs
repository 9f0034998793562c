//! Reaching a host that has several addresses, of which some may swallow what is sent to
//! them: they are tried side by side, each a little later than the one before it (RFC 8305,
//! "Happy Eyeballs").

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::clock::{Clock, Sleep};
use crate::runtime::lookups::Lookup;

/// How long an address is tried before the next is tried beside it.
const BESIDE: Duration = Duration::from_millis(250);
/// How long a look-up may take before the addresses of the one before are tried.
const GRACE: Duration = Duration::from_millis(50);

/// Connects to the host that `lookup` finds: to the address that answers first. While the
/// look-up takes its time, or where it fails, the addresses of the one before do.
pub(super) async fn race<T, C>(
    lookup: Lookup,
    clock: &Arc<dyn Clock>,
    connect: impl Fn(SocketAddr) -> C,
) -> io::Result<T>
where
    C: Future<Output = io::Result<T>>,
{
    let after = |wait| clock.sleep_until(clock.now() + wait);
    let mut before = Some(lookup.before()).filter(|before| !before.is_empty());
    let mut grace = after(GRACE);
    let mut found = None;
    let mut race = Race {
        connect,
        left: VecDeque::new(),
        tried: Vec::new(),
        under_way: Vec::new(),
        pause: None,
        failed: None,
    };
    poll_fn(|cx| {
        if found.is_none()
            && let Poll::Ready(told) = lookup.poll(cx)
        {
            found = Some(told.map(|addresses| {
                before = None;
                race.leads_to(addresses);
            }));
        }
        let serves = before.is_some()
            && (matches!(found, Some(Err(_))) || grace.as_mut().poll(cx).is_ready());
        if serves && let Some(addresses) = before.take() {
            race.leads_to(addresses);
        }
        if let Poll::Ready(won) = race.poll(cx, &after) {
            return Poll::Ready(Ok(won));
        }
        match &mut found {
            Some(told) if race.under_way.is_empty() => {
                let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                let told = std::mem::replace(told, Ok(()));
                Poll::Ready(Err(told.err().or(race.failed.take()).unwrap_or_else(none)))
            }
            _ => Poll::Pending,
        }
    })
    .await
}

struct Race<F, C> {
    connect: F,
    /// The addresses that are yet to be tried,
    left: VecDeque<SocketAddr>,
    /// those that are being or were tried,
    tried: Vec<SocketAddr>,
    /// and those that may still answer.
    under_way: Vec<(SocketAddr, Pin<Box<C>>)>,
    /// Ends when the next address is tried beside those.
    pause: Option<Sleep>,
    failed: Option<io::Error>,
}

impl<T, F, C> Race<F, C>
where
    F: Fn(SocketAddr) -> C,
    C: Future<Output = io::Result<T>>,
{
    /// Takes the host's addresses as they are now: attempts at others are dropped.
    fn leads_to(&mut self, addresses: Vec<SocketAddr>) {
        self.under_way.retain(|(at, _)| addresses.contains(at));
        if self.under_way.is_empty() {
            self.pause = None;
        }
        self.left = interleaved(addresses);
        self.left.retain(|at| !self.tried.contains(at));
    }

    fn poll(&mut self, cx: &mut Context<'_>, after: &impl Fn(Duration) -> Sleep) -> Poll<T> {
        loop {
            let mut i = 0;
            while i < self.under_way.len() {
                match self.under_way[i].1.as_mut().poll(cx) {
                    Poll::Ready(Ok(won)) => return Poll::Ready(won),
                    Poll::Ready(Err(error)) => {
                        drop(self.under_way.swap_remove(i));
                        // The next address need not wait for an attempt that has failed.
                        self.pause = None;
                        self.note(error);
                    }
                    Poll::Pending => i += 1,
                }
            }
            if let Some(pause) = &mut self.pause
                && pause.as_mut().poll(cx).is_pending()
            {
                return Poll::Pending;
            }
            self.pause = None;
            let Some(next) = self.left.pop_front() else {
                return Poll::Pending;
            };
            self.tried.push(next);
            self.under_way.push((next, Box::pin((self.connect)(next))));
            self.pause = Some(after(BESIDE));
        }
    }

    /// The host refuses where all of its addresses do: a server may hang behind another.
    fn note(&mut self, error: io::Error) {
        match &self.failed {
            Some(before) if before.kind() != io::ErrorKind::ConnectionRefused => {}
            _ => self.failed = Some(error),
        }
    }
}

/// The addresses in their order, but of IPv6 and IPv4 by turns: all of one kind may be cut off.
fn interleaved(addresses: Vec<SocketAddr>) -> VecDeque<SocketAddr> {
    let first = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (one, other): (Vec<SocketAddr>, Vec<SocketAddr>) =
        addresses.into_iter().partition(|at| at.is_ipv6() == first);
    let mut turns = VecDeque::new();
    for place in 0..one.len().max(other.len()) {
        turns.extend(one.get(place).into_iter().chain(other.get(place)).copied());
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Instant;
    use crate::mutex::lock;
    use crate::runtime::lookups::Lookups;
    use std::collections::HashMap;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Goes on as a test says.
    struct ByHand(Arc<AtomicU64>);

    impl Clock for ByHand {
        fn now(&self) -> Instant {
            Instant(self.0.load(Ordering::Relaxed))
        }

        fn sleep_until(&self, at: Instant) -> Sleep {
            let now = self.0.clone();
            Box::pin(poll_fn(move |_| {
                if now.load(Ordering::Relaxed) >= at.0 {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            }))
        }
    }

    type Addresses = Option<Result<Vec<SocketAddr>, ()>>;
    type Work = Box<dyn FnOnce() + Send>;
    type Answers = Arc<Mutex<HashMap<SocketAddr, io::ErrorKind>>>;
    type Racing = Pin<Box<dyn Future<Output = io::Result<SocketAddr>>>>;

    /// A host whose name, servers and time are played by hand.
    struct World {
        now: Arc<AtomicU64>,
        clock: Arc<dyn Clock>,
        lookups: Lookups,
        /// What the name has, and whether a look-up comes to an end.
        found: Arc<Mutex<Addresses>>,
        asked: Arc<Mutex<Vec<Work>>>,
        /// What has been tried, and how which answers; the others swallow all.
        tried: Arc<Mutex<Vec<SocketAddr>>>,
        refuse: Answers,
        open: Arc<Mutex<Vec<SocketAddr>>>,
    }

    impl World {
        fn new() -> World {
            let now = Arc::new(AtomicU64::new(1_000));
            let found = Arc::<Mutex<Addresses>>::default();
            let asked = Arc::<Mutex<Vec<Work>>>::default();
            let (told, queue) = (found.clone(), asked.clone());
            World {
                clock: Arc::new(ByHand(now.clone())),
                now,
                lookups: Lookups::by(
                    move |_| {
                        let told = lock(&told).clone().expect("nothing is looked up yet");
                        told.map_err(|()| io::Error::other("no name server"))
                    },
                    move |work| {
                        lock(&queue).push(work);
                        Ok(())
                    },
                ),
                found,
                asked,
                tried: Arc::default(),
                refuse: Arc::default(),
                open: Arc::default(),
            }
        }

        /// The look-ups that are under way end so.
        fn finds(&self, found: Result<&[&str], ()>) {
            let addresses = found.map(|found| found.iter().map(|text| at(text)).collect());
            *lock(&self.found) = Some(addresses);
            let asked = std::mem::take(&mut *lock(&self.asked));
            asked.into_iter().for_each(|work| work());
        }

        fn begins(&self) -> Racing {
            let lookup = self.lookups.begin("host");
            let (tried, refuse, open) =
                (self.tried.clone(), self.refuse.clone(), self.open.clone());
            let clock = self.clock.clone();
            Box::pin(async move {
                let connect = |to: SocketAddr| {
                    lock(&tried).push(to);
                    let (refuse, open) = (refuse.clone(), open.clone());
                    poll_fn(move |_| {
                        if let Some(kind) = lock(&refuse).get(&to) {
                            return Poll::Ready(Err((*kind).into()));
                        }
                        if lock(&open).contains(&to) {
                            Poll::Ready(Ok(to))
                        } else {
                            Poll::Pending
                        }
                    })
                };
                race(lookup, &clock, connect).await
            })
        }

        fn passes(&self, ms: u64) {
            self.now.fetch_add(ms * 1_000_000, Ordering::Relaxed);
        }

        fn tried(&self) -> Vec<SocketAddr> {
            lock(&self.tried).clone()
        }
    }

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn poll(racing: &mut Racing) -> Poll<io::Result<SocketAddr>> {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        racing.as_mut().poll(&mut cx)
    }

    fn won(racing: &mut Racing) -> Option<SocketAddr> {
        match poll(racing) {
            Poll::Ready(Ok(won)) => Some(won),
            _ => None,
        }
    }

    const A: &str = "10.0.0.1:1";
    const B: &str = "10.0.0.2:1";
    const C: &str = "[fd00::1]:1";

    #[test]
    fn an_address_that_swallows_all_holds_up_the_next_for_250_ms() {
        let world = World::new();
        let mut racing = world.begins();
        world.finds(Ok(&[A, B]));
        lock(&world.open).push(at(B));
        assert!(poll(&mut racing).is_pending());
        world.passes(249);
        assert!(poll(&mut racing).is_pending());
        assert_eq!(world.tried(), [at(A)]);
        world.passes(1);
        assert_eq!(won(&mut racing), Some(at(B)));
    }

    #[test]
    fn the_first_answers_late_and_is_taken_though_the_next_is_tried() {
        let world = World::new();
        let mut racing = world.begins();
        world.finds(Ok(&[A, B]));
        assert!(poll(&mut racing).is_pending());
        world.passes(250);
        assert!(poll(&mut racing).is_pending());
        assert_eq!(world.tried(), [at(A), at(B)]);
        lock(&world.open).push(at(A));
        assert_eq!(won(&mut racing), Some(at(A)));
    }

    #[test]
    fn one_that_refuses_is_followed_at_once_and_the_kinds_take_turns() {
        let world = World::new();
        let mut racing = world.begins();
        world.finds(Ok(&[A, B, C]));
        let refused = io::ErrorKind::ConnectionRefused;
        lock(&world.refuse).extend([(at(A), refused), (at(C), refused)]);
        assert!(poll(&mut racing).is_pending());
        assert_eq!(world.tried(), [at(A), at(C), at(B)]);
        lock(&world.refuse).insert(at(B), io::ErrorKind::HostUnreachable);
        let Poll::Ready(Err(error)) = poll(&mut racing) else {
            panic!("all have failed");
        };
        assert_eq!(error.kind(), io::ErrorKind::HostUnreachable);
    }

    #[test]
    fn the_addresses_before_serve_while_a_look_up_hangs_or_where_it_fails() {
        let world = World::new();
        lock(&world.open).push(at(A));
        let mut first = world.begins();
        world.finds(Ok(&[A]));
        assert_eq!(won(&mut first), Some(at(A)));
        // The attempt hangs.
        let mut hung = world.begins();
        assert!(poll(&mut hung).is_pending());
        world.passes(50);
        assert_eq!(won(&mut hung), Some(at(A)));
        // The attempt fails at once.
        let mut failed = world.begins();
        world.finds(Err(()));
        assert_eq!(won(&mut failed), Some(at(A)));
        // The look-up's failure is reported where the addresses before are not reached.
        lock(&world.open).clear();
        lock(&world.refuse).insert(at(A), io::ErrorKind::ConnectionRefused);
        let mut neither = world.begins();
        world.finds(Err(()));
        let Poll::Ready(Err(error)) = poll(&mut neither) else {
            panic!("nothing is under way");
        };
        assert_eq!(error.to_string(), "no name server");
    }

    #[test]
    fn an_address_that_the_name_has_no_more_is_given_up() {
        let world = World::new();
        lock(&world.open).push(at(A));
        let mut first = world.begins();
        world.finds(Ok(&[A]));
        assert_eq!(won(&mut first), Some(at(A)));
        lock(&world.open).clear();
        let mut second = world.begins();
        assert!(poll(&mut second).is_pending());
        world.passes(50);
        assert!(poll(&mut second).is_pending());
        assert_eq!(world.tried()[1..], [at(A)]);
        world.finds(Ok(&[B]));
        assert!(poll(&mut second).is_pending());
        lock(&world.open).extend([at(A), at(B)]);
        assert_eq!(won(&mut second), Some(at(B)));
    }
}
