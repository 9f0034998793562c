//! The task that reads maps of a cluster, and lets requests go on that wait for one.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::{LONGEST_PAUSE, MapQuery, Notifications, PAUSE, REFRESH, Routes, SeedCheck};
use crate::clock::{Instant, Sleep};
use crate::mutex::lock;
use crate::node::Fault;
use crate::node::redis::connect::{View, look_for_strangers, map_of};
use crate::runtime::drive::let_go;

impl Routes {
    /// Keeps the map, and what waits, until the client is closed.
    pub(crate) async fn run(self: Arc<Routes>) {
        lock(&self.state).rests = false;
        let mut reader = Reader {
            routes: self,
            asking: None,
            checking: None,
            ids: Vec::new(),
            next: Instant::NEVER,
            pause: PAUSE,
            first: 0,
            timer: None,
        };
        poll_fn(|cx| reader.poll(cx)).await;
    }
}

/// Reads maps.
struct Reader {
    routes: Arc<Routes>,
    asking: Option<MapQuery>,
    /// Whether the URL names servers of one cluster, once there is a map.
    checking: Option<SeedCheck>,
    /// The servers that the last map's server knew.
    ids: Vec<String>,
    /// The next is not asked for before.
    next: Instant,
    pause: Duration,
    /// Which server is asked first.
    first: usize,
    timer: Option<(Instant, Sleep)>,
}

impl Drop for Reader {
    /// Answers what waits; releases are left to the next, too.
    fn drop(&mut self) {
        let mut after = Notifications::default();
        let mut state = lock(&self.routes.state);
        state.rests = true;
        state
            .waiting
            .iter_mut()
            .for_each(|waits| after.has_ended(&mut waits.item));
        state.waiting.retain(|waits| waits.item.is_release());
        drop(state);
        after.tell();
        let_go((self.asking.take(), self.checking.take()));
    }
}

impl Reader {
    /// Ready when the client is closed.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let now = self.routes.target.gate.clock.now();
            if let Some(asking) = &mut self.asking
                && let Poll::Ready(answer) = asking.as_mut().poll(cx)
            {
                self.asking = None;
                self.took(answer, now);
            }
            if let Some(checking) = &mut self.checking
                && let Poll::Ready(answer) = checking.as_mut().poll(cx)
            {
                self.checking = None;
                if let Err(fault) = answer {
                    self.routes.refuse(fault);
                }
            }
            let mut until = self.routes.look(now);
            let mut state = lock(&self.routes.state);
            if state.closed {
                return Poll::Ready(());
            }
            let wanted = state.stale && self.asking.is_none();
            if wanted && self.next <= now {
                state.stale = false;
                drop(state);
                let (routes, first) = (self.routes.clone(), self.first);
                let (known, ids) = (routes.primaries(), self.ids.clone());
                // The reader begins with another server each time: this one may be cut off from the
                // others.
                self.first = self.first.wrapping_add(1);
                self.asking = Some(Box::pin(async move {
                    map_of(&routes.target, &known, &ids, first).await
                }));
                continue;
            }
            if std::mem::take(&mut state.fresh) {
                continue;
            }
            if wanted {
                until = until.min(self.next);
            }
            let _: Poll<()> = state.task.park(cx);
            drop(state);
            match &self.timer {
                Some((at, _)) if *at <= until => {}
                _ if until == Instant::FAR => self.timer = None,
                _ => {
                    let sleep = self.routes.target.gate.clock.sleep_until(until.max(now));
                    self.timer = Some((until, sleep));
                }
            }
            if let Some((_, timer)) = &mut self.timer
                && timer.as_mut().poll(cx).is_ready()
            {
                self.timer = None;
                continue;
            }
            return Poll::Pending;
        }
    }

    fn took(&mut self, answer: Result<View, Fault>, now: Instant) {
        match answer {
            Ok(View { ranges, ids, .. }) => {
                self.pause = PAUSE;
                self.next = now + REFRESH;
                if self.ids.is_empty() {
                    let (routes, ids) = (self.routes.clone(), ids.clone());
                    self.checking = Some(Box::pin(async move {
                        look_for_strangers(&routes.target, &ids).await
                    }));
                }
                self.ids = ids;
                self.routes.take_map(ranges);
            }
            Err(fault) => {
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                self.next = now + self.pause;
                self.routes.no_map(&fault);
            }
        }
    }
}
