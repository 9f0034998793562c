//! What a node does with a request: its answer, the waiters that it calls, and what stands there afterwards.
//!
//! Written from docs/reference/protocol.md alone; the headings name the parts of that page.

use std::collections::BTreeMap;
use std::time::Duration;

use quorlock::sim::{Mode, Op, Reply, Request, Value};

use super::Action;
use super::lock::{Form, Key, Lock, Whom, label, left, ms, named, proves};

/// A fence may be proposed this far ahead of the node's `TIME`, in µs.
pub const AHEAD: u64 = 10_000_000;

/// A node that has one request in hand.
#[derive(Debug)]
pub struct Node<'a> {
    /// What it has of the lock.
    pub lock: Lock,
    /// Its `TIME`, in µs.
    pub time: u64,
    /// How much longer it is in quarantine, where the request minds that.
    pub quarantine: Option<Duration>,
    /// It holds the record that the client was admitted with, or that is not compared.
    pub admitted: bool,
    /// A lock in another layout stands under the key.
    pub other_layout: bool,
    /// The request.
    pub request: &'a Request,
    /// How many connections listen on each inbox.
    pub listeners: &'a BTreeMap<Vec<u8>, u32>,
    /// Which waiters were called, each by its inbox, its number, and the slot that is for it.
    pub called: Vec<(Vec<u8>, u64, Option<u32>)>,
}

/// What a node answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// This.
    Says(Reply),
    /// An error of its server.
    Fails,
    /// It holds another record.
    OtherRecord,
}

