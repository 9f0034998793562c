use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::Context;
use std::thread::{self, ThreadId};
use std::time::Duration;

use super::step::STEP;
use super::*;
use crate::blocking;
use crate::runtime::cancel;
use crate::runtime::kept::LISTED;
use crate::runtime::wait::run;
use crate::runtime::wheel::{BREATH, WheelHolder, WheelState};
use crate::sync::{Mutex, lock};

/// A task of the runtime that answers each request with the thread it ran on.
struct Echo {
    driver: &'static Driver,
    state: Mutex<(Vec<Arc<Request>>, Wakers)>,
}

#[derive(Default)]
struct Request(Mutex<(Option<ThreadId>, Wakers)>);

/// A driver with its I/O thread, both until the process ends.
fn echo() -> (Arc<Echo>, ThreadId) {
    let driver: &'static Driver = Box::leak(Box::new(Driver::new(|_| ()).unwrap()));
    let io_thread = thread::spawn(|| driver.run()).thread().id();
    let echo = Arc::new(Echo {
        driver,
        state: Mutex::default(),
    });
    let served = echo.clone();
    let serves = async move {
        poll_fn(|cx| {
            let mut state = lock(&served.state);
            let requests = std::mem::take(&mut state.0);
            let waiting: Poll<()> = state.1.park(cx);
            drop(state);
            for request in requests {
                let mut answer = lock(&request.0);
                answer.0 = Some(thread::current().id());
                let wakers = answer.1.take();
                drop(answer);
                wakers.wake();
            }
            waiting
        })
        .await;
    };
    driver.spawn(Box::pin(serves), OrphanPolicy::Ends);
    until(driver, |_| {
        let mut state = lock(&echo.state);
        let waits = state.1.take();
        let waiting = waits.into_iter().next();
        let there = waiting.is_some();
        if let Some(waker) = waiting {
            let _: Poll<()> = state.1.park(&Context::from_waker(&waker));
        }
        there
    });
    (echo, io_thread)
}

impl Echo {
    fn ask(&self) -> Asked<'_> {
        Asked(self, None)
    }
}

/// Sends its request when it is first polled.
struct Asked<'a>(&'a Echo, Option<Arc<Request>>);

impl Future for Asked<'_> {
    type Output = ThreadId;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<ThreadId> {
        assert!(
            AT_WHEEL.get().is_none(),
            "what is waited for is not polled there"
        );
        let request = self.1.get_or_insert_default().clone();
        let mut answer = lock(&request.0);
        if let Some(thread) = answer.0 {
            return Poll::Ready(thread);
        }
        let first = answer.1.take().into_iter().next().is_none();
        let waiting = answer.1.park(cx);
        drop(answer);
        if first {
            let mut state = lock(&self.0.state);
            state.0.push(request);
            let task = state.1.take();
            drop(state);
            self.0.driver.wake(task);
        }
        waiting
    }
}

/// Waits for others to come so far.
fn until(driver: &Driver, far: impl Fn(&WheelState<Arc<Runtime>>) -> bool) {
    let begun = system_now();
    while !far(&lock(&driver.wheel.state)) {
        assert!(
            begun.until(system_now()) < Duration::from_secs(10),
            "in time"
        );
        thread::yield_now();
    }
}

fn is_free_or_io(driver: &Driver) -> bool {
    lock(&driver.wheel.state).who != WheelHolder::Caller
}

#[test]
fn a_caller_that_is_alone_drives() {
    let (echo, _) = echo();
    for _ in 0..10 {
        assert_eq!(blocking::wait(echo.ask()), thread::current().id());
        assert!(is_free_or_io(echo.driver));
    }
    assert_eq!(lock(&echo.driver.wheel.state).parked, 0);
}

/// Waits as bindings do.
fn wait_with_what_is_sent<F: Future>(future: F) -> F::Output {
    run(future, None, SentRequests::with_the_wait()).unwrap()
}

#[test]
fn a_call_of_a_binding_that_is_alone_drives() {
    let (echo, _) = echo();
    for _ in 0..10 {
        let asked = wait_with_what_is_sent(echo.ask());
        assert_eq!(asked, thread::current().id());
    }
    assert_eq!(lock(&echo.driver.wheel.state).parked, 0);
}

