//! The scripts `hacquire`, `hextend` and `hrelease` on a node in memory: a lock in Redisson's
//! layout.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::queue::Message;
use super::redisson::{RedissonLock, Tokens, of_another_layout};
use super::times::{life, tick};
use super::{MemoryNode, ScriptAnswer};
use crate::clock::Instant;
use crate::foreign;
use crate::node::{Field, Hint, Op, Repair, Reply, Request};

impl MemoryNode {
    /// Carries the script out that the request calls. `quarantine`: how much longer that lasts,
    /// where it is minded.
    pub(super) fn hashed(
        &mut self,
        request: &Request,
        field: &Field,
        quarantine: Option<Duration>,
        now: Instant,
        messages: &mut Vec<Message>,
    ) -> ScriptAnswer {
        Ok(match request.op {
            Op::Acquire {
                ttl,
                candidate,
                block,
                ..
            } => self.enter(request, field, quarantine, (ttl, candidate, block), now),
            Op::Extend {
                ttl, repair, fence, ..
            } => {
                let minded = quarantine.filter(|_| !matches!(repair, Repair::InQuarantine { .. }));
                match (self.has(request, field, now), minded) {
                    (false, _) => Reply::NotMine,
                    (true, Some(left)) => Reply::Quarantined { left },
                    (true, None) => {
                        self.raise_hashed(request, fence);
                        self.lengthen_hashed(request, ttl, now);
                        Reply::Extended { repaired: false }
                    }
                }
            }
            Op::Confirm { ttl, fence, block } => {
                let stored = self.counted(request, now).unwrap_or(0);
                let below = fence.checked_sub(block.into());
                let counts = request.keys.fence_ttl.is_some();
                let taken = counts && below.is_none_or(|below| stored > below);
                match self.has(request, field, now) {
                    false => Reply::NotMine,
                    true if taken => Reply::Greater { fence: stored },
                    true => {
                        self.raise_hashed(request, fence);
                        self.lengthen_hashed(request, ttl, now);
                        Reply::Confirmed
                    }
                }
            }
            Op::Release => self.leave_hashed(request, field, now, messages),
            Op::Inspect | Op::Reserve { .. } => unreachable!("no script of such a lock does it"),
        })
    }

    fn enter(
        &mut self,
        request: &Request,
        field: &Field,
        quarantine: Option<Duration>,
        (ttl, candidate, block): (Duration, u64, u32),
        now: Instant,
    ) -> Reply {
        // A text under the key is a lock of the usual layout, which this layout must not overwrite.
        if self.form(&request.keys.lock, now).is_some() {
            return of_another_layout();
        }
        let own = self
            .lock_of(request, now)
            .map(|held| held.owner == field.name);
        if own == Some(false) {
            return self.refuse_hashed(request, now);
        }
        // The refusal comes before the quarantine: the holder's hold stands, whatever the node has
        // lost.
        if let Some(left) = quarantine {
            return Reply::Quarantined { left };
        }
        self.hush(request);
        let key = request.keys.aux.queue();
        // Tokens without a lock are of a hold that has ended or was forced open: none of them counts.
        if own.is_none() {
            self.tokens.remove(key);
        }
        self.tokens.retain(|_, tokens| tick(now) <= tokens.end);
        let tokens = self.tokens.entry(key.into()).or_insert(Tokens {
            tokens: BTreeSet::new(),
            fence: None,
            end: Instant::NEVER,
        });
        let fenced = tokens.fence;
        let new = tokens.tokens.insert(request.value.clone());
        let lock = self.hashes.entry(request.keys.lock.clone());
        let lock = lock.or_insert(RedissonLock {
            owner: field.name.clone(),
            count: 0,
            end: Instant::NEVER,
        });
        // An ended hash stands until it is swept, and a new hold must not inherit its count.
        if tick(now) > lock.end {
            (lock.owner, lock.count) = (field.name.clone(), 0);
        }
        // A token that is there was counted already: a repeated request enters once.
        lock.count += u32::from(new);
        self.lengthen_hashed(request, ttl, now);
        Reply::Granted {
            fence: self.fence_hashed(request, fenced, candidate, block, now),
            lasts: None,
        }
    }

    /// The hold's fence; a new one where the hold has none.
    fn fence_hashed(
        &mut self,
        request: &Request,
        has: Option<u64>,
        candidate: u64,
        block: u32,
        now: Instant,
    ) -> u64 {
        if request.keys.fence_ttl.is_none() {
            return 0;
        }
        if candidate == 0 || has.is_some() {
            return has.unwrap_or(0);
        }
        let last = self.counted(request, now).unwrap_or(0);
        // The bound keeps a client with a wrong clock from using up the numbers.
        let latest = MemoryNode::time(now) + 10_000_000;
        let fence = candidate.min(latest).max(last + u64::from(block));
        self.raise_hashed(request, fence);
        fence
    }

    fn refuse_hashed(&mut self, request: &Request, now: Instant) -> Reply {
        let waits = match (request.op, &request.waiter) {
            (Op::Acquire { home: true, .. }, Some(waiter)) => {
                let listening = self.listening.entry(request.keys.lock.clone());
                let who = (waiter.inbox.clone(), waiter.number);
                listening.or_default().insert(who);
                true
            }
            _ => false,
        };
        let lock = self.lock_of(request, now).expect("it was found");
        Reply::Refused {
            left: Some(tick(now).until(lock.end)),
            holder: Some(foreign::excerpt_of_bytes(&lock.owner).into()),
            place: waits.then_some(0),
            subscribers: 1,
            shared: false,
        }
    }

