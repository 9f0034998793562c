//! Calls that a binding makes: no panic leaves a call, the binding may revoke a call whose caller
//! has stopped waiting, and the calls of one turn of an event loop are sent together.

use std::any::Any;
use std::fmt;
use std::future::{Future, poll_fn};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Mutex;
use std::task::Poll;

use tokio::sync::oneshot;

use crate::binding::spawn::{Steps, Task, Work, spawn};
use crate::error::{Error, ErrorKind};
use crate::mutex::lock;

/// Runs `work`; a panic in it, which must not cross into another language, is an
/// error of the kind `Internal`.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| panicked(&*panic))
}

/// The error that stands for a panic.
fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it has no message");
    Error::new(
        ErrorKind::Internal,
        format!("a panic, which is a bug in Quorlock, please report it: {text}"),
    )
}

/// Ends its call when it is dropped, wherever that has come to: what it has begun
/// is undone.
#[derive(Debug)]
pub struct Revocation {
    /// Never sent through. That it is gone is what the call sees.
    _alive: oneshot::Sender<()>,
}

/// A call of the core, to be [submitted](CallBatch::submit): carries out `work` and gives its result to
/// `done`, or the error that stands for its panic. Only a `revocable` call can be ended before; any
/// other goes on to its end. A call that is ended gives no result.
pub fn call<T>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
    revocable: bool,
    done: impl FnOnce(Result<T, Error>) + Send + 'static,
) -> (Work, Option<Revocation>) {
    let (alive, revoked) = oneshot::channel();
    let mut revoked = revocable.then_some(revoked);
    let call = async move {
        let result = {
            // Over and dropped before its result is given away.
            let mut work = pin!(work);
            let end = poll_fn(|cx| {
                if let Some(revoked) = &mut revoked
                    && Pin::new(revoked).poll(cx).is_ready()
                {
                    return Poll::Ready(None);
                }
                match caught(|| work.as_mut().poll(cx)) {
                    Ok(polled) => polled.map(Some),
                    Err(panic) => Poll::Ready(Some(Err(panic))),
                }
            });
            end.await
        };
        if let Some(result) = result {
            done(result);
        }
    };
    let revocation = revocable.then_some(Revocation { _alive: alive });
    (Box::pin(call), revocation)
}

/// How many calls of a turn are submitted before its end: that may be far, and the
/// nodes would wait for them.
const TOGETHER: usize = 64;

/// The calls that an event loop starts in one turn. They are submitted together,
/// in one wake-up of the I/O thread, so that their requests leave together.
#[derive(Default)]
pub struct CallBatch {
    /// `None` outside of a turn.
    held: Mutex<Option<Vec<Work>>>,
}

impl CallBatch {
    /// Begins a turn, unless one is under way: calls are held from now on.
    pub fn begin(&self) {
        lock(&self.held).get_or_insert_default();
    }

    /// Whether a turn is under way.
    pub fn is_begun(&self) -> bool {
        lock(&self.held).is_some()
    }

    /// Has a call carried out on the I/O thread: at the end of its turn, with the
    /// other calls of it, or at once if there is none.
    ///
    /// # Errors
    ///
    /// `Internal` if the I/O thread cannot be started.
    pub fn submit(&self, call: Work) -> Result<(), Error> {
        self.submit_or(call, start)
    }

    /// The same, but a call outside of a turn is begun by `steps`, on this thread: for an
    /// event loop that has no other call under way.
    ///
    /// # Errors
    ///
    /// As [`submit`](CallBatch::submit).
    pub fn submit_alone(&self, call: Work, steps: &Steps) -> Result<(), Error> {
        self.submit_or(call, |calls| steps.step(calls).or_else(start))
    }

    fn submit_or(
        &self,
        call: Work,
        at_once: impl FnOnce(Vec<Work>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut held = lock(&self.held);
        let Some(turn) = &mut *held else {
            drop(held);
            return at_once(vec![call]);
        };
        turn.push(call);
        if turn.len() < TOGETHER {
            return Ok(());
        }
        let full = mem::take(turn);
        drop(held);
        start(full)
    }

    /// The same, where the event loop has a single call under way: `steps` begins it, on
    /// this thread.
    ///
    /// # Errors
    ///
    /// As [`submit`](CallBatch::submit).
    pub fn end_alone(&self, steps: &Steps) -> Result<(), Error> {
        let held = lock(&self.held).take();
        steps.step(held.unwrap_or_default()).or_else(start)
    }

    /// Ends a turn: what is still held is carried out.
    ///
    /// # Errors
    ///
    /// As [`submit`](CallBatch::submit).
    pub fn end(&self) -> Result<(), Error> {
        let held = lock(&self.held).take();
        start(held.unwrap_or_default())
    }
}

impl fmt::Debug for CallBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Turn")
    }
}