#[test]
fn what_a_call_of_a_binding_has_sent_leaves_whatever_becomes_of_the_call() {
    let (echo, _) = echo();
    let answered = |request: Arc<Request>| until(echo.driver, |_| lock(&request.0).0.is_some());
    // It asks, and goes on without an answer.
    let asks = || {
        let mut asked = echo.ask();
        let _ = Pin::new(&mut asked).poll(&mut Context::from_waker(Waker::noop()));
        asked.1.unwrap()
    };
    answered(wait_with_what_is_sent(async { asks() }));
    let request = Mutex::new(None);
    let broken = catch_unwind(AssertUnwindSafe(|| {
        wait_with_what_is_sent(async {
            *lock(&request) = Some(asks());
            panic!("a test");
        });
    }));
    assert!(broken.is_err() && OWED.take().is_none() && !MAY_DRIVE.get());
    answered(lock(&request).take().unwrap());
    // A look for signals is foreign code, and may wait for it.
    let mut rounds = 0;
    let asks_again = poll_fn(|cx| {
        rounds += 1;
        *lock(&request) = Some(asks());
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    });
    let mut looks = || {
        answered(lock(&request).take().unwrap());
        true
    };
    let interrupt = (
        Duration::from_secs(10),
        &mut looks as &mut dyn FnMut() -> bool,
    );
    assert!(run(asks_again, Some(interrupt), SentRequests::with_the_wait()).is_none());
    assert_eq!(rounds, 2);
}

#[test]
fn what_is_sent_without_a_wait_leaves_at_once() {
    let (echo, io_thread) = echo();
    let asks = || {
        let mut asked = echo.ask();
        let _ = Pin::new(&mut asked).poll(&mut Context::from_waker(Waker::noop()));
        asked.1.unwrap()
    };
    let ran_on = |request: Arc<Request>| {
        until(echo.driver, |_| lock(&request.0).0.is_some());
        lock(&request.0).0
    };
    let this = Some(thread::current().id());
    assert_eq!(ran_on(sending(asks)), this);
    assert_eq!(ran_on(sending_in_loop(true, asks)), this);
    // A loop with other calls under way leaves it to the I/O thread, as it leaves those.
    assert_eq!(ran_on(sending_in_loop(false, asks)), Some(io_thread));
    // So does a caller that is not alone.
    assert_eq!(ran_on(sending(asks)), Some(io_thread));
    assert!(OWED.take().is_none() && !MAY_DRIVE.get());
}

#[test]
fn the_io_thread_takes_a_wheel_that_nobody_took() {
    let (echo, io_thread) = echo();
    blocking::wait(echo.ask());
    // No thread calls any more, and yet the runtime goes on.
    let (tell, told) = mpsc::channel();
    echo.driver.handle().spawn(async move {
        #[allow(clippy::disallowed_methods)]
        tokio::time::sleep(BREATH * 5).await;
        tell.send(thread::current().id()).unwrap();
    });
    let ran = told.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(ran, io_thread);
}

#[test]
fn others_are_served_while_a_caller_waits_and_when_it_leaves() {
    let (echo, io_thread) = echo();
    let (first, second) = (echo.clone(), echo.clone());
    let (tell, told) = mpsc::channel::<()>();
    // Drives, and has nothing to do there until the test releases it.
    let (release, released) = tokio::sync::oneshot::channel::<()>();
    let long = thread::spawn(move || {
        blocking::wait(async {
            first.ask().await;
            tell.send(()).unwrap();
            released.await.unwrap();
        });
    });
    told.recv_timeout(Duration::from_secs(10)).unwrap();
    until(second.driver, |s| {
        s.who == WheelHolder::Caller || s.parked > 0
    });
    for _ in 0..100 {
        blocking::wait(second.ask());
    }
    // More than one had to be served, so it is the I/O thread's for a while.
    assert_eq!(blocking::wait(second.ask()), io_thread);
    release.send(()).unwrap();
    long.join().unwrap();
    assert!(is_free_or_io(second.driver));
}

#[test]
fn a_long_wait_parks() {
    let (echo, _) = echo();
    let waiting = echo.clone();
    let (release, released) = tokio::sync::oneshot::channel::<()>();
    let long = thread::spawn(move || {
        blocking::wait(async {
            waiting.ask().await;
            released.await.unwrap();
        });
    });
    // The I/O thread asks for the wheel, without anything else going on.
    until(echo.driver, |s| {
        s.parked > 0 && s.who == WheelHolder::IoThread
    });
    release.send(()).unwrap();
    long.join().unwrap();
}

