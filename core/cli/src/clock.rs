//! The only place of this program that reads a clock, and that waits for a time.
//!
//! Both count the time in which the machine sleeps, where the system can: a lock ends in it,
//! too, and a command that wakes up behind its end is to be stopped at once.

use std::os::fd::RawFd;
use std::time::Duration;

#[cfg(target_os = "linux")]
const CLOCK: libc::clockid_t = libc::CLOCK_BOOTTIME;
#[cfg(not(target_os = "linux"))]
const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;

/// A time that only goes forward, from some moment in the past.
pub fn now() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec to write to.
    unsafe { libc::clock_gettime(CLOCK, &mut time) };
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

/// The time of day: in seconds since 1970, and as a local clock on a wall shows it.
pub fn time_of_day() -> (f64, String) {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut time) };
    let seconds = time.tv_sec.unsigned_abs();
    (
        seconds as f64 + time.tv_nsec as f64 / 1e9,
        wall_clock(seconds),
    )
}

/// What a local clock on a wall shows at a time in seconds since 1970.
pub fn wall_clock(seconds: u64) -> String {
    let seconds = seconds.try_into().unwrap_or_default();
    // SAFETY: all zeros is a valid `tm`, which is written to.
    let local = unsafe {
        let mut local: libc::tm = std::mem::zeroed();
        libc::localtime_r(&seconds, &mut local);
        local
    };
    format!(
        "{:02}:{:02}:{:02}",
        local.tm_hour, local.tm_min, local.tm_sec
    )
}

/// Waits for descriptors, or for a time.
#[derive(Debug)]
pub struct Alarm {
    /// Readable at the time; negative where the system has no such thing.
    timer: RawFd,
}

impl Alarm {
    pub fn new() -> Alarm {
        #[cfg(target_os = "linux")]
        // SAFETY: a plain system call.
        let timer = unsafe { libc::timerfd_create(CLOCK, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) };
        #[cfg(not(target_os = "linux"))]
        let timer = -1;
        Alarm { timer }
    }

    /// Until there is something to read on any of these, at most for so long. May come early for
    /// nothing.
    pub fn wait(&mut self, fds: &[RawFd], most: Duration) {
        self.wait_or_closed(fds, -1, most);
    }

    /// The same; also until nothing reads what is written to `output` any more.
    pub fn wait_or_closed(&mut self, fds: &[RawFd], output: RawFd, most: Duration) {
        let timeout = if self.set(most) {
            -1
        } else {
            // Rounded up, or the last part of a millisecond would be a busy loop.
            i32::try_from(most.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
        };
        let on = |fd: &RawFd| libc::pollfd {
            fd: *fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut polled: Vec<_> = fds.iter().chain([&self.timer]).map(on).collect();
        // `poll` reports an error and the other end's going unasked.
        polled.push(libc::pollfd {
            fd: output,
            events: 0,
            revents: 0,
        });
        // SAFETY: this many valid pollfds; a negative descriptor in them is passed over. A signal
        // interrupts it, which is an early end.
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout) };
    }

    /// Whether the timer was set.
    #[cfg(target_os = "linux")]
    fn set(&mut self, most: Duration) -> bool {
        // Zero would be never; so is what no clock reaches.
        let most = most.clamp(Duration::from_nanos(1), Duration::from_secs(1 << 31));
        // SAFETY: all zeros is a timer that rings once.
        let mut when: libc::itimerspec = unsafe { std::mem::zeroed() };
        when.it_value.tv_sec = most.as_secs().try_into().unwrap_or(1 << 30);
        when.it_value.tv_nsec = most.subsec_nanos().into();
        // SAFETY: plain system call with a valid time; a descriptor that is none is refused.
        unsafe { libc::timerfd_settime(self.timer, 0, &when, std::ptr::null_mut()) == 0 }
    }

    #[cfg(not(target_os = "linux"))]
    fn set(&mut self, _: Duration) -> bool {
        false
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if self.timer >= 0 {
            // SAFETY: it is ours, and used no more.
            unsafe { libc::close(self.timer) };
        }
    }
}
