//! Admitting a node: what its record, and those of the other nodes, say is carried
//! out.

use std::future::poll_fn;
use std::time::Duration;

use redis::Value as Resp;

use super::greet::has_voted;
use super::hello::count;
use super::prepare::permitted;
use super::talk::{elsewhere, exchange, exchange_long, good, not_ready, refused, unmoved};
use super::target::Target;
use crate::event::event;
use crate::node::admission::{Admission, Gate, Observation, QuarantineCause, Record, Refusal};
use crate::node::redis::replies::text;
use crate::node::redis::wire::Wire;
use crate::node::redis::{replies, resp, script};
use crate::node::{Fault, FaultKind};

/// How often a record may be written, or found changed, on the way to a
/// connection. Founding a set takes two; each may meet another client.
const WRITES: u32 = 6;

/// The keys of a node's record.
pub(super) struct RecordKeys<'a> {
    pub(super) record: &'a [u8],
    /// The quarantine's key; without it there is no quarantine here: each part of the node has its
    /// own.
    pub(super) quarantine: Option<&'a [u8]>,
    /// The record is not being moved with its hash slot: it may be read again, and written.
    pub(super) stays: bool,
}

impl RecordKeys<'_> {
    /// The keys of a node that is one server.
    pub(super) fn of(gate: &Gate) -> RecordKeys<'_> {
        RecordKeys {
            record: &gate.record_key,
            quarantine: Some(&gate.quarantine_key),
            stays: true,
        }
    }
}

/// Admits the node: its record is good, or is written now. Returns the record. Waits for the other
/// nodes of a set that is being founded; the caller bounds the wait.
pub(super) async fn admit(
    target: &Target,
    wire: &mut Wire,
    look: &mut Observation,
    keys: RecordKeys<'_>,
) -> Result<String, Fault> {
    let RecordKeys {
        record: record_key,
        quarantine: quarantine_key,
        stays,
    } = keys;
    let gate = &target.gate;
    let fresh = fresh_name(gate);
    let mut writes = 0;
    loop {
        let seen = gate.survey.changes();
        match gate.survey.look(target.node, look, &fresh) {
            Admission::Refuse(Refusal::Foreign(why)) => {
                return Err(Fault::new(FaultKind::Foreign, why, true));
            }
            Admission::Refuse(Refusal::Unfounded(why)) => {
                return Err(Fault::new(FaultKind::Unfounded, why, true));
            }
            Admission::Wait | Admission::Write(..) if !stays => {
                return Err(not_ready("the hash slot of its record is being moved"));
            }
            Admission::Wait => {
                change(target, seen).await;
                if quarantine_key.is_none() {
                    // Another part of the same node may have written the record.
                    look.stored = read_record(target, wire).await?;
                }
            }
            Admission::Admit => break,
            Admission::Write(..) if writes == WRITES => {
                let why = "its record changes again and again";
                return Err(Fault::new(FaultKind::NotReady, why, true));
            }
            Admission::Write(record, quarantine) => {
                writes += 1;
                let quarantine = quarantine_key.map_or(Duration::ZERO, |_| quarantine);
                let keys = [record_key, quarantine_key.unwrap_or(record_key)];
                let why = cause(target, look);
                let (old, new) = (look.stored.take().unwrap_or_default(), record.to_string());
                // Another client may write a record at the same time; the record that stands
                // afterwards counts.
                let pledges = quarantine_key.is_some() && record.is_pledge();
                let written =
                    write(target, wire, keys, (&old, &new), (quarantine, why), pledges).await?;
                look.stored = match written.other {
                    None => {
                        look.stepped = false;
                        tell_quarantine(target, quarantine, why);
                        Some(new)
                    }
                    Some(other) => Some(other).filter(|other| !other.is_empty()),
                };
                if quarantine_key.is_some() {
                    let (stored, counts) = (look.stored.as_deref(), written.counts.as_deref());
                    look.voted = has_voted(target, wire, stored, counts).await?;
                }
            }
        }
    }
    let record = look.stored.clone().unwrap_or_default();
    gate.roster
        .admit(target.node, &record, gate.clock.now())
        .map_err(refused)?;
    Ok(record)
}