#[test]
fn a_panic_gives_the_wheel_back() {
    let (echo, _) = echo();
    blocking::wait(echo.ask());
    let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        blocking::wait(async {
            echo.ask().await;
            panic!("a test");
        });
    }));
    assert!(broken.is_err());
    assert!(is_free_or_io(echo.driver));
    assert!(AT_WHEEL.get().is_none() && !MAY_DRIVE.get() && USED.get().is_none());
    blocking::wait(echo.ask());
}

#[test]
fn a_short_patience_parks() {
    let (echo, _) = echo();
    // Sends, and then waits in vain.
    let mut looked = 0;
    let ended = blocking::wait_or(
        async {
            echo.ask().await;
            std::future::pending::<()>().await;
        },
        Duration::from_millis(1),
        || {
            assert!(AT_WHEEL.get().is_none(), "nor is anything else run there");
            looked += 1;
            looked == 50
        },
    );
    assert_eq!((ended, looked), (None, 50));
}

#[test]
fn a_driver_that_is_stopped_ends() {
    let driver: &'static Driver = Box::leak(Box::new(Driver::new(|_| ()).unwrap()));
    let io_thread = thread::spawn(|| driver.run());
    driver.stop();
    io_thread.join().unwrap();
    assert!(lock(&driver.wheel.state).runtime.is_none());
    assert!(driver.take().is_none());
}

#[cfg(unix)]
#[test]
fn a_thread_is_not_cancelled_at_the_wheel() {
    let state = || {
        let now = cancel::set(cancel::DISABLED);
        cancel::set(now);
        now
    };
    let before = state();
    assert_ne!(before, cancel::DISABLED);
    let driver = Box::leak(Box::new(Driver::new(|_| ()).unwrap()));
    assert_eq!(at_wheel(driver, state), cancel::DISABLED);
    assert_eq!(state(), before);
}

#[cfg(target_os = "linux")]
#[test]
fn what_a_runtime_has_for_itself_is_known_and_numbered_high() {
    // Where other tests open and close descriptors in this moment they may not be found.
    let mut made = (0..100).map(|_| Driver::new(|_| ()).unwrap());
    let driver = made.find(|driver| driver.hidden.is_some()).unwrap();
    assert!(driver.sockets.are_whole_now());
    assert!(driver.sockets.descriptor().unwrap() >= 100);
}

/// A task that reads bytes one by one, and tells on which thread.
#[cfg(target_os = "linux")]
fn reader(driver: &'static Driver) -> (std::os::unix::net::UnixStream, mpsc::Receiver<ThreadId>) {
    use tokio::io::AsyncReadExt;

    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    driver.sockets.watch(&(&theirs).into());
    let (tell, told) = mpsc::channel();
    let reads = async move {
        let mut stream = tokio::net::UnixStream::from_std(theirs).unwrap();
        tell.send(thread::current().id()).unwrap();
        while stream.read_u8().await.is_ok() {
            tell.send(thread::current().id()).unwrap();
        }
    };
    driver.spawn(Box::pin(reads), OrphanPolicy::Ends);
    driver.notice();
    told.recv_timeout(Duration::from_secs(10)).unwrap();
    (ours, told)
}

