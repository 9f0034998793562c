//! The clock, and the instants that it gives. No other module reads a clock.
//!
//! Validity is counted on a clock that goes on while the machine is suspended
//! (`CLOCK_BOOTTIME` on Linux, the continuous clock on Apple systems, interrupt time
//! on Windows): after a
//! resume the first look at a lease tells the truth. Wall-clock time is never
//! read.

use std::future::Future;
use std::ops::{Add, Sub};
use std::pin::Pin;
use std::time::Duration;

/// A moment on a [`Clock`], in nanoseconds since an arbitrary start.
///
/// Arithmetic saturates: a far deadline stays far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

impl Instant {
    /// Before every moment: the end of a lease that a node denied.
    pub const NEVER: Instant = Instant(0);
    /// After every moment: no deadline.
    pub const FAR: Instant = Instant(u64::MAX);

    /// Time from `self` until `later`; zero if that has passed.
    pub fn until(self, later: Instant) -> Duration {
        Duration::from_nanos(later.0.saturating_sub(self.0))
    }
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, d: Duration) -> Instant {
        Instant(self.0.saturating_add(nanos(d)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;
    fn sub(self, d: Duration) -> Instant {
        Instant(self.0.saturating_sub(nanos(d)))
    }
}

/// A future that ends when a moment has come.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The seam through which the core sees time.
pub trait Clock: Send + Sync + 'static {
    /// The present moment.
    fn now(&self) -> Instant;

    /// Ends at `at` or a little later. May end early after a suspend; callers
    /// look at [`now`](Clock::now) again.
    fn sleep_until(&self, at: Instant) -> Sleep;
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: libc::clockid_t = libc::CLOCK_BOOTTIME;
// Darwin's CLOCK_MONOTONIC_RAW is mach_continuous_time: it counts sleep.
#[cfg(target_vendor = "apple")]
const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC_RAW;
#[cfg(all(
    unix,
    not(any(target_os = "linux", target_os = "android", target_vendor = "apple"))
))]
const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;

/// The clock that is read.
#[cfg(unix)]
fn clock() -> libc::clockid_t {
    CLOCK
}

#[cfg(unix)]
pub(crate) fn system_now() -> Instant {
    read(clock())
}

/// Some kernels that stand in for Linux have no such clock: there the clock is read that every
/// system has, and time that was slept through is not counted.
#[cfg(unix)]
fn read(clock: libc::clockid_t) -> Instant {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` is a valid timespec to write to.
    unsafe {
        if libc::clock_gettime(clock, &mut t) != 0 {
            libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t);
        }
    }
    // One second above zero, so that no moment equals `NEVER`.
    Instant((t.tv_sec as u64 + 1) * 1_000_000_000 + t.tv_nsec as u64)
}

/// Windows' interrupt time counts sleep; its performance counter does so on some machines alone.
#[cfg(windows)]
pub(crate) fn system_now() -> Instant {
    let mut hundreds = 0;
    // SAFETY: `hundreds` is a number to write to.
    unsafe {
        windows_sys::Win32::System::WindowsProgramming::QueryInterruptTimePrecise(&mut hundreds)
    };
    Instant(hundreds * 100 + 1_000_000_000)
}

/// The part of a ttl that is not relied upon: clocks may run at rates that
/// differ by `drift`, and a node's clock ticks in milliseconds.
pub fn drift_allowance(ttl: Duration, drift: f64) -> Duration {
    Duration::from_nanos((nanos(ttl) as f64 * drift) as u64) + Duration::from_millis(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_clock_counts_time_since_boot() {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let seconds: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        let ours = system_now().0 as f64 / 1e9 - 1.0;
        // /proc/uptime is CLOCK_BOOTTIME. The two reads are moments apart.
        assert!((ours - seconds).abs() < 5.0, "{ours} against {seconds}");
    }

    /// In a time namespace that was booted long before its clock began to run, as
    /// on a machine that has slept for so long.
    #[cfg(target_os = "linux")]
    #[test]
    fn time_spent_asleep_is_counted() {
        assert_eq!(clock(), libc::CLOCK_BOOTTIME);
        let asleep = |program: &std::path::Path, words: &[&str]| {
            let mut unshare = std::process::Command::new("unshare");
            unshare.args(["--time", "--boottime", "100000", "--"]);
            unshare.arg(program).args(words).output()
        };
        // Not every system permits one.
        if asleep("true".as_ref(), &[]).is_ok_and(|done| done.status.success()) {
            let test = "clock::tests::the_system_clock_counts_time_since_boot";
            let us = std::env::current_exe().unwrap();
            let done = asleep(&us, &["--exact", test]).unwrap();
            let said = String::from_utf8_lossy(&done.stdout);
            assert!(done.status.success() && said.contains("1 passed"), "{said}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_clock_that_the_system_lacks_is_another_and_goes_on() {
        let lacking = || read(9_999);
        let (before, other, after) = (read(libc::CLOCK_MONOTONIC), lacking(), lacking());
        assert!(before <= other && other <= after);
        assert!(other.until(read(libc::CLOCK_MONOTONIC)) < Duration::from_secs(60));
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Instant::FAR + Duration::MAX, Instant::FAR);
        assert_eq!(Instant(5) - Duration::from_secs(1), Instant::NEVER);
        assert_eq!(Instant(9).until(Instant(4)), Duration::ZERO);
    }
}
