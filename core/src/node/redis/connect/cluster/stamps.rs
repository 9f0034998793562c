//! The stamps of a shard, which show whether it may have lost votes: see [`cluster`](super).

use std::time::Duration;

use redis::Value as Resp;

use super::slots::{AT_ONCE, Slots, mark_arriving, set_marks, slots_of};
use crate::node::Fault;
use crate::node::admission::{Gate, QuarantineCause, Record};
use crate::node::hash_slot;
use crate::node::redis::connect::admit::{tell_quarantine, write_record};
use crate::node::redis::connect::greet::Greeting;
use crate::node::redis::connect::prepare::{namespace, permitted};
use crate::node::redis::connect::talk::{elsewhere, exchange, not_ready};
use crate::node::redis::connect::target::{ConnectHints, Target};
use crate::node::redis::replies::text;
use crate::node::redis::script::mark;
use crate::node::redis::server_error::{Redirect, redirect};
use crate::node::redis::wire::Wire;

/// How often a stamp may be found changed on the way to a connection.
const WRITES: u32 = 6;
/// Among so many hash slots one has the stamp of its shard.
const STAMPS_EACH: u16 = 512;

/// A shard that may vote.
#[derive(Default)]
pub(crate) struct ShardState {
    /// Keys that are for trying what its user may do.
    pub(crate) scratch: Vec<Vec<u8>>,
    /// How much longer it is in quarantine.
    pub(crate) quarantine: Duration,
}

/// Finds out which hash slots the shard serves, and gives it a stamp, if restarts are guarded.
pub(crate) async fn stamp(
    target: &Target,
    greeted: &mut Greeting,
    record: &str,
    how: &ConnectHints,
) -> Result<ShardState, Fault> {
    let gate = &target.gate;
    let Slots {
        own: slots,
        arriving,
        leaving,
    } = slots_of(target, &mut greeted.wire).await?;
    // A hash slot that is leaving may answer to no request in the middle of its move.
    let stay = slots.iter().filter(|slot| !leaving.contains(slot));
    let stay: Vec<u16> = stay.copied().collect();
    let stay = if stay.is_empty() { &slots } else { &stay };
    let Some(lowest) = stay.first().copied() else {
        if gate.expected().guard && !arriving.is_empty() {
            // Nothing says whether the server has lost keys of these slots. Once it serves one slot
            // it has a stamp.
            return Err(not_ready("it is being given its first hash slots"));
        }
        // Hash slots that are moved here later bring their marks along.
        return Ok(ShardState::default());
    };
    // A resharding takes the lowest slots first, so the highest stays longest.
    let tag = hash_slot::tag(stay[stay.len() - 1]);
    let mut stamped = ShardState {
        scratch: vec![[&*gate.scratch_key, b":{", tag.as_bytes(), b"}"].concat()],
        quarantine: Duration::ZERO,
    };
    let (Some(run), true) = (&greeted.look.run, gate.expected().guard) else {
        return Ok(stamped);
    };
    let node = Record::parse(record).map_or_else(|| "-".into(), |r| r.node().to_owned());
    let own = format!("{node} {run}");
    let places = places(stay);
    let (wire, mut stepped) = (&mut greeted.wire, how.stepped);
    for _ in 0..WRITES {
        let found = stamps(target, wire, &places).await?;
        let lacking = places
            .iter()
            .zip(&found)
            .filter(|(_, found)| !is_of(found, &own));
        let lacking: Vec<u16> = lacking.map(|(place, _)| *place).collect();
        let known = match quarantine_of(&found, &own) {
            _ if stepped => None,
            None => look_everywhere(target, wire, &slots, &own).await?,
            known => known,
        };
        if let Some(quarantine) = known {
            // Another client may have stamped the shard a moment ago.
            stamped.quarantine = quarantine;
            set_stamps(target, wire, &lacking, &own).await?;
            return Ok(stamped);
        }
        let Some(Stamp { text: stored, .. }) = &found[0] else {
            return Err(not_ready("its hash slots are being moved"));
        };
        let quarantine = gate.expected().quarantine;
        let why = match (stored.is_empty(), stepped) {
            (_, true) => QuarantineCause::Clock,
            (true, false) => QuarantineCause::New,
            (false, false) => QuarantineCause::Promoted,
        };
        set_marks(target, wire, &slots, quarantine).await?;
        mark_arriving(target, wire, &arriving, quarantine).await?;
        let keys = [
            &*stamp_key(gate, lowest),
            &*mark(&gate.quarantine_key, lowest),
        ];
        if write_record(target, wire, keys, stored, &own, (quarantine, why))
            .await?
            .is_none()
        {
            tell_quarantine(target, quarantine, why);
            stamped.quarantine = quarantine;
            set_stamps(target, wire, &lacking, &own).await?;
            return Ok(stamped);
        }
        stepped = false;
    }
    Err(not_ready("its stamp changes again and again"))
}

