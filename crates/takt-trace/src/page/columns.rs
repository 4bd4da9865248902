//! Columns of numbers, as small as they get: differences in variable-length numbers, deflated, in base64.

use miniz_oxide::deflate::compress_to_vec;

/// The level at which deflating costs about as much time as a trace in CSV.
const LEVEL: u8 = 6;

/// A column that is written number by number.
#[derive(Default)]
pub(super) struct Column(Vec<u8>);

impl Column {
    /// Seven bits a byte, the lowest first; the highest bit says that another byte follows (LEB128).
    pub(super) fn unsigned(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// Numbers near zero are short, whatever their sign.
    pub(super) fn signed(&mut self, value: i64) {
        self.unsigned(((value << 1) ^ (value >> 63)) as u64);
    }

    /// A number that may be absent.
    pub(super) fn optional(&mut self, value: Option<u64>) {
        self.unsigned(value.map_or(0, |value| value + 1));
    }

    /// The text of the column.
    pub(super) fn text(&self) -> String {
        base64(&compress_to_vec(&self.0, LEVEL))
    }
}

/// Base64 of RFC 4648, with padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let sextet = (bits >> (18 - 6 * digit) & 63) as usize;
            text.push(if digit > chunk.len() { '=' } else { char::from(ALPHABET[sextet]) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        // The test vectors of RFC 4648, section 10.
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn numbers_near_zero_take_one_byte() {
        let mut column = Column::default();
        [0, -1, 1, -64, 63].into_iter().for_each(|value| column.signed(value));
        assert_eq!(column.0, [0, 1, 2, 127, 126]);
        column.signed(64);
        column.optional(None);
        column.optional(Some(127));
        assert_eq!(column.0[5..], [0x80, 1, 0, 0x80, 1]);
    }
}
