//! Fingerprints of texts, for states.

/// Tells texts apart: FNV-1a of 64 bits (Fowler, Noll, Vo, 1991).
pub(in crate::commands) fn fingerprint(text: &str) -> String {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_the_known_fingerprints() {
        // From the authors' test vectors.
        assert_eq!((fingerprint(""), fingerprint("foobar")), ("cbf29ce484222325".into(), "85944171f73967e8".into()));
    }
}
