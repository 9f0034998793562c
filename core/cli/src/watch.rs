//! `quorlock watch`: a line at each change of a lock.

use std::time::Duration;

use quorlock::{Inspection, Verdict, blocking};
use serde_json::json;

use crate::args::Watch;
use crate::clock::{Alarm, now, time_of_day};
use crate::connect;
use crate::exit::{self, Failure};
use crate::inspect::{as_object, lock};
use crate::output::{is_closed, plain, print};

/// What is reported when it is another than before.
#[derive(PartialEq)]
struct WatchState {
    verdict: Verdict,
    holder: Option<String>,
    fence: Option<u64>,
    queued: u32,
    /// Of a semaphore, how many slots it has, and how many are held. Beside a lock of its name how many are.
    slots: (usize, u32),
}

impl WatchState {
    fn of(found: &Inspection) -> WatchState {
        let holder = found.holder();
        WatchState {
            verdict: found.verdict(),
            holder: holder.map(|holder| holder.label().unwrap_or_default().to_owned()),
            fence: holder.map_or(found.fence(), |holder| holder.fence()),
            queued: found.queued(),
            slots: (found.slots().len(), found.slots_held()),
        }
    }

    fn told(&self) -> String {
        let mut text = match self.slots {
            (0, 0) => self.verdict.as_str().to_owned(),
            (0, held) => format!(
                "{}, a semaphore of that name has {held} slots held",
                self.verdict.as_str()
            ),
            (slots, held) => format!("{held} of {slots} slots held"),
        };
        if let Some(holder) = &self.holder {
            text += &match &**holder {
                "" => " by somebody without a label".to_owned(),
                label => format!(" by {}", plain(label)),
            };
        }
        if let Some(fence) = self.fence {
            text += &format!(", fence {fence}");
        }
        match self.queued {
            0 => text,
            1 => text + ", 1 waits",
            many => text + &format!(", {many} wait"),
        }
    }
}

pub fn watch(options: &Watch) -> Result<i32, Failure> {
    let client = connect::client(&options.connection, None)?;
    let lock = lock(&client, &options.name, options.slots);
    let (mut last, mut alarm) = (None, Alarm::new());
    let begun = now();
    loop {
        let found = blocking::wait(lock.inspect())?;
        let state = WatchState::of(&found);
        if last.as_ref() != Some(&state) {
            let written = if options.json {
                print(&json!({"at": time_of_day().0, "lock": as_object(&found)}).to_string())
            } else {
                print(&format!("{}  {}", time_of_day().1, state.told()))
            };
            if !written {
                // The reader has gone.
                return Ok(0);
            }
        }
        if options.until_free && state.verdict == Verdict::Free {
            return Ok(0);
        }
        last = Some(state);
        let left = options
            .wait
            .map(|wait| (begun + wait).saturating_sub(now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(exit::HELD);
        }
        let pause = options.every.min(left.unwrap_or(Duration::MAX));
        let next = now().saturating_add(pause);
        while let Some(left) = next.checked_sub(now()).filter(|left| !left.is_zero()) {
            alarm.wait_or_closed(&[], libc::STDOUT_FILENO, left);
            if is_closed() {
                return Ok(0);
            }
        }
    }
}
