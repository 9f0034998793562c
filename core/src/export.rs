//! The text that carries a lease from one client to another.
//!
//! `quorlock1.` and, in base64url (RFC 4648, section 5), what the other client needs: which set,
//! which lock, the value whose votes it takes over, and the lease's terms; at the end a checksum.
//! Any client that has the text can take the lock, so nothing here shows it.

use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;

use crate::config::is_label;
use crate::error::Error;
use crate::hash::fnv1a;
use crate::node::Value;
use crate::node::names::Naming;

/// How a text begins; the number is that of its layout.
const PREFIX: &str = "quorlock1.";
/// Stands for "none" among the numbers.
const NONE: u64 = u64::MAX;

/// What a text says.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct LeaseText {
    pub(crate) set_name: String,
    pub(crate) nodes: u64,
    /// The key of its queue, which tells the namespace of a raw name, too.
    pub(crate) queue: Vec<u8>,
    /// Its name.
    pub(crate) name: Vec<u8>,
    pub(crate) raw: bool,
    pub(crate) slot: Option<u32>,
    /// The value that stands on the nodes, which a client of ours has made.
    pub(crate) value: Value,
    pub(crate) ttl: Duration,
    pub(crate) renew: bool,
    /// The last fence that was counted for it; 0 without fences.
    pub(crate) fence: u64,
    /// How much of `max_hold` was left.
    pub(crate) max_hold: Option<Duration>,
}

impl LeaseText {
    pub(crate) fn naming(&self) -> Naming {
        if self.raw {
            Naming::Raw
        } else {
            Naming::Tagged
        }
    }

    pub(crate) fn to_text(&self) -> String {
        let mut bytes = Vec::new();
        for text in [
            self.set_name.as_bytes(),
            &self.queue,
            &self.name,
            &self.value.0,
        ] {
            bytes.extend_from_slice(&(text.len() as u64).to_be_bytes());
            bytes.extend_from_slice(text);
        }
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(NONE);
        for number in [
            self.nodes,
            u64::from(self.raw),
            self.slot.map_or(NONE, u64::from),
            millis(self.ttl),
            u64::from(self.renew),
            self.fence,
            self.max_hold.map_or(NONE, millis),
        ] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        let sum = fnv1a(&bytes);
        bytes.extend_from_slice(&sum.to_be_bytes());
        format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&bytes))
    }

    /// # Errors
    ///
    /// `InvalidArgument`, which does not show the text.
    pub(crate) fn parse(text: &str) -> Result<LeaseText, Error> {
        let text = text.trim();
        let Some(code) = text.strip_prefix(PREFIX) else {
            return Err(Error::invalid(format!(
                "this text is no exported lease: one begins with `{PREFIX}`; another number there \
                 is of another version of Quorlock"
            )));
        };
        let damaged = || {
            Error::invalid(
                "the text of the exported lease is damaged, or a part of it is missing: hand it on \
                 as it was exported",
            )
        };
        let bytes = BASE64URL_NOPAD.decode(code.as_bytes());
        let bytes = bytes.map_err(|_| damaged())?;
        let (bytes, sum) = bytes.split_last_chunk().ok_or_else(damaged)?;
        if fnv1a(bytes) != u64::from_be_bytes(*sum) {
            return Err(damaged());
        }
        LeaseText::read(bytes).ok_or_else(damaged)
    }

    fn read(mut bytes: &[u8]) -> Option<LeaseText> {
        fn number(bytes: &mut &[u8]) -> Option<u64> {
            let (number, rest) = bytes.split_first_chunk()?;
            *bytes = rest;
            Some(u64::from_be_bytes(*number))
        }
        let mut texts = Vec::new();
        for _ in 0..4 {
            let long = usize::try_from(number(&mut bytes)?).ok()?;
            let (text, rest) = bytes.split_at_checked(long)?;
            bytes = rest;
            texts.push(text.to_vec());
        }
        let mut numbers = [0; 7];
        for place in &mut numbers {
            *place = number(&mut bytes)?;
        }
        let [nodes, raw, slot, ttl, renew, fence, max_hold] = numbers;
        let yes = |number: u64| (number <= 1).then_some(number == 1);
        let [set_name, queue, name, value]: [Vec<u8>; 4] = texts.try_into().ok()?;
        let some = |number: u64| (number != NONE).then_some(number);
        bytes.is_empty().then_some(())?;
        // The checksum is no signature: a text may say anything. Only a value that is ours names a
        // lease; any other would be that of another library, or a text that a node makes itself.
        let value = Value(value.into());
        is_whole(&value).then_some(())?;
        let (raw, slot) = (yes(raw)?, some(slot).map(u32::try_from).transpose().ok()?);
        // A semaphore has no raw name.
        (!raw || slot.is_none()).then_some(())?;
        Some(LeaseText {
            set_name: String::from_utf8(set_name).ok()?,
            nodes,
            queue,
            name,
            raw,
            slot,
            value,
            ttl: Duration::from_millis(ttl),
            renew: yes(renew)?,
            fence,
            max_hold: some(max_hold).map(Duration::from_millis),
        })
    }
}

