//! Leader election: one of several processes does the work, and another takes over when it
//! no longer can. The work runs on the thread that calls; what goes around it is here.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use quorlock_core::binding::{Failures, Owned, PerProcess, lock};
use quorlock_core::{Election, Error, ErrorKind, Leadership, Lease, Lock, LossReason, Observer};

use crate::cancel::{CancelSignal, quorlock_cancel_t, unless_used};
use crate::client::quorlock_client_t;
use crate::error::quorlock_error_t;
use crate::handle::{self, Handle, Shareable, wait};
use crate::inspection::{HolderTexts, quorlock_holder_t};
use crate::lease::{LossCallback, QUORLOCK_LEASE_RELEASED, quorlock_lease_t, quorlock_lost_callback_t, tell};
use crate::lock_options::quorlock_lock_options_t;
use crate::time::QUORLOCK_DEFAULT;

/// One candidate of an election. The candidate that holds the lock of its name leads, for a
/// term; the fence of a term grows from term to term. A term has no owner: it is not entered again,
/// and does not end with a thread. May be used by all threads at once, for one term at a
/// time.
pub struct quorlock_election_t(Arc<Candidate>);

impl Handle for quorlock_election_t {
    fn starts_anew(&self) -> bool {
        self.0.lock.is_ours()
    }
}

impl Shareable for quorlock_election_t {
    type Share = Arc<Candidate>;

    fn share(&self) -> Arc<Candidate> {
        self.0.clone()
    }
}

pub(crate) struct Candidate {
    core: Election,
    lock: Lock,
    /// A fork may come while it is locked, before the client is used.
    seat: PerProcess<Mutex<Option<Seat>>>,
}

/// The term that a candidate has.
struct Seat {
    term: Weak<Lease>,
    /// The callback of the work, for the end of the term.
    lost: Option<Arc<LossCallback>>,
}

/// Who leads, as far as the nodes say. It tells how it was. Free it with
/// quorlock_leadership_free().
pub struct quorlock_leadership_t {
    known: bool,
    leader: HolderTexts,
}

impl Handle for quorlock_leadership_t {
    const PLAIN: bool = true;
}

/// Follows who leads. Free it with quorlock_observer_free().
pub struct quorlock_observer_t(Arc<Mutex<Observer>>);

impl Handle for quorlock_observer_t {}

impl Shareable for quorlock_observer_t {
    type Share = Arc<Mutex<Observer>>;

    fn share(&self) -> Arc<Mutex<Observer>> {
        self.0.clone()
    }
}

/// The work of a leader: called by quorlock_election_run(), on its thread, when the
/// candidate leads. `term` is lent until it returns: look at quorlock_lease_is_held() before
/// each step that only a leader may do, and give quorlock_lease_fence() to what you write
/// to. Do not free it.
///
/// Returns 0 when the work is done; any other number says that it failed. It may then have
/// written a text to `why`, for the log: at most `room` bytes, with the NUL at the end. It
/// must not throw.
pub type quorlock_work_callback_t = Option<
    unsafe extern "C" fn(userdata: *mut c_void, term: *const quorlock_lease_t, why: *mut c_char, room: usize) -> i32,
>;

/// Called by quorlock_election_run(), on its thread, when the work of a term has returned,
/// whatever ended it: from here on the candidate does nothing of that term. It must not
/// throw.
pub type quorlock_stopped_callback_t = Option<unsafe extern "C" fn(userdata: *mut c_void)>;

type Work = unsafe extern "C" fn(*mut c_void, *const quorlock_lease_t, *mut c_char, usize) -> i32;

/// The longest text that a failure may have, with its NUL.
const ROOM: usize = 512;

/// What C wants to be called.
#[derive(Clone, Copy)]
struct Calls {
    userdata: *mut c_void,
    work: Work,
    lost: quorlock_lost_callback_t,
    stopped: quorlock_stopped_callback_t,
}

/// A term as it is lent to C.
struct LentTerm(*mut quorlock_lease_t);

impl Drop for LentTerm {
    fn drop(&mut self) {
        let _ = handle::free(self.0);
    }
}

/// How the work of a term has ended.
struct Outcome {
    /// Whether the term was held to the end.
    held: bool,
    led: Duration,
    failed: Option<String>,
}

fn forked() -> Error {
    let message = "the process was forked within the work of a leader: a forked child leads nothing";
    Error::from_binding(ErrorKind::Forked, message)
}

impl Candidate {
    fn take_seat(&self, term: &Arc<Lease>, lost: Option<Arc<LossCallback>>) {
        *lock(self.seat.get()) = Some(Seat { term: Arc::downgrade(term), lost });
    }

