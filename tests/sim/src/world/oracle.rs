//! What is watched from outside: leases, tokens and keys, for the invariants.

use std::sync::Arc;

use quorlock::sim::{Hold, Instant, Op, Request, Value};

use super::{Inner, Node, Time, World};

/// A lease that some worker holds or held.
#[derive(Debug)]
pub struct Watch {
    /// Which client.
    pub client: usize,
    /// The token's life.
    pub hold: Arc<Hold>,
    /// The worker gave it up.
    pub released: bool,
    /// It was seen invalid.
    pub over: bool,
}

/// A [`Watch`] as it is seen at one moment.
#[derive(Debug)]
pub struct Watched {
    /// Its place.
    pub index: usize,
    /// Which client.
    pub client: usize,
    /// The token's life.
    pub hold: Arc<Hold>,
    /// The worker gave it up.
    pub released: bool,
    /// It was seen invalid before.
    pub was_over: bool,
    /// Its client is gone.
    pub crashed: bool,
}

/// What is known of a token from outside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    pub(super) task: usize,
    pub(super) client: usize,
    /// Since when its task has no use for it any more.
    pub(super) dead_since: Option<Time>,
}

impl World {
    /// The polled task has no use any more for its tokens, but for `kept`.
    pub fn done_with_tokens(&self, kept: Option<&str>) {
        let mut inner = self.inner();
        let (now, task) = (inner.time, inner.polled);
        for (token, life) in &mut inner.tokens {
            if life.task == task && life.dead_since.is_none() && kept != Some(token) {
                life.dead_since = Some(now);
            }
        }
    }

    /// L1: a key on a node whose token has been dead for longer than `within`,
    /// while nothing was wrong for as long.
    pub fn leak(&self, within: Time) -> Option<String> {
        let inner = self.inner();
        for (i, node) in inner.nodes.iter().enumerate() {
            let now = node.clock.local(inner.time);
            for (_, value) in node.state.keys(now) {
                let token = String::from_utf8_lossy(&value.0);
                let life = inner.tokens.get(&*token)?;
                let since = life.dead_since.unwrap_or(Time::MAX).max(inner.mended_at);
                if !inner.clients[life.client].crashed && inner.time.saturating_sub(within) > since
                {
                    return Some(format!("L1 n{i} still holds a key of {}", &token[..6]));
                }
            }
        }
        None
    }

    /// Reports a broken invariant.
    pub fn violated(&self, what: String) {
        let mut inner = self.inner();
        if inner.violation.is_none() {
            inner.note(|| format!("VIOLATION {what}"));
            inner.violation = Some(what);
        }
    }

    /// Leases that workers hold or held.
    pub fn watch(&self, client: usize, hold: Arc<Hold>) -> usize {
        let mut inner = self.inner();
        inner.watches.push(Watch {
            client,
            hold,
            released: false,
            over: false,
        });
        inner.watches.len() - 1
    }

    /// The worker gave its lease up.
    pub fn unwatch(&self, index: usize) {
        self.inner().watches[index].released = true;
    }

    /// The leases to check.
    pub fn watched(&self) -> Vec<Watched> {
        let inner = self.inner();
        let seen = |(index, w): (usize, &Watch)| Watched {
            index,
            client: w.client,
            hold: w.hold.clone(),
            released: w.released,
            was_over: w.over,
            crashed: inner.clients[w.client].crashed,
        };
        inner.watches.iter().enumerate().map(seen).collect()
    }

    /// Whether the client was paused within the last moments.
    pub fn was_paused(&self, client: usize) -> bool {
        self.inner().clients[client].paused_until > 0
    }

    /// Marks a lease as seen invalid: it must stay so.
    pub fn mark_over(&self, index: usize) {
        self.inner().watches[index].over = true;
    }

    /// How many nodes hold `value` under `key`.
    pub fn votes(&self, key: &[u8], value_prefix: &str) -> usize {
        let inner = self.inner();
        inner
            .nodes
            .iter()
            .filter(|node| {
                let now = node.clock.local(inner.time);
                node.state
                    .get(key, now)
                    .is_some_and(|(value, _)| value.0.starts_with(value_prefix.as_bytes()))
            })
            .count()
    }

    /// How many keys live on all nodes.
    pub fn all_keys(&self) -> usize {
        let inner = self.inner();
        let living = |node: &Node| node.state.keys(node.clock.local(inner.time)).count();
        inner.nodes.iter().map(living).sum()
    }
}

impl Inner {
    /// S3: only the token that owns a key extends or deletes it.
    pub(super) fn check_theft(
        &mut self,
        node: usize,
        request: &Request,
        before: Option<(Value, Instant)>,
        local: Instant,
    ) {
        let Some((value, end)) = before else { return };
        if value == request.value {
            return;
        }
        let after = self.nodes[node].state.get(&request.key, local);
        let same = after.is_some_and(|(v, e)| *v == value && e == end);
        if !same {
            self.violation.get_or_insert(format!(
                "S3 a stranger's {:?} changed a key on n{node}",
                request.op
            ));
        }
    }

    /// S3 and S5: nothing is renewed or repaired but for a lease that is
    /// valid at that moment.
    pub(super) fn check_extend(&mut self, client: usize, request: &Request) {
        if !matches!(request.op, Op::Extend { .. }) {
            return;
        }
        let now = self.clients[client].clock.local(self.time);
        let valid = self.watches.iter().rev().any(|w| {
            !w.released
                && request
                    .value
                    .0
                    .starts_with(w.hold.token().as_str().as_bytes())
                && now < w.hold.end()
        });
        if !valid {
            self.violation
                .get_or_insert("S3 a vote was renewed for a lease that is not valid".into());
        }
    }
}
