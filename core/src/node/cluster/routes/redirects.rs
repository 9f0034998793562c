//! What becomes of requests that a server of the cluster does not serve: the server that serves
//! them now is asked, or they wait for the next map.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use super::{Notifications, PAUSE, REDIRECTS, REFRESH, Routes};
use crate::mutex::lock;
use crate::node::Op;
use crate::node::address::Endpoint;
use crate::node::redis::map::at;
use crate::node::redis::outbox::Item;
use crate::node::redis::router::Router;
use crate::node::redis::server_error::Redirect;

impl Router for Routes {
    fn redirected(&self, mut item: Box<Item>, redirect: Redirect, from: &Endpoint, calm: bool) {
        let now = self.target.gate.clock.now();
        let mut after = Notifications::default();
        let mut guard = lock(&self.state);
        let state = &mut guard;
        item.with_text = false;
        item.asking = false;
        match redirect {
            Redirect::Moved { .. } | Redirect::Ask { .. } => item.redirects += 1,
            Redirect::TryAgain | Redirect::Down => {
                (item.redirects, item.pauses) = (0, item.pauses + 1)
            }
        }
        // An extension during a move goes to the one key of its lock, so that a held lease outlives
        // the move. Not in a quarantine, which that script does not look at.
        let prolongs = !item.prolongs
            && calm
            && matches!(redirect, Redirect::TryAgain)
            && item.request.keys.mode.is_alone()
            && matches!(item.request.op, Op::Extend { .. });
        item.prolongs = prolongs || item.prolongs && matches!(redirect, Redirect::Ask { .. });
        let pause = (PAUSE * (1 << item.pauses.clamp(1, 6))).min(REFRESH);
        let to = match &redirect {
            Redirect::Moved { host, port, .. } | Redirect::Ask { host, port } => {
                at(host, *port, from)
            }
            Redirect::TryAgain | Redirect::Down => None,
        };
        // A server is taken on only while there is room, for a broken cluster could name servers
        // without end.
        let to = to.filter(|to| state.has_room(to));
        // ASK and TRYAGAIN are of a move that is under way, which leaves the map as it is.
        state.stale |= !matches!(redirect, Redirect::Ask { .. } | Redirect::TryAgain);
        match (to, redirect) {
            // Two servers that name each other would keep a request going for ever.
            (Some(_), _) if (item.redirects > REDIRECTS) => {
                let why = "its servers send the request from one to another";
                state.wait(item, now + REFRESH, why, &mut after)
            }
            (Some(to), Redirect::Ask { .. }) => {
                let shard = self.shard(state, to);
                item.asking = true;
                state.send(shard, item, &mut after)
            }
            (Some(to), Redirect::Moved { slot, .. }) => {
                let shard = self.shard(state, to);
                if let Some(place) = state.map.get_mut(usize::from(slot)) {
                    *place = shard as u16;
                }
                state.send(shard, item, &mut after)
            }
            _ if prolongs => state.route(item, &mut after),
            (_, Redirect::Down) => {
                let why = "CLUSTERDOWN: nobody serves the hash slot, or most of the cluster's \
                           primaries are not there";
                state.wait(item, now + pause, why, &mut after)
            }
            _ => {
                let why = "its hash slot is being moved";
                state.wait(item, now + pause, why, &mut after)
            }
        }
        // The task looks at once: the redirection shows that the map is out of date.
        state.fresh = true;
        after.owed.extend(state.task.take());
        drop(guard);
        self.finish(after);
    }

    fn take_strays(&self, here: &Endpoint, items: VecDeque<Box<Item>>) -> VecDeque<Box<Item>> {
        let mut guard = lock(&self.state);
        let (mut kept, mut after) = (VecDeque::new(), Notifications::default());
        for mut item in items {
            let elsewhere = guard.shard_of(&item).is_some_and(|shard| shard.at != *here);
            // A request with ASKING is at the right server although the map names another.
            if !elsewhere || item.asking {
                kept.push_back(item);
                continue;
            }
            item.with_text = false;
            guard.route(item, &mut after);
        }
        drop(guard);
        self.finish(after);
        kept
    }

    fn doubt(&self) {
        let mut state = lock(&self.state);
        (state.stale, state.fresh) = (true, true);
        let task = state.task.take();
        drop(state);
        self.ring(task);
    }

    fn served_at(&self, slot: u16) -> Option<Endpoint> {
        let state = lock(&self.state);
        let place = state.map[usize::from(slot)];
        let shard = state.shards.get(usize::from(place))?;
        Some(shard.at.clone())
    }

    fn admitted(&self, id: u64) {
        self.id.store(id, Ordering::Relaxed);
    }
}
