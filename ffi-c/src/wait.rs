//! Waiting on the thread that called, even when that thread is about to end.

use std::panic::resume_unwind;
use std::thread;

use quorlock_core::blocking;

/// Gone when the thread's own storage is: destructors of static objects in C++
/// run after that, and may well call us.
struct Alive;

impl Drop for Alive {
    fn drop(&mut self) {}
}

thread_local! {
    static ALIVE: Alive = const { Alive };
    /// Without a destructor, so it can be had to the last.
    static HERE: u8 = const { 0 };
}

/// Notes that the thread uses us; from then on its end is noticed.
pub(crate) fn entered() {
    let _ = ALIVE.try_with(|_| ());
}

/// A number that no other living thread has.
pub(crate) fn this_thread() -> usize {
    HERE.with(|here| std::ptr::from_ref(here) as usize)
}

/// Waits for a future.
pub(crate) fn wait<F: Future<Output: Send> + Send>(future: F) -> F::Output {
    if ALIVE.try_with(|_| ()).is_ok() {
        return blocking::wait(future);
    }
    // The standard library has no parking place for this thread any more.
    thread::scope(|scope| {
        let waiting = scope.spawn(|| blocking::wait(future));
        waiting.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}