impl Node<'_> {
    /// Carries the request out, by its script. "Scripts".
    pub fn carry_out(&mut self) -> (Action, Answer) {
        let (request, mode) = (self.request, self.request.keys.mode);
        let shares = mode == Mode::Shared;
        let action = match request.op {
            Op::Acquire { .. } if request.keys.adopts.is_some() => Action::NodeAdopt,
            Op::Acquire { home: true, .. } if request.waiter.is_some() => Action::NodeJoin,
            Op::Acquire { .. } if shares => Action::NodeShare,
            Op::Acquire { .. } => Action::NodeAcquire,
            Op::Extend { .. } if shares => Action::NodeShareExtend,
            Op::Extend { .. } => Action::NodeExtend,
            Op::Confirm { .. } => Action::NodeConfirm,
            Op::Reserve { .. } => Action::NodeReserve,
            Op::Release if self.forces().is_some() => Action::NodeForce,
            Op::Release if self.keeps().is_some() => Action::NodeKeep,
            Op::Release if request.value.0.is_empty() => Action::NodeServe,
            Op::Release => Action::NodeRelease,
            Op::Inspect => return (Action::Look, Answer::Fails),
        };
        if request.op != Op::Release {
            // guard: another record, later than `not_after`
            if !self.admitted {
                return (action, Answer::OtherRecord);
            }
            if request.not_after != 0 && self.time > request.not_after {
                return (action, Answer::Says(Reply::Late));
            }
        }
        let votes = matches!(request.op, Op::Acquire { .. } | Op::Reserve { .. });
        if votes && self.other_layout {
            return (action, Answer::Fails);
        }
        let reply = match request.op {
            Op::Acquire {
                ttl,
                candidate,
                block,
                ..
            } if request.keys.adopts.is_some() => self.adopt(ttl, candidate, block),
            Op::Acquire { ttl, candidate, .. } if shares => self.share(ttl, candidate),
            Op::Acquire {
                ttl,
                candidate,
                block,
                ..
            } => self.acquire(ttl, candidate, block),
            Op::Extend {
                ttl, repair, fence, ..
            } if shares => self.share_extend(ttl, repair, fence),
            Op::Extend {
                ttl, repair, fence, ..
            } => self.extend(ttl, repair, fence),
            Op::Confirm { ttl, fence, .. } if shares => self.share_confirm(ttl, fence),
            Op::Confirm { ttl, fence, block } => self.confirm(ttl, fence, block),
            Op::Reserve { long } => self.reserve(long),
            Op::Release => self.release(),
            Op::Inspect => return (action, Answer::Fails),
        };
        (action, Answer::Says(reply))
    }

    /// How many connections listen on an inbox.
    pub fn listen(&self, inbox: &[u8]) -> u32 {
        self.listeners.get(inbox).copied().unwrap_or(0)
    }

    /// The present millisecond.
    pub fn now(&self) -> u64 {
        self.time / 1000
    }

    /// The form under the lock's key. What is no lock of ours holds it, whatever it is: a raw lock has no readers, so a
    /// lock that is shared is another's.
    pub fn form(&self) -> Option<Form> {
        let foreign = || Form::Quiet(Value([].into()));
        match &self.lock.key {
            Some(key) if matches!(key.form, Form::Shared(..)) && self.is_raw() => Some(foreign()),
            Some(key) => Some(key.form.clone()),
            None => self.other_layout.then(foreign),
        }
    }

    /// Whether the lock is a raw one: the queue of no other is `NAMESPACE#q:#…`.
    fn is_raw(&self) -> bool {
        let aux = &self.request.keys.aux;
        let mark = aux.queue().iter().zip(aux.counter());
        let mark = mark.take_while(|(q, f)| q == f).count();
        aux.queue().get(mark + 2) == Some(&b'#')
    }

    /// The value that holds or keeps the lock alone.
    pub fn holder(&self) -> Option<Value> {
        let form = self.form()?;
        let stands = form.until().is_none_or(|until| self.time <= until);
        form.value().filter(|_| stands).cloned()
    }

    /// The reader whose vote ends last.
    pub fn last(&self) -> Option<(Value, u64)> {
        if self.is_raw() {
            return None;
        }
        let readers = self.lock.readers.iter();
        let readers = readers.filter(|(_, until)| self.time <= **until);
        let last = readers.max_by_key(|(value, until)| (**until, (*value).clone()));
        last.map(|(value, until)| (value.clone(), *until))
    }

    /// *Own*: the lease of the request stands there as a quiet value, or as `=` that stands.
    pub fn own(&self) -> bool {
        let kept = matches!(self.form(), Some(Form::Kept(..)));
        let holder = self.holder();
        !kept && holder.is_some_and(|holder| proves(&self.request.value, &holder))
    }

    /// No client has it alone.
    pub fn alone_free(&self) -> bool {
        self.holder().is_none()
    }

    /// No client has it.
    pub fn free(&self) -> bool {
        self.alone_free() && self.last().is_none()
    }

    /// For whom it is reserved.
    pub fn reserved(&self) -> Option<Whom> {
        self.form()?.reserved(self.time).cloned()
    }

    /// Whether it is reserved for the request's waiter.
    pub fn is_mine(&self) -> bool {
        let me = self.request.waiter.as_ref().map(named);
        let me = me.map(|(number, inbox)| Whom::Waiter(number, inbox));
        self.request.keys.mode != Mode::Shared && me.is_some() && self.reserved() == me
    }

    /// Whether the lease of this value is banned.
    pub fn banned(&self, value: &Value) -> bool {
        self.lock.bans.contains_key(&super::lock::banned_as(value))
    }

    /// Puts that under the lock's key.
    pub fn put(&mut self, form: Form, end: u64) {
        let end = Some(end);
        self.lock.key = Some(Key { form, end });
    }

    /// The lock's key ends at that millisecond at the earliest.
    pub fn lengthen(&mut self, least: u64) {
        if let Some(Key { end: Some(end), .. }) = &mut self.lock.key {
            *end = least.max(*end);
        }
    }

    /// The end of the lock's key, if it has one.
    pub fn key_end(&self) -> u64 {
        let key = self.lock.key.as_ref();
        key.and_then(|key| key.end).unwrap_or_else(|| self.now())
    }

    /// `=END VALUE` of the request, END being that: the key stands as long at least.
    pub fn hold_crowded(&mut self, until: u64, least: u64) {
        let end = least.max(self.now() + left(until, self.time));
        self.put(Form::Held(until, self.request.value.clone()), end);
    }

    /// The own value lives for the ttl at least, with the label of the request.
    pub fn lengthen_own(&mut self, ttl: Duration) {
        let full = self.now() + ms(ttl);
        let Some(key) = self.lock.key.clone() else {
            return;
        };
        match (key.form, key.end) {
            (Form::Held(until, _), _) => {
                let until = until.max(self.time + ms(ttl) * 1000);
                self.hold_crowded(until, self.key_end().max(full));
            }
            (_, end) => {
                let end = end.map_or(full, |end| end.max(full));
                self.put(Form::Quiet(self.request.value.clone()), end);
            }
        }
    }

    /// Whether a refusal queues the waiter: this is its home.
    pub fn joins(&self) -> bool {
        matches!(self.request.op, Op::Acquire { home: true, .. }) && self.request.waiter.is_some()
    }

    /// How long yet what keeps the request out, in ms.
    pub fn keeps_out(&self) -> Option<u64> {
        if let Some((_, until)) = self.last() {
            return Some(left(until, self.time));
        }
        match self.form()?.until() {
            Some(until) => Some(left(until, self.time)),
            None if self.other_layout && self.lock.key.is_none() => Some(u64::MAX),
            None => self.lock.key.as_ref()?.end.map(|end| end - self.now()),
        }
    }

    /// Step 7 of acquire: a refused waiter whose home this is joins the queue, and the lock's key is marked.
    pub fn refuse(&mut self, left: Option<u64>) -> Reply {
        let holder = self.holder().or(self.last().map(|(reader, _)| reader));
        self.refuse_for(left, holder)
    }

    /// The same, where the value that is told is that.
    pub fn refuse_for(&mut self, left: Option<u64>, holder: Option<Value>) -> Reply {
        let holder = holder.as_ref().and_then(label);
        let holder = holder.map(|label| String::from_utf8_lossy(label).into_owned().into());
        let shared = self.last().is_some();
        let place = if self.joins() { self.join() } else { None };
        if place.is_some() {
            self.mark();
        }
        let inbox = self.request.waiter.as_ref().map(|waiter| &waiter.inbox);
        let listeners = inbox.filter(|_| place.is_some());
        Reply::Refused {
            left: left.map(Duration::from_millis),
            holder,
            place,
            subscribers: listeners.map_or(1, |inbox| self.listen(inbox)),
            shared,
        }
    }

    /// The lock's key is crowded from now on, so that it outlives the place of the waiter. A foreign one is left alone.
    pub fn mark(&mut self) {
        let (now, life) = (self.now(), ms(self.request.keys.waits.place));
        match self.lock.key.clone() {
            Some(Key {
                form: Form::Quiet(value),
                end: Some(end),
            }) if super::lock::lease(&value).is_some() => {
                let until = self.time + (end - now) * 1000 + 1000;
                self.put(Form::Held(until, value), end.max(now + life));
            }
            Some(Key {
                form: Form::Quiet(_),
                ..
            })
            | None => {}
            Some(_) => self.lengthen(now + life),
        }
    }

    /// A fence for the vote, of a block: "acquire", the fence. Returns what is answered.
    pub fn count(&mut self, candidate: u64, block: u32) -> u64 {
        let last = self.counted();
        if candidate == 0 || self.request.keys.fence_ttl.is_none() {
            return last.unwrap_or(0);
        }
        let next = last.map_or(0, |last| last + u64::from(block));
        let fence = candidate.min(self.time + AHEAD).max(next);
        self.store(fence);
        fence
    }

    /// What is counted for the lock, where the request counts.
    pub fn counted(&self) -> Option<u64> {
        self.request.keys.fence_ttl?;
        self.lock.counter.map(|(fence, _)| fence)
    }

    /// Stores a fence; the counter lives for 1.25 of its ttl from now on.
    pub fn store(&mut self, fence: u64) {
        let Some(ttl) = self.request.keys.fence_ttl else {
            return;
        };
        let end = if ttl.is_zero() {
            self.lock.counter.and_then(|(_, end)| end)
        } else {
            Some(self.now() + ms(ttl + ttl / 4))
        };
        self.lock.counter = Some((fence, end));
    }

    /// The counter is raised to that fence, and never lowered.
    pub fn raise(&mut self, fence: u64) {
        self.store(fence.max(self.counted().unwrap_or(0)));
    }
}