/// The record of a node of several parts, on that which has it.
pub(super) async fn read_record(target: &Target, wire: &mut Wire) -> Result<Option<String>, Fault> {
    let gate = &target.gate;
    let get = redis::cmd("GET").arg(&*gate.record_key).take();
    record_in(gate, exchange(wire, &[get]).await?.pop())
}

/// The record that was answered.
pub(super) fn record_in(gate: &Gate, reply: Option<Resp>) -> Result<Option<String>, Fault> {
    let stored = permitted(gate, "get", elsewhere(reply)?)?;
    Ok(Some(stored).filter(|r| *r != Resp::Nil).map(|r| text(&r)))
}

/// Waits until a node shows something new, if none has since `seen` was counted.
async fn change(target: &Target, seen: u64) {
    /// Gives the place back also where the wait is given up.
    struct ParkedRecord<'a>(&'a Target, Option<u64>);
    impl Drop for ParkedRecord<'_> {
        fn drop(&mut self) {
            self.0.gate.survey.leave(self.0.node, self.1);
        }
    }
    let mut parked = ParkedRecord(target, None);
    poll_fn(|cx| target.gate.survey.poll_change(seen, &mut parked.1, cx)).await;
}

/// Why a node with this look may have lost votes.
fn cause(target: &Target, look: &Observation) -> QuarantineCause {
    let record = look.stored.as_deref().and_then(Record::parse);
    match record.is_some_and(|record| !record.is_pledge()) {
        false => QuarantineCause::New,
        true if look.stepped => QuarantineCause::Clock,
        true if target.address.fails_over() => QuarantineCause::Promoted,
        true => QuarantineCause::Restarted,
    }
}

pub(super) fn tell_quarantine(target: &Target, quarantine: Duration, why: QuarantineCause) {
    if quarantine.is_zero() {
        return;
    }
    (target.gate.warn)(event!(
        "node_quarantined",
        "the node {node} {cause}, so it may have lost votes: it gives none for {time} (a wholly new set need not \
         wait once its servers have run for max_ttl)",
        node = target.address.shown,
        cause = why.text(),
        time = format!("{quarantine:?}"),
    ));
}

fn fresh_name(gate: &Gate) -> String {
    let mut bytes = [0; 8];
    gate.rng.fill(&mut bytes);
    format!("{:016x}", u64::from_le_bytes(bytes))
}

/// Replaces the record if it is still `old`; otherwise returns what it is.
pub(super) async fn write_record(
    target: &Target,
    wire: &mut Wire,
    keys: [&[u8]; 2],
    old: &str,
    new: &str,
    quarantine: (Duration, QuarantineCause),
) -> Result<Option<String>, Fault> {
    let written = write(target, wire, keys, (old, new), quarantine, false).await?;
    Ok(written.other)
}

/// What came of writing a record.
struct RecordWrite {
    /// Another record stood there.
    other: Option<String>,
    /// What the server has carried out by then.
    counts: Option<String>,
}

/// Replaces the record as above. `counts`: asks behind it what the server has carried out.
async fn write(
    target: &Target,
    wire: &mut Wire,
    keys: [&[u8]; 2],
    (old, new): (&str, &str),
    (quarantine, cause): (Duration, QuarantineCause),
    counts: bool,
) -> Result<RecordWrite, Fault> {
    let quarantine = (quarantine, cause.word());
    let mut commands = vec![script::init_command(keys, old, new, quarantine)];
    commands.extend(counts.then(count));
    let mut replies = exchange_long(wire, &commands, resp::COUNTS).await?;
    let counts = if counts {
        replies.pop().map(|reply| text(&reply))
    } else {
        None
    };
    let reply = replies.pop().ok_or_else(replies::unexpected)?;
    let other = replies::init_outcome(&good(unmoved(target, reply)?)?)?;
    Ok(RecordWrite { other, counts })
}
