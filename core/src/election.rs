//! Leader election: one of several processes does the work, and another takes over when it no
//! longer can.
//!
//! There is no protocol of its own for it. A candidate waits for an ordinary lock for as long as it
//! takes, in the queue of that lock, and leads as long as it holds it. What is hard is what goes
//! around that, and is here once for all languages: the candidate checks that it leads before each
//! step of the work, the work has ended before the next term is asked for, and work that fails at
//! once is not begun again at once.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::clock::Instant;
use crate::config::{LockOptions, lock_option_setters};
use crate::error::Error;
use crate::inspect::{Holder, Inspection, Verdict};
use crate::lease::{Lease, Lost};
use crate::lock::Lock;
use crate::mutex::lock;
use crate::protocol::loss::LossReason;
use crate::protocol::retry::campaign_pause;
use crate::token::{Rng, SystemRng};

/// How often [`Election::observe`] looks, unless the program says otherwise.
const LOOKS: Duration = Duration::from_secs(1);

/// One candidate of an election; made by [`Client::election`](crate::Client::election).
/// Cheap to clone; clones are the same candidate.
///
/// The election of a name is the lock of that name: its holder leads. It is waited for without end,
/// each release goes over the nodes where all candidates queue, and a term lasts until it is given
/// up or lost. The fence of a term grows from term to term.
///
/// ```no_run
/// # async fn schedule_jobs() -> Result<(), std::io::Error> { Ok(()) }
/// # async fn f(client: quorlock::Client) -> Result<(), quorlock::Error> {
/// let election = client.election("scheduler");
/// // Leads again and again, until `schedule_jobs` is done.
/// election.run(|term| async move {
///     println!("leads with term {:?}", term.fence());
///     schedule_jobs().await
/// }).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "a candidate leads nothing until it campaigns"]
pub struct Election {
    pub(crate) lock: Lock,
    again: bool,
    on_lost: Option<Arc<dyn Fn(LossReason) + Send + Sync>>,
    on_stopped: Option<Arc<dyn Fn() + Send + Sync>>,
    seat: Arc<Mutex<Option<RunningTerm>>>,
}

/// The term that a candidate has.
struct RunningTerm {
    term: Weak<Lease>,
    run: Option<Run>,
}

/// What ends the work of a term before that is given up.
struct Run {
    asked: oneshot::Sender<ResignReply>,
    at_work: Arc<WorkThread>,
}

/// Where goes whether the term was still held when it was given up.
type ResignReply = oneshot::Sender<bool>;

/// The thread that runs code of the caller's for a term: a step of the work, its end, or a
/// callback.
#[derive(Default)]
struct WorkThread(Mutex<Option<ThreadId>>);

impl WorkThread {
    /// As long as the result lives.
    fn begin(&self) -> WorkThreadGuard<'_> {
        *lock(&self.0) = Some(thread::current().id());
        WorkThreadGuard(self)
    }

    fn thread(&self) -> Option<ThreadId> {
        *lock(&self.0)
    }
}

struct WorkThreadGuard<'a>(&'a WorkThread);

impl Drop for WorkThreadGuard<'_> {
    fn drop(&mut self) {
        *lock(&self.0.0) = None;
    }
}

lock_option_setters!(Election);

impl Election {
    pub(crate) fn new(lock: Lock) -> Election {
        Election {
            lock,
            again: false,
            on_lost: None,
            on_stopped: None,
            seat: Arc::default(),
        }
    }

    fn change(mut self, change: impl FnOnce(&mut LockOptions)) -> Election {
        self.lock = self.lock.change(change);
        self
    }

    /// Whether [`run`](Election::run) campaigns again after work that ended well. Off.
    pub fn again(mut self, again: bool) -> Election {
        self.again = again;
        self
    }

    /// What [`run`](Election::run) calls when a term was lost, after it has dropped the work
    /// and before it calls what [`on_stopped`](Election::on_stopped) was given.
    pub fn on_lost(mut self, told: impl Fn(LossReason) + Send + Sync + 'static) -> Election {
        self.on_lost = Some(Arc::new(told));
        self
    }

    /// What [`run`](Election::run) calls when the work of a term has ended, whatever ended
    /// it, be it a panic or that the run is dropped: from here on this candidate does nothing of
    /// it any more.
    pub fn on_stopped(mut self, told: impl Fn() + Send + Sync + 'static) -> Election {
        self.on_stopped = Some(Arc::new(told));
        self
    }

    /// The election's name, as given.
    pub fn name(&self) -> &[u8] {
        self.lock.name()
    }

    /// Checks name and options without campaigning.
    ///
    /// # Errors
    ///
    /// As [`Lock::check`]; `InvalidArgument`, too, of a lock that is shared or has slots.
    pub fn check(&self) -> Result<(), Error> {
        self.lock.check()
    }