    /// The term that it has is over, unless it has another.
    fn leave_seat(&self, term: &Arc<Lease>) {
        let mut seat = lock(self.seat.get());
        if seat.as_ref().is_some_and(|seat| seat.term.as_ptr() == Arc::as_ptr(term)) {
            *seat = None;
        }
    }

    fn is_leader(&self) -> bool {
        let seat = lock(self.seat.get());
        let term = seat.as_ref().and_then(|seat| seat.term.upgrade());
        // The term may be the last of its kind, and is then given up.
        drop(seat);
        term.is_some_and(|term| term.is_held())
    }

    /// The next term; none if it was lost before the thread went on.
    fn elected(&self, signal: &CancelSignal) -> Result<Option<Lease>, Error> {
        let patient = self.lock.clone().wait(None);
        let won = wait(signal.clone().unless_used(async move { patient.win().await }))?;
        Ok(won.delivered().ok())
    }

    fn resign(&self) -> Result<bool, Error> {
        let seat = lock(self.seat.get()).take();
        let Some((term, lost)) = seat.and_then(|seat| Some((seat.term.upgrade()?, seat.lost))) else {
            return Ok(false);
        };
        let released = term.clone();
        let mut release = Box::pin(async move { released.release().await });
        // From here on it is over, so that the callback finds it so.
        let begun = release.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let Some(lost) = lost {
            lost.tell(term.loss().map_or(QUORLOCK_LEASE_RELEASED, LossReason::number));
        }
        match begun {
            Poll::Ready(held) => held,
            Poll::Pending => wait(release),
        }
    }
}

/// Leads for one term, and gives it up when the work has returned.
fn lead(candidate: &Owned<Arc<Candidate>>, term: Lease, calls: Calls) -> Result<Outcome, Error> {
    let term = Owned::new(Arc::new(term));
    let lost = Owned::new(Arc::new(LossCallback::default()));
    let led = Owned::new(candidate.core.stopwatch()?);
    lost.set(ptr::null(), calls.userdata, calls.lost, |lost| {
        term.on_lost(move |reason| lost.arrive(reason.number()));
    })?;
    candidate.take_seat(&term, Some(Arc::clone(&lost)));
    let lent = LentTerm(handle::boxed(quorlock_lease_t::shared(Arc::clone(&term))));
    let mut why = [0; ROOM];
    // SAFETY: by the header's contract it can be called with its userdata as long as the run
    // lasts, and writes no more than there is room for.
    let code = unsafe { (calls.work)(calls.userdata, lent.0, why.as_mut_ptr(), ROOM) };
    if !candidate.is_ours() {
        return Err(forked());
    }
    let (held, led) = (term.is_held(), led());
    match term.loss() {
        // The callback is called now, if no thread of the library's has come to that.
        Some(reason) => drop(lost.tell(reason.number())),
        None => lost.forget(),
    }
    if let Some(stopped) = calls.stopped {
        // SAFETY: as above.
        unsafe { stopped(calls.userdata) };
    }
    if !candidate.is_ours() {
        return Err(forked());
    }
    candidate.leave_seat(&term);
    drop(lent);
    let given_up = Arc::clone(&term);
    let released = wait(async move { given_up.release().await })?;
    Ok(Outcome { held: held && released, led, failed: (code != 0).then(|| reason(code, &why)) })
}

/// Why the work failed, as it has written it.
fn reason(code: i32, why: &[c_char; ROOM]) -> String {
    let why = why.map(|letter| letter.to_ne_bytes()[0]);
    match CStr::from_bytes_until_nul(&why) {
        Ok(text) if !text.is_empty() => text.to_string_lossy().into_owned(),
        _ => format!("it returned {code}"),
    }
}

/// Makes a candidate of the election of that name, which is as of quorlock_lock_new().
/// `options` may be NULL, and freed afterwards. What they do not set is as an election
/// wants it: a wait and a term without an end, renewed, each release over the nodes; else
/// as the client has it. An owner is refused, for a term has none; so are shared and slots,
/// for one leads, and a release without confirm.
///
/// Fails with #QUORLOCK_INVALID_ARGUMENT, naming the value and what to give.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_election_new(
    client: *const quorlock_client_t, name: *const c_char, name_len: usize, options: *const quorlock_lock_options_t,
    election: *mut *mut quorlock_election_t, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        handle::wanted(election, "election")?;
        let client = handle::borrow(&client, "client")?;
        let mut lock = client.0.lock(handle::bytes(name, name_len, "name")?).for_election();
        if let Some(options) = handle::maybe(&options, "options")? {
            if options.give_owner()? {
                return Err(handle::invalid("the options name an owner, which an election has not: leave it out"));
            }
            lock = options.apply(lock)?;
        }
        let core = Election::of(lock.clone());
        core.check()?;
        let candidate = Candidate { core, lock, seat: PerProcess::new() };
        handle::give(election, "election", quorlock_election_t(Arc::new(candidate)))
    })
}

