//! Which other namespaces have a set on a server, of those that begin with this client's or with
//! which this client's begins: one lock may then have the key of another
//! (docs/reference/protocol.md, "Keys"). For people that look.

use std::collections::BTreeSet;

use redis::Value as Resp;

use super::talk::{exchange, exchange_long, within};
use super::target::Target;
use crate::node::admission::Record;
use crate::node::names::record_key;
use crate::node::redis::replies::text;
use crate::node::redis::resp;
use crate::node::redis::wire::Wire;

/// About this many keys a server looks at before it answers,
const COUNT: usize = 1000;
/// and so often it is asked.
const STEPS: usize = 100;
/// The most keys that are read, to see whether they are records.
const MOST: usize = 8;

/// Looks for their records, which lie under their names as this set's does. A user that may not
/// `SCAN` finds none, and what is not found within the time of one request is left out.
pub(super) async fn nested(target: &Target, wire: &mut Wire, found: &mut BTreeSet<Vec<u8>>) {
    let gate = &target.gate;
    let look = async {
        let end = record_key("");
        let ours = gate.record_key.strip_suffix(&*end).unwrap_or_default();
        let begins = |one: &[u8]| one != ours && (one.starts_with(ours) || ours.starts_with(one));
        let (mut keys, mut cursor) = (BTreeSet::new(), "0".to_owned());
        for _ in 0..STEPS {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg([b"*", &*end].concat());
            scan.arg("COUNT").arg(COUNT);
            let reply = exchange_long(wire, &[scan], resp::KEYS).await?.pop();
            let reply =
                redis::from_redis_value::<(String, Vec<Vec<u8>>)>(reply.unwrap_or(Resp::Nil));
            let Ok((next, more)) = reply else { break };
            keys.extend(
                more.into_iter()
                    .filter(|key| key.strip_suffix(&*end).is_some_and(begins)),
            );
            cursor = next;
            if cursor == "0" || keys.len() >= MOST {
                break;
            }
        }
        for key in keys.into_iter().take(MOST) {
            let reply = exchange(wire, &[redis::cmd("GET").arg(&key).take()])
                .await?
                .pop();
            if Record::parse(&text(&reply.unwrap_or(Resp::Nil))).is_some() {
                found.insert(key[..key.len() - end.len()].to_vec());
            }
        }
        Ok(())
    };
    let _ = within(&gate.clock, gate.node_timeout, look).await;
}