    /// Waits until this candidate leads, and returns its term: for programs that loop by
    /// themselves. The term is a lease like any other: release it to resign, and stop at
    /// [`lost`](Lease::lost).
    ///
    /// A candidate that leads already and campaigns once more waits for its own term to end.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire`]; `Timeout` only where [`wait`](Election::wait) was given.
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`]: the candidate leaves the line.
    pub async fn campaign(&self) -> Result<Arc<Lease>, Error> {
        let term = Arc::new(self.lock.acquire().await?);
        self.take_seat(&term, None);
        Ok(term)
    }

    /// Campaigns, and does `work` while it leads; again and again.
    ///
    /// - `work` is given its term, and is called and polled only while that is held: before each
    ///   step of it this asks the clock. Where the term is over, `work` is dropped without another
    ///   instruction of it: so a process that was stopped for a while and goes on does not go
    ///   on with the work of a leader. What it has spawned or handed to threads is not
    ///   dropped: that has to look at the term, or to give its fence to what it writes to.
    /// - After a loss it campaigns again. `work` has been dropped before.
    /// - After `Ok` it resigns and returns that; with [`again`](Election::again) it campaigns
    ///   again, 100 ms after `work` was begun at the earliest.
    /// - After `Err` it resigns, tells the log, pauses and campaigns again: at first for 0.5
    ///   to 1 s, so that another candidate may do better, and for twice as long each time up
    ///   to 30 s. A term of more than 30 s makes the next pause short again.
    ///
    /// The [`wait`](Election::wait) of the election does not count here.
    ///
    /// # Errors
    ///
    /// What ends it for good: `Misconfigured`, `InvalidArgument`, `TooManyWaiters`, `Closed`,
    /// `Forked`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work`, and resigns in the background.
    pub async fn run<T, E, W>(&self, mut work: impl FnMut(Arc<Lease>) -> W) -> Result<T, Error>
    where
        W: Future<Output = Result<T, E>>,
        E: fmt::Display,
    {
        let patient = self.lock.clone().wait(None);
        let set = self.lock.running()?.set.clone();
        let mut failures = Failures::default();
        loop {
            let term = Arc::new(patient.acquire().await?);
            let (resign, asked) = oneshot::channel();
            let at_work = Arc::new(WorkThread::default());
            let run = Run {
                asked: resign,
                at_work: at_work.clone(),
            };
            self.take_seat(&term, Some(run));
            // Gives it up, too, where this future is dropped.
            let seat = TermGuard(&term);
            let stopped = EndReport(self.on_stopped.as_deref());
            let begun = set.clock.now();
            let ended = lead(&term, || work(term.clone()), asked, &at_work).await;
            let telling = at_work.begin();
            let loss = term.loss();
            if let (Some(reason), Some(told)) = (loss, &self.on_lost) {
                told(reason);
            }
            drop(stopped);
            drop(telling);
            let led = begun.until(set.clock.now());
            let held = term.release().await?;
            drop(seat);
            match ended {
                TermEnd::Lost => {}
                TermEnd::Asked(answer) => drop(answer.send(held)),
                TermEnd::Done(Ok(done)) if !self.again => return Ok(done),
                TermEnd::Done(Ok(_)) => self.pause(failures.none_after(led)).await?,
                // It could do no better.
                TermEnd::Done(Err(_)) if loss.is_some() => {}
                TermEnd::Done(Err(error)) => {
                    let pause = failures.pause(led, &*set.rng);
                    self.tell_failed(&error, Some(pause));
                    self.pause(pause).await?;
                }
            }
        }
    }

    fn take_seat(&self, term: &Arc<Lease>, run: Option<Run>) {
        let term = Arc::downgrade(term);
        *lock(&self.seat) = Some(RunningTerm { term, run });
    }

    /// Whether this candidate leads now. Exact at every call, as [`Lease::is_held`].
    pub fn is_leader(&self) -> bool {
        let seat = lock(&self.seat);
        let term = seat.as_ref().and_then(|seated| seated.term.upgrade());
        drop(seat);
        term.is_some_and(|term| term.is_held())
    }

