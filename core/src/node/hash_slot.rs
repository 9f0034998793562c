//! Which of the 16,384 hash slots of a cluster a key belongs to (Redis cluster specification,
//! "Key distribution model"), and a short tag of each, for keys that are to be in one.

use crate::node::names::hash_tag;
use crate::process::LazyValue;

/// How many hash slots a cluster has.
pub(crate) const SLOTS: usize = 16_384;

/// The hash slot of a key: of its tag, if it has one.
pub(crate) fn of(key: &[u8]) -> u16 {
    crc16(hash_tag(key).unwrap_or(key)) % SLOTS as u16
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| {
        (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)]
    })
}

const TABLE: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = (i as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            let carried = crc & 0x8000 != 0;
            crc <<= 1;
            if carried {
                crc ^= 0x1021;
            }
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

/// A short text that hashes to a hash slot: the first number that does.
pub(crate) fn tag(slot: u16) -> String {
    TAGS[usize::from(slot) % SLOTS].to_string()
}

static TAGS: LazyValue<Box<[u32]>> = LazyValue::new(|| {
    let mut tags = vec![u32::MAX; SLOTS];
    let (mut left, mut number) = (SLOTS, 0);
    while left > 0 {
        let tag = &mut tags[usize::from(of(number.to_string().as_bytes()))];
        if *tag == u32::MAX {
            (*tag, left) = (number, left - 1);
        }
        number += 1;
    }
    tags.into()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_hash_as_the_specification_says() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(of(b"foo"), 12182);
        assert_eq!(of(b"lock:{foo}"), 12182);
        assert_eq!(of(b"{}foo"), of(b"{}foo"));
        assert_ne!(of(b"{}foo"), 12182);
    }

    #[test]
    fn every_hash_slot_has_a_short_tag() {
        for slot in 0..SLOTS as u16 {
            let tag = tag(slot);
            assert_eq!(of(format!("lock:#shard:{{{tag}}}").as_bytes()), slot);
            assert!(tag.len() <= 6, "{tag}");
        }
    }
}
