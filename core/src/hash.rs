//! A hash of a text that is the same in every client, and maps that hash faster than those of the
//! standard library, for what every cycle looks up.

/// A map with hashes that are seeded anew in each process: an attacker could choose names that
/// collide only by seeing hashes, and none are shown.
pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;

/// FNV-1a with 64 bits.
pub(crate) const fn fnv1a(text: &[u8]) -> u64 {
    let (mut hash, mut i) = (0xcbf2_9ce4_8422_2325, 0);
    while i < text.len() {
        hash = (hash ^ text[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::fnv1a;

    #[test]
    fn texts_have_the_hashes_of_the_specification() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
