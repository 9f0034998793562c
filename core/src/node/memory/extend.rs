//! The script `extend` on a node in memory: lengthens a vote, stores one anew that is
//! gone, and writes fences back.

use std::time::Duration;

use super::lookup::KeyLookup;
use super::times::{life, micros};
use super::{MemoryNode, StoredValue};
use crate::clock::Instant;
use crate::node::{Repair, Reply, Request};

impl MemoryNode {
    pub(super) fn extend(
        &mut self,
        request: &Request,
        found: &KeyLookup,
        ttl: Duration,
        repair: Repair,
        (fence, behind): (u64, u32),
    ) -> Reply {
        let now = found.now;
        let shut = found.quarantine.filter(|_| match repair {
            Repair::No => true,
            Repair::Yes => true,
            Repair::InQuarantine { .. } => false,
        });
        let banned = self.bans.has(request, now);
        if found.own && banned {
            return Reply::Banned;
        }
        if found.own {
            // What stands there may be no vote, but to whom still counts it (rule Q).
            if let Some(left) = shut {
                return Reply::Quarantined { left };
            }
            self.lengthen_own(request, found, ttl);
            self.raise(request, fence, now);
            let own = fence.saturating_sub(behind.into());
            self.tell(request, own, now);
            return Reply::Extended { repaired: false };
        }
        if repair != Repair::No && found.free {
            if banned {
                return Reply::Banned;
            }
            if let Some(left) = shut {
                return Reply::Quarantined { left };
            }
            if found.is_crowded() {
                self.hold_crowded(request, found.time + micros(ttl), found.end, now);
            } else {
                self.put(
                    request,
                    StoredValue::Uncontended(request.value.clone()),
                    life(now, ttl),
                );
            }
            self.raise(request, fence, now);
            self.tell(request, fence.saturating_sub(behind.into()), now);
            return Reply::Extended { repaired: true };
        }
        Reply::NotMine
    }

    /// Strict: what is written is then this node's own mark, as if it had counted it.
    pub(super) fn confirm(
        &mut self,
        request: &Request,
        found: &KeyLookup,
        ttl: Duration,
        fence: u64,
        block: u32,
    ) -> Reply {
        if !found.own {
            return Reply::NotMine;
        }
        if self.bans.has(request, found.now) {
            return Reply::Banned;
        }
        if let Some(stored) = self.counted(request, found.now) {
            let below = fence.checked_sub(block.into());
            let strict = below.is_none_or(|below| stored > below);
            let greater = strict;
            if greater {
                return Reply::Greater { fence: stored };
            }
        }
        self.lengthen_own(request, found, ttl);
        self.set_counter(request, fence, found.now);
        self.tell(request, (fence + 1).saturating_sub(block.into()), found.now);
        Reply::Confirmed
    }

    /// The own value, which stands there, holds the lock for `ttl` from now on at least.
    pub(super) fn lengthen_own(&mut self, request: &Request, found: &KeyLookup, ttl: Duration) {
        let (now, full) = (found.now, life(found.now, ttl));
        match &found.form {
            Some(StoredValue::Contended { until, .. }) => {
                let full = found.time + micros(ttl);
                let longer = full.max(*until);
                let until = longer;
                self.hold_crowded(request, until, found.end, now);
                self.lengthen(request, life(now, ttl));
            }
            _ => {
                // One without an end gets one again, so that it goes with its holder.
                let end = match found.end {
                    Instant::FAR => full,
                    end => end.max(full),
                };
                self.put(
                    request,
                    StoredValue::Uncontended(request.value.clone()),
                    end,
                );
            }
        }
    }
}