    /// Gives up the term that this candidate has, so that the next one is called; it may
    /// campaign again. Returns whether it still led; false where it has no term.
    ///
    /// Where [`run`](Election::run) has that term, the work is dropped first, and it campaigns
    /// again behind the others. A step of the work that is under way is waited for. A run that is
    /// not polled, as where a `select!` has gone on to another branch, can drop nothing: it does
    /// no further step, the term is given up after the client's node timeout, and the work is
    /// dropped with the run, or when that is polled again.
    ///
    /// # Errors
    ///
    /// As [`Lease::release`].
    ///
    /// # Cancel safety
    ///
    /// Once polled the term is given up: where this future is dropped, at once or behind the step
    /// that is under way.
    pub async fn resign(&self) -> Result<bool, Error> {
        let Some(seated) = lock(&self.seat).take() else {
            return Ok(false);
        };
        let Some(term) = seated.term.upgrade() else {
            return Ok(false);
        };
        let led = term.is_held();
        let _leaving;
        if let (Some(run), Ok(client)) = (seated.run, self.lock.running()) {
            let (answer, mut answered) = oneshot::channel();
            let asked = run.asked.send(answer).is_ok();
            _leaving = ResignGuard {
                term: &term,
                at_work: run.at_work.clone(),
            };
            let sleep = || {
                let until = client.set.clock.now() + client.settings.node_timeout;
                client.set.clock.sleep_until(until)
            };
            let mut patience = sleep();
            let ended = poll_fn(|cx| {
                if let Poll::Ready(held) = Pin::new(&mut answered).poll(cx) {
                    return Poll::Ready(held.ok());
                }
                while patience.as_mut().poll(cx).is_ready() {
                    // What works on this thread waits for this very call.
                    let here = thread::current().id();
                    if run.at_work.thread().is_none_or(|thread| thread == here) {
                        return Poll::Ready(None);
                    }
                    patience = sleep();
                }
                Poll::Pending
            });
            if asked && let Some(held) = ended.await {
                return Ok(held);
            }
        }
        // The run may have given it up meanwhile.
        Ok(term.release().await? || led && term.loss().is_none())
    }

    /// The leader, as a quorum of the nodes has it; `None` where a quorum agrees on no leader. One
    /// request to each node, as of [`Lock::inspect`].
    ///
    /// It tells how it was: it may have lost the term since.
    ///
    /// # Errors
    ///
    /// As [`Lock::holder`]: `QuorumUnavailable` where too few nodes answered to know.
    pub async fn leader(&self) -> Result<Option<Holder>, Error> {
        let found = self.lock.look().await?;
        match leadership(&found) {
            Leadership::Unknown => Err(found.unknown()),
            Leadership::Vacant => Ok(None),
            Leadership::Led(leader) => Ok(Some(leader)),
        }
    }

    /// Follows the leadership: [`next`](Observer::next) returns how it is, and then each change. It
    /// looks every second, or as often as `every` says.
    pub fn observe(&self, every: impl Into<Option<Duration>>) -> Observer {
        Observer {
            lock: self.lock.clone(),
            every: every.into().unwrap_or(LOOKS),
            last: None,
        }
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election")
            .field("lock", &self.lock)
            .field("is_leader", &self.is_leader())
            .finish_non_exhaustive()
    }
}

/// Ends at `until`, or when the client is closed.
pub(crate) async fn rest(lock: &Lock, until: Instant) -> Result<(), Error> {
    let client = lock.running()?;
    // A waiter hears there that the client is closed. It stands in no queue.
    let told = client.inbox.register(&lock.id()?);
    let mut sleep = client.set.clock.sleep_until(until);
    poll_fn(|cx| {
        while told.poll_notice(cx).is_ready() {
            if client.is_closed() {
                return Poll::Ready(());
            }
        }
        sleep.as_mut().poll(cx)
    })
    .await;
    Ok(())
}

/// A term that is given up where it is left.
struct TermGuard<'a>(&'a Lease);

impl Drop for TermGuard<'_> {
    fn drop(&mut self) {
        // Once polled, a release is on its way.
        let _ = pin!(self.0.release()).poll(&mut Context::from_waker(Waker::noop()));
    }
}

/// Dropped when the work of a term has ended, and reports that.
struct EndReport<'a>(Option<&'a (dyn Fn() + Send + Sync)>);

impl Drop for EndReport<'_> {
    fn drop(&mut self) {
        match self.0 {
            // A second panic would end the process.
            Some(told) if thread::panicking() => drop(catch_unwind(AssertUnwindSafe(told))),
            Some(told) => told(),
            None => {}
        }
    }
}

/// A resignation that a run was asked for, which may never be polled again.
struct ResignGuard<'a> {
    term: &'a Lease,
    at_work: Arc<WorkThread>,
}

impl Drop for ResignGuard<'_> {
    fn drop(&mut self) {
        // The run looks behind each step whether it was asked.
        if self.at_work.thread().is_none() {
            drop(TermGuard(self.term));
        }
    }
}

/// What ended the work of a term.
enum TermEnd<T> {
    /// The term was lost.
    Lost,
    /// A caller wants the term given up.
    Asked(ResignReply),
    Done(T),
}