/// Frees a candidate. NULL is allowed. Its term stays, and so does a run.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_election_free(election: *mut quorlock_election_t) {
    boundary!({ handle::free(election) });
}

/// Waits until the candidate leads, and gives its term, for programs that loop by themselves: a
/// lease like any other. quorlock_unlock() of it resigns; stop when it is lost. `wait_ms` and
/// `cancel` as of quorlock_lock(); #QUORLOCK_DEFAULT waits without end, unless the options
/// say otherwise. A candidate that leads already and campaigns once more waits for its own
/// term to end.
///
/// Fails as quorlock_lock().
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_election_campaign(
    election: *const quorlock_election_t, wait_ms: i64, cancel: *const quorlock_cancel_t,
    term: *mut *mut quorlock_lease_t, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        handle::wanted(term, "term")?;
        let candidate = handle::share(election, "election")?;
        let mut asked = candidate.lock.clone();
        if wait_ms != QUORLOCK_DEFAULT {
            asked = asked.wait(handle::limit(wait_ms, "wait")?);
        }
        let won = wait(unless_used(handle::maybe(&cancel, "cancel")?, async move { asked.win().await }))?;
        let won = Arc::new(won.delivered()?);
        candidate.take_seat(&won, None);
        handle::give(term, "term", quorlock_lease_t::shared(won))
    })
}

/// Campaigns, and calls `work` when the candidate leads; again and again, until `work` has
/// returned 0 while it led. Returns #QUORLOCK_OK then; with `again` it campaigns again,
/// 100 ms after it called `work` at the earliest.
///
/// `work` runs on the calling thread, where nothing can stop it when the term is lost: it
/// has to look, or `lost` has to stop it. It is not begun again before it has returned.
///
/// - `lost`, if not NULL, is called once when the term is over before `work` has returned,
///   with what quorlock_lease_state() says: the reason of its loss, or
///   #QUORLOCK_LEASE_RELEASED after quorlock_election_resign(). It is called on a thread
///   for loss callbacks, or on the thread that resigns, so that it can have `work` stop
///   now; but for a loss that is seen only when `work` has returned, on the calling thread.
/// - `stopped`, if not NULL, is called when `work` has returned, and after `lost`. Then the
///   term is given up.
///
/// After a term that was lost or given up it campaigns again, whatever `work` returned. If
/// `work` failed while it led, this resigns, tells the log, pauses and campaigns again: at
/// first for 0.5 to 1 s, so that another candidate may do better, and for twice as long each
/// time up to 30 s. A term of more than 30 s makes the next pause short again. The wait of
/// the options does not count here.
///
/// `cancel` may be NULL. Used, it ends the campaign or the pause, with
/// #QUORLOCK_CANCELLED; it does not end `work`, after which this returns as above.
///
/// Fails with what ends it for good: #QUORLOCK_CANCELLED, #QUORLOCK_MISCONFIGURED,
/// #QUORLOCK_INVALID_ARGUMENT, #QUORLOCK_TOO_MANY_WAITERS, #QUORLOCK_CLOSED,
/// #QUORLOCK_FORKED, this also where a child that was forked within `work` comes back here.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_election_run(
    election: *const quorlock_election_t, again: bool, cancel: *const quorlock_cancel_t, userdata: *mut c_void,
    work: quorlock_work_callback_t, lost: quorlock_lost_callback_t, stopped: quorlock_stopped_callback_t,
    error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        let work = work.ok_or_else(|| handle::invalid("work is NULL"))?;
        let calls = Calls { userdata, work, lost, stopped };
        // Both may be freed within the work, and a child may be forked there.
        let candidate = Owned::new(handle::share(election, "election")?);
        let signal = Owned::new(CancelSignal::of(handle::maybe(&cancel, "cancel")?));
        let mut failures = Failures::default();
        loop {
            let Some(term) = candidate.elected(&signal)? else { continue };
            match lead(&candidate, term, calls)? {
                Outcome { held: true, failed: None, .. } if !again => return Ok(()),
                Outcome { held: true, failed: None, led } => {
                    let (core, pause) = (candidate.core.clone(), failures.none_after(led));
                    wait(CancelSignal::clone(&signal).unless_used(async move { core.pause(pause).await }))?;
                }
                Outcome { held: true, failed: Some(why), led } => {
                    let pause = failures.pause_after(led);
                    candidate.core.tell_failed(&why, Some(pause));
                    let core = candidate.core.clone();
                    wait(CancelSignal::clone(&signal).unless_used(async move { core.pause(pause).await }))?;
                }
                Outcome { held: false, failed: Some(why), .. } => candidate.core.tell_failed(&why, None),
                Outcome { held: false, failed: None, .. } => {}
            }
        }
    })
}

