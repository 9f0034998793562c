//! "release", with keep and with force; "reserve".

use std::time::Duration;

use quorlock::sim::{AfterRelease, Reply};

use super::line::Turn;
use super::lock::{Form, Key, Whom, ms, named, proves};
use super::node::Node;

impl Node<'_> {
    /// For how long the lease is banned, by force.
    pub(super) fn forces(&self) -> Option<Duration> {
        match self.request.leaving {
            AfterRelease::Forced(long) => Some(long),
            _ => None,
        }
    }

    /// For how long the lock stays taken.
    pub(super) fn keeps(&self) -> Option<Duration> {
        match self.request.leaving {
            AfterRelease::TakenFor(long) => Some(long),
            _ => None,
        }
    }

    /// "release".
    pub(super) fn release(&mut self) -> Reply {
        let value = self.request.value.clone();
        let (form, free) = (self.form(), self.free());
        let (alone_free, reserved, mine) = (self.alone_free(), self.reserved(), self.is_mine());
        let crowded = self.is_crowded();
        let there = form.as_ref().and_then(Form::value);
        // guard: the value stands there; with force a foreign one to the letter
        let held = there.is_some_and(|there| {
            proves(&value, there) || self.forces().is_some() && value == *there
        });
        let held = held && !value.0.is_empty();
        let is_shared = matches!(form, Some(Form::Shared(..)));
        let shared = is_shared && self.lock.readers.remove(&value).is_some();
        let answer = Reply::Released {
            held: held || shared,
        };
        self.leave();
        if let Some(long) = self.forces() {
            self.ban(&value, long);
        } else if let Some(Form::Kept(until, _)) = form
            && held
            && self.time <= until
        {
            // What is kept stays.
            return answer;
        } else if let Some(long) = self.keeps() {
            let kept_over = held && matches!(form, Some(Form::Kept(..)));
            let open = free && !is_shared && (reserved.is_none() || mine) && !value.0.is_empty();
            if !kept_over && (held || open) {
                let waited = form.is_none() && !self.lock.queue.is_empty();
                let least = if crowded || waited {
                    self.now() + ms(self.request.keys.waits.place)
                } else {
                    self.now()
                };
                let until = self.time + ms(long) * 1000;
                self.put(Form::Kept(until, value), least.max(self.now() + ms(long)));
                // guard: a node that may not vote may have forgotten a vote, so its keep does not count
                let counts = self.admitted && self.quarantine.is_none();
                return if held || !counts { answer } else { Reply::Kept };
            }
        }
        let open = alone_free && !self.may_still_come(reserved, mine);
        if !held && !open {
            return answer;
        }
        let last = self.last().map(|(_, until)| until);
        if !self.admitted || self.quarantine.is_some() {
            // guard: a node that may not vote reserves nothing
            if last.is_none() && !self.lock.queue.is_empty() {
                self.close_out();
                return answer;
            }
        } else if self.serve(None, last) == Turn::Anothers {
            return answer;
        }
        match (&mut self.lock.key, last) {
            (key, None) => *key = None,
            (
                Some(Key {
                    form: Form::Shared(until, _, whom),
                    ..
                }),
                Some(_),
            ) if self.time <= *until => (*until, *whom) = (0, Whom::Nobody),
            _ => {}
        }
        answer
    }

    /// The lock is free and crowded, and reserved for no waiter: `@0 `.
    pub(super) fn close_out(&mut self) {
        let end = self.now() + ms(self.request.keys.waits.place);
        self.put(Form::Reserved(0, Whom::Nobody), end);
    }

    /// Whether the lock is reserved for another, which may still come: of readers one that was called is queued.
    fn may_still_come(&self, reserved: Option<Whom>, mine: bool) -> bool {
        match reserved {
            None | Some(Whom::Nobody) => false,
            Some(Whom::Waiter(..)) => !mine,
            Some(Whom::Readers(ticket)) => {
                let first = self.lock.queue.first();
                first.is_some_and(|first| first.shares && first.ticket <= ticket)
            }
        }
    }

    /// "reserve".
    pub(super) fn reserve(&mut self, long: Duration) -> Reply {
        let anothers = self.reserved().is_some() && !self.is_mine();
        // guard: no client has it alone, nor is it reserved for another; in quarantine nothing is
        let done = self.quarantine.is_none() && self.alone_free() && !anothers;
        if let (true, Some(waiter)) = (done, &self.request.waiter) {
            let (number, inbox) = named(waiter);
            let until = self.time + ms(long) * 1000;
            let end = self.now() + ms(long.max(self.request.keys.waits.place));
            let shared = matches!(self.form(), Some(Form::Shared(..)));
            self.reserve_for(shared, Whom::Waiter(number, inbox), until, end);
        }
        Reply::Reserved { done }
    }
}