    fn leave_hashed(
        &mut self,
        request: &Request,
        field: &Field,
        now: Instant,
        messages: &mut Vec<Message>,
    ) -> Reply {
        self.hush(request);
        let held = self.has(request, field, now);
        let key = request.keys.aux.queue();
        let tokens = self.tokens.get_mut(key);
        let mut tokens = tokens.filter(|tokens| tick(now) <= tokens.end);
        let counted = tokens
            .as_mut()
            .is_some_and(|tokens| tokens.tokens.remove(&request.value));
        if tokens.is_some_and(|tokens| tokens.tokens.is_empty() && tokens.fence.is_none()) {
            self.tokens.remove(key);
        }
        let lock = self.hashes.get_mut(&request.keys.lock);
        let lock = lock.filter(|lock| tick(now) <= lock.end && lock.owner == field.name);
        if lock.is_none() && counted {
            // The lock was forced open, so the other tokens count nothing any more, either.
            self.tokens.remove(key);
        } else if let Some(lock) = lock.filter(|_| counted && !request.value.0.is_empty()) {
            lock.count -= 1;
            if lock.count == 0 {
                self.hashes.remove(&request.keys.lock);
                self.tokens.remove(request.keys.aux.queue());
                let waiting = self.listening.get(&request.keys.lock);
                messages.extend(waiting.into_iter().flatten().map(|(inbox, number)| {
                    let number = *number;
                    (inbox.clone(), Hint { number, slot: None })
                }));
            }
        }
        Reply::Released { held }
    }

    /// Ends the notifications of the request's waiter.
    fn hush(&mut self, request: &Request) {
        let Some(waiter) = &request.waiter else {
            return;
        };
        if let Some(waiting) = self.listening.get_mut(&request.keys.lock) {
            waiting.remove(&(waiter.inbox.clone(), waiter.number));
            if waiting.is_empty() {
                self.listening.remove(&request.keys.lock);
            }
        }
    }

    /// The lock, if it is held.
    pub(super) fn lock_of(&self, request: &Request, now: Instant) -> Option<&RedissonLock> {
        let lock = self.hashes.get(&request.keys.lock);
        lock.filter(|lock| tick(now) <= lock.end)
    }

    /// Whether the owner holds it by the request's token.
    fn has(&self, request: &Request, field: &Field, now: Instant) -> bool {
        let tokens = self.tokens.get(request.keys.aux.queue());
        let tokens = tokens.filter(|tokens| tick(now) <= tokens.end);
        let lock = self.lock_of(request, now);
        lock.is_some_and(|lock| lock.owner == field.name)
            && tokens.is_some_and(|tokens| tokens.tokens.contains(&request.value))
    }

    fn lengthen_hashed(&mut self, request: &Request, ttl: Duration, now: Instant) {
        let end = life(now, ttl);
        if let Some(lock) = self.hashes.get_mut(&request.keys.lock) {
            lock.end = lock.end.max(end);
        }
        if let Some(tokens) = self.tokens.get_mut(request.keys.aux.queue()) {
            tokens.end = tokens.end.max(end);
        }
    }

    /// What is counted has no end: Redisson's own counter has none.
    fn raise_hashed(&mut self, request: &Request, fence: u64) {
        let Some((key, _)) = request.keys.counter() else {
            return;
        };
        let counter = self.counters.entry(key.into());
        let counter = counter.or_insert((0, Instant::FAR));
        if fence > counter.0 {
            let end = Instant::FAR;
            *counter = (fence, end);
            if let Some(tokens) = self.tokens.get_mut(request.keys.aux.queue()) {
                tokens.fence = Some(fence);
            }
        }
    }
}

impl MemoryNode {
    /// The hashes that live, each with its fields and the moment it ends: those of locks, and
    /// those of tokens.
    pub fn hashes(
        &self,
        now: Instant,
    ) -> impl Iterator<Item = (&[u8], BTreeMap<Vec<u8>, u64>, Instant)> {
        let locks = self.hashes.iter().map(|(key, lock)| {
            let fields = [(lock.owner.to_vec(), lock.count.into())];
            (&**key, BTreeMap::from(fields), lock.end)
        });
        let tokens = self.tokens.iter().map(|(key, tokens)| {
            let each = tokens.tokens.iter().map(|token| (token.0.to_vec(), 1));
            let fence = tokens.fence.map(|fence| (b"f".to_vec(), fence));
            (&**key, each.chain(fence).collect(), tokens.end)
        });
        let all = locks.chain(tokens);
        all.filter(move |(_, _, end)| tick(now) <= *end)
    }

    /// Java says how long a lock lasts, if it is held.
    pub fn java_renews(&mut self, lock: &[u8], long: Duration, now: Instant) {
        if let Some(lock) = self
            .hashes
            .get_mut(lock)
            .filter(|lock| tick(now) <= lock.end)
        {
            lock.end = life(now, long);
        }
    }

    /// Java holds a lock for so long, if nothing stands there.
    pub fn java_locks(&mut self, lock: &[u8], owner: &[u8], long: Duration, now: Instant) {
        let hashed = self.hashes.get(lock);
        let taken = hashed.is_some_and(|lock| tick(now) <= lock.end);
        if taken || self.form(lock, now).is_some() {
            return;
        }
        let held = RedissonLock {
            owner: owner.into(),
            count: 1,
            end: life(now, long),
        };
        self.hashes.insert(lock.into(), held);
    }

    /// Java deletes a lock.
    pub fn java_forces(&mut self, lock: &[u8]) {
        self.hashes.remove(lock);
    }

    /// Java counts a fence.
    pub fn java_counts(&mut self, counter: &[u8]) {
        let counted = self
            .counters
            .entry(counter.into())
            .or_insert((0, Instant::FAR));
        counted.0 += 1;
    }
}