/// Waits until a loop would hear that there is something to read.
#[cfg(target_os = "linux")]
fn is_told(driver: &Driver, milliseconds: i32) -> bool {
    let mut poll = libc::pollfd {
        fd: driver.sockets.descriptor().unwrap(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one descriptor is passed.
    unsafe { libc::poll(&mut poll, 1, milliseconds) == 1 }
}

#[test]
fn a_step_leaves_what_does_not_rest_to_the_runtime() {
    let (echo, _) = echo();
    let (tell, told) = mpsc::channel();
    let call = async move {
        let mut left = 10 * STEP;
        poll_fn(|cx| {
            left -= 1;
            if left == 0 {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        tell.send(()).unwrap();
    };
    let mut calls: Vec<Call> = vec![Box::pin(call)];
    // Others may still need the I/O.
    while let Err(back) = echo.driver.step(calls) {
        calls = back;
        thread::yield_now();
    }
    assert!(told.try_recv().is_err() && LISTED.take().is_none());
    assert_eq!(told.recv_timeout(Duration::from_secs(10)), Ok(()));
}

#[test]
fn a_step_that_makes_a_connection_leaves_the_wheel_to_the_io_thread() {
    let (echo, _) = echo();
    let driver = echo.driver;
    let steps = |connects: bool| {
        let call = || -> Vec<Call> {
            vec![Box::pin(async move {
                if connects {
                    driver.connects();
                }
            })]
        };
        // Others may still need the I/O.
        while driver.step(call()).is_err() {
            thread::yield_now();
        }
        let state = lock(&driver.wheel.state);
        state.wanted || state.who == WheelHolder::IoThread
    };
    assert!(steps(true));
    // A breath later it is the I/O thread's anyway, so a thread that stands still for so long tries again.
    let begun = system_now();
    while steps(false) {
        assert!(
            begun.until(system_now()) < Duration::from_secs(10),
            "in time"
        );
    }
    assert!(steps(true));
}

#[test]
fn a_step_runs_what_was_woken_elsewhere_before_it() {
    let (echo, _) = echo();
    let (driver, here) = (echo.driver, thread::current().id());
    let waits = Arc::new(Mutex::new(Wakers::default()));
    let (tell, told) = mpsc::channel();
    let parked = waits.clone();
    let task = poll_fn(move |cx| {
        let waiting: Poll<()> = lock(&parked).park(cx);
        tell.send(thread::current().id()).unwrap();
        waiting
    });
    driver.spawn(Box::pin(task), OrphanPolicy::Ends);
    driver.notice();
    let within = Duration::from_secs(10);
    told.recv_timeout(within).unwrap();
    let begun = system_now();
    loop {
        assert!(begun.until(system_now()) < within, "in time");
        let woken = lock(&waits).take();
        woken.wake();
        // Others may still need the I/O, and the I/O thread is quicker where this thread stood still.
        let stepped = driver.step(vec![Box::pin(async {})]).is_ok();
        let ran = told.recv_timeout(within).unwrap();
        if stepped && ran == here {
            break;
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_event_loop_that_is_alone_begins_its_calls_and_reads() {
    use std::io::Write;

    let (echo, io_thread) = echo();
    let driver = echo.driver;
    let (mut stream, told) = reader(driver);
    let here = thread::current().id();
    let within = Duration::from_secs(10);
    // Others needed the I/O: it is the I/O thread's for a while, and no loop hears of it.
    assert!(
        driver
            .step(vec![Box::pin(async {})])
            .is_err_and(|calls| calls.len() == 1)
    );
    stream.write_all(&[0]).unwrap();
    assert_eq!(told.recv_timeout(within), Ok(io_thread));
    assert!(!is_told(driver, 0));
    let (mut began, mut read) = (0, 0);
    let begun = system_now();
    while began == 0 || read == 0 {
        assert!(begun.until(system_now()) < 6 * within, "in time");
        let (tell, asked) = mpsc::channel();
        let call = async move { tell.send(thread::current().id()).unwrap() };
        match driver.step(vec![Box::pin(call)]) {
            Ok(()) => began += 1,
            // Still crowded.
            Err(_) => {
                thread::yield_now();
                continue;
            }
        }
        assert_eq!(asked.try_recv(), Ok(here));
        assert!(is_free_or_io(driver) && AT_WHEEL.get().is_none());
        stream.write_all(&[0]).unwrap();
        // The I/O thread may have been quicker, where this thread stood still.
        if is_told(driver, 1000) && driver.step(Vec::new()).is_ok() {
            read += usize::from(told.recv_timeout(within) == Ok(here));
        } else {
            told.recv_timeout(within).unwrap();
        }
    }
    // Nor does a loop hear of what a blocking caller reads.
    blocking::wait(echo.ask());
    stream.write_all(&[0]).unwrap();
    assert!(!is_told(driver, 0));
    told.recv_timeout(within).unwrap();
    // A loop that does not come back leaves it to the I/O thread.
    stream.write_all(&[0]).unwrap();
    assert_eq!(told.recv_timeout(within), Ok(io_thread));
    until(driver, |s| s.who == WheelHolder::IoThread);
    assert!(!is_told(driver, 0));
}