/// Does the work while the term is held and no caller asks for it to be given up. The work is
/// dropped when this returns.
async fn lead<W: Future>(
    term: &Lease,
    work: impl FnOnce() -> W,
    mut asked: oneshot::Receiver<ResignReply>,
    at_work: &WorkThread,
) -> TermEnd<W::Output> {
    // It may be over already: what makes the work is a step of it, too.
    if !term.is_held() {
        return TermEnd::Lost;
    }
    // Lives longer than the work.
    let mut _ending = None;
    let step = at_work.begin();
    let mut work = pin!(work());
    drop(step);
    let mut lost: Lost = term.lost();
    let ended = poll_fn(|cx| {
        let told = Pin::new(&mut lost).poll(cx).is_ready();
        // The watchdog may not have seen the loss so far: the clock is asked.
        if told || !term.is_held() {
            return Poll::Ready(TermEnd::Lost);
        }
        // Says so before it asks: a resignation that is not seen here sees this.
        let step = at_work.begin();
        let mut resigned = |cx: &mut Context<'_>| match Pin::new(&mut asked).poll(cx) {
            Poll::Ready(Ok(answer)) => Some(TermEnd::Asked(answer)),
            _ => None,
        };
        if let Some(asked) = resigned(cx) {
            return Poll::Ready(asked);
        }
        if let Poll::Ready(done) = work.as_mut().poll(cx) {
            return Poll::Ready(TermEnd::Done(done));
        }
        drop(step);
        // This may not be polled again.
        resigned(cx).map_or(Poll::Pending, Poll::Ready)
    })
    .await;
    _ending = Some(at_work.begin());
    ended
}

/// Work that has nothing to do, and says so at once, is begun no more often than this.
const BETWEEN_TERMS: Duration = Duration::from_millis(100);

/// Terms in a row whose work failed.
#[derive(Debug, Default)]
pub struct Failures(u32);

impl Failures {
    /// For bindings: how long to pause after another term, which lasted for `led`, before
    /// the next is asked for.
    pub fn pause_after(&mut self, led: Duration) -> Duration {
        self.pause(led, &SystemRng)
    }

    /// For bindings: how long to pause after a term whose work ended well after `led`, before the
    /// next is asked for.
    pub fn none_after(&mut self, led: Duration) -> Duration {
        self.0 = 0;
        BETWEEN_TERMS.saturating_sub(led)
    }

    /// See [`Election::run`].
    pub(crate) fn pause(&mut self, led: Duration, rng: &dyn Rng) -> Duration {
        let (_, longest) = campaign_pause(u32::MAX);
        if led > longest {
            self.0 = 0;
        }
        let (low, high) = campaign_pause(self.0);
        self.0 = self.0.saturating_add(1);
        rng.between(low, high)
    }
}

/// The leadership, as far as the nodes say: see [`Election::observe`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Leadership {
    /// A quorum has the votes of this leader.
    Led(Holder),
    /// A quorum has answered, and agrees on no leader.
    Vacant,
    /// Too few nodes answered to know.
    Unknown,
}

impl Leadership {
    /// The leader; `None` where there is none, or it is not known.
    pub fn leader(&self) -> Option<&Holder> {
        match self {
            Leadership::Led(leader) => Some(leader),
            _ => None,
        }
    }

    /// Whether the nodes said it: not [`Unknown`](Leadership::Unknown).
    pub fn is_known(&self) -> bool {
        *self != Leadership::Unknown
    }
}

fn leadership(found: &Inspection) -> Leadership {
    match (found.verdict(), found.holder()) {
        (Verdict::Unknown, _) => Leadership::Unknown,
        (Verdict::Held, Some(holder)) => Leadership::Led(holder.clone()),
        _ => Leadership::Vacant,
    }
}

/// Follows the leadership: see [`Election::observe`]. A clone goes on from where this has come to.
#[derive(Clone, Debug)]
pub struct Observer {
    pub(crate) lock: Lock,
    every: Duration,
    last: Option<Inspection>,
}

impl Observer {
    /// How it is, at the first call; after that the next change, whenever that comes. A term that
    /// was shorter than the time between two looks may be left out. Where too few nodes answer it
    /// says so, and never names the previous leader.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, `Closed`, `Forked`. That nodes do not answer is no error, but
    /// [`Unknown`](Leadership::Unknown).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a change that was not returned is returned by the next call.
    pub async fn next(&mut self) -> Result<Leadership, Error> {
        if self.every.is_zero() {
            return Err(Error::invalid(
                "every is 0: give the time between two looks, such as 1 s",
            ));
        }
        let set = self.lock.running()?.set.clone();
        loop {
            let looked = set.clock.now();
            let found = self.lock.look().await?;
            let now = leadership(&found);
            // A lock that is split has no certain holder, and a free one has none.
            let same = |last: &Inspection| match (leadership(last), &now) {
                (Leadership::Led(_), Leadership::Led(_)) => last.is_like(&found),
                (last, now) => last == *now,
            };
            if !self.last.as_ref().is_some_and(same) {
                self.last = Some(found);
                return Ok(now);
            }
            rest(&self.lock, looked + self.every).await?;
        }
    }
}

#[cfg(test)]
mod tests;