/// Whether a client of ours can have made the value, to the letter: a token, a dot, and a label that
/// an option may have.
fn is_whole(value: &Value) -> bool {
    let label = value.label().map(str::from_utf8);
    label.is_some_and(|label| label.is_ok_and(is_label))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Client, ErrorKind, blocking, testing};
    use proptest::prelude::*;

    fn exported(name: &[u8], slot: Option<u32>, max_hold: Option<u64>) -> LeaseText {
        LeaseText {
            set_name: "default".into(),
            nodes: 3,
            queue: [b"lock:#q:{", name, b"}"].concat(),
            name: name.to_vec(),
            raw: false,
            slot,
            value: Value([&[b'a'; 40], &b".me"[..]].concat().into()),
            ttl: Duration::from_secs(10),
            renew: true,
            fence: 1 << 52,
            max_hold: max_hold.map(Duration::from_millis),
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            name in proptest::collection::vec(any::<u8>(), 1..200),
            slot in proptest::option::of(0u32..128),
            max_hold in proptest::option::of(0u64..1 << 40),
        ) {
            let lease = exported(&name, slot, max_hold);
            prop_assert!(LeaseText::parse(&lease.to_text()).unwrap() == lease);
        }

        #[test]
        fn any_other_text_is_refused_and_not_shown(
            place in any::<prop::sample::Index>(),
            with in "[A-Za-z0-9_.-]",
            cut in any::<prop::sample::Index>(),
        ) {
            let text = exported(b"orders", None, None).to_text();
            let (place, cut) = (place.index(text.len()), cut.index(text.len()));
            let changed = [&text[..place], &with, &text[place + 1..]].concat();
            for other in [changed, text[..cut].to_owned(), format!("{text}A")] {
                if other == text {
                    continue;
                }
                let error = LeaseText::parse(&other).err().expect("it is damaged");
                prop_assert_eq!(error.kind(), crate::ErrorKind::InvalidArgument);
                prop_assert!(!error.to_string().contains(&text[20..30]));
            }
        }
    }

    #[test]
    fn a_text_that_names_no_lease_is_refused() {
        let token = "a".repeat(40);
        for value in [
            "",
            "worker-7",
            "@0 ",
            "&0 1 ",
            "&0 0 ",
            &format!("=99999999999999999 {token}."),
            &format!("-99999999999999999 {token}."),
            &token,
            &token.to_uppercase(),
            &format!("{token}:me"),
            &format!("{token}.a\nb"),
            &format!(
                "{token}.{token}{token}{token}{token}{token}{token}{}",
                "a".repeat(17)
            ),
        ] {
            for raw in [false, true] {
                let lease = LeaseText {
                    value: Value(value.as_bytes().into()),
                    raw,
                    ..exported(b"orders", None, None)
                };
                let refused = LeaseText::parse(&lease.to_text()).err();
                let refused = refused.expect("it names no lease").kind();
                assert_eq!(refused, ErrorKind::InvalidArgument, "{value}");
            }
        }
    }

    #[test]
    fn a_slot_of_a_raw_name_is_refused() {
        let raw = |slot| LeaseText {
            raw: true,
            ..exported(b"o", slot, None)
        };
        assert!(LeaseText::parse(&raw(None).to_text()).is_ok());
        assert!(LeaseText::parse(&raw(Some(0)).to_text()).is_err());
    }

    #[test]
    fn a_text_with_numbers_that_no_lease_has_is_refused() {
        let client = Client::new(["memory://exported-odd"]).unwrap();
        let odd = [
            LeaseText {
                slot: Some(u32::MAX),
                nodes: 1,
                ..exported(b"orders", None, None)
            },
            LeaseText {
                slot: Some(0),
                raw: true,
                nodes: 1,
                ..exported(b"o", None, None)
            },
            LeaseText {
                ttl: Duration::from_millis(u64::MAX),
                nodes: 1,
                ..exported(b"orders", None, None)
            },
        ];
        for lease in odd {
            let refused = blocking::wait(client.adopt(&lease.to_text())).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        }
    }

    #[test]
    fn it_goes_on_once_with_a_larger_fence() {
        let node = |place| format!("memory://exported-{place}");
        let client = || Client::new([node(0), node(1), node(2)]).unwrap();
        let (one, other) = (client(), client());
        let first = blocking::wait(one.lock("k").acquire()).unwrap();
        let text = blocking::wait(first.export()).unwrap();
        assert!(!first.is_held());
        assert!(!blocking::wait(first.release()).unwrap());
        let second = blocking::wait(other.adopt(&text)).unwrap();
        assert!(second.is_held() && second.fence() > first.fence());
        let again = blocking::wait(one.adopt(&text)).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::LockLost);
        assert!(blocking::wait(second.release()).unwrap());
        let late = blocking::wait(one.adopt(&text)).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::LockLost);
    }

    #[test]
    fn it_goes_on_for_what_is_left_of_max_hold() {
        let nodes = testing::nodes(3);
        let (one, other) = (Client::new(&nodes).unwrap(), Client::new(&nodes).unwrap());
        let long = Duration::from_secs(30);
        let lock = one.lock("k").ttl(long).max_hold(long);
        let first = blocking::wait(lock.acquire()).unwrap();
        let text = blocking::wait(first.export()).unwrap();
        let left = |text: &str| {
            let text = LeaseText::parse(text).expect("it is whole");
            text.max_hold.expect("it is bounded")
        };
        assert!(left(&text) < long);
        let second = blocking::wait(other.adopt(&text)).unwrap();
        assert!(second.is_held() && second.remaining() <= left(&text));
        // Whatever lengthens it.
        blocking::wait(second.extend(2 * long)).unwrap();
        assert!(second.is_held() && second.remaining() <= left(&text));
        // It is the same for all that follow.
        let next = blocking::wait(second.export()).unwrap();
        assert!(left(&next) < long && left(&next) <= left(&text));
        let third = blocking::wait(one.adopt(&next)).unwrap();
        assert!(third.is_held() && third.remaining() <= left(&next));
        assert!(blocking::wait(third.release()).unwrap());
    }

    #[test]
    fn its_terms_are_its_own_and_not_those_of_the_client_that_goes_on() {
        let nodes = testing::nodes(3);
        let second = Duration::from_secs(1);
        let client = || Client::builder().nodes(&nodes).ttl(9 * second);
        let one = Client::new(&nodes).unwrap();
        for on in [true, false] {
            // Of its own locks each has all of this otherwise.
            let other = client().renew(!on).fencing(!on).keep(20 * second).fair(on);
            let other = other.max_hold(60 * second).build().unwrap();
            let java = client().layout(crate::Layout::Redisson).build().unwrap();
            let lock = one.lock("k").ttl(5 * second).max_hold(None);
            let first = blocking::wait(lock.renew(on).fencing(on).acquire()).unwrap();
            let mut text = blocking::wait(first.export()).unwrap();
            for next in [&other, &java, &one] {
                let before = LeaseText::parse(&text).expect("it is whole");
                assert_eq!(before.renew, on);
                let lease = blocking::wait(next.adopt(&text)).unwrap();
                assert_eq!(lease.fence().is_some(), on);
                text = blocking::wait(lease.export()).unwrap();
                let after = LeaseText::parse(&text).expect("it is whole");
                assert!(!on || after.fence > before.fence);
                let (value, fence) = (before.value.clone(), before.fence);
                let terms = LeaseText {
                    value,
                    fence,
                    ..after
                };
                assert!(terms == before, "{on}");
            }
            let last = blocking::wait(other.adopt(&text)).unwrap();
            assert!(blocking::wait(last.release()).unwrap());
            // It is not kept.
            let free = one.lock("k").wait(Duration::ZERO);
            assert!(blocking::wait(free.acquire()).is_ok());
        }
    }

    #[test]
    fn a_lease_of_another_set_is_refused() {
        let nodes = testing::nodes(3);
        let one = Client::new(&nodes).unwrap();
        let text = blocking::wait(one.lock("k").acquire()).unwrap();
        let text = blocking::wait(text.export()).unwrap();
        let named = Client::builder().nodes(&nodes).set_name("another");
        let named = named.build().unwrap();
        let fewer = Client::new(&nodes[..2]).unwrap();
        for other in [named, fewer] {
            let refused = blocking::wait(other.adopt(&text)).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
            assert!(refused.message().contains("of the set `"), "{refused}");
        }
        assert!(blocking::wait(one.adopt(&text)).unwrap().is_held());
    }

    #[test]
    fn a_lease_whose_fence_the_nodes_do_not_count_is_given_back() {
        let nodes = testing::nodes(3);
        let (one, other) = (Client::new(&nodes).unwrap(), Client::new(&nodes).unwrap());
        let first = blocking::wait(one.lock("k").acquire()).unwrap();
        let text = blocking::wait(first.export()).unwrap();
        // As of nodes that have counted further, and have lost that.
        let further = LeaseText {
            fence: 1 << 52,
            ..LeaseText::parse(&text).expect("it is whole")
        };
        let lost = blocking::wait(other.adopt(&further.to_text())).unwrap_err();
        assert_eq!(lost.kind(), ErrorKind::LockLost);
        assert!(lost.message().contains("lost their counters"), "{lost}");
        let free = one.lock("k").wait(Duration::from_secs(5));
        assert!(blocking::wait(free.acquire()).is_ok());
    }

    #[test]
    fn one_whose_key_is_a_lock_in_another_layout_by_now_is_refused_at_once() {
        let nodes = testing::nodes(3);
        let client = Client::new(&nodes).unwrap();
        let raw = client.lock("orders").raw(true);
        let text = blocking::wait(raw.acquire()).unwrap();
        let text = blocking::wait(text.export()).unwrap();
        blocking::wait(raw.force_release(None)).unwrap();
        let java = client.lock("orders").layout(crate::Layout::Redisson);
        let java = blocking::wait(java.acquire()).unwrap();
        // A caller that asks again and again gets the same answer when the time is up.
        let refused = blocking::wait(client.adopt(&text)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Misconfigured, "{refused}");
        assert!(blocking::wait(java.release()).unwrap());
    }

    #[test]
    fn a_lease_of_which_no_time_is_left_is_lost() {
        let client = Client::new(["memory://exported-late"]).unwrap();
        let lease = LeaseText {
            nodes: 1,
            ..exported(b"orders", None, Some(9))
        };
        let lost = blocking::wait(client.adopt(&lease.to_text())).unwrap_err();
        assert_eq!(lost.kind(), ErrorKind::LockLost);
    }
}