/// Starts calls on the I/O thread, each to go on to its end by itself.
///
/// # Errors
///
/// `Internal` if the I/O thread cannot be started.
pub fn start(mut calls: Vec<Work>) -> Result<(), Error> {
    if calls.len() <= 1 {
        return calls
            .pop()
            .map_or(Ok(()), |one| spawn(one).map(Task::detach));
    }
    let all = async move {
        for call in calls {
            spawn(call).map_or_else(drop, Task::detach);
        }
    };
    spawn(all).map(Task::detach)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::task::{Context, Waker};

    #[test]
    fn a_panic_is_an_error_with_its_text() {
        let literal = catch_unwind(|| panic!("why")).unwrap_err();
        let formatted = catch_unwind(|| panic!("why {}", std::process::id())).unwrap_err();
        let other = catch_unwind(|| std::panic::panic_any(7)).unwrap_err();
        assert_eq!(panicked(&*literal).kind(), ErrorKind::Internal);
        assert!(panicked(&*literal).message().ends_with(": why"));
        let text = format!(": why {}", std::process::id());
        assert!(panicked(&*formatted).message().ends_with(&text));
        assert!(panicked(&*other).message().ends_with("no message"));
    }

    /// What the caller of `work` is given, and the call of it.
    type Asked = (Receiver<Result<u8, Error>>, Work, Option<Revocation>);

    fn asked(
        work: impl Future<Output = Result<u8, Error>> + Send + 'static,
        revocable: bool,
    ) -> Asked {
        let (told, hear) = channel();
        let (call, revocation) = call(work, revocable, move |done| told.send(done).unwrap());
        (hear, call, revocation)
    }

    fn poll(call: &mut Work) -> Poll<()> {
        call.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_call_gives_its_result_or_its_panic() {
        let (hear, mut call, _revocation) = asked(ready(Ok(7)), true);
        assert!(poll(&mut call).is_ready());
        assert_eq!(hear.recv().unwrap().unwrap(), 7);
        let (hear, mut call, _) = asked(async { panic!("why") }, false);
        assert!(poll(&mut call).is_ready());
        let error = hear.recv().unwrap().unwrap_err();
        assert!(error.message().ends_with(": why"));
    }

    #[test]
    fn a_revoked_call_ends_and_gives_nothing() {
        let held = std::sync::Arc::new(());
        let work = held.clone();
        let forever = async move {
            let _work = work;
            pending().await
        };
        let (hear, mut call, revocation) = asked(forever, true);
        assert!(poll(&mut call).is_pending());
        drop(revocation);
        assert!(poll(&mut call).is_ready());
        drop(call);
        assert!(hear.recv().is_err());
        assert_eq!(std::sync::Arc::strong_count(&held), 1);
    }

    #[test]
    fn what_is_not_revocable_goes_on_to_its_end() {
        let (hear, mut call, revocation) = asked(ready(Ok(7)), false);
        assert!(revocation.is_none());
        assert!(poll(&mut call).is_ready());
        assert_eq!(hear.recv().unwrap().unwrap(), 7);
    }

    fn numbered(number: usize, told: &Sender<usize>) -> Work {
        let told = told.clone();
        Box::pin(async move { told.send(number).unwrap() })
    }

    #[test]
    fn a_turn_holds_its_calls_until_they_are_many() {
        let (told, hear) = channel();
        let turn = CallBatch::default();
        turn.begin();
        for number in 1..TOGETHER {
            turn.submit(numbered(number, &told)).unwrap();
        }
        // A turn that is under way is not begun again.
        turn.begin();
        assert!(hear.try_recv().is_err());
        turn.submit(numbered(TOGETHER, &told)).unwrap();
        let first: Vec<_> = hear.iter().take(TOGETHER).collect();
        assert!(first.into_iter().eq(1..=TOGETHER));
        turn.submit(numbered(0, &told)).unwrap();
        assert!(hear.try_recv().is_err());
        turn.end().unwrap();
        assert_eq!(hear.recv(), Ok(0));
        // Outside of a turn a call goes at once.
        turn.submit(numbered(1, &told)).unwrap();
        assert_eq!(hear.recv(), Ok(1));
    }
}
