//! Times, CPU and their summary.

/// `CLOCK_MONOTONIC` in nanoseconds.
pub(crate) fn monotonic() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

fn clock(id: libc::clockid_t) -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` is a valid timespec to write to.
    unsafe { libc::clock_gettime(id, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// CPU time of this process so far, in nanoseconds.
pub(crate) fn cpu() -> u64 {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Collects the times of cycles.
#[derive(Default)]
pub(crate) struct Meter {
    pub(crate) violations: u64,
    failures: u64,
    times: Vec<u64>,
    wall: u64,
    cpu: u64,
}

impl Meter {
    pub(crate) fn start(&mut self) {
        self.wall = monotonic();
        self.cpu = cpu();
    }

    /// Times a cycle that tells whether it succeeded.
    pub(crate) fn time(&mut self, cycle: impl FnOnce() -> bool) {
        let begun = monotonic();
        self.failures += u64::from(!cycle());
        self.times.push(monotonic() - begun);
    }

    pub(crate) fn add(&mut self, times: Vec<u64>, failures: u64) {
        self.times.extend(times);
        self.failures += failures;
    }

    pub(crate) fn finish(mut self) -> Measured {
        let (wall, cpu) = (monotonic() - self.wall, cpu() - self.cpu);
        self.times.sort_unstable();
        let cycles = self.times.len().max(1);
        let at = |share: f64| {
            let last = self.times.len().saturating_sub(1);
            let index = (last as f64 * share) as usize;
            self.times.get(index).copied().unwrap_or(0) as f64 / 1e3
        };
        Measured {
            cycles: self.times.len() as u64,
            failures: self.failures,
            violations: self.violations,
            seconds: wall as f64 / 1e9,
            p50_us: at(0.5),
            p99_us: at(0.99),
            max_us: at(1.0),
            cpu_us: cpu as f64 / 1e3 / cycles as f64,
        }
    }
}

/// What a run came to.
pub(crate) struct Measured {
    cycles: u64,
    failures: u64,
    violations: u64,
    seconds: f64,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
    cpu_us: f64,
}

impl Measured {
    pub(crate) fn json(&self, peer: &str) -> String {
        format!(
            "{{\"peer\": \"{peer}\", \"cycles\": {}, \"seconds\": {:.6}, \"cycles_per_s\": {:.0}, \
             \"p50_us\": {:.2}, \"p99_us\": {:.2}, \"max_us\": {:.2}, \"cpu_us\": {:.2}, \"failures\": {}, \"violations\": {}}}",
            self.cycles,
            self.seconds,
            self.cycles as f64 / self.seconds,
            self.p50_us,
            self.p99_us,
            self.max_us,
            self.cpu_us,
            self.failures,
            self.violations
        )
    }
}
