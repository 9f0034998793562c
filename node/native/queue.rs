//! What has happened and JavaScript does not know yet. One queue per environment; it knows nothing of what puts something into it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use napi::Status;
use napi::threadsafe_function::ThreadsafeFunction;
use quorlock::binding::{Mailbox, lock};
use quorlock::{Error, LossReason};

use crate::log::LogLine;

/// Calls JavaScript from any thread; does not keep its event loop alive.
pub(crate) type Bell = ThreadsafeFunction<(), (), (), Status, false, true>;

/// What is left of a lease that JavaScript has let go of.
pub(crate) struct Left {
    pub(crate) token: String,
    pub(crate) fence: Option<u64>,
    pub(crate) loss: Option<(LossReason, Error)>,
    pub(crate) slot: Option<u32>,
}

/// What an operation comes to.
pub(crate) enum Value {
    Nothing,
    Flag(bool),
    /// In milliseconds.
    Time(f64),
    Lease(Option<quorlock::Lease>),
    Leases(Option<WonLeases>),
    /// The release of the lease of this number is over: whether it was held until then.
    Released(i64, bool),
    /// The same, when the desk has let go of the lease.
    Ended(bool, Box<Left>),
    /// The same, when the port has them for JavaScript: and the place of each among the names
    /// of the call.
    Kept(quorlock::Leases, Vec<u32>),
    Inspection(Box<quorlock::Inspection>),
    Forced(Box<quorlock::Forced>),
    Probe(Box<quorlock::Probe>),
    Holder(Option<quorlock::Holder>),
    Leadership(quorlock::Leadership),
}

/// Leases that were won together, and the names of the call that asked for them.
pub(crate) struct WonLeases {
    pub(crate) leases: quorlock::Leases,
    pub(crate) names: Vec<Vec<u8>>,
}

pub(crate) enum Event {
    /// An operation is over.
    Done(i64, Result<Value, Error>),
    /// A lease may be lost, named by the number of the operation that won it; and
    /// whether JavaScript has put this off before.
    Lost(i64, bool),
    /// A log line, and whether it is a warning.
    Log(bool, LogLine),
}

/// What waits for one environment. Log lines come last and one by one: what listens to them may
/// take its time, and a loss waits for no line but that which a listener has already.
pub(crate) struct Queue {
    news: Mailbox<Event>,
    /// While there are lines a ring is on its way.
    lines: Mutex<VecDeque<(bool, LogLine)>>,
    ring: Arc<dyn Fn() + Send + Sync>,
}

impl Queue {
    /// `ring` must not block; it is called on any thread.
    pub(crate) fn new(ring: impl Fn() + Send + Sync + 'static) -> Queue {
        let ring: Arc<dyn Fn() + Send + Sync> = Arc::new(ring);
        let rings = ring.clone();
        Queue {
            news: Mailbox::new(move || rings()),
            lines: Mutex::default(),
            ring,
        }
    }

    pub(crate) fn push(&self, event: Event) {
        self.news.push(event);
    }

    pub(crate) fn log(&self, warning: bool, line: LogLine) {
        let mut lines = lock(&self.lines);
        lines.push_back((warning, line));
        let first = lines.len() == 1;
        drop(lines);
        if first {
            (self.ring)();
        }
    }

    /// The loop is about to look whether there is anything.
    pub(crate) fn attend(&self) {
        self.news.attend();
    }

    /// It looks: whether there is, and it is to take it.
    pub(crate) fn attended(&self) -> bool {
        self.news.attended()
    }

    /// The loop is to take what there is in another turn.
    pub(crate) fn ring(&self) {
        (self.ring)();
    }

    /// What there is for one turn of the loop: all that has happened, oldest first, or else
    /// one log line.
    pub(crate) fn take(&self) -> Vec<Event> {
        let mut news = self.news.take();
        let mut lines = lock(&self.lines);
        if news.is_empty() {
            let line = lines.pop_front();
            news.extend(line.map(|(warning, line)| Event::Log(warning, line)));
        }
        let more = !lines.is_empty();
        drop(lines);
        if more {
            (self.ring)();
        }
        news
    }

    /// Drops what there is and what comes: the loop that would take it is gone.
    pub(crate) fn close(&self) {
        self.news.close();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_log_line_comes_behind_all_else_and_alone() {
        let rings = Arc::new(AtomicUsize::new(0));
        let rung = rings.clone();
        let queue = Queue::new(move || {
            rung.fetch_add(1, Ordering::Relaxed);
        });
        let take = || {
            // Each ring takes once.
            rings.fetch_sub(1, Ordering::Relaxed);
            let text = |event| match event {
                Event::Log(_, line) => line.message,
                Event::Lost(number, _) => number.to_string(),
                Event::Done(..) => unreachable!("nothing was begun"),
            };
            queue.take().into_iter().map(text).collect::<Vec<_>>()
        };
        let line = |message: &str| LogLine {
            message: message.into(),
            event: "test".into(),
            template: message.into(),
            fields: [].into(),
        };
        queue.log(true, line("a"));
        queue.log(true, line("b"));
        queue.push(Event::Lost(1, false));
        queue.push(Event::Lost(2, false));
        assert_eq!(take(), ["1", "2"]);
        assert_eq!(take(), ["a"]);
        queue.push(Event::Lost(3, false));
        assert_eq!(take(), ["3"]);
        assert_eq!(take(), ["b"]);
        queue.log(false, line("c"));
        let mut last = Vec::new();
        while rings.load(Ordering::Relaxed) > 0 {
            last.extend(take());
        }
        assert_eq!(last, ["c"]);
    }
}