/// Whether the candidate leads now. Exact at every call. False for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_election_is_leader(election: *const quorlock_election_t) -> bool {
    boundary!(or false, { Ok(handle::borrow(&election, "election")?.0.is_leader()) })
}

/// Gives up the term that the candidate has, so that the next one is called; it may campaign
/// again. `was_held` may be NULL and tells whether it still led; false where it has no term.
/// The term ends at once, also where quorlock_election_run() has it: its `lost`
/// callback is called, and the run campaigns again when it has returned. Returns as
/// quorlock_unlock().
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_election_resign(
    election: *const quorlock_election_t, was_held: *mut bool, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        let candidate = handle::share(election, "election")?;
        tell(was_held, candidate.resign()?)
    })
}

/// Reports who leads, as a quorum of the nodes has it: one request to each node, at most the
/// node timeout, which waits for the first connections as the connect timeout says. Free the
/// result with quorlock_leadership_free().
///
/// Fails with #QUORLOCK_QUORUM_UNAVAILABLE where too few nodes answered to know;
/// #QUORLOCK_CLOSED, #QUORLOCK_FORKED, #QUORLOCK_INVALID_ARGUMENT.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_election_leader(
    election: *const quorlock_election_t, leadership: *mut *mut quorlock_leadership_t,
    error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        handle::wanted(leadership, "leadership")?;
        let candidate = handle::share(election, "election")?;
        let leader = wait(async move { candidate.core.leader().await })?;
        let found = quorlock_leadership_t { known: true, leader: HolderTexts::of(leader.as_ref()) };
        handle::give(leadership, "leadership", found)
    })
}

/// Whether the nodes said who leads, or that no candidate does: false where too few answered.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_leadership_is_known(leadership: *const quorlock_leadership_t) -> bool {
    boundary!(or false, { Ok(handle::borrow(&leadership, "leadership")?.known) })
}

/// Who leads; with 0 votes where no candidate does, or it is not known. `size` is
/// sizeof(quorlock_holder_t), as of quorlock_inspection_holder(). The label lives as long as
/// the leadership.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_leadership_leader(
    leadership: *const quorlock_leadership_t, leader: *mut quorlock_holder_t, size: usize,
    error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, { handle::borrow(&leadership, "leadership")?.leader.tell(leader, size) })
}

/// Frees a leadership. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_leadership_free(leadership: *mut quorlock_leadership_t) {
    boundary!({ handle::free(leadership) });
}

/// Makes an observer, which follows who leads by a look each `every_ms`; each second with
/// #QUORLOCK_DEFAULT. Nothing is asked yet. The candidate may be freed.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_election_observe(
    election: *const quorlock_election_t, every_ms: i64, observer: *mut *mut quorlock_observer_t,
    error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        handle::wanted(observer, "observer")?;
        let candidate = &handle::borrow(&election, "election")?.0;
        let every = (every_ms != QUORLOCK_DEFAULT).then(|| handle::millis(every_ms, "every")).transpose()?;
        let observer_of = candidate.core.observe(every);
        handle::give(observer, "observer", quorlock_observer_t(Arc::new(Mutex::new(observer_of))))
    })
}

/// How it is, at the first call; after that the next change, whenever that comes. A term that
/// was shorter than the time between two looks may be left out. Where too few nodes answer
/// it says so, and never names who led before. `cancel` may be NULL; used, it ends the wait,
/// and a change that was not returned is returned by the next call.
///
/// Fails with #QUORLOCK_INVALID_ARGUMENT, also for an `every_ms` of 0; #QUORLOCK_CANCELLED,
/// #QUORLOCK_CLOSED, #QUORLOCK_FORKED. That nodes do not answer is no error.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_observer_next(
    observer: *const quorlock_observer_t, cancel: *const quorlock_cancel_t,
    leadership: *mut *mut quorlock_leadership_t, error: *mut *mut quorlock_error_t,
) -> i32 {
    boundary!(error, {
        handle::wanted(leadership, "leadership")?;
        let place = handle::share(observer, "observer")?;
        let mut seen = lock(&place).clone();
        let look = async move {
            let now = seen.next().await?;
            Ok((now, seen))
        };
        let (now, seen): (Leadership, Observer) = wait(unless_used(handle::maybe(&cancel, "cancel")?, look))?;
        *lock(&place) = seen;
        let found = quorlock_leadership_t { known: now.is_known(), leader: HolderTexts::of(now.leader()) };
        handle::give(leadership, "leadership", found)
    })
}

/// Frees an observer. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_observer_free(observer: *mut quorlock_observer_t) {
    boundary!({ handle::free(observer) });
}