/// Where a shard with these hash slots has its stamp: in the lowest, in the highest, and in each
/// of some numbers, so that hash slots which move away, whichever they are, leave it one.
fn places(slots: &[u16]) -> Vec<u16> {
    let is_one = |slot: &u16| {
        let more = slot.is_multiple_of(STAMPS_EACH) || Some(slot) == slots.last();
        Some(slot) == slots.first() || more
    };
    slots.iter().copied().filter(is_one).collect()
}

fn stamp_key(gate: &Gate, slot: u16) -> Vec<u8> {
    let tag = hash_slot::tag(slot);
    [namespace(gate), b"#shard:{", tag.as_bytes(), b"}"].concat()
}

/// What stands in a hash slot.
struct Stamp {
    /// The stamp, or nothing.
    text: String,
    /// How much longer its mark does.
    left: Duration,
}

/// The stamps in these hash slots; none for a slot that is being moved.
async fn stamps(
    target: &Target,
    wire: &mut Wire,
    slots: &[u16],
) -> Result<Vec<Option<Stamp>>, Fault> {
    let gate = &target.gate;
    let mut commands = Vec::new();
    for slot in slots {
        commands.push(redis::cmd("GET").arg(stamp_key(gate, *slot)).take());
        let mark = mark(&gate.quarantine_key, *slot);
        commands.push(redis::cmd("PTTL").arg(mark).take());
    }
    let replies = exchange(wire, &commands).await?;
    let moves = |reply: &Resp| matches!(reply, Resp::ServerError(e) if redirect(e).is_some());
    let mut found = Vec::with_capacity(slots.len());
    for pair in replies.chunks(2) {
        if pair.iter().any(moves) {
            found.push(None);
            continue;
        }
        let stamp = match permitted(gate, "get", pair[0].clone())? {
            Resp::Nil => String::new(),
            stamp => text(&stamp),
        };
        let left = match permitted(gate, "pttl", pair[1].clone())? {
            Resp::Int(left) => left.try_into().unwrap_or(0),
            _ => 0,
        };
        let left = Duration::from_millis(left);
        found.push(Some(Stamp { text: stamp, left }));
    }
    Ok(found)
}

fn is_of(stamp: &Option<Stamp>, own: &str) -> bool {
    stamp.as_ref().is_some_and(|stamp| stamp.text == own)
}

/// How much longer the shard is in quarantine that has its stamp among these, if it has.
fn quarantine_of(found: &[Option<Stamp>], own: &str) -> Option<Duration> {
    let own = found.iter().filter(|stamp| is_of(stamp, own)).flatten();
    own.map(|stamp| stamp.left).max()
}

/// Looks for the shard's stamp in all of its hash slots. The run in the stamp says that the shard
/// has lost nothing since; and slots that came from another shard have brought their marks along.
async fn look_everywhere(
    target: &Target,
    wire: &mut Wire,
    slots: &[u16],
    own: &str,
) -> Result<Option<Duration>, Fault> {
    for slots in slots.chunks(AT_ONCE) {
        let found = stamps(target, wire, slots).await?;
        if let Some(quarantine) = quarantine_of(&found, own) {
            return Ok(Some(quarantine));
        }
    }
    Ok(None)
}

/// Gives the shard its stamp in these hash slots, too; not in those that are being moved.
async fn set_stamps(
    target: &Target,
    wire: &mut Wire,
    slots: &[u16],
    own: &str,
) -> Result<(), Fault> {
    let gate = &target.gate;
    let set = |slot: &u16| {
        redis::cmd("SET")
            .arg(stamp_key(gate, *slot))
            .arg(own)
            .take()
    };
    let commands: Vec<_> = slots.iter().map(set).collect();
    for reply in exchange(wire, &commands).await? {
        let sent = match &reply {
            Resp::ServerError(error) => redirect(error),
            _ => None,
        };
        match sent {
            None => drop(permitted(gate, "set", reply)?),
            Some(Redirect::Moved { .. } | Redirect::Ask { .. }) => {}
            // The other slots may move away before the next connection, and no stamp would be left.
            Some(_) => elsewhere(Some(reply)).map(drop)?,
        }
    }
    Ok(())
}
