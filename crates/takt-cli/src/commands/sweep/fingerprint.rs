//! Fingerprints of texts, for states.

/// The fingerprint of no text.
pub(in crate::commands) const BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// The fingerprint of a text and of these bytes behind it: FNV-1a of 64 bits (Fowler, Noll, Vo, 1991). O(n).
pub(in crate::commands) fn continued(fingerprint: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(fingerprint, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Tells texts apart.
pub(in crate::commands) fn fingerprint(text: &str) -> String {
    format!("{:016x}", continued(BASIS, text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_the_known_fingerprints() {
        // From the authors' test vectors.
        assert_eq!((fingerprint(""), fingerprint("foobar")), ("cbf29ce484222325".into(), "85944171f73967e8".into()));
        assert_eq!(continued(continued(BASIS, b"foo"), b"bar"), 0x8594_4171_f739_67e8);
    }
}
